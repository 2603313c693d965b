// Which channel an edge uses, by measurement: its first exchanges try one after the other, then the
// fastest stays. The lower rank decides, and says so in its offer; so both sides agree, also after
// one of them was started again.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "gossamer/dist/gpu/channel.h"

namespace gossamer::dist {

class GpuChoice final : public GpuChannelMaker {
 public:
  struct Outside {
    std::function<double()> clock;
    // Whether the peer, given the higher side's offer for this maker, could be reached by it at
    // all; empty: always.
    std::function<bool(const std::string& maker, const ChannelBytes& theirs)> possible{};
    std::function<void(const std::string&)> log{};  // one line when an edge has decided
  };
  // makers: in order of preference; with one there is nothing to measure. They live longer than
  // this.
  GpuChoice(int self, std::vector<GpuChannelMaker*> makers, Outside);
  const char* name() const override { return "auto"; }
  ChannelBytes offer(int peer) override;
  ChannelBytes answer(int peer, const ChannelBytes& theirs) override;
  std::unique_ptr<GpuChannel> open(int peer, bool lower, const ChannelBytes& own,
                                   const ChannelBytes& theirs) override;

  // transfers of each; the first, which also warms up, does not count
  static constexpr int kMeasured = 3;
  static constexpr int kForgiven = 3;  // failures before a channel counts as impossible

 private:
  struct Candidate {
    double seconds = 0;  // the quickest transfer
    int measured = 0, failed = 0;
  };
  struct Edge {
    std::vector<Candidate> candidates;
    bool decided = false;
  };
  class Timed;
  Edge& edge(int peer);
  std::size_t next(const Edge&) const;  // what to use now
  void report(int peer, std::size_t maker, double seconds, bool ok);

  const int self_;
  const std::vector<GpuChannelMaker*> makers_;
  const Outside outside_;
  std::map<int, Edge> edges_;
};

}  // namespace gossamer::dist
