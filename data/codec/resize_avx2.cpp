// The passes of the resize in AVX2. A weight of 22 bits is two numbers of 16, w = low + 2048 high,
// so that VPMADDWD does two taps of eight sums with one of them, exactly. Horizontally each half of
// a vector holds one output: red, green and blue of two taps side by side.
#include "gossamer/data/codec/resize_passes.h"

#ifdef GOSSAMER_RESIZE_AVX2

#include <algorithm>
#include <array>
#include <cstring>

#include <immintrin.h>

namespace gossamer::data {
namespace {

constexpr int kBits = 22, kLowBits = 11;
constexpr std::size_t kReach = 16;  // bytes of one load

struct Split {
  std::int16_t low, high;
};
Split split(std::int32_t w) {
  return {static_cast<std::int16_t>(w & ((1 << kLowBits) - 1)),
          static_cast<std::int16_t>(w >> kLowBits)};
}

__m256i sum(__m256i low, __m256i high) {
  const __m256i total = _mm256_add_epi32(_mm256_add_epi32(low, _mm256_set1_epi32(1 << (kBits - 1))),
                                         _mm256_slli_epi32(high, kLowBits));
  return _mm256_srli_epi32(total, kBits);
}

__m256i load_two(const std::uint8_t* a, const std::uint8_t* b) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), 1);
}

}  // namespace

void Avx2Passes::start(const Axis& axis, int src_x) {
  const std::size_t outputs = axis.first.size();
  chunks_ =
      static_cast<std::size_t>(*std::max_element(axis.count.begin(), axis.count.end()) + 1) / 2;
  // four outputs are stored at once; those behind the last are thrown away
  offset_.resize((outputs + 3) / 4 * 4);
  lines_.assign(offset_.size() / 2 * chunks_ * 2, Line{});
  for (std::size_t i = 0; i < offset_.size(); ++i) {
    const std::size_t from = std::min(i, outputs - 1);
    offset_[i] = 3 * static_cast<std::size_t>(axis.first[from] - src_x);
    for (std::size_t t = 0; i < outputs && t < static_cast<std::size_t>(axis.count[i]); ++t) {
      const Split w = split(axis.weights[i * static_cast<std::size_t>(axis.taps) + t]);
      Line* const line = &lines_[(i / 2 * chunks_ + t / 2) * 2];
      for (std::size_t c = 0; c < 3; ++c) {
        const std::size_t lane = i % 2 * 8 + 2 * c + t % 2;
        line[0].weight[lane] = w.low;
        line[1].weight[lane] = w.high;
      }
    }
  }
  reach_ = *std::max_element(offset_.begin(), offset_.end()) + kReach + 6 * (chunks_ - 1);
}

// They share the loads of weights.
template <int rows>
void Avx2Passes::rows_at_once(const std::uint8_t* const* src, std::uint8_t* dst,
                              std::size_t dst_stride) const {
  // Bytes r0 g0 b0 r1 g1 b1 become the pairs (r0, r1), (g0, g1), (b0, b1) of 16 bits; of four
  // results r g b 0 the zeros go.
  const __m256i pairs = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
  const __m128i close = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const Line* line = lines_.data();
  for (std::size_t i = 0; i < offset_.size(); i += 4) {
    __m256i out[2][rows];
    for (std::size_t two = 0; two < 2; ++two) {
      const std::size_t a = offset_[i + 2 * two], b = offset_[i + 2 * two + 1];
      __m256i low[rows], high[rows];
      for (int r = 0; r < rows; ++r) low[r] = high[r] = _mm256_setzero_si256();
      for (std::size_t chunk = 0; chunk < chunks_; ++chunk, line += 2) {
        const __m256i w_low = _mm256_load_si256(reinterpret_cast<const __m256i*>(line)),
                      w_high = _mm256_load_si256(reinterpret_cast<const __m256i*>(line + 1));
        for (int r = 0; r < rows; ++r) {
          const __m256i taps =
              _mm256_shuffle_epi8(load_two(src[r] + a + 6 * chunk, src[r] + b + 6 * chunk), pairs);
          low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(taps, w_low));
          high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(taps, w_high));
        }
      }
      for (int r = 0; r < rows; ++r) out[two][r] = sum(low[r], high[r]);
    }
    for (int r = 0; r < rows; ++r) {
      // outputs 0 1 2 3
      const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(out[0][r], out[1][r]),
                                                     _MM_SHUFFLE(3, 1, 2, 0));
      const __m128i bytes =
          _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
      _mm_storeu_si128(
          reinterpret_cast<__m128i*>(dst + static_cast<std::size_t>(r) * dst_stride + 3 * i),
          _mm_shuffle_epi8(bytes, close));
    }
  }
}

void Avx2Passes::horizontal(const Rows& src, std::uint8_t* dst, std::size_t dst_stride) {
  for_row_blocks(src, reach_, copy_, [&]<int rows>(const std::uint8_t* const* from, int y) {
    rows_at_once<rows>(from, dst + static_cast<std::size_t>(y) * dst_stride, dst_stride);
  });
}

void Avx2Passes::vertical(const Rows& src, int src_y, const Axis& axis, Outputs outputs,
                          std::size_t row, std::uint8_t* dst) {
  constexpr std::size_t width = 32;
  const __m256i zero = _mm256_setzero_si256();
  std::vector<std::array<int, 2>> weights;  // low and high of two taps each
  for (std::size_t i = outputs.begin; i < outputs.end; ++i, dst += row) {
    const std::int32_t* w = axis.weights.data() + i * static_cast<std::size_t>(axis.taps);
    const std::uint8_t* const top =
        src.first + static_cast<std::size_t>(axis.first[i] - src_y) * src.stride;
    const std::size_t count = static_cast<std::size_t>(axis.count[i]);
    weights.resize((count + 1) / 2);
    for (std::size_t t = 0; t < count; t += 2) {
      const Split a = split(w[t]), b = t + 1 < count ? split(w[t + 1]) : Split{0, 0};
      weights[t / 2] = {b.low * 65536 + a.low, b.high * 65536 + a.high};
    }
    for (std::size_t x = 0; x < row; x += width) {
      __m256i low[4], high[4];
      for (int q = 0; q < 4; ++q) low[q] = high[q] = zero;
      for (std::size_t t = 0; t < count; t += 2) {
        const auto load = [&](std::size_t k) {
          return _mm256_loadu_si256(
              reinterpret_cast<const __m256i*>(top + std::min(k, count - 1) * src.stride + x));
        };
        const __m256i a = load(t), b = load(t + 1), first = _mm256_unpacklo_epi8(a, b),
                      second = _mm256_unpackhi_epi8(a, b);
        const __m256i taps[4] = {
            _mm256_unpacklo_epi8(first, zero), _mm256_unpackhi_epi8(first, zero),
            _mm256_unpacklo_epi8(second, zero), _mm256_unpackhi_epi8(second, zero)};
        const __m256i w_low = _mm256_set1_epi32(weights[t / 2][0]),
                      w_high = _mm256_set1_epi32(weights[t / 2][1]);
        for (int q = 0; q < 4; ++q) {
          low[q] = _mm256_add_epi32(low[q], _mm256_madd_epi16(taps[q], w_low));
          high[q] = _mm256_add_epi32(high[q], _mm256_madd_epi16(taps[q], w_high));
        }
      }
      const __m256i bytes =
          _mm256_packus_epi16(_mm256_packs_epi32(sum(low[0], high[0]), sum(low[1], high[1])),
                              _mm256_packs_epi32(sum(low[2], high[2]), sum(low[3], high[3])));
      if (x + width <= row) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + x), bytes);
      } else {
        alignas(32) std::uint8_t rest[width];
        _mm256_store_si256(reinterpret_cast<__m256i*>(rest), bytes);
        std::memcpy(dst + x, rest, row - x);
      }
    }
  }
}

}  // namespace gossamer::data

#endif
