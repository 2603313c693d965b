// Times each kernel of the CPU beside what the cores can do: products, convolutions and attention
// beside multiply-adds alone, passes over memory beside a copy of as many bytes.
//     bench_kernels [--kernels SET] [--threads N] [--seconds S] [--only TEXT] [--json]
//     bench_kernels --layers N,SIDE,C,K,R,STRIDE …   JSON: what the engine runs for these
// In a build without oneDNN its columns are missing.
// SET: of `gossamer doctor`, a lower one than the best (oneDNN is held to it, too); S: of each row;
// TEXT: rows whose name contains it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "gossamer/core/backend.h"
#include "gossamer/core/cpu/attention.h"
#include "gossamer/core/cpu/direct_conv.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cpu/onednn_calls.h"
#include "gossamer/core/cpu/pointwise_conv.h"
#include "gossamer/core/cpu/products.h"
#include "gossamer/core/cpu/winograd.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/tests/bench/core_peak.h"

namespace gossamer::bench {
namespace {

struct Options {
  int threads = 1;
  double seconds = 0.2;
  std::string kernels, only;
  std::vector<std::string> layers;
  bool json = false;
};

Tensor normal(const Shape& shape, DType type = DType::f32, std::uint64_t seed = 1) {
  Tensor t = Tensor::empty(shape);
  Rng rng(seed);
  for (float& v : t.span<float>()) v = rng.normal();
  return t.to(type);
}

template <class... A>
std::string text(const A&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

class Table {
 public:
  explicit Table(const Options& options) : o_(options) {}

  // What the engine runs, whichever kernel that is, and oneDNN.
  void engine(const nlohmann::json& layer, double count, FunctionRef<void()> engine,
              FunctionRef<void()> onednn) {
    cpu::forget_runs();
    engine();
    std::string ran = "oneDNN";
    for (const auto& [kernel, name] :
         {std::pair{cpu::Kernel::winograd, "Winograd"}, std::pair{cpu::Kernel::direct, "direct"},
          std::pair{cpu::Kernel::product, "product"}})
      if (!cpu::ran_from(kernel).empty()) ran = name;
    const Speed s = against_fma(count, o_.threads, o_.seconds, engine),
                v = ran == "oneDNN" || !cpu::has_onednn()
                        ? s
                        : against_fma(count, o_.threads, o_.seconds, onednn);
    nlohmann::json row = layer;
    row["ran"] = ran;
    if (cpu::has_onednn()) row["onednn_rate"] = v.rate;
    print(layer["name"], "flop", s, row);
  }

  bool wants(const std::string& name) const { return name.find(o_.only) != std::string::npos; }

  // A kernel of ours, and oneDNN's for the same work, if there is one. engine: what the CPU engine
  // runs for this; shows which of the two it chooses.
  void operations(const std::string& name, double count, cpu::Kernel kernel,
                  FunctionRef<void()> ours, FunctionRef<void()> onednn,
                  FunctionRef<void()> engine) {
    if (!cpu::has_onednn()) return operations(name, count, ours);
    const Speed s = against_fma(count, o_.threads, o_.seconds, ours),
                v = against_fma(count, o_.threads, o_.seconds, onednn);
    cpu::forget_runs();
    engine();
    const char* chosen = cpu::ran_from(kernel).empty() ? "oneDNN" : "ours";
    if (o_.json) return print(name, "flop", s, {{"onednn_share", v.share()}, {"chosen", chosen}});
    std::printf("%-44s %8.1f GFLOP/s %5.0f %%   oneDNN %5.0f %%   chosen: %s\n", name.c_str(),
                s.rate / 1e9, 100 * s.share(), 100 * v.share(), chosen);
    std::fflush(stdout);
  }
  void operations(const std::string& name, double count, FunctionRef<void()> ours) {
    const Speed s = against_fma(count, o_.threads, o_.seconds, ours);
    if (o_.json) return print(name, "flop", s);
    std::printf("%-44s %8.1f GFLOP/s %5.0f %%\n", name.c_str(), s.rate / 1e9, 100 * s.share());
    std::fflush(stdout);
  }
  // bytes: what the pass must read and write at least
  void pass(const std::string& name, double bytes, FunctionRef<void()> run) {
    if (!wants(name)) return;
    const Speed s = against_copy(bytes, o_.threads, o_.seconds, run);
    if (o_.json) return print(name, "byte", s);
    std::printf("%-44s %8.1f GB/s    %5.0f %%\n", name.c_str(), s.rate / 1e9, 100 * s.share());
    std::fflush(stdout);
  }

 private:
  void print(const std::string& name, const char* unit, const Speed& s,
             nlohmann::json more = nlohmann::json::object()) const {
    more.update({{"kernel", name},
                 {"kernels", cpu::kernel_set()},
                 {"threads", o_.threads},
                 {"unit", text(unit, "/s")},
                 {"rate", s.rate},
                 {"peak", s.peak},
                 {"share", s.share()}});
    std::cout << more.dump() << std::endl;
  }

  const Options& o_;
};

// y = x w' of a linear layer and its gradients: x [rows, in], w [out, in].
void linear(Table& table, const char* layer, DType type, i64 rows, i64 out, i64 in) {
  struct Form {
    const char* name;
    bool ta, tb;
    i64 m, n, k;
  };
  for (const Form& f : {Form{"forward", false, true, rows, out, in},
                        {"dx", false, false, rows, in, out},
                        {"dw", true, false, out, in, rows}}) {
    const std::string name =
        text("product ", type, " ", layer, " ", rows, "x", in, "-", out, " ", f.name);
    if (!table.wants(name)) continue;
    const Tensor a = normal(f.ta ? Shape{f.k, f.m} : Shape{f.m, f.k}, type),
                 b = normal(f.tb ? Shape{f.n, f.k} : Shape{f.k, f.n}, type, 2);
    Tensor c = Tensor::empty({f.m, f.n}, f.ta ? DType::f32 : type);  // dw is f32
    const auto ours = [&] { cpu::product(f.ta, f.tb, a, b, c, {}); };
    const auto engine = [&] { backend("cpu").gemm(f.ta, f.tb, a, b, c, false); };
    const double count = 2.0 * static_cast<double>(f.m * f.n * f.k);
    if (type == DType::f16) {  // oneDNN has no product of f16
      table.operations(name, count, ours);
    } else {
      table.operations(
          name, count, cpu::Kernel::product, ours,
          [&] { cpu::onednn_gemm(f.ta, f.tb, a, b, c, false); }, engine);
    }
  }
}

void products(Table& table) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    linear(table, "square", type, 512, 512, 512);
  for (const DType type : {DType::f32, DType::bf16}) {
    const bool heads = type == DType::f32;
    linear(table, "gpt2 qkv", type, 1024, 2304, 768);
    linear(table, "gpt2 out", type, 1024, 768, 768);
    linear(table, "gpt2 up", type, 1024, 3072, 768);
    linear(table, "gpt2 down", type, 1024, 768, 3072);
    if (heads) linear(table, "gpt2 head", type, 256, 50304, 768);
    linear(table, "4x256 qkv", type, 512, 768, 256);
    linear(table, "4x256 out", type, 512, 256, 256);
    linear(table, "4x256 up", type, 512, 1024, 256);
    linear(table, "4x256 down", type, 512, 256, 1024);
    if (heads) linear(table, "4x256 head", type, 256, 8192, 256);
  }
}

// Few rows, as in generation: bound by reading the weights once.
void few_rows(Table& table) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const i64 rows : {1, 2, 4, 8, 12}) {
      const i64 out = 3072, in = 768, layers = 12;  // more weights than the second cache holds
      const Tensor x = normal({rows, in}, type), w = normal({layers * out, in}, type, 2);
      Tensor y = Tensor::empty({rows, out}, type);
      table.pass(text("product ", type, " few ", rows, "x", in, "-", out),
                 static_cast<double>(w.bytes()), [&] {
                   for (i64 l = 0; l < layers; ++l)
                     backend("cpu").gemm(false, true, x, w.slice(l * out, (l + 1) * out), y, false);
                 });
    }
  }
}

ConvGeometry conv_of(i64 n, i64 side, i64 c, i64 k, int kernel, int stride) {
  const int padding = kernel / 2;
  const i64 out = (side + 2 * padding - kernel) / stride + 1;
  return {n, side, side, c, k, kernel, kernel, out, out, stride, padding, 1, 1};
}

// A kernel of ours.
struct OwnConv {
  const char* name;
  cpu::Kernel kernel;
  void (*conv)(const ConvGeometry&, const Tensor& x, const Tensor& w, Tensor& y);
  void (*conv_dx)(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx);
  void (*conv_dw)(const ConvGeometry&, const Tensor& x, const Tensor& dy, Tensor& dw);
};
constexpr OwnConv kWinograd{"winograd", cpu::Kernel::winograd, cpu::winograd_conv,
                            cpu::winograd_conv_dx, cpu::winograd_conv_dw};
constexpr OwnConv kDirect{"direct", cpu::Kernel::direct, cpu::direct_conv, cpu::direct_conv_dx,
                          cpu::direct_conv_dw};
constexpr OwnConv kPointwise{"pointwise", cpu::Kernel::product, cpu::pointwise_conv,
                             cpu::pointwise_conv_dx, cpu::pointwise_conv_dw};

void convolution(Table& table, const OwnConv& own, const ConvGeometry& g) {
  const double count = 2.0 * static_cast<double>(g.n * g.ho * g.wo * g.k * g.c * g.r * g.s);
  const Tensor x = normal({g.n, g.h, g.w, g.c}), w = normal({g.k, g.r, g.s, g.c}, DType::f32, 2),
               dy = normal({g.n, g.ho, g.wo, g.k}, DType::f32, 3);
  Tensor y = Tensor::empty(dy.shape()), dx = Tensor::empty(x.shape()),
         dw = Tensor::empty(w.shape());
  Backend& engine = backend("cpu");
  const auto pass = [&](const char* form, FunctionRef<void()> ours, FunctionRef<void()> onednn,
                        FunctionRef<void()> chosen) {
    const std::string name = text(own.name, " ", g.r, "x", g.s, "/", g.stride, " ", g.n, "x", g.h,
                                  "x", g.w, "x", g.c, "-", g.k, " ", form);
    if (table.wants(name)) table.operations(name, count, own.kernel, ours, onednn, chosen);
  };
  pass(
      "forward", [&] { own.conv(g, x, w, y); }, [&] { (void)cpu::onednn_conv(g, x, w, y); },
      [&] { engine.conv(g, x, w, y); });
  pass(
      "dx", [&] { own.conv_dx(g, dy, w, dx); }, [&] { (void)cpu::onednn_conv_dx(g, dy, w, dx); },
      [&] { engine.conv_dx(g, dy, w, dx); });
  pass(
      "dw", [&] { own.conv_dw(g, x, dy, dw); }, [&] { (void)cpu::onednn_conv_dw(g, x, dy, dw); },
      [&] { engine.conv_dw(g, x, dy, dw); });
}

void convolutions(Table& table) {
  convolution(table, kWinograd, conv_of(128, 32, 16, 16, 3, 1));
  convolution(table, kWinograd, conv_of(128, 8, 64, 64, 3, 1));
  convolution(table, kWinograd, conv_of(32, 32, 64, 64, 3, 1));
  convolution(table, kWinograd, conv_of(32, 8, 256, 256, 3, 1));
  convolution(table, kWinograd, conv_of(32, 4, 512, 512, 3, 1));
  convolution(table, kWinograd, conv_of(8, 56, 64, 128, 3, 2));
  convolution(table, kDirect, conv_of(16, 14, 256, 512, 3, 2));
  convolution(table, kPointwise, conv_of(16, 7, 2048, 512, 1, 1));
  convolution(table, kPointwise, conv_of(16, 14, 256, 1024, 1, 1));
  convolution(table, kPointwise, conv_of(16, 56, 64, 64, 1, 1));
  convolution(table, kPointwise, conv_of(16, 28, 512, 1024, 1, 2));
}

// text: images, side, channels, filters, side of the kernel, stride
void layer(Table& table, const std::string& text) {
  std::istringstream in(text);
  std::vector<i64> v;
  for (std::string number; std::getline(in, number, ',');) v.push_back(std::stoll(number));
  check<ConfigError>(v.size() == 6, "--layers: \"", text, "\"; wanted N,SIDE,C,K,R,STRIDE");
  const ConvGeometry g =
      conv_of(v[0], v[1], v[2], v[3], static_cast<int>(v[4]), static_cast<int>(v[5]));
  const double count = 2.0 * static_cast<double>(g.n * g.ho * g.wo * g.k * g.c * g.r * g.s);
  const Tensor x = normal({g.n, g.h, g.w, g.c}), w = normal({g.k, g.r, g.s, g.c}, DType::f32, 2),
               dy = normal({g.n, g.ho, g.wo, g.k}, DType::f32, 3);
  Tensor y = Tensor::empty(dy.shape()), dx = Tensor::empty(x.shape()),
         dw = Tensor::empty(w.shape());
  Backend& engine = backend("cpu");
  const auto of = [&](const char* pass) {
    return nlohmann::json{{"name", text + " " + pass}, {"layer", text}, {"pass", pass}};
  };
  table.engine(
      of("forward"), count, [&] { engine.conv(g, x, w, y); },
      [&] { (void)cpu::onednn_conv(g, x, w, y); });
  if (g.c > 3)  // the gradient of the images is never needed
    table.engine(
        of("dx"), count, [&] { engine.conv_dx(g, dy, w, dx); },
        [&] { (void)cpu::onednn_conv_dx(g, dy, w, dx); });
  table.engine(
      of("dw"), count, [&] { engine.conv_dw(g, x, dy, dw); },
      [&] { (void)cpu::onednn_conv_dw(g, x, dy, dw); });
}

// Causal attention over one tensor of q, k and v: half of the products' results are never needed.
void attention(Table& table, DType type, i64 batch, i64 heads, i64 length) {
  const i64 size = 64, width = heads * size;
  const std::string name =
      text("attention ", type, " B", batch, " H", heads, " T", length, " D", size);
  const Tensor qkv = normal({batch, length, 3 * width}, type),
               dy = normal({batch, length, width}, type, 2);
  const auto rows = [&](const Tensor& t, i64 part) {
    return PackedRows{t, part * width, 3 * width};
  };
  const Attention a{.batch = batch,
                    .heads = heads,
                    .kv_heads = heads,
                    .queries = length,
                    .keys = length,
                    .size = size,
                    .causal = true,
                    .first = 0,
                    .window = 0,
                    .dropout = 0,
                    .seed = 0,
                    .stream = {},
                    .q = rows(qkv, 0),
                    .k = rows(qkv, 1),
                    .v = rows(qkv, 2),
                    .lengths = {},
                    .begins = {}};
  Tensor y = Tensor::empty(dy.shape(), type), sums = Tensor::empty({batch, heads, length});
  const Tensor d = Tensor::empty(qkv.shape(), type);
  const double product = static_cast<double>(batch * heads * length * (length + 1) * size);
  const auto forward = [&] { cpu::attention(a, y, sums); };
  if (table.wants(name + " forward")) table.operations(name + " forward", 2 * product, forward);
  if (!table.wants(name + " backward")) return;
  forward();
  table.operations(name + " backward", 5 * product, [&] {
    cpu::attention_back(a, y, sums, dy, rows(d, 0), rows(d, 1), rows(d, 2));
  });
}

void norms(Table& table, DType type) {
  Backend& engine = backend("cpu");
  const auto of = [&](const char* what, const Shape& s) { return text(what, " ", type, " ", s); };
  {
    const Shape shape{4096, 768};
    const Tensor x = normal(shape, type), dy = normal(shape, type, 2);
    const auto vector = [](i64 n) { return Tensor::full({n}, 1); };
    const RowNorm n{x, vector(768), vector(768), 1e-5f, vector(4096), vector(4096)};
    Tensor y = Tensor::empty(shape, type), dx = Tensor::empty(shape, type), sum = x.clone();
    const auto bytes = static_cast<double>(x.bytes());
    table.pass(of("layer norm forward", shape), 2 * bytes,
               [&] { engine.layer_norm(n, nullptr, nullptr, y); });
    table.pass(of("layer norm with add", shape), 4 * bytes,
               [&] { engine.layer_norm(n, &dy, &sum, y); });
    table.pass(of("layer norm backward", shape), 3 * bytes,
               [&] { engine.layer_norm_back(n, dy, false, dx, vector(768), vector(768)); });
  }
  const Shape shape{128, 16, 16, 64};
  Norm n;
  n.x = normal(shape, type);
  for (Tensor* t : {&n.scale, &n.shift, &n.mean, &n.inv_std, &n.a, &n.b})
    *t = Tensor::full({64}, 1);
  Tensor y = Tensor::empty(shape, type);
  const Tensor dy = normal(shape, type, 2);
  const NormGrads grads{Tensor::empty(shape, type), Tensor::empty({64}), Tensor::empty({64})};
  const auto bytes = static_cast<double>(n.x.bytes());
  const NormTail tail{.relu = true};
  Tensor mask;
  table.pass(of("batch norm statistics", shape), bytes,
             [&] { engine.norm_statistics(n, 1e-5f, {}); });
  table.pass(of("batch norm + ReLU", shape), 2 * bytes,
             [&] { mask = engine.norm_apply(n, tail, true, y); });
  // twice over x, y and dy: the sums must be known first
  table.pass(of("batch norm backward", shape), 7 * bytes,
             [&] { engine.norm_back(n, tail, mask, dy, grads, nullptr, nullptr); });
}

void pointwise(Table& table, DType type) {
  const NoGrad none;
  const Shape shape{1024, 3072};
  const Tensor x = normal(shape, type);
  const auto bytes = static_cast<double>(x.bytes());
  table.pass(text("gelu ", type, " ", shape), 2 * bytes, [&] { gelu(x); });
  table.pass(text("gelu_tanh ", type, " ", shape), 2 * bytes, [&] { gelu_tanh(x); });
  const Tensor z = normal({512, 8192}, type), labels = Tensor::zeros({512}, DType::i32);
  Tensor losses = Tensor::empty({512}), dz = Tensor::empty(z.shape(), type);
  table.pass(text("softmax loss ", type, " ", z.shape()), 2 * static_cast<double>(z.bytes()),
             [&] { backend("cpu").softmax_loss(z, labels, {}, losses, dz); });
}

void run(const Options& o) {
  if (!o.kernels.empty()) cpu::limit_cpu(o.kernels);
  set_compute_threads(o.threads);
  Table table(o);
  for (const std::string& text : o.layers) layer(table, text);
  if (!o.layers.empty()) return;
  if (!o.json) {
    const Speed peak = against_fma(1, o.threads, 0.3, [] {});
    std::printf(
        "kernels for %s, %d thread%s; multiply-adds alone: %.1f GFLOP/s in f32; shares are of "
        "those, or of a copy of as many bytes\n",
        cpu::kernel_set().c_str(), o.threads, o.threads == 1 ? "" : "s", peak.peak / 1e9);
  }
  products(table);
  few_rows(table);
  for (const DType type : {DType::f32, DType::bf16}) {
    attention(table, type, 4, 4, 128);
    attention(table, type, 2, 6, 256);
    attention(table, type, 1, 12, 1024);
  }
  convolutions(table);
  for (const DType type : {DType::f32, DType::bf16}) {
    norms(table, type);
    pointwise(table, type);
  }
}

}  // namespace
}  // namespace gossamer::bench

int main(int argc, char** argv) {
  gossamer::bench::Options o;
  CLI::App app{"Times the CPU's kernels beside multiply-adds alone and a copy."};
  app.add_option("--kernels", o.kernels, "avx512, avx2 or neon: the best that may be used");
  app.add_option("--threads", o.threads);
  app.add_option("--seconds", o.seconds, "of each measurement");
  app.add_option("--only", o.only, "rows whose name contains this");
  app.add_option("--layers", o.layers, "only convolutions, each N,SIDE,C,K,R,STRIDE")
      ->delimiter(' ');
  app.add_flag("--json", o.json, "one object for each row");
  CLI11_PARSE(app, argc, argv);
  try {
    gossamer::bench::run(o);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_kernels: %s\n", e.what());
    return 4;
  }
}
