// Files that say which class each of ImageNet's validation images has: those of the development
// kit, and Kaggle's table.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gossamer/data/formats/index.h"

namespace gossamer::data {

struct Synset {
  int id = 0;
  std::string wnid;
};

// The classes (synsets without children) of the kit's meta.mat: MATLAB 5, plain or compressed, the
// struct array `synsets` with the fields ILSVRC2012_ID, WNID, num_children. Ids are the kit's own
// order, not that of the wnids. DataError names the file and the defect.
std::vector<Synset> parse_meta_mat(std::span<const std::byte>, const std::string& file);
// later kits: lines "n02119789 1 kit_fox"
std::vector<Synset> parse_map_clsloc(std::string_view text, const std::string& file);
// the ground truth of the kit: line i is the id of image i
std::vector<int> parse_ids(std::string_view text, const std::string& file);
// LOC_val_solution.csv, "ILSVRC2012_val_00048981,n03995372 85 1 499 272": name without ending,
// wnid.
std::vector<std::pair<std::string, std::string>> parse_solution(std::string_view text,
                                                                const std::string& file);
std::vector<std::byte> gunzip(std::span<const std::byte>, std::size_t limit,
                              const std::string& file);
// nullopt: damaged, or larger than the limit
std::optional<std::vector<std::byte>> inflate_zlib(std::span<const std::byte>, std::size_t limit,
                                                   bool gzip);

}  // namespace gossamer::data
