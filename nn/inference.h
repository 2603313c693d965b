// Networks as they are evaluated: each batch norm is folded into the convolution before it, weights
// are packed once, addition and ReLU happen where sums are written, and no tape is kept. The memory
// of an activation is reused as soon as its last reader has run. On a GPU the steps are launched as
// a graph, one for each of the most used shapes of the input (core/captured_step.h).
// Threads: any, also for one Inference of a module that several may call (nn/module.h); on a GPU,
// of threads that share a stream.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/nn/layers.h"

namespace gossamer {
struct GraphOptions;  // core/captured_step.h
}

namespace gossamer::nn {

// Puts a network on a device, in eval mode, to compute there in this type. Returns the block with
// its values in f32 and in 16 bits, which must live as long; null for f32.
std::unique_ptr<FlatParams> put_on(Module&, Device, DType);

// The steps of a network from its input to its output. A module writes its own: Module::fold.
class FoldedSteps {
 public:
  using Value = int;  // a result; kInput: what the network is given
  static constexpr Value kInput = 0, kNothing = -1;
  // relu?(norm(conv(x)) (+ add)), as Conv2d::folded computes it.
  Value conv(Value x, Conv2d&, const BatchNorm&, bool relu, Value add = kNothing);
  // Any function of one value. What it refers to must live as long as the steps.
  Value apply(Value x, std::function<Tensor(const Tensor&)>);
  // The last step's result.
  Tensor run(const Tensor& input) const;
  // Frees the network's own weights of the folded convolutions, which these steps do not read.
  void free_weights();

 private:
  struct Step {
    std::function<Tensor(const Tensor& x, Tensor add)> compute;
    Value x, add;
  };
  std::vector<Step> steps_;  // step i makes value i + 1
  std::vector<Conv2d*> folded_;
};

// Computes what net(x) does in eval mode, up to rounding, and without a tape. Row i of the result
// must depend on row i of x alone: on a CPU, many rows are computed a part at a time. A network
// that is passed by reference must live as long; later changes of its weights have no effect. A
// network with weights that are not finite runs as it is. A NaN that arises from finite weights may
// become 0 in a ReLU.
//
// Memory besides the network's: a second copy of its convolutions, unless it is passed by pointer;
// on a CPU packed weights for Winograd, four times as large; the activations of one block of
// layers, on a GPU for each shape.
class Inference {
 public:
  // ConfigError if a layer is in training mode. With options that have no capture, and without
  // options: a network on a GPU gets CUDA's graphs, and one on a CPU none.
  explicit Inference(Module& net);
  explicit Inference(std::unique_ptr<Module> net);
  Inference(Module& net, const GraphOptions&);
  Inference(std::unique_ptr<Module> net, const GraphOptions&);
  ~Inference();
  Inference(Inference&&) noexcept;
  Inference& operator=(Inference&&) noexcept;
  Tensor operator()(const Tensor& x) const;

  std::size_t graphs() const;

 private:
  struct Graphs;
  void fold(Module& net, const GraphOptions&);
  std::unique_ptr<Module> own_;
  FoldedSteps steps_;
  std::unique_ptr<Graphs> graphs_;  // null: there are none
};

// The indices of the k largest numbers, or of all if there are fewer: the largest first; among
// equal ones, the smaller index first. k >= 0.
std::vector<i64> largest(std::span<const float> numbers, i64 k);

}  // namespace gossamer::nn
