// See reference_text.h.
#include "gossamer/core/cpu/reference_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gossamer/core/ops/attention_mask.h"
#include "gossamer/core/ops/kernel.h"

namespace gossamer::reference {
namespace {

using Doubles = std::vector<double>;

template <class T>
Doubles row_of(const T* p, i64 n) {
  Doubles row(static_cast<std::size_t>(n));
  for (i64 i = 0; i < n; ++i) row[static_cast<std::size_t>(i)] = static_cast<double>(load(p, i));
  return row;
}
double dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
void add_scaled(Doubles& to, double factor, const Doubles& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}
template <class T>
void store_row(T* p, const Doubles& row) {
  for (std::size_t i = 0; i < row.size(); ++i)
    store(p, static_cast<i64>(i), static_cast<float>(row[i]));
}

// One head: its rows, and for each query the weights of the keys that it sees.
template <class T>
struct Head {
  const Attention& a;
  i64 b, h;
  double root = std::sqrt(static_cast<double>(a.size));
  std::vector<Doubles> k = key_rows(a.k), v = key_rows(a.v);

  T* query_at(const PackedRows& p, i64 t) const {
    return p.t.as<T>() + p.first + (b * a.queries + t) * p.row + h * a.size;
  }
  T* key_at(const PackedRows& p, i64 t) const {
    return p.t.as<T>() + p.first + (b * a.keys + t) * p.row + h / a.group() * a.size;
  }
  std::vector<Doubles> key_rows(const PackedRows& p) const {
    std::vector<Doubles> all;
    for (i64 t = 0; t < a.keys; ++t) all.push_back(row_of(key_at(p, t), a.size));
    return all;
  }
  Doubles query(i64 i) const { return row_of(query_at(a.q, i), a.size); }
  // of the keys that query i sees, from keys_seen() on
  Doubles scores(i64 i, i64 begin, i64 end) const {
    Doubles s;
    const Doubles q = query(i);
    for (i64 j = begin; j < end; ++j) s.push_back(dot(q, k[static_cast<std::size_t>(j)]) / root);
    return s;
  }
  // 1/(1-p), or 0 where dropout takes the weight
  double kept(i64 i, i64 j) const {
    if (a.dropout == 0) return 1;
    const float u = to_unit(dropout_of(a).word(b * a.heads + h, i, j));
    return u >= a.dropout ? static_cast<double>(1 / (1 - a.dropout)) : 0;
  }
};

template <class F>
void for_heads(const Attention& a, F&& f) {
  with_floating(a.q.t.dtype(), "attention", [&]<class T>() {
    parallel_for(a.batch * a.heads, 1, [&](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) f(Head<T>{a, i / a.heads, i % a.heads});
    });
  });
}

}  // namespace

void layer_norm(const RowNorm& n, const Tensor* add, Tensor* sum, Tensor& y) {
  const i64 cols = n.x.shape(-1), rows = n.count();
  with_floating(n.x.dtype(), "layer_norm", [&]<class T>() {
    for (i64 r = 0; r < rows; ++r) {
      const i64 at = n.rows.at(r) * cols;
      if (add)
        for (i64 c = at; c < at + cols; ++c)
          store(sum->as<T>(), c, load(n.x.as<T>(), c) + load(add->as<T>(), c));
      const Doubles row = row_of((add ? *sum : n.x).as<T>() + at, cols);
      double mean = 0, squares = 0;
      if (n.mean.defined())
        for (const double v : row) mean += v / static_cast<double>(cols);
      for (const double v : row) squares += (v - mean) * (v - mean);
      const double inv =
          1 / std::sqrt(squares / static_cast<double>(cols) + static_cast<double>(n.eps));
      if (n.mean.defined()) n.mean.as<float>()[r] = static_cast<float>(mean);
      n.inv_std.as<float>()[r] = static_cast<float>(inv);
      for (i64 c = 0; c < cols; ++c) {
        const double shift = n.shift.defined() ? static_cast<double>(n.shift.as<float>()[c]) : 0.0;
        store(y.as<T>(), at + c,
              static_cast<float>(static_cast<double>(n.scale.as<float>()[c]) *
                                     (row[static_cast<std::size_t>(c)] - mean) * inv +
                                 shift));
      }
    }
  });
}

void layer_norm_back(const RowNorm& n, const Tensor& dy, bool accumulate, Tensor& dx,
                     const Tensor& d_scale, const Tensor& d_shift) {
  const i64 cols = n.x.shape(-1), rows = n.count();
  const Doubles scale = row_of(n.scale.as<float>(), cols);
  Doubles scales(scale.size()), shifts(scale.size());
  with_floating(n.x.dtype(), "layer_norm", [&]<class T>() {
    for (i64 r = 0; r < rows; ++r) {
      const i64 at = n.rows.at(r) * cols;
      Doubles xhat = row_of(n.x.as<T>() + at, cols), g = row_of(dy.as<T>() + at, cols);
      const bool centred = n.mean.defined();
      const double mean = centred ? static_cast<double>(n.mean.as<float>()[r]) : 0.0,
                   inv = static_cast<double>(n.inv_std.as<float>()[r]);
      double sum = 0, along = 0;
      for (std::size_t c = 0; c < g.size(); ++c) {
        xhat[c] = (xhat[c] - mean) * inv;
        shifts[c] += g[c];
        scales[c] += g[c] * xhat[c];
        g[c] *= scale[c];
        if (centred) sum += g[c] / static_cast<double>(cols);
        along += g[c] * xhat[c] / static_cast<double>(cols);
      }
      for (std::size_t c = 0; c < g.size(); ++c) {
        const i64 i = at + static_cast<i64>(c);
        const double before = accumulate ? static_cast<double>(load(dx.as<T>(), i)) : 0.0;
        store(dx.as<T>(), i, static_cast<float>(before + inv * (g[c] - sum - xhat[c] * along)));
      }
    }
  });
  if (d_scale.defined()) store_row(d_scale.as<float>(), scales);
  if (d_shift.defined()) store_row(d_shift.as<float>(), shifts);
}

void attention(const Attention& a, Tensor& y, const Tensor& log_sums) {
  for_heads(a, [&]<class T>(const Head<T>& head) {
    for (i64 i = 0; i < a.queries; ++i) {
      const auto [begin, end] = keys_seen(a).of(head.b, i);
      Doubles s = head.scores(i, begin, end), out(static_cast<std::size_t>(a.size));
      const double top = s.empty() ? 0 : *std::ranges::max_element(s);
      double sum = 0;
      for (double& w : s) sum += w = std::exp(w - top);
      for (i64 j = begin; j < end; ++j)
        add_scaled(out, head.kept(i, j) * s[static_cast<std::size_t>(j - begin)] / sum,
                   head.v[static_cast<std::size_t>(j)]);
      store_row(y.as<T>() + ((head.b * a.queries + i) * a.heads + head.h) * a.size, out);
      if (log_sums.defined())
        log_sums.as<float>()[(head.b * a.heads + head.h) * a.queries + i] =
            s.empty() ? std::numeric_limits<float>::infinity()
                      : static_cast<float>(top + std::log(sum));
    }
  });
}

void attention_back(const Attention& a, const Tensor& y, const Tensor& log_sums, const Tensor& dy,
                    const PackedRows& dq, const PackedRows& dk, const PackedRows& dv) {
  const Doubles zeros(static_cast<std::size_t>(a.size));
  const auto add_head = [&]<class T>(const Head<T>& head, std::vector<Doubles>& k_sum,
                                     std::vector<Doubles>& v_sum) {
    for (i64 i = 0; i < a.queries; ++i) {
      const auto [begin, end] = keys_seen(a).of(head.b, i);
      const i64 at = ((head.b * a.queries + i) * a.heads + head.h) * a.size;
      const Doubles g = row_of(dy.as<T>() + at, a.size), out = row_of(y.as<T>() + at, a.size),
                    q = head.query(i), s = head.scores(i, begin, end);
      const double log_sum = static_cast<double>(
                       log_sums.as<float>()[(head.b * a.heads + head.h) * a.queries + i]),
                   through = dot(g, out);
      Doubles q_sum = zeros;
      for (auto j = static_cast<std::size_t>(begin); j < static_cast<std::size_t>(end); ++j) {
        const double p = std::exp(s[j - static_cast<std::size_t>(begin)] - log_sum),
                     kept = head.kept(i, static_cast<i64>(j)),
                     ds = p * (kept * dot(g, head.v[j]) - through) / head.root;
        add_scaled(v_sum[j], kept * p, g);
        add_scaled(k_sum[j], ds, q);
        add_scaled(q_sum, ds, head.k[j]);
      }
      store_row(head.query_at(dq, i), q_sum);
    }
  };
  with_floating(a.q.t.dtype(), "attention", [&]<class T>() {
    // heads that share keys add to the same rows
    parallel_for(a.batch * a.kv_heads, 1, [&](i64 first, i64 last) {
      for (i64 index = first; index < last; ++index) {
        std::vector<Doubles> k_sum(static_cast<std::size_t>(a.keys), zeros), v_sum = k_sum;
        const i64 b = index / a.kv_heads, h0 = index % a.kv_heads * a.group();
        for (i64 h = h0; h < h0 + a.group(); ++h) add_head(Head<T>{a, b, h}, k_sum, v_sum);
        const Head<T> head{a, b, h0};
        for (i64 j = 0; j < a.keys; ++j) {
          store_row(head.key_at(dk, j), k_sum[static_cast<std::size_t>(j)]);
          store_row(head.key_at(dv, j), v_sum[static_cast<std::size_t>(j)]);
        }
      }
    });
  });
}

// loss[r] = -sum_k q_k log p_k;  dz = p - q
void softmax_loss(const Tensor& logits, const Tensor& labels, const LossRows& how, Tensor& losses,
                  const Tensor& dz) {
  const i64 rows = logits.shape(0), cols = logits.shape(1);
  const double smoothing = static_cast<double>(how.label_smoothing),
               spread = smoothing / static_cast<double>(cols);
  const DType gradients = dz.defined() ? dz.dtype() : logits.dtype();
  with_floating(logits.dtype(), gradients, "softmax_loss", [&]<class T, class G>() {
    parallel_for(rows, (1 << 12) / cols + 1, [&](i64 begin, i64 end) {
      for (i64 r = begin; r < end; ++r) {
        const std::int32_t label = labels.as<std::int32_t>()[r];
        const bool counts = !how.ignores || label != how.ignore;
        const Doubles z = row_of(logits.as<T>() + r * cols, cols);
        double top = z[0], sum = 0, all = 0;
        for (const double v : z) top = v > top || std::isnan(v) ? v : top;
        for (const double v : z) {
          sum += std::exp(v - top);
          all += v - top;
        }
        const double log_sum = std::log(sum);
        losses.as<float>()[r] =
            counts ? static_cast<float>((1 - smoothing) *
                                            (log_sum - (z[static_cast<std::size_t>(label)] - top)) +
                                        smoothing * (log_sum - all / static_cast<double>(cols)))
                   : 0.0f;
        if (!dz.defined()) continue;
        for (i64 c = 0; c < cols; ++c) {
          const double p = std::exp(z[static_cast<std::size_t>(c)] - top - log_sum),
                       q = spread + (c == label ? 1 - smoothing : 0.0);
          store(dz.as<G>(), r * cols + c, counts ? static_cast<float>(p - q) : 0.0f);
        }
      }
    });
  });
}

}  // namespace gossamer::reference
