// What train, eval and classify share: how pictures are prepared for a model, what a model file
// says about itself, exact counting.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/core/flat.h"
#include "gossamer/data/loader.h"
#include "gossamer/nn/module.h"

namespace gossamer::apps {

// How pixels become the model's input. Kept in the model file.
struct Pictures {
  // evaluation: side; shorter side before the centre crop
  int size = 32, resize = 32;
  int train_size = 32;                           // side in training, at most
  data::Shrink filter = data::Shrink::bilinear;  // of every resize
  std::array<float, 3> mean{}, std{};
  DType dtype = DType::f32;
  Device device{};  // where the model computes
  // boxes become pairs [N, size/2, size/2, 16], as a stem on a GPU wants them (core/stem_conv.h)
  bool pairs = false;
  // u8 [N, size, size, 3] anywhere -> normalized, there
  Tensor operator()(const Tensor& images) const;
  Tensor operator()(const data::Batch&) const;  // its images, or what becomes of its boxes
};
Pictures pictures(const Config&);
DType compute_type(const std::string& name);  // f32 | bf16 | f16, as train.dtype says it

std::map<std::string, std::string> model_metadata(const Config&, const Pictures&,
                                                  const std::vector<std::string>& classes);

struct LoadedModel {
  std::string name;
  std::unique_ptr<nn::Module> net;     // in eval mode
  std::unique_ptr<FlatParams> params;  // set when it computes in 16 bits
  Pictures pictures;
  std::vector<std::string> classes;
};
// IoError on a damaged file or one that was not written by `gossamer train`.
LoadedModel load_model(const std::string& path, DType dtype);

struct Counts {
  double images = 0, top1 = 0, top5 = 0, loss = 0;  // sums
};
struct EvalOptions {
  i64 batch = 64;
  // the part-th of `parts` disjoint shares of the set
  int threads = 1, part = 0, parts = 1;
  i64 max_batches = 0;  // 0: all
  bool strict = false;
};
// Every image of the share exactly once, eval mode, no tape. Sets training mode back. damaged:
// filled with the loader's list.
Counts evaluate(nn::Module& net, const std::shared_ptr<const data::Dataset>& set, const Pictures&,
                const EvalOptions&, std::vector<std::string>* damaged = nullptr);

int cores();  // this process may use
int compute_threads_for(const Config&, int workers_here);
int data_threads_for(const Config&, int workers_here);

}  // namespace gossamer::apps
