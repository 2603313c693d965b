// Turns of two threads, by the record.
#include "gossamer/dist/gossip/replay.h"

#include <chrono>

#include <fmt/format.h>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

using Kind = RecordedEvent::Kind;

std::string describe(const RecordedEvent& e) {
  switch (e.kind) {
    case Kind::gradient:
      return "a gradient";
    case Kind::settled:
      return "the end of training";
    case Kind::snapshot:
      return fmt::format("exchange {} with worker {}: its begin", e.session, e.peer);
    case Kind::applied:
      return fmt::format("exchange {} with worker {}: its end", e.session, e.peer);
    case Kind::failed:
      return fmt::format("exchange {} with worker {}: its failure", e.session, e.peer);
    case Kind::gone:
      return fmt::format("the death of worker {}", e.peer);
  }
  return "";
}

}  // namespace

Replay::Replay(Record record, const RunFacts& wanted, double limit_s)
    : record_(std::move(record)), limit_s_(limit_s) {
  const RunFacts& f = record_.facts;
  const auto same = [&](const char* what, const auto& recorded, const auto& given) {
    check<ConfigError>(recorded == given, record_.path, ": recorded with ", what, " ", recorded,
                       ", not ", given, "; replay with the configuration of the recorded run");
  };
  same("method", f.method, wanted.method);
  same("graph", f.graph, wanted.graph);
  same("workers", f.workers, wanted.workers);
  same("rank", f.rank, wanted.rank);
  same("seed", f.seed, wanted.seed);
  same("rate", f.rate, wanted.rate);
  same("batch", f.batch, wanted.batch);
  same("start_samples", f.start_samples, wanted.start_samples);
  same("parameters (names and shapes)", f.parameters, wanted.parameters);
  for (const RecordedEvent& e : record_.events)
    check<ConfigError>(e.kind != Kind::gone, record_.path, ": the recorded run lost worker ",
                       e.peer, "; only runs without deaths can be replayed");
}

std::string Replay::place_locked() const {
  const std::string what = at_ < record_.events.size() ? describe(record_.events[at_]) : "the end";
  return fmt::format("replay of {}, event {} of {} ({})", record_.path, at_ + 1,
                     record_.events.size(), what);
}

std::string Replay::place() const {
  const std::scoped_lock lock(mutex_);
  return place_locked();
}

const RecordedEvent* Replay::next() const {
  const std::scoped_lock lock(mutex_);
  return at_ < record_.events.size() ? &record_.events[at_] : nullptr;
}

void Replay::pass() {
  const std::scoped_lock lock(mutex_);
  ++at_;
  moved_.notify_all();
}

void Replay::give_up() {
  const std::scoped_lock lock(mutex_);
  given_up_ = true;
  moved_.notify_all();
}

const RecordedEvent* Replay::await_training() {
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::duration<double>(limit_s_);
  for (;;) {
    check<DistError>(!given_up_, place_locked(), ": the communication thread has failed");
    if (at_ >= record_.events.size()) return nullptr;
    if (is_training(record_.events[at_])) return &record_.events[at_];
    const std::size_t before = at_;
    check<DistError>(moved_.wait_for(lock, limit, [&] { return at_ != before || given_up_; }),
                     place_locked(), " has not happened for ", limit_s_, " s");
  }
}

const RecordedEvent& Replay::await_gradient() {
  const RecordedEvent* e = await_training();
  check<DistError>(e != nullptr && e->kind == Kind::gradient, place(),
                   ": the program does one more gradient than were recorded");
  return *e;
}

void Replay::check_end(std::uint64_t digest) const {
  check<DistError>(next() == nullptr, place(), " was recorded, but the program has finished");
  check<DistError>(
      digest == record_.digest, "replay of ", record_.path,
      ": all events were repeated, but the parameters are not those of the recorded run; "
      "are data, model, number of threads and machine the same?");
}

void ReplayPolicy::gone(int peer) {
  check<DistError>(replay_.next() == nullptr, replay_.place(), ": worker ", peer, " has gone");
}

std::optional<Meeting> ReplayPolicy::meeting() const {
  const RecordedEvent* e = replay_.next();
  if (!e || e->kind != Kind::snapshot) return std::nullopt;
  return Meeting{e->peer, e->session, e->t};
}

bool ReplayPolicy::may_end() const {
  const RecordedEvent* e = replay_.next();
  return e && (e->kind == Kind::applied || e->kind == Kind::failed);
}

bool ReplayPolicy::accepts(bool arrived) const {
  const RecordedEvent* e = replay_.next();
  if (!e || e->kind != Kind::applied) return false;
  check<DistError>(arrived, replay_.place(), ": nothing arrived from worker ", e->peer);
  return true;
}

}  // namespace gossamer::dist
