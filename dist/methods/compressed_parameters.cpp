// Codes of all parameters, one after the other.
#include "gossamer/dist/methods/compressed_parameters.h"

#include <cstdint>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

std::span<char> bytes_of(const Tensor& code) {
  const auto all = Tensor(code).span<std::uint8_t>();
  return {reinterpret_cast<char*>(all.data()), all.size()};
}

}  // namespace

CompressedParameters::CompressedParameters(const Compressor& compressor, const FlatParams& params)
    : compressor_(compressor) {
  for (const FlatParams::Entry& e : params.entries()) {
    const i64 n = e.shape.numel(), bytes = compressor_.bytes<float>(n);
    pieces_.push_back({static_cast<std::size_t>(e.offset), static_cast<std::size_t>(n),
                       static_cast<std::size_t>(bytes_), static_cast<std::size_t>(bytes)});
    bytes_ += bytes;
  }
}

Tensor CompressedParameters::empty_code() const { return Tensor::empty({bytes_}, DType::u8); }

void CompressedParameters::encode(const Tensor& values, std::uint64_t counter,
                                  const Tensor& code) const {
  for (const Piece& p : pieces_)
    compressor_.encode<float>(values.span<float>().subspan(p.values_begin, p.values_size), counter,
                              bytes_of(code).subspan(p.code_begin, p.code_size));
}

void CompressedParameters::decode(const Tensor& code, std::uint64_t counter,
                                  const Tensor& values) const {
  for (const Piece& p : pieces_)
    compressor_.decode<float>(bytes_of(code).subspan(p.code_begin, p.code_size), counter,
                              Tensor(values).span<float>().subspan(p.values_begin, p.values_size));
}

void check_compresses(const std::string& method, const FlatParams& params,
                      const std::string& instead) {
  check<ConfigError>(params.values().device().is_cpu(), "method ", method,
                     " compresses on CPUs only; train there, or take ", instead);
}

}  // namespace gossamer::dist
