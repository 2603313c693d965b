// See pickle.h.
#include "gossamer/core/io/pickle.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"

namespace gossamer {
namespace {

// Instructions, by their names in Python's pickletools.
enum class Op : unsigned char {
  proto = 0x80,
  stop = '.',
  mark = '(',
  none = 'N',
  newtrue = 0x88,
  newfalse = 0x89,
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  long1 = 0x8a,
  binfloat = 'G',
  binunicode = 'X',
  empty_tuple = ')',
  empty_list = ']',
  empty_dict = '}',
  tuple = 't',
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  append = 'a',
  appends = 'e',
  setitem = 's',
  setitems = 'u',
  binput = 'q',
  long_binput = 'r',
  binget = 'h',
  long_binget = 'j',
  global = 'c',
  reduce = 'R',
  newobj = 0x81,
  build = 'b',
  binpersid = 'Q',
  // for bytes, and of protocols 3 and 4
  short_binstring = 'U',
  binstring = 'T',
  short_binbytes = 'C',
  binbytes = 'B',
  binbytes8 = 0x8e,
  short_binunicode = 0x8c,
  stack_global = 0x93,
  memoize = 0x94,
  frame = 0x95,
  // sets, large things, newer forms
  empty_set = 0x8f,
  additems = 0x90,
  frozenset = 0x91,
  newobj_ex = 0x92,
  long4 = 0x8b,
  binunicode8 = 0x8d,
  bytearray8 = 0x96,
  pop = '0',
  pop_mark = '1'
};

}  // namespace

// Values are made once and named by their number; the stack and the memo hold numbers. So a list
// that holds itself leaks nothing, and no value is copied.
class PickleMachine {
 public:
  PickleMachine(Pickle& out, const InputFile& file, const Pickle::Rules& rules, std::uint64_t begin)
      : out_(out), file_(file), rules_(rules), at_(begin) {}

  void run() {
    while (!step(number<Op>())) {
      limit(out_.values_.size(), "values");
      limit(stack_.size(), "values on its stack");
      limit(memo_.size(), "entries in its memo");
    }
    out_.root_ = pop();
    out_.end_ = at_;
  }

 private:
  using Kind = Pickle::Kind;
  using Value = Pickle::Value;
  static constexpr std::size_t kMost = 1'000'000, kDeepest = 100, kMostText = 64 << 20,
                               kWindow = 1 << 16;

  template <class... Parts>
  [[noreturn]] void stop(const Parts&... parts) const {
    fail<IoError>(file_.name(), ": byte ", at_, " of its pickle: ", parts...);
  }
  void limit(std::size_t n, const char* what) const {
    if (n > kMost) stop("more than ", kMost, " ", what);
  }

  void need_bytes(std::uint64_t n) const {
    if (n > file_.size() - at_) stop("it is cut short");
  }
  template <class T>
  T number() {
    need_bytes(sizeof(T));
    if (at_ + sizeof(T) > window_at_ + window_.size()) {
      window_.resize(std::min<std::uint64_t>(kWindow, file_.size() - at_));
      file_.read(window_at_ = at_, window_);
    }
    T value;
    std::memcpy(&value, window_.data() + (at_ - window_at_), sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string text(std::uint64_t n) {
    need_bytes(n);
    if ((texts_ += n) > kMostText) stop("more than ", kMostText, " bytes of text");
    std::string out(n, '\0');
    file_.read(at_, std::as_writable_bytes(std::span(out)));
    at_ += n;
    return out;
  }
  std::string line() {
    std::string out;
    for (char c; (c = number<char>()) != '\n'; out += c)
      if (out.size() > 1000) stop("a name of more than 1000 letters");
    return out;
  }

  // --- stack and memo
  void push(Value value) {
    stack_.push_back(static_cast<std::uint32_t>(out_.values_.size()));
    out_.values_.push_back(std::move(value));
  }
  void push(Kind kind, std::int64_t integer = 0) { push({.kind = kind, .integer = integer}); }
  // What lies below the last mark belongs to the mark before it.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  void need(std::size_t n) const {
    if (stack_.size() - floor() < n) stop("its stack holds too few values");
  }
  std::uint32_t pop() {
    need(1);
    const std::uint32_t value = stack_.back();
    stack_.pop_back();
    return value;
  }
  std::vector<std::uint32_t> pop(std::size_t n) {
    need(n);
    std::vector<std::uint32_t> last(stack_.end() - static_cast<std::ptrdiff_t>(n), stack_.end());
    stack_.resize(stack_.size() - n);
    return last;
  }
  std::vector<std::uint32_t> pop_to_mark() {
    if (marks_.empty()) stop("there is no mark");
    const std::size_t n = stack_.size() - marks_.back();
    auto last = pop(n);
    marks_.pop_back();
    return last;
  }
  Value& top() {
    need(1);
    return out_.values_[stack_.back()];
  }
  void put(std::uint32_t key) {
    need(1);
    memo_[key] = stack_.back();
    named_ = std::max<std::size_t>(named_, stack_.back() + std::size_t{1});
  }
  void get(std::uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) stop("its memo has no entry ", key);
    stack_.push_back(found->second);
  }

  // --- instructions
  void extend(Kind kind, const std::vector<std::uint32_t>& parts) {
    Value& whole = top();
    if (whole.kind != kind) stop("it adds to what is no ", kind == Kind::list ? "list" : "dict");
    if (kind == Kind::dict && parts.size() % 2 != 0) stop("a key without a value");
    whole.length += parts.size();
    if (kind == Kind::list && drop(parts)) return;
    whole.parts.insert(whole.parts.end(), parts.begin(), parts.end());
  }
  // Drops numbers that only their list holds, such as the losses of a long training: nobody asks
  // for them. False: they stay.
  bool drop(const std::vector<std::uint32_t>& parts) {
    auto& values = out_.values_;
    const std::size_t first = values.size() - std::min(parts.size(), values.size());
    if (values.size() < kMost / 2 || first < named_) return false;
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (parts[i] != first + i || values[parts[i]].kind > Kind::real) return false;
    values.resize(first);
    return true;
  }
  void global(std::string name) {
    if (name.starts_with("__builtin__.")) name.replace(0, 11, "builtins");  // Python 2's
    if (name != kOrderedDict && name != kDefaultDict && name != kSet &&
        std::ranges::find(rules_.globals, name) == rules_.globals.end())
      stop("it names ", printable(name, 100), ", which is no part of ", rules_.of,
           " and is not called. ", rules_.advice);
    push({.kind = Kind::global, .text = name});
  }
  std::string popped_text() {
    const Value& value = out_.values_[pop()];
    if (value.kind != Kind::text) stop("it names something by what is no text");
    return value.text;
  }
  void bytes(std::uint64_t n) {
    need_bytes(n);
    Value value{.kind = Kind::bytes, .integer = static_cast<std::int64_t>(at_), .length = n};
    value.text = text(std::min<std::uint64_t>(n, 255));
    at_ += n - value.text.size();
    push(std::move(value));
  }
  void call() {
    const auto parts = pop(2);
    const Value &function = out_.values_[parts[0]], &arguments = out_.values_[parts[1]];
    if (function.kind != Kind::global || arguments.kind != Kind::tuple)
      stop("it calls something that is no function");
    if (function.text == kSet && arguments.parts.size() == 1 &&
        out_.values_[arguments.parts[0]].kind == Kind::list)
      return stack_.push_back(arguments.parts[0]);
    if (function.text == kDefaultDict) return push(Kind::dict);
    if (function.text != kOrderedDict) return push({.kind = Kind::call, .parts = parts});
    Value dict{.kind = Kind::dict};
    if (!arguments.parts.empty()) dict.parts = items(out_.values_[arguments.parts[0]]);
    push(std::move(dict));
  }
  // Keys and values of a list of pairs, as Python 2 gives it to an OrderedDict.
  std::vector<std::uint32_t> items(const Value& list) const {
    std::vector<std::uint32_t> out;
    bool pairs = list.kind == Kind::list;
    for (const std::uint32_t n : list.parts) {
      const std::vector<std::uint32_t>& pair = out_.values_[n].parts;
      pairs &= pair.size() == 2;
      out.insert(out.end(), pair.begin(), pair.end());
    }
    if (!pairs) stop("an OrderedDict of what are no pairs");
    return out;
  }
  void build() {
    const std::uint32_t state = pop();
    Value& whole = top();
    if (whole.kind == Kind::dict) return;  // attributes of an OrderedDict: torch's _metadata
    if (whole.kind != Kind::call || whole.parts.size() != 2) stop("BUILD of a plain value");
    whole.parts.push_back(state);
  }
  void long_integer(std::size_t n) {
    need_bytes(n);
    std::uint64_t value = 0;
    double large = 0;
    std::uint8_t byte = 0;
    for (std::size_t i = 0; i < n; ++i) {
      byte = number<std::uint8_t>();
      if (i < 8) value |= static_cast<std::uint64_t>(byte) << (8 * i);
      large += std::ldexp(byte, static_cast<int>(std::min<std::size_t>(8 * i, 2000)));
    }
    // two's complement of n bytes
    const bool negative = (byte & 0x80) != 0;
    if (n > 8) {
      if (negative) large -= std::ldexp(1, static_cast<int>(std::min<std::size_t>(8 * n, 2000)));
      return push({.kind = Kind::real, .real = large});
    }
    if (n < 8 && negative) value |= ~std::uint64_t{0} << (8 * n);
    push(Kind::integer, static_cast<std::int64_t>(value));
  }
  double real() {  // big-endian
    std::uint64_t bits = __builtin_bswap64(number<std::uint64_t>());
    return __builtin_bit_cast(double, bits);
  }

  // True: the pickle ends here.
  bool step(Op code) {
    switch (code) {
      case Op::proto:
        if (const int protocol = number<std::uint8_t>(); protocol > 5)
          stop("protocol ", protocol, "; at most 5 is supported. ", rules_.advice);
        break;
      case Op::stop:
        return true;
      case Op::mark:
        if (marks_.size() >= kDeepest) stop("nested more than ", kDeepest, " deep");
        marks_.push_back(stack_.size());
        break;
      case Op::none:
        push(Kind::none);
        break;
      case Op::newtrue:
      case Op::newfalse:
        push(Kind::boolean, code == Op::newtrue);
        break;
      case Op::binint:
        push(Kind::integer, number<std::int32_t>());
        break;
      case Op::binint1:
        push(Kind::integer, number<std::uint8_t>());
        break;
      case Op::binint2:
        push(Kind::integer, number<std::uint16_t>());
        break;
      case Op::long1:
        long_integer(number<std::uint8_t>());
        break;
      case Op::binfloat:
        push({.kind = Kind::real, .real = real()});
        break;
      case Op::binunicode:
        push({.kind = Kind::text, .text = text(number<std::uint32_t>())});
        break;
      case Op::empty_tuple:
        push(Kind::tuple);
        break;
      case Op::empty_list:
        push(Kind::list);
        break;
      case Op::empty_dict:
        push(Kind::dict);
        break;
      case Op::tuple:
        push({.kind = Kind::tuple, .parts = pop_to_mark()});
        break;
      case Op::tuple1:
      case Op::tuple2:
      case Op::tuple3:
        push({.kind = Kind::tuple, .parts = pop(static_cast<std::size_t>(code) - 0x84)});
        break;
      case Op::append:
        extend(Kind::list, pop(1));
        break;
      case Op::appends:
        extend(Kind::list, pop_to_mark());
        break;
      case Op::setitem:
        extend(Kind::dict, pop(2));
        break;
      case Op::setitems:
        extend(Kind::dict, pop_to_mark());
        break;
      case Op::binput:
        put(number<std::uint8_t>());
        break;
      case Op::long_binput:
        put(number<std::uint32_t>());
        break;
      case Op::binget:
        get(number<std::uint8_t>());
        break;
      case Op::long_binget:
        get(number<std::uint32_t>());
        break;
      case Op::global: {
        const std::string module = line();
        global(module + "." + line());
        break;
      }
      case Op::reduce:
      case Op::newobj:
        call();
        break;
      case Op::build:
        build();
        break;
      case Op::binpersid:
        push({.kind = Kind::outside, .parts = pop(1)});
        break;
      default:
        if (!newer(code)) unknown(static_cast<unsigned char>(code));
    }
    return false;
  }
  // Instructions of newer protocols. False: it is none of these.
  bool newer(Op code) {
    switch (code) {
      case Op::short_binstring:
      case Op::short_binbytes:
        bytes(number<std::uint8_t>());
        break;
      case Op::binstring:
      case Op::binbytes:
        bytes(number<std::uint32_t>());
        break;
      case Op::binbytes8:
      case Op::bytearray8:
        bytes(number<std::uint64_t>());
        break;
      case Op::short_binunicode:
        push({.kind = Kind::text, .text = text(number<std::uint8_t>())});
        break;
      case Op::binunicode8:
        push({.kind = Kind::text, .text = text(number<std::uint64_t>())});
        break;
      case Op::long4:
        long_integer(number<std::uint32_t>());
        break;
      case Op::empty_set:
        push(Kind::list);
        break;
      case Op::additems:
        extend(Kind::list, pop_to_mark());
        break;
      case Op::frozenset:
        push({.kind = Kind::list, .parts = pop_to_mark()});
        break;
      case Op::newobj_ex:  // keywords are what BUILD would set
        pop();
        call();
        break;
      case Op::pop:
        if (stack_.size() == floor() && !marks_.empty())
          marks_.pop_back();
        else
          pop();
        break;
      case Op::pop_mark:
        pop_to_mark();
        break;
      case Op::stack_global: {
        const std::string name = popped_text();
        global(popped_text() + "." + name);
        break;
      }
      case Op::memoize:
        put(static_cast<std::uint32_t>(memo_.size()));
        break;
      case Op::frame:
        number<std::uint64_t>();
        break;
      default:
        return false;
    }
    return true;
  }
  [[noreturn]] void unknown(unsigned char code) const {
    char text[8];
    std::snprintf(text, sizeof text, code > ' ' && code < 127 ? "'%c'" : "0x%02x", code);
    stop("the instruction ", text, " is none that ", rules_.of, " needs. ", rules_.advice);
  }

  static constexpr std::string_view kOrderedDict = "collections.OrderedDict",
                                    kDefaultDict = "collections.defaultdict", kSet = "builtins.set";
  Pickle& out_;
  const InputFile& file_;
  const Pickle::Rules& rules_;
  std::uint64_t at_, window_at_ = 0, texts_ = 0;
  std::vector<std::byte> window_;  // the bytes from window_at_ on
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, std::uint32_t> memo_;
  std::size_t named_ = 0;  // values before this one may be in the memo
};

Pickle::Pickle(const InputFile& file, const Rules& rules, std::uint64_t begin) {
  PickleMachine(*this, file, rules, begin).run();
}

const Pickle::Value* Pickle::find(const Value& dict, std::string_view key) const {
  if (dict.kind != Kind::dict) return nullptr;
  const auto name = [&](const Value& k) -> const std::string* {
    if (k.kind == Kind::text || k.kind == Kind::bytes) return &k.text;
    const bool encoded =
        k.kind == Kind::call && part(k, 0).text == "_codecs.encode" && !part(k, 1).parts.empty();
    return encoded ? &part(part(k, 1), 0).text : nullptr;
  };
  for (std::size_t i = 0; i + 1 < dict.parts.size(); i += 2)
    if (const std::string* k = name(part(dict, i)); k && *k == key) return &part(dict, i + 1);
  return nullptr;
}

}  // namespace gossamer
