// Fuzz target of the tar index: any bytes give entries inside the archive or a DataError. Checksums
// are made right, or nothing random would get past the first header.
//
// sources: tar names files printable utf8
// sources: file_names
#include "gossamer/data/formats/tar.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "gossamer/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer::data;
  std::vector<std::uint8_t> bytes(data, data + size);
  for (std::size_t at = 0; size >= 1 && data[0] % 4 != 0 && at + 512 <= size; at += 512) {
    unsigned sum = 8 * ' ';
    for (std::size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? 0u : bytes[at + i];
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    std::memcpy(&bytes[at + 148], text, 7);
    bytes[at + 155] = ' ';
  }
  const std::span archive(reinterpret_cast<const std::byte*>(bytes.data()), size);
  try {
    for (const TarEntry& entry : index_tar(archive, "fuzz.tar"))
      if (entry.bytes > size || entry.offset > size - entry.bytes) std::abort();
  } catch (const gossamer::DataError&) {
  }
  return 0;
}
