// Layers with parameters or state. A layer calls ops (core/ops.h), which do the work and record the
// tape. Functions without state (relu, cross_entropy) need no layer.
// Threads: as Module (module.h).
#pragma once

#include "gossamer/core/ops.h"
#include "gossamer/core/parallel.h"
#include "gossamer/nn/module.h"

namespace gossamer::nn {

class BatchNorm;

struct Conv2dOptions {
  int kernel = 3, stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = false;
};
// weight [out, k, k, in/groups] (NHWC order; files hold torch's [out, in/groups, k, k], see
// checkpoint.h). Initialised Kaiming normal, fan-out, gain sqrt(2) (torchvision's ResNets); bias 0.
class Conv2d : public Module {
 public:
  Conv2d(i64 in, i64 out, Conv2dOptions = {});
  Tensor forward(const Tensor& x) override;  // [N, H, W, in] -> [N, Ho, Wo, out]
  // norm(conv(x)) with norm's running statistics as one convolution: filter k is multiplied by
  // scale[k]/sqrt(var[k] + eps), in f32, and rounded once to the type of the weight.
  InferenceConv folded(const BatchNorm& norm) const;
  // Frees the weight's memory. The layer cannot run afterwards.
  void free_weight();

 private:
  Conv2dOptions options_;
  Tensor weight_, bias_;
};

struct BatchNormLayerOptions {
  float eps = 1e-5f, momentum = 0.1f;
  bool zero_scale = false;
};
// weight, bias [C]; running_mean, running_var f32 [C]; num_batches_tracked i64.
class BatchNorm : public Module {
 public:
  explicit BatchNorm(i64 channels, BatchNormLayerOptions = {});
  Tensor forward(const Tensor& x) override { return apply(x, false); }
  // relu?(bn(x) + add?) in one op
  Tensor apply(const Tensor& x, bool relu, const Tensor& add = {});
  // x with this layer's parameters, as batch_norm_sum and batch_norm_pool take it. Counts as one
  // forward call.
  NormInput of(const Tensor& x);
  // factor x + offset is what it computes in eval mode; f32 [C]. Not recorded.
  struct Affine {
    Tensor factor, offset;
  };
  Affine affine() const;
  void estimate_statistics(bool on) override;

 private:
  BatchNormLayerOptions options_;
  Tensor weight_, bias_, running_mean_, running_var_, batches_;
  bool estimating_ = false;
};

struct LinearOptions {
  bool bias = true;
  Activation activation = Activation::none;  // of the result
};
// weight [out, in], bias [out]; torch's default initialisation: uniform(-1/sqrt(in), 1/sqrt(in)).
class Linear : public Module {
 public:
  Linear(i64 in, i64 out, LinearOptions = {});
  Tensor forward(const Tensor& x) override;  // [..., in] -> [..., out]
  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }  // undefined: none

  // Adds to the result scale * lora_B(lora_A(x)), of children with these names and without biases:
  // lora_A [rank, in] as any linear layer, lora_B [out, rank] of zeros. See lora.h. ConfigError: it
  // has them, or an activation.
  void add_low_rank(i64 rank, float scale);
  // What those add, [..., out]; undefined: there are none.
  Tensor low_rank(const Tensor& x) const;

 private:
  Activation activation_;
  Tensor weight_, bias_;
  Linear *lora_a_ = nullptr, *lora_b_ = nullptr;  // null: none
  float lora_scale_ = 0;
};

// Linear layers of one input, children of some module, as one product: their weights become parts
// of one tensor, and so do their biases (PartOf in core/autograd.h). Names and shapes stay those of
// the layers. All have biases, or none; activations are not applied; what low ranks add is.
class JoinedLinear {
 public:
  explicit JoinedLinear(const std::vector<Linear*>& layers);  // which live as long as this
  Tensor operator()(const Tensor& x) const;  // [..., in] -> [..., out1 + out2 + …]

 private:
  std::vector<const Linear*> layers_;
  std::vector<Tensor> weights_, biases_;
};

struct MaxPool2d : Module {
  explicit MaxPool2d(PoolOptions o) : options(o) {}
  PoolOptions options;
  Tensor forward(const Tensor& x) override { return max_pool2d(x, options); }
};
struct AvgPool2d : Module {
  explicit AvgPool2d(PoolOptions o) : options(o) {}
  PoolOptions options;
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, options); }
};

// Identity in eval mode. The masks are a function of the seed and the number of calls, so a resumed
// run draws the same masks. The device counts the calls, so launches of a captured graph draw those
// of eager steps.
class Dropout : public Module {
 public:
  // seed: drawn from the generator of nn/init.h, another one for each layer
  explicit Dropout(float p);
  Dropout(float p, std::uint64_t seed);
  float probability() const { return p_; }
  // Worker 0 keeps its masks; each other one, with the same seed, draws masks of its own.
  void draw_for(int worker);
  Tensor forward(const Tensor& x) override;
  Tensor add_to(const Tensor& residual, const Tensor& x);  // residual + forward(x), in one pass
  // What a forward call would draw, for ops that apply dropout themselves. Counts as one forward
  // call. p = 0 in eval mode.
  struct Draw {
    float p;
    std::uint64_t seed;
    Tensor stream;  // i64 [] on the device; undefined if p = 0
  };
  Draw draw();

 private:
  float p_;
  std::uint64_t seed_, own_seed_;  // of worker 0; of this one
  Tensor calls_;                   // i64 []
};
// Of all dropout in a model.
void draw_for(Module&, int worker);

// For weights that were not trained, such as an average: all batch norms below `root` that are not
// frozen estimate their running statistics again, as the plain mean over the batches that
// forward_all() gives the network. The network is in training mode then and afterwards; no tape is
// kept.
void estimate_batch_norm(Module& root, FunctionRef<void()> forward_all);

}  // namespace gossamer::nn
