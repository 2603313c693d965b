// The passes of the resize in AVX-512. A weight of 22 bits is three signed bytes, w = a + 256 b +
// 65536 c, so that one instruction (VPDPBUSD) does four taps of sixteen sums with one of them,
// exactly; the pixels that four taps of five outputs need are brought into place by one permutation
// of 64 bytes (VPERMB).
#include "gossamer/data/codec/resize_passes.h"

#ifdef GOSSAMER_RESIZE_AVX512

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // in GCC 12's own header (bug 105593)
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <algorithm>
#include <array>

#include <immintrin.h>

namespace gossamer::data {

bool Avx512Passes::can_run() {
  static const bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vbmi") &&
                          __builtin_cpu_supports("avx512vnni");
  return can;
}

}  // namespace gossamer::data

// Only what stands below may use these instructions: what is inline elsewhere is compiled here too,
// and the linker may keep this copy of it for all CPUs.
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vbmi,avx512vnni"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vbmi,avx512vnni")
#endif

namespace gossamer::data {
namespace {

constexpr int kBits = 22;
constexpr int kDigits = 3;
constexpr std::size_t kReach = 64;  // bytes of one load

std::array<std::int8_t, kDigits> digits(std::int32_t w) {
  const auto a = static_cast<std::int8_t>(w);
  w = (w - a) >> 8;
  const auto b = static_cast<std::int8_t>(w);
  return {a, b, static_cast<std::int8_t>((w - b) >> 8)};
}

// Four taps, their weights by digits, rounded: by Horner's rule, with fewer additions than sum()
// below needs.
__m512i sum_of_four(__m512i taps, __m512i wa, __m512i wb, __m512i wc) {
  const __m512i c = _mm512_dpbusd_epi32(_mm512_set1_epi32(1 << (kBits - 1 - 16)), taps, wc);
  const __m512i b = _mm512_dpbusd_epi32(_mm512_slli_epi32(c, 8), taps, wb);
  return _mm512_srli_epi32(_mm512_dpbusd_epi32(_mm512_slli_epi32(b, 8), taps, wa), kBits);
}

__m512i sum(__m512i a, __m512i b, __m512i c) {
  const __m512i total =
      _mm512_add_epi32(_mm512_add_epi32(a, _mm512_set1_epi32(1 << (kBits - 1))),
                       _mm512_add_epi32(_mm512_slli_epi32(b, 8), _mm512_slli_epi32(c, 16)));
  return _mm512_srli_epi32(total, kBits);
}

}  // namespace

void Avx512Passes::start(const Axis& axis, int src_x) {
  const int outputs = static_cast<int>(axis.first.size());
  const auto fits = [&](int wanted) {
    for (int i = 0; i < outputs; i += wanted) {
      const auto [low, high] =
          std::minmax(axis.first[i], axis.first[std::min(i + wanted, outputs) - 1]);
      if (3 * (high - low) + 11 >= static_cast<int>(kReach)) return false;
    }
    return true;
  };
  for (pixels_ = 5; pixels_ > 1 && !fits(pixels_);) --pixels_;
  groups_ = (outputs + pixels_ - 1) / pixels_;
  chunks_ = (*std::max_element(axis.count.begin(), axis.count.end()) + 3) / 4;
  const std::size_t lines = 1 + static_cast<std::size_t>(kDigits * chunks_);  // of a group
  offset_.resize(static_cast<std::size_t>(groups_));
  lines_.assign(static_cast<std::size_t>(groups_) * lines, Line{});
  for (int g = 0; g < groups_; ++g) {
    const int begin = g * pixels_, end = std::min(begin + pixels_, outputs),
              low = std::min(axis.first[begin], axis.first[end - 1]);
    offset_[static_cast<std::size_t>(g)] = 3 * static_cast<std::size_t>(low - src_x);
    Line* const to = &lines_[static_cast<std::size_t>(g) * lines];
    for (int i = begin; i < end; ++i) {
      const std::int32_t* w = axis.weights.data() + static_cast<std::size_t>(i) * axis.taps;
      const int lane = 12 * (i - begin), from = 3 * (axis.first[i] - low);
      for (int c = 0; c < 3; ++c)
        for (int t = 0; t < 4; ++t)
          to[0].bytes[lane + 4 * c + t] = static_cast<std::int8_t>(from + 3 * t + c);
      for (int t = 0; t < axis.count[i]; ++t) {
        const auto digit = digits(w[t]);
        for (int d = 0; d < kDigits; ++d)
          for (int c = 0; c < 3; ++c)
            to[1 + kDigits * (t / 4) + d].bytes[lane + 4 * c + t % 4] =
                digit[static_cast<std::size_t>(d)];
      }
    }
  }
  reach_ = *std::max_element(offset_.begin(), offset_.end()) + kReach +
           12 * static_cast<std::size_t>(chunks_ - 1);
}

// They share the loads of index and weights.
template <int rows>
void Avx512Passes::rows_at_once(const std::uint8_t* const* src, std::uint8_t* dst,
                                std::size_t dst_stride) const {
  const Line* line = lines_.data();
  for (int g = 0; g < groups_; ++g) {
    const __m512i index = _mm512_load_si512(line++);
    const std::size_t offset = offset_[static_cast<std::size_t>(g)];
    const auto store = [&](int r, __m512i sums) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + static_cast<std::size_t>(r) * dst_stride +
                                                  static_cast<std::size_t>(3 * g * pixels_)),
                       _mm512_cvtusepi32_epi8(sums));
    };
    if (chunks_ == 1) {
      const __m512i wa = _mm512_load_si512(line), wb = _mm512_load_si512(line + 1),
                    wc = _mm512_load_si512(line + 2);
      for (int r = 0; r < rows; ++r)
        store(r, sum_of_four(_mm512_permutexvar_epi8(index, _mm512_loadu_si512(src[r] + offset)),
                             wa, wb, wc));
      line += kDigits;
      continue;
    }
    __m512i a[rows], b[rows], c[rows];
    for (int r = 0; r < rows; ++r) a[r] = b[r] = c[r] = _mm512_setzero_si512();
    for (int chunk = 0; chunk < chunks_; ++chunk, line += kDigits) {
      const __m512i wa = _mm512_load_si512(line), wb = _mm512_load_si512(line + 1),
                    wc = _mm512_load_si512(line + 2);
      for (int r = 0; r < rows; ++r) {
        const __m512i taps = _mm512_permutexvar_epi8(
            index, _mm512_loadu_si512(src[r] + offset + 12 * static_cast<std::size_t>(chunk)));
        a[r] = _mm512_dpbusd_epi32(a[r], taps, wa);
        b[r] = _mm512_dpbusd_epi32(b[r], taps, wb);
        c[r] = _mm512_dpbusd_epi32(c[r], taps, wc);
      }
    }
    for (int r = 0; r < rows; ++r) store(r, sum(a[r], b[r], c[r]));
  }
}

void Avx512Passes::horizontal(const Rows& src, std::uint8_t* dst, std::size_t dst_stride) {
  for_row_blocks(src, reach_, copy_, [&]<int rows>(const std::uint8_t* const* from, int y) {
    rows_at_once<rows>(from, dst + static_cast<std::size_t>(y) * dst_stride, dst_stride);
  });
}

void Avx512Passes::vertical(const Rows& src, int src_y, const Axis& axis, Outputs outputs,
                            std::size_t row, std::uint8_t* dst) {
  std::vector<std::array<std::uint32_t, kDigits>> weights;  // of four taps each
  for (std::size_t i = outputs.begin; i < outputs.end; ++i, dst += row) {
    const std::int32_t* w = axis.weights.data() + i * static_cast<std::size_t>(axis.taps);
    const std::uint8_t* const top =
        src.first + static_cast<std::size_t>(axis.first[i] - src_y) * src.stride;
    const int count = axis.count[i];
    weights.assign(static_cast<std::size_t>(count + 3) / 4, {});
    for (int t = 0; t < count; ++t) {
      const auto digit = digits(w[t]);
      for (std::size_t d = 0; d < kDigits; ++d)
        weights[static_cast<std::size_t>(t) / 4][d] |=
            static_cast<std::uint32_t>(static_cast<std::uint8_t>(digit[d])) << (8 * (t % 4));
    }
    const auto weight = [&](std::size_t chunk, std::size_t digit) {
      return _mm512_set1_epi32(static_cast<int>(weights[chunk][digit]));
    };
    for (std::size_t x = 0; x < row; x += 64) {
      struct Taps {
        __m512i of[4];
      };
      // four rows from t on, byte by byte beside each other
      const auto taps_at = [&](int t) -> Taps {
        __m512i in[4];
        for (int k = 0; k < 4; ++k)
          in[k] = _mm512_loadu_si512(
              top + static_cast<std::size_t>(std::min(t + k, count - 1)) * src.stride + x);
        const __m512i low01 = _mm512_unpacklo_epi8(in[0], in[1]),
                      high01 = _mm512_unpackhi_epi8(in[0], in[1]);
        const __m512i low23 = _mm512_unpacklo_epi8(in[2], in[3]),
                      high23 = _mm512_unpackhi_epi8(in[2], in[3]);
        return {{_mm512_unpacklo_epi16(low01, low23), _mm512_unpackhi_epi16(low01, low23),
                 _mm512_unpacklo_epi16(high01, high23), _mm512_unpackhi_epi16(high01, high23)}};
      };
      __m512i out[4];
      if (count <= 4) {
        const Taps taps = taps_at(0);
        for (int q = 0; q < 4; ++q)
          out[q] = sum_of_four(taps.of[q], weight(0, 0), weight(0, 1), weight(0, 2));
      } else {
        __m512i sums[4][kDigits];
        for (auto& s : sums) s[0] = s[1] = s[2] = _mm512_setzero_si512();
        for (int t = 0; t < count; t += 4) {
          const Taps taps = taps_at(t);
          for (std::size_t d = 0; d < kDigits; ++d)
            for (int q = 0; q < 4; ++q)
              sums[q][d] = _mm512_dpbusd_epi32(sums[q][d], taps.of[q],
                                               weight(static_cast<std::size_t>(t) / 4, d));
        }
        for (int q = 0; q < 4; ++q) out[q] = sum(sums[q][0], sums[q][1], sums[q][2]);
      }
      const __m512i bytes = _mm512_packus_epi16(_mm512_packus_epi32(out[0], out[1]),
                                                _mm512_packus_epi32(out[2], out[3]));
      if (x + 64 <= row)
        _mm512_storeu_si512(dst + x, bytes);
      else
        _mm512_mask_storeu_epi8(dst + x, (1ull << (row - x)) - 1, bytes);
    }
  }
}

}  // namespace gossamer::data

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#pragma GCC diagnostic pop
#endif
