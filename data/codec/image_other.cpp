// Formats that are rare in data sets (BMP, GIF), by stb_image. Its other readers are not used:
// those without a magic number would take random bytes for a picture, and its PNM reader returns
// uninitialised memory if a file ends early.
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
#define STBI_NO_PNM
#define STBI_NO_LINEAR
#define STBI_MAX_DIMENSIONS 30000
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

#include <cstring>
#include <memory>
#include <string_view>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/format_reader.h"
#include "gossamer/data/codec/limits.h"

namespace gossamer::data {
namespace {

bool starts(std::span<const std::byte> bytes, std::size_t at, std::string_view magic) {
  return bytes.size() >= at + magic.size() &&
         std::memcmp(bytes.data() + at, magic.data(), magic.size()) == 0;
}

const char* foreign_format(std::span<const std::byte> b) {
  if (starts(b, 0, "RIFF") && starts(b, 8, "WEBP")) return "a WebP picture";
  if (starts(b, 0, "II*") || starts(b, 0, "MM")) return "a TIFF picture";
  if (starts(b, 4, "ftyp")) return "a HEIF or AVIF picture";
  if (starts(b, 0, "<") || starts(b, 0, "\xEF\xBB\xBF<")) return "a text (HTML or SVG)";
  return nullptr;
}

// little-endian; 0 beyond the end
std::uint64_t word(std::span<const std::byte> bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;)
    value =
        value << 8 | (at + i < bytes.size() ? std::to_integer<std::uint64_t>(bytes[at + i]) : 0);
  return value;
}

// Finds defects that stb_image doesn't check; nullptr: none. It reads zeros beyond the end of a
// file, so that missing pixels would become black, and leaves palette entries that a BMP doesn't
// contain uninitialised.
const char* defect(std::span<const std::byte> bytes, ImageSize size) {
  if (starts(bytes, 0, "BM")) {
    const std::uint64_t offset = word(bytes, 10, 4), header = word(bytes, 14, 4),
                        bits = word(bytes, 28, 2), compression = word(bytes, 30, 4);
    const bool palette = bits == 1 || bits == 4 || bits == 8,
               plain = bits == 16 || bits == 24 || bits == 32;
    if (header < 40 || (compression != 0 && compression != 3) || !(palette || plain) ||
        (palette && offset != 14 + header + (std::uint64_t{4} << bits)))
      return "a kind of BMP that isn't read; convert it to PNG";
    const std::uint64_t row = (static_cast<std::uint64_t>(size.width) * bits + 31) / 32 * 4;
    return offset + row * static_cast<std::uint64_t>(size.height) > bytes.size() ? "it ends early"
                                                                                 : nullptr;
  }
  std::size_t end = bytes.size();
  while (end > 0 && bytes[end - 1] == std::byte{0}) --end;  // padding
  // GIF's trailer
  return end == 0 || bytes[end - 1] != std::byte{0x3B} ? "it ends early" : nullptr;
}

int length(std::span<const std::byte> bytes) {
  return static_cast<int>(std::min<std::size_t>(bytes.size(), 1u << 30));
}
const stbi_uc* start_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const stbi_uc*>(bytes.data());
}

class OtherReader final : public FormatReader {
 public:
  ImageSize open(std::span<const std::byte> bytes, const std::string& name) override {
    bytes_ = bytes;
    name_ = name;
    check<DataError>(!bytes.empty(), name, ": the file is empty");
    if (const char* format = foreign_format(bytes))
      fail<DataError>(name, ": this is ", format,
                      "; convert it to JPEG or PNG (JPEG, PNG, BMP and GIF are read)");
    int channels = 0;
    check<DataError>(stbi_info_from_memory(start_of(bytes), length(bytes), &size_.width,
                                           &size_.height, &channels) == 1,
                     name, ": not a picture of a known format (JPEG, PNG, BMP and GIF are read)");
    check_size(size_, name);
    return size_;
  }

  void start(Box box) override {
    box_ = box;
    check_memory(size_, 14, name_, "BMP or GIF");  // a GIF: RGBA twice, RGB, marks
    if (const char* what = defect(bytes_, size_))
      fail<DataError>(name_, ": damaged picture: ", what);
  }

  bool next(Rows& rows) override {
    if (pixels_) return false;
    int width = 0, height = 0, channels = 0;
    pixels_.reset(
        stbi_load_from_memory(start_of(bytes_), length(bytes_), &width, &height, &channels, 3));
    check<DataError>(
        pixels_ && width == size_.width && height == size_.height, name_,
        ": damaged picture: ", pixels_ ? "the header contradicts itself" : stbi_failure_reason());
    const std::size_t row = static_cast<std::size_t>(size_.width) * 3;
    rows = {pixels_.get() + static_cast<std::size_t>(box_.y) * row +
                static_cast<std::size_t>(box_.x) * 3,
            row, box_.height, pixels_.get() + static_cast<std::size_t>(size_.height) * row};
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
  ImageSize size_;
  Box box_;
  std::unique_ptr<stbi_uc, void (*)(void*)> pixels_{nullptr, stbi_image_free};
};

}  // namespace

std::unique_ptr<FormatReader> other_reader() { return std::make_unique<OtherReader>(); }

}  // namespace gossamer::data
