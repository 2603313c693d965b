// Fuzz target of the IDX reader: any bytes, as pictures and as labels, give pictures inside the
// file or a DataError. The first byte chooses where the labels begin.
//
// sources: idx index names hash files printable utf8 xxh3
// sources: file_names
// libraries: -lfmt
#include "gossamer/data/formats/idx.h"

#include <cstdlib>

#include "gossamer/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer::data;
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const std::size_t cut = bytes.size() * data[0] / 255;
  MemoryReader pictures(bytes.first(cut)), labels(bytes.subspan(cut));
  try {
    const Index index = index_idx(pictures, "fuzz", labels, "labels");
    for (std::size_t i = 0; i < index.label.size(); ++i) {
      if (index.offset[i] + index.bytes[i] > cut) std::abort();
      if (static_cast<std::size_t>(index.label[i]) >= index.classes.size()) std::abort();
    }
  } catch (const gossamer::DataError&) {
  }
  return 0;
}
