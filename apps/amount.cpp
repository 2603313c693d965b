// See amount.h.
#include "gossamer/apps/amount.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/text/shortest.h"

namespace gossamer::apps {
namespace {

using Unit = Amount::Unit;

// The first name of a unit is the one that is written.
constexpr std::pair<std::string_view, Unit> kUnits[] = {
    {"epochs", Unit::epochs},  {"epoch", Unit::epochs},    {"steps", Unit::steps},
    {"step", Unit::steps},     {"samples", Unit::samples}, {"sample", Unit::samples},
    {"images", Unit::samples}, {"image", Unit::samples},   {"tokens", Unit::samples},
    {"token", Unit::samples},  {"s", Unit::seconds},       {"seconds", Unit::seconds},
    {"second", Unit::seconds}, {"min", Unit::minutes},     {"minutes", Unit::minutes},
    {"minute", Unit::minutes}, {"h", Unit::hours},         {"hours", Unit::hours},
    {"hour", Unit::hours}};
constexpr std::pair<char, double> kFactors[] = {{'G', 1e9}, {'M', 1e6}, {'k', 1e3}};

void skip_spaces(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
}

}  // namespace

double Amount::seconds() const {
  check<ConfigError>(is_time(), to_text(*this), " is no time");
  return value * (unit == Unit::hours ? 3600 : unit == Unit::minutes ? 60 : 1);
}

bool parse_amount(std::string_view text, Amount& out) {
  Amount amount;
  skip_spaces(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount.value);
  if (error != std::errc() || !std::isfinite(amount.value)) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.empty()) {
    out = amount;
    return true;
  }
  for (const auto& [letter, factor] : kFactors)
    if (text.starts_with(letter)) {
      text.remove_prefix(1);
      amount.value *= factor;
      break;
    }
  skip_spaces(text);
  while (text.ends_with(' ')) text.remove_suffix(1);
  for (const auto& [name, unit] : kUnits)
    if (text == name) {
      amount.unit = unit;
      out = amount;
      return true;
    }
  return false;
}

std::string to_text(const Amount& a) {
  if (a.unit == Unit::plain) return shortest(a.value);
  std::string number = shortest(a.value);
  if (a.unit == Unit::samples || a.unit == Unit::steps)
    for (const auto& [letter, factor] : kFactors)
      if (a.value >= 1e6 && std::fmod(a.value, factor) == 0) {
        number = shortest(a.value / factor) + letter;
        break;
      }
  for (const auto& [name, unit] : kUnits)
    if (unit == a.unit) return number + " " + std::string(name);
  return number;
}

double samples_of(const Amount& a, const RunUnits& run) {
  switch (a.unit) {
    case Unit::plain:
    case Unit::epochs:
      return a.value * run.epoch;
    case Unit::steps:
      return a.value * run.step;
    case Unit::samples:
      return a.value;
    default:
      fail<ConfigError>(to_text(a), " is a time, not a number of samples");
  }
}

double part_of(const Amount& a, double total, const RunUnits& run) {
  return a.unit == Unit::plain ? a.value : samples_of(a, run) / total;
}

}  // namespace gossamer::apps
