// See attention.h. Scores lie transposed, [key][query], so that a vector holds queries: the softmax
// over keys then needs no exchange between lanes, and every product is the same loop
// (microkernel_inl.h) over rows that are packed once per head, as f32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gossamer/core/cpu/attention.cpp"
// This file is compiled once for each kind of CPU.
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gossamer/core/cpu/attention.h"
#include "gossamer/core/cpu/exp_inl.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cpu/microkernel_inl.h"
#include "gossamer/core/cpu/rows_inl.h"
#include "gossamer/core/ops/attention_mask.h"
#include "gossamer/core/ops/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {
namespace {

constexpr i64 kQueries = 64;  // of a block: what AttentionDropout draws together
constexpr i64 kKeys = 64;     // of a block of backward
constexpr i64 kStrip = 32;    // of queries: a causal mask leaves keys out of their products

// up to a whole vector
i64 whole(i64 n) { return (n + kLanes - 1) / kLanes * kLanes; }

using Numbers = std::vector<float>;
Numbers floats(i64 n) { return Numbers(static_cast<std::size_t>(n)); }

// c[i][j] (+)= sum over l < steps of a[i a_row + l a_step] b[l b_step + j], i < rows, j < cols,
// where cols is a multiple of kLanes
template <bool accumulate>
void product(i64 rows, i64 cols, i64 steps, const float* a, i64 a_row, i64 a_step, const float* b,
             i64 b_step, float* c, i64 c_row) {
  i64 at = 0;
  for (; at + kPanel <= cols; at += kPanel)
    multiply_rows<2, accumulate>(rows, steps, a, a_row, a_step, b + at, b_step, c + at, c_row);
  for (; at < cols; at += kLanes)
    multiply_rows<1, accumulate>(rows, steps, a, a_row, a_step, b + at, b_step, c + at, c_row);
}

// One head of one batch entry: its rows where they lie, and its sizes.
template <class T>
struct Head {
  const Attention& a;
  i64 b, h;
  i64 width = whole(a.size);  // of a packed row; zeros after `size`
  float scale = 1 / std::sqrt(static_cast<float>(a.size));
  Head(const Attention& call, i64 index) : a(call), b(index / call.heads), h(index % call.heads) {}

  T* query(const PackedRows& p, i64 t) const {
    return p.t.as<T>() + p.first + (b * a.queries + t) * p.row + h * a.size;
  }
  T* key(const PackedRows& p, i64 t) const {  // or value: of the group that the head belongs to
    return p.t.as<T>() + p.first + (b * a.keys + t) * p.row + h / a.group() * a.size;
  }
  T* result(const Tensor& y, i64 i) const {  // y, dy: [B, Tq, H D]
    return y.as<T>() + ((b * a.queries + i) * a.heads + h) * a.size;
  }
  float* log_sum(const Tensor& t) const { return t.as<float>() + (b * a.heads + h) * a.queries; }
  KeyRange seen(i64 i) const { return keys_seen(a).of(b, i); }
  // to[t][c] = factor x[t][c] for n rows that lie row_length apart
  void pack(const T* x, i64 row_length, i64 n, float factor, float* to) const {
    for (i64 t = 0; t < n; ++t, x += row_length, to += width) {
      for_columns(a.size, [&](auto d, i64 c) HWY_ATTR {
        store(d, hn::Mul(load(d, x + c), hn::Set(d, factor)), to + c);
      });
      std::fill(to + a.size, to + width, 0.0f);
    }
  }
  // to[c][t] = from[t][c] for t < n packed rows (`from` has kQueries), zero from n on
  void transpose(const float* from, i64 n, float* to) const {
    const hn::Full128<float> d;
    const hn::Full128<double> pair;
    const auto halves = [&](auto x, auto y, auto* low, auto* high) HWY_ATTR {
      *low = hn::BitCast(d, hn::InterleaveLower(pair, hn::BitCast(pair, x), hn::BitCast(pair, y)));
      *high = hn::BitCast(d, hn::InterleaveUpper(pair, hn::BitCast(pair, x), hn::BitCast(pair, y)));
    };
    i64 c = 0;
    for (; c + 4 <= a.size; c += 4)
      for (i64 t = 0; t < n; t += 4) {
        const float* x = from + t * width + c;
        const auto x0 = hn::LoadU(d, x), x1 = hn::LoadU(d, x + width),
                   x2 = hn::LoadU(d, x + 2 * width), x3 = hn::LoadU(d, x + 3 * width);
        hn::Vec<decltype(d)> y[4];
        halves(hn::InterleaveLower(d, x0, x1), hn::InterleaveLower(d, x2, x3), y, y + 1);
        halves(hn::InterleaveUpper(d, x0, x1), hn::InterleaveUpper(d, x2, x3), y + 2, y + 3);
        for (int i = 0; i < 4; ++i) hn::StoreU(y[i], d, to + (c + i) * kQueries + t);
      }
    for (; c < a.size; ++c)
      for (i64 t = 0; t < n; ++t) to[c * kQueries + t] = from[t * width + c];
    for (c = 0; c < a.size; ++c) std::fill(to + c * kQueries + n, to + (c + 1) * kQueries, 0.0f);
  }
  void unpack(const float* from, float factor, T* to) const {
    for_columns(a.size, [&](auto d, i64 c) HWY_ATTR {
      store(d, hn::Mul(load(d, from + c), hn::Set(d, factor)), to + c);
    });
  }
};

// A block of queries: which keys each sees, and what dropout does to its weights.
template <class T>
struct Queries {
  const Head<T>& head;
  i64 first, count, columns;         // columns: count, up to a whole vector
  KeyRange all, some;                // the keys that each of them sees, and those that any sees
  KeyRange seen[kQueries / kStrip];  // those that any of strip k sees
  float start[kQueries], limit[kQueries];  // a query's range; exact to 2^24
  float kept[kQueries];                    // of the key that draw() was called for: 1/(1-p) or 0
  AttentionDropout dropout;

  Queries(const Head<T>& of, i64 begin)
      : head(of),
        first(begin),
        count(std::min(kQueries, of.a.queries - begin)),
        columns(whole(count)),
        dropout(dropout_of(of.a)) {
    std::fill(start, start + kQueries, 0.0f);
    std::fill(limit, limit + kQueries, 0.0f);
    all = {0, of.a.keys};
    some = {of.a.keys, 0};
    std::ranges::fill(seen, some);
    const auto widen = [](KeyRange& range, const KeyRange& by) {
      range.begin = std::min(range.begin, by.begin);
      range.end = std::max(range.end, by.end);
    };
    for (i64 i = 0; i < count; ++i) {
      const KeyRange keys = of.seen(first + i);
      start[i] = static_cast<float>(keys.begin);
      limit[i] = static_cast<float>(keys.end);
      all = {std::max(all.begin, keys.begin), std::min(all.end, keys.end)};
      widen(some, keys);
      widen(seen[i / kStrip], keys);
    }
    if (count < columns) all = {0, 0};
  }
  bool strip_sees(i64 query, i64 j) const {
    const KeyRange& keys = seen[query / kStrip];
    return j >= keys.begin && j < keys.end;
  }
  bool all_see(i64 j) const { return j >= all.begin && j < all.end; }
  // Calls f(first query, queries, first key, keys) for strips that see the same of the n keys from
  // j on; the first key is counted from j.
  template <class F>
  HWY_INLINE void strips(i64 j, i64 n, const F& f) const {
    const auto keys = [&](i64 at) {
      const i64 from = std::clamp<i64>(seen[at / kStrip].begin - j, 0, n);
      return KeyRange{from, std::clamp<i64>(seen[at / kStrip].end - j, from, n)};
    };
    for (i64 at = 0, end = 0; at < count; at = end) {
      const KeyRange these = keys(at);
      const auto alike = [&](const KeyRange& next) {
        return next.begin == these.begin && next.end == these.end;
      };
      for (end = at + kStrip; end < count && alike(keys(end));) end += kStrip;
      f(at, std::min(end, count) - at, these.begin, these.end - these.begin);
    }
  }
  // Philox for 16 counters at a time, in loops that the compiler turns into vectors.
  void draw(i64 key) {
    const i64 index = head.b * head.a.heads + head.h;
    const std::uint64_t counter = dropout.counter(index, first, key);
    const std::uint64_t stream = dropout.stream();
    std::uint32_t c0[16], c1[16], c2[16], c3[16];
    for (std::uint32_t l = 0; l < 16; ++l) {
      c0[l] = static_cast<std::uint32_t>(counter) + l;  // a multiple of 16: nothing is carried
      c1[l] = static_cast<std::uint32_t>(counter >> 32);
      c2[l] = static_cast<std::uint32_t>(stream);
      c3[l] = static_cast<std::uint32_t>(stream >> 32);
    }
    std::uint32_t k0 = dropout.random.k0, k1 = dropout.random.k1;
    for (int round = 0; round < 10; ++round) {
      for (int l = 0; l < 16; ++l) {
        const std::uint64_t p0 = 0xD2511F53ull * c0[l], p1 = 0xCD9E8D57ull * c2[l];
        c0[l] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[l] ^ k0;
        c1[l] = static_cast<std::uint32_t>(p1);
        c2[l] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[l] ^ k1;
        c3[l] = static_cast<std::uint32_t>(p0);
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const float p = head.a.dropout, factor = 1 / (1 - p);
    for (int l = 0; l < 16; ++l) {
      kept[l] = to_unit(c0[l]) >= p ? factor : 0.0f;
      kept[16 + l] = to_unit(c1[l]) >= p ? factor : 0.0f;
      kept[32 + l] = to_unit(c2[l]) >= p ? factor : 0.0f;
      kept[48 + l] = to_unit(c3[l]) >= p ? factor : 0.0f;
    }
  }
};

// s [seen keys][kQueries] from scores to weights exp(s - top), dropped; inverse[i] = 1/their sum
// before dropout; log_sums, if wanted.
template <class T>
void softmax(Queries<T>& q, float* s, float* inverse, float* log_sums) {
  const Floats d;
  constexpr int most = static_cast<int>(kQueries / kLanes);
  const int vectors = static_cast<int>(q.columns / kLanes);
  const auto least = hn::Set(d, -std::numeric_limits<float>::infinity());
  Vector top[most], sum[most];
  for (int v = 0; v < vectors; ++v) {
    top[v] = least;
    sum[v] = hn::Zero(d);
    const auto start = hn::LoadU(d, q.start + v * kLanes),
               limit = hn::LoadU(d, q.limit + v * kLanes);
    const KeyRange keys = q.seen[v * kLanes / kStrip];
    float* at = s + keys.begin * kQueries + v * kLanes;
    for (i64 j = keys.begin; j < keys.end; ++j, at += kQueries) {
      auto x = hn::LoadU(d, at);
      if (!q.all_see(j)) {
        const auto key = hn::Set(d, static_cast<float>(j));
        x = hn::IfThenElse(hn::And(hn::Gt(limit, key), hn::Le(start, key)), x, least);
        hn::StoreU(x, d, at);
      }
      top[v] = hn::Max(top[v], x);
    }
    top[v] = hn::IfThenElseZero(hn::Gt(top[v], least), top[v]);  // it sees no key
  }
  for (i64 j = q.some.begin; j < q.some.end; ++j) {
    if (q.head.a.dropout > 0) q.draw(j);
    for (int v = 0; v < vectors; ++v) {
      if (!q.strip_sees(v * kLanes, j)) continue;
      float* at = s + j * kQueries + v * kLanes;
      auto p = exponential(d, hn::Sub(hn::LoadU(d, at), top[v]));
      sum[v] = hn::Add(sum[v], p);
      if (q.head.a.dropout > 0) p = hn::Mul(p, hn::LoadU(d, q.kept + v * kLanes));
      hn::StoreU(p, d, at);
    }
  }
  float tops[kQueries], sums[kQueries];
  for (int v = 0; v < vectors; ++v) {
    hn::StoreU(top[v], d, tops + v * kLanes);
    hn::StoreU(sum[v], d, sums + v * kLanes);
  }
  for (i64 i = 0; i < q.count; ++i) {
    const bool empty = q.limit[i] <= q.start[i];
    inverse[i] = empty ? 0.0f : 1 / sums[i];
    if (log_sums)
      log_sums[q.first + i] =
          empty ? std::numeric_limits<float>::infinity() : tops[i] + std::log(sums[i]);
  }
}

// A step of generation has a query or two: rows are read where they lie, each once, and a vector
// holds columns.
constexpr i64 kFew = 4;
template <class T>
void forward_few(const Attention& a, Tensor& y, const Tensor& log_sums, i64 begin, i64 end) {
  auto query = floats(a.size), weights = floats(a.keys);
  for (i64 item = begin; item < end; ++item) {
    const Head<T> head(a, item / a.queries);
    const i64 i = item % a.queries;
    const KeyRange keys = head.seen(i);
    const i64 n = keys.end - keys.begin;
    const T *q = head.query(a.q, i), *k = head.key(a.k, keys.begin), *v = head.key(a.v, keys.begin);
    for (i64 c = 0; c < a.size; ++c)
      query[static_cast<std::size_t>(c)] = head.scale * gossamer::load(q, c);
    float* const w = weights.data();
    float top = -std::numeric_limits<float>::infinity();
    for (i64 j = 0; j < n; ++j) {
      RunningSum dot(0);
      for_columns(a.size, [&](auto d, i64 c) HWY_ATTR {
        dot(d, hn::Mul(load(d, query.data() + c), load(d, k + j * a.k.row + c)));
      });
      w[j] = dot.value();
      top = std::max(top, w[j]);
    }
    RunningSum sum(0);
    for_columns(n, [&](auto d, i64 j) HWY_ATTR {
      const auto p = exponential(d, hn::Sub(load(d, w + j), hn::Set(d, top)));
      store(d, p, w + j);
      sum(d, p);
    });
    const float total = sum.value(), inverse = n == 0 ? 0.0f : 1 / total;
    constexpr i64 at_once = 4 * kLanes;  // columns of a row that is read once
    i64 c = 0;
    for (; c + at_once <= a.size; c += at_once) {
      const Floats d;
      Vector out[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      for (i64 j = 0; j < n; ++j) {
#pragma GCC unroll 4
        for (int u = 0; u < 4; ++u)
          out[u] = hn::MulAdd(hn::Set(d, w[j]), load(d, v + j * a.v.row + c + u * kLanes), out[u]);
      }
      for (int u = 0; u < 4; ++u)
        store(d, hn::Mul(out[u], hn::Set(d, inverse)), head.result(y, i) + c + u * kLanes);
    }
    for_columns(a.size - c, [&](auto d, i64 rest) HWY_ATTR {
      auto out = hn::Zero(d);
      for (i64 j = 0; j < n; ++j)
        out = hn::MulAdd(hn::Set(d, w[j]), load(d, v + j * a.v.row + c + rest), out);
      store(d, hn::Mul(out, hn::Set(d, inverse)), head.result(y, i) + c + rest);
    });
    if (log_sums.defined())
      head.log_sum(log_sums)[i] =
          n == 0 ? std::numeric_limits<float>::infinity() : top + std::log(total);
  }
}

template <class T>
void forward_blocks(const Attention& a, Tensor& y, const Tensor& log_sums, i64 begin, i64 end) {
  const i64 blocks = (a.queries + kQueries - 1) / kQueries;
  const i64 width = Head<T>(a, 0).width;
  auto keys = floats(a.keys * width), values = floats(a.keys * width),
       rows = floats(kQueries * width), columns = floats(a.size * kQueries),
       scores = floats(a.keys * kQueries), out = floats(kQueries * width);
  i64 packed = -1;  // heads of a group follow each other, and share what is packed
  for (i64 item = begin; item < end; ++item) {
    const Head<T> head(a, item / blocks);
    if (const i64 group = item / blocks / a.group(); packed != group) {
      packed = group;
      head.pack(head.key(a.k, 0), a.k.row, a.keys, 1, keys.data());
      head.pack(head.key(a.v, 0), a.v.row, a.keys, 1, values.data());
    }
    Queries<T> q(head, item % blocks * kQueries);
    head.pack(head.query(a.q, q.first), a.q.row, q.count, head.scale, rows.data());
    head.transpose(rows.data(), q.count, columns.data());
    for (i64 j = q.some.begin; j < q.some.end; j += kKeys)
      q.strips(j, std::min(kKeys, q.some.end - j),
               [&](i64 at, i64 queries, i64 from, i64 n) HWY_ATTR {
                 product<false>(n, whole(queries), a.size, keys.data() + (j + from) * width, width,
                                1, columns.data() + at, kQueries,
                                scores.data() + (j + from) * kQueries + at, kQueries);
               });
    float inverse[kQueries];
    softmax(q, scores.data(), inverse, log_sums.defined() ? head.log_sum(log_sums) : nullptr);
    q.strips(0, a.keys, [&](i64 at, i64 queries, i64 from, i64 n) HWY_ATTR {
      product<false>(queries, width, n, scores.data() + from * kQueries + at, 1, kQueries,
                     values.data() + from * width, width, out.data() + at * width, width);
    });
    for (i64 i = 0; i < q.count; ++i)
      head.unpack(out.data() + i * width, inverse[i], head.result(y, q.first + i));
  }
}

// From scores s and products with dy g, both [keys][kQueries] from key `begin` on: s becomes the
// dropped weights, g the gradient of the scores. through[i] = the product of dy and y.
template <class T>
void weights_back(Queries<T>& q, i64 begin, i64 keys, const float* log_sums, const float* through,
                  float* s, float* g) {
  const Floats d;
  const bool drops = q.head.a.dropout > 0;
  for (i64 j = begin; j < begin + keys; ++j, s += kQueries, g += kQueries) {
    if (drops) q.draw(j);
    for (i64 at = 0; at < q.columns; at += kLanes) {
      if (!q.strip_sees(at, j)) continue;
      auto p = exponential(d, hn::Sub(hn::LoadU(d, s + at), hn::LoadU(d, log_sums + at)));
      if (!q.all_see(j)) {
        const auto key = hn::Set(d, static_cast<float>(j));
        p = hn::IfThenElseZero(hn::And(hn::Gt(hn::LoadU(d, q.limit + at), key),
                                       hn::Le(hn::LoadU(d, q.start + at), key)),
                               p);
      }
      auto kept = p, up = hn::LoadU(d, g + at);
      if (drops) {
        const auto factor = hn::LoadU(d, q.kept + at);
        kept = hn::Mul(p, factor);
        up = hn::Mul(up, factor);
      }
      hn::StoreU(kept, d, s + at);
      hn::StoreU(hn::Mul(p, hn::Sub(up, hn::LoadU(d, through + at))), d, g + at);
    }
  }
}

// The gradients of one head of queries: d_keys and d_values grow by its part.
template <class T>
class HeadBack {
 public:
  explicit HeadBack(const Attention& a)
      : a_(a),
        width_(Head<T>(a, 0).width),
        keys_(floats(a.keys * width_)),
        values_(keys_),
        rows_(floats(kQueries * width_)),
        ups_(rows_),
        d_rows_(rows_),
        columns_(floats(a.size * kQueries)),
        up_columns_(columns_),
        s_(floats(kKeys * kQueries)),
        g_(s_) {}

  void pack_keys(const Head<T>& head) {
    head.pack(head.key(a_.k, 0), a_.k.row, a_.keys, 1, keys_.data());
    head.pack(head.key(a_.v, 0), a_.v.row, a_.keys, 1, values_.data());
  }

  void add(const Head<T>& head, const Tensor& y, const Tensor& log_sums, const Tensor& dy,
           const PackedRows& dq, float* d_keys, float* d_values) {
    for (i64 i = 0; i < a_.queries; i += kQueries) {
      Queries<T> q(head, i);
      const i64 apart = a_.heads * a_.size, width = width_;
      head.pack(head.query(a_.q, i), a_.q.row, q.count, head.scale, rows_.data());
      head.pack(head.result(dy, i), apart, q.count, 1, ups_.data());
      head.transpose(rows_.data(), q.count, columns_.data());
      head.transpose(ups_.data(), q.count, up_columns_.data());
      float through[kQueries] = {}, sums[kQueries];
      std::fill(sums, sums + kQueries, std::numeric_limits<float>::infinity());
      std::copy_n(head.log_sum(log_sums) + i, q.count, sums);
      for (i64 t = 0; t < q.count; ++t) {
        RunningSum sum(0);
        const T* out = head.result(y, i + t);
        for_columns(a_.size, [&](auto d, i64 c) HWY_ATTR {
          sum(d, hn::Mul(load(d, out + c), load(d, ups_.data() + t * width + c)));
        });
        through[t] = sum.value();
      }
      std::ranges::fill(d_rows_, 0.0f);
      float *s = s_.data(), *g = g_.data();
      for (i64 j = q.some.begin; j < q.some.end; j += kKeys) {
        const i64 n = std::min(kKeys, q.some.end - j);
        q.strips(j, n, [&](i64 at, i64 queries, i64 from, i64 m) HWY_ATTR {
          const float *k = keys_.data() + (j + from) * width,
                      *v = values_.data() + (j + from) * width;
          product<false>(m, whole(queries), a_.size, k, width, 1, columns_.data() + at, kQueries,
                         s + from * kQueries + at, kQueries);
          product<false>(m, whole(queries), a_.size, v, width, 1, up_columns_.data() + at, kQueries,
                         g + from * kQueries + at, kQueries);
        });
        weights_back(q, j, n, sums, through, s, g);
        q.strips(j, n, [&](i64 at, i64 queries, i64 from, i64 m) HWY_ATTR {
          const i64 row = (j + from) * width;
          const float *weights = s + from * kQueries + at, *slopes = g + from * kQueries + at;
          product<true>(m, width, queries, weights, kQueries, 1, ups_.data() + at * width, width,
                        d_values + row, width);
          product<true>(m, width, queries, slopes, kQueries, 1, rows_.data() + at * width, width,
                        d_keys + row, width);
          product<true>(queries, width, m, slopes, 1, kQueries, keys_.data() + row, width,
                        d_rows_.data() + at * width, width);
        });
      }
      for (i64 t = 0; t < q.count; ++t)
        head.unpack(d_rows_.data() + t * width, head.scale, head.query(dq, i + t));
    }
  }

 private:
  const Attention& a_;
  i64 width_;
  Numbers keys_, values_, rows_, ups_, d_rows_, columns_, up_columns_, s_, g_;
};

// index: of a head of keys, to which all heads of its group add.
template <class T>
void backward_groups(const Attention& a, const Tensor& y, const Tensor& log_sums, const Tensor& dy,
                     const PackedRows& dq, const PackedRows& dk, const PackedRows& dv, i64 begin,
                     i64 end) {
  HeadBack<T> back(a);
  const i64 width = Head<T>(a, 0).width;
  auto d_keys = floats(a.keys * width), d_values = d_keys;
  for (i64 index = begin; index < end; ++index) {
    const Head<T> first(a, index * a.group());
    back.pack_keys(first);
    std::ranges::fill(d_keys, 0.0f);
    std::ranges::fill(d_values, 0.0f);
    for (i64 g = 0; g < a.group(); ++g)
      back.add(Head<T>(a, index * a.group() + g), y, log_sums, dy, dq, d_keys.data(),
               d_values.data());
    for (i64 j = 0; j < a.keys; ++j) {
      first.unpack(d_keys.data() + j * width, 1, first.key(dk, j));
      first.unpack(d_values.data() + j * width, 1, first.key(dv, j));
    }
  }
}

// How many of `items`, each of so many products, are worth a thread.
i64 grain(double products) { return static_cast<i64>(1e5 / (products + 1)) + 1; }

void forward(const Attention& a, Tensor& y, const Tensor& log_sums) {
  note_run(Kernel::attention, HWY_TARGET);
  const i64 blocks = (a.queries + kQueries - 1) / kQueries;
  with_floating(a.q.t.dtype(), "attention", [&]<class T>() HWY_ATTR {
    if (a.queries <= kFew && a.dropout == 0)
      return parallel_for(
          a.batch * a.heads * a.queries, grain(static_cast<double>(a.keys * a.size)),
          [&](i64 begin, i64 end) HWY_ATTR { forward_few<T>(a, y, log_sums, begin, end); });
    parallel_for(a.batch * a.heads * blocks,
                 grain(static_cast<double>(std::min(a.queries, kQueries) * a.keys * a.size)),
                 [&](i64 begin, i64 end)
                     HWY_ATTR { forward_blocks<T>(a, y, log_sums, begin, end); });
  });
}

void backward(const Attention& a, const Tensor& y, const Tensor& log_sums, const Tensor& dy,
              const PackedRows& dq, const PackedRows& dk, const PackedRows& dv) {
  note_run(Kernel::attention, HWY_TARGET);
  with_floating(a.q.t.dtype(), "attention", [&]<class T>() HWY_ATTR {
    parallel_for(a.batch * a.kv_heads,
                 grain(static_cast<double>(a.group() * a.queries * a.keys * a.size)),
                 [&](i64 begin, i64 end)
                     HWY_ATTR { backward_groups<T>(a, y, log_sums, dy, dq, dk, dv, begin, end); });
  });
}

}  // namespace
}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::cpu {

HWY_EXPORT(forward);
void attention(const Attention& a, Tensor& y, const Tensor& log_sums) {
  HWY_DYNAMIC_DISPATCH(forward)(a, y, log_sums);
}

HWY_EXPORT(backward);
void attention_back(const Attention& a, const Tensor& y, const Tensor& log_sums, const Tensor& dy,
                    const PackedRows& dq, const PackedRows& dk, const PackedRows& dv) {
  HWY_DYNAMIC_DISPATCH(backward)(a, y, log_sums, dy, dq, dk, dv);
}

}  // namespace gossamer::cpu
#endif
