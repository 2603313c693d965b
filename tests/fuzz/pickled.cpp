// Fuzz target of the reader of pickled batches: any bytes give pictures inside the file with known
// labels, or a DataError.
//
// sources: pickled pickle cifar class_names devkit index names files hash input_file
// sources: printable utf8 xxh3
// sources: file_names
// libraries: -lz -lfmt
#include "gossamer/data/formats/pickled.h"

#include <cstdlib>

#include "gossamer/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer::data;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const Index index = index_pickled(gossamer::InputFile(bytes, "fuzz"));
    for (std::size_t i = 0; i < index.label.size(); ++i) {
      if (index.offset[i] + 3072 > size || index.bytes[i] != 3072) std::abort();
      if (static_cast<std::size_t>(index.label[i]) >= index.classes.size()) std::abort();
    }
  } catch (const gossamer::DataError&) {
  }
  return 0;
}
