// The grammar of inject.h, by recursive descent: a comma inside a partition is not the comma
// between items.
#include "gossamer/dist/faults/inject.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <string_view>

#include "gossamer/core/error.h"
#include "gossamer/core/text/shortest.h"

namespace gossamer::dist {
namespace {

using Kind = Injection::Kind;
constexpr const char* kNames[] = {"kill",   "stop", "slow",  "restart",
                                  "attack", "drop", "delay", "partition"};
constexpr int kMostWorkers = 65536;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<Injection> all() {
    std::vector<Injection> found;
    blanks();
    while (!end()) {
      found.push_back(item());
      blanks();
      if (end()) break;
      expect(",", "the next item, or the end");
      blanks();
      if (end()) fail_here("an item is expected after the comma");
    }
    return found;
  }

 private:
  bool end() const { return at_ == text_.size(); }
  void blanks() {
    while (!end() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  [[noreturn]] void fail_at(std::size_t where, const std::string& why) const {
    const std::string_view rest = text_.substr(where, 12);
    gossamer::fail<ConfigError>("inject, character ", where + 1,
                                rest.empty() ? " (the end)" : " (\"" + std::string(rest) + "\")",
                                ": ", why);
  }
  [[noreturn]] void fail_here(const std::string& why) const { fail_at(at_, why); }

  bool accept(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void expect(const std::string& word, const std::string& before) {
    if (!accept(word)) fail_here("\"" + word + "\" is expected before " + before);
  }

  template <class T>
  T number(const char* what) {
    T value{};
    const char* first = text_.data() + at_;
    const auto [last, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error != std::errc() || last == first) fail_here(std::string(what) + " is expected");
    at_ += static_cast<std::size_t>(last - first);
    return value;
  }
  double real(const char* what, double least, double most) {
    const std::size_t where = at_;
    const auto value = number<double>(what);
    if (!(value >= least && value <= most))
      fail_at(where, std::string("out of range; wanted is ") + what);
    return value;
  }
  int rank() {
    const std::size_t where = at_;
    const int value = number<int>("the number of a worker");
    if (value < 0 || value >= kMostWorkers) fail_at(where, "that is no number of a worker");
    return value;
  }
  double duration() {
    const double value = real("a time like 5s or 50ms", 0, 1e6);
    if (accept("ms")) return value / 1000;
    if (accept("s")) return value;
    fail_here("the unit is missing: s or ms");
  }

  Injection item() {
    const std::size_t where = at_;
    std::size_t length = 0;
    while (at_ + length < text_.size() &&
           std::isalpha(static_cast<unsigned char>(text_[at_ + length])))
      ++length;
    const std::string_view word = text_.substr(at_, length);
    const auto* name = std::ranges::find(kNames, word);
    if (name == std::end(kNames))
      fail_here("known are kill, stop, slow, restart, attack, drop, delay and partition");
    at_ += length;
    Injection out;
    out.kind = static_cast<Kind>(name - std::begin(kNames));
    expect(":", "what it concerns");
    if (out.of_worker()) {
      if (out.kind == Kind::attack)
        accept("rank=");
      else
        expect("rank=", "the number of a worker");
      out.rank = rank();
    } else if (out.kind == Kind::partition) {
      sides(out);
    } else {
      edge(out);
    }
    value(out);
    when(out, where);
    return out;
  }

  void edge(Injection& out) {
    expect("edge=", "two workers, like 0-1");
    const std::size_t where = at_;
    out.a = rank();
    expect("-", "the other worker of the edge");
    out.b = rank();
    if (out.a == out.b) fail_at(where, "an edge joins two different workers");
    if (out.a > out.b) std::swap(out.a, out.b);
  }

  void sides(Injection& out) {
    const std::size_t where = at_;
    std::set<int> seen;
    do {
      std::vector<int>& side = out.sides.emplace_back();
      do {
        const std::size_t here = at_;
        side.push_back(rank());
        if (!seen.insert(side.back()).second) fail_at(here, "this worker is on two sides");
      } while (accept(","));
    } while (accept("|"));
    if (out.sides.size() < 2) fail_at(where, "a partition has two sides, like 0,1|2,3");
  }

  void value(Injection& out) {
    if (out.kind == Kind::kill || out.kind == Kind::restart) return;
    if (out.kind == Kind::slow) {
      expect(":x", "how many times slower, like :x3");
      out.factor = real("a factor of 1 or more", 1, 1e6);
    } else if (out.kind == Kind::drop) {
      expect(":p=", "a probability");
      out.probability = real("a probability from 0 to 1", 0, 1);
    } else if (out.kind == Kind::attack) {
      expect(":", "the kind of attack");
      attack(out);
    } else {
      expect(":", "a time like 5s or 50ms");
      out.seconds = duration();
    }
  }

  void attack(Injection& out) {
    const auto* const found =
        std::ranges::find_if(kAttackNames, [&](std::string_view name) { return accept(name); });
    if (found == kAttackNames.end())
      fail_here("known attacks are dissensus, sign-flip, alie, ipm and label-flip");
    out.how = static_cast<Attack>(found - kAttackNames.begin());
  }

  void when(Injection& out, std::size_t where) {
    if (!accept("@")) return;
    if (out.kind == Kind::attack && out.how == Attack::label_flip)
      fail_at(where, "labels are wrong from the beginning: give label-flip no time");
    if (accept("step=")) {
      const std::size_t here = at_;
      out.at_step = number<i64>("a number of steps");
      if (out.at_step < 0) fail_at(here, "a number of steps is 0 or more");
      if (out.kind == Kind::restart)
        fail_at(where, "a dead worker makes no steps: give restart a time, @t=SECONDS");
    } else if (accept("t=")) {
      out.at_s = real("a time in seconds", 0, 1e9);
      accept("s");
    } else {
      fail_here("step=N or t=SECONDS is expected after @");
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

bool Injection::between(int x, int y) const {
  if (kind == Kind::drop || kind == Kind::delay) return std::min(x, y) == a && std::max(x, y) == b;
  if (kind != Kind::partition) return false;
  const auto side = [&](int worker) {
    return std::ranges::find_if(
        sides, [&](const auto& s) { return std::ranges::find(s, worker) != s.end(); });
  };
  const auto of_x = side(x), of_y = side(y);
  return of_x != sides.end() && of_y != sides.end() && of_x != of_y;
}

std::vector<Injection> parse_injections(const std::string& text) { return Parser(text).all(); }

void validate(const std::vector<Injection>& all, int workers) {
  for (const Injection& i : all) {
    int most = std::max(i.rank, i.b);
    for (const auto& side : i.sides) most = std::max(most, *std::ranges::max_element(side));
    check<ConfigError>(most < workers, "inject, \"", to_text(i), "\": there is no worker ", most,
                       "; there are ", workers, ", from 0");
  }
}

std::string to_text(const Injection& i) {
  std::string out = std::string(kNames[static_cast<int>(i.kind)]) + ":";
  if (i.of_worker()) out += "rank=" + std::to_string(i.rank);
  if (i.a >= 0) out += "edge=" + std::to_string(i.a) + "-" + std::to_string(i.b);
  for (std::size_t s = 0; s < i.sides.size(); ++s) {
    out += s ? "|" : "";
    for (std::size_t k = 0; k < i.sides[s].size(); ++k)
      out += (k ? "," : "") + std::to_string(i.sides[s][k]);
  }
  if (i.kind == Kind::attack)
    out += ":" + std::string(kAttackNames[static_cast<std::size_t>(i.how)]);
  if (i.kind == Kind::slow) out += ":x" + shortest(i.factor);
  if (i.kind == Kind::drop) out += ":p=" + shortest(i.probability);
  if (i.kind == Kind::stop || i.kind == Kind::delay || i.kind == Kind::partition)
    out += ":" + shortest(i.seconds) + "s";
  if (i.at_step >= 0)
    out += "@step=" + std::to_string(i.at_step);
  else if (i.at_s > 0)
    out += "@t=" + shortest(i.at_s);
  return out;
}

}  // namespace gossamer::dist
