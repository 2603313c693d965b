// Graphs that do on a CPU as CUDA graphs do on a GPU. Capturing runs the host's code and computes
// nothing. Launching computes again, on the memory of the capture; the host's code does not run:
// nothing that it counts moves, and nobody is told that gradients are ready.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/core/captured_step.h"
#include "gossamer/core/error.h"
#include "gossamer/nn/module.h"
#include "gossamer/nn/train/gradient_step.h"

namespace gossamer {

struct FakeGraphs {
  nn::Module& net;
  FlatParams& params;             // of net
  nn::LossSum* losses = nullptr;  // of the step; set it before the first step
  int captured = 0, launched = 0;
  std::string fails{};  // why nothing can be captured

  GraphCapture capture() {
    return [this](const StepWork& work) -> std::unique_ptr<CapturedGraph> {
      if (!fails.empty()) fail<DeviceError>(fails);
      ++captured;
      compute_nothing(work);
      return std::make_unique<Fake>(*this, work);
    };
  }

 private:
  // Memory that belongs to the device and outlives a step.
  std::vector<Tensor> device_state() const {
    std::vector<Tensor> out{params.buffers(), params.grads()};
    const std::vector<Tensor> host = net.counters();
    for (const NamedTensor& b : net.buffers())
      if (b.tensor.dtype() == DType::i64 &&
          std::ranges::find(host, b.tensor.data(), &Tensor::data) == host.end())
        out.push_back(b.tensor);
    return out;
  }
  void compute_nothing(const StepWork& work) const {
    const std::vector<Tensor> state = device_state();
    std::vector<Tensor> before;
    for (const Tensor& t : state) before.push_back(t.clone());
    const auto sum = static_cast<float>(losses->take());
    work();
    (void)losses->take();
    losses->add(Tensor::full({}, sum));
    for (std::size_t i = 0; i < state.size(); ++i) Tensor(state[i]).copy_from(before[i]);
  }
  struct Fake final : CapturedGraph {
    FakeGraphs& all;
    const StepWork work;
    Fake(FakeGraphs& a, StepWork w) : all(a), work(std::move(w)) {}
    void launch() override {
      ++all.launched;
      const std::vector<Tensor> counters = all.net.counters();
      std::vector<i64> before;
      for (const Tensor& c : counters) before.push_back(*c.as<i64>());
      (void)all.params.record_ready(work);
      for (std::size_t i = 0; i < before.size(); ++i) *counters[i].as<i64>() = before[i];
    }
  };
};

}  // namespace gossamer
