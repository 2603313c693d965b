// See consensus_estimate.h.
#include "gossamer/dist/consensus_estimate.h"

#include <cmath>
#include <vector>

#include "gossamer/core/exchange.h"
#include "gossamer/dist/usual_distance.h"

namespace gossamer::dist {
namespace {

constexpr double kWeight = .2;  // of the newest pair in the moving mean

std::uint64_t stream_of(int sender, std::uint32_t measurement) {
  return static_cast<std::uint64_t>(sender + 1) << 32 | measurement;
}

}  // namespace

void add_sketch(const Tensor& x, double factor, std::uint64_t stream, PairSketch& to) {
  std::vector<double> sums(static_cast<std::size_t>(kSketchWidth));
  count_sketch(x, stream, sums);
  for (std::size_t j = 0; j < sums.size(); ++j) to[j % kPairSketch] += factor * sums[j];
}

ConsensusEstimate::ConsensusEstimate(int self, std::uint64_t seed)
    : self_(self),
      random_(seed, 0x736b6574u + static_cast<std::uint64_t>(self)),
      next_(1 + random_.uniform53()) {}

ConsensusEstimate::Choice ConsensusEstimate::choose(std::span<const int> others) {
  return {others[random_.below(static_cast<std::uint32_t>(others.size()))],
          stream_of(self_, ++sent_)};
}

std::array<Message, kPairSketch> ConsensusEstimate::messages(const PairSketch& sketch) const {
  std::array<Message, kPairSketch> out;
  for (std::size_t k = 0; k < kPairSketch; ++k)
    out[k] = {.type = MessageType::sketch,
              .epoch = sent_,
              .nonce = static_cast<std::uint32_t>(k),
              .value = sketch[k]};
  return out;
}

// Messages of one sender keep their order. If two sketches mix, the one that began first is lost.
bool ConsensusEstimate::receive(int from, const Message& m) {
  if (m.nonce == 0) {
    from_ = from;
    measurement_ = m.epoch;
    theirs_ = stream_of(from, m.epoch);
    first_ = m.value;
    arrived_ = 1;
    return true;
  }
  if (from != from_ || m.epoch != measurement_ || m.nonce != arrived_) return false;
  if (arrived_ == 1) sum_ = (own_[0] - first_) * (own_[0] - first_);
  const double gap = own_[arrived_++] - m.value;
  sum_ += gap * gap;
  if (arrived_ < kPairSketch) return false;
  from_ = -1;
  // of a model that is not finite nobody says how far it is
  if (std::isfinite(sum_))
    squared_ = squared_ < 0 ? sum_ : (1 - kWeight) * squared_ + kWeight * sum_;
  return false;
}

double ConsensusEstimate::distance(int workers) const {
  return squared_ < 0 ? 0 : estimated_consensus_distance(squared_, workers);
}

}  // namespace gossamer::dist
