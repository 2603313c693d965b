// Reading a picture row by row. What is not needed is not decoded, and of most files only a few
// rows are in memory at a time:
//
//   ImageReader reader(file, name);
//   reader.start(box);
//   for (Rows rows; reader.next(rows);) use(rows);
// Threads: one at a time for an ImageReader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "gossamer/data/codec/image.h"

namespace gossamer::data {

// Rows of RGB pixels below each other, `stride` bytes apart; `end`: behind the last byte that may
// be read.
struct Rows {
  const std::uint8_t* first = nullptr;
  std::size_t stride = 0;
  int count = 0;
  const std::uint8_t* end = nullptr;
};

// The Huffman decoder of JPEG: ours for the files that it can read, or always libjpeg's (to compare
// them).
enum class JpegHuffman { ours, libjpeg };

class FormatReader;

// One picture at a time. open() may be called again for the next one: memory and tables are reused,
// so a thread that reads many pictures keeps one reader. The bytes must live until the picture is
// read. Every function throws DataError, beginning with the picture's name, if the file is damaged
// or exceeds a limit (limits.h).
class ImageReader {
 public:
  explicit ImageReader(JpegHuffman = JpegHuffman::ours);
  ImageReader(std::span<const std::byte> file, const std::string& name,
              JpegHuffman huffman = JpegHuffman::ours)
      : ImageReader(huffman) {
    open(file, name);
  }
  ~ImageReader();
  ImageReader(const ImageReader&) = delete;
  ImageReader& operator=(const ImageReader&) = delete;

  // Reads the header of a JPEG, PNG, BMP or GIF; the first bytes decide which it is. The size is
  // that of the whole picture.
  ImageSize open(std::span<const std::byte> file, const std::string& name);
  // Pixels that are not encoded: u8 [height, width, 3].
  ImageSize open_pixels(std::span<const std::byte> pixels, ImageSize, const std::string& name);
  ImageSize size() const { return size_; }

  // The rows of this part of the picture will be read. ShapeError unless it lies inside.
  void start(Box);
  // The next rows from above, valid until the next call. False: all of them were read, and nothing
  // in the file can be wrong any more.
  bool next(Rows&);
  // All rows at once: u8 [height, width, 3] of the part.
  void read(std::uint8_t* to);

 private:
  void close();

  JpegHuffman huffman_;
  std::string name_;
  ImageSize size_;
  Box box_;
  std::unique_ptr<FormatReader> jpeg_;   // kept from picture to picture
  std::unique_ptr<FormatReader> other_;  // of this picture alone
  FormatReader* format_ = nullptr;       // the one that reads this picture; null: it is read
};

}  // namespace gossamer::data
