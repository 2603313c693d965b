// Real training of many workers as threads of this process (dist/local), for pages that compare
// methods: small pictures in memory, one set for all, crops and flips.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/tensor.h"
#include "gossamer/dist/method.h"
#include "gossamer/nn/optim.h"

namespace gossamer::apps {

struct PicturesInMemory {
  Tensor images, labels;  // u8 [N, 32, 32, 3], i32 [N]
  i64 classes = 0;
};
struct LocalData {
  PicturesInMemory train, val;
  std::string name;
};
// `folder`: with train/ and val/ or as data::open takes it; empty: shapes10 is drawn, 4,096 and
// 1,024 pictures. At most so many are read. Throws what data::open throws.
LocalData read_local_data(const std::string& folder, i64 most_train, i64 most_val);

struct LocalTraining {
  std::string model = "resnet8-cifar", method = "allreduce", graph = "ring";
  dist::MethodOptions options;
  std::string optimizer = "sgd";
  nn::OptimizerOptions optimizer_options{};
  int workers = 16;
  i64 batch = 8;          // of a worker
  double images = 40960;  // of all workers
  double learning_rate = .1;
  // as parts of the run: divided by ten there, after a linear warm-up
  std::vector<double> milestones{.5, .75};
  double warmup = .05;
  std::uint64_t seed = 0;
};
struct LocalOutcome {
  double top1 = 0, loss = 0;  // of the mean model on the validation pictures
  double train_loss = 0;      // mean of the last tenth of the run, of all workers
  double seconds = 0;
  std::vector<std::pair<double, double>>
      distance;  // part of the run, consensus distance (worker 0)
};
LocalOutcome train_locally(const LocalTraining&, const LocalData&);

// Mean, and the standard error of it (NaN: one value).
struct MeanAndError {
  double mean = 0, error = 0;
};
MeanAndError mean_and_error(const std::vector<double>&);
// The same of a[k] - b[k], whose runs have one seed: they begin with the same model and see the
// same pictures.
MeanAndError mean_difference(const std::vector<double>& a, const std::vector<double>& b);
std::string with_error(const MeanAndError&);  // "1.38 +- 0.21"; of one run "1.38 (one run)"

}  // namespace gossamer::apps
