// Shared by the data tests: pictures from formulas, temporary folders, a JPEG and a PNG writer, a
// small tar writer.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <jpeglib.h>
#include <png.h>
#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/image_reader.h"
#include "gossamer/data/codec/jpeg_encode.h"
#include "gossamer/data/codec/limits.h"
#include "gossamer/data/dataset.h"

namespace gossamer::data {

using Bytes = std::vector<std::byte>;

inline Bytes to_bytes(const std::string& text) {
  const auto* at = reinterpret_cast<const std::byte*>(text.data());
  return {at, at + text.size()};
}

// The same integer formula as in the scripts that made the golden values with Pillow.
inline Image pattern(int width, int height) {
  Image image{height, width, {}};
  for (std::uint32_t y = 0; y < static_cast<std::uint32_t>(height); ++y)
    for (std::uint32_t x = 0; x < static_cast<std::uint32_t>(width); ++x)
      for (std::uint32_t c = 0; c < 3; ++c)
        image.pixels.push_back(
            static_cast<std::uint8_t>(x * 7 + y * 13 + c * 31 + (x * y) / 5 +
                                      ((x * 2654435761u + y * 40503u + c * 97u) >> 7) % 41));
  return image;
}

inline Image flat(int width, int height, std::uint8_t r, std::uint8_t g, std::uint8_t b) {
  Image image{height, width, {}};
  for (int i = 0; i < width * height; ++i) image.pixels.insert(image.pixels.end(), {r, g, b});
  return image;
}

inline Image crop(const Image& image, Box box) {
  Image out{box.height, box.width, {}};
  for (int y = box.y; y < box.y + box.height; ++y) {
    const auto row =
        image.pixels.begin() + (static_cast<std::ptrdiff_t>(y) * image.width + box.x) * 3;
    out.pixels.insert(out.pixels.end(), row, row + box.width * 3);
  }
  return out;
}

inline std::uint64_t fnv(std::span<const std::uint8_t> bytes) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (const std::uint8_t b : bytes) h = (h ^ b) * 0x100000001b3ull;
  return h;
}

// JPEG of raw components in any colour space; separate: each component in a scan of its own. Or
// with these scans, and this sampling.
inline Bytes raw_jpeg(int width, int height, J_COLOR_SPACE space, int components,
                      std::vector<std::uint8_t> samples, bool separate = false,
                      std::vector<jpeg_scan_info> scans = {}, int h = 0, int v = 0) {
  jpeg_compress_struct c{};
  jpeg_error_mgr errors{};
  c.err = jpeg_std_error(&errors);
  jpeg_create_compress(&c);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&c, &memory, &bytes);
  c.image_width = static_cast<JDIMENSION>(width);
  c.image_height = static_cast<JDIMENSION>(height);
  c.input_components = components;
  c.in_color_space = space;
  jpeg_set_defaults(&c);
  if (space == JCS_CMYK) jpeg_set_colorspace(&c, JCS_YCCK);
  jpeg_set_quality(&c, 100, TRUE);
  if (h > 0) c.comp_info[0].h_samp_factor = h, c.comp_info[0].v_samp_factor = v;
  if (separate)
    for (int i = 0; i < components; ++i) scans.push_back({1, {i, 0, 0, 0}, 0, 63, 0, 0});
  if (!scans.empty()) {
    c.scan_info = scans.data();
    c.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&c, TRUE);
  while (c.next_scanline < c.image_height) {
    JSAMPROW row = samples.data() + static_cast<std::size_t>(c.next_scanline) * width * components;
    jpeg_write_scanlines(&c, &row, 1);
  }
  jpeg_finish_compress(&c);
  jpeg_destroy_compress(&c);
  Bytes out(reinterpret_cast<std::byte*>(memory), reinterpret_cast<std::byte*>(memory) + bytes);
  std::free(memory);
  return out;
}

inline Bytes make_png(const Image& image, png_uint_32 format = PNG_FORMAT_RGB,
                      const void* pixels = nullptr) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = format;
  const void* from = pixels ? pixels : image.pixels.data();
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&png, nullptr, &size, 0, from, 0, nullptr);
  Bytes out(size);
  if (!png_image_write_to_memory(&png, out.data(), &size, 0, from, 0, nullptr))
    throw std::runtime_error(png.message);
  out.resize(size);
  return out;
}

// A folder that is gone when the test is.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "gossamer-test-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string str() const { return path_.string(); }
  std::string write(const std::string& name, const Bytes& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream file(path_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

// One tar member: header, content, padding.
inline std::string tar_member(const std::string& name, const std::string& content, char type = '0',
                              const std::string& prefix = "", const std::string& size_field = "") {
  std::string h(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    std::copy(text.begin(), text.end(), h.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  char text[32];
  std::snprintf(text, sizeof text, "%011zo", content.size());
  put(124, size_field.empty() ? std::string(text) : size_field);
  h[156] = type;
  put(257, std::string("ustar\0"
                       "00",
                       8));
  put(345, prefix);
  put(148, "        ");
  unsigned sum = 0;
  for (const unsigned char c : h) sum += c;
  std::snprintf(text, sizeof text, "%06o", sum);
  put(148, std::string(text) + '\0');
  return h + content + std::string((512 - content.size() % 512) % 512, '\0');
}
inline std::string tar_end() { return std::string(1024, '\0'); }

// The text of the error that f throws; anything else fails the test by its text.
template <class E = DataError, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "no error";
}

}  // namespace gossamer::data
