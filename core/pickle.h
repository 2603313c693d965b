// What a Python pickle says, as plain values. A pickle is a program for a stack machine that may
// call any function; this one knows the instructions that torch writes for dictionaries of tensors
// (protocol 2), calls nothing, and refuses all others by name. (Python's pickletools.py.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gossamer {

class Pickle {
 public:
  // text: Python's str. global: the name of a function or class, "module.name". call: what a
  // function would return; parts: the function, its arguments (a tuple), and what BUILD would set.
  // outside: a thing that lies beside the pickle; parts: its description.
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    tuple,
    list,
    dict,
    global,
    call,
    outside
  };
  struct Value {
    Kind kind = Kind::none;
    std::int64_t integer = 0;  // boolean, integer
    double real = 0;
    std::string text = {};                  // text, global
    std::vector<std::uint32_t> parts = {};  // numbers of values; dict: key, value, key, value …
  };

  // globals: the names that may occur; collections.OrderedDict always may, and makes a dict.
  // IoError: `name`, and the instruction, global or limit that stopped it.
  Pickle(std::span<const std::byte> bytes, const std::string& name,
         std::span<const std::string_view> globals);

  // A value may be a part of several others, and of itself: do not walk without a limit.
  const Value& root() const { return values_[root_]; }
  const Value& part(const Value& whole, std::size_t i) const { return values_[whole.parts[i]]; }
  // The value of a key of a dict; nullptr if it is missing or `dict` is none.
  const Value* find(const Value& dict, std::string_view key) const;

 private:
  friend class PickleMachine;
  std::vector<Value> values_;
  std::uint32_t root_ = 0;
};

// Without control characters, and not long: for messages.
std::string shown(std::string_view untrusted);

}  // namespace gossamer
