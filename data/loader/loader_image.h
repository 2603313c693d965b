// One image of an epoch, from the data set to its place in a batch.
#pragma once

#include <memory>
#include <string>

#include "gossamer/data/loader/loader.h"
#include "gossamer/data/loader/loader_job.h"

namespace gossamer::data {

// A function of (seed, epoch, rank, position) alone. Thread-safe.
class ImageMaker {
 public:
  ImageMaker(std::shared_ptr<const Dataset>, const LoaderOptions&);
  // Sample i of the job, or, if that one is damaged, the next good one of the epoch's order (or
  // none). A resized image goes to `place`. DataError: the run can't go on.
  void make(const Job&, int i, Scratch&, Prepared& out, Place place) const;
  // So many damaged images in a row mean that the set is not there, in an epoch of n images.
  i64 too_many(i64 n) const;
  [[noreturn]] static void give_up(i64 count, const std::string& first);
  std::size_t box_bytes() const { return box_bytes_; }  // room for an image's box; 0: no boxes

 private:
  std::shared_ptr<const Dataset> set_;
  LoaderOptions options_;
  Dataset::Raw raw_;
  std::size_t box_bytes_;
};

}  // namespace gossamer::data
