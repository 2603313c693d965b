// BLEU (Papineni et al., ACL 2002) of a whole test set, as sacreBLEU computes it by default
// (Post, WMT 2018): tokens of mteval-v13a, case kept, exponential smoothing. Of several references
// an n-gram counts as often as in that which has it most often, and the length is the one nearest
// to the translation's.
// Threads: any for functions; one at a time for BleuCounts.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

struct Bleu {
  double score = 0;                    // 0 … 100
  std::array<double, 4> precisions{};  // of 1- to 4-grams, 0 … 100, smoothed
  std::array<i64, 4> correct{}, total{};
  double brevity_penalty = 1;
  i64 length = 0, reference_length = 0;  // tokens
  // sacreBLEU's line: "BLEU = 25.01 56.1/31.0/18.9/11.7 (BP = 1.000 ratio = …"
  std::string text() const;
};
// sacreBLEU's signature of these options, with so many references. `version` is the one whose
// results these equal.
std::string bleu_signature(std::size_t references = 1);

// What BLEU counts of a test set, so that several programs can each count a part.
class BleuCounts {
 public:
  void add(std::string_view translation, std::span<const std::string> references);
  Bleu bleu() const;
  // The counts as numbers that may be added up, and back from their sum.
  std::vector<double> numbers() const;
  static BleuCounts of(std::span<const double> numbers);

 private:
  std::array<i64, 4> correct_{}, total_{};
  i64 length_ = 0, reference_length_ = 0;
};

// references[r][i]: of line i. DataError: different numbers of lines, or none.
Bleu bleu(const std::vector<std::string>& translations,
          std::span<const std::vector<std::string>> references);
void check_references(const std::vector<std::string>& translations,
                      std::span<const std::vector<std::string>> references);
std::vector<std::string> references_of_line(std::span<const std::vector<std::string>> references,
                                            std::size_t line);

// The tokens of a line of UTF-8, as mteval-v13a splits it.
std::vector<std::string> tokens_13a(std::string_view line);
// What lies between white space, as Python's str.split() has it.
std::vector<std::string> words_of(std::string_view);

}  // namespace gossamer::data
