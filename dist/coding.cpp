// bf16 and int8 with a scale for each block of values.
#include "gossamer/dist/coding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"

namespace gossamer::dist {
namespace {

constexpr i64 kBlock = kInt8Block;
constexpr i64 kGrain = 64;  // blocks a thread takes at least

i64 blocks_in(i64 values) { return (values + kBlock - 1) / kBlock; }

// Layout of int8: the scales of all blocks, then the values.
struct Codes {
  float* scales;
  std::int8_t* values;
};
Codes codes_in(const Tensor& bytes, i64 n) {
  auto* begin = static_cast<char*>(bytes.data());
  return {reinterpret_cast<float*>(begin),
          reinterpret_cast<std::int8_t*>(begin + blocks_in(n) * i64{sizeof(float)})};
}

float left(float value, float sent) { return std::isfinite(sent) ? value - sent : 0; }

// sent <- what the codes of value + error stand for; may be value itself. keep: error <- what is
// left.
void encode_block(const float* value, float* error, float* sent, i64 n, float& scale,
                  std::int8_t* codes, bool keep) {
  // As whole numbers, larger where the values are: infinite and NaN are the largest.
  std::uint32_t largest = 0;
  for (i64 i = 0; i < n; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value[i] + error[i]) & 0x7fff'ffffu);
  const float most = std::bit_cast<float>(largest);
  const bool finite = std::isfinite(most);
  // The smallest that divides: a block of tiny values travels as zeros, which the error keeps.
  scale = most / 127;
  const float factor = scale >= std::numeric_limits<float>::min() ? 1 / scale : 0;
  if (!finite) scale = std::numeric_limits<float>::quiet_NaN();
  for (i64 i = 0; i < n; ++i) {
    const float x = value[i] + error[i], code = finite ? std::nearbyint(x * factor) : 0;
    codes[i] = static_cast<std::int8_t>(code);
    sent[i] = code * scale;
    if (keep) error[i] = left(x, sent[i]);
  }
}

}  // namespace

Coding coding_of(const std::string& name) {
  if (name == "f32") return Coding::f32;
  if (name == "bf16") return Coding::bf16;
  check<ConfigError>(name == "int8", "payload \"", name,
                     "\" is unknown; known are: f32, bf16, int8");
  return Coding::int8;
}

i64 coded_bytes(Coding coding, i64 values) {
  switch (coding) {
    case Coding::f32:
      return 4 * values;
    case Coding::bf16:
      return 2 * values;
    case Coding::int8:
      break;
  }
  return values + blocks_in(values) * i64{sizeof(float)};
}

Coded::Coded(Coding coding, i64 values, Tensor error)
    : coding_(coding),
      values_(values),
      bytes_(Tensor::empty({coded_bytes(coding, values)}, DType::u8)),
      error_(error.defined() || coding != Coding::int8 ? std::move(error)
                                                       : Tensor::zeros({values})) {
  check<ShapeError>(!error_.defined() || error_.numel() == values, "Coded: an error of ",
                    error_.defined() ? error_.numel() : 0, " values for ", values);
}

void Coded::encode(const Tensor& values) { encode(values, values, true); }

void Coded::encode(const Tensor& values, const Tensor& sent) { encode(values, sent, false); }

void Coded::encode(const Tensor& values, const Tensor& sent, bool keep) {
  const i64 n = values.numel();
  const float* x = values.as<float>();
  float* error = error_.defined() ? error_.as<float>() : nullptr;
  float* to = Tensor(sent).as<float>();
  if (coding_ == Coding::bf16) {
    auto* codes = static_cast<bf16*>(bytes_.data());
    parallel_for(n, kGrain * kBlock, [=](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        const float value = x[i] + (error ? error[i] : 0);
        codes[i] = bf16(value);
        to[i] = static_cast<float>(codes[i]);
        if (error && keep) error[i] = left(value, to[i]);
      }
    });
    return;
  }
  const Codes codes = codes_in(bytes_, n);
  parallel_for(blocks_in(n), kGrain, [=](i64 begin, i64 end) {
    for (i64 b = begin; b < end; ++b) {
      const i64 at = b * kBlock;
      encode_block(x + at, error + at, to + at, std::min(kBlock, n - at), codes.scales[b],
                   codes.values + at, keep);
    }
  });
}

void Coded::keep_error(const Tensor& values, const Tensor& sent) {
  if (!error_.defined()) return;
  const float *x = values.as<float>(), *y = sent.as<float>();
  float* error = error_.as<float>();
  parallel_for(values.numel(), kGrain * kBlock, [=](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) error[i] = left(x[i] + error[i], y[i]);
  });
}

void Coded::copy_part(FlatRange part, const Tensor& to) const {
  const i64 n = part.end - part.begin;
  if (n == 0 && to.numel() == 0) return;
  check<ShapeError>(
      part.begin % kBlock == 0 && part.end <= values_ && to.numel() == coded_bytes(coding_, n),
      "copy_part: values ", part.begin, " to ", part.end, " of ", values_, " into ", to.numel(),
      " bytes");
  if (coding_ == Coding::bf16)
    return Tensor(to).copy_from(bytes_.slice(2 * part.begin, 2 * part.end));
  const Codes all = codes_in(bytes_, values_), some = codes_in(to, n);
  std::copy_n(all.scales + part.begin / kBlock, blocks_in(n), some.scales);
  std::copy_n(all.values + part.begin, n, some.values);
}

void Coded::decode(Coding coding, const Tensor& bytes, const Tensor& values) {
  const i64 n = values.numel();
  check<ShapeError>(bytes.numel() == coded_bytes(coding, n), "decode: ", bytes.numel(),
                    " bytes for ", n, " values; wanted ", coded_bytes(coding, n));
  float* x = values.as<float>();
  if (coding == Coding::bf16) {
    const auto* codes = static_cast<const bf16*>(bytes.data());
    parallel_for(n, kGrain * kBlock, [=](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) x[i] = static_cast<float>(codes[i]);
    });
    return;
  }
  const Codes codes = codes_in(bytes, n);
  parallel_for(blocks_in(n), kGrain, [=](i64 begin, i64 end) {
    for (i64 b = begin; b < end; ++b)
      for (i64 i = b * kBlock; i < std::min(n, (b + 1) * kBlock); ++i)
        x[i] = static_cast<float>(codes.values[i]) * codes.scales[b];
  });
}

}  // namespace gossamer::dist
