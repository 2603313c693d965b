// bf16 and int8 with a scale for each block of values.
#include "gossamer/dist/coding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"

namespace gossamer::dist {
namespace {

constexpr i64 kBlock = 256;  // values of one scale
constexpr i64 kGrain = 64;   // blocks a thread takes at least

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

void encode_block(float* x, float* error, i64 n, float& scale, std::int8_t* codes) {
  float most = 0;
  bool finite = true;
  for (i64 i = 0; i < n; ++i) {
    x[i] += error[i];
    most = std::max(most, std::abs(x[i]));
    finite = finite && std::isfinite(x[i]);
  }
  // The smallest that divides: a block of tiny values travels as zeros, which the error keeps.
  scale = most / 127;
  const float factor = scale >= std::numeric_limits<float>::min() ? 1 / scale : 0;
  if (!finite) scale = std::numeric_limits<float>::quiet_NaN();
  for (i64 i = 0; i < n; ++i) {
    const float code = finite ? std::nearbyint(x[i] * factor) : 0;
    codes[i] = static_cast<std::int8_t>(code);
    const float sent = code * scale;
    error[i] = finite ? x[i] - sent : 0;
    x[i] = sent;
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

Coded::Coded(Coding coding, i64 values, bool feedback)
    : coding_(coding),
      bytes_(Tensor::empty({coded_bytes(coding, values)}, DType::u8)),
      error_(feedback || coding == Coding::int8 ? Tensor::zeros({values}) : Tensor()) {}

void Coded::encode(Tensor values) {
  const i64 n = values.numel();
  float* x = values.as<float>();
  float* error = error_.defined() ? error_.as<float>() : nullptr;
  if (coding_ == Coding::bf16) {
    auto* codes = static_cast<bf16*>(bytes_.data());
    parallel_for(n, kGrain * kBlock, [=](i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        const float value = x[i] + (error ? error[i] : 0);
        codes[i] = bf16(value);
        x[i] = static_cast<float>(codes[i]);
        if (error) error[i] = std::isfinite(x[i]) ? value - x[i] : 0;
      }
    });
    return;
  }
  const Codes codes = codes_in(bytes_, n);
  parallel_for(blocks_in(n), kGrain, [=](i64 begin, i64 end) {
    for (i64 b = begin; b < end; ++b) {
      const i64 at = b * kBlock;
      encode_block(x + at, error + at, std::min(kBlock, n - at), codes.scales[b],
                   codes.values + at);
    }
  });
}

void Coded::decode(Coding coding, const Tensor& bytes, Tensor values) {
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
