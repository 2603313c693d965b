// What a Python pickle says, as plain values. A pickle is a program for a stack machine that may
// call any function; this one knows the instructions that Python writes for plain values and
// objects in the protocols 2 to 5, calls nothing, and refuses all others by name. (Python's
// pickletools.py.)
// Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/io/input_file.h"

namespace gossamer {

class Pickle {
 public:
  // integer: of 64 bits at most; larger ones are real. text: Python's str. bytes: Python's bytes,
  // bytearray, and Python 2's str; they stay where they are. list: also a set.
  // global: the name of a function or class, "module.name". call: what a function would return;
  // parts: the function, its arguments (a tuple), and what BUILD would set. outside: a thing that
  // lies beside the pickle; parts: its description.
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    bytes,
    tuple,
    list,
    dict,
    global,
    call,
    outside
  };
  struct Value {
    Kind kind = Kind::none;
    std::int64_t integer = 0;  // boolean, integer; bytes: where they begin in the pickle
    double real = 0;
    std::size_t length = 0;  // bytes, list: how many
    std::string text = {};   // text, global; bytes: the first 255
    // Numbers of values; dict: key, value, key, value … Of plain numbers in very long lists only
    // the first are kept, see `length`.
    std::vector<std::uint32_t> parts = {};
  };

  struct Rules {
    // The names that may occur. Always allowed are collections.OrderedDict and defaultdict, which
    // make a dict, and builtins.set, which makes a list.
    std::span<const std::string_view> globals;
    // For errors: what such a pickle is, and what to do about another.
    std::string_view of = "a file of weights",
                     advice = "Save the weights alone: torch.save(model.state_dict(), FILE)";
  };
  // Reads from byte `begin` on, all but the contents of Kind::bytes. IoError: the file's name, and
  // the instruction, global or limit that stopped it.
  Pickle(const InputFile&, const Rules&, std::uint64_t begin = 0);

  // A value may be a part of several others, and of itself: do not walk without a limit.
  const Value& root() const { return values_[root_]; }
  std::span<const Value> values() const { return values_; }  // all, in the order they were made
  std::uint64_t end() const { return end_; }                 // the first byte after it
  const Value& part(const Value& whole, std::size_t i) const { return values_[whole.parts[i]]; }
  // The value of a key (text or bytes, also as Python 3 writes bytes in protocol 2) of a dict;
  // nullptr if it is missing or `dict` is none.
  const Value* find(const Value& dict, std::string_view key) const;

 private:
  friend class PickleMachine;
  std::vector<Value> values_;
  std::uint32_t root_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace gossamer
