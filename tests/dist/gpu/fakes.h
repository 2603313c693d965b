// Fake GPUs and a fake NCCL for the tests of dist/gpu/: streams that run when the test (or a
// thread) lets them, communicators that open late, fail, hang or lose their peer, and receive
// garbage when they are aborted, as the real ones do. What a program may not do to them is noted.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/gpu/peer_copy.h"
#include "gossamer/dist/gpu/port.h"

namespace gossamer::dist::fake {

struct Faults {
  // each: the probability
  double init_fails = 0, init_hangs = 0, transfer_fails = 0, transfer_hangs = 0, id_fails = 0;
  bool abort_hangs = false;
  // the transfer of this number fails for this worker, in each of its communicators
  int failing = -1;
  std::uint64_t failing_transfer = 0;
  // a transport that sees that its peer is lost: sockets do, NVLink does not
  bool notices = true;
};

class Machine;

// GPU and NCCL of worker `rank`.
class Gpu final : public DevicePort, public NcclPort {
 public:
  Gpu(Machine& machine, int rank) : machine_(machine), rank_(rank) {}

  Event make_event() override;
  void record(Event, Stream) override;
  void wait(Stream, Event) override;
  bool done(Event) override;
  void run(Stream, const std::function<void()>& kernels) override;
  void copy(Stream, void* to, const void* from, std::size_t bytes) override;

  Id unique_id() override;
  Comm init(const Id&, int ranks, int rank, const Options&) override;
  Status status(Comm) override;
  void group_start() override;
  void group_end() override;
  void send(Comm, const void*, std::size_t bytes, int to) override;
  void receive(Comm, void*, std::size_t bytes, int from) override;
  void all_reduce_sum(Comm, const float* from, float* to, std::size_t count) override;
  void abort(Comm) override;
  void finalize(Comm) override;
  bool gone(Comm) override;

  // A graph: what `work` gives to the compute stream is kept and not done. Each launch does it, and
  // marks its events anew.
  class Graph;
  Graph capture(const std::function<void()>& work);
  void launch(const Graph&);

 private:
  friend class Machine;
  // Of one group: a send and a receive, or a sum.
  struct Transfer {
    const void* send = nullptr;
    void* receive = nullptr;
    std::size_t sends = 0, receives = 0;
    bool sums = false;
    std::uint64_t number = 0;  // of the communicator, counted by each side
  };
  struct Work {
    std::function<void()> kernels{};  // or:
    Event event = 0;
    std::uint64_t mark = 0;
    bool waits = false;  // for the event; else reaches it
    Comm comm = 0;       // or a transfer of this communicator
    Transfer transfer{};
  };
  struct Mark {
    std::uint64_t recorded = 0, reached = 0;
  };
  void give(Stream, Work);

  Machine& machine_;
  const int rank_;
  std::array<std::deque<Work>, 3> streams_;
  std::vector<Mark> events_{1};
  std::vector<Work>* captured_ = nullptr;
  bool in_group_ = false;
  std::set<Comm> grouped_;
  std::string refused_;  // what is wrong with a call of this group
};

class Gpu::Graph {
  friend class Gpu;
  std::vector<Work> works_;
};

// All GPUs, and NCCL between them. Every call takes one mutex: what matters here is the order, not
// the speed.
class Machine {
 public:
  explicit Machine(int workers, std::uint64_t seed, Faults f = {}) : faults(f), random(seed) {
    for (int i = 0; i < workers; ++i) gpus_.push_back(std::make_unique<Gpu>(*this, i));
  }
  Gpu& gpu(int rank) { return *gpus_.at(static_cast<std::size_t>(rank)); }

  // Lets one thing happen on worker `rank`'s devices, drawn among those that can: the head of a
  // stream runs, a communicator gets further. False: nothing can.
  bool step(int rank) {
    const std::scoped_lock lock(mutex);
    std::vector<std::function<void()>> possible;
    Gpu& g = gpu(rank);
    for (auto& stream : g.streams_)
      if (!stream.empty() && runnable(g, stream.front()))
        possible.emplace_back([&] { execute(g, stream); });
    for (auto& [id, side] : sides)
      if (side.rank == rank && advances(id, side))
        possible.emplace_back([this, id = id] { advance(id, sides.at(id)); });
    if (possible.empty()) return false;
    possible[random.below(static_cast<std::uint32_t>(possible.size()))]();
    return true;
  }

  // The process of this worker ends: its kernels never run on; the others' sockets to it notice, or
  // not. Its threads, which a test has to wait for, are not kept waiting.
  void kill(int rank) {
    const std::scoped_lock lock(mutex);
    for (auto& stream : gpu(rank).streams_) stream.clear();
    for (auto& event : gpu(rank).events_) event.reached = event.recorded;
    for (auto& [id, side] : sides)
      if (side.rank == rank) side.dead = true;
  }
  int live_communicators(int rank) {
    const std::scoped_lock lock(mutex);
    int n = 0;
    for (const auto& [id, side] : sides) n += side.rank == rank && !side.gone;
    return n;
  }
  // multiprocessors that its communicators may take, all together
  int most_ctas(int rank) {
    const std::scoped_lock lock(mutex);
    int sum = 0;
    for (const auto& [id, side] : sides) sum += side.rank == rank ? side.most_ctas : 0;
    return sum;
  }
  std::vector<std::string> problems() {
    const std::scoped_lock lock(mutex);
    return problems_;
  }
  struct Launch {
    int worker;
    std::string name;
  };
  // all-reduces whose kernels have ended well on this worker
  int sums_done(int rank) {
    const std::scoped_lock lock(mutex);
    return sums_done_[rank];
  }
  std::vector<Launch> take_launches() {
    const std::scoped_lock lock(mutex);
    return std::exchange(launches_, {});
  }

  Faults faults;
  Rng random;
  // kernels run when they are given to a stream; events and transfers take their time all the same
  bool eager = false;

 private:
  friend class Gpu;
  using Comm = NcclPort::Comm;
  // One rank of a communicator.
  struct Side {
    int rank = 0, place = 0, ranks = 2, most_ctas = 0;
    std::string name;
    NcclPort::Id id{};
    NcclPort::Status status;
    bool opening = true, launching = false, aborted = false, gone = false, dead = false,
         hangs = false, running = false, transferred = false;
    // that is being put together or launched; whose kernel is next in the stream, or runs
    Gpu::Transfer group, now;
    std::uint64_t launches = 0;
  };

  void problem(int rank, const std::string& what) {
    problems_.push_back("worker " + std::to_string(rank) + ": " + what);
  }
  // The other ranks of its communicator that have come, by place.
  std::vector<Side*> others(const Side& one) {
    std::vector<Side*> out;
    for (auto& [id, side] : sides)
      if (side.id == one.id && side.place != one.place) out.push_back(&side);
    std::ranges::sort(out, {}, &Side::place);
    return out;
  }
  bool any_lost(const Side& one) {
    return std::ranges::any_of(others(one), [](const Side* s) { return s->dead || s->aborted; });
  }
  bool all_here(const Side& one) {
    return static_cast<int>(others(one).size()) == one.ranks - 1 && !any_lost(one);
  }
  bool in_stream(const Side& side, Comm id) {
    for (const auto& stream : gpu(side.rank).streams_)
      for (const auto& work : stream)
        if (work.comm == id) return true;
    return false;
  }

  Side& usable(Gpu& g, Comm comm) {
    Side& side = sides.at(comm);
    if (!g.in_group_) problem(g.rank_, "a call outside of a group");
    if (side.aborted || side.status.stage == Stage::pending)
      problem(g.rank_, "a call on a communicator that is not open, or has not done the last");
    if (side.status.stage == Stage::failed) g.refused_ = side.status.why;
    if (g.grouped_.insert(comm).second) side.group = {};
    return side;
  }

  // --- streams
  bool runnable(Gpu& g, Gpu::Work& work) {
    if (work.waits) return g.events_[work.event].reached >= work.mark;
    if (work.comm == 0) return true;
    Side& side = sides.at(work.comm);
    return side.aborted || side.transferred || !side.running || meets(side);
  }
  // All kernels run, on healthy communicators.
  bool meets(const Side& side) {
    if (side.hangs || !all_here(side)) return false;
    for (const Side* peer : others(side)) {
      if (peer->hangs || !peer->running || peer->transferred || peer->now.number != side.now.number)
        return false;
      if (peer->now.sums != side.now.sums || side.now.sends != peer->now.receives ||
          side.now.receives != peer->now.sends) {
        if (side.now.sums || peer->now.sums)
          problem(side.rank, "sums of different sizes, or in another order than the others");
        return false;
      }
    }
    return true;
  }
  void transfer(Side& side) {
    std::vector<Side*> all = others(side);
    all.push_back(&side);
    if (side.now.sums) {
      std::ranges::sort(all, {}, &Side::place);
      std::vector<float> sum(side.now.sends / sizeof(float), 0.0f);
      for (const Side* s : all)
        for (std::size_t i = 0; i < sum.size(); ++i)
          sum[i] += static_cast<const float*>(s->now.send)[i];
      for (const Side* s : all) std::memcpy(s->now.receive, sum.data(), side.now.sends);
    } else {
      Side& peer = *all.front();
      std::memcpy(peer.now.receive, side.now.send, side.now.sends);
      std::memcpy(side.now.receive, peer.now.send, peer.now.sends);
    }
    for (Side* s : all) s->transferred = true;
  }
  void execute(Gpu& g, std::deque<Gpu::Work>& stream) {
    Gpu::Work& work = stream.front();
    if (work.comm == 0) {
      const Gpu::Work now = std::move(work);
      stream.pop_front();
      if (now.kernels)
        now.kernels();
      else if (!now.waits)
        g.events_[now.event].reached = std::max(g.events_[now.event].reached, now.mark);
      return;
    }
    Side& side = sides.at(work.comm);
    if (side.aborted) {  // the kernel leaves, as if all were well
      if (!side.transferred) std::memset(work.transfer.receive, 0x7b, work.transfer.receives);
    } else if (!side.running) {
      side.running = true;
      side.now = work.transfer;
      return;
    } else if (!side.transferred) {
      return transfer(side);
    } else if (side.now.sums) {
      ++sums_done_[side.rank];
    }
    side.running = side.transferred = false;
    stream.pop_front();
  }

  // --- communicators
  bool advances(Comm id, const Side& side) {
    if (side.gone) return false;
    if (side.aborted) return !faults.abort_hangs && !in_stream(side, id);
    if (side.dead) return false;
    if (side.status.stage == Stage::failed || side.hangs) return false;
    if (side.opening) return all_here(side);
    return side.launching ||
           (side.running && !side.transferred && faults.notices && any_lost(side));
  }
  void advance(Comm id, Side& side) {
    const auto happens = [&](double probability) {
      return random.uniform() < static_cast<float>(probability);
    };
    if (side.aborted) {
      side.gone = true;
    } else if (side.opening) {
      if (happens(faults.init_hangs))
        side.hangs = true;
      else if (happens(faults.init_fails))
        side.status = {Stage::failed, "unhandled system error"};
      else
        side.opening = false, side.status.stage = Stage::done;
    } else if (side.launching) {
      side.launching = false;
      if (happens(faults.transfer_fails) ||
          (side.rank == faults.failing && side.launches == faults.failing_transfer)) {
        side.status = {Stage::failed, "remote process exited or there was a network error"};
        return;
      }
      if (happens(faults.transfer_hangs)) side.hangs = true;
      side.group.number = ++side.launches;
      gpu(side.rank).streams_[1].push_back({.comm = id, .transfer = side.group});
      side.status.stage = Stage::done;
    } else {
      side.status = {Stage::failed, "the connection was closed by the other side"};
    }
  }

  std::recursive_mutex mutex;  // kernels of tests may call back
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::map<Comm, Side> sides;
  Comm next_comm_ = 1;
  std::uint64_t ids_ = 0;
  std::vector<std::string> problems_;
  std::vector<Launch> launches_;
  std::map<int, int> sums_done_;
};

// --- DevicePort
inline DevicePort::Event Gpu::make_event() {
  const std::scoped_lock lock(machine_.mutex);
  events_.emplace_back();
  return static_cast<Event>(events_.size() - 1);
}
inline void Gpu::record(Event e, Stream stream) { give(stream, {.event = e}); }
inline void Gpu::give(Stream stream, Work work) {
  const std::scoped_lock lock(machine_.mutex);
  if (captured_ && stream == Stream::compute) return captured_->push_back(std::move(work));
  if (!work.kernels) work.mark = ++events_.at(work.event).recorded;
  streams_[static_cast<std::size_t>(stream)].push_back(std::move(work));
}
inline Gpu::Graph Gpu::capture(const std::function<void()>& work) {
  Graph graph;
  const auto capture_to = [this](std::vector<Work>* to) {
    const std::scoped_lock lock(machine_.mutex);
    captured_ = to;
  };
  capture_to(&graph.works_);
  work();
  capture_to(nullptr);
  return graph;
}
inline void Gpu::launch(const Graph& graph) {
  for (const Work& work : graph.works_) give(Stream::compute, work);
}
inline void Gpu::wait(Stream stream, Event e) {
  const std::scoped_lock lock(machine_.mutex);
  streams_[static_cast<std::size_t>(stream)].push_back(
      {.event = e, .mark = events_.at(e).recorded, .waits = true});
}
inline bool Gpu::done(Event e) {
  const std::scoped_lock lock(machine_.mutex);
  return events_.at(e).reached >= events_.at(e).recorded;
}
inline void Gpu::run(Stream stream, const std::function<void()>& kernels) {
  if (machine_.eager) return kernels();
  give(stream, {.kernels = kernels});
}
inline void Gpu::copy(Stream stream, void* to, const void* from, std::size_t bytes) {
  run(stream, [=] { std::memcpy(to, from, bytes); });
}

// --- NcclPort
inline NcclPort::Id Gpu::unique_id() {
  const std::scoped_lock lock(machine_.mutex);
  if (machine_.random.uniform() < static_cast<float>(machine_.faults.id_fails))
    fail<DistError>("ncclGetUniqueId: no socket");
  Id id{};
  const std::uint64_t n = ++machine_.ids_;
  std::memcpy(id.data(), &n, sizeof n);
  return id;
}
inline NcclPort::Comm Gpu::init(const Id& id, int ranks, int rank, const Options& options) {
  const std::scoped_lock lock(machine_.mutex);
  if (ranks < 2 || rank < 0 || rank >= ranks)
    machine_.problem(rank_, "a communicator without this rank");
  for (const auto& [comm, side] : machine_.sides)
    if (side.id == id && side.place == rank) machine_.problem(rank_, "an id that was used before");
  const Comm comm = machine_.next_comm_++;
  machine_.sides[comm] = {.rank = rank_,
                          .place = rank,
                          .ranks = ranks,
                          .most_ctas = options.most_ctas,
                          .name = options.name,
                          .id = id,
                          .status = {},
                          .group = {},
                          .now = {}};
  return comm;
}
inline NcclPort::Status Gpu::status(Comm comm) {
  const std::scoped_lock lock(machine_.mutex);
  Machine::Side& side = machine_.sides.at(comm);
  if (side.aborted) machine_.problem(rank_, "asks an aborted communicator");
  return side.status;
}
inline void Gpu::group_start() {
  const std::scoped_lock lock(machine_.mutex);
  if (std::exchange(in_group_, true)) machine_.problem(rank_, "a group in a group");
}
inline void Gpu::group_end() {
  const std::scoped_lock lock(machine_.mutex);
  if (!std::exchange(in_group_, false)) machine_.problem(rank_, "the end of no group");
  if (grouped_.size() != 1)
    machine_.problem(rank_, "a group of another number of communicators than one");
  const std::set<Comm> grouped = std::exchange(grouped_, {});
  if (const std::string why = std::exchange(refused_, {}); !why.empty()) fail<DistError>(why);
  for (const Comm comm : grouped) {
    Machine::Side& side = machine_.sides.at(comm);
    if (side.group.sends == 0 || side.group.sends != side.group.receives)
      machine_.problem(rank_, "a group without a send and a receive of one size, or a sum");
    side.launching = true;
    side.status.stage = Stage::pending;
    machine_.launches_.push_back({rank_, side.name});
  }
}
inline void Gpu::send(Comm comm, const void* from, std::size_t bytes, int to) {
  const std::scoped_lock lock(machine_.mutex);
  Machine::Side& side = machine_.usable(*this, comm);
  if (side.ranks != 2 || to != 1 - side.place) machine_.problem(rank_, "a send to nobody");
  side.group.send = from;
  side.group.sends = bytes;
}
inline void Gpu::receive(Comm comm, void* to, std::size_t bytes, int from) {
  const std::scoped_lock lock(machine_.mutex);
  Machine::Side& side = machine_.usable(*this, comm);
  if (side.ranks != 2 || from != 1 - side.place) machine_.problem(rank_, "a receive from nobody");
  side.group.receive = to;
  side.group.receives = bytes;
}
inline void Gpu::all_reduce_sum(Comm comm, const float* from, float* to, std::size_t count) {
  const std::scoped_lock lock(machine_.mutex);
  Machine::Side& side = machine_.usable(*this, comm);
  if (side.group.sends != 0) machine_.problem(rank_, "a sum beside something else in one group");
  side.group = {.send = from,
                .receive = to,
                .sends = count * sizeof(float),
                .receives = count * sizeof(float),
                .sums = true};
}
inline void Gpu::abort(Comm comm) {
  const std::scoped_lock lock(machine_.mutex);
  Machine::Side& side = machine_.sides.at(comm);
  if (std::exchange(side.aborted, true)) machine_.problem(rank_, "aborts twice");
  side.launching = false;
}
inline void Gpu::finalize(Comm comm) { abort(comm); }
inline bool Gpu::gone(Comm comm) {
  const std::scoped_lock lock(machine_.mutex);
  return machine_.sides.at(comm).gone;
}

// Another worker's snapshot, by its address.
class Memory final : public PeerMemory {
 public:
  bool reachable = true;
  ChannelBytes share(const Sent& own) override {
    ChannelBytes out(sizeof own.data);
    std::memcpy(out.data(), &own.data, sizeof own.data);
    return out;
  }
  std::shared_ptr<const void> open(const ChannelBytes& shared, std::size_t) override {
    check<DistError>(reachable, "no mapping of another container's memory");
    const void* theirs = nullptr;
    check<DistError>(shared.size() == sizeof theirs, "a handle of ", shared.size(), " bytes");
    std::memcpy(&theirs, shared.data(), sizeof theirs);
    return {std::shared_ptr<void>(), theirs};
  }
};

}  // namespace gossamer::dist::fake
