// libFuzzer: no bytes make the reader of zip archives and torch's files do worse than throw
// IoError, and what it accepts it reads alike from its own entries.
//
// sources: torch_archive op_copy
// sources: torch_file pickle zip input_file core/tensor shape memory parallel autograd op_update
// sources: flat cuda_none op_blocks free_memory printable utf8 cores least_cpu
// libraries: -lz
#include "gossamer/core/io/zip.h"

#include "gossamer/core/error.h"
#include "gossamer/core/io/torch_file.h"

using namespace gossamer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const InputFile file(std::as_bytes(std::span(data, size)), "input");
  try {
    for (const ZipEntry& e : zip_entries(file)) {
      std::vector<std::byte> content(e.size);
      try {
        read_zip_entry(file, e, content);
      } catch (const IoError&) {  // a checksum
      }
    }
    read_torch_file(file);
  } catch (const IoError&) {
  }
  return 0;
}
