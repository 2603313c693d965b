// Dirichlet's distribution by breaking a stick: of what is left of a class, worker i takes a share
// of Beta(alpha, alpha * workers behind it).
#include "gossamer/data/unequal.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "gossamer/core/error.h"
#include "gossamer/data/augment/mixup.h"
#include "gossamer/data/mix.h"

namespace gossamer::data {
namespace {

constexpr double kMostAlpha = 1e6;

class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> whole, std::vector<i64> which)
      : whole_(std::move(whole)), which_(std::move(which)) {}
  i64 size() const override { return static_cast<i64>(which_.size()); }
  int label(i64 i) const override { return whole_->label(at(i)); }
  std::string name(i64 i) const override { return whole_->name(at(i)); }
  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const override {
    return whole_->bytes(at(i), buffer);
  }
  Raw raw() const override { return whole_->raw(); }
  const std::vector<std::string>& classes() const override { return whole_->classes(); }

 private:
  i64 at(i64 i) const { return which_.at(static_cast<std::size_t>(i)); }
  std::shared_ptr<const Dataset> whole_;
  std::vector<i64> which_;
};

}  // namespace

double parse_dirichlet(const std::string& text) {
  constexpr std::string_view prefix = "dirichlet:";
  double alpha = 0;
  if (text.starts_with(prefix)) {
    const char* end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data() + prefix.size(), end, alpha);
    if (error == std::errc() && last == end && alpha > 0 && alpha <= kMostAlpha) return alpha;
  }
  fail<ConfigError>("\"", text,
                    "\" is not dirichlet:ALPHA, like dirichlet:0.3, with ALPHA above 0");
}

std::vector<std::vector<i64>> dirichlet_parts(const Dataset& set, double alpha, int workers,
                                              std::uint64_t seed) {
  check<ConfigError>(alpha > 0 && alpha <= kMostAlpha && workers >= 1, "unequal data: alpha ",
                     alpha, ", ", workers, " workers; both must be above 0");
  std::vector<std::vector<i64>> of_class(set.classes().size()),
      parts(static_cast<std::size_t>(workers));
  for (i64 i = 0; i < set.size(); ++i)
    of_class.at(static_cast<std::size_t>(set.label(i))).push_back(i);
  for (std::size_t c = 0; c < of_class.size(); ++c) {
    std::vector<i64>& samples = of_class[c];
    Rng rng(mix(seed, 0x756e657175616c /* "unequal" */), c);
    for (std::size_t i = samples.size(); i > 1; --i)
      std::swap(samples[i - 1], samples[rng.below(static_cast<std::uint32_t>(i))]);
    double left = 1;
    std::size_t begin = 0;
    for (int w = 0; w < workers; ++w) {
      const int behind = workers - 1 - w;
      if (behind > 0) left *= 1 - draw_beta(rng, alpha, alpha * behind);
      const auto end = behind > 0 ? static_cast<std::size_t>(std::llround(
                                        (1 - left) * static_cast<double>(samples.size())))
                                  : samples.size();
      auto& part = parts[static_cast<std::size_t>(w)];
      part.insert(part.end(), samples.begin() + static_cast<std::ptrdiff_t>(begin),
                  samples.begin() + static_cast<std::ptrdiff_t>(end));
      begin = end;
    }
  }
  for (auto& part : parts) std::ranges::sort(part);
  return parts;
}

std::shared_ptr<const Dataset> part_of(std::shared_ptr<const Dataset> whole,
                                       std::vector<i64> which) {
  return std::make_shared<Subset>(std::move(whole), std::move(which));
}

}  // namespace gossamer::data
