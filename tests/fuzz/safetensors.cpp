// libFuzzer: no bytes make the safetensors reader do worse than throw IoError in words that a
// terminal can show; what it accepts is written and read back alike, and a change of one bit of
// what is written is seen.
//
// sources: safetensors safetensors_write core/tensor shape memory parallel autograd op_update
// sources: op_copy
// sources: flat cuda_none op_blocks input_file free_memory printable utf8 xxh3 cores least_cpu
#include "gossamer/core/io/safetensors.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"

using namespace gossamer;

// Random bytes rarely hold a fitting length, so the first byte chooses: the input as it is, or as
// header and data with a true length.
static std::string framed(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || data[0] % 2 == 0) return {reinterpret_cast<const char*>(data), size};
  const std::size_t tail = size > 1 ? std::min<std::size_t>(data[1], size - 2) : 0;
  const std::uint64_t header = size - std::min<std::size_t>(2, size) - tail;
  std::string out(8, '\0');
  std::memcpy(out.data(), &header, 8);
  return out.append(reinterpret_cast<const char*>(data) + std::min<std::size_t>(2, size),
                    header + tail);
}

static void flip_a_bit(const std::filesystem::path& path, unsigned choice) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto at = static_cast<std::streamoff>(std::filesystem::file_size(path) * choice / 256);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1 << choice % 8));
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes = framed(data, size);
  SafeTensors first;
  try {
    first = parse_safetensors(std::as_bytes(std::span(bytes)), "input");
  } catch (const IoError& error) {
    if (printable(error.what()) != error.what()) std::abort();
    return 0;
  }
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("fuzz-safetensors-" + std::to_string(std::rand()));
  write_safetensors(path, first.tensors, first.metadata);
  const SafeTensors second = read_safetensors(path);
  if (second.metadata != first.metadata || second.tensors.size() != first.tensors.size())
    std::abort();
  for (const NamedTensor& t : first.tensors) {
    const Tensor* same = second.find(t.name);
    if (!same || same->shape() != t.tensor.shape() || same->dtype() != t.tensor.dtype())
      std::abort();
    if (std::memcmp(same->data(), t.tensor.data(), t.tensor.bytes()) != 0) std::abort();
  }
  check_safetensors(path);
  flip_a_bit(path, data[size - 1]);
  try {
    check_safetensors(path);
  } catch (const IoError&) {
    return 0;
  }
  std::abort();
}
