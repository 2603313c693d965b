// oneDNN's convolutions and gemm. Activations stay NHWC; weights go to the layout the primitive
// likes best (small, per call).
#ifdef GOSSAMER_HAS_ONEDNN
#include "gossamer/core/cpu/onednn_calls.h"

#include <array>
#include <bit>
#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <unordered_map>

#include "gossamer/core/memory.h"
#include "gossamer/core/parallel.h"

namespace gossamer::cpu {
namespace {

using dnnl::memory;
using Dims = memory::dims;

dnnl::engine& engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
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

// A primitive with what it needs around it. `weights` is the layout it wants; `reorder` converts to
// it, or from it for dw.
struct Call {
  dnnl::primitive primitive, reorder;
  memory::desc weights;
  bool same_weights = true;
  memory::desc scratchpad, reorder_scratchpad;
};

enum Op : i64 { kForward, kBackData, kBackWeights, kGemm };
using Key = std::array<i64, 16>;

// Finds or makes the call. Making takes milliseconds, so it happens under the lock: a second thread
// waits and finds it.
template <class Make>
const Call& cached(const Key& key, Make&& make) {
  static std::mutex mutex;
  static std::map<Key, Call> table;
  const std::scoped_lock lock(mutex);
  auto it = table.find(key);
  if (it == table.end()) it = table.emplace(key, make()).first;
  return it->second;
}

Key key_of(Op op, const ConvGeometry& g, DType t) {
  return {op,
          g.n,
          g.h,
          g.w,
          g.c,
          g.k,
          g.r,
          g.s,
          g.ho,
          g.wo,
          g.stride,
          g.padding,
          g.dilation,
          g.groups,
          static_cast<i64>(t),
          compute_threads()};
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

struct Window {  // the geometry as oneDNN takes it
  Dims strides, dilates, left, right;
  explicit Window(const ConvGeometry& g)
      : strides{g.stride, g.stride},
        dilates{g.dilation - 1, g.dilation - 1},
        left{g.padding, g.padding} {
    const auto end = [&](i64 in, i64 out, i64 taps) {
      return (out - 1) * g.stride + g.dilation * (taps - 1) + 1 - in - g.padding;
    };
    right = {end(g.h, g.ho, g.r), end(g.w, g.wo, g.s)};
  }
};

Call finish(const dnnl::primitive& primitive, const memory::desc& wanted, const memory::desc& ours,
            const memory::desc& scratchpad, bool back) {
  Call call{primitive, {}, wanted, wanted == ours, scratchpad, {}};
  if (!call.same_weights) {
    const dnnl::reorder::primitive_desc pd(engine(), back ? wanted : ours, engine(),
                                           back ? ours : wanted, user_scratchpad());
    call.reorder = dnnl::reorder(pd);
    call.reorder_scratchpad = pd.scratchpad_desc();
  }
  return call;
}

dnnl::convolution_forward::primitive_desc forward_desc(const ConvGeometry& g, DType t) {
  const Window win(g);
  const dnnl::convolution_forward::desc d(
      dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
      nhwc(t, g.n, g.h, g.w, g.c), any_weights(g, t), nhwc(t, g.n, g.ho, g.wo, g.k), win.strides,
      win.dilates, win.left, win.right);
  return {d, user_scratchpad(), engine()};
}

Call make_forward(const ConvGeometry& g, DType t) {
  const auto pd = forward_desc(g, t);
  return finish(dnnl::convolution_forward(pd), pd.weights_desc(), our_weights(g, t),
                pd.scratchpad_desc(), false);
}

Call make_back_data(const ConvGeometry& g, DType t) {
  const Window win(g);
  const dnnl::convolution_backward_data::desc d(
      dnnl::algorithm::convolution_direct, nhwc(t, g.n, g.h, g.w, g.c), any_weights(g, t),
      nhwc(t, g.n, g.ho, g.wo, g.k), win.strides, win.dilates, win.left, win.right);
  const dnnl::convolution_backward_data::primitive_desc pd(d, user_scratchpad(), engine(),
                                                           forward_desc(g, t));
  return finish(dnnl::convolution_backward_data(pd), pd.weights_desc(), our_weights(g, t),
                pd.scratchpad_desc(), false);
}

Call make_back_weights(const ConvGeometry& g, DType t) {
  const Window win(g);
  const dnnl::convolution_backward_weights::desc d(
      dnnl::algorithm::convolution_direct, nhwc(t, g.n, g.h, g.w, g.c), any_weights(g, DType::f32),
      nhwc(t, g.n, g.ho, g.wo, g.k), win.strides, win.dilates, win.left, win.right);
  const dnnl::convolution_backward_weights::primitive_desc pd(d, user_scratchpad(), engine(),
                                                              forward_desc(g, t));
  return finish(dnnl::convolution_backward_weights(pd), pd.diff_weights_desc(),
                our_weights(g, DType::f32), pd.scratchpad_desc(), true);
}

// Scratch memory from the allocator: reused warm from call to call.
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
  dnnl::stream stream(engine());
  primitive.execute(stream, args);
  stream.wait();
}

memory on(const memory::desc& d, const Tensor& t) { return {d, engine(), t.data()}; }

// Runs with the weights in the layout the call wants.
void with_weights(const Call& call, const memory::desc& ours, const Tensor& w, Args args) {
  if (call.same_weights) {
    args.emplace(DNNL_ARG_WEIGHTS, on(ours, w));
    execute(call.primitive, call.scratchpad, std::move(args));
    return;
  }
  const Scratch wanted(call.weights);
  execute(call.reorder, call.reorder_scratchpad,
          {{DNNL_ARG_FROM, on(ours, w)}, {DNNL_ARG_TO, wanted.mem}});
  args.emplace(DNNL_ARG_WEIGHTS, wanted.mem);
  execute(call.primitive, call.scratchpad, std::move(args));
}

}  // namespace

bool onednn_has_bf16() {
  constexpr auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  static const bool has = (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  return has;
}

void onednn_limit_to_avx2() {
  check<DeviceError>(dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2) == dnnl::status::success,
                     "oneDNN has run already and cannot be held to AVX2 any more");
}

void onednn_conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) {
  const DType t = x.dtype();
  guarded("conv", g, [&] {
    const Call& call = cached(key_of(kForward, g, t), [&] { return make_forward(g, t); });
    with_weights(call, our_weights(g, t), w,
                 {{DNNL_ARG_SRC, on(nhwc(t, g.n, g.h, g.w, g.c), x)},
                  {DNNL_ARG_DST, on(nhwc(t, g.n, g.ho, g.wo, g.k), y)}});
  });
}

void onednn_conv_dx(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) {
  const DType t = dy.dtype();
  guarded("conv_dx", g, [&] {
    const Call& call = cached(key_of(kBackData, g, t), [&] { return make_back_data(g, t); });
    with_weights(call, our_weights(g, t), w,
                 {{DNNL_ARG_DIFF_DST, on(nhwc(t, g.n, g.ho, g.wo, g.k), dy)},
                  {DNNL_ARG_DIFF_SRC, on(nhwc(t, g.n, g.h, g.w, g.c), dx)}});
  });
}

void onednn_conv_dw(const ConvGeometry& g, const Tensor& x, const Tensor& dy, Tensor& dw) {
  const DType t = x.dtype();
  guarded("conv_dw", g, [&] {
    const Call& call = cached(key_of(kBackWeights, g, t), [&] { return make_back_weights(g, t); });
    Args args{{DNNL_ARG_SRC, on(nhwc(t, g.n, g.h, g.w, g.c), x)},
              {DNNL_ARG_DIFF_DST, on(nhwc(t, g.n, g.ho, g.wo, g.k), dy)}};
    const memory target = on(our_weights(g, DType::f32), dw);
    if (call.same_weights) {
      args.emplace(DNNL_ARG_DIFF_WEIGHTS, target);
      execute(call.primitive, call.scratchpad, std::move(args));
      return;
    }
    const Scratch made(call.weights);
    args.emplace(DNNL_ARG_DIFF_WEIGHTS, made.mem);
    execute(call.primitive, call.scratchpad, std::move(args));
    execute(call.reorder, call.reorder_scratchpad,
            {{DNNL_ARG_FROM, made.mem}, {DNNL_ARG_TO, target}});
  });
}

void onednn_gemm(bool ta, bool tb, float alpha, const Tensor& a, const Tensor& b, float beta,
                 Tensor& c) {
  const i64 m = c.shape(0), n = c.shape(1), k = a.shape(ta ? 0 : 1);
  const auto matrix = [](const Tensor& t, bool transposed, i64 rows, i64 columns) {
    return memory::desc(Dims{rows, columns}, type_of(t.dtype()),
                        transposed ? Dims{1, rows} : Dims{columns, 1});
  };
  const memory::desc da = matrix(a, ta, m, k), db = matrix(b, tb, k, n),
                     dc = matrix(c, false, m, n);
  const auto bits = [](float f) { return static_cast<i64>(std::bit_cast<std::uint32_t>(f)); };
  const Key key{kGemm,
                ta,
                tb,
                bits(alpha),
                bits(beta),
                m,
                n,
                k,
                static_cast<i64>(a.dtype()),
                static_cast<i64>(c.dtype()),
                compute_threads()};
  try {
    const Call& call = cached(key, [&] {
      dnnl::primitive_attr attr = user_scratchpad();
      if (alpha != 1) attr.set_output_scales(0, {alpha});
      if (beta != 0) {
        dnnl::post_ops post;
        post.append_sum(beta);
        attr.set_post_ops(post);
      }
      const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(da, db, dc), attr, engine());
      return Call{dnnl::matmul(pd), {}, {}, true, pd.scratchpad_desc(), {}};
    });
    execute(call.primitive, call.scratchpad,
            {{DNNL_ARG_SRC, on(da, a)}, {DNNL_ARG_WEIGHTS, on(db, b)}, {DNNL_ARG_DST, on(dc, c)}});
  } catch (const dnnl::error& e) {
    fail<DeviceError>("oneDNN: gemm ", m, " x ", k, " x ", n, ": ", e.what(),
                      "; the reference backend computes it (slowly)");
  }
}

}  // namespace gossamer::cpu
#endif
