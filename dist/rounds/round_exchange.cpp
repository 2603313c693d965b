// Exchanges of rounds: one queue for each peer, since the carrier takes one exchange at a time with
// each.
#include "gossamer/dist/rounds/round_exchange.h"

#include <algorithm>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/exchange_trace.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {
// seconds for exchanges that were given up to let go of their buffers
constexpr double kSettleLimit = 30;
// seconds that the carrier may be late with the end of an exchange
constexpr double kGrace = 10;
}  // namespace

RoundExchange::RoundExchange(Group& group, std::unique_ptr<RoundCarrier> carrier, int slots,
                             Seconds deadline, std::function<void(const Event&)> other)
    : link_(group.control()),
      rank_(group.rank()),
      deadline_(deadline),
      other_(std::move(other)),
      flights_(static_cast<std::size_t>(slots)),
      carrier_(std::move(carrier)) {}

RoundExchange::~RoundExchange() {
  bool any = false;
  for (auto& [peer, queue] : queues_)
    if (!queue.empty()) carrier_->abort(peer), any = true;
  try {
    if (any) carrier_->settle(Seconds(kSettleLimit));
  } catch (const std::exception&) {
    // a destructor can't tell; whoever waits for the same payload will
  }
}

void RoundExchange::launch(int slot, const Round& round, i64 number, std::uint64_t session,
                           const Tensor& piece, i64 notes,
                           const std::function<bool(int)>& without) {
  const auto s = static_cast<std::size_t>(slot);
  Flight& f = flights_[s];
  check(!f.open, "launch: slot ", slot, " is on its way already");
  // of the flight before: mostly as many are needed again
  std::vector<Tensor> buffers;
  for (Part& p : f.parts)
    if (p.received.defined()) buffers.push_back(std::move(p.received));
  f = {.open = true, .round = number, .session = session, .own = round.own, .parts = {}};
  for (const Neighbour& n : round.in)
    f.parts.push_back({.peer = n.worker, .weight = n.weight, .receives = true});
  for (const Neighbour& n : round.out) {
    const auto known = std::ranges::find(f.parts, n.worker, &Part::peer);
    if (known != f.parts.end())
      known->share = n.weight, known->sends = true;
    else
      f.parts.push_back({.peer = n.worker, .share = n.weight, .sends = true});
  }
  std::ranges::sort(f.parts, {}, &Part::peer);
  for (Part& p : f.parts) {
    if (!p.receives) continue;
    if (buffers.empty())
      buffers.push_back(Tensor::empty({piece.numel()}, DType::f32, piece.device()));
    p.received = std::move(buffers.back());
    buffers.pop_back();
  }
  if (f.parts.empty()) return;
  carrier_->offer(slot, piece, notes);  // after who used the buffers' memory before
  for (std::size_t i = 0; i < f.parts.size(); ++i) {
    Part& p = f.parts[i];
    if (without(p.peer)) {
      end(p, false);
      continue;
    }
    auto& queue = queues_[p.peer];
    queue.push_back({s, i});
    if (queue.size() == 1) start_next(p.peer);
  }
}

void RoundExchange::start_next(int peer) {
  const auto queue = queues_.find(peer);
  if (queue == queues_.end() || queue->second.empty()) return;
  const Job job = queue->second.front();
  Flight& f = flights_[job.slot];
  Part& p = f.parts[job.part];
  p.started = true;
  p.began = wall_seconds();
  p.began_us = transfer_begins();
  if (p.sends) trace_departure(rank_, peer, f.session);
  carrier_->exchange(static_cast<int>(job.slot), peer, f.session, p.sends,
                     p.receives ? p.received : Tensor(), deadline_);
}

void RoundExchange::end(Part& p, bool ok) {
  p.ended = true;
  p.ok = ok;
  p.seconds = p.started ? wall_seconds() - p.began : 0;
}

void RoundExchange::ended(Flight& f, Part& part, bool ok) {
  end(part, ok);
  trace_transfer(part.peer, part.began_us);
  if (part.ok && part.receives) trace_arrival(rank_, part.peer, f.session);
}

// The second event of an exchange whose piece had to be brought to where it is used.
bool RoundExchange::landed(const Event& e) {
  for (Flight& f : flights_) {
    if (f.session != e.session) continue;
    for (Part& p : f.parts)
      if (p.peer == e.peer && p.landing && !p.ended) return ended(f, p, e.ok), true;
  }
  return false;
}

void RoundExchange::handle(const Event& e) {
  if (e.kind == Event::Kind::none) return;
  if (e.kind != Event::Kind::exchanged) return other_(e);
  if (landed(e)) return;
  const auto queue = queues_.find(e.peer);
  if (queue == queues_.end() || queue->second.empty()) return;
  const Job job = queue->second.front();
  Flight& f = flights_[job.slot];
  if (f.session != e.session || !f.parts[job.part].started) return;
  queue->second.pop_front();
  Part& part = f.parts[job.part];
  part.landing = e.ok && part.receives && !carrier_->land(static_cast<int>(job.slot), e.peer);
  if (!part.landing) ended(f, part, e.ok);
  start_next(e.peer);
}

const RoundExchange::Flight& RoundExchange::wait(int slot) {
  complete(slot);
  Flight& f = flights_[static_cast<std::size_t>(slot)];
  f.open = false;
  for (Part& p : f.parts)
    if (p.ok && p.receives) p.arrival = carrier_->arrival(slot, p.peer);
  return f;
}

const RoundExchange::Flight& RoundExchange::complete(int slot) {
  Flight& f = flights_[static_cast<std::size_t>(slot)];
  if (f.parts.empty()) return f;
  const auto done = [&] { return std::ranges::all_of(f.parts, &Part::ended); };
  poll();
  if (!done()) {
    const trace::Scope scope("wait exchange", slot);
    const double began = wall_seconds();
    std::size_t longest = 1;  // exchanges with one peer wait for each other
    for (const auto& [peer, queue] : queues_) longest = std::max(longest, queue.size());
    const double limit = began + static_cast<double>(longest) * deadline_.count() + kGrace;
    while (!done()) {
      const double now = wall_seconds();
      check<DistError>(now < limit, "worker ", rank_, ": an exchange of round ", f.round,
                       " did not end ", kGrace, " s after its deadline");
      handle(link_.next(Seconds(limit - now)));
    }
    waited_ += wall_seconds() - began;
  }
  if (std::ranges::any_of(f.parts, [](const Part& p) { return p.sends && !p.ok; }))
    carrier_->withdraw(slot, Seconds(kSettleLimit));
  return f;
}

void RoundExchange::poll() {
  for (;;) {
    const Event e = link_.next(Seconds(0));
    if (e.kind == Event::Kind::none) return;
    handle(e);
  }
}

void RoundExchange::drop(int peer, i64 from_round) {
  const auto found = queues_.find(peer);
  if (found == queues_.end() || found->second.empty()) return;
  auto& queue = found->second;
  const auto late = [&](const Job& job) { return flights_[job.slot].round >= from_round; };
  // What the carrier holds ends with an event; the rest ends here.
  for (auto it = queue.begin() + 1; it != queue.end();) {
    if (!late(*it)) {
      ++it;
      continue;
    }
    end(flights_[it->slot].parts[it->part], false);
    it = queue.erase(it);
  }
  if (late(queue.front())) carrier_->abort(peer);
}

}  // namespace gossamer::dist
