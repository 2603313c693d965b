// Workers with fake GPUs whose real edges, channels and states run in any order a seed picks: which
// message arrives next, which stream goes on, who looks at his device, when the clock moves.
// Watches what must never happen.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dist/gpu/fakes.h"
#include "gossamer/dist/gpu/best_channel.h"
#include "gossamer/dist/gpu/edge.h"
#include "gossamer/dist/gpu/nccl_channel.h"
#include "gossamer/dist/simulation/simulated_worker.h"

namespace gossamer::dist {

class GpuWorld {
 public:
  struct Options {
    int workers = 2;
    std::uint64_t seed = 1;
    // how bytes travel; neither: NCCL; best: peer copies, where the memory can be reached
    bool peer_copy = false, best = false;
    fake::Faults faults{};
    // mean time that an exchange is given; the clock moves by about 0.01 a move
    double patience = 10;
    double breaks = 0;    // probability of a broken connection in a move
    double gives_up = 0;  // that a worker wants to be done with its exchange
    GpuEdge::Limits limits{.grace_s = 1e9, .abort_s = 1e9};
  };
  using Kind = EdgeMessage::Kind;
  using Values = std::vector<double>;
  struct Worker {
    Worker(GpuWorld& world, int id)
        : gpu(world.machine.gpu(id)),
          nccl(id, gpu, gpu, 4, 1),
          copies(gpu, memory),
          best(id, {.copies = &copies,
                    .nccl = &nccl,
                    .near = {},
                    .log = [&world](const std::string& line) { world.decisions.push_back(line); }}),
          order(gpu.make_event()),
          taken(gpu.make_event()),
          state({1.0 * id, 10.0 - id}, true) {
      state.numbers.eta = 0.3;
      state.numbers.alpha_tilde = 0.8;
      GpuChannelMaker& maker = world.options.best        ? static_cast<GpuChannelMaker&>(best)
                               : world.options.peer_copy ? static_cast<GpuChannelMaker&>(copies)
                                                         : nccl;
      for (int p = 0; p < world.options.workers; ++p)
        if (p != id)
          edges.emplace(std::piecewise_construct, std::forward_as_tuple(p),
                        std::forward_as_tuple(id, p, gpu, maker, world.options.limits));
    }
    fake::Gpu& gpu;
    Values send = Values(2), receive = Values(2);
    fake::Memory memory;
    NcclChannelMaker nccl;
    PeerCopyMaker copies;
    BestChannel best;
    const DevicePort::Event order, taken;  // the last work on (x, x~); the snapshot
    std::map<int, GpuEdge> edges;
    SimulatedWorker state;
    double given = 0;  // by gradients
    int peer = -1;     // of the exchange under way
    std::uint64_t session = 0;
    A2cid2::Mark mark;
    bool dead = false;
    std::vector<GpuEdge::Result> results;
  };
  struct Session {
    int a = 0, b = 0;
    std::map<int, Values> snapshot;
    std::set<int> begun, applied, ended;
    std::map<int, std::uint64_t> ready;  // who said so, for which channel
    std::set<int> moved;
    bool broken = false;  // the connection was
  };

  explicit GpuWorld(const Options& o)
      : options(o), machine(o.workers, o.seed, o.faults), random(o.seed, 1) {
    for (int i = 0; i < o.workers; ++i) workers.push_back(std::make_unique<Worker>(*this, i));
  }

  Worker& worker(int i) { return *workers.at(static_cast<std::size_t>(i)); }
  GpuEdge& edge(int i, int peer) { return worker(i).edges.at(peer); }

  // --- what happens to a worker
  std::uint64_t agree(int a, int b) {  // as pairing would: both are free
    const std::uint64_t session = next_session++;
    sessions[session] = {.a = a,
                         .b = b,
                         .snapshot = {},
                         .begun = {},
                         .applied = {},
                         .ended = {},
                         .ready = {},
                         .moved = {}};
    for (const int i : {a, b}) worker(i).peer = i == a ? b : a, worker(i).session = session;
    return session;
  }
  void begin(int i, double patience) {
    Worker& w = worker(i);
    const std::uint64_t session = w.session;
    Session& s = sessions.at(session);
    s.begun.insert(i);
    const double t = now;
    w.gpu.wait(DevicePort::Stream::exchange, w.order);
    w.gpu.run(DevicePort::Stream::exchange, [&w, &s, i, t] {
      // in place: other processes know this address
      w.mark = w.state.snapshot(t, w.send);
      s.snapshot[i] = w.send;
    });
    w.gpu.record(w.order, DevicePort::Stream::exchange);
    w.gpu.record(w.taken, DevicePort::Stream::exchange);
    const std::string note = "of " + std::to_string(i);
    edge(i, w.peer).begin({.session = session,
                           .send = w.send.data(),
                           .receive = w.receive.data(),
                           .bytes = 2 * sizeof(double),
                           .snapshot = w.taken,
                           .note = {note.begin(), note.end()},
                           .inspect = {},
                           .sound = [&w] { return std::isfinite(w.receive[0]); },
                           .until = now + patience},
                          now);
    look(i);
  }
  void gradient(int i, double step) {
    Worker& w = worker(i);
    const double t = now;
    w.gpu.wait(DevicePort::Stream::compute, w.order);
    w.gpu.run(DevicePort::Stream::compute, [&w, step, t] {
      w.state.drift(t);
      w.state.update(0, -step);
    });
    w.gpu.record(w.order, DevicePort::Stream::compute);
    w.given += 2 * step;
  }
  void poll(int i) {
    for (auto& [p, e] : worker(i).edges) e.poll(now);
    look(i);
  }
  bool deliver(int from, int to) {
    auto& queue = mail[{from, to}];
    if (queue.empty()) return false;
    EdgeMessage again;
    const std::vector<char> bytes = encode(queue.front());
    EXPECT_EQ(decode(bytes, again), nullptr);
    EXPECT_EQ(again, queue.front());
    queue.pop_front();
    if (!worker(to).dead) edge(to, from).receive(again, now);
    look(to);
    return true;
  }
  void disconnect(int a, int b) {  // both notice, sooner or later
    for (auto& [id, s] : sessions)
      if (std::minmax(s.a, s.b) == std::minmax(a, b) && s.ended.size() < 2) s.broken = true;
    mail[{a, b}].clear();
    mail[{b, a}].clear();
    unnoticed[std::minmax(a, b)] = {a, b};
  }
  void notice(int i, int peer) {
    edge(i, peer).peer_dead(now);
    look(i);
    auto& left = unnoticed.at(std::minmax(i, peer));
    left.erase(i);
    if (left.empty()) unnoticed.erase(std::minmax(i, peer));
  }
  void give_up(int i) {
    if (worker(i).peer < 0) return;
    edge(i, worker(i).peer).give_up(now);
    look(i);
  }
  void kill(int i) {
    worker(i).dead = true;
    machine.kill(i);
    for (int p = 0; p < options.workers; ++p)
      if (p != i && !worker(p).dead) {
        disconnect(i, p);
        unnoticed.at(std::minmax(i, p)).erase(i);
      }
  }

  // --- named runs: the quickest order
  bool quiet_move() {
    bool any = false;
    for (int i = 0; i < options.workers; ++i) {
      if (worker(i).dead) continue;
      while (machine.step(i)) any = true;
      for (int p = 0; p < options.workers; ++p)
        if (p != i) any |= deliver(p, i);
      const std::size_t before = messages;
      poll(i);
      any |= messages != before;
    }
    return any;
  }
  template <class F>
  bool run_until(F f, double limit = 1e3) {
    for (const double end = now + limit; now < end;) {
      if (f()) return true;
      if (!quiet_move()) now += 0.01;
    }
    return f();
  }
  bool idle() const {
    for (const auto& w : workers)
      if (!w->dead && w->peer >= 0) return false;
    return true;
  }

  // --- any order
  void random_move(bool fresh) {
    const int n = options.workers;
    const int i = static_cast<int>(random.below(static_cast<std::uint32_t>(n)));
    const int j = (i + 1 + static_cast<int>(random.below(static_cast<std::uint32_t>(n - 1)))) % n;
    const auto pair = std::minmax(i, j);
    const auto chance = [&](double p) { return random.uniform53() < p; };
    if (!unnoticed.empty() && chance(.2)) {
      const auto [who, left] = *unnoticed.begin();
      const int first = chance(.5) ? *left.begin() : *left.rbegin();
      notice(first, first == who.first ? who.second : who.first);
      return;
    }
    if (fresh && options.breaks > 0 && !unnoticed.contains(pair) && chance(options.breaks))
      return disconnect(i, j);
    if (fresh && options.gives_up > 0 && chance(options.gives_up)) return give_up(i);
    switch (random.below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        machine.step(i);
        break;
      case 5:
      case 6:
      case 7:
        poll(i);
        break;
      case 8:
      case 9:
      case 10:
        deliver(j, i);
        break;
      case 11:
        now += 0.1 * random.uniform53();
        break;
      case 12:
      case 13:
      case 14:
        if (worker(i).peer >= 0 && !sessions.at(worker(i).session).begun.contains(i))
          begin(i, options.patience * random.exponential());
        else if (fresh && worker(i).peer < 0 && worker(j).peer < 0 && !unnoticed.contains(pair))
          agree(i, j);
        break;
      default:
        if (fresh) gradient(i, random.uniform(-1, 1));
    }
  }
  // Ends what is under way, with no new troubles; false: it does not end.
  bool come_to_rest() {
    options.breaks = options.gives_up = 0;
    const bool hangs = machine.faults.abort_hangs;
    machine.faults = {.abort_hangs = hangs, .notices = machine.faults.notices};
    for (int move = 0; move < 400'000 && !(idle() && unnoticed.empty()); ++move) {
      random_move(false);
      if (move % 50 == 0) now += 0.1;
    }
    const bool rested = idle() && unnoticed.empty();
    for (int i = 0; i < options.workers; ++i)
      while (machine.step(i)) {
      }
    return rested;
  }

  // Sum over workers of x + x~, and what gradients have put into it.
  double total() {
    double sum = 0;
    for (const auto& w : workers) {
      for (const double x : w->state.x) sum += x;
      for (const double x : w->state.twin) sum += x;
      sum -= w->given;
    }
    return sum;
  }
  int applied() const {
    int n = 0;
    for (const auto& [id, s] : sessions) n += static_cast<int>(s.applied.size());
    return n;
  }
  // Both sides applied it, or neither; unless the connection broke.
  bool one_sided() const {
    return std::ranges::any_of(sessions,
                               [](const auto& s) { return s.second.applied.size() == 1; });
  }
  void check() {
    for (const std::string& p : machine.problems()) ADD_FAILURE() << p;
    for (const std::string& p : problems) ADD_FAILURE() << p;
    for (const auto& [id, s] : sessions)
      EXPECT_TRUE(s.applied.size() != 1 || s.broken)
          << "session " << id << " was applied by one side only";
    if (!one_sided()) EXPECT_NEAR(total(), 20.0 * options.workers, 1e-9 * (1 + applied()));
    for (int i = 0; i < options.workers; ++i)
      if (!worker(i).dead)
        EXPECT_LE(machine.live_communicators(i), options.workers - 1)
            << "communicators of worker " << i;
  }

  Options options;
  fake::Machine machine;
  Rng random;
  double now = 0;
  std::vector<std::unique_ptr<Worker>> workers;
  std::map<std::uint64_t, Session> sessions;
  std::uint64_t next_session = 1;
  std::map<std::pair<int, int>, std::deque<EdgeMessage>> mail;
  // broken connections, and who does not know yet
  std::map<std::pair<int, int>, std::set<int>> unnoticed;
  std::vector<std::string> problems, decisions;
  std::size_t messages = 0;

 private:
  void problem(int i, std::uint64_t session, const std::string& what) {
    problems.push_back("worker " + std::to_string(i) + ", session " + std::to_string(session) +
                       ": " + what);
  }

  // Takes what worker i has said and done, and checks it against what all have said.
  void look(int i) {
    Worker& w = worker(i);
    for (auto& [p, e] : w.edges) {
      for (EdgeMessage& message : e.take_messages()) {
        ++messages;
        Session& s = sessions.at(message.session);
        if (message.kind == Kind::ready) s.ready[i] = message.generation;
        if (message.kind == Kind::moved) s.moved.insert(i);
        if (message.kind == Kind::abort && s.moved.contains(i) && !s.broken)
          problem(i, message.session, "took back what it had confirmed");
        if (!unnoticed.contains(std::minmax(i, p))) mail[{i, p}].push_back(std::move(message));
      }
    }
    for (const auto& launch : machine.take_launches()) {
      if (launch.worker != i || w.peer < 0)
        problem(i, w.session, "launched something that is not its own");
      const Session& s = sessions.at(w.session);
      if (!s.ready.contains(i) || !s.ready.contains(w.peer) || s.ready.at(i) != s.ready.at(w.peer))
        problem(i, w.session, "launched before both were ready");
      if (!s.snapshot.contains(i)) problem(i, w.session, "launched before its snapshot was taken");
    }
    for (auto& [p, e] : w.edges)
      if (auto result = e.take_result()) finish(i, p, std::move(*result));
  }

  void finish(int i, int peer, GpuEdge::Result result) {
    Worker& w = worker(i);
    Session& s = sessions.at(result.session);
    if (peer != w.peer || result.session != w.session)
      problem(i, result.session, "a result that nobody waits for");
    s.ended.insert(i);
    if (result.ok) {
      if (!s.moved.contains(i) || !s.moved.contains(peer))
        problem(i, result.session, "applied what was not confirmed by both");
      if (std::string(result.note.begin(), result.note.end()) != "of " + std::to_string(peer))
        problem(i, result.session, "a note of somebody else");
      s.applied.insert(i);
      w.gpu.wait(DevicePort::Stream::exchange, w.order);
      w.gpu.run(DevicePort::Stream::exchange, [this, &w, &s, i, peer, session = result.session] {
        if (w.send != s.snapshot.at(i)) problem(i, session, "its own snapshot was overwritten");
        if (w.receive != s.snapshot.at(peer))
          problem(i, session, "applied something else than the other's snapshot");
        w.state.apply(w.mark, w.send, w.receive);
      });
      w.gpu.record(w.order, DevicePort::Stream::exchange);
    }
    w.results.push_back(std::move(result));
    w.peer = -1;
  }
};

}  // namespace gossamer::dist
