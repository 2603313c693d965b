// From the bytes of one sample to size x size pixels: what a loader thread does for each image.
// Threads: any for functions; one at a time for a Preparer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/input_pass.h"
#include "gossamer/core/random.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/data/codec/image_reader.h"
#include "gossamer/data/codec/resize.h"

namespace gossamer::data {

// Whether a picture is mirrored left to right, where a recipe flips.
enum class Mirror { drawn, no, yes };

// A sample as a data set gives it. raw.width > 0: the bytes are pixels of that size, u8 [height,
// width, 3]; else an encoded image.
struct Sample {
  std::span<const std::byte> bytes;
  std::string name;  // for messages
  ImageSize raw{};
  Mirror mirror = Mirror::drawn;
};

// Makes one image at a time: read() or read_box() draws the crop, then reads what the crop needs.
// One per thread: memory is reused. Both throw DataError if the image is damaged.
class Preparer {
 public:
  void read(const Sample&, const Recipe&, Rng&);
  // After read(): the image, u8 [size, size, 3]. Nothing is read or drawn any more, and little is
  // left to compute.
  void finish(std::uint8_t* dst);

  // For a device that resizes (input_pass). `out` receives the pixels that the crop needs, at full
  // size; if those are more than `most` bytes, it receives the finished crop. The Picture says what
  // is left to do; its offset counts from the first byte of `out`. Not for pad_crop_flip, nor for
  // recipes with steps, which need the resized pixels. The same generator gives the same crop as in
  // read().
  Picture read_box(const Sample&, const Recipe&, Rng&, std::size_t most,
                   std::vector<std::uint8_t>& out);

 private:
  void open(const Sample&);
  void resize(const Crop&);  // all of it but Resizer::finish()

  ImageReader reader_;
  Resizer resizer_;
  bool made_whole_ = false;  // the image is in made_
  std::vector<std::uint8_t> made_, scratch_;
};

// Which part of a picture of this size the recipe takes, and what becomes of it. pad_crop_flip: the
// picture before it is shifted.
Crop crop_of(const Recipe&, ImageSize whole, Mirror, Rng&);

// Inception-style crop: area in [min_area, 1] of the image, aspect in [3/4, 4/3]; ten tries, then
// the centre (torchvision).
Box random_resized_crop(ImageSize, Rng&, float min_area = Recipe().min_area);

// Shorter side to `resize`, then the centre: the size of the resized picture, and where the crop
// lies in it (torchvision's rounding).
struct CentreCrop {
  int width, height, x, y;
};
CentreCrop centre_crop(ImageSize, int resize, int crop);

// read_image() (augment.h) for a device that resizes: input_pass() makes [1, crop, crop, 3] of it.
// `most` as in Preparer::read_box(). DataError names the file.
struct ImageBox {
  Tensor bytes, picture;  // u8
};
ImageBox read_box(const std::string& path, int resize, int crop, std::size_t most);

}  // namespace gossamer::data
