// See gpt2.h.
#include "gossamer/models/gpt2.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops/decode.h"
#include "gossamer/models/gpt2_file.h"
#include "gossamer/models/named_options.h"
#include "gossamer/models/residual.h"
#include "gossamer/nn/init.h"

namespace gossamer::models {
namespace {

constexpr float kDeviation = 0.02f;

const Gpt2Options& checked(const Gpt2Options& o) {
  check_settings(named_options(o), "gpt2");
  check<ConfigError>(o.vocabulary >= 1, "gpt2: ", o.vocabulary, " ids; it must be at least 1");
  check<ConfigError>(o.ff >= 0, "gpt2: ", o.ff, " is no width inside the blocks");
  check<ConfigError>(o.width % o.heads == 0, "gpt2: a width of ", o.width,
                     " is no multiple of its ", o.heads, " heads");
  return o;
}

class Mlp : public nn::Module {
 public:
  explicit Mlp(const Gpt2Options& o)
      : c_fc_(add("c_fc", nn::Linear(o.width, o.ff > 0 ? o.ff : 4 * o.width,
                                     {.bias = o.bias,
                                      .activation = o.gelu == "erf" ? Activation::gelu
                                                                    : Activation::gelu_tanh}))),
        c_proj_(
            add("c_proj", nn::Linear(o.ff > 0 ? o.ff : 4 * o.width, o.width, {.bias = o.bias}))) {}
  Tensor forward(const Tensor& x) override { return c_proj_(c_fc_(x)); }

 private:
  nn::Linear &c_fc_, &c_proj_;
};

}  // namespace

class Gpt2::Block : public nn::Module {
 public:
  explicit Block(const Gpt2Options& o)
      : ln_1_(add("ln_1", nn::LayerNorm(o.width, {.eps = o.eps, .bias = o.bias}))),
        attn_(add("attn", nn::SelfAttention(o.width, {.heads = static_cast<int>(o.heads),
                                                      .causal = true,
                                                      .bias = o.bias,
                                                      .dropout = o.dropout,
                                                      .in = "c_attn",
                                                      .out = "c_proj"}))),
        ln_2_(add("ln_2", nn::LayerNorm(o.width, {.eps = o.eps, .bias = o.bias}))),
        mlp_(add("mlp", Mlp(o))),
        drop_(add("drop", nn::Dropout(o.dropout))) {}

  Tensor forward(const Tensor& x) override {
    const Stream s = apply({x, {}}, [this](const Tensor& y) { return attn_.forward(y); });
    return gossamer::add(s.x, s.add);
  }
  template <class Attend>
  Stream apply(const Stream& s, const Attend& attend) {
    const Stream attended = branch(ln_1_, drop_, true, s, attend);
    return branch(ln_2_, drop_, true, attended, [&](const Tensor& y) { return mlp_(y); });
  }
  nn::SelfAttention& attention() { return attn_; }

 private:
  nn::LayerNorm& ln_1_;
  nn::SelfAttention& attn_;
  nn::LayerNorm& ln_2_;
  Mlp& mlp_;
  nn::Dropout& drop_;
};

Gpt2::Gpt2(const Gpt2Options& options)
    : options_(checked(options)),
      wte_(add("wte", nn::Embedding(options.vocabulary, options.width, kDeviation))),
      wpe_(add("wpe", nn::Embedding(options.positions, options.width, kDeviation))),
      drop_(add("drop", nn::Dropout(options.dropout))),
      h_(add("h", nn::Sequential())),
      ln_f_(add("ln_f", nn::LayerNorm(options.width, {.eps = options.eps, .bias = options.bias}))) {
  for (i64 i = 0; i < options.layers; ++i) h_.push(Block(options));
  if (!options.tied)
    lm_head_ = &add("lm_head", nn::Linear(options.width, options.vocabulary, {.bias = false}));
  initialise();
}

void Gpt2::initialise() {
  const float back = kDeviation / std::sqrt(2 * static_cast<float>(options_.layers));
  std::vector<NamedTensor> all = h_.parameters();
  if (lm_head_) all.push_back({"lm_head.weight", lm_head_->weight()});
  for (NamedTensor& p : all)
    if (p.tensor.rank() == 2)
      p.tensor.copy_from(nn::normal(p.tensor.shape(), 0,
                                    p.name.ends_with("c_proj.weight") ? back : kDeviation,
                                    nn::init_rng()));
    else if (p.name.ends_with("bias"))
      p.tensor.zero();
}

Tensor Gpt2::positions_from(i64 first, i64 length) {
  check<ShapeError>(first + length <= options_.positions, "gpt2: ", length, " ids",
                    first > 0 ? " behind those in the cache" : "", " are more than its ",
                    options_.positions, " positions");
  if (!all_positions_.defined() || all_positions_.device() != wpe_.weight().device()) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(options_.positions));
    std::iota(all.begin(), all.end(), 0);
    all_positions_ = Tensor::from(all, {options_.positions}).to(wpe_.weight().device());
  }
  return all_positions_.slice(first, first + length);
}

Tensor Gpt2::run(const Tensor& ids, const Tensor& positions, const Attend& attend) {
  Stream s{drop_(gossamer::add(wte_(ids), wpe_(positions))), {}};
  for (std::size_t i = 0; i < h_.size(); ++i) {
    auto& block = static_cast<Block&>(h_[i]);
    s = block.apply(s, [&](const Tensor& y) { return attend(i, block.attention(), y); });
  }
  return join(ln_f_, drop_, s).y;
}

Tensor Gpt2::hidden(const Tensor& ids) {
  check<ShapeError>(ids.rank() == 2, "gpt2: ids ", ids.shape(), "; wanted [B, T]");
  return run(ids, positions_from(0, ids.shape(1)),
             [](std::size_t, nn::SelfAttention& a, const Tensor& y) { return a.forward(y); });
}

Gpt2::Cache Gpt2::cache(i64 batch) const {
  Cache out;
  for (std::size_t i = 0; i < h_.size(); ++i)
    out.layers.push_back(static_cast<Block&>(h_[i]).attention().cache(batch, options_.positions));
  return out;
}

Tensor Gpt2::step(const Tensor& ids, Cache& cache) {
  const NoGrad no_grad;
  check<ShapeError>(ids.rank() == 2 && ids.shape(1) > 0, "gpt2: ids ", ids.shape(),
                    "; wanted [B, T]");
  const i64 length = ids.shape(1), first = cache.length;
  const Tensor x = run(ids, positions_from(first, length),
                       [&](std::size_t i, nn::SelfAttention& a, const Tensor& y) {
                         return a.step(y, cache.layers[i], first);
                       });
  cache.length += length;
  return logits(last_rows(x));
}

Tensor Gpt2::step(const Tensor& ids, const Cache& cache, const TextPositions& positions) {
  const NoGrad no_grad;
  check<ShapeError>(ids.rank() == 1, "gpt2: ids ", ids.shape(), "; wanted one of each text, [B]");
  const i64 batch = ids.shape(0);
  const Tensor x = run(ids.reshape({batch, 1}), positions.at().reshape({batch, 1}),
                       [&](std::size_t i, nn::SelfAttention& a, const Tensor& y) {
                         return a.step(y, cache.layers[i], positions);
                       });
  return logits(x.reshape({batch, options_.width}));
}

// --- the family

namespace {

struct Size {
  ModelInfo info;
  i64 layers, width;
};
const std::vector<Size>& sizes() {
  static const Gpt2Options usual;
  static const auto& rows = *new std::vector<Size>{
      {{"gpt2", "GPT-2 with 124 M parameters", usual.vocabulary}, usual.layers, usual.width},
      {{"gpt2-medium", "355 M", usual.vocabulary}, 24, 1024},
      {{"gpt2-large", "774 M", usual.vocabulary}, 36, 1280},
      {{"gpt2-xl", "1.6 G", usual.vocabulary}, 48, 1600}};
  return rows;
}

}  // namespace

i64 gpt2_heads(i64 width) { return std::max<i64>(1, width / 64); }

Gpt2Options gpt2_options(const std::string& name, const ModelOptions& o) {
  info(name, "language");
  const Size& size = *std::ranges::find(sizes(), name, [](const Size& s) { return s.info.name; });
  Gpt2Options out{.layers = size.layers,
                  .width = size.width,
                  .heads = gpt2_heads(size.width),
                  .dropout = static_cast<float>(o.dropout)};
  set_options(out, settings_of(o));
  out.vocabulary = o.classes.value_or(out.vocabulary);
  return out;
}

Family gpt2_family() {
  Family out{
      .name = "gpt2",
      .task = "language",
      .options = taken_by<Gpt2Options>(),
      .models = {},
      .make = [](const std::string& name, const ModelOptions& o) -> std::unique_ptr<nn::Module> {
        return std::make_unique<Gpt2>(gpt2_options(name, o));
      },
      .weights = gpt2_weights};
  for (const Size& size : sizes()) out.models.push_back(size.info);
  return out;
}

}  // namespace gossamer::models
