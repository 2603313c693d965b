// See onnx_language.h.
#include "gossamer/models/onnx_language.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <span>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/core/shape.h"
#include "gossamer/models/gpt2.h"
#include "gossamer/models/llama.h"
#include "gossamer/models/onnx_graph.h"

namespace gossamer::models {
namespace {

constexpr i64 kOpset = 17;

// Shapes stand behind names: [N, T, C] is the stream, [N, H, T, D] are heads.
class Graph : public OnnxGraph {
 public:
  explicit Graph(const LanguageNet& net) {
    for (const NamedTensor& p : net.parameters()) parameters_[p.name] = p.tensor;
    const std::string shape = add("Shape", "ids.shape", {"ids"}),
                      length = add("Gather", "T", {shape, whole("one", 1)});
    // int64 [T]: 0, 1, 2 …
    places_ = add("Range", "places", {whole("zero", 0), length, "one"});
  }
  using OnnxGraph::add;
  const std::string& places() const { return places_; }

  std::string number(const std::string& name, double value) {
    const auto rounded = static_cast<float>(value);
    return constant(name, {}, std::span(&rounded, 1));
  }
  std::string parameter(const std::string& name) { return constant(name, parameters_.at(name)); }

  // Rows of a table: indices [...] -> [..., C].
  std::string rows(const std::string& name, const std::string& indices, const std::string& table) {
    return add("Gather", name, {table, indices});
  }
  // x [N, T, C] times the transpose of `weight`, a parameter [K, C] -> [N, T, K]
  std::string product(const std::string& name, const std::string& x, const std::string& weight) {
    const std::string columns = weight + ".columns";
    if (transposed_.insert(columns).second)
      add(OnnxNode("Transpose", {columns}, {parameter(weight)}).attribute("perm", {1, 0}));
    return add("MatMul", name, {x, columns});
  }
  std::string linear(const std::string& layer, const std::string& x) {
    if (!parameters_.contains(layer + ".bias")) return product(layer, x, layer + ".weight");
    const std::string sums = product(layer + ".product", x, layer + ".weight");
    return add("Add", layer, {sums, parameter(layer + ".bias")});
  }

  std::string layer_norm(const std::string& layer, const std::string& x, float eps) {
    std::vector<std::string> inputs{x, parameter(layer + ".weight")};
    if (parameters_.contains(layer + ".bias")) inputs.push_back(parameter(layer + ".bias"));
    add(OnnxNode("LayerNormalization", {layer}, inputs)
            .attribute("axis", i64{-1})
            .attribute("epsilon", eps));
    return layer;
  }
  std::string rms_norm(const std::string& layer, const std::string& x, float eps) {
    const std::string squares = add("Mul", layer + ".squares", {x, x}), mean = layer + ".mean";
    add(OnnxNode("ReduceMean", {mean}, {squares})
            .attribute("axes", {-1})
            .attribute("keepdims", i64{1}));
    const std::string more = add("Add", layer + ".more", {mean, number("eps", eps)}),
                      root = add("Sqrt", layer + ".root", {more}),
                      normed = add("Div", layer + ".normed", {x, root});
    return add("Mul", layer, {normed, parameter(layer + ".weight")});
  }

  // `count` equal parts along the last axis
  std::vector<std::string> parts(const std::string& x, int count) {
    std::vector<std::string> out;
    for (int i = 0; i < count; ++i) out.push_back(x + ".part" + std::to_string(i));
    add(OnnxNode("Split", out, {x}).attribute("axis", i64{-1}));
    return out;
  }
  // [N, T, H D] -> [N, H, T, D]
  std::string heads(const std::string& x, i64 count, i64 size) {
    const std::vector<i64> shape{0, 0, count, size};
    const std::string cut =
        add("Reshape", x + ".cut",
            {x, constant("heads." + std::to_string(count), {4}, std::span<const i64>(shape))});
    return swapped(x + ".heads", cut);
  }

  // What is added to scores [T, T] of queries by keys: 0 where the key is seen, else -infinity. Of
  // a window, the query itself is the last key.
  std::string mask(i64 window) {
    std::string name = "mask." + std::to_string(window);
    if (!masks_.insert(name).second) return name;
    const std::string queries = add("Unsqueeze", name + ".queries", {places_, axes("last", -1)}),
                      keys = add("Unsqueeze", name + ".keys", {places_, axes("first", 0)});
    std::string seen = add("GreaterOrEqual", name + ".seen", {queries, keys});
    if (window > 0) {
      const std::string back = add("Sub", name + ".back", {queries, keys}),
                        near = add("Less", name + ".near", {back, whole(name + ".window", window)});
      seen = add("And", name + ".seen_near", {seen, near});
    }
    return add("Where", name,
               {seen, number("none", 0),
                number("minus_infinity", -std::numeric_limits<double>::infinity())});
  }

  // q [N, H, T, D]; k and v [N, K, T, D], of which H / K heads each share one -> [N, T, H D]
  std::string attention(const std::string& name, const std::string& q, std::string k, std::string v,
                        i64 queries, i64 keys, i64 size, i64 window) {
    if (queries != keys) {
      k = repeated(k, queries, keys, size);
      v = repeated(v, queries, keys, size);
    }
    add(OnnxNode("Transpose", {k + ".columns"}, {k}).attribute("perm", {0, 1, 3, 2}));
    const std::string scores = add("MatMul", name + ".products", {q, k + ".columns"}),
                      scaled =
                          add("Mul", name + ".scaled",
                              {scores, number("scale", 1 / std::sqrt(static_cast<double>(size)))}),
                      masked = add("Add", name + ".scores", {scaled, mask(window)}),
                      weights = name + ".weights";
    add(OnnxNode("Softmax", {weights}, {masked}).attribute("axis", i64{-1}));
    const std::string mixed = swapped(name + ".rows", add("MatMul", name + ".mixed", {weights, v}));
    const std::vector<i64> shape{0, 0, queries * size};
    return add("Reshape", name, {mixed, constant("joined", {3}, std::span<const i64>(shape))});
  }

 private:
  std::string whole(const std::string& name, i64 value) {
    return constant(name, {}, std::span<const i64>(&value, 1));
  }
  std::string axes(const std::string& name, i64 axis) {
    return constant(name, {1}, std::span<const i64>(&axis, 1));
  }
  // [N, A, B, D] -> [N, B, A, D]
  std::string swapped(const std::string& name, const std::string& x) {
    add(OnnxNode("Transpose", {name}, {x}).attribute("perm", {0, 2, 1, 3}));
    return name;
  }
  // Each of `keys` heads as often as queries share it.
  std::string repeated(const std::string& x, i64 queries, i64 keys, i64 size) {
    const std::vector<i64> times{1, 1, queries / keys, 1, 1}, shape{0, queries, -1, size};
    const std::string apart = add("Unsqueeze", x + ".apart", {x, axes("group", 2)}),
                      all = add("Expand", x + ".all",
                                {apart, constant("times", {5}, std::span<const i64>(times))});
    return add("Reshape", x + ".repeated",
               {all, constant("shared", {4}, std::span<const i64>(shape))});
  }

  std::map<std::string, Tensor> parameters_;
  std::set<std::string> transposed_, masks_;
  std::string places_;
};

// models/gpt2.cpp's forward pass.
void add_gpt2(Graph& g, const Gpt2Options& o) {
  const auto gelu = [&](const std::string& x) {
    std::string inner;
    if (o.gelu == "erf") {
      inner = g.add("Erf", x + ".erf",
                    {g.add("Mul", x + ".inner", {x, g.number("root_half", std::sqrt(.5))})});
    } else {
      const std::string square = g.add("Mul", x + ".square", {x, x}),
                        cube = g.add("Mul", x + ".cube", {square, x}),
                        part =
                            g.add("Mul", x + ".cube_part", {cube, g.number("gelu_cube", .044715)}),
                        sum = g.add("Add", x + ".sum", {x, part}),
                        scaled =
                            g.add("Mul", x + ".inner",
                                  {sum, g.number("gelu_scale", std::sqrt(2 / std::numbers::pi))});
      inner = g.add("Tanh", x + ".tanh", {scaled});
    }
    const std::string more = g.add("Add", x + ".one_more", {inner, g.number("one.f32", 1)}),
                      whole = g.add("Mul", x + ".whole", {x, more});
    return g.add("Mul", x + ".gelu", {whole, g.number("half", .5)});
  };
  const i64 size = o.width / o.heads;
  std::string x = g.add("Add", "embedding",
                        {g.rows("tokens", "ids", g.parameter("wte.weight")),
                         g.rows("positions", g.places(), g.parameter("wpe.weight"))});
  for (i64 layer = 0; layer < o.layers; ++layer) {
    const std::string block = "h." + std::to_string(layer) + ".", attn = block + "attn";
    std::vector<std::string> qkv =
        g.parts(g.linear(attn + ".c_attn", g.layer_norm(block + "ln_1", x, o.eps)), 3);
    for (std::string& each : qkv) each = g.heads(each, o.heads, size);
    const std::string mixed = g.attention(attn, qkv[0], qkv[1], qkv[2], o.heads, o.heads, size, 0);
    x = g.add("Add", block + "attended", {x, g.linear(attn + ".c_proj", mixed)});
    const std::string inside =
        gelu(g.linear(block + "mlp.c_fc", g.layer_norm(block + "ln_2", x, o.eps)));
    x = g.add("Add", block + "out", {x, g.linear(block + "mlp.c_proj", inside)});
  }
  g.product("logits", g.layer_norm("ln_f", x, o.eps), o.tied ? "wte.weight" : "lm_head.weight");
}

// The first and the second half of each row.
std::vector<Tensor> halves(const Tensor& table) {
  const i64 half = table.shape(1) / 2;
  std::vector<Tensor> out;
  for (i64 i = 0; i < 2; ++i) {
    out.push_back(Tensor::empty({table.shape(0), half}));
    for (i64 row = 0; row < table.shape(0); ++row)
      std::copy_n(table.as<float>() + (2 * row + i) * half, half,
                  out.back().as<float>() + row * half);
  }
  return out;
}

// models/llama.cpp's forward pass.
void add_llama(Graph& g, const LlamaOptions& o) {
  const std::vector<Tensor> tables = halves(rope_table(o, o.positions));
  // [T, head_size / 2]
  const std::string cosines = g.rows("cosines", g.places(), g.constant("rope.cosines", tables[0])),
                    sines = g.rows("sines", g.places(), g.constant("rope.sines", tables[1]));
  const auto rotated = [&](const std::string& x) {
    const std::vector<std::string> half = g.parts(x, 2);
    const auto times = [&](int i, const std::string& by, const char* name) {
      return g.add("Mul", x + name, {half[static_cast<std::size_t>(i)], by});
    };
    const std::string first = g.add("Sub", x + ".first",
                                    {times(0, cosines, ".0cos"), times(1, sines, ".1sin")}),
                      second = g.add("Add", x + ".second",
                                     {times(1, cosines, ".1cos"), times(0, sines, ".0sin")});
    g.add(OnnxNode("Concat", {x + ".rotated"}, {first, second}).attribute("axis", i64{-1}));
    return x + ".rotated";
  };
  std::string x = g.rows("embedding", "ids", g.parameter("embed_tokens.weight"));
  for (i64 layer = 0; layer < o.layers; ++layer) {
    const std::string block = "layers." + std::to_string(layer) + ".", attn = block + "self_attn",
                      mlp = block + "mlp", in = g.rms_norm(block + "input_layernorm", x, o.eps);
    const auto heads = [&](const char* name, i64 count) {
      return g.heads(g.linear(attn + "." + name + "_proj", in), count, o.head_size);
    };
    const auto normed = [&](const char* name, const std::string& y) {
      return o.head_norms ? g.rms_norm(attn + "." + name + "_norm", y, o.eps) : y;
    };
    const std::string q = rotated(normed("q", heads("q", o.heads))),
                      k = rotated(normed("k", heads("k", o.kv_heads))), v = heads("v", o.kv_heads),
                      mixed = g.attention(attn, q, k, v, o.heads, o.kv_heads, o.head_size,
                                          o.window_of(layer));
    x = g.add("Add", block + "attended", {x, g.linear(attn + ".o_proj", mixed)});
    const std::string y = g.rms_norm(block + "post_attention_layernorm", x, o.eps),
                      gate = g.linear(mlp + ".gate_proj", y), up = g.linear(mlp + ".up_proj", y),
                      silu = g.add("Mul", mlp + ".silu",
                                   {gate, g.add("Sigmoid", mlp + ".sigmoid", {gate})}),
                      inside = g.add("Mul", mlp + ".inside", {silu, up});
    x = g.add("Add", block + "out", {x, g.linear(mlp + ".down_proj", inside)});
  }
  g.product("logits", g.rms_norm("norm", x, o.eps),
            o.tied ? "embed_tokens.weight" : "lm_head.weight");
}

}  // namespace

std::string onnx_bytes(const LanguageNet& net, const std::string& name,
                       const std::map<std::string, std::string>& metadata) {
  Graph graph(net);
  if (const auto* gpt2 = dynamic_cast<const Gpt2*>(&net)) {
    add_gpt2(graph, gpt2->options());
  } else {
    const auto* llama = dynamic_cast<const Llama*>(&net);
    check<ConfigError>(llama && !llama->lora(), name,
                       ": only GPT-2 and models of LLaMA's kind, with adapters merged, can be "
                       "written as ONNX");
    add_llama(graph, llama->options());
  }
  return graph.file(name, kOpset,
                    {.name = "ids",
                     .type = OnnxType::int64,
                     .shape = {"N", "T"},
                     .meaning = "at most " + std::to_string(net.positions()) + " ids of each text"},
                    {.name = "logits",
                     .type = OnnxType::f32,
                     .shape = {"N", "T", net.vocabulary()},
                     .meaning = "of the id behind each"},
                    metadata);
}

}  // namespace gossamer::models
