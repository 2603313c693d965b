// Writing JPEG by libjpeg.
#include "gossamer/data/codec/jpeg_encode.h"

#include <cstdlib>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/jpeg_library.h"
#include "gossamer/data/codec/limits.h"

namespace gossamer::data {

std::vector<std::byte> encode_jpeg(const Image& image, JpegOptions options) {
  check<ShapeError>(
      image.width > 0 && image.height > 0 && image.width <= kMaxSide && image.height <= kMaxSide,
      "encode_jpeg: ", image.width, " x ", image.height, " pixels; sides go from 1 to ", kMaxSide);
  jpeg_compress_struct c{};
  JpegErrors errors{};
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;  // NOLINT(google-runtime-int): the library's type
  errors.attach();
  c.err = &errors.base;
  const bool ok = guarded(errors, [&] {
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &memory, &bytes);
    c.image_width = static_cast<JDIMENSION>(image.width);
    c.image_height = static_cast<JDIMENSION>(image.height);
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, options.quality, TRUE);
    c.dct_method = JDCT_ISLOW;
    c.comp_info[0].h_samp_factor = options.h;
    c.comp_info[0].v_samp_factor = options.v;
    c.optimize_coding = options.optimised ? TRUE : FALSE;
    c.restart_interval = static_cast<unsigned>(options.restart);
    if (options.progressive) jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
      JSAMPROW row = const_cast<JSAMPROW>(
          image.pixels.data() + static_cast<std::size_t>(c.next_scanline) * image.width * 3);
      jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
  });
  jpeg_destroy_compress(&c);
  std::vector<std::byte> result;
  if (ok)
    result.assign(reinterpret_cast<std::byte*>(memory),
                  reinterpret_cast<std::byte*>(memory) + bytes);
  std::free(memory);
  check<DataError>(ok, "encode_jpeg: ", errors.text);
  return result;
}

}  // namespace gossamer::data
