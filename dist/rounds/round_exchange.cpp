// Exchanges of rounds: started together, ended by the events of the payload.
#include "gossamer/dist/rounds/round_exchange.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/exchange_trace.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {
// seconds for exchanges that were given up to let go of their buffers
constexpr double kDrainLimit = 30;
// seconds that the payload may be late with the end of an exchange
constexpr double kGrace = 10;
}  // namespace

RoundExchange::RoundExchange(Group& group, int slots, Seconds deadline, std::vector<Coded> codes,
                             std::function<void(const Event&)> other)
    : link_(group.control()),
      payload_(group.payload()),
      rank_(group.rank()),
      deadline_(deadline),
      other_(std::move(other)),
      flights_(static_cast<std::size_t>(slots)),
      codes_(std::move(codes)) {}

RoundExchange::~RoundExchange() {
  bool any = false;
  for (const Flight& f : flights_)
    for (const Part& p : f.parts)
      if (!p.ended) payload_.abort(p.peer), any = true;
  try {
    if (any) payload_.drain(Seconds(kDrainLimit));
  } catch (const std::exception&) {
    // a destructor cannot report it; the next call of the same payload will
  }
}

void RoundExchange::launch(int slot, const Round& round, i64 number, std::uint64_t session,
                           const Tensor& piece, std::span<const char> note,
                           const std::function<bool(int)>& without,
                           const std::function<Outgoing(int peer)>& each) {
  const auto s = static_cast<std::size_t>(slot);
  Flight& f = flights_[s];
  check(!f.open, "launch: slot ", slot, " is on its way already");
  // of the flight before: mostly as many are needed again
  std::vector<std::pair<Tensor, Tensor>> buffers;
  for (Part& p : f.parts)
    if (p.received.defined() && p.received.dtype() == piece.dtype() &&
        p.received.numel() == piece.numel())
      buffers.emplace_back(std::move(p.received), std::move(p.codes));
  Tensor sent = std::move(f.sent);
  f = {.open = true,
       .round = number,
       .session = session,
       .own = round.own,
       .piece = piece,
       .sent = {},
       .parts = {}};
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
    if (buffers.empty()) {
      const i64 bytes = codes_.empty() ? 0 : codes_[s].bytes().numel();
      buffers.emplace_back(Tensor::empty({piece.numel()}, piece.dtype(), piece.device()),
                           bytes > 0 ? Tensor::empty({bytes}, DType::u8) : Tensor());
    }
    std::tie(p.received, p.codes) = std::move(buffers.back());
    buffers.pop_back();
  }
  if (!codes_.empty() && !f.parts.empty()) {
    if (!sent.defined()) sent = Tensor::empty({piece.numel()});
    codes_[s].encode(piece, sent);
    f.sent = sent;
  }
  const Outgoing to_all{f.sent.defined() ? codes_[s].bytes() : piece, {note.begin(), note.end()}};
  for (Part& p : f.parts) {
    if (without(p.peer)) {
      end(p, false);
      continue;
    }
    p.began = wall_seconds();
    p.began_us = transfer_begins();
    const Outgoing out = !p.sends ? Outgoing() : each ? each(p.peer) : to_all;
    if (p.sends) trace_departure(rank_, p.peer, session);
    if (p.sends) bytes_sent_ += static_cast<double>(out.piece.bytes());
    payload_.exchange(p.peer, session, out.piece, p.codes.defined() ? p.codes : p.received,
                      out.note, deadline_);
  }
}

void RoundExchange::end(Part& p, bool ok) {
  p.ended = true;
  p.ok = ok;
  p.seconds = p.began > 0 ? wall_seconds() - p.began : 0;
}

void RoundExchange::handle(const Event& e) {
  if (e.kind == Event::Kind::none) return;
  if (e.kind != Event::Kind::exchanged) return other_(e);
  for (Flight& f : flights_) {
    if (f.session != e.session) continue;
    const auto p = std::ranges::find(f.parts, e.peer, &Part::peer);
    if (p == f.parts.end() || p->ended) continue;
    end(*p, e.ok);
    p->note = e.note;
    p->squared_distance = e.squared_distance;
    trace_transfer(p->peer, p->began_us);
    if (p->ok && p->receives) trace_arrival(rank_, p->peer, f.session);
    return;
  }
}

const RoundExchange::Flight& RoundExchange::wait(int slot) {
  complete(slot);
  Flight& f = flights_[static_cast<std::size_t>(slot)];
  f.open = false;
  if (f.sent.defined()) codes_[static_cast<std::size_t>(slot)].keep_error(f.piece, f.sent);
  // Push-sum on directed rounds: the payload has nothing of ours to compare with. Codes are not
  // compared.
  for (Part& p : f.parts) {
    if (!p.ok || !p.receives) continue;
    if (p.codes.defined())
      Coded::decode(codes_[static_cast<std::size_t>(slot)].coding(), p.codes, p.received);
    // What was sent, not what is here: then both sides have the same distance.
    if (p.codes.defined() || (!p.sends && f.piece.dtype() == DType::f32))
      p.squared_distance = squared_distance(f.sent.defined() ? f.sent : f.piece, p.received);
  }
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
    // exchanges with one peer wait for each other
    WaitBudget budget(static_cast<double>(most_with_one_peer()) * deadline_.count() + kGrace);
    while (!done()) {
      check<DistError>(!budget.over(), "worker ", rank_, ": an exchange of round ", f.round,
                       " did not end ", kGrace, " s after its deadline");
      const double before = wall_seconds();
      handle(link_.next(Seconds(budget.turn())));
      budget.waited(wall_seconds() - before);
    }
    waited_ += wall_seconds() - began;
  }
  return f;
}

std::size_t RoundExchange::most_with_one_peer() const {
  std::map<int, std::size_t> count;
  std::size_t most = 1;
  for (const Flight& f : flights_)
    for (const Part& p : f.parts)
      if (!p.ended) most = std::max(most, ++count[p.peer]);
  return most;
}

void RoundExchange::poll() {
  for (;;) {
    const Event e = link_.next(Seconds(0));
    if (e.kind == Event::Kind::none) return;
    handle(e);
  }
}

void RoundExchange::drop(int peer, i64 from_round) {
  std::optional<std::uint64_t> first;
  for (const Flight& f : flights_) {
    const bool late = f.round >= from_round && std::ranges::any_of(f.parts, [&](const Part& p) {
                        return p.peer == peer && !p.ended;
                      });
    if (late) first = std::min(first.value_or(f.session), f.session);
  }
  if (first) payload_.abort(peer, *first);
}

}  // namespace gossamer::dist
