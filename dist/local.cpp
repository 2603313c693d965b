// LocalCluster: workers as threads of one process. The same faces as between processes, so tests and lessons run the real methods.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "gossamer/core/error.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {
namespace {

using Instant = std::chrono::steady_clock::time_point;
Instant after(Seconds s) {
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::min(s, Seconds(1e6)));
}
constexpr Seconds kCollectiveLimit{30};

// One exchange of which only one side has come so far.
struct Waiting {
  int owner;
  std::span<const float> send;
  std::span<float> receive;
  Instant deadline;
};

// Members of one epoch meet here, operation after operation. Broken once, it stays broken: a new epoch is needed.
struct Context {
  std::vector<int> members;
  std::map<int, void*> arrived;      // rank -> its buffer
  const char* what = "";             // the operation of this round and its size: all must do the same
  std::size_t bytes = 0;
  std::uint64_t round = 0;
  std::string broken;
};

struct Shared {
  explicit Shared(int n) : dead(static_cast<std::size_t>(n)), mail(static_cast<std::size_t>(n)) {}
  std::mutex mutex;                                 // one for all: this transport is for correctness
  std::condition_variable changed;
  std::vector<bool> dead;
  std::vector<std::deque<Event>> mail;
  std::map<std::tuple<int, int, std::uint64_t>, Waiting> meetings;
  std::map<std::pair<std::uint32_t, std::vector<int>>, std::shared_ptr<Context>> contexts;

  bool is_dead(int rank) const { return dead[static_cast<std::size_t>(rank)]; }
  void put(int rank, Event e) {
    mail[static_cast<std::size_t>(rank)].push_back(std::move(e));
    changed.notify_all();
  }
  void done(int rank, int peer, std::uint64_t session, bool ok, std::string why = {}) {
    put(rank, {.kind = Event::Kind::exchanged, .peer = peer, .message = {}, .ok = ok, .session = session, .why = std::move(why)});
  }
  // Ends what waits for a partner: all of one worker's, those with one peer, or those too late.
  template <class Test> void end_meetings(Test test) {
    for (auto it = meetings.begin(); it != meetings.end();) {
      const auto& [a, b, session] = it->first;
      const int owner = it->second.owner, peer = owner == a ? b : a;
      if (!test(owner, peer, it->second)) { ++it; continue; }
      done(owner, peer, session, false, "worker " + std::to_string(peer) + " did not come, or is gone");
      it = meetings.erase(it);
    }
  }
};

class LocalLink : public ControlLink {
 public:
  LocalLink(Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  void send(int peer, const Message& message) override {
    const std::scoped_lock lock(shared_.mutex);
    if (!shared_.is_dead(rank_) && !shared_.is_dead(peer))
      shared_.put(peer, {.kind = Event::Kind::message, .peer = rank_, .message = message, .ok = false, .session = 0, .why = {}});
  }

  Event next(Seconds timeout) override {
    std::unique_lock lock(shared_.mutex);
    auto& mail = shared_.mail[static_cast<std::size_t>(rank_)];
    for (const Instant limit = after(timeout);;) {
      const Instant now = std::chrono::steady_clock::now();
      shared_.end_meetings([&](int owner, int, const Waiting& w) { return owner == rank_ && w.deadline <= now; });
      if (!mail.empty()) {
        Event e = std::move(mail.front());
        mail.pop_front();
        return e;
      }
      if (now >= limit) return {};
      Instant wake = limit;
      for (const auto& [key, w] : shared_.meetings)
        if (w.owner == rank_) wake = std::min(wake, w.deadline);
      shared_.changed.wait_until(lock, wake);
    }
  }

  void post(Event e) override {
    const std::scoped_lock lock(shared_.mutex);
    shared_.put(rank_, std::move(e));
  }
  bool alive(int peer) const override {
    const std::scoped_lock lock(shared_.mutex);
    return !shared_.is_dead(peer);
  }
  void connect(const std::vector<int>& peers, Seconds) override {
    for (const int peer : peers) check<DistError>(alive(peer), "worker ", rank_, ": no link to worker ", peer, ": it is dead");
  }

 private:
  Shared& shared_;
  int rank_;
};

class LocalPayload : public Payload {
 public:
  LocalPayload(Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  // The second of the two to come copies both ways.
  void exchange(int peer, std::uint64_t session, std::span<const float> send, std::span<float> receive, Seconds deadline) override {
    const std::scoped_lock lock(shared_.mutex);
    check<DistError>(peer != rank_ && peer >= 0 && peer < static_cast<int>(shared_.dead.size()), "exchange of worker ", rank_, " with worker ",
                     peer, ": there is no such partner");
    check<DistError>(!send.empty() || !receive.empty(), "exchange with worker ", peer, ": nothing to send and nothing to receive");
    for (const auto& [key, w] : shared_.meetings) {
      const auto& [a, b, other] = key;
      check<DistError>(w.owner != rank_ || (a != peer && b != peer), "exchange with worker ", peer, ": the one of session ", other,
                       " is not finished");
    }
    if (shared_.is_dead(peer) || shared_.is_dead(rank_)) return shared_.done(rank_, peer, session, false, "dead");
    const std::tuple key(std::min(rank_, peer), std::max(rank_, peer), session);
    const auto other = shared_.meetings.find(key);
    if (other == shared_.meetings.end()) {
      shared_.meetings[key] = {rank_, send, receive, after(deadline)};
      shared_.changed.notify_all();
      return;
    }
    const Waiting& w = other->second;
    const bool fits = w.send.size() == receive.size() && w.receive.size() == send.size();
    if (fits) {
      std::ranges::copy(send, w.receive.begin());
      std::ranges::copy(w.send, receive.begin());
    }
    shared_.meetings.erase(other);
    const std::string why = fits ? "" : "one side sends another number of values than the other receives";
    shared_.done(peer, rank_, session, fits, why);
    shared_.done(rank_, peer, session, fits, why);
  }
  void abort(int peer) override {
    const std::scoped_lock lock(shared_.mutex);
    shared_.end_meetings([&](int owner, int with, const Waiting&) { return owner == rank_ && with == peer; });
  }
  void settle(Seconds) override {}                  // copies are made under the mutex that abort() took

 private:
  Shared& shared_;
  int rank_;
};

class LocalCollectives : public Collectives {
 public:
  LocalCollectives(Shared& shared, int rank, std::shared_ptr<Context> context) : shared_(shared), rank_(rank), context_(std::move(context)) {}

  void all_reduce_sum(std::span<float> x) override { reduce(x); }
  void all_reduce_sum(std::span<double> x) override { reduce(x); }
  void broadcast(std::span<float> x, int root) override {
    meet("broadcast", x.data(), x.size_bytes(), [&](std::map<int, void*>& buffers) {
      const auto* from = static_cast<const float*>(buffers.at(root));
      for (const auto& [rank, to] : buffers)
        if (rank != root) std::copy_n(from, x.size(), static_cast<float*>(to));
    });
  }
  void barrier() override {
    meet("barrier", nullptr, 0, [](std::map<int, void*>&) {});
  }
  int members() const override { return static_cast<int>(context_->members.size()); }

 private:
  // Summed in the order of ranks, so every run gives the same bits.
  template <class T> void reduce(std::span<T> x) {
    meet("all_reduce_sum", x.data(), x.size_bytes(), [&](std::map<int, void*>& buffers) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        T sum = 0;
        for (const auto& [rank, buffer] : buffers) sum += static_cast<const T*>(buffer)[i];
        for (const auto& [rank, buffer] : buffers) static_cast<T*>(buffer)[i] = sum;
      }
    });
  }

  // The last to arrive does the work for all, under the lock, so no buffer can go away meanwhile.
  template <class Work> void meet(const char* what, void* buffer, std::size_t bytes, Work work) {
    std::unique_lock lock(shared_.mutex);
    Context& c = *context_;
    const auto intact = [&] { check<DistError>(c.broken.empty(), "worker ", rank_, ", ", what, ": ", c.broken); };
    if (shared_.is_dead(rank_)) fail<DistError>("worker ", rank_, ", ", what, ": this worker is dead");
    if (!c.arrived.empty() && (std::string(what) != c.what || bytes != c.bytes)) {
      c.broken = "worker " + std::to_string(rank_) + " calls " + what + " of " + std::to_string(bytes) + " bytes, others " + c.what + " of " +
                 std::to_string(c.bytes);
      shared_.changed.notify_all();
    }
    intact();
    c.what = what;
    c.bytes = bytes;
    c.arrived[rank_] = buffer;
    if (c.arrived.size() == c.members.size()) {
      work(c.arrived);
      c.arrived.clear();
      ++c.round;
      shared_.changed.notify_all();
      return;
    }
    const std::uint64_t round = c.round;
    if (!shared_.changed.wait_until(lock, after(kCollectiveLimit), [&] { return c.round != round || !c.broken.empty(); })) {
      std::string missing;
      for (const int m : c.members)
        if (!c.arrived.contains(m)) missing += (missing.empty() ? "" : ", ") + std::to_string(m);
      c.broken = "no sign of worker(s) " + missing + " for " + std::to_string(static_cast<int>(kCollectiveLimit.count())) + " s";
      shared_.changed.notify_all();
    }
    if (c.round == round) intact();
  }

  Shared& shared_;
  int rank_;
  std::shared_ptr<Context> context_;
};

class LocalGroup : public Group {
 public:
  LocalGroup(Shared& shared, int rank, int size) : shared_(shared), rank_(rank), size_(size), link_(shared, rank), payload_(shared, rank) {
    std::vector<int> all(static_cast<std::size_t>(size));
    for (int i = 0; i < size; ++i) all[static_cast<std::size_t>(i)] = i;
    rebuild(all, 0);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  ControlLink& control() override { return link_; }
  Payload& payload() override { return payload_; }
  Collectives& collectives() override { return *collectives_; }
  void rebuild(const std::vector<int>& alive, std::uint32_t epoch) override {
    const std::scoped_lock lock(shared_.mutex);
    auto& context = shared_.contexts[{epoch, alive}];
    if (!context) context = std::make_shared<Context>();
    context->members = alive;
    for (const int member : alive)
      if (shared_.is_dead(member)) context->broken = "worker " + std::to_string(member) + " is dead";
    collectives_ = std::make_unique<LocalCollectives>(shared_, rank_, context);
  }
  std::vector<int> alive() const override {
    const std::scoped_lock lock(shared_.mutex);
    std::vector<int> out;
    for (int i = 0; i < size_; ++i)
      if (!shared_.is_dead(i)) out.push_back(i);
    return out;
  }

 private:
  Shared& shared_;
  int rank_, size_;
  LocalLink link_;
  LocalPayload payload_;
  std::unique_ptr<LocalCollectives> collectives_;
};

}  // namespace

struct LocalCluster::Impl {
  explicit Impl(int n) : shared(n) {
    for (int i = 0; i < n; ++i) groups.push_back(std::make_unique<LocalGroup>(shared, i, n));
  }
  Shared shared;
  std::vector<std::unique_ptr<LocalGroup>> groups;
};

LocalCluster::LocalCluster(int n) {
  check<ConfigError>(n >= 1, "LocalCluster: ", n, " workers; at least 1 is needed");
  impl_ = std::make_unique<Impl>(n);
}
LocalCluster::~LocalCluster() = default;

Group& LocalCluster::group(int rank) { return *impl_->groups.at(static_cast<std::size_t>(rank)); }

void LocalCluster::kill(int rank) {
  Shared& s = impl_->shared;
  const std::scoped_lock lock(s.mutex);
  if (s.is_dead(rank)) return;
  s.dead[static_cast<std::size_t>(rank)] = true;
  s.end_meetings([&](int owner, int peer, const Waiting&) { return owner == rank || peer == rank; });
  for (int i = 0; i < static_cast<int>(s.mail.size()); ++i)
    if (i != rank && !s.is_dead(i)) s.put(i, {.kind = Event::Kind::dead, .peer = rank, .message = {}, .ok = false, .session = 0, .why = "killed"});
  for (auto& [key, context] : s.contexts)
    if (std::ranges::find(context->members, rank) != context->members.end()) context->broken = "worker " + std::to_string(rank) + " died";
  s.changed.notify_all();
}

}  // namespace gossamer::dist
