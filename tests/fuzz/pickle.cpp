// libFuzzer: no pickle in a file of torch.save makes its reader do worse than throw IoError. The
// input is the pickle; around it is a sound archive with storages "0" and "1".
//
// sources: torch_archive op_copy
// sources: torch_file pickle zip input_file core/tensor shape memory parallel autograd op_update
// sources: flat cuda_none op_blocks free_memory printable utf8 cores least_cpu
// libraries: -lz
#include <cstdlib>

#include "gossamer/core/error.h"
#include "gossamer/core/io/torch_file.h"
#include "support/torch_bytes.h"

using namespace gossamer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file =
      zip_bytes({{"f/data.pkl", std::string(reinterpret_cast<const char*>(data), size)},
                 {"f/data/0", std::string(48, '\1')},
                 {"f/data/1", std::string(16, '\2')}});
  try {
    const TorchFile read = read_torch_file(InputFile(std::as_bytes(std::span(file)), "input"));
    for (const NamedTensor& t : read.tensors) {  // every byte of them is there
      const auto* bytes = static_cast<const unsigned char*>(t.tensor.data());
      std::size_t sum = 0;
      for (std::size_t i = 0; i < t.tensor.bytes(); ++i) sum += bytes[i];
      if (sum > 255 * t.tensor.bytes()) std::abort();
    }
  } catch (const IoError&) {
  }
  return 0;
}
