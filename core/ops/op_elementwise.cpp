// Elementwise ops: each one is a struct with its formula and its gradient; the rest of the file
// turns such structs into ops. for_each (kernel.h) is where the device is chosen: it runs a formula
// as a loop over the CPU's threads or as a kernel on the GPU where the tensors lie. GOSSAMER_HD
// functions are compiled for both.
#include <array>
#include <cmath>

#include "gossamer/core/ops/activation.h"
#include "gossamer/core/ops/normalize.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

// --- one operand: y = f(x), and d = dy/dx as a function of x, or with from_output as a function of
// y: then the input is not kept. Relu and the two forms of GELU are in activation.h. ---
struct Sigmoid {
  static constexpr bool from_output = true;
  GOSSAMER_HD static float f(float x) { return 1.0f / (1.0f + expf(-x)); }
  GOSSAMER_HD static float d(float y) { return y * (1.0f - y); }
};
struct Tanh {
  static constexpr bool from_output = true;
  GOSSAMER_HD static float f(float x) { return tanhf(x); }
  GOSSAMER_HD static float d(float y) { return 1.0f - y * y; }
};
struct Exp {
  static constexpr bool from_output = true;
  GOSSAMER_HD static float f(float x) { return expf(x); }
  GOSSAMER_HD static float d(float y) { return y; }
};
struct Sqrt {
  static constexpr bool from_output = true;
  GOSSAMER_HD static float f(float x) { return sqrtf(x); }
  GOSSAMER_HD static float d(float y) { return 0.5f / y; }
};
struct Log {
  static constexpr bool from_output = false;
  GOSSAMER_HD static float f(float x) { return logf(x); }
  GOSSAMER_HD static float d(float x) { return 1.0f / x; }
};
struct Square {
  static constexpr bool from_output = false;
  GOSSAMER_HD static float f(float x) { return x * x; }
  GOSSAMER_HD static float d(float x) { return 2.0f * x; }
};
struct Abs {
  static constexpr bool from_output = false;
  GOSSAMER_HD static float f(float x) { return fabsf(x); }
  GOSSAMER_HD static float d(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }
};

template <class Op, class T>
struct Unary {
  const T* x;
  T* y;
  GOSSAMER_HD void operator()(i64 i) const { store(y, i, Op::f(load(x, i))); }
};
template <class Op, class T>
struct UnaryBack {
  const T *g, *at;
  T* dx;
  GOSSAMER_HD void operator()(i64 i) const { store(dx, i, load(g, i) * Op::d(load(at, i))); }
};

template <class Op>
Tensor unary(const char* op, const Tensor& x) {
  detail::check_floating(op, "input", x);
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  with_floating(x.dtype(), op, [&]<class T>() {
    for_each(x.device(), x.numel(), Unary<Op, T>{x.as<T>(), y.as<T>()});
  });
  record(op, y, {x}, {Op::from_output ? y : x},
         [op](const Tensor& g, const std::vector<Tensor>& saved) {
           Tensor dx = Tensor::empty(g.shape(), g.dtype(), g.device());
           with_floating(g.dtype(), op, [&]<class T>() {
             for_each(g.device(), g.numel(),
                      UnaryBack<Op, T>{g.as<T>(), saved[0].as<T>(), dx.as<T>()});
           });
           return Grads{dx};
         });
  return y;
}

// y = a x + b with constants: serves add, mul and neg; the gradient is a g.
template <class T>
struct Affine {
  const T* x;
  T* y;
  float a, b;
  GOSSAMER_HD void operator()(i64 i) const { store(y, i, a * load(x, i) + b); }
};
Tensor affine_of(const char* op, const Tensor& x, float a, float b) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  with_floating(x.dtype(), op, [&]<class T>() {
    for_each(x.device(), x.numel(), Affine<T>{x.as<T>(), y.as<T>(), a, b});
  });
  return y;
}
Tensor affine(const char* op, const Tensor& x, float a, float b) {
  detail::check_floating(op, "input", x);
  Tensor y = affine_of(op, x, a, b);
  record(op, y, {x}, {}, [op, a](const Tensor& g, const std::vector<Tensor>&) {
    return Grads{a == 1 ? g : affine_of(op, g, a, 0)};
  });
  return y;
}

// --- two operands: f(a, b), and the gradients da(g, b), db(g, a, b). reads_a: db looks at a;
// reads_b: da or db looks at b. ---
struct Add {
  static constexpr bool reads_a = false, reads_b = false;
  // both gradients are g itself
  GOSSAMER_HD static float f(float a, float b) { return a + b; }
};
struct Sub {
  static constexpr bool reads_a = false, reads_b = false;
  GOSSAMER_HD static float f(float a, float b) { return a - b; }
  GOSSAMER_HD static float da(float g, float) { return g; }
  GOSSAMER_HD static float db(float g, float, float) { return -g; }
};
struct Mul {
  static constexpr bool reads_a = true, reads_b = true;
  GOSSAMER_HD static float f(float a, float b) { return a * b; }
  GOSSAMER_HD static float da(float g, float b) { return g * b; }
  GOSSAMER_HD static float db(float g, float a, float) { return g * a; }
};
struct Div {
  static constexpr bool reads_a = true, reads_b = true;
  GOSSAMER_HD static float f(float a, float b) { return a / b; }
  GOSSAMER_HD static float da(float g, float b) { return g / b; }
  GOSSAMER_HD static float db(float g, float a, float b) { return -g * a / (b * b); }
};

enum class Part { value, da, db };
// The result (part: value) or a gradient of a binary op, written to y. one: b is one element. a, b
// and g may be null where the formula does not read them.
template <class Op, Part part, bool one, class Y, class G, class A, class B>
struct Binary {
  const G* g;
  const A* a;
  const B* b;
  Y* y;
  i64 cols;
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) (*this)(r * cols + c, c);
  }
  GOSSAMER_HD void operator()(i64 i) const { (*this)(i, i); }
  GOSSAMER_HD void operator()(i64 i, i64 j) const {
    if constexpr (part == Part::value) {
      store(y, i, Op::f(load(a, i), load(b, one ? 0 : j)));
    } else {
      const float va = part == Part::db && Op::reads_a ? load(a, i) : 0.0f,
                  vb = Op::reads_b ? load(b, one ? 0 : j) : 0.0f;
      store(y, i, part == Part::da ? Op::da(load(g, i), vb) : Op::db(load(g, i), va, vb));
    }
  }
};

// Runs one part over the broadcast. a (or b) may be undefined where it is not read; its type then
// does not matter.
template <class Op, Part part>
void run_binary(const char* op, const detail::Broadcast& shape, const Tensor& g, const Tensor& a,
                const Tensor& b, Tensor& y) {
  const DType type_a = g.defined() ? g.dtype() : y.dtype(),
              type_b = b.defined() ? b.dtype() : DType::f32;
  const auto with_types = [&]<class Y, class B>() {
    const auto with_a = [&]<class A>() {
      if constexpr (types_meet<A, Y> && types_meet<A, B>) {
        const auto run = [&]<bool one>() {
          const Binary<Op, part, one, Y, A, A, B> f{
              g.defined() ? g.as<A>() : nullptr, a.defined() ? a.as<A>() : nullptr,
              b.defined() ? b.as<B>() : nullptr, y.as<Y>(), shape.cols};
          if constexpr (!one) {
            if (shape.kind == detail::BroadcastKind::trailing) {
              for_each_row(y.device(), shape.rows, shape.cols, f);
              return;
            }
          }
          for_each(y.device(), shape.cols, f);
        };
        if (shape.kind == detail::BroadcastKind::one)
          run.template operator()<true>();
        else
          run.template operator()<false>();
      } else {
        fail<ShapeError>(op, ": ", type_a, ", ", type_b, " and ", y.dtype(),
                         " in one op; cast some of them");
      }
    };
    // a, g, the value and da have one type; only db may have another.
    if constexpr (part == Part::db)
      with_floating(type_a, op, with_a);
    else
      with_a.template operator()<Y>();
  };
  if constexpr (part != Part::value && !Op::reads_b)
    with_floating(y.dtype(), op, [&]<class Y>() { with_types.template operator()<Y, float>(); });
  else
    with_floating(y.dtype(), type_b, op, with_types);
}

// The result has the shape and the type of a.
template <class Op>
Tensor binary(const char* op, const Tensor& a, const Tensor& b) {
  detail::check_floating(op, "a", a);
  detail::check_floating(op, "b", b);
  detail::check_device(op, a, b);
  const detail::Broadcast shape = detail::broadcast_of(op, a.shape(), b.shape());
  Tensor y = Tensor::empty(a.shape(), a.dtype(), a.device());
  run_binary<Op, Part::value>(op, shape, {}, a, b, y);
  if (!wants_grad({a, b})) return y;
  const bool want_a = detail::wants(a), want_b = detail::wants(b);
  const DType type_b = detail::grad_type(b);
  const Shape shape_b = b.shape();
  record(op, y, {a, b}, {Op::reads_a && want_b ? a : Tensor(), Op::reads_b ? b : Tensor()},
         [=](const Tensor& g, const std::vector<Tensor>& saved) {
           Grads grads(2);
           if (want_a) {
             grads[0] = g;
             if constexpr (Op::reads_b) {
               grads[0] = Tensor::empty(g.shape(), g.dtype(), g.device());
               run_binary<Op, Part::da>(op, shape, g, {}, saved[1], grads[0]);
             }
           }
           if (want_b) {
             Tensor each = g;
             // terms that will be summed stay f32 until then
             if constexpr (!std::is_same_v<Op, Add>) {
               each = Tensor::empty(g.shape(),
                                    shape.kind == detail::BroadcastKind::same ? type_b : DType::f32,
                                    g.device());
               run_binary<Op, Part::db>(op, shape, g, saved[0], saved[1], each);
             }
             grads[1] = detail::sum_broadcast(each, shape, shape_b, type_b);
           }
           return grads;
         });
  return y;
}

template <class T>
struct Normalize {
  const std::uint8_t* x;
  T* y;
  float factor[3], offset[3];
  GOSSAMER_HD void operator()(i64 i) const {  // i: a pixel
    store(y, 3 * i, static_cast<float>(x[3 * i]) * factor[0] + offset[0]);
    store(y, 3 * i + 1, static_cast<float>(x[3 * i + 1]) * factor[1] + offset[1]);
    store(y, 3 * i + 2, static_cast<float>(x[3 * i + 2]) * factor[2] + offset[2]);
  }
};

template <class T>
struct NormalizeChannels {
  const std::uint8_t* x;
  T* y;
  int channels;
  float factor[kMostChannels], offset[kMostChannels];
  GOSSAMER_HD void operator()(i64 pixel) const {
    for (int c = 0; c < channels; ++c) {
      const i64 at = channels * pixel + c;
      store(y, at, static_cast<float>(x[at]) * factor[c] + offset[c]);
    }
  }
};

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return binary<Add>("add", a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary<Sub>("sub", a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary<Mul>("mul", a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary<Div>("div", a, b); }
Tensor add(const Tensor& a, float b) { return affine("add", a, 1, b); }
Tensor mul(const Tensor& a, float b) { return affine("mul", a, b, 0); }
Tensor neg(const Tensor& x) { return affine("neg", x, -1, 0); }
Tensor relu(const Tensor& x) { return unary<Relu>("relu", x); }
Tensor sigmoid(const Tensor& x) { return unary<Sigmoid>("sigmoid", x); }
Tensor tanh(const Tensor& x) { return unary<Tanh>("tanh", x); }
Tensor gelu(const Tensor& x) { return unary<Gelu>("gelu", x); }
Tensor gelu_tanh(const Tensor& x) { return unary<GeluTanh>("gelu_tanh", x); }
Tensor exp(const Tensor& x) { return unary<Exp>("exp", x); }
Tensor log(const Tensor& x) { return unary<Log>("log", x); }
Tensor sqrt(const Tensor& x) { return unary<Sqrt>("sqrt", x); }
Tensor square(const Tensor& x) { return unary<Square>("square", x); }
Tensor abs(const Tensor& x) { return unary<Abs>("abs", x); }

Tensor cast(const Tensor& x, DType type) {
  detail::check_floating("cast", "input", x);
  check<ShapeError>(is_floating(type), "cast: from ", x.dtype(), " to ", type, " for input ",
                    x.shape(), "; wanted f32, bf16 or f16");
  if (x.dtype() == type) return x;
  Tensor y = x.to(type);
  const DType before = x.dtype();
  record("cast", y, {x}, {},
         [before](const Tensor& g, const std::vector<Tensor>&) { return Grads{g.to(before)}; });
  return y;
}

Tensor normalize(const Tensor& images, const std::array<float, 3>& mean,
                 const std::array<float, 3>& std, DType type) {
  check<ShapeError>(
      images.defined() && images.dtype() == DType::u8 && images.rank() == 4 && images.shape(3) == 3,
      "normalize: wanted images u8 [N, H, W, 3], given ",
      images.defined() ? images.shape().str() + " " + name_of(images.dtype()) : "nothing");
  check<ShapeError>(std[0] > 0 && std[1] > 0 && std[2] > 0, "normalize: std ", std[0], ", ", std[1],
                    ", ", std[2], " must be positive");
  Tensor y = Tensor::empty(images.shape(), type, images.device());
  with_floating(type, "normalize", [&]<class T>() {
    Normalize<T> f{images.as<std::uint8_t>(), y.as<T>(), {}, {}};
    for (std::size_t c = 0; c < 3; ++c) {
      f.factor[c] = 1 / (255 * std[c]);
      f.offset[c] = -mean[c] / std[c];
    }
    for_each(images.device(), images.numel() / 3, f, 1 << 14);
  });
  return y;
}

Tensor normalize(const Tensor& images, std::span<const float> mean, std::span<const float> std,
                 DType type) {
  const auto channels = static_cast<i64>(mean.size());
  check<ShapeError>(channels >= 1 && channels <= kMostChannels && mean.size() == std.size(),
                    "normalize: ", mean.size(), " means and ", std.size(),
                    " standard deviations; wanted as many of both, 1 to ", kMostChannels);
  check<ShapeError>(
      images.defined() && images.dtype() == DType::u8 && images.rank() == 4 &&
          images.shape(3) == channels,
      "normalize: wanted images u8 [N, H, W, ", channels, "], given ",
      images.defined() ? images.shape().str() + " " + name_of(images.dtype()) : "nothing");
  for (const float s : std)
    check<ShapeError>(s > 0, "normalize: a standard deviation is ", s, "; wanted above 0");
  if (channels == 3)
    return normalize(images, std::array{mean[0], mean[1], mean[2]},
                     std::array{std[0], std[1], std[2]}, type);
  Tensor y = Tensor::empty(images.shape(), type, images.device());
  with_floating(type, "normalize", [&]<class T>() {
    NormalizeChannels<T> f{
        images.as<std::uint8_t>(), y.as<T>(), static_cast<int>(channels), {}, {}};
    for (std::size_t c = 0; c < mean.size(); ++c) {
      f.factor[c] = 1 / (255 * std[c]);
      f.offset[c] = -mean[c] / std[c];
    }
    for_each(images.device(), images.numel() / channels, f, 1 << 14);
  });
  return y;
}

}  // namespace gossamer
