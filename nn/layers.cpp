// Layers: what they hold and which ops they call.
#include "gossamer/nn/layers.h"

#include <cmath>

#include "gossamer/core/autograd.h"
#include "gossamer/core/ops/rearrange.h"
#include "gossamer/core/ops/scale_rows.h"
#include "gossamer/nn/init.h"

namespace gossamer::nn {
namespace {

// Layers do not cast their input: a hidden cast would cost a pass over the activations and hide a
// mistake.
void check_type(const char* layer, const Tensor& x, const Tensor& weight) {
  check<ShapeError>(is_floating(x.dtype()), layer, ": input ", x.shape(), " is ", x.dtype(),
                    " but the weight ", weight.shape(), " is ", weight.dtype(),
                    "; call normalize(images, …) for pictures or x.to(DType::", weight.dtype(),
                    ") first; in C give gsm_tensor_copy floats");
  check<ShapeError>(x.dtype() == weight.dtype(), layer, ": input ", x.shape(), " is ", x.dtype(),
                    " but the weight ", weight.shape(), " is ", weight.dtype(),
                    "; call cast(x, DType::", weight.dtype(), ") first");
}

}  // namespace

Conv2d::Conv2d(i64 in, i64 out, Conv2dOptions options) : options_(options) {
  const int k = options.kernel;
  check<ConfigError>(in > 0 && out > 0 && k > 0 && options.stride > 0 && options.dilation > 0 &&
                         options.padding >= 0 && options.groups > 0 && in % options.groups == 0 &&
                         out % options.groups == 0,
                     "Conv2d: ", in, " -> ", out, " channels, kernel ", k, ", stride ",
                     options.stride, ", padding ", options.padding, ", dilation ", options.dilation,
                     ", groups ", options.groups,
                     "; sizes must be positive and groups must divide both channel counts");
  weight_ =
      param("weight", kaiming_normal({out, k, k, in / options.groups}, out * k * k, init_rng()));
  if (options.bias) bias_ = param("bias", Tensor::zeros({out}));
}

Tensor Conv2d::forward(const Tensor& x) {
  check_type("Conv2d", x, weight_);
  const auto& [kernel, stride, padding, dilation, groups, bias] = options_;
  Tensor y = conv2d(x, weight_, {stride, padding, dilation, groups});
  if (!bias_.defined()) return y;
  // a bias stays f32 when weights are bf16
  return gossamer::add(y, bias_.dtype() == y.dtype() ? bias_ : cast(bias_, y.dtype()));
}

void Conv2d::free_weight() {
  weight_.rebind(Tensor::wrap(nullptr, weight_.shape(), weight_.dtype()));
}

InferenceConv Conv2d::folded(const BatchNorm& norm) const {
  const NoGrad no_grad;
  const auto [factor, offset] = norm.affine();
  check<ShapeError>(factor.numel() == weight_.shape(0), "Conv2d: weight ", weight_.shape(),
                    " and a batch norm of ", factor.numel(), " channels do not fit");
  const auto& [kernel, stride, padding, dilation, groups, biased] = options_;
  return {scale_rows(weight_, factor),
          bias_.defined() ? gossamer::add(mul(factor, bias_), offset) : offset,
          {stride, padding, dilation, groups}};
}

BatchNorm::BatchNorm(i64 channels, BatchNormLayerOptions options) : options_(options) {
  check<ConfigError>(channels > 0, "BatchNorm: ", channels, " channels; wanted at least 1");
  weight_ = param("weight", Tensor::full({channels}, options.zero_scale ? 0.f : 1.f));
  bias_ = param("bias", Tensor::zeros({channels}));
  running_mean_ = buffer("running_mean", Tensor::zeros({channels}));
  running_var_ = buffer("running_var", Tensor::full({channels}, 1));
  batches_ = counter("num_batches_tracked");
}

NormInput BatchNorm::of(const Tensor& x) {
  float momentum = options_.momentum;
  if (training()) {
    i64& batches = *batches_.as<i64>();
    ++batches;
    // With weight 1/n for the n-th batch, the running value is the plain mean over all n.
    if (estimating_) momentum = 1.f / static_cast<float>(batches);
  }
  return {x,
          weight_,
          bias_,
          running_mean_,
          running_var_,
          {.eps = options_.eps, .momentum = momentum, .training = training()}};
}

BatchNorm::Affine BatchNorm::affine() const {
  const NoGrad no_grad;
  const Tensor factor = div(weight_, gossamer::sqrt(gossamer::add(running_var_, options_.eps)));
  return {factor, sub(bias_, mul(running_mean_, factor))};
}

Tensor BatchNorm::apply(const Tensor& x, bool relu, const Tensor& add) {
  NormInput in = of(x);
  in.options.relu = relu;
  return batch_norm(in.x, in.scale, in.shift, in.running_mean, in.running_var, in.options, add);
}

void BatchNorm::estimate_statistics(bool on) {
  if (on) {
    running_mean_.zero();
    running_var_.fill(1);
    *batches_.as<i64>() = 0;
  }
  estimating_ = on;
}

Linear::Linear(i64 in, i64 out, LinearOptions options) : activation_(options.activation) {
  check<ConfigError>(in > 0 && out > 0, "Linear: ", in, " -> ", out,
                     " features; both must be positive");
  const float bound = 1 / std::sqrt(static_cast<float>(in));
  weight_ = param("weight", uniform({out, in}, -bound, bound, init_rng()));
  if (options.bias) bias_ = param("bias", uniform({out}, -bound, bound, init_rng()));
}

Tensor Linear::forward(const Tensor& x) {
  check_type("Linear", x, weight_);
  Tensor y = linear(x, weight_, bias_, activation_);
  return lora_a_ ? gossamer::add(y, low_rank(x)) : y;
}

void Linear::add_low_rank(i64 rank, float scale) {
  check<ConfigError>(!lora_a_ && activation_ == Activation::none,
                     "Linear: a low rank is added once, to a layer without an activation");
  lora_a_ = &add("lora_A", Linear(weight_.shape(1), rank, {.bias = false}));
  lora_b_ = &add("lora_B", Linear(rank, weight_.shape(0), {.bias = false}));
  Tensor(lora_b_->weight()).zero();
  lora_scale_ = scale;
}

Tensor Linear::low_rank(const Tensor& x) const {
  if (!lora_a_) return {};
  return linear((*lora_a_)(x), mul(lora_b_->weight(), lora_scale_));
}

namespace {

// Makes them parts of one tensor.
void join(std::vector<Tensor>& parts) {
  i64 rows = 0;
  for (const Tensor& part : parts) rows += part.shape(0);
  const Tensor& first = parts[0];
  const Tensor whole = Tensor::empty(first.rank() == 1 ? Shape{rows} : Shape{rows, first.shape(1)});
  rows = 0;
  for (Tensor& part : parts) {
    Tensor window = whole.slice(rows, rows + part.shape(0));
    window.copy_from(part);
    part.rebind(window);
    part.slot()->part = {whole, rows, {}};
    rows += part.shape(0);
  }
}

}  // namespace

JoinedLinear::JoinedLinear(const std::vector<Linear*>& layers) {
  for (const Linear* layer : layers) {
    layers_.push_back(layer);
    weights_.push_back(layer->weight());
    if (layer->bias().defined()) biases_.push_back(layer->bias());
    check<ConfigError>(layer->weight().shape(1) == weights_[0].shape(1) &&
                           (biases_.empty() || biases_.size() == weights_.size()),
                       "JoinedLinear: weights ", weights_[0].shape(), " and ",
                       layer->weight().shape(),
                       "; all have as many inputs, and all biases or none");
  }
  check<ConfigError>(!layers.empty(), "JoinedLinear: no layers");
  join(weights_);
  if (!biases_.empty()) join(biases_);
}

Tensor JoinedLinear::operator()(const Tensor& x) const {
  check_type("JoinedLinear", x, weights_[0]);
  Tensor y = joined_linear(x, weights_, biases_);
  const Tensor rows = x.reshape({-1, x.shape(-1)});
  std::vector<Tensor> added;
  bool any = false;
  for (const Linear* layer : layers_) {
    added.push_back(layer->low_rank(rows));
    any = any || added.back().defined();
  }
  if (!any) return y;
  for (std::size_t i = 0; i < added.size(); ++i)
    if (!added[i].defined())
      added[i] = Tensor::zeros({rows.shape(0), weights_[i].shape(0)}, y.dtype(), y.device());
  return add(y, concat(added, -1).reshape(y.shape()));
}

Dropout::Dropout(float p) : Dropout(p, init_rng().word()) {}

Dropout::Dropout(float p, std::uint64_t seed) : p_(p), seed_(seed), own_seed_(seed) {
  check<ConfigError>(p >= 0 && p < 1, "Dropout: probability ", p, "; wanted 0 <= p < 1");
  calls_ = buffer("calls", Tensor::zeros({}, DType::i64));
}

void Dropout::draw_for(int worker) {
  own_seed_ = worker > 0 ? Rng(seed_, static_cast<std::uint64_t>(worker)).word() : seed_;
}
void draw_for(Module& model, int worker) {
  for (Module* each : model.modules())
    if (auto* drop = dynamic_cast<Dropout*>(each)) drop->draw_for(worker);
}

Dropout::Draw Dropout::draw() {
  if (!training() || p_ == 0) return {0, own_seed_, {}};
  return {p_, own_seed_, take_number(calls_)};
}

Tensor Dropout::forward(const Tensor& x) {
  const auto [p, seed, stream] = draw();
  return dropout(x, p, seed, stream);
}

Tensor Dropout::add_to(const Tensor& residual, const Tensor& x) {
  const auto [p, seed, stream] = draw();
  return dropout_add(x, residual, p, seed, stream);
}

void estimate_batch_norm(Module& root, FunctionRef<void()> forward_all) {
  const NoGrad no_grad;
  root.train();
  for (Module* module : root.modules())
    if (!module->frozen()) module->estimate_statistics(true);
  forward_all();
  for (Module* module : root.modules()) module->estimate_statistics(false);
}

}  // namespace gossamer::nn
