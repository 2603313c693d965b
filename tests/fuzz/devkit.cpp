// Fuzz target of what says which class an image has: the development kit's meta.mat, gzip, ids and
// map, Kaggle's table, WebDataset's JSON. Any bytes give well-formed answers or a DataError.
//
// sources: devkit class_names webdataset index names files printable utf8 nesting
// sources: file_names
// libraries: -lz
#include "gossamer/data/formats/devkit.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "gossamer/core/error.h"
#include "gossamer/data/formats/class_names.h"
#include "gossamer/data/formats/webdataset.h"

using namespace gossamer::data;

template <class F>
static void refused(F&& f) {
  try {
    f();
  } catch (const gossamer::DataError&) {
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto wnids = [](const auto& list) {
    for (const Synset& s : list)
      if (!is_wnid(s.wnid) || s.id < 0) std::abort();
  };
  switch (data[0] % 6) {
    case 0:  // as it is, and behind a good header
      refused([&] { wnids(parse_meta_mat(bytes, "fuzz")); });
      refused([&] {
        std::vector<std::byte> mat(128);
        std::copy_n(reinterpret_cast<const std::byte*>("MATLAB 5.0"), 10, mat.begin());
        mat[126] = std::byte{'I'};
        mat[127] = std::byte{'M'};
        mat.insert(mat.end(), bytes.begin(), bytes.end());
        wnids(parse_meta_mat(mat, "fuzz"));
      });
      break;
    case 1:
      refused([&] { wnids(parse_map_clsloc(text, "fuzz")); });
      break;
    case 2:
      refused([&] {
        for (const int id : parse_ids(text, "fuzz"))
          if (id < 0) std::abort();
      });
      break;
    case 3:
      refused([&] {
        for (const auto& [name, wnid] : parse_solution(text, "fuzz"))
          if (!is_wnid(wnid)) std::abort();
      });
      break;
    case 4:
      refused([&] {
        if (gunzip(bytes, 1 << 20, "fuzz").size() > 1 << 20) std::abort();
      });
      break;
    default:
      (void)label_of_json(text);
  }
  return 0;
}
