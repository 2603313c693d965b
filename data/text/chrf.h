// chrF (Popović, WMT 2015) of a whole test set, as sacreBLEU 2.6 computes it by default: n-grams of
// 1 to 6 characters without white space, no words, recall counting twice as much as precision
// (chrF2), case kept, orders that a side lacks left out.
// Threads: any for functions; one at a time for ChrfCounts.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

class ChrfCounts {
 public:
  // Lines of UTF-8. Of several references the one counts with which the line has the best score.
  void add(std::string_view translation, std::span<const std::string> references);
  double score() const;  // 0 … 100
  // The counts as numbers that may be added up, and back from their sum.
  std::vector<double> numbers() const;
  static ChrfCounts of(std::span<const double> numbers);

 private:
  static constexpr std::size_t kOrders = 6;
  struct Order {
    i64 ours = 0, wanted = 0, common = 0;  // n-grams
  };
  using Orders = std::array<Order, kOrders>;
  static double score_of(const Orders&);
  Orders all_{};
};

// references[r][i]: of line i. DataError: different numbers of lines, or none.
double chrf(const std::vector<std::string>& translations,
            std::span<const std::vector<std::string>> references);
// sacreBLEU's signature with so many references.
std::string chrf_signature(std::size_t references);

}  // namespace gossamer::data
