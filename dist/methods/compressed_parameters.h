// A compressor applied to each parameter of a model by itself: what travels of one is no share of
// another's. On CPUs.
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/dist/compressor.h"

namespace gossamer::dist {

class CompressedParameters {
 public:
  CompressedParameters(const Compressor&, const FlatParams&);
  Tensor empty_code() const;  // u8 [bytes of all]
  // code, as empty_code() <- Q(values), f32 [size of the model]; they must be finite
  void encode(const Tensor& values, std::uint64_t counter, const Tensor& code) const;
  // values <- what the code stands for. DistError: it is none.
  void decode(const Tensor& code, std::uint64_t counter, const Tensor& values) const;

 private:
  struct Piece {
    std::size_t values_begin, values_size, code_begin, code_size;
  };
  const Compressor compressor_;
  std::vector<Piece> pieces_;
  i64 bytes_ = 0;
};

// ConfigError unless the parameters are on a CPU. instead: a method that also goes elsewhere.
void check_compresses(const std::string& method, const FlatParams&, const std::string& instead);

}  // namespace gossamer::dist
