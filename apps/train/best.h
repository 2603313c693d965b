// The best models of a run by its evaluations, moving averages (train.ema) among them. RUN/best/
// has a file for each, named by its top-1 or loss; RUN/best.safetensors is the best of them: a hard
// link, or a copy where there are no links.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/evaluate.h"

namespace gossamer::apps {

// What an evaluation found, and of which model.
struct Score {
  double top1 = 0, top5 = 0, loss = 0;  // fractions; the mean loss
  double items = 0;                     // of the validation set, as Counts::items
  double samples = 0, epoch = 0;        // seen in training until then
  bool ema = false;                     // of the moving average of the model
  std::vector<double> more{};           // Counts::more, which only its task reads
  std::map<std::string, std::string> metadata() const;
};
// A model file's header without what Score::metadata() and BestModels put there: for what is made
// of such models and has no score yet.
std::map<std::string, std::string> without_score(std::map<std::string, std::string> metadata);
Score score_of(const Counts&, double samples, double epoch, bool ema = false);
// by: run.best_by, top1 or loss; where that is equal, the other decides. False if both are equal,
// or a is no number.
bool is_better(const Score& a, const Score& b, const std::string& by);

// run.keep_best. Several workers: only with eval.of = mean, because a worker's own model is not the
// one that the run ends with, and its share of the images is another than the next worker's.
bool keeps_best(const Config&, int workers);

class BestModels {
 public:
  struct Kept {
    Score score;
    std::filesystem::path file;
  };
  using Write = std::function<void(const std::filesystem::path&,
                                   const std::map<std::string, std::string>& metadata)>;
  // Finds those that are there, and removes what is too many; files that are damaged, or were
  // evaluated on another validation set, are left alone. val_hash: of that set. IoError.
  BestModels(const std::filesystem::path& run_folder, i64 keep, std::string by,
             std::string val_hash = "");
  // Keeps a model if it is among the best `keep`: calls write(), then removes what is one too many.
  // Of two equal ones the earlier stays. Returns whether it is the best now. After an IoError the
  // best one before it is still there.
  bool offer(const Score&, const Write& write);
  const std::vector<Kept>& all() const { return kept_; }  // the best first
  const std::filesystem::path& best_file() const { return best_; }
  // --resume under another name: the models that the run had until then, in images. IoError.
  void bring(const std::filesystem::path& other_run, double samples);

 private:
  std::vector<Kept> models_in(const std::filesystem::path& folder) const;
  std::optional<Score> score_in(const std::filesystem::path& file) const;
  void add(Kept);               // to the list
  void take(const Kept& from);  // the file too, unless it is there
  void point_best();            // best.safetensors
  void drop_last();
  void trim();  // to the best `keep`
  const std::filesystem::path folder_, best_;
  const std::size_t keep_;
  const std::string by_, val_hash_;
  std::vector<Kept> kept_;
};

}  // namespace gossamer::apps
