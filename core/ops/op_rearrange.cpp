// Ops that move numbers to other places, and sums along one dimension.
#include "gossamer/core/ops/op_helpers.h"
#include "gossamer/core/ops/rearrange.h"

namespace gossamer {
namespace {

int dimension(const char* op, const Tensor& x, int dim) {
  detail::check_floating(op, "input", x);
  check<ShapeError>(dim >= -x.rank() && dim < x.rank(), op, ": dimension ", dim, " of ", x.shape(),
                    "; wanted ", -x.rank(), " to ", x.rank() - 1);
  return dim < 0 ? dim + x.rank() : dim;
}

// The product of the extents [from, to).
i64 extents(const Shape& s, int from, int to) {
  i64 n = 1;
  for (int d = from; d < to; ++d) n *= s[d];
  return n;
}

Shape with_extent(const Shape& s, int dim, i64 extent) {
  i64 all[Shape::max_rank] = {};
  std::copy(s.begin(), s.end(), all);
  all[dim] = extent;
  return Shape::of(all, s.rank());
}

// y [A, N, B, M, C] from x [A, M, B, N, C]; i is a place in y.
template <class T>
struct Transpose {
  const T* x;
  T* y;
  i64 m, b, n, c;
  GOSSAMER_HD void operator()(i64 i) const {
    const i64 last = i % c, of_m = i / c % m, mid = i / (c * m) % b, of_n = i / (c * m * b) % n,
              first = i / (c * m * b * n);
    y[i] = x[(((first * m + of_m) * b + mid) * n + of_n) * c + last];
  }
};

Tensor transposed(const Tensor& x, int a, int b) {
  const Shape& s = x.shape();
  const Shape shape = with_extent(with_extent(s, a, s[b]), b, s[a]);
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  with_floating(x.dtype(), "transpose", [&]<class T>() {
    for_each(x.device(), x.numel(),
             Transpose<T>{x.as<T>(), y.as<T>(), s[a], extents(s, a + 1, b), s[b],
                          extents(s, b + 1, s.rank())});
  });
  return y;
}

// Rows of `cols` numbers, taken from rows of from_cols and put into rows of to_cols.
template <class T>
struct CopyPart {
  const T* from;
  T* to;
  i64 from_cols, to_cols;
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    const T* in = from + r * from_cols;
    T* out = to + r * to_cols;
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) out[c] = in[c];
  }
};

// Copies `length` of the extents of `from` along `dim`, from `begin` on, to those of `to`, from
// `first` on.
void copy_part(const char* op, const Tensor& from, i64 begin, Tensor& to, i64 first, int dim,
               i64 length) {
  const i64 rows = extents(from.shape(), 0, dim),
            inner = extents(from.shape(), dim + 1, from.rank());
  with_floating(from.dtype(), op, [&]<class T>() {
    for_each_row(from.device(), rows, length * inner,
                 CopyPart<T>{from.as<T>() + begin * inner, to.as<T>() + first * inner,
                             from.shape(dim) * inner, to.shape(dim) * inner});
  });
}

Tensor part_of(const char* op, const Tensor& x, int dim, i64 begin, i64 end) {
  Tensor y = Tensor::empty(with_extent(x.shape(), dim, end - begin), x.dtype(), x.device());
  copy_part(op, x, begin, y, 0, dim, end - begin);
  return y;
}

// y [A, B] from x [A, D, B]; i is a place in y.
template <class T>
struct SumAlong {
  const T* x;
  float* y;
  i64 d, b;
  GOSSAMER_HD void operator()(i64 i) const {
    const T* at = x + i / b * d * b + i % b;
    float sum = 0;
    for (i64 k = 0; k < d; ++k) sum += load(at, k * b);
    y[i] = sum;
  }
};
// dx [A, D, B] from g [A, B]
template <class T>
struct SpreadAlong {
  const float* g;
  T* dx;
  i64 d, b;
  GOSSAMER_HD void operator()(i64 i) const { store(dx, i, g[i / (d * b) * b + i % b]); }
};

}  // namespace

Tensor transpose(const Tensor& x, int a, int b) {
  a = dimension("transpose", x, a);
  b = dimension("transpose", x, b);
  if (a > b) std::swap(a, b);
  if (a == b) return x;
  Tensor y = transposed(x, a, b);
  record("transpose", y, {x}, {}, [a, b](const Tensor& g, const std::vector<Tensor>&) {
    return Grads{transposed(g, a, b)};
  });
  return y;
}

Tensor concat(const std::vector<Tensor>& parts, int dim) {
  check<ShapeError>(!parts.empty(), "concat: no tensors; wanted at least one");
  dim = dimension("concat", parts[0], dim);
  i64 length = 0;
  for (const Tensor& part : parts) {
    detail::check_floating("concat", "input", part);
    detail::check_device("concat", parts[0], part);
    check<ShapeError>(
        part.rank() == parts[0].rank() && part.dtype() == parts[0].dtype() &&
            with_extent(part.shape(), dim, 0) == with_extent(parts[0].shape(), dim, 0),
        "concat: ", parts[0].dtype(), " ", parts[0].shape(), " and ", part.dtype(), " ",
        part.shape(), " along dimension ", dim,
        "; wanted one type, and shapes that differ there alone");
    length += part.shape(dim);
  }
  Tensor y = Tensor::empty(with_extent(parts[0].shape(), dim, length), parts[0].dtype(),
                           parts[0].device());
  std::vector<i64> lengths;
  i64 first = 0;
  for (const Tensor& part : parts) {
    lengths.push_back(part.shape(dim));
    copy_part("concat", part, 0, y, first, dim, lengths.back());
    first += lengths.back();
  }
  record("concat", y, parts, {}, [dim, lengths](const Tensor& g, const std::vector<Tensor>&) {
    Grads grads;
    i64 begin = 0;
    for (const i64 each : lengths) {
      grads.push_back(part_of("concat", g, dim, begin, begin + each));
      begin += each;
    }
    return grads;
  });
  return y;
}

Tensor slice_along(const Tensor& x, int dim, i64 begin, i64 end) {
  dim = dimension("slice_along", x, dim);
  check<ShapeError>(begin >= 0 && begin < end && end <= x.shape(dim), "slice_along: ", begin, " … ",
                    end, " of dimension ", dim, " of ", x.shape(),
                    "; wanted a begin below the end, both in 0 … ", x.shape(dim));
  Tensor y = part_of("slice_along", x, dim, begin, end);
  const Shape shape = x.shape();
  record("slice_along", y, {x}, {}, [=](const Tensor& g, const std::vector<Tensor>&) {
    Tensor dx = Tensor::zeros(shape, g.dtype(), g.device());
    copy_part("slice_along", g, 0, dx, begin, dim, end - begin);
    return Grads{dx};
  });
  return y;
}

Tensor sum_along(const Tensor& x, int dim) {
  dim = dimension("sum_along", x, dim);
  const Shape shape = x.shape();
  const i64 d = shape[dim], b = extents(shape, dim + 1, shape.rank());
  i64 kept[Shape::max_rank] = {};
  int rank = 0;
  for (int k = 0; k < shape.rank(); ++k)
    if (k != dim) kept[rank++] = shape[k];
  Tensor y = Tensor::empty(Shape::of(kept, rank), DType::f32, x.device());
  with_floating(x.dtype(), "sum_along", [&]<class T>() {
    for_each(x.device(), y.numel(), SumAlong<T>{x.as<T>(), y.as<float>(), d, b},
             (1 << 14) / (d + 1) + 1);
  });
  const DType type = x.dtype();
  record("sum_along", y, {x}, {}, [=](const Tensor& g, const std::vector<Tensor>&) {
    Tensor dx = Tensor::empty(shape, type, g.device());
    with_floating(type, "sum_along", [&]<class T>() {
      for_each(g.device(), dx.numel(), SpreadAlong<T>{g.as<float>(), dx.as<T>(), d, b});
    });
    return Grads{dx};
  });
  return y;
}

}  // namespace gossamer
