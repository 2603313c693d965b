// Recognises a format by its first bytes and passes the calls on to its reader.
#include "gossamer/data/codec/image_reader.h"

#include <cstring>
#include <string_view>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/format_reader.h"
#include "gossamer/data/codec/limits.h"

namespace gossamer::data {
namespace {

bool has(std::span<const std::byte> file, std::size_t at, std::string_view magic) {
  return file.size() >= at + magic.size() &&
         std::memcmp(file.data() + at, magic.data(), magic.size()) == 0;
}

bool is_jpeg(std::span<const std::byte> file) { return has(file, 0, "\xFF\xD8"); }

const char* foreign_format(std::span<const std::byte> file) {
  if (has(file, 0, "RIFF") && has(file, 8, "WEBP")) return "a WebP picture";
  if (has(file, 0, "II*") || has(file, 0, "MM")) return "a TIFF picture";
  if (has(file, 4, "ftyp")) return "a HEIF or AVIF picture";
  if (has(file, 0, "<") || has(file, 0, "\xEF\xBB\xBF<")) return "a text (HTML or SVG)";
  return nullptr;
}

std::unique_ptr<FormatReader> reader_of(std::span<const std::byte> file, const std::string& name) {
  if (has(file, 0, "\x89PNG\r\n\x1A\n")) return png_reader();
  if (has(file, 0, "GIF87a") || has(file, 0, "GIF89a")) return gif_reader();
  if (has(file, 0, "BM")) return bmp_reader();
  check<DataError>(!file.empty(), name, ": the file is empty");
  if (const char* format = foreign_format(file))
    fail<DataError>(name, ": this is ", format,
                    "; convert it to JPEG or PNG (JPEG, PNG, BMP and GIF are read)");
  fail<DataError>(name, ": not a picture of a known format (JPEG, PNG, BMP and GIF are read)");
}

class PixelReader final : public FormatReader {
 public:
  explicit PixelReader(ImageSize size) : size_(size) {}
  ImageSize open(std::span<const std::byte> pixels, const std::string& name) override {
    row_ = static_cast<std::size_t>(size_.width) * 3;
    check<DataError>(pixels.size() == row_ * static_cast<std::size_t>(size_.height), name, ": ",
                     pixels.size(), " bytes for ", size_.width, " x ", size_.height, " raw pixels");
    pixels_ = pixels;
    return size_;
  }
  void start(Box box) override { box_ = box; }
  bool next(Rows& rows) override {
    if (done_) return false;
    done_ = true;
    const auto* const first = reinterpret_cast<const std::uint8_t*>(pixels_.data());
    rows = {first + static_cast<std::size_t>(box_.y) * row_ + static_cast<std::size_t>(box_.x) * 3,
            row_, box_.height, first + pixels_.size()};
    return true;
  }

 private:
  ImageSize size_;
  Box box_;
  std::size_t row_ = 0;
  std::span<const std::byte> pixels_;
  bool done_ = false;
};

}  // namespace

ImageReader::ImageReader(JpegHuffman huffman) : huffman_(huffman) {}
ImageReader::~ImageReader() = default;

ImageSize ImageReader::open(std::span<const std::byte> file, const std::string& name) {
  close();
  name_ = name;
  const bool jpeg = is_jpeg(file);
  if (jpeg && !jpeg_) jpeg_ = jpeg_reader(huffman_);
  if (!jpeg) other_ = reader_of(file, name);
  FormatReader* const format = jpeg ? jpeg_.get() : other_.get();
  size_ = format->open(file, name);
  format_ = format;
  return size_;
}

ImageSize ImageReader::open_pixels(std::span<const std::byte> pixels, ImageSize size,
                                   const std::string& name) {
  close();
  name_ = name;
  other_ = std::make_unique<PixelReader>(size);
  size_ = other_->open(pixels, name);
  format_ = other_.get();
  return size_;
}

void ImageReader::start(Box box) {
  check(format_ != nullptr, "ImageReader: no picture is open");
  check_box(box, size_, name_);
  box_ = box;
  format_->start(box);
}

bool ImageReader::next(Rows& rows) {
  if (!format_) return false;
  try {
    if (format_->next(rows)) return true;
  } catch (...) {
    close();
    throw;
  }
  close();
  return false;
}

void ImageReader::read(std::uint8_t* to) {
  const std::size_t row = static_cast<std::size_t>(box_.width) * 3;
  for (Rows rows; next(rows);)
    for (int i = 0; i < rows.count; ++i, to += row)
      std::memcpy(to, rows.first + static_cast<std::size_t>(i) * rows.stride, row);
}

// A reader of another format than JPEG may hold the whole picture.
void ImageReader::close() {
  other_.reset();
  format_ = nullptr;
}

}  // namespace gossamer::data
