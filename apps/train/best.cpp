// See best.h.
#include "gossamer/apps/train/best.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/nn/checkpoint.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

constexpr const char* kNumbers[] = {"top1", "top5", "loss", "images", "samples", "epoch"};
constexpr const char* kValHash = "val_hash";
constexpr const char* kMore = "more";
double Score::*const kMembers[] = {&Score::top1,  &Score::top5,    &Score::loss,
                                   &Score::items, &Score::samples, &Score::epoch};

// by: run.best_by, the number that the files of a folder are sorted by.
std::string file_name(const Score& s, const std::string& by) {
  return fmt::format("{}-{:.5f}-epoch-{:07.2f}{}.safetensors", by, by == "loss" ? s.loss : s.top1,
                     s.epoch, s.ema ? "-ema" : "");
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  const fs::path temporary = to.string() + ".new";
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_hard_link(from, temporary, error);
  if (error) fs::copy_file(from, temporary, error);
  if (!error) fs::rename(temporary, to, error);
  const std::string why = error.message();
  const bool failed = static_cast<bool>(error);
  // it is still there also where both were links to one file
  fs::remove(temporary, error);
  check<IoError>(!failed, "cannot copy ", from.string(), " to ", to.string(), ": ", why);
}

}  // namespace

std::map<std::string, std::string> Score::metadata() const {
  std::map<std::string, std::string> out;
  for (std::size_t i = 0; i < std::size(kNumbers); ++i)
    out[kNumbers[i]] = fmt::format("{}", this->*kMembers[i]);
  out["of"] = ema ? "ema" : "model";
  if (!more.empty()) out[kMore] = fmt::format("{}", fmt::join(more, " "));
  return out;
}

std::map<std::string, std::string> without_score(std::map<std::string, std::string> metadata) {
  for (const auto& [key, value] : Score{.more = {0}}.metadata()) metadata.erase(key);
  metadata.erase(kValHash);
  return metadata;
}

Score score_of(const Counts& c, double samples, double epoch, bool ema) {
  return {.top1 = c.top1 / c.items,
          .top5 = c.top5 / c.items,
          .loss = c.loss / c.items,
          .items = c.items,
          .samples = samples,
          .epoch = epoch,
          .ema = ema,
          .more = c.more};
}

bool is_better(const Score& a, const Score& b, const std::string& by) {
  const bool lower = a.loss < b.loss || (std::isfinite(a.loss) && std::isnan(b.loss)),
             same_loss = a.loss == b.loss || (std::isnan(a.loss) && std::isnan(b.loss));
  if (by == "loss") return lower || (same_loss && a.top1 > b.top1);
  return a.top1 > b.top1 || (a.top1 == b.top1 && lower);
}

bool keeps_best(const Config& c, int workers) {
  return c.run.keep_best > 0 && c.eval.every.value > 0 && (workers == 1 || c.eval.of == "mean");
}

// nullopt: the file is damaged, has no score, or was evaluated on another validation set.
std::optional<Score> BestModels::score_in(const fs::path& file) const {
  try {
    const auto metadata = nn::read_metadata(file);
    if (!val_hash_.empty() && metadata.at(kValHash) != val_hash_) return {};
    Score score;
    for (std::size_t i = 0; i < std::size(kNumbers); ++i)
      score.*kMembers[i] = std::stod(metadata.at(kNumbers[i]));
    score.ema = metadata.at("of") == "ema";
    if (const auto sums = metadata.find(kMore); sums != metadata.end()) {
      std::istringstream in(sums->second);
      for (double sum; in >> sum;) score.more.push_back(sum);
    }
    return score;
  } catch (const std::exception&) {
    return {};
  }
}

std::vector<BestModels::Kept> BestModels::models_in(const fs::path& folder) const {
  std::vector<BestModels::Kept> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".safetensors")
      if (const auto score = score_in(entry.path())) found.push_back({*score, entry.path()});
  return found;
}

BestModels::BestModels(const fs::path& run_folder, i64 keep, std::string by, std::string val_hash)
    : folder_(run_folder / "best"),
      best_(run_folder / "best.safetensors"),
      keep_(static_cast<std::size_t>(std::max<i64>(1, keep))),
      by_(std::move(by)),
      val_hash_(std::move(val_hash)) {
  for (const Kept& kept : models_in(folder_)) add(kept);
  // in case that somebody has removed the folder
  if (const auto score = score_in(best_)) take({*score, best_});
  trim();
}

void BestModels::drop_last() {
  std::error_code error;
  fs::remove(kept_.back().file, error);
  kept_.pop_back();
}

void BestModels::trim() {
  while (kept_.size() > keep_) drop_last();
}

void BestModels::take(const Kept& from) {
  const fs::path file = folder_ / file_name(from.score, by_);
  if (std::ranges::find(kept_, file, &Kept::file) != kept_.end()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  link_or_copy(from.file, file);
  add({from.score, file});
}

void BestModels::add(Kept kept) {
  const auto comes_first = [this](const Kept& a, const Kept& b) {
    if (is_better(a.score, b.score, by_) || is_better(b.score, a.score, by_))
      return is_better(a.score, b.score, by_);
    return std::pair(a.score.samples, a.score.ema) < std::pair(b.score.samples, b.score.ema);
  };
  kept_.insert(std::ranges::upper_bound(kept_, kept, comes_first), std::move(kept));
}

bool BestModels::offer(const Score& score, const Write& write) {
  const fs::path file = folder_ / file_name(score, by_);
  const bool full = kept_.size() >= keep_;
  if (!std::isfinite(score.top1) || !std::isfinite(score.loss) ||
      // the same evaluation, done again by a run that was resumed
      std::ranges::find(kept_, file, &Kept::file) != kept_.end() ||
      (full && !is_better(score, kept_[keep_ - 1].score, by_))) {
    point_best();
    return false;
  }
  const auto try_to_write = [&] {
    std::error_code error;
    fs::create_directories(folder_, error);
    auto metadata = score.metadata();
    metadata[kValHash] = val_hash_;
    write(file, metadata);
  };
  for (;;) {
    try {
      try_to_write();
      break;
    } catch (const IoError&) {
      // The disk may be full: worse ones make room, but the best of before stays.
      if (kept_.size() >= 2 && is_better(score, kept_.back().score, by_)) {
        drop_last();
        continue;
      }
      std::error_code error;
      fs::remove(folder_, error);  // only succeeds when empty
      throw;
    }
  }
  add({score, file});
  const bool is_best = kept_[0].file == file;
  point_best();
  trim();
  return is_best;
}

void BestModels::point_best() {
  if (kept_.empty()) return;
  const auto now = score_in(best_);
  if (!now || file_name(*now, by_) != kept_[0].file.filename()) link_or_copy(kept_[0].file, best_);
}

void BestModels::bring(const fs::path& other_run, double samples) {
  for (const Kept& theirs : models_in(other_run / "best"))
    if (theirs.score.samples <= samples) take(theirs);
  point_best();
  trim();
}

}  // namespace gossamer::apps
