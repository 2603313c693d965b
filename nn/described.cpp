// From the text of each layer to the layer.
#include "gossamer/nn/described.h"

#include <numeric>

#include "gossamer/nn/attention.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/layer_text.h"
#include "gossamer/nn/layers.h"

namespace gossamer::nn {
namespace {

// An op without parameters.
class Plain : public Module {
 public:
  explicit Plain(Tensor (*op)(const Tensor&)) : op_(op) {}
  Tensor forward(const Tensor& x) override { return op_(x); }

 private:
  Tensor (*op_)(const Tensor&);
};

Tensor flatten(const Tensor& x) {
  check<ShapeError>(x.rank() >= 1, "flatten: input is ", x.shape(), "; wanted [N, …]");
  return x.reshape({x.shape(0), -1});
}

class Positions : public Module {
 public:
  Positions(i64 length, i64 width, float deviation)
      : rows_(add("rows", Embedding(length, width, deviation))) {}
  Tensor forward(const Tensor& x) override {
    const i64 tokens = x.rank() == 3 ? x.shape(1) : 0;
    check<ShapeError>(tokens > 0 && tokens <= rows_.weight().shape(0), "positions: input is ",
                      x.shape(), "; wanted [N, T, ", rows_.weight().shape(1), "] with at most ",
                      rows_.weight().shape(0), " tokens");
    const Tensor ids = Tensor::empty({tokens}, DType::i32);
    const auto all = ids.span<std::int32_t>();
    std::iota(all.begin(), all.end(), 0);
    return gossamer::add(x, rows_(ids.to(x.device())));
  }

 private:
  Embedding& rows_;
};

// The layers of a text, or of a group of it, in order. Empty: the identity.
class Described : public Module {
 public:
  explicit Described(const std::vector<LayerText>& layers) {
    for (const LayerText& each : layers) try {
        push(each);
      } catch (const ConfigError& e) {
        if (!each.groups.empty()) throw;  // a layer of a group, which is named
        fail<ConfigError>(each.where(), ": ", e.what());
      }
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (const Layer& each : layers_) try {
        y = each.layer->forward(y);
      } catch (const ShapeError& e) {
        fail<ShapeError>("layer ", each.name, ": ", e.what());
      }
    return y;
  }
  int fold(FoldedSteps& steps, int x) override {
    for (const Layer& each : layers_) x = each.layer->fold(steps, x);
    return x;
  }

 private:
  void push(const LayerText& text);
  template <class Of>
  void keep(const LayerText& text, Of layer) {
    layers_.push_back({text.name, &add(text.name, std::move(layer))});
  }
  struct Layer {
    std::string name;
    Module* layer;
  };
  std::vector<Layer> layers_;
};

class Residual : public Module {
 public:
  explicit Residual(const LayerText& text)
      : body_(add("body", Described(text.groups[0]))),
        shortcut_(add("shortcut", Described(text.groups.size() > 1 ? text.groups[1]
                                                                   : std::vector<LayerText>()))) {}
  Tensor forward(const Tensor& x) override { return gossamer::add(shortcut_(x), body_(x)); }

 private:
  Described &body_, &shortcut_;
};

PoolOptions pool_options(const LayerText& text) {
  const auto o = text.as<PoolText>();
  return {static_cast<int>(o.kernel), static_cast<int>(o.stride), static_cast<int>(o.padding)};
}

void Described::push(const LayerText& text) {
  const std::string& kind = text.kind;
  if (kind == "linear") {
    const auto o = text.as<LinearText>();
    keep(text, Linear(o.in, o.out, {.bias = o.bias}));
  } else if (kind == "conv") {
    const auto o = text.as<ConvText>();
    keep(text, Conv2d(o.in, o.out,
                      {.kernel = static_cast<int>(o.kernel),
                       .stride = static_cast<int>(o.stride),
                       .padding = static_cast<int>(o.padding),
                       .dilation = static_cast<int>(o.dilation),
                       .groups = static_cast<int>(o.groups),
                       .bias = o.bias}));
  } else if (kind == "batch_norm") {
    const auto o = text.as<BatchNormText>();
    keep(text, BatchNorm(o.width, {.eps = static_cast<float>(o.eps),
                                   .momentum = static_cast<float>(o.momentum)}));
  } else if (kind == "layer_norm") {
    const auto o = text.as<LayerNormText>();
    keep(text, LayerNorm(o.width, {.eps = static_cast<float>(o.eps), .bias = o.bias}));
  } else if (kind == "embedding") {
    const auto o = text.as<EmbeddingText>();
    keep(text, Embedding(o.rows, o.width, static_cast<float>(o.deviation)));
  } else if (kind == "positions") {
    const auto o = text.as<PositionsText>();
    keep(text, Positions(o.length, o.width, static_cast<float>(o.deviation)));
  } else if (kind == "attention") {
    const auto o = text.as<AttentionText>();
    keep(text, SelfAttention(o.width, {.heads = static_cast<int>(o.heads),
                                       .causal = o.causal,
                                       .bias = o.bias,
                                       .dropout = static_cast<float>(o.dropout)}));
  } else if (kind == "dropout") {
    keep(text, Dropout(static_cast<float>(text.as<DropoutText>().p)));
  } else if (kind == "max_pool") {
    keep(text, MaxPool2d(pool_options(text)));
  } else if (kind == "avg_pool") {
    keep(text, AvgPool2d(pool_options(text)));
  } else if (kind == "residual") {
    keep(text, Residual(text));
  } else {
    const std::pair<const char*, Tensor (*)(const Tensor&)> ops[] = {
        {"relu", relu},           {"gelu", gelu},       {"gelu_tanh", gelu_tanh},
        {"tanh", gossamer::tanh}, {"sigmoid", sigmoid}, {"global_avg_pool", global_avg_pool},
        {"flatten", flatten}};
    for (const auto& [name, op] : ops)
      if (kind == name) return keep(text, Plain(op));
    fail(text.where(), ": nothing makes it");
  }
}

}  // namespace

std::unique_ptr<Module> make_described(const std::string& text) {
  return std::make_unique<Described>(parse_layers(text));
}

}  // namespace gossamer::nn
