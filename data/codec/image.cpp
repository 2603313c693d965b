// What every format shares: recognising it by its first bytes, limits, cropping.
#include "gossamer/data/codec/image.h"

#include <cstring>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/codec.h"

namespace gossamer::data {
namespace {

enum class Format { jpeg, png, other };

Format format_of(std::span<const std::byte> bytes) {
  static constexpr unsigned char jpeg[] = {0xFF, 0xD8},
                                 png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  if (bytes.size() >= sizeof jpeg && std::memcmp(bytes.data(), jpeg, sizeof jpeg) == 0)
    return Format::jpeg;
  if (bytes.size() >= sizeof png && std::memcmp(bytes.data(), png, sizeof png) == 0)
    return Format::png;
  return Format::other;
}

}  // namespace

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

void copy_box(const std::uint8_t* pixels, ImageSize size, Box box, Image& out) {
  out.width = box.width;
  out.height = box.height;
  const std::size_t row = static_cast<std::size_t>(box.width) * 3;
  out.pixels.resize(row * box.height);
  for (int y = 0; y < box.height; ++y)
    std::memcpy(out.pixels.data() + y * row,
                pixels + (static_cast<std::size_t>(box.y + y) * size.width + box.x) * 3, row);
}

ImageSize decode_rows(std::span<const std::byte> bytes, const std::string& name, PickBox pick,
                      RowSink sink, Image& spare, JpegStages stages) {
  switch (format_of(bytes)) {
    case Format::jpeg:
      return decode_jpeg_rows(bytes, name, pick, sink, stages);
    case Format::png:
      return decode_png_rows(bytes, name, pick, sink);
    case Format::other:
      break;
  }
  const ImageSize size = decode_other(bytes, name, pick, spare);
  sink({spare.pixels.data(), static_cast<std::size_t>(spare.width) * 3, spare.height,
        spare.pixels.data() + spare.pixels.size()});
  return size;
}

ImageSize decode_part(std::span<const std::byte> bytes, const std::string& name, PickBox pick,
                      Image& out, JpegStages stages) {
  if (format_of(bytes) == Format::other) return decode_other(bytes, name, pick, out);
  std::uint8_t* to = nullptr;
  const auto sized = [&](ImageSize size) {
    const Box box = pick(size);
    check_box(box, size, name);
    out.width = box.width;
    out.height = box.height;
    out.pixels.resize(static_cast<std::size_t>(box.width) * box.height * 3);
    to = out.pixels.data();
    return box;
  };
  const auto keep = [&](const Rows& rows) {
    const std::size_t row = static_cast<std::size_t>(out.width) * 3;
    for (int i = 0; i < rows.count; ++i, to += row)
      std::memcpy(to, rows.first + static_cast<std::size_t>(i) * rows.stride, row);
  };
  return decode_rows(bytes, name, sized, keep, out, stages);
}

ImageSize probe(std::span<const std::byte> bytes, const std::string& name) {
  switch (format_of(bytes)) {
    case Format::jpeg:
      return probe_jpeg(bytes, name);
    case Format::png:
      return probe_png(bytes, name);
    case Format::other:
      break;
  }
  return probe_other(bytes, name);
}

Image decode(std::span<const std::byte> bytes, const std::string& name) {
  Image image;
  decode_part(
      bytes, name,
      [](ImageSize size) {
        return Box{0, 0, size.width, size.height};
      },
      image);
  return image;
}

ImageSize verify(std::span<const std::byte> bytes, const std::string& name) {
  Image spare;
  return decode_rows(
      bytes, name,
      [](ImageSize size) {
        return Box{0, 0, size.width, size.height};
      },
      [](const Rows&) {}, spare);
}

Image decode_box(std::span<const std::byte> bytes, const std::string& name, Box box) {
  Image image;
  decode_part(
      bytes, name, [&](ImageSize) { return box; }, image);
  return image;
}

}  // namespace gossamer::data
