// See bleu.h.
#include "gossamer/data/text/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "gossamer/core/error.h"

namespace gossamer::data {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }
// mteval's first rule: ASCII punctuation but ' - . ,
bool is_mark(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= '!' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Puts spaces into `text` wherever two neighbours match, as re.sub does: matches do not overlap.
// Bytes will do, since all rules are about ASCII: any byte of another character is no digit.
template <class Match>
std::string spaced(const std::string& text, Match match, const char* before, const char* between,
                   const char* after) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && match(text[i], text[i + 1])) {
      out += before;
      out += text[i];
      out += between;
      out += text[++i];
      out += after;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Python's str.split() ends words at these.
std::size_t space_at(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned a = byte(0), b = byte(1), c = byte(2);
  if ((a >= 9 && a <= 13) || (a >= 28 && a <= 32)) return 1;
  if (a == 0xC2 && (b == 0x85 || b == 0xA0)) return 2;
  if (a == 0xE1 && b == 0x9A && c == 0x80) return 3;
  if (a == 0xE2 && b == 0x80 && ((c >= 0x80 && c <= 0x8A) || c == 0xA8 || c == 0xA9 || c == 0xAF))
    return 3;
  if (a == 0xE2 && b == 0x81 && c == 0x9F) return 3;
  if (a == 0xE3 && b == 0x80 && c == 0x80) return 3;
  return 0;
}

}  // namespace

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  bool open = false;
  while (!text.empty()) {
    const std::size_t space = space_at(text);
    if (space == 0) {
      if (!open) out.emplace_back();
      out.back() += text[0];
    }
    open = space == 0;
    text.remove_prefix(std::max<std::size_t>(1, space));
  }
  return out;
}

namespace {

using Grams = std::map<std::vector<std::string>, i64>;

Grams grams(const std::vector<std::string>& tokens, std::size_t n) {
  Grams out;
  for (auto at = tokens.begin(); tokens.end() - at >= static_cast<std::ptrdiff_t>(n); ++at)
    ++out[std::vector<std::string>(at, at + static_cast<std::ptrdiff_t>(n))];
  return out;
}

}  // namespace

std::vector<std::string> tokens_13a(std::string_view line) {
  std::string text(line);
  while (!text.empty()) {  // sacreBLEU's rstrip()
    std::size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    if (space_at(std::string_view(text).substr(last)) != text.size() - last) break;
    text.resize(last);
  }
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  std::string marked = " ";
  for (const char c : text)
    if (is_mark(c))
      marked += {' ', c, ' '};
    else
      marked += c;
  marked += ' ';
  marked = spaced(
      marked, [](char a, char b) { return !is_digit(a) && is_stop(b); }, "", " ", " ");
  marked = spaced(
      marked, [](char a, char b) { return is_stop(a) && !is_digit(b); }, " ", " ", "");
  marked = spaced(
      marked, [](char a, char b) { return is_digit(a) && b == '-'; }, "", " ", " ");
  return words_of(marked);
}

void BleuCounts::add(std::string_view translation, std::span<const std::string> references) {
  const auto ours = tokens_13a(translation);
  const auto length = static_cast<i64>(ours.size());
  std::vector<std::vector<std::string>> wanted;
  i64 nearest = -1;  // of equally near ones the shortest
  for (const std::string& reference : references) {
    wanted.push_back(tokens_13a(reference));
    const auto other = static_cast<i64>(wanted.back().size());
    if (nearest < 0 ||
        std::pair(std::abs(length - other), other) < std::pair(std::abs(length - nearest), nearest))
      nearest = other;
  }
  length_ += length;
  reference_length_ += std::max<i64>(nearest, 0);
  for (std::size_t n = 0; n < 4; ++n) {
    Grams known;
    for (const auto& tokens : wanted)
      for (const auto& [gram, count] : grams(tokens, n + 1))
        known[gram] = std::max(known[gram], count);
    for (const auto& [gram, count] : grams(ours, n + 1)) {
      total_[n] += count;
      if (const auto at = known.find(gram); at != known.end())
        correct_[n] += std::min(count, at->second);
    }
  }
}

std::vector<double> BleuCounts::numbers() const {
  std::vector<double> out;
  for (std::size_t n = 0; n < 4; ++n) {
    out.push_back(static_cast<double>(correct_[n]));
    out.push_back(static_cast<double>(total_[n]));
  }
  out.push_back(static_cast<double>(length_));
  out.push_back(static_cast<double>(reference_length_));
  return out;
}

BleuCounts BleuCounts::of(std::span<const double> numbers) {
  check(numbers.size() == 10, "BLEU counts 10 numbers, not ", numbers.size());
  const auto whole = [&](std::size_t i) { return static_cast<i64>(std::llround(numbers[i])); };
  BleuCounts out;
  for (std::size_t n = 0; n < 4; ++n)
    out.correct_[n] = whole(2 * n), out.total_[n] = whole(2 * n + 1);
  out.length_ = whole(8), out.reference_length_ = whole(9);
  return out;
}

Bleu BleuCounts::bleu() const {
  Bleu b;
  b.correct = correct_, b.total = total_;
  b.length = length_, b.reference_length = reference_length_;
  if (length_ < reference_length_)
    b.brevity_penalty =
        length_ == 0
            ? 0
            : std::exp(1 - static_cast<double>(reference_length_) / static_cast<double>(length_));
  if (std::ranges::all_of(correct_, [](i64 c) { return c == 0; })) return b;
  double smooth = 1, logs = 0;
  for (std::size_t n = 0; n < 4; ++n) {
    if (total_[n] == 0) return b;  // no sentence has so many words: the score stays 0
    const auto total = static_cast<double>(total_[n]);
    if (correct_[n] == 0) smooth *= 2;
    b.precisions[n] =
        correct_[n] == 0 ? 100 / (smooth * total) : 100 * static_cast<double>(correct_[n]) / total;
    logs += std::log(b.precisions[n]);
  }
  b.score = b.brevity_penalty * std::exp(logs / 4);
  return b;
}

void check_references(const std::vector<std::string>& translations,
                      std::span<const std::vector<std::string>> references) {
  check<DataError>(!references.empty() && !translations.empty(), "there are ", translations.size(),
                   " translations, and ", references.size(),
                   " texts of references; at least one of both is wanted");
  for (const std::vector<std::string>& each : references)
    check<DataError>(translations.size() == each.size(), translations.size(), " translations and ",
                     each.size(), " references: as many of both are wanted");
}

std::vector<std::string> references_of_line(std::span<const std::vector<std::string>> references,
                                            std::size_t line) {
  std::vector<std::string> out;
  for (const std::vector<std::string>& each : references) out.push_back(each[line]);
  return out;
}

Bleu bleu(const std::vector<std::string>& translations,
          std::span<const std::vector<std::string>> references) {
  check_references(translations, references);
  BleuCounts counts;
  for (std::size_t i = 0; i < translations.size(); ++i)
    counts.add(translations[i], references_of_line(references, i));
  return counts.bleu();
}

std::string bleu_signature(std::size_t references) {
  return "nrefs:" + std::to_string(references) +
         "|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0";
}

std::string Bleu::text() const {
  return fmt::format(
      "BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len "
      "= {})",
      score, precisions[0], precisions[1], precisions[2], precisions[3], brevity_penalty,
      reference_length > 0 ? static_cast<double>(length) / static_cast<double>(reference_length)
                           : 0,
      length, reference_length);
}

}  // namespace gossamer::data
