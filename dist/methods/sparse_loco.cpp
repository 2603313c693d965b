// SparseLoCo on tensors.
#include "gossamer/dist/methods/sparse_loco.h"

#include <limits>

#include "gossamer/core/blocks.h"

namespace gossamer::dist {

MethodRow sparse_loco_row() {
  const MethodTraits traits{.name = "sparse-loco", .graph = false, .coded = false};
  MethodRow row = row_with<SparseLocoOptions>(traits);
  row.simulated_settings = row.settings;
  row.formula = [name = traits.name](const Settings& s) {
    return std::make_unique<SparseLoco>(s.as<SparseLocoOptions>(name));
  };
  row.make = [traits](const MethodContext& with) {
    check_compresses(traits.name, with.params, "diloco");
    return std::make_unique<SparseLocoMethod>(
        traits, with, with.options.settings.as<SparseLocoOptions>(traits.name));
  };
  return row;
}

SparseLocoMethod::SparseLocoMethod(const MethodTraits& traits, const MethodContext& with,
                                   const SparseLocoOptions& o)
    : SynchronousMethod(traits, with, std::make_unique<SparseLoco>(o)),
      compressed_(*SparseLoco(o).compressor(), with.params),
      code_(Tensor::empty({compressed_.empty_code().numel() + 1}, DType::u8)),
      sent_(Tensor::zeros({with.params.size()})),
      uneven_(Tensor::zeros({1, 1})) {}

std::vector<NamedTensor> SparseLocoMethod::state() {
  if (group_.size() < 2) return {};
  std::vector<NamedTensor> all = SynchronousMethod::state();
  all.push_back({"sparse.uneven", uneven_});
  return all;
}

void SparseLocoMethod::begin_anew() {
  SynchronousMethod::begin_anew();
  Tensor(uneven_).fill(1);
}

void SparseLocoMethod::local_step() {
  if (uneven_.as<float>()[0] > 0 && !alone()) {
    Tensor(uneven_).zero();  // another death makes it 1 again
    if (average_exactly()) vector(SparseLoco::kReference).copy_from(params_.values());
  }
  if (alone()) return update();
  SynchronousMethod::local_step();
}

// If a death comes in between, nothing was sent: the mean is 0, and all of v is kept.
void SparseLocoMethod::average_compressed(Vector v, MeanOver over) {
  Tensor kept = vector(v), mean = params_.values();
  const bool finite = all_finite(kept);
  const auto counter = static_cast<std::uint64_t>(rounds_begun());
  set_next_round(rounds_begun() + 1);
  const auto last = static_cast<std::size_t>(code_.numel()) - 1;
  Tensor(code_).span<std::uint8_t>()[last] = finite ? 0 : 1;
  const auto decode = [&](const Tensor& code, const Tensor& to) {
    if (code.span<std::uint8_t>()[last] != 0)
      Tensor(to).span<float>()[0] = std::numeric_limits<float>::quiet_NaN();  // ruins the sum
    else
      compressed_.decode(code, counter, to);
  };
  if (finite) {
    compressed_.encode(kept, counter, code_);
    decode(code_, sent_);
  }
  constexpr int kTag = 1;  // average_exactly() has 0
  const bool done = average_coded(
      code_, [&] { return finite; }, decode, over, mean, kTag);
  if (!finite) kept.zero();
  if (!done)
    mean.zero();
  else if (finite)
    axpy(kept, -1, sent_);
}

}  // namespace gossamer::dist
