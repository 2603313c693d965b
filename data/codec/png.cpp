// PNG on libpng: palette, gray, 16 bits and alpha all become 8-bit RGB (alpha is dropped, as
// torchvision does).
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iterator>

#include <png.h>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/codec.h"

namespace gossamer::data {
namespace {

// For a byte as the file stores it, before it becomes RGB: to inflate it where nearly each is a
// symbol of its own, and to undo its filter.
constexpr i64 kPlainWork = 11, kInterlacedWork = 13;

// Compressed bytes that become no pixels (empty blocks with tables of their own) cost ten times as
// much as others, and no header tells of them. So a file that is long enough for that is watched;
// what is refused then depends on the machine, but no picture comes near.
constexpr std::size_t kWatched = std::size_t{13} << 20;
constexpr double kPatience = 1.9;  // seconds of this thread

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
  if (source->bytes.size() > kWatched && thread_seconds() - source->began > kPatience)
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

// libpng leaves by longjmp: nothing with a destructor may live in f. See jpeg.cpp.
template <class F>
[[gnu::noinline]] bool guarded(png_structp png, F&& f) {
  if (setjmp(png_jmpbuf(png))) return false;
  f();
  return true;
}

struct Reader {
  Reader(std::span<const std::byte> bytes, const std::string& name) {
    source.bytes = bytes;
    source.began = thread_seconds();
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, leave, quiet);
    if (png) info = png_create_info_struct(png);
    if (!info) {
      png_destroy_read_struct(&png, &info, nullptr);
      fail<DataError>(name, ": libpng can't be started");
    }
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Source source;
  png_structp png = nullptr;
  png_infop info = nullptr;
};

}  // namespace

ImageSize probe_png(std::span<const std::byte> bytes, const std::string& name) {
  check<DataError>(bytes.size() >= 33, name, ": damaged PNG: it ends early");
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
      value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
    return static_cast<int>(std::min<std::uint32_t>(value, 0x7fffffff));
  };
  const ImageSize size{word(16), word(20)};  // IHDR is always the first chunk
  check_size(size, name);
  constexpr int kChannels[]{1, 0, 3, 1, 2, 0, 4};
  const auto depth = std::to_integer<i64>(bytes[24]);
  const auto colours = std::to_integer<std::size_t>(bytes[25]);
  const i64 row =
      (i64{size.width} * depth * (colours < std::size(kChannels) ? kChannels[colours] : 0) + 7) /
          8 +
      1;
  const bool interlaced = bytes[28] != std::byte{0};
  check_work(row * size.height * (interlaced ? kInterlacedWork : kPlainWork), size, bytes.size(),
             name, interlaced ? "an interlaced PNG" : "a PNG");
  return size;
}

ImageSize decode_png_rows(std::span<const std::byte> bytes, const std::string& name, PickBox pick,
                          RowSink sink) {
  const ImageSize size = probe_png(bytes, name);
  const Box box = pick(size);
  check_box(box, size, name);
  const bool interlaced = bytes[28] != std::byte{0};  // of IHDR; libpng checks it
  if (interlaced) check_memory(size, 3, name, "interlaced PNG");
  Reader reader(bytes, name);
  const png_structp png = reader.png;
  const std::size_t row = static_cast<std::size_t>(size.width) * 3;
  std::vector<png_byte> pixels(row * static_cast<std::size_t>(interlaced ? size.height : 1));
  std::vector<png_bytep> rows(static_cast<std::size_t>(interlaced ? size.height : 0));
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = pixels.data() + y * row;
  const png_bytep first = pixels.data(), end = first + pixels.size(),
                  corner = first + static_cast<std::size_t>(box.x) * 3;

  const bool ok = guarded(png, [&] {
    png_set_read_fn(png, &reader.source, read);
    png_set_user_limits(png, kMaxSide, kMaxSide);
    png_set_chunk_malloc_max(png, 8 << 20);
    png_set_chunk_cache_max(png, 64);
    // texts, profiles, …: they may unpack to gigabytes
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png, reader.info);
    if (static_cast<int>(png_get_image_width(png, reader.info)) != size.width ||
        static_cast<int>(png_get_image_height(png, reader.info)) != size.height ||
        (png_get_interlace_type(png, reader.info) != PNG_INTERLACE_NONE) != interlaced)
      png_error(png, "the header contradicts itself");
    png_set_palette_to_rgb(png);
    png_set_gray_to_rgb(png);
    if (png_get_color_type(png, reader.info) == PNG_COLOR_TYPE_GRAY) png_set_scale_16(png);
    // as Pillow, which keeps the high byte of all but gray
    else
      png_set_strip_16(png);
    png_set_packing(png);
    if (png_get_bit_depth(png, reader.info) < 8) png_set_expand_gray_1_2_4_to_8(png);
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, reader.info);
    if (png_get_rowbytes(png, reader.info) != row) png_error(png, "unknown pixel layout");
    if (interlaced)
      png_read_image(png, rows.data());
    else
      // those below the box as well: damage doesn't depend on the crop
      for (int y = 0; y < size.height; ++y) {
        png_read_row(png, first, nullptr);
        if (y >= box.y && y < box.y + box.height) sink({corner, row, 1, end});
      }
    png_read_end(png, nullptr);
  });
  check<DataError>(ok, name, ": damaged PNG: ", reader.source.text);
  if (interlaced) sink({corner + static_cast<std::size_t>(box.y) * row, row, box.height, end});
  return size;
}

}  // namespace gossamer::data
