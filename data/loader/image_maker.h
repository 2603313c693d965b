// One image of an epoch, from the data set to its pixels.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/data/augment/augment.h"
#include "gossamer/data/augment/preparer.h"
#include "gossamer/data/loader.h"

namespace gossamer::data {

struct DamagedImage {
  i64 index;         // in the data set
  std::string text;  // "name: what is wrong"
};

// An image on its way into a batch. One per thread: memory is reused.
struct ImageInHand {
  std::vector<std::byte> file;
  Preparer preparer;  // holds the image unless it is in `pixels`
  std::vector<std::uint8_t> pixels;
  bool in_pixels = false;
  Picture picture{};  // boxes: what becomes of the pixels
  int label = 0;
  bool absent = false;                // damaged, and not to be replaced
  std::vector<DamagedImage> damaged;  // those that were met before a good one
  std::exception_ptr error;
};

// Where in which epoch an image stands.
struct ImagePlace {
  i64 epoch, position;  // in the order
  const std::vector<i64>& order;
};

// What it makes is a function of (seed, epoch, rank, position) alone. Thread-safe.
class ImageMaker {
 public:
  ImageMaker(std::shared_ptr<const Dataset>, const LoaderOptions&);
  // The image at that place, or, if it is damaged, the next good one of the epoch's order (or none,
  // as the options say). DataError: the run can't go on.
  void make(const ImagePlace&, const Recipe&, ImageInHand&) const;
  // How many damaged images in a row mean that the set is not there, in an epoch of n images.
  i64 too_many(i64 n) const;
  [[noreturn]] static void give_up(i64 count, const std::string& first);
  std::size_t box_bytes() const { return box_bytes_; }  // room for an image's box; 0: no boxes

 private:
  std::shared_ptr<const Dataset> set_;
  LoaderOptions options_;
  ImageSize raw_;
  std::size_t box_bytes_;
};

}  // namespace gossamer::data
