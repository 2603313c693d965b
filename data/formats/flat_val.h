// ImageNet's validation images as they are published: one flat folder or tar, and beside it a file
// with the class of each image.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "gossamer/data/formats/index.h"
#include "gossamer/data/formats/tar.h"

namespace gossamer::data {

class GroundTruth {
 public:
  // Looks beside `path` (a folder or tar of images), inside it and up to four folders above, in
  // this order: Kaggle's LOC_val_solution.csv; the development kit, unpacked
  // (ILSVRC2012_validation_ground_truth.txt with meta.mat or map_clsloc.txt) or as
  // ILSVRC2012_devkit_t12.tar.gz; imagenet_2012_validation_synset_labels.txt; Caffe's val.txt.
  // nullopt: there is none. DataError: there is one, but it is damaged or incomplete.
  static std::optional<GroundTruth> find(const std::string& path);

  const std::string& source() const { return source_; }  // the file
  Naming naming() const { return naming_; }
  // all classes, sorted if they are Naming::words
  const std::vector<std::string>& classes() const { return classes_; }
  std::uint64_t hash() const;  // of its whole content; never 0
  // DataError if it does not contain this image
  const std::string& class_of(const std::string& file_name) const;

 private:
  int id(const std::string& class_name);
  void add(const std::string& stem, const std::string& class_name);
  bool from_solution(const std::filesystem::path& folder);
  bool from_devkit(const std::filesystem::path& folder);
  bool from_devkit_archive(const std::filesystem::path& folder);
  bool from_synset_labels(const std::filesystem::path& folder);
  bool from_caffe(const std::filesystem::path& folder);
  void by_number(const std::vector<int>& ids, const std::vector<struct Synset>& synsets);

  std::string source_;
  Naming naming_ = Naming::words;
  std::vector<std::string> classes_;
  std::unordered_map<std::string, int> ids_;
  std::unordered_map<std::string, int> by_stem_;  // name without folder and ending -> class
  std::vector<int> by_number_;                    // class of ILSVRC2012_val_0000000N at N - 1
};

// The samples of a flat folder; images: their names, sorted. DataError if there is no ground truth,
// or it does not contain each of them.
Index index_flat_folder(const std::string& folder, const std::vector<std::string>& images);
// The same for the members of a flat tar.
Index index_flat_tar(const Members&, const std::string& path);

}  // namespace gossamer::data
