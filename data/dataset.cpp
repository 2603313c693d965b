// Opens data sets and compares them.
#include "gossamer/data/dataset.h"

#include <algorithm>
#include <span>

#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/data/class_difference.h"
#include "gossamer/data/dataset/find.h"
#include "gossamer/data/dataset/indexed_set.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/hash.h"
#include "gossamer/data/mix.h"

namespace gossamer::data {
std::shared_ptr<const Dataset> open(const std::vector<std::string>& paths, Part part,
                                    LabelBase base, EmptyClass empty_class) {
  std::vector<Index> indices;
  Containers containers = find_containers(paths, part);
  for (const Container& found : containers.found) {
    const Index& index = indices.emplace_back(index_container(found));
    check<DataError>(
        index.empty.empty() || empty_class == EmptyClass::left_out, code::nothing, index.path, ": ",
        index.empty.size(), " of ", index.classes.size() + index.empty.size(),
        " class folders hold no image: ", first_of(index.empty), ". Fill or remove them.");
  }
  check<DataError>(std::ranges::any_of(indices, [](const Index& i) { return i.size() > 0; }),
                   code::nothing, indices[0].path, ": holds no images");
  return open_indices(std::move(indices), base, std::move(containers.notes));
}

LabelBase parse_label_base(const std::string& text) {
  check<ConfigError>(text == "auto" || text == "0" || text == "1", "'", text,
                     "' is no number of the first label; use auto, 0 or 1");
  return text == "auto" ? LabelBase::automatic : text == "0" ? LabelBase::zero : LabelBase::one;
}

std::uint64_t fingerprint(const Dataset& set) {
  const auto hash = [](const std::string& text, std::uint64_t seed) {
    return xxh3(std::as_bytes(std::span(text)), seed);
  };
  auto value = static_cast<std::uint64_t>(set.size());
  for (const std::string& name : set.classes()) value = hash(name, value);
  for (i64 i = 0; i < set.size(); ++i)
    value = mix(hash(set.name(i), value), static_cast<std::uint64_t>(set.label(i)));
  return value;
}

void check_same_classes(const Dataset& train, const Dataset& val) {
  const LabelBase first = train.label_base(), second = val.label_base();
  check<DataError>(
      first == second || first == LabelBase::automatic || second == LabelBase::automatic,
      code::other_classes, "a label 0 (image/class/label) occurs in ",
      first == LabelBase::zero ? "train, but not in val" : "val, but not in train",
      ", so one seems to count from 0 and the other from 1. Set label_base to 0 or to 1 "
      "for both.");
  const auto &a = train.classes(), &b = val.classes();
  check<DataError>(
      a == b, code::other_classes, a.size(), " classes in train and ", b.size(), " in val",
      class_difference(a, "train", b, "val"),
      ". Both need the same class folders: add the missing ones or remove the others.");
}

}  // namespace gossamer::data
