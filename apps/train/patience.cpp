// See patience.h.
#include "gossamer/apps/train/patience.h"

#include <sstream>

#include <fmt/format.h>

#include "gossamer/core/text/plural.h"

namespace gossamer::apps {

void Patience::look(const Score& score) {
  const bool better = !any_ || is_better(score, best_, by_);
  since_ = better ? 0 : since_ + 1;
  if (better) best_ = score;
  any_ = true;
}

std::string Patience::sentence() const {
  return fmt::format(
      "{} without a better {} than {} at epoch {:.2f}", counted(since_, "evaluation"),
      by_ == "loss" ? "loss" : "top-1",
      by_ == "loss" ? fmt::format("{:.3f}", best_.loss) : fmt::format("{:.2f} %", 100 * best_.top1),
      best_.epoch);
}

std::string Patience::text() const {
  if (!any_) return "";
  return fmt::format("{} {} {} {} {}", by_, best_.top1, best_.loss, best_.epoch, since_);
}

void Patience::restore(const std::string& text) {
  std::istringstream in(text);
  std::string by;
  Score best;
  i64 since = 0;
  if (!(in >> by >> best.top1 >> best.loss >> best.epoch >> since) || by != by_) return;
  any_ = true, best_ = best, since_ = since;
}

}  // namespace gossamer::apps
