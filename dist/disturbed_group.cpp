// A Group whose links lose, delay or cut what passes. It disturbs the receiving side: what is late waits here, in order.
#include <deque>
#include <cmath>
#include <map>

#include "gossamer/core/random.h"
#include "gossamer/dist/injector.h"

namespace gossamer::dist {
namespace {

// After a cut ends, this long until the other is announced: the clocks of two workers are not one, and its first word must not be lost.
constexpr double kSettling = 0.5;

// Messages that the pairing can lose. The others are sent once, on a connection that loses nothing while it lasts.
bool may_be_lost(MessageType type) { return type <= MessageType::decline; }

class DisturbedLink final : public ControlLink {
 public:
  DisturbedLink(ControlLink& inner, const Injector& faults, int rank, int size, std::uint64_t seed, Seconds dead_after)
      : inner_(inner), faults_(faults), dead_after_(dead_after.count()), random_(seed, 0x64726f70u + static_cast<std::uint64_t>(rank)),
        edges_(static_cast<std::size_t>(size)), rank_(rank) {}

  void send(int peer, const Message& m) override {
    if (!faults_.cut(peer)) inner_.send(peer, m);
  }
  void post(Event e) override { inner_.post(std::move(e)); }
  bool alive(int peer) const override { return inner_.alive(peer) && !edges_.at(static_cast<std::size_t>(peer)).dead; }
  void connect(const std::vector<int>& peers, Seconds deadline) override { inner_.connect(peers, deadline); }
  std::optional<ClockEstimate> clock_offset(int peer, double at_us) const override { return inner_.clock_offset(peer, at_us); }

  std::uint64_t returns(int peer) const { return edges_.at(static_cast<std::size_t>(peer)).returns; }

  Event next(Seconds timeout) override {
    const double limit = faults_.now() + timeout.count();
    for (;;) {
      const double now = faults_.now();
      follow_cuts(now);
      if (!ready_.empty()) {
        Event e = std::move(ready_.front());
        ready_.pop_front();
        return e;
      }
      double wake = limit;
      for (auto& edge : edges_) {
        if (edge.late.empty()) continue;
        if (edge.late.front().first > now) {
          wake = std::min(wake, edge.late.front().first);
          continue;
        }
        Event e = std::move(edge.late.front().second);
        edge.late.pop_front();
        return e;
      }
      wake = std::min({wake, faults_.next_change(now), next_verdict(now)});
      Event e = inner_.next(Seconds(std::max(0.0, std::isfinite(wake) ? wake - now : timeout.count())));
      if (e.kind != Event::Kind::none) take(std::move(e));
      else if (faults_.now() >= limit && ready_.empty()) return {};
    }
  }

 private:
  struct Edge {
    std::atomic<bool> dead{false};         // cut off for so long that it counts as dead, though its process lives
    std::atomic<std::uint64_t> returns{0};
    double cut_since = -1, whole_since = -1;
    std::deque<std::pair<double, Event>> late;
  };

  void take(Event e) {
    if (e.peer < 0 || e.kind == Event::Kind::woken) return ready_.push_back(std::move(e));
    Edge& edge = edges_.at(static_cast<std::size_t>(e.peer));
    if (e.kind == Event::Kind::dead) edge.late.clear();
    if (e.kind == Event::Kind::dead || e.kind == Event::Kind::joined) {
      if (!edge.dead) ready_.push_back(std::move(e));      // else: said already, or said when the cut ends
      return;
    }
    if (e.kind == Event::Kind::message) {
      if (faults_.cut(e.peer) || edge.dead) return;
      if (may_be_lost(e.message.type) && random_.uniform53() < faults_.drop(e.peer)) return;
    }
    const double delay = faults_.delay(e.peer);
    if (delay <= 0 && edge.late.empty()) return ready_.push_back(std::move(e));
    const double due = faults_.now() + delay;
    edge.late.emplace_back(edge.late.empty() ? due : std::max(due, edge.late.back().first), std::move(e));      // in order
  }

  void follow_cuts(double now) {
    for (std::size_t p = 0; p < edges_.size(); ++p) {
      const int peer = static_cast<int>(p);
      if (peer == rank_) continue;
      Edge& edge = edges_[p];
      if (faults_.cut(peer)) {
        edge.whole_since = -1;
        if (edge.cut_since < 0) edge.cut_since = now;
        if (edge.dead || now - edge.cut_since < dead_after_ || !inner_.alive(peer)) continue;
        edge.dead = true;
        edge.late.clear();
        ready_.push_back({.kind = Event::Kind::dead, .peer = peer, .message = {}, .ok = false, .session = 0, .why = "no heartbeat (injected)"});
      } else {
        edge.cut_since = -1;
        if (!edge.dead) continue;
        if (edge.whole_since < 0) edge.whole_since = now;
        if (now - edge.whole_since < kSettling || !inner_.alive(peer)) continue;
        edge.dead = false;
        ++edge.returns;
        ready_.push_back({.kind = Event::Kind::joined, .peer = peer, .message = {}, .ok = false, .session = 0, .why = {}});
      }
    }
  }

  // When a cut has lasted long enough, or its end has.
  double next_verdict(double now) const {
    double next = INFINITY;
    for (const Edge& edge : edges_) {
      if (edge.cut_since >= 0 && !edge.dead) next = std::min(next, edge.cut_since + dead_after_);
      if (edge.dead && edge.whole_since >= 0) next = std::min(next, edge.whole_since + kSettling);
    }
    return std::max(next, now + 1e-3);
  }

  ControlLink& inner_;
  const Injector& faults_;
  const double dead_after_;
  Rng random_;
  std::vector<Edge> edges_;
  std::deque<Event> ready_;
  const int rank_;
};

class DisturbedPayload final : public Payload {
 public:
  DisturbedPayload(Payload& inner, ControlLink& link, const Injector& faults, int rank, std::uint64_t seed)
      : inner_(inner), link_(link), faults_(faults), rank_(rank), seed_(seed) {}

  void exchange(int peer, std::uint64_t session, std::span<const float> send, std::span<float> receive, Seconds deadline) override {
    // A function of edge and session, so that both sides lose the same exchanges.
    Rng of_session(seed_ ^ session * 0x9e3779b97f4a7c15ull, static_cast<std::uint64_t>(std::min(rank_, peer)) << 32 | static_cast<std::uint64_t>(std::max(rank_, peer)));
    const bool lost = of_session.uniform53() < faults_.drop(peer);
    if (!lost && !faults_.cut(peer)) return inner_.exchange(peer, session, send, receive, deadline);
    link_.post({.kind = Event::Kind::exchanged, .peer = peer, .message = {}, .ok = false, .session = session, .why = "lost (injected)"});
  }
  void abort(int peer) override { inner_.abort(peer); }
  void settle(Seconds limit) override { inner_.settle(limit); }

 private:
  Payload& inner_;
  ControlLink& link_;
  const Injector& faults_;
  const int rank_;
  const std::uint64_t seed_;
};

class DisturbedGroup final : public Group {
 public:
  DisturbedGroup(Group& inner, const Injector& faults, std::uint64_t seed, Seconds dead_after)
      : inner_(inner), link_(inner.control(), faults, inner.rank(), inner.size(), seed, dead_after),
        payload_(inner.payload(), inner.control(), faults, inner.rank(), seed) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  ControlLink& control() override { return link_; }
  Payload& payload() override { return payload_; }
  Collectives& collectives() override { return inner_.collectives(); }
  void rebuild(const std::vector<int>& alive, std::uint32_t epoch) override { inner_.rebuild(alive, epoch); }
  std::vector<int> alive() const override {
    std::vector<int> out = inner_.alive();
    std::erase_if(out, [&](int rank) { return rank != inner_.rank() && !link_.alive(rank); });
    return out;
  }
  std::uint64_t arrivals(int peer) const override { return inner_.arrivals(peer) + link_.returns(peer); }

 private:
  Group& inner_;
  DisturbedLink link_;
  DisturbedPayload payload_;
};

}  // namespace

std::unique_ptr<Group> disturbed(Group& inner, const Injector& faults, std::uint64_t seed, Seconds dead_after) {
  return std::make_unique<DisturbedGroup>(inner, faults, seed, dead_after);
}

}  // namespace gossamer::dist
