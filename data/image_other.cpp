// Formats that are rare in data sets (BMP, GIF, PNM), by stb_image. Its riskier readers are left out, and those without a magic
// number too: random bytes must not become a picture.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wsign-compare"
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_NO_JPEG
#define STBI_NO_PNG
#define STBI_NO_PSD
#define STBI_NO_TGA
#define STBI_NO_HDR
#define STBI_NO_PIC
#define STBI_NO_LINEAR
#define STBI_MAX_DIMENSIONS 30000
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

#include <cstring>
#include <memory>
#include <string_view>

#include "gossamer/core/error.h"
#include "gossamer/data/codec.h"

namespace gossamer::data {
namespace {

bool starts(std::span<const std::byte> bytes, std::size_t at, std::string_view magic) {
  return bytes.size() >= at + magic.size() && std::memcmp(bytes.data() + at, magic.data(), magic.size()) == 0;
}

const char* foreign_format(std::span<const std::byte> b) {
  if (starts(b, 0, "RIFF") && starts(b, 8, "WEBP")) return "a WebP picture";
  if (starts(b, 0, "II*") || starts(b, 0, "MM")) return "a TIFF picture";
  if (starts(b, 4, "ftyp")) return "a HEIF or AVIF picture";
  if (starts(b, 0, "<") || starts(b, 0, "\xEF\xBB\xBF<")) return "a text (HTML or SVG)";
  return nullptr;
}

int length(std::span<const std::byte> bytes) { return static_cast<int>(std::min<std::size_t>(bytes.size(), 1u << 30)); }
const stbi_uc* start(std::span<const std::byte> bytes) { return reinterpret_cast<const stbi_uc*>(bytes.data()); }

}  // namespace

ImageSize probe_other(std::span<const std::byte> bytes, const std::string& name) {
  check<DataError>(!bytes.empty(), name, ": the file is empty");
  if (const char* format = foreign_format(bytes))
    fail<DataError>(name, ": this is ", format, "; convert it to JPEG or PNG (JPEG, PNG, BMP, GIF and PNM are read)");
  ImageSize size;
  int channels = 0;
  check<DataError>(stbi_info_from_memory(start(bytes), length(bytes), &size.width, &size.height, &channels) == 1, name,
                   ": not a picture that is understood (JPEG, PNG, BMP, GIF and PNM are)");
  check_size(size, name);
  return size;
}

ImageSize decode_other(std::span<const std::byte> bytes, const std::string& name, PickBox pick, Image& out) {
  const ImageSize size = probe_other(bytes, name);
  const Box box = pick(size);
  check_box(box, size, name);
  int width = 0, height = 0, channels = 0;
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(start(bytes), length(bytes), &width, &height, &channels, 3), stbi_image_free);
  check<DataError>(pixels && width == size.width && height == size.height, name, ": damaged picture: ",
                   pixels ? "the header contradicts itself" : stbi_failure_reason());
  copy_box(pixels.get(), size, box, out);
  return size;
}

}  // namespace gossamer::data
