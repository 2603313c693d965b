// See class_results.h.
#include "gossamer/apps/report/class_results.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "gossamer/apps/report/csv_cell.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"

namespace gossamer::apps {
namespace {

std::string cell(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : ""; }

}  // namespace

std::vector<ClassPair> count_pairs(const std::vector<Judgement>& judged) {
  std::map<std::pair<int, int>, i64> counts;
  for (const Judgement& j : judged) ++counts[{j.label, j.predicted}];
  std::vector<ClassPair> all;
  for (const auto& [pair, images] : counts) all.push_back({pair.first, pair.second, images});
  return all;
}

std::vector<ClassResult> class_results(const std::vector<ClassPair>& pairs, std::size_t classes) {
  std::vector<ClassResult> all(classes);
  for (const ClassPair& p : pairs) {
    all.at(static_cast<std::size_t>(p.label)).images += p.images;
    all.at(static_cast<std::size_t>(p.predicted)).predicted += p.images;
    if (p.label == p.predicted) all[static_cast<std::size_t>(p.label)].right += p.images;
  }
  return all;
}

std::vector<std::size_t> worst_first(const std::vector<ClassResult>& results) {
  std::vector<std::size_t> order(results.size());
  std::iota(order.begin(), order.end(), 0u);
  std::erase_if(order, [&](std::size_t k) { return results[k].images == 0; });
  std::ranges::stable_sort(order, {}, [&](std::size_t k) { return results[k].recall(); });
  return order;
}

std::vector<ClassPair> confusions(const std::vector<ClassPair>& pairs) {
  std::vector<ClassPair> all = pairs;
  std::erase_if(all, [](const ClassPair& p) { return p.label == p.predicted; });
  std::ranges::stable_sort(all, std::greater<>(), &ClassPair::images);
  return all;
}

std::vector<std::vector<i64>> confusion_matrix(const std::vector<ClassPair>& pairs,
                                               std::size_t classes) {
  std::vector<std::vector<i64>> matrix(classes, std::vector<i64>(classes));
  for (const ClassPair& p : pairs)
    matrix.at(static_cast<std::size_t>(p.label)).at(static_cast<std::size_t>(p.predicted)) =
        p.images;
  return matrix;
}

void write_class_csv(const std::filesystem::path& folder, const std::vector<ClassPair>& pairs,
                     const std::vector<std::string>& classes) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  check<IoError>(!error, folder.string(), ": the folder can't be made: ", error.message());
  std::string table = "class,images,recall,precision\n", matrix = "class";
  const auto results = class_results(pairs, classes.size());
  const auto counts = confusion_matrix(pairs, classes.size());
  for (const std::string& name : classes) matrix += "," + csv_cell(name);
  matrix += "\n";
  for (std::size_t k = 0; k < classes.size(); ++k) {
    table += fmt::format("{},{},{},{}\n", csv_cell(classes[k]), results[k].images,
                         cell(results[k].recall()), cell(results[k].precision()));
    matrix += csv_cell(classes[k]);
    for (const i64 n : counts[k]) matrix += fmt::format(",{}", n);
    matrix += "\n";
  }
  write_file(folder / "per_class.csv", table);
  write_file(folder / "confusion.csv", matrix);
}

}  // namespace gossamer::apps
