// Attention of a few queries, as a step of decoding has them (Dao et al. 2023, "Flash-Decoding"):
// blocks share the keys of a query, so that a cache is read by the whole GPU, and a second pass
// joins what they found, in order. A launch fits any number of keys that are seen: blocks behind
// them leave at once. Each row of k and v is read once, in vectors, where it lies.
#pragma once

#include "gossamer/core/cuda/kernels/attention.h"

namespace gossamer::kernels {

inline constexpr i64 kFewQueries = 8, kKeysOfBlock = 64;
inline i64 splits_of(i64 keys) { return (keys + kKeysOfBlock - 1) / kKeysOfBlock; }

// Of query `item` = head Tq + i and the keys of split s: the sum of the values with their weights
// exp(score - top), the sum of the weights, and top. Only of splits with a key that is seen.
struct SplitSums {
  float *values, *weights, *tops;  // [items, splits, D]; [items, splits] each
  i64 splits;
};

// Block: an item and a split. Eight threads share a row.
template <class T, int wide, bool whole>
struct AttentionOfSplit {
  static constexpr int threads = 128, phases = 6, keys = static_cast<int>(kKeysOfBlock), lanes = 8,
                       groups = threads / lanes, eights = wide / 64;
  struct Shared {
    float q[wide];  // times the scale
    float products[keys][lanes + 1], scores[keys], weights[keys];
    float values[groups][wide];
  };
  struct State {};
  AttentionParts<T> a;
  SplitSums sums;

  template <int phase>
  GOSSAMER_HD void run(i64 block, int t, Shared& shared, State&) const {
    const i64 item = block / sums.splits, head = item / a.queries, i = item % a.queries,
              begin = block % sums.splits * keys;
    const KeyRange seen = a.seen(head, i);
    if (begin >= seen.end || begin + keys <= seen.begin) return;
    // keys low … count - 1 of the split are seen
    const int low = static_cast<int>(seen.begin > begin ? seen.begin - begin : 0),
              count = static_cast<int>(seen.end - begin < keys ? seen.end - begin : keys),
              size = static_cast<int>(a.size), group = t / lanes, lane = t % lanes;
    if constexpr (phase == 0) {
      const T* q = a.row_of(a.q, head, i);
      for (int c = t; c < wide; c += threads) shared.q[c] = c < size ? a.scale * load(q, c) : 0.0f;
    } else if constexpr (phase == 1) {
      for (int j = low + group; j < count; j += groups) {
        const T* k = a.row_of(a.k, head, begin + j);
        float sum = 0;
        GOSSAMER_UNROLL
        for (int e = 0; e < eights; ++e) {
          const int c = 64 * e + 8 * lane;
          if (c >= size) continue;
          const Eight x = load_eight<whole>(k + c, size - c);
          GOSSAMER_UNROLL
          for (int l = 0; l < 8; ++l) sum += shared.q[c + l] * x.v[l];
        }
        shared.products[j][lane] = sum;
      }
    } else if constexpr (phase == 2) {
      if (t < low || t >= count) return;
      float score = 0;
      for (int l = 0; l < lanes; ++l) score += shared.products[t][l];
      shared.scores[t] = score;
    } else if constexpr (phase == 3) {
      if (t < low || t >= count) return;
      const float top = top_of(shared, low, count);
      shared.weights[t] = expf(shared.scores[t] - (top == -__builtin_huge_valf() ? 0.0f : top));
    } else if constexpr (phase == 4) {
      Eight sum[eights] = {};
      for (int j = low + group; j < count; j += groups) {
        const T* v = a.row_of(a.v, head, begin + j);
        const float weight = shared.weights[j];
        GOSSAMER_UNROLL
        for (int e = 0; e < eights; ++e) {
          const int c = 64 * e + 8 * lane;
          if (c >= size) continue;
          const Eight x = load_eight<whole>(v + c, size - c);
          GOSSAMER_UNROLL
          for (int l = 0; l < 8; ++l) sum[e].v[l] += weight * x.v[l];
        }
      }
      GOSSAMER_UNROLL
      for (int e = 0; e < eights; ++e) {
        float* const values = shared.values[group] + 64 * e + 8 * lane;
        GOSSAMER_UNROLL
        for (int l = 0; l < 8; ++l) values[l] = sum[e].v[l];
      }
    } else {
      for (int c = t; c < size; c += threads) {
        float sum = 0;
        for (int g = 0; g < groups; ++g) sum += shared.values[g][c];
        sums.values[block * size + c] = sum;
      }
      if (t > 0) return;
      float sum = 0;
      for (int j = low; j < count; ++j) sum += shared.weights[j];
      sums.weights[block] = sum;
      sums.tops[block] = top_of(shared, low, count);
    }
  }

 private:
  GOSSAMER_HD static float top_of(const Shared& shared, int low, int count) {
    float top = -__builtin_huge_valf();
    for (int j = low; j < count; ++j) {
      const float s = shared.scores[j];
      top = s > top || s != s ? s : top;
    }
    return top;
  }
};

// y from the sums of the splits: one number.
template <class T>
struct JoinSplits {
  AttentionParts<T> a;
  SplitSums sums;
  RowsOnDevice<T> y;
  GOSSAMER_HD void operator()(i64 index) const {
    const i64 item = index / a.size, c = index % a.size, head = item / a.queries,
              i = item % a.queries, begin = item * sums.splits;
    const KeyRange seen = a.seen(head, i);
    const i64 first = begin + seen.begin / kKeysOfBlock,
              last = begin + (seen.end + kKeysOfBlock - 1) / kKeysOfBlock;
    float top = -__builtin_huge_valf();
    for (i64 s = first; s < last; ++s)
      top = sums.tops[s] > top || sums.tops[s] != sums.tops[s] ? sums.tops[s] : top;
    const float base = top == -__builtin_huge_valf() ? 0.0f : top;
    float sum = 0, out = 0;
    for (i64 s = first; s < last; ++s) {
      const float factor = expf(sums.tops[s] - base);
      sum += factor * sums.weights[s];
      out += factor * sums.values[s * a.size + c];
    }
    store(a.row_of(y, head, i), c, sum == 0 ? 0.0f : out / sum);
  }
};

}  // namespace gossamer::kernels
