// See find_rate.h.
#include "gossamer/apps/train/find_rate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/report/html.h"
#include "gossamer/apps/report/pictures.h"
#include "gossamer/apps/train/loop.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/worker.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"

namespace gossamer::apps {
namespace {

constexpr double kSmoothing = 0.98, kDivergence = 4;
constexpr std::size_t kShortestFall = 10;

// What was found, to be said, drawn and written as JSON.
struct Finding {
  RateSweep sweep;
  std::optional<RateSweep::Point> best;
  double key = 0;  // optim.learning_rate that means this rate; 0: none was found
};

std::string say_end(const RateSweep& sweep) {
  const auto n = sweep.points().size();
  return sweep.diverged()
             ? fmt::format("the loss diverged at a rate of {:.2g}, after {} of {} gradients",
                           sweep.points().back().rate, n, kSweepGradients)
             : fmt::format("{} gradients up to a rate of {:.2g}, without divergence", n,
                           sweep.points().back().rate);
}

std::string say_finding(const Finding& f, const Config& c) {
  if (!f.best) return "no suggestion, since the loss did not fall for long";
  return fmt::format(
      "suggestion: optim.learning_rate={:.2g} (the middle of the fall of the loss is at a rate of "
      "{:.2g}{})",
      f.key, f.best->rate,
      f.key == f.best->rate ? ""
                            : fmt::format(", which optim.scaling makes of it with {} images a "
                                          "gradient and one worker",
                                          c.step_samples(1)));
}

std::string page(const Finding& f, const Config& c) {
  Points points;
  for (const RateSweep::Point& p : f.sweep.points()) points.emplace_back(p.rate, p.loss);
  std::vector<Curve> curves{{.name = "training loss, smoothed", .points = points}};
  if (f.best)
    curves.push_back({.name = "suggestion",
                      .points = {{f.best->rate, f.best->loss}},
                      .colour = 1,
                      .dots = true});
  return html_page(
      "learning rate of " + c.model.name,
      "<p class=\"lead\">" + html_escape(say_finding(f, c)) + "</p><p class=\"soft\">" +
          html_escape(say_end(f.sweep)) + "</p><div class=\"grid\">" +
          chart({.title = "loss", .x_label = "learning rate", .logarithmic_x = true}, curves) +
          "</div>");
}

std::string json(const Finding& f, const std::string& file) {
  std::vector<double> rates, losses;
  for (const RateSweep::Point& p : f.sweep.points())
    rates.push_back(p.rate), losses.push_back(p.loss);
  JsonObject out;
  if (f.best)
    out.add("learning_rate", f.key).add("rate", f.best->rate);
  else
    out.raw("learning_rate", "null").raw("rate", "null");
  return out.add("diverged", f.sweep.diverged())
      .add("rates", rates)
      .add("losses", losses)
      .add("file", file)
      .str();
}

// False if a signal ended it.
bool run_sweep(Worker& w, RateSweep& sweep) {
  nn::GradientStep gradient =
      gradient_step(w.plan, w.journal, w.trainer, [&] { return sweep.rate(); });
  w.trainer.net->train();
  while (!stop_signal()) {
    const nn::DrawnBatch batch =
        w.trainer.task.data->next(w.trainer.at, w.plan.part(w.trainer.method->samples_seen()));
    if (batch.batch.empty()) {  // the end of an epoch
      w.trainer.at = {w.trainer.at.samples, w.trainer.at.epoch + 1, 0};
      continue;
    }
    const bool complete = gradient.compute(batch);
    ++w.trainer.at.step;
    if (!complete) {
      gradient.step_ends();
      continue;
    }
    const double rate = sweep.rate(), loss = gradient.losses().take();
    w.journal.progress.update({.samples = w.trainer.method->samples_seen(),
                               .total = w.plan.total_samples,
                               .epoch_size = w.trainer.task.data->epoch(),
                               .unit = w.trainer.task.data->unit(),
                               .loss = loss,
                               .learning_rate = rate});
    if (!sweep.add(loss)) return true;
    w.trainer.method->step(rate);
    gradient.step_ends();
  }
  return false;
}

}  // namespace

double RateSweep::rate() const {
  const double part = static_cast<double>(points_.size()) / (kSweepGradients - 1);
  return kLowestRate * std::pow(kHighestRate / kLowestRate, part);
}

bool RateSweep::add(double loss) {
  const auto n = static_cast<double>(points_.size() + 1);
  mean_ = kSmoothing * mean_ + (1 - kSmoothing) * loss;
  const double smooth = mean_ / (1 - std::pow(kSmoothing, n));
  diverged_ = !std::isfinite(smooth) || (points_.size() > 1 && smooth > kDivergence * least_);
  if (!std::isfinite(smooth)) return false;
  if (points_.empty() || smooth < least_) least_ = smooth;
  points_.push_back({rate(), smooth});
  return !diverged_ && points_.size() < kSweepGradients;
}

std::optional<RateSweep::Point> suggested(const std::vector<RateSweep::Point>& points) {
  std::vector<std::size_t> length(points.size(), 1);  // of the longest fall that ends here
  std::size_t end = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k)
      if (points[i].loss < points[k].loss) length[i] = std::max(length[i], length[k] + 1);
    if (length[i] > length[end]) end = i;
  }
  if (points.empty() || length[end] < kShortestFall) return {};
  return points[end - length[end] / 2];
}

int find_rate(const Config& config, const dist::LaunchInfo& place, bool as_json) {
  install_stop_handlers();
  Worker w(config, {.dry_run = true, .json = as_json, .dry_steps = kSweepGradients}, place, {});
  stop_after_step();
  Finding f;
  if (!run_sweep(w, f.sweep)) return 128 + stop_signal();
  check(!f.sweep.points().empty(), "the loss of the first batch is not a number");
  f.best = suggested(f.sweep.points());
  if (f.best) f.key = f.best->rate / scaled_rate(config, 1, 1);
  w.journal.progress.note("sweep    " + say_end(f.sweep));
  w.journal.progress.note("lr       " + say_finding(f, config));
  const std::filesystem::path file = config.run_folder() + "-lr.html";
  if (as_json) std::fputs((json(f, file.string()) + "\n").c_str(), stdout);
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  write_file(file, page(f, config));
  w.journal.progress.note("files    " + file.string());
  return 0;
}

}  // namespace gossamer::apps
