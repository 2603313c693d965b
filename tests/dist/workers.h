// For the tests of dist: n workers as threads, each with a small model whose gradient is written
// down directly.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "gossamer/core/random.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/method.h"
#include "gossamer/nn/optim.h"

namespace gossamer::dist {

// Worker i minimises |x - target_i|^2 / 2 with noise; the sum over workers is least at the mean of
// the targets.
struct Quadratic {
  Quadratic(int rank, int dims, float momentum = 0, float loss_scale = 1)
      : x(Tensor::full({dims}, static_cast<float>(rank))),
        mean(Tensor::full({4}, static_cast<float>(rank))),
        var(Tensor::full({4}, 1.0f)),
        params({{"x", x}}, {{"bn.running_mean", mean}, {"bn.running_var", var}},
               {.compute = DType::f32, .loss_scale = loss_scale}),
        sgd(params, {.momentum = momentum}),
        noise(7, static_cast<std::uint64_t>(rank)) {
    params.settle_grads();
    target.resize(static_cast<std::size_t>(dims));
    for (int k = 0; k < dims; ++k)
      target[static_cast<std::size_t>(k)] =
          static_cast<float>(rank) + 0.01f * static_cast<float>(k);
  }
  void gradient(float noise_scale = 0) {
    const auto g = params.grads().span<float>();
    const auto at = params.compute_f32().span<float>();
    for (std::size_t k = 0; k < target.size(); ++k)
      g[k] = params.loss_scale() * (at[k] - target[k] + noise_scale * noise.normal());
  }
  Tensor x, mean, var;
  FlatParams params;
  nn::Sgd sgd;
  Rng noise;
  std::vector<float> target;
};

// The name of a method, as gtest takes it.
inline std::string word(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

// Workers of one speed, also on a machine whose cores are taken: nobody gets further ahead of the
// slowest than this. Gossip leans towards whoever does the most gradients, so without it what a
// loaded machine's workers agree on is anywhere between their targets.
class Pace {
 public:
  explicit Pace(int n) : done_(static_cast<std::size_t>(n)) {}
  void step(int rank) {
    const auto mine = ++done_[static_cast<std::size_t>(rank)];
    while (mine > *std::ranges::min_element(done_) + kAhead)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  void leaves(int rank) { done_[static_cast<std::size_t>(rank)] = std::numeric_limits<int>::max(); }
  struct Leaves {  // whichever way it ends
    Pace& pace;
    int rank;
    ~Leaves() { pace.leaves(rank); }
  };

 private:
  static constexpr int kAhead = 4;
  std::vector<std::atomic<int>> done_;
};

// Runs body(rank, group) in a thread each; the first failure of a worker that lives is thrown here.
inline void on_workers(LocalCluster& cluster, int n, const std::function<void(int, Group&)>& body) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::exception_ptr error;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank, cluster.group(rank));
      } catch (...) {
        {
          const std::scoped_lock lock(mutex);
          if (!error && cluster.group(rank).control().alive(rank)) error = std::current_exception();
        }
        cluster.kill(rank);
      }
    });
  for (std::thread& t : threads) t.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace gossamer::dist
