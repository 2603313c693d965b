// group_norm and evonorm_s0: a formula h of one number and its derivatives, and the passes that
// both share. y = scale h inv + shift with inv = 1/sqrt(var + eps). With g = dy scale, sums and
// means over a sample's group:
//   dx = g inv h' - (x - mean) inv^3 mean(g h), and for group_norm - inv mean(g);
//   d_shift = sum dy;  d_scale = sum dy h inv;  dv = scale sum dy inv dh/dv.
// All but dx follow from sums over the pixels of each sample and channel, the tables [N, C] here.
#include <cmath>
#include <string_view>

#include "gossamer/core/backend.h"
#include "gossamer/core/ops/exponential.h"
#include "gossamer/core/ops/group_norm.h"
#include "gossamer/core/ops/op_helpers.h"
#include "gossamer/core/ops/row_sums.h"

namespace gossamer {
namespace {

// --- the formulas

struct Centred {
  static constexpr const char* name = "group_norm";
  static constexpr bool gated = false;
  GOSSAMER_HD static float f(float x, float mean, float) { return x - mean; }
  GOSSAMER_HD static float d(float, float) { return 1; }
};
struct Gated {
  static constexpr const char* name = "evonorm_s0";
  static constexpr bool gated = true;
  GOSSAMER_HD static float f(float x, float, float v) { return x * sigmoid_of(v * x); }
  GOSSAMER_HD static float d(float x, float v) {
    const float s = sigmoid_of(v * x);
    return s * (1.0f + v * x * (1.0f - s));
  }
  GOSSAMER_HD static float dv(float x, float v) {
    const float s = sigmoid_of(v * x);
    return x * x * s * (1.0f - s);
  }
};

struct Extent {
  i64 samples, pixels, cols, groups;
  GOSSAMER_HD i64 cells() const { return samples * cols; }
  GOSSAMER_HD i64 each() const { return cols / groups; }
};

// --- sums over the pixels of each sample and channel

// What a strip of eight channels knows of its sample.
struct Strip {
  float mean[8], v[8];
};

// sum x
template <class T>
struct SumOfX {
  static constexpr int sums = 1;
  const T* x;
  GOSSAMER_HD void channel(i64, i64, int, Strip&) const {}
  template <bool whole>
  GOSSAMER_HD void add(i64 at, int count, const Strip&, float (*total)[8]) const {
    const Eight e = load_eight<whole>(x + at, count);
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) total[0][j] += e.v[j];
  }
};
// sum (x - mean)^2
template <class T>
struct SumOfSquares {
  static constexpr int sums = 1;
  const T* x;
  const float* mean;  // [N, C]
  GOSSAMER_HD void channel(i64 cell, i64, int j, Strip& s) const { s.mean[j] = mean[cell]; }
  template <bool whole>
  GOSSAMER_HD void add(i64 at, int count, const Strip& s, float (*total)[8]) const {
    const Eight e = load_eight<whole>(x + at, count);
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) {
      const float away = e.v[j] - s.mean[j];
      total[0][j] += away * away;
    }
  }
};
// sum dy, sum dy h, and for a gate sum dy dh/dv
template <class T, class Form>
struct SumsOfBack {
  static constexpr int sums = Form::gated ? 3 : 2;
  const T *x, *dy;
  const float *mean, *v;
  GOSSAMER_HD void channel(i64 cell, i64 c, int j, Strip& s) const {
    s.mean[j] = mean[cell];
    if constexpr (Form::gated) s.v[j] = v[c];
  }
  template <bool whole>
  GOSSAMER_HD void add(i64 at, int count, const Strip& s, float (*total)[8]) const {
    const Eight e = load_eight<whole>(x + at, count), g = load_eight<whole>(dy + at, count);
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) {
      total[0][j] += g.v[j];
      total[1][j] += g.v[j] * Form::f(e.v[j], s.mean[j], s.v[j]);
      if constexpr (Form::gated) total[2][j] += g.v[j] * Form::dv(e.v[j], s.v[j]);
    }
  }
};

// A block takes eight channels of a sample, a thread every 256th pixel. out [sums, N, C].
template <class F, bool whole>
struct ChannelSums {
  static constexpr int threads = Tiles::threads, phases = 2, sums = F::sums;
  using Shared = kernels::SumShared<sums>;
  using State = kernels::SumState<sums>;
  F f;
  Extent size;
  float* out;

  GOSSAMER_HD i64 strips() const { return (size.cols + 7) / 8; }
  i64 blocks() const { return size.samples * strips(); }
  GOSSAMER_HD int count(i64 block) const {
    const i64 left = size.cols - block % strips() * 8;
    return left < 8 ? static_cast<int>(left) : 8;
  }
  // Adds the pixels first, first + step, … below last.
  GOSSAMER_HD void add(i64 block, i64 first, i64 step, i64 last, float (*total)[8]) const {
    const i64 n = block / strips(), c = block % strips() * 8;
    const int here = count(block);
    Strip strip{};
    for (int j = 0; j < here; ++j) f.channel(n * size.cols + c + j, c + j, j, strip);
    for (i64 p = first; p < last; p += step)
      f.template add<whole>((n * size.pixels + p) * size.cols + c, here, strip, total);
  }
  GOSSAMER_HD void put(i64 block, int k, int j, double total) const {
    if (j >= count(block)) return;
    const i64 n = block / strips(), c = block % strips() * 8 + j;
    out[(k * size.samples + n) * size.cols + c] = static_cast<float>(total);
  }
  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared& shared, State& state) const {
    if constexpr (phase == 0) {
      add(block, thread, threads, size.pixels, state.total);
      kernels::put_sums(thread, state, shared);
    } else if (thread < sums * 8) {
      double total = 0;
      for (int t = 0; t < threads; ++t) total += static_cast<double>(shared.of[thread][t]);
      put(block, thread / 8, thread % 8, total);
    }
  }
  // All of a block on one thread of a CPU: a few pixels in f32, these in double.
  void run_alone(i64 block) const {
    constexpr i64 few = 64;
    double total[sums][8] = {};
    for (i64 p = 0; p < size.pixels; p += few) {
      float part[sums][8] = {};
      add(block, p, 1, p + few < size.pixels ? p + few : size.pixels, part);
      for (int k = 0; k < sums; ++k)
        for (int j = 0; j < 8; ++j) total[k][j] += static_cast<double>(part[k][j]);
    }
    for (int k = 0; k < sums; ++k)
      for (int j = 0; j < 8; ++j) put(block, k, j, total[k][j]);
  }
};

// The backend that runs a GPU's passes on a CPU takes its form of the sums, too.
bool as_on_a_gpu(Device device) {
  return !device.is_cpu() || std::string_view(backend(device).name()) == "cuda_emulated";
}

template <class Pass>
void run_pass(Device device, const Pass& pass) {
  if (as_on_a_gpu(device)) return for_each_block(device, pass.blocks(), pass);
  parallel_for(pass.blocks(), (1 << 12) / (pass.size.pixels + 1) + 1, [&](i64 begin, i64 end) {
    for (i64 block = begin; block < end; ++block) pass.run_alone(block);
  });
}
template <class F>
Tensor channel_sums(Device device, const Extent& size, const F& f, bool whole) {
  const Tensor out = Tensor::empty({F::sums, size.samples, size.cols}, DType::f32, device);
  if (whole)
    run_pass(device, ChannelSums<F, true>{f, size, out.as<float>()});
  else
    run_pass(device, ChannelSums<F, false>{f, size, out.as<float>()});
  return out;
}
bool in_eights(i64 cols, std::initializer_list<const Tensor*> tensors) {
  bool fits = cols % 8 == 0;
  for (const Tensor* t : tensors) fits = fits && aligned16(t->data());
  return fits;
}

// --- from these to a group's numbers, which stand at each of its channels

// The mean over the group's pixels and channels, of sums [N, C] from which `from` is its first one.
GOSSAMER_HD inline double mean_of_group(const float* sums, i64 from, const Extent& size) {
  double total = 0;
  for (i64 i = from; i < from + size.each(); ++i) total += static_cast<double>(sums[i]);
  return total / static_cast<double>(size.each() * size.pixels);
}
struct Means {
  const float* sum;
  Extent size;
  float* mean;
  GOSSAMER_HD void operator()(i64 group) const {
    const i64 each = size.each(), from = group * each;
    const auto m = static_cast<float>(mean_of_group(sum, from, size));
    for (i64 i = from; i < from + each; ++i) mean[i] = m;
  }
};
struct Inverses {
  const float* squares;
  Extent size;
  float eps;
  float* inv;
  GOSSAMER_HD void operator()(i64 group) const {
    const i64 each = size.each(), from = group * each;
    const float v = 1 / sqrtf(static_cast<float>(mean_of_group(squares, from, size)) + eps);
    for (i64 i = from; i < from + each; ++i) inv[i] = v;
  }
};
// slope = inv^3 mean(g h), offset = inv mean(g)
struct Slopes {
  const float *sums, *scale, *inv;  // sums of dy, and behind them of dy h
  Extent size;
  float *slope, *offset;
  GOSSAMER_HD void operator()(i64 group) const {
    const i64 each = size.each(), from = group * each, first = group % size.groups * each;
    double up = 0, along = 0;
    for (i64 k = 0; k < each; ++k) {
      const double times = static_cast<double>(scale[first + k]);
      up += times * static_cast<double>(sums[from + k]);
      along += times * static_cast<double>(sums[size.cells() + from + k]);
    }
    const double n = static_cast<double>(each * size.pixels), i = static_cast<double>(inv[from]);
    for (i64 k = from; k < from + each; ++k) {
      slope[k] = static_cast<float>(i * i * i * along / n);
      offset[k] = static_cast<float>(i * up / n);
    }
  }
};
// The gradients of a channel's numbers; dv may be null.
struct ChannelGrads {
  const float *sums, *scale, *inv;
  Extent size;
  float *dv, *d_scale, *d_shift;
  GOSSAMER_HD void operator()(i64 c) const {
    const i64 cells = size.cells();
    double shift = 0, along = 0, gate = 0;
    for (i64 i = c; i < cells; i += size.cols) {
      const double times = static_cast<double>(inv[i]);
      shift += static_cast<double>(sums[i]);
      along += times * static_cast<double>(sums[cells + i]);
      if (dv) gate += times * static_cast<double>(sums[2 * cells + i]);
    }
    d_shift[c] = static_cast<float>(shift);
    d_scale[c] = static_cast<float>(along);
    if (dv) dv[c] = static_cast<float>(static_cast<double>(scale[c]) * gate);
  }
};

// --- elementwise passes

template <class T, class Form>
struct Forward {
  const T* x;
  const float *mean, *inv, *v, *scale, *shift;
  Extent size;
  T* y;
  GOSSAMER_HD float one(float in, i64 cell, i64 c) const {
    return Form::f(in, mean[cell], Form::gated ? v[c] : 0.0f) * inv[cell] * scale[c] + shift[c];
  }
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    const i64 at = r * size.cols, cell = r / size.pixels * size.cols;
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) store(y, at + c, one(load(x, at + c), cell + c, c));
  }
  GOSSAMER_HD void eight(i64 r, i64 c) const {
    const i64 at = r * size.cols + c, cell = r / size.pixels * size.cols + c;
    const Eight in = load_eight<true>(x + at, 8);
    Eight out;
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) out.v[j] = one(in.v[j], cell + j, c + j);
    store_eight<true>(y + at, 8, out);
  }
};
// dx may be the memory of x.
template <class T, class Form>
struct Backward {
  const T *x, *dy;
  const float *mean, *inv, *v, *scale, *slope, *offset;
  Extent size;
  T* dx;
  GOSSAMER_HD float one(float in, float up, i64 cell, i64 c) const {
    const float through = up * scale[c] * inv[cell] * Form::d(in, Form::gated ? v[c] : 0.0f),
                along = slope[cell] * (in - mean[cell]);
    return Form::gated ? through - along : through - offset[cell] - along;
  }
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    const i64 at = r * size.cols, cell = r / size.pixels * size.cols;
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c)
      store(dx, at + c, one(load(x, at + c), load(dy, at + c), cell + c, c));
  }
  GOSSAMER_HD void eight(i64 r, i64 c) const {
    const i64 at = r * size.cols + c, cell = r / size.pixels * size.cols + c;
    const Eight in = load_eight<true>(x + at, 8), up = load_eight<true>(dy + at, 8);
    Eight out;
    GOSSAMER_UNROLL
    for (int j = 0; j < 8; ++j) out.v[j] = one(in.v[j], up.v[j], cell + j, c + j);
    store_eight<true>(dx + at, 8, out);
  }
};
template <class F>
void run_elements(Device device, const F& f, bool whole) {
  for_each_row_in_eights(device, f.size.samples * f.size.pixels, f.size.cols, f,
                         whole && as_on_a_gpu(device));
}

// --- the op

Extent check_arguments(const char* op, const Tensor& x, const Tensor& scale, const Tensor& shift,
                       const GroupNormOptions& o) {
  detail::check_floating(op, "input", x);
  check<ShapeError>(x.rank() >= 2 && x.shape(-1) > 0, op, ": input is ", x.shape(),
                    "; wanted [N, ..., C] with at least two dimensions");
  const i64 cols = x.shape(-1);
  for (const auto& [what, t] : {std::pair{"scale", &scale}, {"shift", &shift}}) {
    check<ShapeError>(t->defined() && t->shape() == Shape{cols} && t->dtype() == DType::f32, op,
                      ": ", what, " is ", t->defined() ? t->shape() : Shape{}, ", input ",
                      x.shape(), " wants f32 [", cols, "]");
    detail::check_device(op, x, *t);
  }
  check<ShapeError>(o.groups > 0 && cols % o.groups == 0, op, ": ", o.groups, " groups of ", cols,
                    " channels; the number of groups must divide that of channels");
  check<ShapeError>(o.eps > 0, op, ": eps is ", o.eps, "; wanted more than 0");
  i64 pixels = 1;
  for (int d = 1; d < x.rank() - 1; ++d) pixels *= x.shape(d);
  return {x.shape(0), pixels, cols, o.groups};
}

Tensor table(const Extent& size, Device device) {
  return Tensor::empty({size.samples, size.cols}, DType::f32, device);
}
template <class Form>
const float* gate_of(const Tensor& v) {
  return Form::gated ? v.as<float>() : nullptr;
}

template <class Form>
Tensor forward(const Tensor& x, const Tensor& v, const Tensor& scale, const Tensor& shift,
               const Extent& size, float eps, const Tensor& mean, const Tensor& inv) {
  const Device device = x.device();
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  const bool whole = in_eights(size.cols, {&x, &y});
  const i64 groups = size.samples * size.groups;
  with_floating(x.dtype(), Form::name, [&]<class T>() {
    const Tensor sum = channel_sums(device, size, SumOfX<T>{x.as<T>()}, whole);
    for_each(device, groups, Means{sum.as<float>(), size, mean.as<float>()}, 1 << 8);
    const Tensor squares =
        channel_sums(device, size, SumOfSquares<T>{x.as<T>(), mean.as<float>()}, whole);
    for_each(device, groups, Inverses{squares.as<float>(), size, eps, inv.as<float>()}, 1 << 8);
    run_elements(device,
                 Forward<T, Form>{x.as<T>(), mean.as<float>(), inv.as<float>(), gate_of<Form>(v),
                                  scale.as<float>(), shift.as<float>(), size, y.as<T>()},
                 whole);
  });
  return y;
}

// kept: x, v, scale, mean, inv
template <class Form>
Grads backward(const Extent& size, const Tensor& dy, const std::vector<Tensor>& kept,
               const Places& places) {
  const Tensor &x = kept[0], &v = kept[1], &scale = kept[2], &mean = kept[3], &inv = kept[4];
  const Device device = x.device();
  // in the memory of x where nothing else holds that
  const Tensor dx = x.sole() ? x.detach() : Tensor::empty(x.shape(), x.dtype(), device);
  const Shape channels{size.cols};
  const Tensor dv = Form::gated ? detail::overwritable(places[1], channels, device) : Tensor(),
               d_scale = detail::overwritable(places[2], channels, device),
               d_shift = detail::overwritable(places[3], channels, device);
  const Tensor slope = table(size, device), offset = table(size, device);
  const bool whole = in_eights(size.cols, {&x, &dy, &dx});
  with_floating(x.dtype(), Form::name, [&]<class T>() {
    const Tensor sums = channel_sums(
        device, size,
        SumsOfBack<T, Form>{x.as<T>(), dy.as<T>(), mean.as<float>(), gate_of<Form>(v)}, whole);
    for_each(device, size.cols,
             ChannelGrads{sums.as<float>(), scale.as<float>(), inv.as<float>(), size,
                          Form::gated ? dv.as<float>() : nullptr, d_scale.as<float>(),
                          d_shift.as<float>()},
             1 << 4);
    for_each(device, size.samples * size.groups,
             Slopes{sums.as<float>(), scale.as<float>(), inv.as<float>(), size, slope.as<float>(),
                    offset.as<float>()},
             1 << 8);
    run_elements(device,
                 Backward<T, Form>{x.as<T>(), dy.as<T>(), mean.as<float>(), inv.as<float>(),
                                   gate_of<Form>(v), scale.as<float>(), slope.as<float>(),
                                   offset.as<float>(), size, dx.as<T>()},
                 whole);
  });
  return {dx, dv, d_scale, d_shift};
}

template <class Form>
Tensor norm(const Tensor& x, const Tensor& v, const Tensor& scale, const Tensor& shift,
            const Extent& size, float eps) {
  const Tensor mean = table(size, x.device()), inv = table(size, x.device());
  Tensor y = forward<Form>(x, v, scale, shift, size, eps, mean, inv);
  record(Form::name, y, {x, v, scale, shift}, {x, v, scale, mean, inv},
         [size](const Tensor& dy, const std::vector<Tensor>& kept, const Places& places) {
           return backward<Form>(size, dy, kept, places);
         });
  return y;
}

}  // namespace

Tensor group_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, GroupNormOptions o) {
  const Extent size = check_arguments(Centred::name, x, scale, shift, o);
  return norm<Centred>(x, {}, scale, shift, size, o.eps);
}

Tensor evonorm_s0(const Tensor& x, const Tensor& v, const Tensor& scale, const Tensor& shift,
                  GroupNormOptions o) {
  const Extent size = check_arguments(Gated::name, x, scale, shift, o);
  check<ShapeError>(v.defined() && v.shape() == Shape{size.cols} && v.dtype() == DType::f32,
                    Gated::name, ": v is ", v.defined() ? v.shape() : Shape{}, ", input ",
                    x.shape(), " wants f32 [", size.cols, "]");
  detail::check_device(Gated::name, x, v);
  return norm<Gated>(x, v, scale, shift, size, o.eps);
}

}  // namespace gossamer
