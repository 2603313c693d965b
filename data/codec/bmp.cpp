// BMP (Windows and OS/2 1.x): what Pillow reads, with its roundings.
#include <algorithm>
#include <array>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/format_reader.h"
#include "gossamer/data/codec/limits.h"
#include "gossamer/data/codec/palette.h"

namespace gossamer::data {
namespace {

using Pixel = Palette::value_type;

enum Compression : std::uint64_t { kRaw, kRle8, kRle4, kMasks };

// Masks of red, green, blue and alpha, which Pillow knows; and which byte each colour is.
struct Layout {
  std::array<std::uint64_t, 4> masks;
  std::array<std::size_t, 3> place;
};
constexpr std::array<Layout, 8> kLayouts{{
    {{0xFF0000, 0xFF00, 0xFF, 0}, {2, 1, 0}},
    {{0xFF000000, 0xFF0000, 0xFF00, 0}, {3, 2, 1}},
    {{0xFF000000, 0xFF00, 0xFF, 0}, {3, 1, 0}},
    {{0xFF000000, 0xFF0000, 0xFF00, 0xFF}, {3, 2, 1}},
    {{0xFF, 0xFF00, 0xFF0000, 0xFF000000}, {0, 1, 2}},
    {{0xFF0000, 0xFF00, 0xFF, 0xFF000000}, {2, 1, 0}},
    {{0xFF000000, 0xFF00, 0xFF, 0xFF0000}, {3, 1, 0}},
    {{0, 0, 0, 0}, {2, 1, 0}},
}};
constexpr std::array<std::uint64_t, 3> k565{0xF800, 0x7E0, 0x1F}, k555{0x7C00, 0x3E0, 0x1F};

class BmpReader final : public FormatReader {
 public:
  ImageSize open(std::span<const std::byte> file, const std::string& name) override {
    file_ = file;
    name_ = name;
    const std::uint64_t header = word(14, 4);
    const bool old = header == 12;
    constexpr std::array<std::uint64_t, 7> kHeaders{12, 40, 52, 56, 64, 108, 124};
    if (std::ranges::find(kHeaders, header) == kHeaders.end()) unknown();
    std::uint64_t width = word(18, old ? 2 : 4), height = word(old ? 20 : 22, old ? 2 : 4);
    from_above_ = !old && height >> 24 == 0xFF;
    if (from_above_) height = (std::uint64_t{1} << 32) - height;
    constexpr std::uint64_t kMost = 0x7FFFFFFF;
    size_ = {static_cast<int>(std::min(width, kMost)), static_cast<int>(std::min(height, kMost))};
    check_size(size_, name_);
    bits_ = word(old ? 24 : 28, 2);
    compression_ = old ? kRaw : word(30, 4);
    std::uint64_t at = 14 + header;
    if (compression_ == kMasks)
      read_masks(header, at);
    else if (compression_ > kRle4 || (compression_ != kRaw && bits_ > 8))
      unknown();
    if (bits_ <= 8)
      read_palette(old ? 0 : word(46, 4), old ? 3 : 4, at);
    else if (bits_ != 16 && bits_ != 24 && bits_ != 32)
      unknown();
    // A place inside the palette is a mistake that Pillow mends.
    const std::uint64_t place = word(10, 4);
    begin_ = place == 0 || (bits_ <= 8 && place == 14 + header) ? at : place;
    return size_;
  }

  void start(Box box) override {
    box_ = box;
    row_ = 0;
    line_.resize(static_cast<std::size_t>(box.width) * 3);
    if (compression_ == kRle8 || compression_ == kRle4) return unpack();
    const std::uint64_t bits = static_cast<std::uint64_t>(size_.width) * bits_;
    stride_ = (bits + 31) / 32 * 4;
    // the padding of the last row may be missing
    if (begin_ + stride_ * static_cast<std::uint64_t>(size_.height - 1) + (bits + 7) / 8 >
        file_.size())
      damaged("it ends early");
  }

  bool next(Rows& rows) override {
    if (row_ == box_.height) return false;
    const int y = box_.y + row_++;
    const auto line = static_cast<std::uint64_t>(from_above_ ? y : size_.height - 1 - y);
    for (int x = 0; x < box_.width; ++x) {
      const int column = box_.x + x;
      std::ranges::copy(pixel(line, static_cast<std::uint64_t>(column)), line_.begin() + 3 * x);
    }
    rows = {line_.data(), line_.size(), 1, line_.data() + line_.size()};
    return true;
  }

 private:
  [[noreturn]] void damaged(const char* what) const {
    fail<DataError>(name_, ": damaged BMP: ", what);
  }
  [[noreturn]] void unknown() const { damaged("a kind of BMP that isn't read; convert it to PNG"); }

  std::uint64_t word(std::uint64_t at, std::size_t count) const {
    if (at + count > file_.size()) damaged("it ends early");
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;)
      value = value << 8 | std::to_integer<std::uint64_t>(file_[at + i]);
    return value;
  }

  // Behind a header of 40 bytes lie three masks, in a longer one three or four.
  void read_masks(std::uint64_t header, std::uint64_t& at) {
    std::array<std::uint64_t, 4> masks{};
    for (std::size_t i = 0; i < (header >= 56 ? 4u : 3u); ++i) masks[i] = word(54 + 4 * i, 4);
    if (header == 40) at += 12;
    const std::array<std::uint64_t, 3> colours{masks[0], masks[1], masks[2]};
    const auto layout = std::ranges::find(kLayouts, masks, &Layout::masks);
    if (bits_ == 32 && layout != kLayouts.end())
      place_ = layout->place;
    else if (bits_ == 16 && (colours == k565 || colours == k555))
      green_ = colours == k565 ? 6 : 5;
    else if (bits_ != 24 || colours != std::array<std::uint64_t, 3>{0xFF0000, 0xFF00, 0xFF})
      unknown();
  }

  // Blue first. Colours that it does not hold are black.
  void read_palette(std::uint64_t colours, std::uint64_t bytes, std::uint64_t& at) {
    if (bits_ != 1 && bits_ != 4 && bits_ != 8) unknown();
    if (colours == 0) colours = std::uint64_t{1} << bits_;
    if (colours > palette_.size()) damaged("its palette is too large");
    for (std::size_t i = 0; i < colours; ++i, at += bytes)
      for (std::size_t k = 0; k < 3; ++k)
        palette_[i][k] = static_cast<std::uint8_t>(word(at + 2 - k, 1));
    if (colours > 2 && is_ramp(palette_, colours)) fill_with_grays(palette_, colours);
  }

  // `line`: counted as the file has them.
  Pixel pixel(std::uint64_t line, std::uint64_t x) const {
    if (!unpacked_.empty())
      return palette_[unpacked_[line * static_cast<std::uint64_t>(size_.width) + x]];
    const std::uint64_t row = begin_ + line * stride_;
    if (bits_ <= 8) {
      const std::uint64_t byte = std::to_integer<std::uint64_t>(file_[row + x * bits_ / 8]);
      return palette_[byte >> (8 - bits_ - x * bits_ % 8) & ((1u << bits_) - 1)];
    }
    const auto* const at =
        reinterpret_cast<const std::uint8_t*>(file_.data()) + row + x * bits_ / 8;
    if (bits_ > 16) return {at[place_[0]], at[place_[1]], at[place_[2]]};
    const unsigned value = at[0] | static_cast<unsigned>(at[1]) << 8;
    const auto scaled = [&](int shift, int width) {
      const unsigned most = (1u << width) - 1;
      return static_cast<std::uint8_t>((value >> shift & most) * 255 / most);
    };
    return {scaled(5 + green_, 5), scaled(5, green_), scaled(0, 5)};
  }

  // Runs: a count and a colour (two of 4 bits); or 0 and: 0 the line ends, 1 the picture ends, 2 a
  // step to the right and up, else so many colours as they are.
  void unpack() {
    check_memory(size_, 1, name_, "packed BMP");
    const auto width = static_cast<std::size_t>(size_.width),
               wanted = width * static_cast<std::size_t>(size_.height);
    const bool four = compression_ == kRle4;
    unpacked_.reserve(wanted);
    const auto add = [&](std::size_t count, auto&& colour) {
      for (std::size_t i = 0; i < count && unpacked_.size() < wanted; ++i)
        unpacked_.push_back(colour(i));
    };
    const auto half = [](std::uint64_t byte, std::size_t i) {
      return static_cast<std::uint8_t>(i % 2 == 0 ? byte >> 4 : byte & 15);
    };
    const auto black = [](std::size_t) { return std::uint8_t{0}; };
    std::size_t x = 0;
    for (std::uint64_t at = begin_; unpacked_.size() < wanted;) {
      const std::uint64_t count = word(at, 1), value = word(at + 1, 1);
      at += 2;
      if (count > 0) {
        const std::size_t fits = std::min<std::size_t>(count, x < width ? width - x : 0);
        add(fits, [&](std::size_t i) {
          return four ? half(value, i) : static_cast<std::uint8_t>(value);
        });
        x += fits;
      } else if (value == 0) {
        add((width - unpacked_.size() % width) % width, black);
        x = 0;
      } else if (value == 1) {
        damaged("it ends early");
      } else if (value == 2) {
        add(word(at, 1) + word(at + 1, 1) * width, black);
        x = unpacked_.size() % width;
        at += 2;
      } else {
        const std::size_t here = std::min<std::size_t>(value, wanted - unpacked_.size());
        add(here, [&](std::size_t i) {
          return four ? half(word(at + i / 2, 1), i) : static_cast<std::uint8_t>(word(at + i, 1));
        });
        at += four ? (here + 1) / 2 : here;
        at += at % 2;
        x += value;
      }
    }
  }

  std::span<const std::byte> file_;
  std::string name_;
  ImageSize size_;
  Box box_;
  bool from_above_ = false;
  std::uint64_t bits_ = 0, compression_ = kRaw;
  std::uint64_t begin_ = 0, stride_ = 0;  // of the pixels
  std::array<std::size_t, 3> place_{2, 1, 0};
  int green_ = 5;  // bits
  Palette palette_{};
  std::vector<std::uint8_t> unpacked_;  // numbers of colours, lines in the file's order
  std::vector<std::uint8_t> line_;      // one row of the box
  int row_ = 0;
};

}  // namespace

std::unique_ptr<FormatReader> bmp_reader() { return std::make_unique<BmpReader>(); }

}  // namespace gossamer::data
