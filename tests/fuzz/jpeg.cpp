// Fuzz target of the image decoders: any bytes give a picture or a DataError; our Huffman decoder
// and libjpeg's agree, but for codes that don't exist, some of which libjpeg takes for zeros, and
// for FF FF 00, which makes it decode an MCU twice into the same block.
//
// sources: image image_reader limits jpeg jpeg_huffman png gif bmp
// libraries: -ljpeg -lpng
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "gossamer/core/dtype.h"
#include "gossamer/core/error.h"
#include "gossamer/data/codec/image_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer;
  using namespace gossamer::data;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const bool jpeg = size >= 2 && data[0] == 0xFF && data[1] == 0xD8;
  constexpr std::uint8_t doubled[] = {0xFF, 0xFF, 0};
  bool accepted = false, strict = false;
  Image image;
  ImageSize whole;
  try {
    whole = probe(bytes, "fuzz");
    if (static_cast<i64>(whole.width) * whole.height > 1'000'000) return 0;  // slow, not wrong
    image = decode(bytes, "fuzz");
    accepted = true;
    if (image.width != whole.width || image.height != whole.height ||
        image.pixels.size() != static_cast<std::size_t>(whole.width) * whole.height * 3)
      std::abort();
    // A box of a good picture is the same part of it.
    const Box box{whole.width / 3, whole.height / 3, (whole.width + 1) / 2, (whole.height + 1) / 2};
    const Image part = decode_box(bytes, "fuzz", box);
    for (int y = 0; y < box.height; ++y)
      for (int x = 0; x < 3 * box.width; ++x)
        if (part.pixels[static_cast<std::size_t>(y) * 3 * box.width + x] !=
            image.pixels[static_cast<std::size_t>(box.y + y) * 3 * whole.width + 3 * box.x + x])
          std::abort();
  } catch (const DataError& error) {
    strict = std::string(error.what()).ends_with("bad Huffman code");
    // a part of a picture that is whole
    if (accepted) std::abort();
  }
  if (!jpeg ||
      std::search(data, data + size, std::begin(doubled), std::end(doubled)) != data + size)
    return 0;
  if (whole.width == 0 || static_cast<i64>(whole.width) * whole.height > 1'000'000) return 0;
  try {
    ImageReader reader(bytes, "fuzz", JpegHuffman::libjpeg);
    reader.start({0, 0, whole.width, whole.height});
    std::vector<std::uint8_t> theirs(static_cast<std::size_t>(whole.width) * whole.height * 3);
    reader.read(theirs.data());
    if (!strict && (!accepted || theirs != image.pixels)) std::abort();
  } catch (const DataError&) {
    if (accepted) std::abort();
  }
  return 0;
}
