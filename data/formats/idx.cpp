// MNIST and the sets that took its form (http://yann.lecun.com/exdb/mnist). A file is two zeros, a
// type (8: bytes), the number of dimensions, each of them as 4 bytes, the highest first, and the
// values. Pictures are N x height x width of gray; the labels lie in a file of their own.
#include "gossamer/data/formats/idx.h"

#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/formats/format.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kPictures{"images-idx3-ubyte", "images.idx3-ubyte"},
    kLabels{"labels-idx1-ubyte", "labels.idx1-ubyte"};

std::uint32_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i)
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

bool begins_like(std::span<const std::byte> start, int dimensions) {
  return start.size() >= 4 && number_at(start, 0) == 0x800u + static_cast<unsigned>(dimensions);
}

// The dimensions of the file, which is as long as they say.
std::array<std::uint64_t, 3> sizes_of(ByteReader& file, const std::string& path, int dimensions,
                                      const char* what) {
  const std::size_t header = 4 + 4 * static_cast<std::size_t>(dimensions);
  check<DataError>(file.size() >= header, path, ": ", file.size(),
                   " bytes are no IDX file: its header alone has ", header);
  const auto start = file.at(0, header);
  check<DataError>(begins_like(start, dimensions), path, ": no IDX file of ", what,
                   ": it begins with ", number_at(start, 0), ", not ", 0x800 + dimensions);
  std::array<std::uint64_t, 3> sizes{1, 1, 1};
  for (int i = 0; i < dimensions; ++i)
    sizes[static_cast<std::size_t>(i)] = number_at(start, 4 + 4 * static_cast<std::size_t>(i));
  const auto [count, height, width] = sizes;
  // of 32 bits each: only the product of all three may overflow
  const std::uint64_t each = height * width, there = file.size() - header;
  check<DataError>(each > 0 && there % each == 0 && there / each == count, path, ": holds ", there,
                   " bytes behind its header, which says ", count, " ", what,
                   dimensions == 1 ? std::string() : fmt::format(" of {} x {}", width, height),
                   ". Is the file complete?");
  return sizes;
}

Index index_idx_file(const std::string& path) {
  const std::string beside = idx_labels_of(path);
  check<DataError>(!beside.empty(), code::no_truth, path,
                   ": IDX pictures without labels: by its name their file is not to be found. Call "
                   "them NAME-images-idx3-ubyte and NAME-labels-idx1-ubyte.");
  std::error_code ignored;
  check<DataError>(fs::exists(beside, ignored), code::no_truth, path,
                   ": the labels of these pictures are missing: ", beside);
  const File pictures(path), labels(beside);
  FileReader pictures_reader(pictures), labels_reader(labels);
  return index_idx(pictures_reader, path, labels_reader, beside);
}

}  // namespace

std::string idx_labels_of(const std::string& path) {
  for (std::size_t i = 0; i < kPictures.size(); ++i)
    if (path.ends_with(kPictures[i]))
      return path.substr(0, path.size() - kPictures[i].size()) + std::string(kLabels[i]);
  return {};
}

Index index_idx(ByteReader& pictures, const std::string& path, ByteReader& labels,
                const std::string& labels_path) {
  const auto [count, height, width] = sizes_of(pictures, path, 3, "pictures");
  const std::uint64_t count_of_labels = sizes_of(labels, labels_path, 1, "labels")[0];
  check<DataError>(count == count_of_labels, labels_path, ": holds ", count_of_labels,
                   " labels, and ", path, " ", count, " pictures. Are they of one set?");
  const auto wide = static_cast<std::uint32_t>(width), high = static_cast<std::uint32_t>(height);
  const PixelLayout layout{wide, high, 1, wide, 0};
  IndexBuilder builder(path, layout, Naming::numbers);
  const std::string stem = fs::path(path).filename().string();
  for (std::uint64_t i = 0; i < count; ++i)
    builder.add(stem + "#" + std::to_string(i),
                std::to_string(std::to_integer<int>(labels.at(8 + i, 1)[0])),
                16 + i * layout.bytes());
  return builder.finish();
}

FileFormat idx_format() {
  return {.name = "IDX",
          .wanted = "IDX pictures (train-images-idx3-ubyte, with their labels beside them)",
          .has_name = [](const std::string& name) { return !idx_labels_of(name).empty(); },
          .starts_with = [](std::span<const std::byte> start) { return begins_like(start, 3); },
          .index = index_idx_file,
          .is_for_evaluation = [](const std::string& name) { return name.starts_with("t10k-"); }};
}

}  // namespace gossamer::data
