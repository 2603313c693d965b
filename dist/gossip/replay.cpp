// The two threads of a worker take turns as the record says.
#include "gossamer/dist/gossip/replay.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/gossip/gossip.h"
#include "gossamer/dist/gossip/recorder.h"

namespace gossamer::dist {
namespace {

using Kind = WorkerEvent::Kind;

// A replayed worker waits this many times longer for a partner than a live one: the partner comes
// when its own record says so.
constexpr double kPatience = 10;

std::string describe(const WorkerEvent& e) {
  switch (e.kind) {
    case Kind::gradient:
      return "a gradient";
    case Kind::completed:
      return "the end of training";
    case Kind::snapshot:
      return fmt::format("exchange {} with worker {}: its begin", e.session, e.peer);
    case Kind::applied:
      return fmt::format("exchange {} with worker {}: its end", e.session, e.peer);
    case Kind::failed:
      return fmt::format("exchange {} with worker {}: its failure", e.session, e.peer);
    case Kind::lost:
      return fmt::format("the loss of worker {}", e.peer);
  }
  return "";
}

// The record, and how far the worker is in it. Any thread.
class Replay final : public EventLog {
  template <class F>
  auto locked(F f) const {
    const std::scoped_lock lock(mutex_);
    return f();
  }

 public:
  Replay(Record, const RunFacts& wanted, double limit_s);

  // Training: waits until the next event is its own (gradient or completed). nullptr: the record
  // has no more of them, or the communication thread has failed. DistError: nothing happened for
  // limit_s.
  const WorkerEvent* await_training();
  const WorkerEvent* next() const;  // nullptr: the record has ended
  i64 events() const { return static_cast<i64>(record_.events.size()); }
  bool completed() const {
    return locked([&] { return completed_; });
  }
  bool has_failed() const {
    return locked([&] { return failed_; });
  }
  // "replay of FILE, event 17 of 80 (exchange 3 with worker 1: its begin)"
  std::string place() const {
    return locked([&] { return place_locked(); });
  }

  void happened(const WorkerEvent&) override;
  void ended(std::uint64_t digest) override;
  void failed() override;

 private:
  const WorkerEvent* next_locked() const {
    return at_ < record_.events.size() ? &record_.events[at_] : nullptr;
  }
  std::string place_locked() const;

  const Record record_;
  const double limit_s_;
  mutable std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t at_ = 0;
  bool completed_ = false, failed_ = false;
};

Replay::Replay(Record record, const RunFacts& wanted, double limit_s)
    : record_(std::move(record)), limit_s_(limit_s) {
  const RunFacts& f = record_.facts;
  const auto same = [&](const char* what, const auto& recorded, const auto& given) {
    check<ConfigError>(recorded == given, record_.path, ": recorded with ", what, " ", recorded,
                       ", not ", given, "; replay with the configuration of the recorded run");
  };
  same("device", f.device, wanted.device);
  same("method", f.method, wanted.method);
  same("graph", f.graph, wanted.graph);
  same("workers", f.workers, wanted.workers);
  same("rank", f.rank, wanted.rank);
  same("seed", f.seed, wanted.seed);
  same("rate", f.rate, wanted.rate);
  same("batch", f.batch, wanted.batch);
  same("start_samples", f.start_samples, wanted.start_samples);
  same("total_samples", f.total_samples, wanted.total_samples);
  same("parameters (names and shapes)", f.parameters, wanted.parameters);
  for (const WorkerEvent& e : record_.events)
    check<ConfigError>(e.kind != Kind::lost, record_.path, ": the recorded run lost worker ",
                       e.peer, "; only runs without deaths can be replayed");
}

std::string Replay::place_locked() const {
  const WorkerEvent* const e = next_locked();
  return fmt::format("replay of {}, event {} of {} ({})", record_.path, at_ + 1,
                     record_.events.size(), e ? describe(*e) : "the end");
}

const WorkerEvent* Replay::next() const {
  return locked([&] { return next_locked(); });
}

void Replay::happened(const WorkerEvent& e) {
  const std::scoped_lock lock(mutex_);
  const WorkerEvent* const recorded = next_locked();
  if (e.kind == Kind::lost && !recorded) return;  // it has ended before us
  check<DistError>(recorded && recorded->kind == e.kind && recorded->peer == e.peer &&
                       recorded->session == e.session,
                   place_locked(), ": ", describe(e), " has happened instead");
  check<DistError>(recorded->eta == e.eta, place_locked(), ": eta is ", e.eta, ", not ",
                   recorded->eta, " as in the record; is the graph the same?");
  completed_ |= e.kind == Kind::completed;
  ++at_;
  moved_.notify_all();
}

void Replay::failed() {
  const std::scoped_lock lock(mutex_);
  failed_ = true;
  moved_.notify_all();
}

const WorkerEvent* Replay::await_training() {
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::duration<double>(limit_s_);
  for (;;) {
    const WorkerEvent* const e = next_locked();
    if (failed_ || !e || e->kind == Kind::gradient || e->kind == Kind::completed)
      return failed_ ? nullptr : e;
    const std::size_t before = at_;
    check<DistError>(moved_.wait_for(lock, limit, [&] { return at_ != before || failed_; }),
                     place_locked(), " has not happened for ", limit_s_, " s");
  }
}

void Replay::ended(std::uint64_t digest) {
  check<DistError>(next() == nullptr, place(), " was recorded, but the program has finished");
  check<DistError>(
      digest == record_.digest, "replay of ", record_.path,
      ": all events were repeated, but the parameters are not those of the recorded run; "
      "are data, model, number of threads and machine the same?");
}

// Partners and moments as recorded. It sends no messages, and what others send changes nothing.
class ReplayPolicy final : public PartnerPolicy {
 public:
  explicit ReplayPolicy(const Replay& replay) : replay_(replay) {}
  void adopt(const Graph&, const std::vector<bool>&) override {}
  void receive(int, const Message&) override {}
  void gone(int) override {}
  void joined(int) override {}
  void stopped(int) override {}
  void advance(const Now&) override {}
  void drop_due(double) override {}
  void stop() override {}
  void begun() override {}
  void ended() override {}
  std::optional<Meeting> meeting() const override {
    const WorkerEvent* const e = replay_.next();
    if (!e || e->kind != Kind::snapshot) return std::nullopt;
    return Meeting{e->peer, e->session, e->t};
  }
  std::optional<bool> verdict(bool arrived) const override {
    const WorkerEvent* const e = replay_.next();
    if (!e || (e->kind != Kind::applied && e->kind != Kind::failed)) return std::nullopt;
    check<DistError>(arrived || e->kind == Kind::failed, replay_.place(),
                     ": nothing arrived from worker ", e->peer);
    return e->kind == Kind::applied;
  }
  // until the end of the record: exchanges go on when training is over
  bool resting() const override { return replay_.next() == nullptr; }
  Wake wake() const override { return {}; }
  Hold hold() const override { return {}; }
  std::vector<std::pair<int, Message>> take_messages() override { return {}; }

 private:
  const Replay& replay_;
};

// Training waits for its turn.
class ReplayedMethod final : public Method {
 public:
  ReplayedMethod(std::unique_ptr<Method> inner, Replay& replay, int workers)
      : inner_(std::move(inner)), replay_(replay), workers_(static_cast<std::size_t>(workers)) {}

  void prepare(double learning_rate) override { inner_->prepare(learning_rate); }
  // If the communication thread has failed, the inner method throws its error.
  void step(double learning_rate) override {
    const WorkerEvent* const e = replay_.await_training();
    check<DistError>(replay_.has_failed() || (e && e->kind == Kind::gradient), replay_.place(),
                     ": the program does one more gradient than were recorded");
    inner_->step(e ? e->learning_rate : learning_rate);
  }
  double samples_seen() const override { return inner_->samples_seen(); }
  bool done() const override {
    if (replay_.completed()) return true;
    const WorkerEvent* const e = replay_.await_training();
    return e && e->kind == Kind::completed && inner_->done();
  }
  void finish() override {
    const WorkerEvent* const e = replay_.completed() ? nullptr : replay_.await_training();
    check<DistError>(
        replay_.completed() || replay_.has_failed() || (e && e->kind == Kind::completed),
        replay_.place(), ": the program finishes before");
    inner_->finish();
    const std::vector<int> members = inner_->members();
    check<DistError>(members.size() == workers_, "replay: only ", members.size(), " of ", workers_,
                     " workers came to the end; see the error of one that is missing");
    proved_ = true;
  }
  std::vector<int> members() const override { return inner_->members(); }
  void quiesce(const std::function<void()>& f) override { inner_->quiesce(f); }
  void read_model(const std::function<void()>& f) override { inner_->read_model(f); }
  std::vector<NamedTensor> state() override { return inner_->state(); }
  MethodStats stats() const override {
    MethodStats stats = inner_->stats();
    if (proved_) stats.replayed = replay_.events();
    return stats;
  }
  const char* name() const override { return inner_->name(); }

 private:
  std::unique_ptr<Method> inner_;
  Replay& replay_;  // a log of inner_
  const std::size_t workers_;
  bool proved_ = false;
};

}  // namespace

std::unique_ptr<Method> make_gossip(const MethodTraits& traits, const GossipKind& kind,
                                    const MethodContext& with) {
  MethodOptions options = with.options;
  const auto& [params, optimizer, group, graph, given, restore] = with;
  const RunFacts facts{.method = traits.name,
                       .graph = graph.name,
                       .pairing = options.pairing,
                       .device = params.values().device().is_cpu() ? "cpu" : "cuda",
                       .rank = group.rank(),
                       .workers = group.size(),
                       .seed = options.seed,
                       .parameters = params.fingerprint(),
                       .rate = options.rate,
                       .batch = static_cast<double>(options.batch),
                       .start_samples = options.start_samples,
                       .total_samples = options.total_samples};
  GossipParts parts;
  Replay* replay = nullptr;
  if (!options.replay.empty()) {
    // an exchange that came through comes through again, and may have to wait for its partner
    options.exchange_timeout_s *= kPatience;
    options.exchange_least_s = options.exchange_timeout_s;
    auto log = std::make_unique<Replay>(read_record(record_path(options.replay, group.rank())),
                                        facts, options.exchange_timeout_s);
    replay = log.get();
    parts.policy = std::make_unique<ReplayPolicy>(*replay);
    parts.logs.push_back(std::move(log));
  }
  // first: a record of a replay that fails has an end all the same
  if (!options.record.empty())
    parts.logs.insert(parts.logs.begin(), std::make_unique<Recorder>(options.record, facts));
  auto method = std::make_unique<GossipMethod>(
      traits, kind, MethodContext{params, optimizer, group, graph, options, restore},
      std::move(parts));
  if (!replay) return method;
  return std::make_unique<ReplayedMethod>(std::move(method), *replay, group.size());
}

}  // namespace gossamer::dist
