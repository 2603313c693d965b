// oneDNN's convolutions and gemm. Activations stay NHWC; each call converts the weights, which are
// small, to the layout that the primitive prefers. oneDNN computes on one thread: our threads share
// the images of a batch, or the rows of a product, so that none of OpenMP's is started.
#ifdef GOSSAMER_HAS_ONEDNN
#include "gossamer/core/cpu/onednn_calls.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <unordered_map>

#include "gossamer/core/cpu/one_thread.h"
#include "gossamer/core/cpu/onednn_api.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/ops/kernel.h"
#include "gossamer/core/parallel.h"

namespace gossamer::cpu {
namespace {

using dnnl::memory;
using onednn::Dims;

dnnl::engine& engine() {
  static auto& it = *new dnnl::engine(dnnl::engine::kind::cpu, 0);  // never destroyed, as below
  return it;
}

memory::data_type type_of(DType t) {
  return t == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc nhwc(DType t, i64 n, i64 h, i64 w, i64 c) {
  return {Dims{n, c, h, w}, type_of(t), memory::format_tag::nhwc};
}

// Our [k, r, s, c/groups] in oneDNN's order of dimensions: o i h w, with g in front where there are
// groups.
Dims weight_dims(const ConvGeometry& g) {
  if (g.groups == 1) return {g.k, g.c, g.r, g.s};
  return {g.groups, g.k / g.groups, g.c / g.groups, g.r, g.s};
}
memory::desc our_weights(const ConvGeometry& g, DType t) {
  const i64 c = g.c / g.groups;
  if (g.groups == 1) return {weight_dims(g), type_of(t), Dims{g.r * g.s * c, 1, g.s * c, c}};
  return {weight_dims(g), type_of(t),
          Dims{g.k / g.groups * g.r * g.s * c, g.r * g.s * c, 1, g.s * c, c}};
}
memory::desc any_weights(const ConvGeometry& g, DType t) {
  return {weight_dims(g), type_of(t), memory::format_tag::any};
}

struct Reorder {
  dnnl::primitive primitive;
  memory::desc scratchpad;
  Reorder() = default;
  Reorder(const memory::desc& from, const memory::desc& to);
};

// A primitive with what it needs around it. `weights` is the layout it wants; if that is not ours,
// to_wanted converts ours to it, and to_ours back.
struct Call {
  dnnl::primitive primitive;
  memory::desc weights, scratchpad;
  bool same_weights = true;
  Reorder to_wanted = {}, to_ours = {};
};

// The four kinds of inference are numbered from kInference on: + 1 with addition, + 2 with ReLU.
enum Op : i64 { kForward, kBackData, kBackWeights, kGemm, kInference };
using Key = std::array<i64, 16>;

// What has been made. It is never destroyed, because threads may compute while the program exits.
// oneDNN's own statics are: it needs them to make a primitive, not to execute one. So exit() waits
// for what is being made, and nothing is made afterwards.
class Calls {
 public:
  static Calls& instance() {
    static auto& it = *new Calls;
    return it;
  }
  // Making takes milliseconds, so it happens under the lock: a second thread waits and finds it.
  // Null: the program exits, and this call was never made.
  const Call* get(const Key& key, FunctionRef<Call()> make) {
    const std::scoped_lock lock(mutex_);
    const auto it = made_.find(key);
    if (it != made_.end()) return &it->second;
    if (closed_) return nullptr;
    const OneThread one;
    const Call* const call = &made_.emplace(key, make()).first->second;
    // Handlers run in reverse order: this one before the destructors of statics made so far.
    std::atexit([] { instance().close(); });
    return call;
  }

 private:
  void close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
  }

  std::mutex mutex_;
  std::map<Key, Call> made_;
  bool closed_ = false;
};

Key key_of(i64 op, const ConvGeometry& g, DType t) {
  return {op,       g.n,       g.h,        g.w,      g.c,
          g.k,      g.r,       g.s,        g.ho,     g.wo,
          g.stride, g.padding, g.dilation, g.groups, static_cast<i64>(t)};
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

template <class F>
auto guarded(const char* what, const ConvGeometry& g, F&& f) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    fail<DeviceError>("oneDNN: ", what, " of x [", g.n, ", ", g.h, ", ", g.w, ", ", g.c, "], w [",
                      g.k, ", ", g.r, ", ", g.s, ", ", g.c / g.groups, "], stride ", g.stride,
                      ", padding ", g.padding, ", dilation ", g.dilation, ", groups ", g.groups,
                      ": ", e.what(), "; the reference backend computes it (slowly)");
  }
}

onednn::Window window_of(const ConvGeometry& g) {
  const auto end = [&](i64 in, i64 out, i64 taps) {
    return (out - 1) * g.stride + g.dilation * (taps - 1) + 1 - in - g.padding;
  };
  return {{g.stride, g.stride},
          {g.dilation - 1, g.dilation - 1},
          {g.padding, g.padding},
          {end(g.h, g.ho, g.r), end(g.w, g.wo, g.s)}};
}

Reorder::Reorder(const memory::desc& from, const memory::desc& to) {
  const dnnl::reorder::primitive_desc pd(engine(), from, engine(), to, user_scratchpad());
  primitive = dnnl::reorder(pd);
  scratchpad = pd.scratchpad_desc();
}

// Which conversions of the weights a call needs.
enum class Conversions { to_wanted, to_ours, both };

Call finish(const dnnl::primitive& primitive, const memory::desc& wanted, const memory::desc& ours,
            const memory::desc& scratchpad, Conversions needed) {
  Call call{primitive, wanted, scratchpad, wanted == ours};
  if (call.same_weights) return call;
  if (needed != Conversions::to_ours) call.to_wanted = Reorder(ours, wanted);
  if (needed != Conversions::to_wanted) call.to_ours = Reorder(wanted, ours);
  return call;
}

onednn::Forward forward_of(const ConvGeometry& g, DType t) {
  return onednn::forward(engine(), dnnl::prop_kind::forward_training, nhwc(t, g.n, g.h, g.w, g.c),
                         any_weights(g, t), {}, nhwc(t, g.n, g.ho, g.wo, g.k), window_of(g),
                         user_scratchpad());
}

Call make_forward(const ConvGeometry& g, DType t) {
  const auto pd = forward_of(g, t);
  return finish(dnnl::convolution_forward(pd), pd.weights_desc(), our_weights(g, t),
                pd.scratchpad_desc(), Conversions::to_wanted);
}

memory::desc bias_desc(const ConvGeometry& g) {
  return {Dims{g.k}, memory::data_type::f32, memory::format_tag::x};
}

// top: rows of zeros before the first.
Call make_inference(const ConvGeometry& g, i64 top, DType t, const ConvTail& tail) {
  onednn::Window win = window_of(g);
  win.right[0] += win.left[0] - top;
  win.left[0] = top;
  dnnl::post_ops post;
  if (tail.add) post.append_sum(1);
  if (tail.relu) onednn::append_relu(post);
  dnnl::primitive_attr attr = user_scratchpad();
  attr.set_post_ops(post);
  const auto pd =
      onednn::forward(engine(), dnnl::prop_kind::forward_inference, nhwc(t, g.n, g.h, g.w, g.c),
                      any_weights(g, t), bias_desc(g), nhwc(t, g.n, g.ho, g.wo, g.k), win, attr);
  return finish(dnnl::convolution_forward(pd), pd.weights_desc(), our_weights(g, t),
                pd.scratchpad_desc(), Conversions::both);
}

Call make_back_data(const ConvGeometry& g, DType t) {
  const auto pd = onednn::back_data(engine(), nhwc(t, g.n, g.h, g.w, g.c), any_weights(g, t),
                                    nhwc(t, g.n, g.ho, g.wo, g.k), window_of(g), user_scratchpad(),
                                    forward_of(g, t));
  return finish(dnnl::convolution_backward_data(pd), pd.weights_desc(), our_weights(g, t),
                pd.scratchpad_desc(), Conversions::to_wanted);
}

Call make_back_weights(const ConvGeometry& g, DType t) {
  const auto pd = onednn::back_weights(engine(), nhwc(t, g.n, g.h, g.w, g.c),
                                       any_weights(g, DType::f32), nhwc(t, g.n, g.ho, g.wo, g.k),
                                       window_of(g), user_scratchpad(), forward_of(g, t));
  return finish(dnnl::convolution_backward_weights(pd), pd.diff_weights_desc(),
                our_weights(g, DType::f32), pd.scratchpad_desc(), Conversions::to_ours);
}

// Scratch memory from the allocator, which hands out the same block from call to call.
struct Scratch {
  std::shared_ptr<Block> block;
  memory mem;
  explicit Scratch(const memory::desc& d)
      : block(d.get_size() > 0 ? allocate(d.get_size()) : nullptr),
        mem(d, engine(), block ? block->data : nullptr) {}
};

using Args = std::unordered_map<int, memory>;

void execute(const dnnl::primitive& primitive, const memory::desc& scratchpad, Args args) {
  const Scratch scratch(scratchpad);
  if (scratch.block) args.emplace(DNNL_ARG_SCRATCHPAD, scratch.mem);
  const OneThread one;
  dnnl::stream stream(engine());
  primitive.execute(stream, args);
  stream.wait();
}

void execute(const Reorder& reorder, const memory& from, const memory& to) {
  execute(reorder.primitive, reorder.scratchpad, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

memory on(const memory::desc& d, const Tensor& t, i64 offset = 0) {
  return {d, engine(),
          static_cast<std::byte*>(t.data()) + offset * static_cast<i64>(size_of(t.dtype()))};
}

// Weights in the layout that a call wants.
class LaidOut {
 public:
  LaidOut(const Call& call, const memory::desc& ours, const Tensor& w)
      : made_(call.same_weights ? memory::desc() : call.weights),
        memory_(call.same_weights ? on(ours, w) : made_.mem) {
    if (!call.same_weights) execute(call.to_wanted, on(ours, w), memory_);
  }
  const memory& get() const { return memory_; }

 private:
  Scratch made_;
  memory memory_;
};

// Least multiplications worth a thread of its own.
constexpr i64 kLeastWork = 1 << 18;

// The number of shares into which the images are cut: at most one for each thread.
i64 shares_of(const ConvGeometry& g) {
  const i64 image = std::max<i64>(1, g.ho * g.wo * g.k * g.r * g.s * (g.c / g.groups)),
            least = kLeastWork / image + 1;
  return std::clamp<i64>(g.n / least, 1, compute_threads());
}

struct Share {
  i64 first, images;
  Share(const ConvGeometry& g, i64 number, i64 of)
      : first(g.n * number / of), images(g.n * (number + 1) / of - first) {}
};

// The calls for the shares of the images, whose sizes differ by one at most. Empty: one of them was
// never made, and the program exits.
template <class Make>
std::vector<const Call*> calls_for(Op op, const ConvGeometry& g, DType t, i64 shares, Make&& make) {
  std::vector<const Call*> calls;
  for (i64 number = 0; number < shares; ++number) {
    ConvGeometry part = g;
    part.n = Share(g, number, shares).images;
    const Call* const call =
        Calls::instance().get(key_of(op, part, t), [&] { return make(part, t); });
    if (!call) return {};
    calls.push_back(call);
  }
  return calls;
}

// Runs the forward or backward-data call made by `make` on each share of the images of `from`, with
// results in `to`; the names are those of oneDNN's arguments.
template <class Make>
bool over_images(Op op, const ConvGeometry& g, const Tensor& w, Make&& make, int from_name,
                 const Tensor& from, int to_name, Tensor& to) {
  const DType t = from.dtype();
  const auto images_of = [](const Tensor& x, i64 images) {
    return nhwc(x.dtype(), images, x.shape(1), x.shape(2), x.shape(3));
  };
  const auto image_size = [](const Tensor& x) { return x.shape(1) * x.shape(2) * x.shape(3); };
  const i64 shares = shares_of(g);
  const auto calls = calls_for(op, g, t, shares, make);
  if (calls.empty()) return false;
  const memory::desc ours = our_weights(g, t);
  const Call& usual = *calls.back();
  const LaidOut weights(usual, ours, w);
  parallel_for(shares, 1, [&](i64 begin, i64 end) {
    for (i64 number = begin; number < end; ++number) {
      const Share share(g, number, shares);
      const Call& call = *calls[static_cast<std::size_t>(number)];
      const auto run = [&](const memory& laid_out) {
        execute(
            call.primitive, call.scratchpad,
            {{from_name, on(images_of(from, share.images), from, share.first * image_size(from))},
             {to_name, on(images_of(to, share.images), to, share.first * image_size(to))},
             {DNNL_ARG_WEIGHTS, laid_out}});
      };
      if (call.weights == usual.weights)
        run(weights.get());
      else
        run(LaidOut(call, ours, w).get());
    }
  });
  return true;
}

}  // namespace

bool has_onednn() { return true; }

bool onednn_has_bf16() {
  constexpr auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  static const bool has = (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  return has;
}

void onednn_limit_to_avx2() {
  check<DeviceError>(dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2) == dnnl::status::success,
                     "oneDNN has run already and cannot be held to AVX2 any more");
}

bool onednn_conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) {
  return guarded("conv", g, [&] {
    return over_images(kForward, g, w, make_forward, DNNL_ARG_SRC, x, DNNL_ARG_DST, y);
  });
}

// Threads: any.
class OneDnnWeights {
 public:
  explicit OneDnnWeights(Tensor w) : shape_(w.shape()), type_(w.dtype()), plain_(std::move(w)) {}

  // Converted back from a layout, if the original was freed when that was made.
  Tensor as_they_came() {
    const std::scoped_lock lock(mutex_);
    return plain();
  }
  // The weights in the layout that the call wants. The memory lasts as long as this object.
  memory get(const Call& call, const memory::desc& ours) {
    const std::scoped_lock lock(mutex_);
    if (call.same_weights) {
      plain_ = plain();
      in_use_ = true;
      return on(ours, plain_);
    }
    for (const auto& [of, made] : layouts_)
      if (of->weights == call.weights) return made.get();
    layouts_.emplace_back(&call, LaidOut(call, ours, plain()));
    if (!in_use_) plain_ = {};
    ours_ = ours;
    return layouts_.back().second.get();
  }

 private:
  Tensor plain() const {
    if (plain_.defined()) return plain_;
    const auto& [of, made] = layouts_.front();
    Tensor w = Tensor::empty(shape_, type_);
    execute(of->to_ours, made.get(), on(ours_, w));
    return w;
  }

  std::mutex mutex_;
  const Shape shape_;
  const DType type_;
  Tensor plain_;
  bool in_use_ = false;  // by callers of get()
  memory::desc ours_;
  std::vector<std::pair<const Call*, LaidOut>> layouts_;
};
std::shared_ptr<OneDnnWeights> onednn_keep_weights(const Tensor& w) {
  return std::make_shared<OneDnnWeights>(w);
}
Tensor onednn_weights_as_they_came(OneDnnWeights& w) { return w.as_they_came(); }

namespace {

// What one thread computes in inference: some images, or some rows of one image's result.
struct RowShare {
  ConvGeometry part;
  i64 top, image, row, input_row;
  RowShare(const ConvGeometry& g, const Share& images)
      : part(g), top(g.padding), image(images.first), row(0), input_row(0) {
    part.n = images.images;
  }
  RowShare(const ConvGeometry& g, i64 of_image, i64 number, i64 of)
      : part(g), image(of_image), row(g.ho * number / of) {
    part.n = 1;
    part.ho = g.ho * (number + 1) / of - row;
    const i64 begin = row * g.stride - g.padding,
              end = begin + (part.ho - 1) * g.stride + g.dilation * (g.r - 1) + 1;
    input_row = std::max<i64>(begin, 0);
    top = input_row - begin;
    part.h = std::min(end, g.h) - input_row;
  }
};

}  // namespace

bool onednn_conv(const ConvGeometry& g, const Tensor& x, OneDnnWeights& kept, const ConvTail& tail,
                 Tensor& y) {
  const DType t = x.dtype();
  const i64 work = g.n * g.ho * g.wo * g.k * g.r * g.s * (g.c / g.groups),
            threads = std::clamp<i64>(work / kLeastWork, 1, compute_threads());
  // Rows are shared out if there are fewer images than threads, and if every row of the result sees
  // a row of the image.
  const i64 of_image =
      g.padding <= g.dilation * (g.r - 1) ? std::clamp<i64>(threads / g.n, 1, g.ho) : 1;
  const i64 shares = of_image > 1 ? g.n * of_image : std::min(threads, g.n);
  return guarded("conv", g, [&] {
    std::vector<std::pair<RowShare, const Call*>> parts;
    for (i64 number = 0; number < shares; ++number) {
      const RowShare share = of_image > 1
                                 ? RowShare(g, number / of_image, number % of_image, of_image)
                                 : RowShare(g, Share(g, number, shares));
      Key key = key_of(kInference + tail.add + 2 * tail.relu, share.part, t);
      key.back() = share.top;
      const Call* const call = Calls::instance().get(
          key, [&] { return make_inference(share.part, share.top, t, tail); });
      if (!call) return false;
      parts.emplace_back(share, call);
    }
    parallel_for(shares, 1, [&](i64 begin, i64 end) {
      for (i64 number = begin; number < end; ++number) {
        const auto& [share, call] = parts[static_cast<std::size_t>(number)];
        const ConvGeometry& part = share.part;
        execute(call->primitive, call->scratchpad,
                {{DNNL_ARG_SRC, on(nhwc(t, part.n, part.h, g.w, g.c), x,
                                   (share.image * g.h + share.input_row) * g.w * g.c)},
                 {DNNL_ARG_WEIGHTS, kept.get(*call, our_weights(g, t))},
                 {DNNL_ARG_BIAS, on(bias_desc(g), tail.bias)},
                 {DNNL_ARG_DST, on(nhwc(t, part.n, part.ho, g.wo, g.k), y,
                                   (share.image * g.ho + share.row) * g.wo * g.k)}});
      }
    });
    return true;
  });
}

bool onednn_conv_dx(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) {
  return guarded("conv_dx", g, [&] {
    return over_images(kBackData, g, w, make_back_data, DNNL_ARG_DIFF_DST, dy, DNNL_ARG_DIFF_SRC,
                       dx);
  });
}

// Each share of the images gives a sum of its own; they are added in order. How many shares there
// are depends on the shape alone, and so does the result; more threads than that find no work.
bool onednn_conv_dw(const ConvGeometry& g, const Tensor& x, const Tensor& dy, Tensor& dw) {
  const DType t = x.dtype();
  constexpr i64 most_sums = i64{1} << 18;  // numbers
  const i64 size = dw.numel(), work = dy.numel() * size / g.k,
            most = std::min({g.n, work / kLeastWork, std::max<i64>(4, most_sums / size), i64{16}}),
            shares = std::max<i64>(1, most), image_x = g.h * g.w * g.c,
            image_dy = g.ho * g.wo * g.k;
  const Tensor sums = Tensor::empty({shares - 1, size});
  const memory::desc ours = our_weights(g, DType::f32);
  const auto sum_of = [&](const Share& s, const Call& call, const memory& target) {
    const Scratch made(call.same_weights ? memory::desc() : call.weights);
    execute(call.primitive, call.scratchpad,
            {{DNNL_ARG_SRC, on(nhwc(t, s.images, g.h, g.w, g.c), x, s.first * image_x)},
             {DNNL_ARG_DIFF_DST, on(nhwc(t, s.images, g.ho, g.wo, g.k), dy, s.first * image_dy)},
             {DNNL_ARG_DIFF_WEIGHTS, call.same_weights ? target : made.mem}});
    if (!call.same_weights) execute(call.to_ours, made.mem, target);
  };
  const bool done = guarded("conv_dw", g, [&] {
    const auto calls = calls_for(kBackWeights, g, t, shares, make_back_weights);
    if (calls.empty()) return false;
    parallel_for(shares, 1, [&](i64 begin, i64 end) {
      for (i64 s = begin; s < end; ++s)
        sum_of({g, s, shares}, *calls[static_cast<std::size_t>(s)],
               s == 0 ? on(ours, dw) : on(ours, sums, (s - 1) * size));
    });
    return true;
  });
  if (!done) return false;
  float* const total = dw.as<float>();
  const float* const more = sums.as<float>();
  for_each(dw.device(), size, [=](i64 i) {
    float sum = total[i];
    for (i64 s = 0; s < shares - 1; ++s) sum += more[s * size + i];
    total[i] = sum;
  });
  return true;
}

namespace {

// c[m, n] = a b, or += with `add`, on one thread, of matrices inside larger ones.
struct Product {
  bool ta, tb, add;
  i64 m, n, k, lda, ldb, ldc;  // ld: elements from row to row as the matrix is stored
  void run(const Tensor& a, i64 a_at, const Tensor& b, i64 b_at, Tensor& c, i64 c_at) const {
    const auto desc = [](const Tensor& t, bool transposed, i64 rows, i64 columns, i64 ld) {
      return memory::desc(Dims{rows, columns}, type_of(t.dtype()),
                          transposed ? Dims{1, ld} : Dims{ld, 1});
    };
    const memory::desc da = desc(a, ta, m, k, lda), db = desc(b, tb, k, n, ldb),
                       dc = desc(c, false, m, n, ldc);
    const Key key{kGemm,
                  ta,
                  tb,
                  add,
                  m,
                  n,
                  k,
                  lda,
                  ldb,
                  ldc,
                  static_cast<i64>(a.dtype()),
                  static_cast<i64>(c.dtype())};
    const Call* const call = Calls::instance().get(key, [&] {
      dnnl::primitive_attr attr = user_scratchpad();
      if (add) {
        dnnl::post_ops post;
        post.append_sum(1);
        attr.set_post_ops(post);
      }
      const auto pd = onednn::product(engine(), da, db, dc, attr);
      return Call{dnnl::matmul(pd), {}, pd.scratchpad_desc()};
    });
    check<DeviceError>(call != nullptr, "oneDNN: the program exits");
    execute(call->primitive, call->scratchpad,
            {{DNNL_ARG_SRC, on(da, a, a_at)},
             {DNNL_ARG_WEIGHTS, on(db, b, b_at)},
             {DNNL_ARG_DST, on(dc, c, c_at)}});
  }
};

}  // namespace

// The threads share the rows of c, or its columns where there are more of them, in pieces that do
// not depend on how many threads there are, because oneDNN's order of summing depends on a piece.
void onednn_gemm(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, bool add) {
  const i64 m = c.shape(0), n = c.shape(1), k = a.shape(ta ? 0 : 1);
  constexpr i64 piece = 256;
  const Product all{ta, tb, add, m, n, k, a.shape(1), b.shape(1), n};
  try {
    if (m >= n)
      parallel_for((m + piece - 1) / piece, 1, [&](i64 begin, i64 end) {
        for (i64 row = begin * piece; row < std::min(end * piece, m); row += piece) {
          Product part = all;
          part.m = std::min(piece, m - row);
          part.run(a, ta ? row : row * k, b, 0, c, row * n);
        }
      });
    else
      parallel_for((n + piece - 1) / piece, 1, [&](i64 begin, i64 end) {
        for (i64 column = begin * piece; column < std::min(end * piece, n); column += piece) {
          Product part = all;
          part.n = std::min(piece, n - column);
          part.run(a, 0, b, tb ? column * k : column, c, column);
        }
      });
  } catch (const dnnl::error& e) {
    fail<DeviceError>("oneDNN: gemm ", m, " x ", n, " x ", k, ": ", e.what(),
                      "; the reference backend computes it (slowly)");
  }
}

}  // namespace gossamer::cpu
#endif
