// Attention for GPUs, in blocks of rows that fit the shared memory (Dao et al. 2022,
// "FlashAttention: fast and memory-efficient exact attention with IO-awareness"). Sums are in f32,
// without tensor cores and without atomics: backward walks over the keys for dq, and over the
// queries for dk and dv.
#pragma once

#include <cmath>

#include "gossamer/core/cuda/kernels/launch.h"
#include "gossamer/core/ops/attention_mask.h"

namespace gossamer::kernels {

template <class T>
struct RowsOnDevice {
  T* p;
  i64 length, row;  // rows of a batch entry; elements from one to the next
  i64 group;        // heads of queries that share a head of these rows: 1 for those of queries
};

// What all three kernels know. Element (i, j) below is query i, key j of head `head` = b H + h.
template <class T>
struct AttentionParts {
  i64 heads, queries, keys, size;
  KeysSeen mask;
  float dropout, scale;
  AttentionDropout drawn;
  RowsOnDevice<const T> q, k, v;

  template <class U>
  GOSSAMER_HD U* row_of(const RowsOnDevice<U>& r, i64 head, i64 t) const {
    return r.p + (head / heads * r.length + t) * r.row + head % heads / r.group * size;
  }
  GOSSAMER_HD KeyRange seen(i64 head, i64 i) const { return mask.of(head / heads, i); }
  GOSSAMER_HD bool sees(i64 head, i64 i, i64 j) const {
    if (i >= queries) return false;
    const KeyRange keys_of = seen(head, i);
    return j >= keys_of.begin && j < keys_of.end;
  }
  // The keys that any of n queries sees: neither end of a range falls from one to the next.
  GOSSAMER_HD KeyRange seen_by(i64 head, i64 begin, i64 n) const {
    return {seen(head, begin).begin,
            seen(head, begin + n < queries ? begin + n - 1 : queries - 1).end};
  }
  GOSSAMER_HD float kept(i64 head, i64 i, i64 j) const {  // 1/(1-p), or 0
    if (dropout == 0) return 1;
    return to_unit(drawn.word(head, i, j)) >= dropout ? 1 / (1 - dropout) : 0.0f;
  }
};

// N rows of at most `wide` numbers, on banks of their own.
template <int N, int wide>
struct RowTile {
  float v[N][wide + 1];
  // Rows begin … end - 1 of r, times factor; zeros from `end` on. What nobody sees may never have
  // been written, and 0 times NaN is NaN: so `end` of keys and values is how many are seen.
  template <class T, class U>
  GOSSAMER_HD void load_rows(const AttentionParts<T>& a, const RowsOnDevice<U>& r, i64 head,
                             i64 begin, i64 end, float factor, int t, int threads) {
    const int size = static_cast<int>(a.size);
    for (int e = t; e < N * size; e += threads) {
      const int i = e / size, c = e - i * size;
      v[i][c] = begin + i < end ? factor * load(a.row_of(r, head, begin + i), c) : 0.0f;
    }
  }
  template <int M>
  GOSSAMER_HD float dot(int i, const RowTile<M, wide>& other, int j, i64 size) const {
    float sum = 0;
    for (int c = 0; c < static_cast<int>(size); ++c) sum += v[i][c] * other.v[j][c];
    return sum;
  }
};

// Numbers of an N x wide result that each of 256 threads holds: e = t + 256 k, row e/wide.
template <int N, int wide>
struct RowSums {
  static constexpr int threads = 256, count = (N * wide + threads - 1) / threads;
  float v[count];
  GOSSAMER_HD static int row(int t, int k) { return (t + threads * k) / wide; }
  GOSSAMER_HD static int col(int t, int k) { return (t + threads * k) % wide; }
  // f(k, row, col) for those that exist
  template <class F>
  GOSSAMER_HD static void each(int t, i64 size, F f) {
    GOSSAMER_UNROLL
    for (int k = 0; k < count; ++k)
      if (row(t, k) < N && col(t, k) < size) f(k, row(t, k), col(t, k));
  }
};

// Block: a head and N queries; an iteration: N keys each.
template <class T, int N, int wide>
struct AttentionForward {
  static constexpr int threads = 256, phases = 4, resident = kWithoutSpilling;
  using Sums = RowSums<N, wide>;
  struct Shared {
    RowTile<N, wide> q, kv;
    RowTile<N, N> s;
    float top[N], sum[N], factor[N];
  };
  struct State {
    Sums out{};
    i64 iteration = 0;
  };
  AttentionParts<T> a;
  RowsOnDevice<T> y;
  float* log_sums;  // null: not wanted

  GOSSAMER_HD i64 blocks_of_queries() const { return (a.queries + N - 1) / N; }
  GOSSAMER_HD KeyRange keys_of(i64 block) const {
    return a.seen_by(block / blocks_of_queries(), block % blocks_of_queries() * N, N);
  }
  GOSSAMER_HD i64 first_key(i64 block, i64 iteration) const {
    return keys_of(block).begin / N * N + iteration * N;
  }
  GOSSAMER_HD bool again(i64 block, const Shared&, const State& state) const {
    return first_key(block, state.iteration) < keys_of(block).end;
  }

  template <int phase>
  GOSSAMER_HD void run(i64 block, int t, Shared& shared, State& state) const {
    const i64 groups = blocks_of_queries(), head = block / groups, i0 = block % groups * N,
              j0 = first_key(block, state.iteration);
    if constexpr (phase == 0) {
      if (state.iteration == 0) {
        shared.q.load_rows(a, a.q, head, i0, a.queries, a.scale, t, threads);
        if (t < N) {
          shared.top[t] = -__builtin_huge_valf();
          shared.sum[t] = 0;
        }
      }
      shared.kv.load_rows(a, a.k, head, j0, keys_of(block).end, 1, t, threads);
    } else if constexpr (phase == 1) {
      for (int e = t; e < N * N; e += threads) {
        const int i = e / N, j = e % N;
        shared.s.v[i][j] = a.sees(head, i0 + i, j0 + j) ? shared.q.dot(i, shared.kv, j, a.size)
                                                        : -__builtin_huge_valf();
      }
    } else if constexpr (phase == 2) {
      shared.kv.load_rows(a, a.v, head, j0, keys_of(block).end, 1, t, threads);
      if (t >= N) return;
      float* s = shared.s.v[t];
      float top = shared.top[t], sum = 0;
      for (int j = 0; j < N; ++j) top = s[j] > top || s[j] != s[j] ? s[j] : top;
      const float base = top == -__builtin_huge_valf() ? 0.0f : top;  // it sees no key so far
      for (int j = 0; j < N; ++j) {
        const float p = expf(s[j] - base);
        sum += p;
        s[j] = p > 0 ? p * a.kept(head, i0 + t, j0 + j) : p;
      }
      const float factor = expf(shared.top[t] - base);
      shared.factor[t] = factor;
      shared.sum[t] = shared.sum[t] * factor + sum;
      shared.top[t] = top;
    } else {
      const bool last = first_key(block, ++state.iteration) >= keys_of(block).end;
      Sums::each(t, a.size, [&](int k, int i, int c) {
        float out = state.out.v[k] * shared.factor[i];
        for (int j = 0; j < N; ++j) out += shared.s.v[i][j] * shared.kv.v[j][c];
        state.out.v[k] = out;
        if (last && i0 + i < a.queries)
          store(a.row_of(y, head, i0 + i), c, shared.sum[i] == 0 ? 0.0f : out / shared.sum[i]);
      });
      if (last && log_sums && t < N && i0 + t < a.queries)
        log_sums[head * a.queries + i0 + t] =
            shared.sum[t] == 0 ? __builtin_huge_valf() : shared.top[t] + logf(shared.sum[t]);
    }
  }
};

// through[(b H + h) Tq + i] = the product of the rows of dy and y.
template <class T>
struct AttentionThrough {
  AttentionParts<T> a;
  RowsOnDevice<const T> y, dy;
  float* through;
  GOSSAMER_HD void operator()(i64 index) const {
    const i64 head = index / a.queries, i = index % a.queries;
    const T *one = a.row_of(y, head, i), *two = a.row_of(dy, head, i);
    float sum = 0;
    for (i64 c = 0; c < a.size; ++c) sum += load(one, c) * load(two, c);
    through[index] = sum;
  }
};

// What backward reads beside the forward pass's parts; the weight of (i, j) before dropout.
template <class T>
struct AttentionBackParts {
  AttentionParts<T> a;
  i64 group;  // heads of queries that share a head of keys
  RowsOnDevice<const T> dy;
  const float *log_sums, *through;
  GOSSAMER_HD float weight(i64 head, i64 i, i64 j, float score) const {
    return a.sees(head, i, j) ? expf(score - log_sums[head * a.queries + i]) : 0.0f;
  }
  // of the score, from the weight p and the product of dy's and v's rows
  GOSSAMER_HD float slope(i64 head, i64 i, i64 j, float p, float product) const {
    return p > 0 ? p * (product * a.kept(head, i, j) - through[head * a.queries + i]) : p;
  }
};

// dq: block: a head and N queries; an iteration: N keys each.
template <class T, int N, int wide>
struct AttentionBackQueries {
  static constexpr int threads = 256, phases = 5;
  using Sums = RowSums<N, wide>;
  struct Shared {
    RowTile<N, wide> q, up, kv;
    RowTile<N, N> s;
  };
  struct State {
    Sums out{};
    i64 iteration = 0;
  };
  AttentionBackParts<T> b;
  RowsOnDevice<T> dq;

  GOSSAMER_HD i64 blocks_of_queries() const { return (b.a.queries + N - 1) / N; }
  GOSSAMER_HD KeyRange keys_of(i64 block) const {
    return b.a.seen_by(block / blocks_of_queries(), block % blocks_of_queries() * N, N);
  }
  GOSSAMER_HD i64 first_key(i64 block, i64 iteration) const {
    return keys_of(block).begin / N * N + iteration * N;
  }
  GOSSAMER_HD bool again(i64 block, const Shared&, const State& state) const {
    return first_key(block, state.iteration) < keys_of(block).end;
  }

  template <int phase>
  GOSSAMER_HD void run(i64 block, int t, Shared& shared, State& state) const {
    const AttentionParts<T>& a = b.a;
    const i64 groups = blocks_of_queries(), head = block / groups, i0 = block % groups * N,
              j0 = first_key(block, state.iteration);
    if constexpr (phase == 0) {
      if (state.iteration == 0) {
        shared.q.load_rows(a, a.q, head, i0, a.queries, a.scale, t, threads);
        shared.up.load_rows(a, b.dy, head, i0, a.queries, 1, t, threads);
      }
      shared.kv.load_rows(a, a.v, head, j0, keys_of(block).end, 1, t, threads);
    } else if constexpr (phase == 1) {
      for (int e = t; e < N * N; e += threads)
        shared.s.v[e / N][e % N] = shared.up.dot(e / N, shared.kv, e % N, a.size);
    } else if constexpr (phase == 2) {
      shared.kv.load_rows(a, a.k, head, j0, keys_of(block).end, 1, t, threads);
    } else if constexpr (phase == 3) {
      for (int e = t; e < N * N; e += threads) {
        const int i = e / N, j = e % N;
        const float p = b.weight(head, i0 + i, j0 + j, shared.q.dot(i, shared.kv, j, a.size));
        shared.s.v[i][j] = b.slope(head, i0 + i, j0 + j, p, shared.s.v[i][j]);
      }
    } else {
      const bool last = first_key(block, ++state.iteration) >= keys_of(block).end;
      Sums::each(t, a.size, [&](int k, int i, int c) {
        float out = state.out.v[k];
        for (int j = 0; j < N; ++j) out += shared.s.v[i][j] * shared.kv.v[j][c];
        state.out.v[k] = out;
        if (last && i0 + i < a.queries) store(a.row_of(dq, head, i0 + i), c, a.scale * out);
      });
    }
  }
};

// dk and dv: block: a head of keys and N of them; an iteration: N queries of one of the heads that
// share them, one head after the other.
template <class T, int N, int wide>
struct AttentionBackKeys {
  static constexpr int threads = 256, phases = 7, resident = kWithoutSpilling;
  using Sums = RowSums<N, wide>;
  struct Shared {
    RowTile<N, wide> k, v, rows;
    RowTile<N, N> s, p;  // [key][query]
  };
  struct State {
    Sums dk{}, dv{};
    i64 iteration = 0;
  };
  AttentionBackParts<T> b;
  RowsOnDevice<T> dk, dv;

  // The queries that may see a key of the block, in blocks of N, and of which head they are.
  struct Step {
    i64 head, i0;
    bool inside;
  };
  GOSSAMER_HD i64 blocks_of_keys() const { return (b.a.keys + N - 1) / N; }
  GOSSAMER_HD Step step(i64 block, i64 iteration) const {
    const KeysSeen& mask = b.a.mask;
    const i64 j0 = block % blocks_of_keys() * N, group = b.group,
              begin = mask.causal && j0 > mask.first ? (j0 - mask.first) / N : 0;
    i64 end = b.a.queries;
    // the last key of the block is in the window of query i if first + i < j + window
    if (mask.window > 0 && j0 + N - 1 + mask.window - mask.first < end)
      end = j0 + N - 1 + mask.window - mask.first;
    const i64 blocks = (end + N - 1) / N - begin, each = blocks > 0 ? blocks : 1;
    return {block / blocks_of_keys() * group + iteration / each, (begin + iteration % each) * N,
            iteration < each * group};
  }
  GOSSAMER_HD bool again(i64 block, const Shared&, const State& state) const {
    return step(block, state.iteration).inside;
  }

  template <int phase>
  GOSSAMER_HD void run(i64 block, int t, Shared& shared, State& state) const {
    const AttentionParts<T>& a = b.a;
    const Step now = step(block, state.iteration);
    const i64 head = now.head, i0 = now.i0, j0 = block % blocks_of_keys() * N;
    if constexpr (phase == 0) {
      if (state.iteration == 0) {
        const i64 seen = a.seen_by(head, 0, a.queries).end;
        shared.k.load_rows(a, a.k, head, j0, seen, 1, t, threads);
        shared.v.load_rows(a, a.v, head, j0, seen, 1, t, threads);
      }
      shared.rows.load_rows(a, a.q, head, i0, a.queries, a.scale, t, threads);
    } else if constexpr (phase == 1) {
      for (int e = t; e < N * N; e += threads) {
        const int j = e / N, i = e % N;
        shared.s.v[j][i] = b.weight(head, i0 + i, j0 + j, shared.k.dot(j, shared.rows, i, a.size));
      }
    } else if constexpr (phase == 2) {
      shared.rows.load_rows(a, b.dy, head, i0, a.queries, 1, t, threads);
    } else if constexpr (phase == 3) {
      for (int e = t; e < N * N; e += threads) {
        const int j = e / N, i = e % N;
        const float p = shared.s.v[j][i];
        shared.p.v[j][i] = p > 0 ? p * a.kept(head, i0 + i, j0 + j) : p;
        shared.s.v[j][i] =
            b.slope(head, i0 + i, j0 + j, p, shared.v.dot(j, shared.rows, i, a.size));
      }
    } else if constexpr (phase == 4) {
      Sums::each(t, a.size, [&](int k, int j, int c) {
        for (int i = 0; i < N; ++i) state.dv.v[k] += shared.p.v[j][i] * shared.rows.v[i][c];
      });
    } else if constexpr (phase == 5) {
      shared.rows.load_rows(a, a.q, head, i0, a.queries, a.scale, t, threads);
    } else {
      const bool last = !step(block, ++state.iteration).inside;
      Sums::each(t, a.size, [&](int k, int j, int c) {
        for (int i = 0; i < N; ++i) state.dk.v[k] += shared.s.v[j][i] * shared.rows.v[i][c];
        if (!last || j0 + j >= a.keys) return;
        store(a.row_of(dk, head, j0 + j), c, state.dk.v[k]);
        store(a.row_of(dv, head, j0 + j), c, state.dv.v[k]);
      });
    }
  }
};

}  // namespace gossamer::kernels
