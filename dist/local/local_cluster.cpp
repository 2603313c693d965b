// LocalCluster: workers as threads of one process. The same interfaces as between processes, so
// tests and lessons run the real methods.
#include "gossamer/dist/local/local_cluster.h"

#include <cstring>

#include "gossamer/core/error.h"
#include "gossamer/dist/local/local_state.h"

namespace gossamer::dist {
namespace {

using namespace local;

class LocalLink : public ControlLink {
 public:
  explicit LocalLink(Self self) : self_(self), shared_(self.shared) {}

  void send(int peer, const Message& message) override {
    const std::scoped_lock lock(shared_.mutex);
    if (self_.dead() || !shared_.sees(self_.rank, peer)) return;
    if (Link& l = shared_.link(self_.rank, peer); l.cut)
      l.held.push_back(message);
    else
      shared_.put(peer, self_.rank, message);
  }
  Event next(Seconds timeout) override {
    std::unique_lock lock(shared_.mutex);
    auto& mail = self_.mail();
    const bool some = shared_.wait(lock, shared_.worker(self_.rank).filled, after(timeout),
                                   self_.rank, [&] { return !mail.empty(); });
    if (!some) return {};
    Event e = std::move(mail.front());
    mail.pop_front();
    return e;
  }
  void post(Event e) override {
    const std::scoped_lock lock(shared_.mutex);
    self_.post(std::move(e));
  }
  bool alive(int peer) const override {
    const std::scoped_lock lock(shared_.mutex);
    shared_.expire_cuts();
    return peer == self_.rank ? !self_.dead() : shared_.sees(self_.rank, peer);
  }

 private:
  Self self_;
  Shared& shared_;
};

class LocalPayload : public Payload {
 public:
  explicit LocalPayload(Self self) : self_(self), shared_(self.shared) {}

  void exchange(int peer, std::uint64_t session, const Tensor& send, const Tensor& receive,
                std::span<const char> note, Seconds deadline) override {
    const std::scoped_lock lock(shared_.mutex);
    const int rank = self_.rank;
    check<DistError>(peer != rank && peer >= 0 && peer < shared_.count(), "exchange of worker ",
                     rank, " with worker ", peer, ": there is no such partner");
    check_exchange(peer, send, receive, note);
    if (self_.dead() || !shared_.sees(rank, peer))
      return self_.post({.kind = Event::Kind::exchanged,
                         .peer = peer,
                         .message = {},
                         .ok = false,
                         .session = session,
                         .why = "dead"});
    check<DistError>(!shared_.meetings.contains({rank, peer, session}), "exchange with worker ",
                     peer, ": session ", session, " is under way already");
    shared_.meetings[{rank, peer, session}] = {
        session, send, receive, {note.begin(), note.end()}, after(deadline)};
    shared_.meet(rank, peer, session);
    shared_.worker(rank).filled.notify_all();  // its deadline may be the next thing to happen
  }
  void abort(int peer, std::uint64_t from_session) override {
    const std::scoped_lock lock(shared_.mutex);
    if (!self_.dead())
      shared_.end_meetings(self_.rank, [&](int with, const Waiting& w) {
        return with == peer && w.session >= from_session;
      });
  }
  // copies are made under the mutex that abort() took
  void drain(Seconds) override {}

 private:
  Self self_;
  Shared& shared_;
};

class LocalCollectives : public Collectives {
 public:
  LocalCollectives(Self self, std::shared_ptr<Context> context)
      : self_(self), shared_(self.shared), context_(std::move(context)) {}

  void all_reduce_sum(const Tensor& x) override { reduce(x.span<float>()); }
  void all_reduce_sum(std::span<double> x, Seconds patience) override { reduce(x, patience); }
  void broadcast(const Tensor& tensor, int root) override {
    meet("broadcast", tensor.data(), tensor.bytes(), [&](std::map<int, void*>& buffers) {
      for (const auto& [rank, to] : buffers)
        if (rank != root) std::memcpy(to, buffers.at(root), tensor.bytes());
    });
  }
  void all_gather(const Tensor& own, const Tensor& all) override {
    check_gathered(own.bytes() * context_->members.size(), all);
    meet_with_two(
        "all_gather", own, all,
        [bytes = own.bytes()](const Pair& from, const Pair& to, std::size_t place, std::size_t) {
          std::memcpy(to.to + place * bytes, from.from, bytes);
        });
  }
  void all_to_all(const Tensor& from, const Tensor& to) override {
    check_gathered(from.bytes(), to);
    const std::size_t bytes = from.bytes() / context_->members.size();
    meet_with_two(
        "all_to_all", from, to,
        [bytes](const Pair& one, const Pair& other, std::size_t place, std::size_t of_other) {
          std::memcpy(other.to + place * bytes, one.from + of_other * bytes, bytes);
        });
  }
  void barrier() override {
    meet("barrier", nullptr, 0, [](std::map<int, void*>&) {});
  }
  int members() const override { return static_cast<int>(context_->members.size()); }
  void interrupt() override {
    const std::scoped_lock lock(shared_.mutex);
    if (context_->broken.empty())
      context_->broken = "given up by worker " + std::to_string(self_.rank);
    shared_.changed.notify_all();
  }

 private:
  // Summed in the order of ranks, so every run gives the same bits.
  template <class T>
  void reduce(std::span<T> x, Seconds patience = Seconds(0)) {
    const auto sum = [&](std::map<int, void*>& buffers) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        T total = 0;
        for (const auto& [rank, buffer] : buffers) total += static_cast<const T*>(buffer)[i];
        for (const auto& [rank, buffer] : buffers) static_cast<T*>(buffer)[i] = total;
      }
    };
    meet("all_reduce_sum", x.data(), x.size_bytes(), sum, patience);
  }

  // What a member sends, and where what comes goes.
  struct Pair {
    const char* from;
    char* to;
  };
  // copy(from whom, to whom, the place of the first, of the second): for each pair of members.
  template <class Copy>
  void meet_with_two(const char* what, const Tensor& from, const Tensor& to, Copy copy) {
    Pair own{static_cast<const char*>(from.data()), static_cast<char*>(to.data())};
    meet(what, &own, to.bytes(), [&](std::map<int, void*>& pairs) {
      std::size_t i = 0;
      for (const auto& [rank, one] : pairs) {
        std::size_t j = 0;
        for (const auto& [peer, other] : pairs)
          copy(*static_cast<const Pair*>(one), *static_cast<const Pair*>(other), i, j++);
        ++i;
      }
    });
  }

  bool all_reach_all() const {
    for (const int a : context_->members)
      for (const int b : context_->members)
        if (a != b && !shared_.reaches(a, b)) return false;
    return true;
  }

  // One of those that have arrived does the work for all, under the lock, so no buffer can go away
  // meanwhile.
  template <class Work>
  void meet(const char* what, void* buffer, std::size_t bytes, Work work,
            Seconds patience = Seconds(0)) {
    std::unique_lock lock(shared_.mutex);
    Context& c = *context_;
    const int rank = self_.rank;
    const auto intact = [&] {
      check<DistTimeout>(c.late.empty(), "worker ", rank, ", ", what, ": ",
                         c.late.contains(rank) ? "the others no longer wait for this one; " : "",
                         c.broken);
      check<DistError>(c.broken.empty(), "worker ", rank, ", ", what, ": ", c.broken);
    };
    if (self_.dead()) fail<DistError>("worker ", rank, ", ", what, ": this worker is dead");
    if (!c.arrived.empty() && (std::string(what) != c.what || bytes != c.bytes)) {
      c.broken = "worker " + std::to_string(rank) + " calls " + what + " of " +
                 std::to_string(bytes) + " bytes, others " + c.what + " of " +
                 std::to_string(c.bytes);
      shared_.changed.notify_all();
    }
    intact();
    c.what = what;
    c.bytes = bytes;
    c.arrived[rank] = buffer;
    const std::uint64_t round = c.round;
    const auto ended = [&] {
      if (c.round == round && c.broken.empty() && c.arrived.size() == c.members.size() &&
          all_reach_all()) {
        work(c.arrived);
        c.arrived.clear();
        ++c.round;
        shared_.changed.notify_all();
      }
      return c.round != round || !c.broken.empty();
    };
    const Seconds limit = std::max(shared_.collective_limit, patience);
    if (!shared_.wait(lock, shared_.changed, after(limit), -1, ended)) {
      std::string missing;
      for (const int m : c.members)
        if (!c.arrived.contains(m)) {
          missing += (missing.empty() ? "" : ", ") + std::to_string(m);
          c.late.insert(m);
        }
      c.broken = "no sign of worker(s) " + missing + " for " +
                 std::to_string(static_cast<int>(limit.count())) + " s";
      shared_.changed.notify_all();
    }
    if (c.round == round) intact();
  }

  Self self_;
  Shared& shared_;
  std::shared_ptr<Context> context_;
};

class LocalGroup : public Group {
 public:
  // Under the lock, as is the making of the first context. A revived worker begins outside of all
  // collectives, as a restarted process does.
  LocalGroup(Self self, std::shared_ptr<Context> context)
      : self_(self),
        shared_(self.shared),
        link_(self),
        payload_(self),
        collectives_(std::make_unique<LocalCollectives>(self, std::move(context))) {}
  int rank() const override { return self_.rank; }
  int size() const override { return shared_.count(); }
  int started() const override { return shared_.started; }
  ControlLink& control() override { return link_; }
  Payload& payload() override { return payload_; }
  Collectives& collectives() override { return *collectives_; }
  Seconds collective_limit() const override { return shared_.collective_limit; }
  void rebuild(const std::vector<int>& alive, std::uint32_t epoch, Seconds) override {
    const std::scoped_lock lock(shared_.mutex);
    auto& context = shared_.contexts[{epoch, alive}];
    // A set that comes again, after a death and a return, finds its old context broken.
    if (!context || !context->broken.empty()) {
      context = std::make_shared<Context>();
      context->members = alive;
      for (const int member : alive)
        if (!shared_.sees(self_.rank, member))
          context->broken = "worker " + std::to_string(member) + " is dead";
    }
    collectives_ = std::make_unique<LocalCollectives>(self_, context);
  }
  std::vector<int> alive() const override {
    const std::scoped_lock lock(shared_.mutex);
    shared_.expire_cuts();
    std::vector<int> out;
    for (int i = 0; i < shared_.count(); ++i)
      if (i == self_.rank ? !self_.dead() : shared_.sees(self_.rank, i)) out.push_back(i);
    return out;
  }
  std::uint64_t arrivals(int peer) const override {
    const std::scoped_lock lock(shared_.mutex);
    return shared_.link(self_.rank, peer).arrivals;
  }

 private:
  Self self_;
  Shared& shared_;
  LocalLink link_;
  LocalPayload payload_;
  std::unique_ptr<LocalCollectives> collectives_;
};

}  // namespace

struct LocalCluster::Impl {
  Impl(int n, Seconds dead_after, Seconds collective_limit, int started)
      : shared(n, dead_after, collective_limit, started), groups(static_cast<std::size_t>(n)) {
    auto& all = shared.contexts[{0, {}}];
    all = std::make_shared<Context>();
    for (int i = 0; i < started; ++i) all->members.push_back(i);
    for (int i = 0; i < n; ++i)
      groups[static_cast<std::size_t>(i)].push_back(
          std::make_unique<LocalGroup>(Self{shared, i, 0}, all));
  }
  Shared shared;
  // by rank, one for each life
  std::vector<std::vector<std::unique_ptr<LocalGroup>>> groups;
};

LocalCluster::LocalCluster(int n, Seconds dead_after, Seconds collective_limit, int started) {
  check<ConfigError>(n >= 1 && started >= 0 && started <= n, "LocalCluster: ", started,
                     " workers in ", n, " places; at least 1 is needed, and a place for each");
  impl_ = std::make_unique<Impl>(n, dead_after, collective_limit, started == 0 ? n : started);
}
LocalCluster::~LocalCluster() = default;

Group& LocalCluster::group(int rank) {
  const std::scoped_lock lock(impl_->shared.mutex);
  return *impl_->groups.at(static_cast<std::size_t>(rank)).back();
}

void LocalCluster::kill(int rank) {
  Shared& s = impl_->shared;
  const std::scoped_lock lock(s.mutex);
  if (s.worker(rank).dead) return;
  s.worker(rank).dead = true;
  s.end_meetings(rank, [](int, const Waiting&) { return true; });
  for (int i = 0; i < s.count(); ++i)
    if (i != rank) s.part(rank, i, "killed");
}

Group& LocalCluster::revive(int rank) {
  Shared& s = impl_->shared;
  const std::scoped_lock lock(s.mutex);
  Worker& w = s.worker(rank);
  check<ConfigError>(w.dead, "LocalCluster: worker ", rank, " is to be revived, but it lives");
  w.dead = false;
  ++w.life;
  w.mail.emplace_back();
  const auto alone = std::make_shared<Context>();
  alone->members = {rank};
  alone->broken = "a worker that came back takes part when all have met again";
  auto& lives = impl_->groups[static_cast<std::size_t>(rank)];
  lives.push_back(std::make_unique<LocalGroup>(Self{s, rank, w.life}, alone));
  for (int i = 0; i < s.count(); ++i) {
    s.link(rank, i).arrivals = 0;
    if (i != rank && !s.worker(i).dead && !s.link(rank, i).cut) s.unite(rank, i);
  }
  return *lives.back();
}

void LocalCluster::cut(int a, int b) {
  Shared& s = impl_->shared;
  const std::scoped_lock lock(s.mutex);
  check<ConfigError>(a != b, "LocalCluster: worker ", a, " can't be cut from itself");
  if (s.link(a, b).cut) return;
  s.link(a, b).cut = s.link(b, a).cut = true;
  if (!s.link(a, b).up) return;
  s.cuts[std::minmax(a, b)] = after(s.dead_after);
  // all that wait, wait for this limit now
  for (Worker& w : s.workers) w.filled.notify_all();
  s.changed.notify_all();
}

void LocalCluster::mend(int a, int b) {
  Shared& s = impl_->shared;
  const std::scoped_lock lock(s.mutex);
  s.expire_cuts();
  s.cuts.erase(std::minmax(a, b));
  if (!s.link(a, b).cut) return;
  for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
    Link& l = s.link(self, peer);
    l.cut = false;
    for (; !l.held.empty(); l.held.pop_front()) s.put(peer, self, l.held.front());
  }
  if (s.worker(a).dead || s.worker(b).dead) return;
  if (!s.link(a, b).up) s.unite(a, b);
  std::vector<std::uint64_t> waiting;
  for (const auto& [key, w] : s.meetings)
    if (std::get<0>(key) == a && std::get<1>(key) == b) waiting.push_back(std::get<2>(key));
  for (const std::uint64_t session : waiting) s.meet(a, b, session);
  s.changed.notify_all();
}

}  // namespace gossamer::dist
