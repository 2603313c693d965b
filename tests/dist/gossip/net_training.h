// A small net whose training by gossip is recorded and repeated.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "dist/workers.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/parallel.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/layers.h"

namespace gossamer::dist {

// A convolutional net with batch norm and dropout: all kinds of state that training has.
class ConvNet : public nn::Module {
 public:
  Tensor forward(const Tensor& x) override {
    return fc_(drop_(global_avg_pool(norm_.apply(conv_(x), true))));
  }

 private:
  nn::Conv2d& conv_ = add("conv", nn::Conv2d(3, 8, {.kernel = 3, .padding = 1}));
  nn::BatchNorm& norm_ = add("norm", nn::BatchNorm(8));
  nn::Dropout& drop_ = add("drop", nn::Dropout(.2f, 5));
  nn::Linear& fc_ = add("fc", nn::Linear(8, 4));
};

// Each worker's parameters and batch-norm statistics at the end. longest_ms: how long the gradients
// of worker 2 take. group_of: what is put around a worker's group; none: nothing.
inline std::vector<std::vector<float>> train_nets(
    int workers, MethodOptions options, double longest_ms,
    const std::function<std::unique_ptr<Group>(int rank, Group&)>& group_of = nullptr,
    const char* method_name = "a2cid2") {
  options.batch = 8;
  options.total_samples = workers * 12 * 8;
  LocalCluster cluster(workers);
  std::vector<std::vector<float>> x(static_cast<std::size_t>(workers));
  on_workers(cluster, workers, [&](int rank, Group& host) {
    set_compute_threads(1);
    const std::unique_ptr<Group> around = group_of ? group_of(rank, host) : nullptr;
    nn::seed_initialisation(1);
    ConvNet net;
    FlatParams params(net.parameters(), net.buffers(), {.compute = DType::f32, .separate = true});
    nn::Sgd sgd(params, {.momentum = .9f});
    auto method = make_method(method_name, params, sgd, around ? *around : host,
                              make_graph("complete", workers), options);
    Rng data(9, static_cast<std::uint64_t>(rank));
    while (!method->done()) {
      Tensor images = nn::normal({8, 8, 8, 3}, 0, 1, data), labels = Tensor::empty({8}, DType::i32);
      for (i64 i = 0; i < 8; ++i)
        labels.as<std::int32_t>()[i] = static_cast<std::int32_t>(data.below(4));
      params.zero_grad();
      cross_entropy(net(images), labels).backward();
      std::this_thread::sleep_for(
          std::chrono::duration<double, std::milli>(rank == 2 ? longest_ms : .2));
      method->step(.05);
    }
    method->finish();
    auto& mine = x[static_cast<std::size_t>(rank)];
    const auto append = [&](const Tensor& t) {
      mine.insert(mine.end(), t.span<float>().begin(), t.span<float>().end());
    };
    append(params.values());
    for (const NamedTensor& b : net.buffers())
      if (b.tensor.dtype() == DType::f32) append(b.tensor);
  });
  return x;
}

}  // namespace gossamer::dist
