// See llama.h.
#include "gossamer/models/llama.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>

#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops/decode.h"
#include "gossamer/models/llama_file.h"
#include "gossamer/models/named_options.h"
#include "gossamer/models/residual.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/lora.h"

namespace gossamer::models {
namespace {

constexpr float kDeviation = 0.02f;

const LlamaOptions& checked(const LlamaOptions& o) {
  check_options(o);
  return o;
}

}  // namespace

void check_options(const LlamaOptions& o) {
  const auto at_least = [](const char* what, i64 value, i64 least) {
    check<ConfigError>(value >= least, "llama: ", what, " ", value, "; it must be at least ",
                       least);
  };
  at_least("layers", o.layers, 1);
  at_least("width", o.width, 1);
  at_least("heads", o.heads, 1);
  at_least("kv_heads", o.kv_heads, 1);
  at_least("head_size", o.head_size, 2);
  at_least("ff", o.ff, 1);
  at_least("positions", o.positions, 1);
  at_least("vocabulary", o.vocabulary, 1);
  at_least("window", o.window, 0);
  check<ConfigError>(o.heads % o.kv_heads == 0, "llama: ", o.heads,
                     " heads of queries cannot share ", o.kv_heads, " heads of keys");
  check<ConfigError>(o.head_size % 2 == 0, "llama: head_size ", o.head_size,
                     "; rotary positions turn pairs, so it must be even");
  check<ConfigError>(o.theta > 0 && o.eps > 0, "llama: theta ", o.theta, ", eps ", o.eps,
                     "; both must be positive");
  const RopeScaling& s = o.scaling;
  check<ConfigError>(s.type == "default" || s.type == "linear" || s.type == "llama3",
                     "llama: rotary positions of type \"", s.type,
                     "\"; known are default, linear and llama3");
  check<ConfigError>(s.factor > 0 && s.low > 0 && s.high > s.low && s.old_positions > 0,
                     "llama: rotary scaling by ", s.factor, " between ", s.low, " and ", s.high,
                     " of ", s.old_positions, " positions is not possible");
}

i64 parameter_count(const LlamaOptions& o) {
  const i64 q = o.heads * o.head_size, kv = o.kv_heads * o.head_size;
  const i64 weights = 2 * q * o.width + 2 * kv * o.width + 3 * o.width * o.ff + 2 * o.width,
            biases = (o.qkv_bias ? q + 2 * kv : 0) + (o.out_bias ? o.width : 0) +
                     (o.mlp_bias ? 2 * o.ff + o.width : 0),
            norms = o.head_norms ? 2 * o.head_size : 0;
  return (o.tied ? 1 : 2) * o.vocabulary * o.width + o.layers * (weights + biases + norms) +
         o.width;
}

std::vector<double> rope_frequencies(const LlamaOptions& o) {
  const RopeScaling& s = o.scaling;
  std::vector<double> frequencies;
  for (i64 i = 0; i < o.head_size / 2; ++i) {
    double f = std::pow(o.theta, -2 * static_cast<double>(i) / static_cast<double>(o.head_size));
    if (s.type == "linear") f /= s.factor;
    if (s.type == "llama3") {
      const double waves = static_cast<double>(s.old_positions) * f / (2 * std::numbers::pi),
                   kept = std::clamp((waves - s.low) / (s.high - s.low), 0.0, 1.0);
      f = (1 - kept) * f / s.factor + kept * f;
    }
    frequencies.push_back(f);
  }
  return frequencies;
}

Tensor rope_table(const LlamaOptions& o, i64 positions) {
  const i64 half = o.head_size / 2;
  const std::vector<double> frequencies = rope_frequencies(o);
  Tensor table = Tensor::empty({positions, o.head_size});
  for (i64 p = 0; p < positions; ++p) {
    float* row = table.as<float>() + p * o.head_size;
    for (i64 i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies[static_cast<std::size_t>(i)];
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

// Where the ids are that are read.
struct Llama::Place {
  Tensor table;      // of rope()
  Tensor positions;  // i32 [T] or [B, T]
  Tensor begins;     // of documents; undefined: none
};

class Llama::Attention : public nn::Module {
 public:
  Attention(const LlamaOptions& o, i64 layer)
      : o_(o),
        window_(o.window_of(layer)),
        q_proj_(add("q_proj", nn::Linear(o.width, o.heads * o.head_size, {.bias = o.qkv_bias}))),
        k_proj_(add("k_proj", nn::Linear(o.width, o.kv_heads * o.head_size, {.bias = o.qkv_bias}))),
        v_proj_(add("v_proj", nn::Linear(o.width, o.kv_heads * o.head_size, {.bias = o.qkv_bias}))),
        o_proj_(add("o_proj", nn::Linear(o.heads * o.head_size, o.width, {.bias = o.out_bias}))),
        qkv_({&q_proj_, &k_proj_, &v_proj_}) {
    if (!o.head_norms) return;
    q_norm_ = &add("q_norm", nn::RmsNorm(o.head_size, o.eps));
    k_norm_ = &add("k_norm", nn::RmsNorm(o.head_size, o.eps));
  }

  Tensor forward(const Tensor& x) override { return apply(x, {}); }
  Tensor apply(const Tensor& x, const Place& place) {
    return o_proj_(attention(rows(x, place), options(place.begins)));
  }

  void add_linear_layers(nn::NamedLayers& to) {
    to.insert(
        to.end(),
        {{"q_proj", &q_proj_}, {"k_proj", &k_proj_}, {"v_proj", &v_proj_}, {"o_proj", &o_proj_}});
  }

  // [B, capacity, 2 kv_heads head_size]: keys are rotated before they are kept.
  Tensor cache(i64 batch) const {
    const Tensor& weight = q_proj_.weight();
    return Tensor::zeros({batch, capacity(), 2 * o_.kv_heads * o_.head_size}, weight.dtype(),
                         weight.device());
  }
  i64 capacity() const { return ring() ? window_ : o_.positions; }

  Tensor step(const Tensor& x, const Tensor& cache, i64 first, const Place& place) {
    const Tensor qkv = rows(x, place),
                 q = append_keys_values(qkv, cache, first,
                                        ring() ? CacheRows::ring : CacheRows::line);
    AttentionOptions how = options({});
    if (first == 0) return o_proj_(attention(qkv, how));
    how.first = first;
    if (ring()) {
      check<ShapeError>(x.shape(1) == 1, "llama: ", x.shape(1), " ids behind ", first,
                        " others; a cache of a window reads a text from its beginning, or one id "
                        "at a time");
      how.window = 0;  // what the ring holds is in the window, in any order
      if (first >= window_) how.causal = false;
    }
    return o_proj_(attention(q, cache, how));
  }
  Tensor step(const Tensor& x, const Tensor& cache, const TextPositions& at, const Place& place) {
    const Tensor q =
        append_keys_values(rows(x, place), cache, at, ring() ? CacheRows::ring : CacheRows::line);
    AttentionOptions how = options({});
    how.causal = false;
    how.window = 0;
    return o_proj_(attention(q, cache, how, at.seen()));
  }

 private:
  bool ring() const { return window_ > 0 && window_ < o_.positions; }
  AttentionOptions options(const Tensor& begins) const {
    AttentionOptions out;
    out.heads = static_cast<int>(o_.heads);
    out.kv_heads = static_cast<int>(o_.kv_heads);
    out.causal = true;
    out.window = window_;
    out.begins = begins;
    return out;
  }
  // q, k and v side by side; q and k normed, if they are, and rotated.
  Tensor rows(const Tensor& x, const Place& place) {
    Tensor qkv = qkv_(x);
    if (q_norm_)
      qkv = rms_norm_heads(qkv, o_.kv_heads, q_norm_->weight(), k_norm_->weight(), o_.eps);
    return rope(std::move(qkv), place.table, place.positions, o_.heads + o_.kv_heads);
  }

  LlamaOptions o_;
  i64 window_;
  nn::Linear &q_proj_, &k_proj_, &v_proj_, &o_proj_;
  nn::JoinedLinear qkv_;
  nn::RmsNorm *q_norm_ = nullptr, *k_norm_ = nullptr;
};

class Llama::Mlp : public nn::Module {
 public:
  explicit Mlp(const LlamaOptions& o)
      : gate_proj_(add("gate_proj", nn::Linear(o.width, o.ff, {.bias = o.mlp_bias}))),
        up_proj_(add("up_proj", nn::Linear(o.width, o.ff, {.bias = o.mlp_bias}))),
        down_proj_(add("down_proj", nn::Linear(o.ff, o.width, {.bias = o.mlp_bias}))),
        gate_up_({&gate_proj_, &up_proj_}) {}
  Tensor forward(const Tensor& x) override { return down_proj_(swiglu(gate_up_(x))); }
  void add_linear_layers(nn::NamedLayers& to) {
    to.insert(to.end(),
              {{"gate_proj", &gate_proj_}, {"up_proj", &up_proj_}, {"down_proj", &down_proj_}});
  }

 private:
  nn::Linear &gate_proj_, &up_proj_, &down_proj_;
  nn::JoinedLinear gate_up_;
};

class Llama::Block : public nn::Module {
 public:
  Block(const LlamaOptions& o, i64 layer)
      : input_layernorm_(add("input_layernorm", nn::RmsNorm(o.width, o.eps))),
        self_attn_(add("self_attn", Attention(o, layer))),
        post_attention_layernorm_(add("post_attention_layernorm", nn::RmsNorm(o.width, o.eps))),
        mlp_(add("mlp", Mlp(o))) {}

  Tensor forward(const Tensor& x) override {
    const Stream s = apply({x, {}}, [this](const Tensor& y) { return self_attn_.forward(y); });
    return gossamer::add(s.x, s.add);
  }
  template <class Attend>
  Stream apply(const Stream& s, const Attend& attend) {
    const NormedSum in = join(input_layernorm_, s),
                    out = join(post_attention_layernorm_, {in.sum, attend(in.y)});
    return {out.sum, mlp_(out.y)};
  }
  Attention& attention() { return self_attn_; }
  void add_linear_layers(nn::NamedLayers& to) {
    self_attn_.add_linear_layers(to);
    mlp_.add_linear_layers(to);
  }

 private:
  nn::RmsNorm& input_layernorm_;
  Attention& self_attn_;
  nn::RmsNorm& post_attention_layernorm_;
  Mlp& mlp_;
};

Llama::Llama(const LlamaOptions& options)
    : options_(checked(options)),
      embed_tokens_(
          add("embed_tokens", nn::Embedding(options.vocabulary, options.width, kDeviation))),
      layers_(add("layers", nn::Sequential())),
      norm_(add("norm", nn::RmsNorm(options.width, options.eps))) {
  for (i64 i = 0; i < options.layers; ++i) layers_.push(Block(options, i));
  if (!options.tied)
    lm_head_ = &add("lm_head", nn::Linear(options.width, options.vocabulary, {.bias = false}));
  initialise();
}

void Llama::initialise() {
  const float back = kDeviation / std::sqrt(2 * static_cast<float>(options_.layers));
  for (NamedTensor& p : parameters()) {
    const bool into_stream =
        p.name.ends_with("o_proj.weight") || p.name.ends_with("down_proj.weight");
    if (p.name.ends_with("bias"))
      p.tensor.zero();
    else if (p.tensor.rank() == 2 && p.name != "embed_tokens.weight")
      p.tensor.copy_from(
          nn::normal(p.tensor.shape(), 0, into_stream ? back : kDeviation, nn::init_rng()));
  }
}

void Llama::adapt(const nn::LoraOptions& o) {
  nn::NamedLayers all;
  for (std::size_t i = 0; i < layers_.size(); ++i) block(i).add_linear_layers(all);
  nn::add_lora(*this, all, o);
  lora_ = std::make_shared<const nn::LoraOptions>(o);
}

Llama::Block& Llama::block(std::size_t i) const { return static_cast<Block&>(layers_[i]); }

const Tensor& Llama::head() const { return lm_head_ ? lm_head_->weight() : embed_tokens_.weight(); }

void Llama::prepare(i64 positions) {
  const Device device = embed_tokens_.weight().device();
  if (table_.defined() && table_.device() == device && table_.shape(0) >= positions) return;
  const auto room = static_cast<i64>(std::bit_ceil(static_cast<std::uint64_t>(positions)));
  const i64 rows = std::max(positions, std::min(room, options_.positions));
  std::vector<std::int32_t> all(static_cast<std::size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  table_ = rope_table(options_, rows).to(device);
  all_positions_ = Tensor::from(all, {rows}).to(device);
}

template <class Attend>
Tensor Llama::run(const Tensor& ids, const Attend& attend) {
  Stream s{embed_tokens_(ids), {}};
  for (std::size_t i = 0; i < layers_.size(); ++i)
    s = block(i).apply(s, [&](const Tensor& y) { return attend(i, block(i).attention(), y); });
  return join(norm_, s).y;
}

namespace {

void check_ids(const Tensor& ids, i64 first, i64 positions) {
  check<ShapeError>(ids.rank() == 2 && ids.shape(1) > 0, "llama: ids ", ids.shape(),
                    "; wanted [B, T]");
  check<ShapeError>(first + ids.shape(1) <= positions, "llama: ", ids.shape(1), " ids",
                    first > 0 ? " behind those in the cache" : "", " are more than its ", positions,
                    " positions");
}

}  // namespace

Tensor positions_in(const Tensor& begins) {
  const i64 length = begins.shape(1);
  Tensor positions = Tensor::empty(begins.shape(), DType::i32);
  for (i64 i = 0; i < begins.numel(); ++i)
    positions.as<std::int32_t>()[i] =
        static_cast<std::int32_t>(i % length) - begins.as<std::int32_t>()[i];
  return positions;
}

Tensor Llama::hidden(const Tensor& ids, const Tensor& begins) {
  if (!begins.defined()) return hidden(ids, {}, {});
  check<ShapeError>(
      begins.device().is_cpu() && begins.dtype() == DType::i32 && begins.shape() == ids.shape(),
      "llama: begins ", begins.shape(), " of ids ", ids.shape(),
      "; wanted i32 of the same shape, on the host");
  return hidden(ids, begins.to(ids.device()), positions_in(begins).to(ids.device()));
}

Tensor Llama::hidden(const Tensor& ids, const Tensor& begins, const Tensor& positions) {
  check_ids(ids, 0, options_.positions);
  const i64 length = ids.shape(1);
  prepare(length);
  Place place{table_, all_positions_.slice(0, length), {}};
  if (begins.defined()) {
    place.positions = positions;
    place.begins = begins;
  }
  return run(ids, [&](std::size_t, Attention& a, const Tensor& y) { return a.apply(y, place); });
}

Llama::Cache Llama::cache(i64 batch) const {
  Cache out;
  for (std::size_t i = 0; i < layers_.size(); ++i)
    out.layers.push_back(block(i).attention().cache(batch));
  return out;
}

i64 Llama::cache_numbers() const {
  i64 rows = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) rows += block(i).attention().capacity();
  return rows * 2 * options_.kv_heads * options_.head_size;
}

Tensor Llama::step(const Tensor& ids, Cache& cache) {
  const NoGrad no_grad;
  check_ids(ids, cache.length, options_.positions);
  const i64 first = cache.length, length = ids.shape(1);
  prepare(first + length);
  const Place place{table_, all_positions_.slice(first, first + length), {}};
  const Tensor x = run(ids, [&](std::size_t i, Attention& a, const Tensor& y) {
    return a.step(y, cache.layers[i], first, place);
  });
  cache.length += length;
  return logits(last_rows(x));
}

Tensor Llama::step(const Tensor& ids, const Cache& cache, const TextPositions& positions) {
  const NoGrad no_grad;
  check<ShapeError>(ids.rank() == 1, "llama: ids ", ids.shape(), "; wanted one of each text, [B]");
  const i64 batch = ids.shape(0);
  prepare(options_.positions);
  const Place place{table_, positions.at().reshape({batch, 1}), {}};
  const Tensor x = run(ids.reshape({batch, 1}), [&](std::size_t i, Attention& a, const Tensor& y) {
    return a.step(y, cache.layers[i], positions, place);
  });
  return logits(x.reshape({batch, options_.width}));
}

// --- the family

namespace {

struct Named {
  ModelInfo info;
  LlamaOptions options;
};
// Shapes of the published models; the first one is that of llama2.c's stories15M.
const std::vector<Named>& named() {
  static const auto& rows =
      *new std::vector<Named>{{{"llama", "a LLaMA with 15 M parameters", 32000},
                               {.layers = 6,
                                .width = 288,
                                .heads = 6,
                                .kv_heads = 6,
                                .head_size = 48,
                                .ff = 768,
                                .positions = 256,
                                .vocabulary = 32000,
                                .tied = true}},
                              {{"smollm2-135m", "135 M", 49152},
                               {.layers = 30,
                                .width = 576,
                                .heads = 9,
                                .kv_heads = 3,
                                .head_size = 64,
                                .ff = 1536,
                                .positions = 8192,
                                .vocabulary = 49152,
                                .theta = 1e5,
                                .tied = true}},
                              {{"tinyllama-1.1b", "1.1 G", 32000},
                               {.layers = 22,
                                .width = 2048,
                                .heads = 32,
                                .kv_heads = 4,
                                .head_size = 64,
                                .ff = 5632,
                                .positions = 2048,
                                .vocabulary = 32000}},
                              {{"llama-3.2-1b", "1.2 G", 128256},
                               {.layers = 16,
                                .width = 2048,
                                .heads = 32,
                                .kv_heads = 8,
                                .head_size = 64,
                                .ff = 8192,
                                .positions = 131072,
                                .vocabulary = 128256,
                                .theta = 5e5,
                                .scaling = {.type = "llama3", .factor = 32},
                                .tied = true}},
                              {{"qwen2.5-0.5b", "494 M", 151936},
                               {.type = "qwen2",
                                .layers = 24,
                                .width = 896,
                                .heads = 14,
                                .kv_heads = 2,
                                .head_size = 64,
                                .ff = 4864,
                                .positions = 32768,
                                .vocabulary = 151936,
                                .theta = 1e6,
                                .eps = 1e-6f,
                                .tied = true,
                                .qkv_bias = true}},
                              {{"qwen3-0.6b", "596 M", 151936},
                               {.type = "qwen3",
                                .layers = 28,
                                .width = 1024,
                                .heads = 16,
                                .kv_heads = 8,
                                .head_size = 128,
                                .ff = 3072,
                                .positions = 40960,
                                .vocabulary = 151936,
                                .theta = 1e6,
                                .eps = 1e-6f,
                                .tied = true,
                                .head_norms = true}},
                              {{"mistral-7b", "7.2 G", 32000},
                               {.type = "mistral",
                                .layers = 32,
                                .width = 4096,
                                .heads = 32,
                                .kv_heads = 8,
                                .head_size = 128,
                                .ff = 14336,
                                .positions = 32768,
                                .vocabulary = 32000,
                                .window = 4096}}};
  return rows;
}

}  // namespace

LlamaOptions llama_options(const std::string& name, const ModelOptions& o) {
  info(name, "language");
  const auto row = std::ranges::find(named(), name, [](const Named& n) { return n.info.name; });
  check<ConfigError>(row != named().end(), "model ", name, " is no llama");
  const LlamaOptions& usual = row->options;
  LlamaOptions out = usual;
  set_options(out, settings_of(o));
  if (o.heads)
    check<ConfigError>(out.width % out.heads == 0, "llama: a width of ", out.width,
                       " is no multiple of its ", out.heads, " heads");
  else if (o.width)
    out.heads = std::max<i64>(1, out.width / usual.head_size);
  if (o.heads || o.width) {
    out.head_size = o.heads ? out.width / out.heads : usual.head_size;
    const i64 group = usual.heads / usual.kv_heads;
    if (!o.kv_heads) out.kv_heads = out.heads % group == 0 ? out.heads / group : out.heads;
  }
  if (o.width && !o.ff) out.ff = (8 * out.width / 3 + 63) / 64 * 64;
  out.vocabulary = o.classes.value_or(out.vocabulary);
  return out;
}

Family llama_family() {
  Family out{
      .name = "llama",
      .task = "language",
      .options = {},
      .models = {},
      .make = [](const std::string& name, const ModelOptions& o) -> std::unique_ptr<nn::Module> {
        return std::make_unique<Llama>(llama_options(name, o));
      },
      .weights = llama_weights};
  for (const NamedSetting& each : named_options(LlamaOptions()))
    out.options.push_back(each.setting.name);
  for (const Named& each : named()) out.models.push_back(each.info);
  return out;
}

}  // namespace gossamer::models
