// See class_results.h.
#include "gossamer/apps/train/class_results.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/core/safetensors.h"

namespace gossamer::apps {
namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string cell(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : ""; }

}  // namespace

std::vector<ClassResult> class_results(const std::vector<Judgement>& judged, std::size_t classes) {
  std::vector<ClassResult> all(classes);
  for (const Judgement& j : judged) {
    ++all.at(static_cast<std::size_t>(j.label)).images;
    ++all.at(static_cast<std::size_t>(j.predicted)).predicted;
    if (j.label == j.predicted) ++all[static_cast<std::size_t>(j.label)].right;
  }
  return all;
}

std::vector<Confusion> confusions(const std::vector<Judgement>& judged) {
  std::map<std::pair<int, int>, i64> counts;
  for (const Judgement& j : judged)
    if (j.label != j.predicted) ++counts[{j.label, j.predicted}];
  std::vector<Confusion> all;
  for (const auto& [pair, images] : counts) all.push_back({pair.first, pair.second, images});
  std::ranges::stable_sort(all, std::greater<>(), &Confusion::images);
  return all;
}

std::vector<std::vector<i64>> confusion_matrix(const std::vector<Judgement>& judged,
                                               std::size_t classes) {
  std::vector<std::vector<i64>> matrix(classes, std::vector<i64>(classes));
  for (const Judgement& j : judged)
    ++matrix.at(static_cast<std::size_t>(j.label)).at(static_cast<std::size_t>(j.predicted));
  return matrix;
}

void write_class_csv(const std::filesystem::path& folder, const std::vector<Judgement>& judged,
                     const std::vector<std::string>& classes) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  check<IoError>(!error, folder.string(), ": the folder can't be made: ", error.message());
  std::string table = "class,images,recall,precision\n", matrix = "class";
  const auto results = class_results(judged, classes.size());
  const auto counts = confusion_matrix(judged, classes.size());
  for (const std::string& name : classes) matrix += "," + quoted(name);
  matrix += "\n";
  for (std::size_t k = 0; k < classes.size(); ++k) {
    table += fmt::format("{},{},{},{}\n", quoted(classes[k]), results[k].images,
                         cell(results[k].recall()), cell(results[k].precision()));
    matrix += quoted(classes[k]);
    for (const i64 n : counts[k]) matrix += fmt::format(",{}", n);
    matrix += "\n";
  }
  write_file(folder / "per_class.csv", table);
  write_file(folder / "confusion.csv", matrix);
}

}  // namespace gossamer::apps
