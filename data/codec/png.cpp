// PNG by libpng. Palette, gray, 16 bits and alpha all become 8-bit RGB; alpha is dropped, as in
// torchvision.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iterator>

#include <png.h>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/format_reader.h"
#include "gossamer/data/codec/limits.h"

namespace gossamer::data {
namespace {

// The cost (kMaxWork) of a stored byte, before it becomes RGB: inflating it, in the worst case
// where nearly every byte is a symbol of its own, and undoing its filter.
constexpr i64 kPlainWork = 11, kInterlacedWork = 13;

// Compressed bytes that become no pixels (empty blocks with tables of their own) cost ten times as
// much as others, and no header announces them. So the time of a file that is long enough for this
// is measured. Whether such a file is refused depends on the machine, but no real picture comes
// near.
constexpr std::size_t kMeasuredFrom = std::size_t{13} << 20;  // bytes
constexpr double kMaxSeconds = 1.9;                           // of this thread

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Source {
  std::span<const std::byte> bytes;
  std::size_t at = 0;
  double began = 0;
  char text[128] = "";
};

void read(png_structp png, png_bytep to, png_size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (source->bytes.size() - source->at < count) png_error(png, "it ends early");
  if (source->bytes.size() > kMeasuredFrom && thread_seconds() - source->began > kMaxSeconds)
    png_error(png, "unpacking it takes too long");
  std::memcpy(to, source->bytes.data() + source->at, count);
  source->at += count;
}

void leave(png_structp png, png_const_charp message) {
  auto* source = static_cast<Source*>(png_get_error_ptr(png));
  std::snprintf(source->text, sizeof source->text, "%s", message);
  png_longjmp(png, 1);
}

void quiet(png_structp, png_const_charp) {}

// libpng reports errors by longjmp: f must not have objects with destructors. See jpeg_library.h.
template <class F>
[[gnu::noinline]] bool guarded(png_structp png, F&& f) {
  if (setjmp(png_jmpbuf(png))) return false;
  f();
  return true;
}

class PngReader final : public FormatReader {
 public:
  ~PngReader() override { png_destroy_read_struct(&png_, &info_, nullptr); }
  ImageSize open(std::span<const std::byte>, const std::string& name) override;
  void start(Box) override;
  bool next(Rows&) override;

 private:
  template <class F>
  void run(F&& f) {
    check<DataError>(guarded(png_, f), name_, ": damaged PNG: ", source_.text);
  }
  void read_info();
  // Reads and drops rows.
  void skip_to(int row) {
    for (; row_ < row; ++row_) png_read_row(png_, pixels_.data(), nullptr);
  }

  std::string name_;
  Source source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  ImageSize size_;
  Box box_;
  bool interlaced_ = false;
  // one row; of an interlaced file, all of them
  std::vector<png_byte> pixels_;
  std::vector<png_bytep> rows_;
  int row_ = 0;  // the next one that libpng gives
};

ImageSize PngReader::open(std::span<const std::byte> bytes, const std::string& name) {
  name_ = name;
  source_.bytes = bytes;
  check<DataError>(bytes.size() >= 33, name, ": damaged PNG: it ends early");
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
      value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
    return static_cast<int>(std::min<std::uint32_t>(value, 0x7fffffff));
  };
  size_ = {word(16), word(20)};  // IHDR is always the first chunk
  check_size(size_, name);
  constexpr int kChannels[]{1, 0, 3, 1, 2, 0, 4};
  const auto depth = std::to_integer<i64>(bytes[24]);
  const auto colours = std::to_integer<std::size_t>(bytes[25]);
  const i64 row =
      (i64{size_.width} * depth * (colours < std::size(kChannels) ? kChannels[colours] : 0) + 7) /
          8 +
      1;
  interlaced_ = bytes[28] != std::byte{0};  // libpng checks it
  check_work(row * size_.height * (interlaced_ ? kInterlacedWork : kPlainWork), size_, bytes.size(),
             name, interlaced_ ? "an interlaced PNG" : "a PNG");
  return size_;
}

void PngReader::start(Box box) {
  box_ = box;
  if (interlaced_) check_memory(size_, 3, name_, "interlaced PNG");
  source_.began = thread_seconds();
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, leave, quiet);
  if (png_) info_ = png_create_info_struct(png_);
  check<DataError>(info_ != nullptr, name_, ": libpng can't be started");
  const std::size_t row = static_cast<std::size_t>(size_.width) * 3,
                    held = interlaced_ ? static_cast<std::size_t>(size_.height) : 1;
  pixels_.resize(row * held);
  if (interlaced_)
    for (std::size_t y = 0; y < held; ++y) rows_.push_back(pixels_.data() + y * row);
  run([&] { read_info(); });
}

// Reads the header and sets how libpng converts the pixels. Inside run().
void PngReader::read_info() {
  png_set_read_fn(png_, &source_, read);
  png_set_user_limits(png_, kMaxSide, kMaxSide);
  png_set_chunk_malloc_max(png_, 8 << 20);
  png_set_chunk_cache_max(png_, 64);
  // texts, profiles, …: they may unpack to gigabytes
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png_, info_);
  if (static_cast<int>(png_get_image_width(png_, info_)) != size_.width ||
      static_cast<int>(png_get_image_height(png_, info_)) != size_.height ||
      (png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE) != interlaced_)
    png_error(png_, "the header contradicts itself");
  png_set_palette_to_rgb(png_);
  png_set_gray_to_rgb(png_);
  // Pillow keeps the high byte, except of gray.
  if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY)
    png_set_scale_16(png_);
  else
    png_set_strip_16(png_);
  png_set_packing(png_);
  if (png_get_bit_depth(png_, info_) < 8) png_set_expand_gray_1_2_4_to_8(png_);
  png_set_strip_alpha(png_);
  png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  if (png_get_rowbytes(png_, info_) != static_cast<std::size_t>(size_.width) * 3)
    png_error(png_, "unknown pixel layout");
}

bool PngReader::next(Rows& rows) {
  const std::size_t row = static_cast<std::size_t>(size_.width) * 3;
  const png_bytep corner = pixels_.data() + static_cast<std::size_t>(box_.x) * 3,
                  end = pixels_.data() + pixels_.size();
  const int below = box_.y + box_.height;
  if (interlaced_) {
    if (row_ == size_.height) return false;
    run([&] {
      png_read_image(png_, rows_.data());
      png_read_end(png_, nullptr);
    });
    row_ = size_.height;
    rows = {corner + static_cast<std::size_t>(box_.y) * row, row, box_.height, end};
    return true;
  }
  if (row_ < below) {
    run([&] { skip_to(std::max(row_, box_.y) + 1); });
    rows = {corner, row, 1, end};
    return true;
  }
  // The rows below the box are read too: whether a file is damaged must not depend on the crop.
  run([&] {
    skip_to(size_.height);
    png_read_end(png_, nullptr);
  });
  return false;
}

}  // namespace

std::unique_ptr<FormatReader> png_reader() { return std::make_unique<PngReader>(); }

}  // namespace gossamer::data
