// Fuzz target of the decoders of PNG (checksums as libpng checks them), GIF and BMP: any bytes give
// a picture or a DataError, and a part of a picture is the same part of the whole.
//
// sources: image image_reader limits jpeg jpeg_huffman png gif bmp
// libraries: -ljpeg -lpng
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "gossamer/core/dtype.h"
#include "gossamer/core/error.h"
#include "gossamer/data/codec/image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer;
  using namespace gossamer::data;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    if (size < 2 || data[0] == 0xFF) return 0;  // JPEG has a target of its own
    const ImageSize whole = probe(bytes, "fuzz");
    if (static_cast<i64>(whole.width) * whole.height > 1'000'000) return 0;  // slow, not wrong
    const Image image = decode(bytes, "fuzz");
    if (image.pixels.size() != static_cast<std::size_t>(whole.width) * whole.height * 3)
      std::abort();
    const Box box{whole.width / 3, whole.height / 3, (whole.width + 1) / 2, (whole.height + 1) / 2};
    const Image part = decode_box(bytes, "fuzz", box);
    for (int y = 0; y < box.height; ++y)
      for (int x = 0; x < 3 * box.width; ++x)
        if (part.pixels[static_cast<std::size_t>(y) * 3 * box.width + x] !=
            image.pixels[static_cast<std::size_t>(box.y + y) * 3 * whole.width + 3 * box.x + x])
          std::abort();
  } catch (const DataError&) {
  }
  return 0;
}
