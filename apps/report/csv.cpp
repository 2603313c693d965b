// See csv.h.
#include "gossamer/apps/report/csv.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "gossamer/core/io/safetensors.h"

namespace gossamer::apps {
namespace {

struct Row {
  double time;
  std::string text;
};

std::string cells(std::initializer_list<double> numbers) {
  std::string out;
  for (const double v : numbers) out += std::isfinite(v) ? fmt::format(",{:.9g}", v) : ",";
  return out;
}

}  // namespace

void write_csv(const RunRecord& run, const std::filesystem::path& file) {
  const std::vector<ScoreColumn> scores = score_columns(run.task);
  std::vector<Row> rows;
  for (const auto& [rank, steps] : run.steps)
    for (const StepRow& s : steps)
      rows.push_back({s.time, fmt::format("step,{}", rank) +
                                  cells({s.time, s.images, s.epoch, s.loss, s.learning_rate,
                                         s.images_per_s, s.data_wait, s.exposed, s.consensus}) +
                                  std::string(scores.size(), ',')});
  for (const auto& [evals, event] : {std::pair(&run.evals, "eval"), {&run.ema_evals, "eval-ema"}})
    for (const EvalRow& e : *evals) {
      std::string text = fmt::format("{},{}", event, e.rank < 0 ? "mean" : std::to_string(e.rank)) +
                         cells({e.time, e.images, e.epoch, e.loss}) + ",,,,,";
      for (const ScoreColumn& score : scores) text += cells({e.*score.value});
      rows.push_back({e.time, text});
    }
  std::ranges::stable_sort(rows, {}, &Row::time);
  std::string text = fmt::format(
      "event,of,time_s,{0},epoch,loss,learning_rate,{0}_per_s,data_wait_percent,"
      "communication_wait_percent,consensus_distance",
      run.unit);
  for (const ScoreColumn& score : scores)
    text += fmt::format(",{}{}", score.name, score.factor == 100 ? "_percent" : "");
  text += "\n";
  for (const Row& row : rows) text += row.text + "\n";
  write_file(file, text);
}

}  // namespace gossamer::apps
