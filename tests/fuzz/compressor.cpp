// libFuzzer: the bytes that stand for a compressed vector, of every kind: decoded, or refused. The
// first two say which kind, and of how many values. What a vector's own bytes stand for is no
// further from it than 0 is.
//
// sources: dist/compressor
#include "gossamer/dist/compressor.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "gossamer/core/error.h"

using namespace gossamer;
using namespace gossamer::dist;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::vector<std::string> names = CompressorOptions::names();
  CompressorOptions options;
  options.compressor = names[data[0] % names.size()];
  options.compressed_bits = static_cast<i64>(2 + data[0] / names.size() % 7);
  const Compressor by(options, 7);
  const i64 n = data[1];
  std::vector<char> code(static_cast<std::size_t>(by.bytes<float>(n)));
  for (std::size_t i = 0; i < code.size() && i + 2 < size; ++i)
    code[i] = static_cast<char>(data[i + 2]);
  std::vector<float> q(static_cast<std::size_t>(n)), again(q.size());
  try {
    by.decode<float>(code, 3, q);
  } catch (const DistError&) {
    return 0;
  }
  for (const float x : q)
    if (!(std::abs(x) < 1e15f)) return 0;
  by.encode<float>(q, 3, code);
  by.decode<float>(code, 3, again);
  double left = 0, all = 0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    left += std::pow(static_cast<double>(q[i]) - static_cast<double>(again[i]), 2);
    all += std::pow(static_cast<double>(q[i]), 2);
  }
  if (left > all * (1 + 1e-5) + 1e-30) std::abort();
  return 0;
}
