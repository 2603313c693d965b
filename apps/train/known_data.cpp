// See known_data.h.
#include "gossamer/apps/train/known_data.h"

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/data/class_difference.h"
#include "gossamer/data/errors.h"

namespace gossamer::apps {
namespace {

constexpr const char* kHeldBack = "held_back";

}  // namespace

std::map<std::string, std::string> held_back_entry(const Config& c, const data::Dataset* val) {
  const std::uint64_t images = val && c.data.val_split > 0 ? data::fingerprint(*val) : 0;
  return {{kHeldBack, fmt::format("{:016x}", images)}};
}

std::map<std::string, std::string> held_back_entry(
    const std::map<std::string, std::string>& header) {
  const auto found = header.find(kHeldBack);
  if (found == header.end()) return {};
  return {*found};
}

void check_held_back(const std::string& model, const std::map<std::string, std::string>& header,
                     const Config& c, const data::Dataset* val) {
  if (c.data.val_split == 0 || !header.contains(kHeldBack)) return;
  const std::string &then = header.at(kHeldBack), none = held_back_entry(c, nullptr).at(kHeldBack);
  check<ConfigError>(
      then == held_back_entry(c, val).at(kHeldBack), "data.val_split = ", c.data.val_split,
      " with train.seed = ", c.train.seed, ": ", model,
      " would be validated with images that it was trained on, since ",
      then == none ? "none were held back" : "other images were held back",
      " in its training. Leave data.train, data.val_split and train.seed as they were in its run's "
      "config.toml, or validate with others (data.val_split=0 data.val=DIR)");
}

void check_classes_of_model(const std::string& model, const std::vector<std::string>& known,
                            const std::vector<std::string>& data, const std::string& remedy) {
  check<DataError>(known == data, data::code::other_classes, model, " knows ", known.size(),
                   " classes, the data have ", data.size(),
                   data::class_difference(known, "the model", data, "the data"), "; ", remedy);
}

}  // namespace gossamer::apps
