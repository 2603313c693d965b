// GIF (CompuServe, GIF89a): the first frame, as Pillow shows it.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/format_reader.h"
#include "gossamer/data/codec/limits.h"
#include "gossamer/data/codec/palette.h"

namespace gossamer::data {
namespace {

class Bytes {
 public:
  Bytes(std::span<const std::byte> all, const std::string& name) : left_(all), name_(name) {}
  bool empty() const { return left_.empty(); }
  std::span<const std::byte> take(std::size_t n) {
    check<DataError>(n <= left_.size(), name_, ": damaged GIF: it ends early");
    const auto taken = left_.first(n);
    left_ = left_.subspan(n);
    return taken;
  }
  unsigned byte() { return std::to_integer<unsigned>(take(1)[0]); }
  int word() {
    const unsigned low = byte();
    return static_cast<int>(low | byte() << 8);
  }

 private:
  std::span<const std::byte> left_;
  const std::string& name_;
};

// Gives the codes of LZW, which lie in blocks of 1 to 255 bytes.
class Codes {
 public:
  explicit Codes(Bytes& bytes) : bytes_(bytes) {}
  unsigned next(int width) {
    for (; held_ < width; held_ += 8) {
      while (block_.empty()) block_ = bytes_.take(bytes_.byte());
      bits_ |= std::to_integer<std::uint32_t>(block_[0]) << held_;
      block_ = block_.subspan(1);
    }
    const unsigned code = bits_ & ((1u << width) - 1);
    bits_ >>= width;
    held_ -= width;
    return code;
  }

 private:
  Bytes& bytes_;
  std::span<const std::byte> block_;
  std::uint32_t bits_ = 0;
  int held_ = 0;
};

constexpr unsigned kTable = 4096;  // codes have 12 bits at most

class GifReader final : public FormatReader {
 public:
  ImageSize open(std::span<const std::byte> file, const std::string& name) override {
    name_ = name;
    bytes_.emplace(file, name_);
    bytes_->take(6);  // "GIF89a"
    size_.width = bytes_->word();
    size_.height = bytes_->word();
    const unsigned flags = bytes_->byte();
    bytes_->take(2);
    fill_with_grays(palette_, 0);
    read_palette(flags);
    while (!read_block(bytes_->byte())) continue;
    check_size(size_, name_);
    return size_;
  }

  void start(Box box) override {
    box_ = box;
    row_ = box.y;
    check_memory(size_, 1, name_, "GIF");
    // What the frame does not cover shows its transparent colour, or that of number 0.
    pixels_.assign(static_cast<std::size_t>(size_.width) * static_cast<std::size_t>(size_.height),
                   static_cast<std::uint8_t>(std::max(transparent_, 0)));
    line_.resize(static_cast<std::size_t>(box.width) * 3);
    unpack();
  }

  bool next(Rows& rows) override {
    if (row_ == box_.y + box_.height) return false;
    const std::uint8_t* const from = pixels_.data() + at(box_.x, row_++);
    for (std::size_t x = 0; x < static_cast<std::size_t>(box_.width); ++x)
      std::ranges::copy(palette_[from[x]], line_.begin() + static_cast<std::ptrdiff_t>(3 * x));
    rows = {line_.data(), line_.size(), 1, line_.data() + line_.size()};
    return true;
  }

 private:
  [[noreturn]] void damaged(const char* what) const {
    fail<DataError>(name_, ": damaged GIF: ", what);
  }

  std::size_t at(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(size_.width) +
           static_cast<std::size_t>(x);
  }

  // Without a palette, the numbers of colours are grays.
  void read_palette(unsigned flags) {
    if (!(flags & 0x80)) return;
    const std::size_t held = std::size_t{2} << (flags & 7);
    palette_ = {};
    for (std::size_t i = 0; i < held; ++i)
      for (std::uint8_t& colour : palette_[i]) colour = static_cast<std::uint8_t>(bytes_->byte());
    if (is_ramp(palette_, held)) fill_with_grays(palette_, held);
  }

  // What lies in front of the first frame. True: this is the frame.
  bool read_block(unsigned kind) {
    if (kind == ';') damaged("it holds no picture");
    if (kind == '!') {
      const unsigned label = bytes_->byte();
      for (bool first = true;; first = false) {
        const auto block = bytes_->take(bytes_->byte());
        if (block.empty()) return false;
        if (label == 0xF9 && first && block.size() >= 4 &&
            (block[0] & std::byte{1}) != std::byte{0})
          transparent_ = std::to_integer<int>(block[3]);
      }
    }
    if (kind != ',') return false;
    frame_.x = bytes_->word();
    frame_.y = bytes_->word();
    frame_.width = bytes_->word();
    frame_.height = bytes_->word();
    if (frame_.width == 0 || frame_.height == 0) damaged("its frame is empty");
    size_.width = std::max(size_.width, frame_.x + frame_.width);
    size_.height = std::max(size_.height, frame_.y + frame_.height);
    const unsigned flags = bytes_->byte();
    interlaced_ = (flags & 0x40) != 0;
    read_palette(flags);
    return true;
  }

  // Lines 0, 8, 16, …, then 4, 12, …, then 2, 6, …, then 1, 3, … False: that was the last.
  bool next_line() {
    constexpr std::array<int, 4> kFirst{0, 4, 2, 1}, kStep{8, 8, 4, 2};
    x_ = 0;
    y_ += interlaced_ ? kStep[pass_] : 1;
    while (interlaced_ && y_ >= frame_.height && pass_ < 3) y_ = kFirst[++pass_];
    return y_ < frame_.height;
  }

  // False: that was the last pixel.
  bool put(std::uint8_t pixel) {
    pixels_[at(frame_.x + x_, frame_.y + y_)] = pixel;
    return ++x_ < frame_.width || next_line();
  }

  void unpack() {
    const unsigned bits = bytes_->byte();
    if (bits > 12) damaged("its codes are too long");
    const unsigned clear = 1u << bits, end = clear + 1;
    std::vector<std::uint16_t> before(kTable);  // the code that each extends by one pixel
    std::vector<std::uint8_t> pixel(kTable), text;
    Codes codes(*bytes_);
    unsigned used = end + 1, last = clear;  // clear: there was none
    int width = static_cast<int>(bits) + 1;
    for (;;) {
      unsigned code = codes.next(width);
      if (code == clear) {
        used = end + 1, last = clear, width = static_cast<int>(bits) + 1;
        continue;
      }
      if (code == end) damaged("it ends early");
      const unsigned given = code;
      if (last == clear ? code > clear : code > used) damaged("an impossible code");
      text.clear();
      if (code == used) {  // the last text and its own first pixel
        text.push_back(first_);
        code = last;
      }
      for (; code > clear; code = before[code]) {
        if (code >= kTable) damaged("an impossible code");
        text.push_back(pixel[code]);
      }
      text.push_back(first_ = static_cast<std::uint8_t>(code));
      if (last != clear && used < kTable) {
        pixel[used] = first_;
        before[used] = static_cast<std::uint16_t>(last);
        if (used == (1u << width) - 1 && width < 12) ++width;
        ++used;
      }
      last = given;
      for (auto each = text.rbegin(); each != text.rend(); ++each)
        if (!put(*each)) return;
    }
  }

  std::string name_;
  std::optional<Bytes> bytes_;
  ImageSize size_;
  Box box_, frame_;
  Palette palette_;
  int transparent_ = -1;
  bool interlaced_ = false;
  std::vector<std::uint8_t> pixels_;  // numbers of colours
  std::vector<std::uint8_t> line_;    // one row of the box, RGB
  int row_ = 0;                       // the next one of the box
  int x_ = 0, y_ = 0;                 // the next pixel in the frame
  std::size_t pass_ = 0;              // of an interlaced frame
  std::uint8_t first_ = 0;            // pixel of the last text
};

}  // namespace

std::unique_ptr<FormatReader> gif_reader() { return std::make_unique<GifReader>(); }

}  // namespace gossamer::data
