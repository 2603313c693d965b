// Initial values of parameters.
// Threads: any; the generator is each thread's own.
#pragma once

#include "gossamer/core/random.h"
#include "gossamer/core/tensor.h"

namespace gossamer::nn {

Tensor kaiming_normal(Shape, i64 fan, Rng&);  // N(0, 2/fan): He et al. 2015, eq. 10
Tensor uniform(Shape, float low, float high, Rng&);
Tensor normal(Shape, float mean, float stddev, Rng&);

// Layers draw their initial values from this generator of the calling thread. Seed it before a
// model is built.
Rng& init_rng();
void seed_initialisation(std::uint64_t seed);

// While one lives, the functions above return uninitialised tensors: for a model whose weights are
// loaded next. Drawing them takes several times as long as reading them.
class NoInitialValues {
 public:
  NoInitialValues();
  ~NoInitialValues();
  NoInitialValues(const NoInitialValues&) = delete;

 private:
  const bool outer_;
};

}  // namespace gossamer::nn
