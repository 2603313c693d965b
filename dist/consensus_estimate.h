// The consensus distance Xi = sqrt(mean |x_i - mean x|^2) of workers that exchange in pairs,
// estimated while they train.
//
// The differences that partners see say too little: neighbours are closer to each other than others
// are, and two that have just met are closer still. So a worker compares itself with another drawn
// at random, neighbour or not. Over such pairs the mean of |x_i - x_j|^2 is 2 n/(n - 1) Xi^2 (the
// U-statistic of a variance: Hoeffding 1948). Instead of x_i a few sums of its elements with random
// signs travel: sketch s has E |s_i - s_j|^2 = |x_i - x_j|^2 (Alon, Matias and Szegedy 1996;
// Charikar, Chen and Farach-Colton 2002). Both are unbiased, so Xi^2 is. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "gossamer/core/random.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

inline constexpr std::size_t kPairSketch = 8;  // numbers; each travels in a message
using PairSketch = std::array<double, kPairSketch>;
// to += factor times the sketch of x, f32. Both of a pair use one stream of signs.
void add_sketch(const Tensor& x, double factor, std::uint64_t stream, PairSketch& to);

class ConsensusEstimate {
 public:
  ConsensusEstimate(int self, std::uint64_t seed);

  // When this worker is to send its next sketch, by its gradient clock: about once in kEvery of its
  // gradients, at a random moment. Just after a gradient it would be further away than at others.
  static constexpr double kEvery = 8;
  double next() const { return next_; }
  void skip(double t) { next_ = t + kEvery * (.5 + random_.uniform53()); }
  // One of `others`, not empty, and the signs for the sketch that goes there.
  struct Choice {
    int peer;
    std::uint64_t stream;
  };
  Choice choose(std::span<const int> others);
  // the messages for that sketch
  std::array<Message, kPairSketch> messages(const PairSketch&) const;

  // A message of another worker. True: it begins a sketch; own() is to follow, the own sketch of
  // this moment with the signs of `stream()`.
  bool receive(int from, const Message&);
  std::uint64_t stream() const { return theirs_; }
  void own(const PairSketch& now) { own_ = now; }

  // Xi, of so many workers; 0: nothing has come yet
  double distance(int workers) const;
  double squared() const { return squared_; }  // the mean of |x_i - x_j|^2; -1: none
  void forget() { squared_ = -1; }

 private:
  int self_;
  Rng random_;
  double next_;
  std::uint32_t sent_ = 0;
  // of the sketch that comes: whose it is, what is there
  int from_ = -1;
  std::uint32_t measurement_ = 0;
  std::uint64_t theirs_ = 0;
  PairSketch own_{};
  std::size_t arrived_ = 0;
  double first_ = 0, sum_ = 0;
  double squared_ = -1;
};

}  // namespace gossamer::dist
