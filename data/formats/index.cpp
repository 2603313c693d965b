// Builds an index: classes get numbers in the order in which they appear and are named and sorted
// at the end.
#include "gossamer/data/formats/index.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/data/codec/limits.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"

namespace gossamer::data {

void check_layout(const PixelLayout& p, const std::string& path) {
  constexpr auto most = static_cast<std::uint32_t>(kMaxSide);
  check<DataError>(p.width >= 1 && p.height >= 1 && p.width <= most && p.height <= most, path,
                   ": pictures of ", p.width, " x ", p.height, " raw pixels; a side has 1 to ",
                   kMaxSide);
  // A pixel has a byte of its own, so that few bytes never become a large picture.
  check<DataError>(p.bytes() >= std::uint64_t{p.width} * p.height && p.bytes() <= kMaxEncoded, path,
                   ": pictures of ", p.width, " x ", p.height, " raw pixels in ", p.bytes(),
                   " bytes; the limit is ", kMaxEncoded >> 20, " MiB");
}

IndexBuilder::IndexBuilder(std::string path, Wrapping wrapping, Naming naming) {
  index_.path = std::move(path);
  index_.wrapping = wrapping;
  index_.naming = naming;
}

IndexBuilder::IndexBuilder(std::string path, const PixelLayout& layout, Naming naming)
    : IndexBuilder(std::move(path), Wrapping::pixels, naming) {
  check_layout(layout, index_.path);
  index_.layout = layout;
}

int IndexBuilder::id(const std::string& class_name) {
  // most sets list their samples class by class
  if (last_id_ >= 0 && class_name == last_class_) return last_id_;
  const auto [at, fresh] = ids_.try_emplace(class_name, static_cast<int>(index_.classes.size()));
  if (fresh) index_.classes.push_back(class_name);
  last_class_ = class_name;
  return last_id_ = at->second;
}

void IndexBuilder::add(std::string_view name, const std::string& class_name, std::uint64_t offset,
                       std::uint64_t bytes) {
  index_.names.add(name);
  index_.label.push_back(id(class_name));
  if (index_.wrapping == Wrapping::file) return;
  if (index_.wrapping == Wrapping::pixels) bytes = index_.layout.bytes();
  index_.offset.push_back(offset);
  index_.bytes.push_back(static_cast<std::uint32_t>(
      std::min<std::uint64_t>(bytes, std::numeric_limits<std::uint32_t>::max())));
}

void settle_classes(Index& index) {
  for (std::string& name : index.classes) name = printable(name);
  std::vector<int> order(index.classes.size()), rank(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int i) -> const std::string& {
    return index.classes[static_cast<std::size_t>(i)];
  });
  std::vector<std::string> sorted;
  for (const int i : order) {
    rank[static_cast<std::size_t>(i)] = static_cast<int>(sorted.size());
    sorted.push_back(std::move(index.classes[static_cast<std::size_t>(i)]));
  }
  const auto twice = std::ranges::adjacent_find(sorted);
  check<DataError>(twice == sorted.end(), code::not_understood, index.path,
                   ": two classes are both called ", twice == sorted.end() ? "" : *twice,
                   ", once bytes that are no text are written as \\xNN; rename one.");
  index.classes = std::move(sorted);
  for (std::int32_t& label : index.label) label = rank[static_cast<std::size_t>(label)];
}

Index IndexBuilder::finish() {
  settle_classes(index_);
  index_.names.shrink_to_fit();
  index_.label.shrink_to_fit();
  index_.offset.shrink_to_fit();
  index_.bytes.shrink_to_fit();
  return std::move(index_);
}

}  // namespace gossamer::data
