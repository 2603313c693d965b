// The higher side offers all it has; the lower one answers with its choice.
#include "gossamer/dist/gpu/choice.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

// Lists of byte strings of up to 65535 bytes.
void append(ChannelBytes& out, const ChannelBytes& one) {
  out.push_back(static_cast<char>(one.size() & 0xff));
  out.push_back(static_cast<char>(one.size() >> 8));
  out.insert(out.end(), one.begin(), one.end());
}
std::vector<ChannelBytes> split(int peer, const ChannelBytes& all) {
  std::vector<ChannelBytes> out;
  for (std::size_t at = 0; at < all.size();) {
    check<DistError>(all.size() - at >= 2, "worker ", peer, " sent an offer that is cut off");
    const std::size_t length =
        static_cast<unsigned char>(all[at]) + 256u * static_cast<unsigned char>(all[at + 1]);
    at += 2;
    check<DistError>(all.size() - at >= length, "worker ", peer, " sent an offer that is cut off");
    out.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(at),
                     all.begin() + static_cast<std::ptrdiff_t>(at + length));
    at += length;
  }
  return out;
}

}  // namespace

// Measures the channel in it.
class GpuChoice::Timed final : public GpuChannel {
 public:
  Timed(GpuChoice& choice, int peer, std::size_t maker, bool lower,
        std::unique_ptr<GpuChannel> channel)
      : choice_(choice), peer_(peer), maker_(maker), lower_(lower), channel_(std::move(channel)) {}

  Stage opened() override {
    const Stage s = channel_->opened();
    if (s == Stage::failed) report(false);
    return s;
  }
  void launch(const void* send, void* receive, std::size_t bytes) override {
    since_ = choice_.outside_.clock();
    reported_ = false;
    channel_->launch(send, receive, bytes);
  }
  Stage moved() override {
    const Stage s = channel_->moved();
    if (s != Stage::pending) report(s == Stage::done);
    if (s == Stage::done) works_ = true;
    return s;
  }
  bool outdated() const override {
    return lower_ && choice_.next(choice_.edges_.at(peer_)) != maker_;
  }
  // A channel over which nothing ever came has failed, on whatever side.
  void abort() override {
    if (!works_) report(false);
    channel_->abort();
  }
  bool gone() override { return channel_->gone(); }
  std::string why() const override { return channel_->why(); }

 private:
  void report(bool ok) {
    if (!std::exchange(reported_, true) && lower_)
      choice_.report(peer_, maker_, choice_.outside_.clock() - since_, ok);
  }
  GpuChoice& choice_;
  const int peer_;
  const std::size_t maker_;
  const bool lower_;
  const std::unique_ptr<GpuChannel> channel_;
  double since_ = 0;
  bool works_ = false, reported_ = false;
};

GpuChoice::GpuChoice(int self, std::vector<GpuChannelMaker*> makers, Outside outside)
    : self_(self), makers_(std::move(makers)), outside_(std::move(outside)) {
  check<DistError>(!makers_.empty(), "worker ", self,
                   ": there is no way to another GPU; set dist.transport=host");
}

GpuChoice::Edge& GpuChoice::edge(int peer) {
  Edge& e = edges_[peer];
  if (e.candidates.empty()) e.candidates.resize(makers_.size());
  return e;
}

ChannelBytes GpuChoice::offer(int peer) {
  ChannelBytes out;
  for (GpuChannelMaker* m : makers_) append(out, m->offer(peer));
  return out;
}

ChannelBytes GpuChoice::answer(int peer, const ChannelBytes& theirs) {
  Edge& e = edge(peer);
  const std::vector<ChannelBytes> offers = split(peer, theirs);
  check<DistError>(offers.size() == makers_.size(), "worker ", peer, " offers ", offers.size(),
                   " channels, this one knows ", makers_.size(),
                   "; do all workers have the same dist.transport?");
  for (std::size_t m = 0; m < makers_.size(); ++m)
    if (outside_.possible && !outside_.possible(makers_[m]->name(), offers[m]))
      e.candidates[m].failed = kForgiven;
  const std::size_t use = next(e);
  ChannelBytes out{static_cast<char>(use)};
  const ChannelBytes own = makers_[use]->answer(peer, offers[use]);
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

std::unique_ptr<GpuChannel> GpuChoice::open(int peer, bool lower, const ChannelBytes& own,
                                            const ChannelBytes& theirs) {
  const ChannelBytes& said = lower ? own : theirs;
  check<DistError>(!said.empty() && static_cast<std::size_t>(static_cast<unsigned char>(said[0])) <
                                        makers_.size(),
                   "worker ", peer, " chose a channel that does not exist");
  const auto m = static_cast<std::size_t>(static_cast<unsigned char>(said[0]));
  const ChannelBytes answer(said.begin() + 1, said.end());
  const std::vector<ChannelBytes> offers = split(peer, lower ? theirs : own);
  check<DistError>(offers.size() == makers_.size(), "worker ", peer, " offers ", offers.size(),
                   " channels; wanted ", makers_.size());
  edge(peer);
  try {
    return std::make_unique<Timed>(
        *this, peer, m, lower,
        makers_[m]->open(peer, lower, lower ? answer : offers[m], lower ? offers[m] : answer));
  } catch (const DistError&) {
    if (lower) report(peer, m, 0, false);
    throw;
  }
}

// The first that was not measured yet; then the quickest. One that fails is measured as impossible.
std::size_t GpuChoice::next(const Edge& e) const {
  std::size_t best = e.candidates.size();
  for (std::size_t m = 0; m < e.candidates.size(); ++m) {
    const Candidate& c = e.candidates[m];
    if (c.failed >= kForgiven) continue;
    if (c.measured < kMeasured && makers_.size() > 1) return m;
    if (best == e.candidates.size() || c.seconds < e.candidates[best].seconds) best = m;
  }
  return best < e.candidates.size() ? best : e.candidates.size() - 1;
}

void GpuChoice::report(int peer, std::size_t maker, double seconds, bool ok) {
  Edge& e = edge(peer);
  Candidate& c = e.candidates[maker];
  if (!ok) {
    // later it is the fault of what happens, not of the channel
    if (c.measured < kMeasured) ++c.failed;
  } else {
    c.failed = 0;
    if (++c.measured == 2 || (c.measured > 2 && seconds < c.seconds)) c.seconds = seconds;
  }
  const auto open = [](const Candidate& each) {
    return each.failed < kForgiven && each.measured < kMeasured;
  };
  if (e.decided || makers_.size() == 1 || std::ranges::any_of(e.candidates, open)) return;
  e.decided = true;
  if (!outside_.log) return;
  std::ostringstream text;
  text << "edge " << self_ << "-" << peer << ":";
  for (std::size_t m = 0; m < makers_.size(); ++m) {
    text << (m > 0 ? "," : "") << " " << makers_[m]->name();
    if (e.candidates[m].failed >= kForgiven)
      text << " not possible";
    else
      text << " " << e.candidates[m].seconds * 1e3 << " ms";
  }
  text << "; " << makers_[next(e)]->name() << " is used";
  outside_.log(text.str());
}

}  // namespace gossamer::dist
