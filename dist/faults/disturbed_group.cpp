// A Group whose links lose, delay or cut what passes, as connections would: what is late, or held
// back by a cut that does not last, arrives in order; what a connection had on its way when it was
// given up is lost.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "gossamer/core/host_signals.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/faults/injector.h"

namespace gossamer::dist {
namespace {

// After a cut ends, this long until the other is announced, as a new connection takes. Its first
// words may come before that: they wait.
constexpr double kSettling = 0.5;

// Messages that the pairing can lose. The others are sent once, on a connection that loses nothing
// while it lasts.
bool may_be_lost(MessageType type) { return type <= MessageType::decline; }

// What a worker sends instead of its models, of those that it was sent before. It knows no more:
// not its peers' other neighbours, nor what they send in the same round.
class Liar {
 public:
  explicit Liar(const Injector& faults) : faults_(faults) {}

  // An exchange begins. Returns what goes to the peer.
  Tensor sends(int peer, std::uint64_t session, const Tensor& send, const Tensor& receive) {
    const std::optional<Attack> attack = faults_.lie();
    if (!attack || !goes(send)) return send;
    check<ConfigError>(send.dtype() == DType::f32 && send.device().is_cpu(),
                       "inject: an attack lies about models that travel in f32 between CPUs, and "
                       "here is ",
                       send.dtype(), "; take f32 for payload and wire");
    const std::scoped_lock lock(mutex_);
    // Of each piece of a model there is one block, whose place names it.
    const void* const piece = send.span<float>().data();
    if (goes(receive) && receive.dtype() == DType::f32)
      under_way_[{peer, session}] = {piece, receive};
    const auto known = heard_.find(piece);
    const auto own = send.span<float>();
    Tensor said = Tensor::empty({send.numel()});
    std::vector<KnownModel<float>> others;
    std::span<const float> target = own;
    if (known != heard_.end())
      for (const auto& [who, model] : known->second) {
        if (model.numel() != send.numel()) continue;
        if (who == peer)
          target = model.span<float>();
        else
          others.push_back({1, model.span<float>()});
      }
    if (target.data() != own.data()) others.push_back({1, own});
    lie<float>(*attack, own, target, 1, others, said.span<float>());
    return said;
  }
  // An exchange has ended, and what came has not been looked at yet.
  void ended(int peer, std::uint64_t session, bool ok) {
    const std::scoped_lock lock(mutex_);
    const auto found = under_way_.find({peer, session});
    if (found == under_way_.end()) return;
    if (ok) heard_[found->second.first][peer] = found->second.second.clone();
    under_way_.erase(found);
  }

 private:
  const Injector& faults_;
  std::mutex mutex_;
  std::map<std::pair<int, std::uint64_t>, std::pair<const void*, Tensor>> under_way_;
  std::map<const void*, std::map<int, Tensor>> heard_;  // of each piece, by peer
};

// Exchanges that are asked for during a cut wait for its end, as bytes on a connection would.
class DisturbedPayload final : public Payload {
 public:
  DisturbedPayload(Payload& inner, ControlLink& link, const Injector& faults, int rank,
                   std::uint64_t seed)
      : inner_(inner), link_(link), faults_(faults), liar_(faults), rank_(rank), seed_(seed) {}

  void exchange(int peer, std::uint64_t session, const Tensor& given, const Tensor& receive,
                std::span<const char> note, Seconds deadline) override {
    // A function of edge and session, so that both sides lose the same exchanges.
    const auto low = static_cast<std::uint64_t>(std::min(rank_, peer)),
               high = static_cast<std::uint64_t>(std::max(rank_, peer));
    const bool lost = Rng(seed_ ^ session * 0x9e3779b97f4a7c15ull, low << 32 | high).uniform53() <
                      faults_.drop(peer);
    if (lost) return link_.post(failure(peer, session, "lost (injected)"));
    const Tensor send = liar_.sends(peer, session, given, receive);
    const std::scoped_lock lock(mutex_);
    // in order with those that wait
    if (!faults_.cut(peer) && std::ranges::find(waiting_, peer, &Waiting::peer) == waiting_.end())
      return inner_.exchange(peer, session, send, receive, note, deadline);
    waiting_.push_back({peer,
                        session,
                        send,
                        receive,
                        {note.begin(), note.end()},
                        faults_.now() + deadline.count()});
  }
  void abort(int peer, std::uint64_t from_session) override {
    for (Event& e : give_up(peer, from_session)) link_.post(std::move(e));
    inner_.abort(peer, from_session);
  }
  void drain(Seconds limit) override { inner_.drain(limit); }

  void ended(const Event& e) { liar_.ended(e.peer, e.session, e.ok); }

  // Begins the exchanges whose cut is over, and returns the ends of those whose time is over.
  std::vector<Event> follow(double now) {
    std::vector<Event> ends;
    const std::scoped_lock lock(mutex_);
    std::erase_if(waiting_, [&](const Waiting& w) {
      if (now >= w.until)
        return ends.push_back(failure(w.peer, w.session, "time is over (injected cut)")), true;
      if (faults_.cut(w.peer)) return false;
      inner_.exchange(w.peer, w.session, w.send, w.receive, w.note, Seconds(w.until - now));
      return true;
    });
    return ends;
  }
  std::vector<Event> give_up(int peer, std::uint64_t from_session = 0) {
    std::vector<Event> ends;
    const std::scoped_lock lock(mutex_);
    std::erase_if(waiting_, [&](const Waiting& w) {
      const bool ends_now = w.peer == peer && w.session >= from_session;
      if (ends_now) ends.push_back(failure(peer, w.session, "cut off (injected)"));
      return ends_now;
    });
    return ends;
  }
  double next_end() {
    const std::scoped_lock lock(mutex_);
    double next = INFINITY;
    for (const Waiting& w : waiting_) next = std::min(next, w.until);
    return next;
  }

 private:
  struct Waiting {
    int peer;
    std::uint64_t session;
    Tensor send, receive;
    std::vector<char> note;
    double until;
  };
  static Event failure(int peer, std::uint64_t session, const char* why) {
    return {.kind = Event::Kind::exchanged,
            .peer = peer,
            .message = {},
            .ok = false,
            .session = session,
            .why = why};
  }

  Payload& inner_;
  ControlLink& link_;
  const Injector& faults_;
  Liar liar_;
  const int rank_;
  const std::uint64_t seed_;
  std::mutex mutex_;
  std::vector<Waiting> waiting_;
};

// Both sides hold back what passes a cut: the clocks of two workers are not one, nor do they reach
// a step at the same time.
class DisturbedLink final : public ControlLink {
 public:
  DisturbedLink(ControlLink& inner, DisturbedPayload& payload, const Injector& faults, int rank,
                int size, std::uint64_t seed, Seconds dead_after)
      : inner_(inner),
        payload_(payload),
        faults_(faults),
        dead_after_(dead_after.count()),
        random_(seed, 0x64726f70u + static_cast<std::uint64_t>(rank)),
        edges_(static_cast<std::size_t>(size)),
        rank_(rank) {}

  ~DisturbedLink() override {
    {
      const std::scoped_lock lock(held_mutex_);
      ending_ = true;
    }
    held_changed_.notify_all();
    if (sender_.joinable()) sender_.join();
  }

  void send(int peer, const Message& m) override {
    Edge& edge = edges_.at(static_cast<std::size_t>(peer));
    {
      const std::scoped_lock lock(edge.mutex);
      if (edge.dead) return;
      edge.unsent.push_back(m);
      if (!faults_.cut(peer)) return send_held(peer, edge);
    }
    const std::scoped_lock lock(held_mutex_);
    held_ = true;
    if (!sender_.joinable()) sender_ = start_thread([this] { send_after_cuts(); });
    held_changed_.notify_all();
  }
  void post(Event e) override { inner_.post(std::move(e)); }
  std::optional<double> notice(Notice what, int peer) const override {
    return inner_.notice(what, peer);
  }
  bool alive(int peer) const override {
    return inner_.alive(peer) && !edges_.at(static_cast<std::size_t>(peer)).dead;
  }
  std::optional<ClockEstimate> clock_offset(int peer, double at_us) const override {
    return inner_.clock_offset(peer, at_us);
  }

  std::uint64_t returns(int peer) const {
    return edges_.at(static_cast<std::size_t>(peer)).returns;
  }

  Event next(Seconds timeout) override {
    const double limit = faults_.now() + timeout.count();
    for (;;) {
      const double now = faults_.now();
      follow_cuts(now);
      double wake = limit;
      for (std::size_t p = 0; p < edges_.size(); ++p) {
        const bool open = !faults_.cut(static_cast<int>(p)) && !edges_[p].dead;
        release(edges_[p].transfers, now, wake);
        if (open) release(edges_[p].messages, now, wake);
      }
      if (!ready_.empty()) {
        Event e = std::move(ready_.front());
        ready_.pop_front();
        return e;
      }
      wake = std::min({wake, faults_.next_change(now), next_verdict(now), payload_.next_end()});
      Event e =
          inner_.next(Seconds(std::max(0.0, std::isfinite(wake) ? wake - now : timeout.count())));
      if (e.kind != Event::Kind::none)
        take(std::move(e));
      else if (faults_.now() >= limit && ready_.empty())
        return {};
    }
  }

 private:
  using Late = std::deque<std::pair<double, Event>>;  // due at, ascending
  struct Edge {
    // cut off for so long that it counts as dead, though its process lives
    std::atomic<bool> dead{false};
    std::atomic<std::uint64_t> returns{0};
    double cut_since = -1, whole_since = -1;
    Late messages, transfers;
    std::mutex mutex;
    std::vector<Message> unsent;  // during a cut
  };

  void send_held(int peer, Edge& edge) {
    for (const Message& m : edge.unsent) inner_.send(peer, m);
    edge.unsent.clear();
  }

  // As a connection would, also while this worker waits in a collective and reads nothing: the
  // other may wait for just these words.
  void send_after_cuts() {
    constexpr std::chrono::milliseconds kTurn{2};
    std::unique_lock lock(held_mutex_);
    while (!ending_) {
      held_changed_.wait(lock, [this] { return ending_ || held_; });
      held_ = false;
      lock.unlock();
      bool all = true;
      for (std::size_t p = 0; p < edges_.size(); ++p) {
        Edge& edge = edges_[p];
        const std::scoped_lock of_edge(edge.mutex);
        if (!edge.dead && !faults_.cut(static_cast<int>(p))) send_held(static_cast<int>(p), edge);
        all = all && edge.unsent.empty();
      }
      lock.lock();
      if (all) continue;
      held_ = true;
      held_changed_.wait_for(lock, kTurn, [this] { return ending_; });
    }
  }

  void release(Late& late, double now, double& wake) {
    for (; !late.empty() && late.front().first <= now; late.pop_front())
      ready_.push_back(std::move(late.front().second));
    if (!late.empty()) wake = std::min(wake, late.front().first);
  }

  void take(Event e) {
    if (e.peer < 0 || e.kind == Event::Kind::woken) return ready_.push_back(std::move(e));
    if (e.kind == Event::Kind::exchanged) payload_.ended(e);
    Edge& edge = edges_.at(static_cast<std::size_t>(e.peer));
    if (e.kind == Event::Kind::dead) edge.messages.clear();
    if (e.kind == Event::Kind::dead || e.kind == Event::Kind::joined) {
      if (e.kind == Event::Kind::joined) e.session += edge.returns;
      // else: said already, or said when the cut ends
      if (!edge.dead) ready_.push_back(std::move(e));
      return;
    }
    const double due = faults_.now() + faults_.delay(e.peer);
    Late& late = e.kind == Event::Kind::message ? edge.messages : edge.transfers;
    if (e.kind == Event::Kind::message) {
      if (edge.dead && faults_.cut(e.peer)) return;  // from before its sender gave us up
      if (may_be_lost(e.message.type) && random_.uniform53() < faults_.drop(e.peer)) return;
    }
    // in order
    late.emplace_back(late.empty() ? due : std::max(due, late.back().first), std::move(e));
  }

  void follow_cuts(double now) {
    for (Event& e : payload_.follow(now)) ready_.push_back(std::move(e));
    for (std::size_t p = 0; p < edges_.size(); ++p) {
      const int peer = static_cast<int>(p);
      if (peer == rank_) continue;
      Edge& edge = edges_[p];
      if (faults_.cut(peer)) {
        edge.whole_since = -1;
        if (edge.cut_since < 0) edge.cut_since = now;
        if (!edge.dead && now - edge.cut_since >= dead_after_ && inner_.alive(peer))
          lose(peer, edge);
        continue;
      }
      edge.cut_since = -1;
      if (!edge.dead) continue;
      if (edge.whole_since < 0) edge.whole_since = now;
      if (now - edge.whole_since < kSettling || !inner_.alive(peer)) continue;
      edge.dead = false;
      ++edge.returns;
      ready_.push_back({.kind = Event::Kind::joined,
                        .peer = peer,
                        .message = {},
                        .ok = false,
                        .session = 0,
                        .why = {}});
    }
  }

  // Its connection is gone, and what was on the way with it.
  void lose(int peer, Edge& edge) {
    for (Event& e : payload_.give_up(peer)) ready_.push_back(std::move(e));
    const std::scoped_lock lock(edge.mutex);
    edge.dead = true;
    edge.messages.clear();
    edge.unsent.clear();
    ready_.push_back({.kind = Event::Kind::dead,
                      .peer = peer,
                      .message = {},
                      .ok = false,
                      .session = 0,
                      .why = "no heartbeat (injected)"});
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
  DisturbedPayload& payload_;
  const Injector& faults_;
  const double dead_after_;
  Rng random_;
  std::vector<Edge> edges_;
  std::deque<Event> ready_;
  const int rank_;

  std::mutex held_mutex_;
  std::condition_variable held_changed_;
  bool held_ = false, ending_ = false;
  std::thread sender_;  // from the first message on that a cut holds back
};

class DisturbedGroup final : public Group {
 public:
  DisturbedGroup(Group& inner, const Injector& faults, std::uint64_t seed, Seconds dead_after)
      : inner_(inner),
        payload_(inner.payload(), inner.control(), faults, inner.rank(), seed),
        link_(inner.control(), payload_, faults, inner.rank(), inner.size(), seed, dead_after) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  int started() const override { return inner_.started(); }
  ControlLink& control() override { return link_; }
  Payload& payload() override { return payload_; }
  const char* why_no_side_channel() const override {
    return "injected faults disturb only what goes over the host";
  }
  Collectives& collectives() override { return inner_.collectives(); }
  void rebuild(const std::vector<int>& alive, std::uint32_t epoch, Seconds limit) override {
    inner_.rebuild(alive, epoch, limit);
  }
  Seconds collective_limit() const override { return inner_.collective_limit(); }
  std::string given_up_by(int peer) const override { return inner_.given_up_by(peer); }
  std::vector<int> alive() const override {
    std::vector<int> out = inner_.alive();
    std::erase_if(out, [&](int rank) { return rank != inner_.rank() && !link_.alive(rank); });
    return out;
  }
  std::uint64_t arrivals(int peer) const override {
    return inner_.arrivals(peer) + link_.returns(peer);
  }

 private:
  Group& inner_;
  DisturbedPayload payload_;
  DisturbedLink link_;
};

}  // namespace

std::unique_ptr<Group> disturbed(Group& inner, const Injector& faults, std::uint64_t seed,
                                 Seconds dead_after) {
  return std::make_unique<DisturbedGroup>(inner, faults, seed, dead_after);
}

}  // namespace gossamer::dist
