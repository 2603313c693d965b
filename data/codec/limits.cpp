// Checks of the limits in limits.h, and their error texts.
#include "gossamer/data/codec/limits.h"

#include "gossamer/core/error.h"

namespace gossamer::data {

void check_size(ImageSize size, const std::string& name) {
  check<DataError>(
      size.width > 0 && size.height > 0 && size.width <= kMaxSide && size.height <= kMaxSide &&
          static_cast<i64>(size.width) * size.height <= kMaxPixels,
      name, ": the picture claims ", size.width, " x ", size.height, " pixels; the limits are ",
      kMaxSide, " a side and ", kMaxPixels / 1'000'000, " million in all");
}

void check_memory(ImageSize size, int bytes_per_pixel, const std::string& name, const char* what) {
  check<DataError>(i64{size.width} * size.height * bytes_per_pixel <= kMaxMemory, name, ": a ",
                   what, " of ", size.width, " x ", size.height, " pixels needs more than ",
                   kMaxMemory >> 20,
                   " MB to decode; save it as baseline JPEG or as PNG without interlacing");
}

void check_work(i64 work, ImageSize size, std::size_t file, const std::string& name,
                const char* what) {
  check<DataError>(work <= kMaxWork, name, ": ", what, " of ", size.width, " x ", size.height,
                   " pixels in ", file,
                   " bytes takes too long to decode; save it smaller, or as baseline JPEG");
}

void check_box(Box box, ImageSize size, const std::string& name) {
  check<ShapeError>(box.x >= 0 && box.y >= 0 && box.width > 0 && box.height > 0 &&
                        box.width <= size.width - box.x && box.height <= size.height - box.y,
                    name, ": box ", box.width, " x ", box.height, " at (", box.x, ", ", box.y,
                    ") lies outside the picture of ", size.width, " x ", size.height);
}

}  // namespace gossamer::data
