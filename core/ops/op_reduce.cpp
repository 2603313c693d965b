// Sums, means and softmax.
#include <cmath>

#include "gossamer/core/ops/op_helpers.h"
#include "gossamer/core/ops/softmax_row.h"
#include "gossamer/core/ops/sum_columns.h"

namespace gossamer {

Tensor detail::sum_broadcast(const Tensor& g, const detail::Broadcast& b, const Shape& shape,
                             DType type) {
  if (b.kind == detail::BroadcastKind::same)
    return detail::as_type(g.shape() == shape ? g : g.reshape(shape), type);
  Tensor out = Tensor::empty(shape, DType::f32, g.device());
  with_floating(g.dtype(), "broadcast", [&]<class T>() {
    const detail::Read<T> read{g.as<T>(), b.cols};
    if (b.kind == detail::BroadcastKind::one)
      sum_to(g.device(), g.numel(), read, 1, out.as<float>());
    else
      sum_columns(g.device(), b.rows, b.cols, read, out.as<float>());
  });
  return detail::as_type(out, type);
}

namespace {

template <class T>
struct FillFrom {  // dx = factor g for every element; g is one f32
  const float* g;
  T* dx;
  float factor;
  GOSSAMER_HD void operator()(i64 i) const { store(dx, i, factor * *g); }
};

template <class T>
struct CopyRow {  // dx[r, c] = g[c]
  const float* g;
  T* dx;
  i64 cols;
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) store(dx, r * cols + c, g[c]);
  }
};

template <class T>
struct SoftmaxRow {
  const T* x;
  T* y;
  i64 cols;
  bool logs;
  GOSSAMER_HD void operator()(i64 r) const {
    const T* z = x + r * cols;
    T* out = y + r * cols;
    float top, log_sum;
    row_statistics(z, cols, top, log_sum);
    for (i64 c = 0; c < cols; ++c) {
      const float v = load(z, c) - top - log_sum;
      store(out, c, logs ? v : expf(v));
    }
  }
};

// softmax: dx = y (g - sum g y); log_softmax: dx = g - exp(y) sum g.
template <class T>
struct SoftmaxBackRow {
  const T *g, *y;
  T* dx;
  i64 cols;
  bool logs;
  GOSSAMER_HD void operator()(i64 r) const {
    const T *up = g + r * cols, *out = y + r * cols;
    float sum = 0;
    for (i64 c = 0; c < cols; ++c) sum += logs ? load(up, c) : load(up, c) * load(out, c);
    for (i64 c = 0; c < cols; ++c)
      store(dx, r * cols + c,
            logs ? load(up, c) - expf(load(out, c)) * sum : load(out, c) * (load(up, c) - sum));
  }
};

i64 row_grain(i64 cols) { return (1 << 12) / cols + 1; }

Tensor sum_scaled(const char* op, const Tensor& x, double factor) {
  detail::check_floating(op, "input", x);
  Tensor y = Tensor::empty({}, DType::f32, x.device());
  with_floating(x.dtype(), op, [&]<class T>() {
    sum_to(x.device(), x.numel(), detail::Read<T>{x.as<T>()}, factor, y.as<float>());
  });
  const Shape shape = x.shape();
  const DType type = x.dtype();
  record(op, y, {x}, {}, [=](const Tensor& g, const std::vector<Tensor>&) {
    Tensor dx = Tensor::empty(shape, type, g.device());
    with_floating(type, op, [&]<class T>() {
      for_each(g.device(), dx.numel(),
               FillFrom<T>{g.as<float>(), dx.as<T>(), static_cast<float>(factor)});
    });
    return Grads{dx};
  });
  return y;
}

Tensor softmax_of(const char* op, const Tensor& x, bool logs) {
  detail::check_floating(op, "input", x);
  check<ShapeError>(x.rank() >= 1 && x.shape(-1) > 0, op, ": input is ", x.shape(),
                    "; wanted [..., K] with K >= 1");
  const i64 cols = x.shape(-1), rows = x.numel() / cols;
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  with_floating(x.dtype(), op, [&]<class T>() {
    for_each(x.device(), rows, SoftmaxRow<T>{x.as<T>(), y.as<T>(), cols, logs}, row_grain(cols));
  });
  record(op, y, {x}, {y}, [=](const Tensor& g, const std::vector<Tensor>& saved) {
    Tensor dx = Tensor::empty(g.shape(), g.dtype(), g.device());
    with_floating(g.dtype(), op, [&]<class T>() {
      for_each(g.device(), rows,
               SoftmaxBackRow<T>{g.as<T>(), saved[0].as<T>(), dx.as<T>(), cols, logs},
               row_grain(cols));
    });
    return Grads{dx};
  });
  return y;
}

}  // namespace

Tensor sum(const Tensor& x) { return sum_scaled("sum", x, 1); }

Tensor mean(const Tensor& x) {
  detail::check_floating("mean", "input", x);
  check<ShapeError>(x.numel() > 0, "mean: input ", x.shape(), " has no elements");
  return sum_scaled("mean", x, 1.0 / static_cast<double>(x.numel()));
}

Tensor sum_rows(const Tensor& x) {
  detail::check_floating("sum_rows", "input", x);
  check<ShapeError>(x.rank() >= 1, "sum_rows: input is ", x.shape(), "; wanted [..., D]");
  const i64 cols = x.shape(-1), rows = cols ? x.numel() / cols : 0;
  Tensor y = Tensor::empty({cols}, DType::f32, x.device());
  with_floating(x.dtype(), "sum_rows", [&]<class T>() {
    sum_columns(x.device(), rows, cols, detail::Read<T>{x.as<T>(), cols}, y.as<float>());
  });
  const Shape shape = x.shape();
  const DType type = x.dtype();
  record("sum_rows", y, {x}, {}, [=](const Tensor& g, const std::vector<Tensor>&) {
    Tensor dx = Tensor::empty(shape, type, g.device());
    with_floating(type, "sum_rows", [&]<class T>() {
      for_each_row(g.device(), rows, cols, CopyRow<T>{g.as<float>(), dx.as<T>(), cols});
    });
    return Grads{dx};
  });
  return y;
}

Tensor softmax(const Tensor& x) { return softmax_of("softmax", x, false); }
Tensor log_softmax(const Tensor& x) { return softmax_of("log_softmax", x, true); }

}  // namespace gossamer
