// See judged.h.
#include "gossamer/apps/train/judged.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "gossamer/apps/report/html.h"
#include "gossamer/core/error.h"
#include "gossamer/data/codec/image.h"
#include "gossamer/data/codec/jpeg_encode.h"
#include "gossamer/data/codec/resize.h"

namespace gossamer::apps {
namespace {

constexpr std::size_t kMistakes = 20;
constexpr int kThumbnail = 96;

data::Image picture_of(const data::Dataset& set, i64 sample) {
  std::vector<std::byte> buffer;
  const auto bytes = set.bytes(sample, buffer);
  const auto raw = set.raw();
  if (raw.height == 0) return data::decode(bytes, set.name(sample));
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {raw.height, raw.width, {pixels, pixels + bytes.size()}};
}

std::string thumbnail(const data::Dataset& set, i64 sample) {
  try {
    const data::Image whole = picture_of(set, sample);
    const double scale =
        std::min(1.0, static_cast<double>(kThumbnail) / std::max(whole.width, whole.height));
    const auto side = [&](int length) {
      return std::max(1, static_cast<int>(std::lround(scale * length)));
    };
    data::Image small{side(whole.height), side(whole.width), {}};
    small.pixels.resize(static_cast<std::size_t>(small.height) *
                        static_cast<std::size_t>(small.width) * 3);
    data::resize(whole, {0, 0, whole.width, whole.height}, small.width, small.height,
                 small.pixels.data());
    return data_address("image/jpeg", data::encode_jpeg(small, {.quality = 85, .h = 1, .v = 1}));
  } catch (const Error&) {
    return "";  // the file is gone since
  }
}

}  // namespace

std::vector<double> judged_table(const std::vector<Judgement>& judged, const data::Dataset& set) {
  std::vector<double> table(2 * static_cast<std::size_t>(set.size()));
  for (const Judgement& j : judged) {
    double* row = table.data() + 2 * j.sample;
    row[0] = j.predicted + 1, row[1] = static_cast<double>(j.probability);
  }
  return table;
}

std::vector<Judgement> judged_from(const std::vector<double>& table, const data::Dataset& set) {
  std::vector<Judgement> judged;
  for (i64 sample = 0; sample < set.size(); ++sample)
    if (const double* row = table.data() + 2 * sample; row[0] > 0)
      judged.push_back(
          {set.label(sample), static_cast<int>(row[0]) - 1, static_cast<float>(row[1]), sample});
  return judged;
}

ClassReport class_report(const std::vector<Judgement>& judged, const data::Dataset& set) {
  ClassReport out{set.classes(), count_pairs(judged), {}};
  std::vector<Judgement> wrong = judged;
  std::erase_if(wrong, [](const Judgement& j) { return j.label == j.predicted; });
  std::ranges::stable_sort(wrong, std::greater<>(), &Judgement::probability);
  wrong.resize(std::min(wrong.size(), kMistakes));
  for (const Judgement& j : wrong)
    out.mistakes.push_back({set.name(j.sample), j.label, j.predicted,
                            static_cast<double>(j.probability), thumbnail(set, j.sample)});
  return out;
}

}  // namespace gossamer::apps
