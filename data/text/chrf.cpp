// See chrf.h.
#include "gossamer/data/text/chrf.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "gossamer/core/error.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/text/bleu.h"

namespace gossamer::data {
namespace {

// The characters of a line, without white space, and where each begins.
struct Characters {
  std::string text;
  std::vector<std::size_t> begins;
};

Characters characters_of(std::string_view line) {
  Characters out;
  for (const std::string& word : words_of(line)) out.text += word;
  for (std::size_t at = 0; at < out.text.size();) {
    out.begins.push_back(at);
    at += std::max<std::size_t>(1, utf8_length(std::string_view(out.text).substr(at, 4)));
  }
  out.begins.push_back(out.text.size());
  return out;
}

using Grams = std::map<std::string_view, i64>;

Grams grams(const Characters& c, std::size_t n) {
  Grams out;
  for (std::size_t i = 0; i + n < c.begins.size(); ++i)
    ++out[std::string_view(c.text).substr(c.begins[i], c.begins[i + n] - c.begins[i])];
  return out;
}

i64 sum_of(const Grams& all) {
  i64 sum = 0;
  for (const auto& [gram, count] : all) sum += count;
  return sum;
}

}  // namespace

double ChrfCounts::score_of(const Orders& orders) {
  constexpr double kBetaSquared = 4;
  double precision = 0, recall = 0;
  int counted = 0;
  for (const Order& o : orders) {
    if (o.ours == 0 || o.wanted == 0) continue;
    precision += static_cast<double>(o.common) / static_cast<double>(o.ours);
    recall += static_cast<double>(o.common) / static_cast<double>(o.wanted);
    ++counted;
  }
  if (precision + recall == 0) return 0;
  precision /= counted;
  recall /= counted;
  return 100 * (1 + kBetaSquared) * precision * recall / (kBetaSquared * precision + recall);
}

void ChrfCounts::add(std::string_view translation, std::span<const std::string> references) {
  const Characters ours = characters_of(translation);
  std::array<Grams, kOrders> our_grams;
  for (std::size_t n = 0; n < kOrders; ++n) our_grams.at(n) = grams(ours, n + 1);
  Orders best{};
  double best_score = -1;
  for (const std::string& reference : references) {
    const Characters wanted = characters_of(reference);
    Orders orders{};
    for (std::size_t n = 0; n < kOrders; ++n) {
      const Grams known = grams(wanted, n + 1);
      Order& order = orders.at(n);
      order.wanted = sum_of(known);
      // as sacreBLEU: what no n-gram of the reference could match is not counted
      if (order.wanted > 0) order.ours = sum_of(our_grams.at(n));
      for (const auto& [gram, count] : our_grams.at(n))
        if (const auto at = known.find(gram); at != known.end())
          order.common += std::min(count, at->second);
    }
    if (const double score = score_of(orders); score > best_score) {
      best_score = score;
      best = orders;
    }
  }
  for (std::size_t n = 0; n < kOrders; ++n) {
    all_.at(n).ours += best.at(n).ours;
    all_.at(n).wanted += best.at(n).wanted;
    all_.at(n).common += best.at(n).common;
  }
}

double ChrfCounts::score() const { return score_of(all_); }

std::vector<double> ChrfCounts::numbers() const {
  std::vector<double> out;
  for (const Order& o : all_)
    for (const i64 count : {o.ours, o.wanted, o.common}) out.push_back(static_cast<double>(count));
  return out;
}

ChrfCounts ChrfCounts::of(std::span<const double> numbers) {
  check(numbers.size() == 3 * kOrders, "chrF counts 18 numbers, not ", numbers.size());
  const auto whole = [&](std::size_t i) { return static_cast<i64>(std::llround(numbers[i])); };
  ChrfCounts out;
  for (std::size_t n = 0; n < kOrders; ++n)
    out.all_.at(n) = {whole(3 * n), whole(3 * n + 1), whole(3 * n + 2)};
  return out;
}

double chrf(const std::vector<std::string>& translations,
            std::span<const std::vector<std::string>> references) {
  check_references(translations, references);
  ChrfCounts counts;
  for (std::size_t i = 0; i < translations.size(); ++i)
    counts.add(translations[i], references_of_line(references, i));
  return counts.score();
}

std::string chrf_signature(std::size_t references) {
  return "nrefs:" + std::to_string(references) +
         "|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0";
}

}  // namespace gossamer::data
