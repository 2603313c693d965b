// The short forms of image.h, on ImageReader.
#include "gossamer/data/codec/image.h"

#include "gossamer/data/codec/image_reader.h"

namespace gossamer::data {
namespace {

Box whole(ImageSize size) { return {0, 0, size.width, size.height}; }

Image read(ImageReader& reader, Box box) {
  reader.start(box);
  Image image{box.height, box.width, {}};
  image.pixels.resize(static_cast<std::size_t>(box.width) * static_cast<std::size_t>(box.height) *
                      3);
  reader.read(image.pixels.data());
  return image;
}

}  // namespace

ImageSize probe(std::span<const std::byte> bytes, const std::string& name) {
  return ImageReader(bytes, name).size();
}

Image decode(std::span<const std::byte> bytes, const std::string& name) {
  ImageReader reader(bytes, name);
  return read(reader, whole(reader.size()));
}

Image decode_box(std::span<const std::byte> bytes, const std::string& name, Box box) {
  ImageReader reader(bytes, name);
  return read(reader, box);
}

ImageSize verify(std::span<const std::byte> bytes, const std::string& name) {
  ImageReader reader(bytes, name);
  reader.start(whole(reader.size()));
  for (Rows rows; reader.next(rows);) continue;
  return reader.size();
}

}  // namespace gossamer::data
