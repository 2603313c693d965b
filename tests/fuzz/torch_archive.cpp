// libFuzzer: no file of torch.save of the form before torch 1.6 makes its reader do worse than
// throw IoError. The input is what follows the file's first pickle, by which the form is known.
//
// sources: torch_archive op_copy
// sources: torch_file pickle zip input_file core/tensor shape memory parallel autograd op_update
// sources: flat cuda_none op_blocks free_memory printable utf8 cores least_cpu
// libraries: -lz
#include "gossamer/core/io/torch_archive.h"

#include <cstdlib>
#include <string>

#include "gossamer/core/error.h"
#include "gossamer/core/io/torch_file.h"

using namespace gossamer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.";
  bytes.append(reinterpret_cast<const char*>(data), size);
  const InputFile file(std::as_bytes(std::span(bytes)), "input");
  if (!is_torch_file(file)) std::abort();
  try {
    for (const NamedTensor& t : read_torch_file(file).tensors) {  // every byte of them is there
      const auto* values = static_cast<const unsigned char*>(t.tensor.data());
      std::size_t sum = 0;
      for (std::size_t i = 0; i < t.tensor.bytes(); ++i) sum += values[i];
      if (sum > 255 * t.tensor.bytes()) std::abort();
    }
  } catch (const IoError&) {
  }
  return 0;
}
