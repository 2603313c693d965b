// Fuzz target of the PNG decoder, checksums as libpng checks them: any bytes give a picture or a
// DataError, and a part of a picture is the same part of the whole. sources: image jpeg
// jpeg_huffman png image_other libraries: -ljpeg -lpng
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer;
  using namespace gossamer::data;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    if (size < 2 || data[0] != 0x89) return 0;
    const ImageSize whole = probe(bytes, "fuzz");
    if (static_cast<i64>(whole.width) * whole.height > 1'000'000) return 0;  // slow, not wrong
    Image image, part;
    decode_part(
        bytes, "fuzz",
        [](ImageSize all) {
          return Box{0, 0, all.width, all.height};
        },
        image);
    if (image.pixels.size() != static_cast<std::size_t>(whole.width) * whole.height * 3)
      std::abort();
    const Box box{whole.width / 3, whole.height / 3, (whole.width + 1) / 2, (whole.height + 1) / 2};
    decode_part(
        bytes, "fuzz", [&](ImageSize) { return box; }, part);
    Image wanted;
    copy_box(image.pixels.data(), whole, box, wanted);
    if (part.pixels != wanted.pixels) std::abort();
  } catch (const DataError&) {
  }
  return 0;
}
