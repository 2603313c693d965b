// See split.h.
#include "gossamer/data/split.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/data/dataset/find.h"
#include "gossamer/data/mix.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

// The files behind these paths. Empty: there are none, for a reason that open() gives.
std::set<fs::path> files_of(const std::vector<std::string>& paths, Part part) {
  std::set<fs::path> files;
  try {
    for (const Container& c : find_containers(paths, part).found)
      files.insert(fs::weakly_canonical(c.path));
  } catch (const DataError&) {
    return {};
  }
  return files;
}

// True: they hold the training data `train` and other data to validate with.
bool both(const std::set<fs::path>& train, const std::set<fs::path>& val) {
  return !train.empty() && !val.empty() &&
         std::ranges::none_of(val, [&](const fs::path& file) { return train.contains(file); });
}

}  // namespace

std::vector<Part> parts_in(const std::vector<std::string>& paths) {
  if (both(files_of(paths, Part::train), files_of(paths, Part::val)))
    return {Part::train, Part::val};
  return {Part::any};
}

std::vector<std::string> sources_of(const std::vector<std::string>& paths, Part part) {
  std::vector<std::string> sources;
  for (const Container& c : find_containers(paths, part).found) sources.push_back(c.path);
  return sources;
}

std::vector<std::string> validation_beside(const std::vector<std::string>& train) {
  find_containers(train, Part::train);  // DataError: there is none
  const std::set<fs::path> files = files_of(train, Part::train);
  if (both(files, files_of(train, Part::val))) return train;
  if (train.size() != 1) return {};
  fs::path path = fs::absolute(train[0]).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string around = path.parent_path().string();
  if (files_of({around}, Part::train) == files && both(files, files_of({around}, Part::val)))
    return {around};
  return {};
}

Split stratified_split(const Dataset& set, double share, std::uint64_t seed) {
  check<ConfigError>(share > 0 && share < 1, "a split of ", share, " must be above 0 and below 1");
  std::vector<std::vector<i64>> of_class(set.classes().size());
  for (i64 i = 0; i < set.size(); ++i)
    of_class.at(static_cast<std::size_t>(set.label(i))).push_back(i);
  Split split;
  for (std::size_t c = 0; c < of_class.size(); ++c) {
    std::vector<i64>& samples = of_class[c];
    const auto n = static_cast<i64>(samples.size());
    const i64 take =
        n < 2 ? 0 : std::clamp<i64>(std::llround(share * static_cast<double>(n)), 1, n - 1);
    Rng rng(mix(seed, 0x73706c6974 /* "split" */), c);
    for (i64 i = 0; i < take; ++i)
      std::swap(
          samples[static_cast<std::size_t>(i)],
          samples[static_cast<std::size_t>(i + rng.below(static_cast<std::uint32_t>(n - i)))]);
    split.val.insert(split.val.end(), samples.begin(), samples.begin() + take);
    split.train.insert(split.train.end(), samples.begin() + take, samples.end());
  }
  std::ranges::sort(split.train);
  std::ranges::sort(split.val);
  return split;
}

}  // namespace gossamer::data
