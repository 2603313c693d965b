// Rounds, counts, deaths and the end, for all synchronous methods. Their meetings: meeting.cpp.
#include "gossamer/dist/rounds/synchronous.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/share.h"
#include "gossamer/core/trace.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/rounds/mixing.h"
#include "gossamer/dist/rounds/relay.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {

constexpr int kRoundBits = 32, kSlotBits = 12;  // of a session: epoch, round, slot

// Rounds over those that are left. A name that does not go with their number (a hypercube of seven)
// gives way to one that goes with any.
std::shared_ptr<const Rounds> rounds_over(const std::string& name, int count, int per_node,
                                          bool shrunk, bool directed) {
  try {
    return make_rounds(name, count, per_node);
  } catch (const ConfigError&) {
    if (!shrunk) throw;
    return make_rounds(directed ? "one-peer-exp-directed" : "one-peer-exp", count);
  }
}

// What coding rounds away, f32 [1, vectors * n]; undefined: nothing is kept. It has not the shape
// of values(), because such a state starts as a copy of the model where another number of workers
// goes on.
Tensor coding_error(const MethodContext& with, const RoundTraffic& traffic, std::size_t vectors) {
  const Coding coding = coding_of(with.options.payload);
  const bool keeps = coding == Coding::int8 || (coding == Coding::bf16 && traffic.keeps_bf16_error);
  return keeps && with.group.size() > 1
             ? Tensor::zeros({1, static_cast<i64>(vectors) * with.params.size()})
             : Tensor();
}

std::size_t vectors_of(const RoundFormula& formula) { return 1 + formula.sends_beside().size(); }

Tensor velocity_of(const char* method, Optimizer& optimizer) {
  for (const NamedTensor& each : optimizer.state())
    if (each.name == "momentum") return each.tensor.reshape({-1});
  fail<ConfigError>("method ", method, " steers the momentum of SGD, and the optimizer ",
                    optimizer.name(), " has none; take sgd");
}

std::vector<Coded> codes_of(const MethodContext& with, const std::vector<FlatRange>& pieces,
                            const Tensor& error, std::size_t vectors) {
  const Coding coding = coding_of(with.options.payload);
  std::vector<Coded> out;
  if (coding == Coding::f32 || with.group.size() < 2) return out;
  const auto each = static_cast<i64>(vectors);  // above 1 there is one piece
  for (const FlatRange& r : pieces)
    out.emplace_back(
        coding, each * (r.end - r.begin),
        error.defined() ? error.reshape({-1}).slice(each * r.begin, each * r.end) : Tensor());
  return out;
}

}  // namespace

SynchronousMethod::SynchronousMethod(const MethodTraits& traits, const MethodContext& with,
                                     std::unique_ptr<RoundFormula> formula)
    : SynchronousMethod(traits, with, std::move(formula), {{{0, with.params.size()}}}) {}

SynchronousMethod::SynchronousMethod(const MethodTraits& traits, const MethodContext& with,
                                     std::unique_ptr<RoundFormula> formula,
                                     const RoundTraffic& traffic)
    : params_(with.params),
      optimizer_(with.optimizer),
      group_(with.group),
      options_(with.options),
      membership_(group_, options_.min_workers, Membership::Lost::is_out),
      outer_(params_.values(),
             formula->has_outer_steps() && (group_.size() > 1 || formula->has_outer_steps_alone())),
      traits_(traits),
      formula_(std::move(formula)),
      graph_(with.graph),
      pieces_(traffic.pieces),
      digest_(traits.joins && group_.started() < group_.size()
                  ? run_digest(name(), params_, optimizer_, graph_, options_)
                  : RunDigest{}),
      error_(coding_error(with, traffic, vectors_of(*formula_))),
      own_vectors_(formula_->own_vectors()),
      velocity_(formula_->uses_velocity() ? velocity_of(name(), optimizer_) : Tensor()),
      packed_(vectors_of(*formula_) > 1 && group_.size() > 1
                  ? Tensor::empty({static_cast<i64>(vectors_of(*formula_)) * params_.size()},
                                  DType::f32, params_.values().device())
                  : Tensor()),
      exchange_(group_, slots(), Seconds(options_.exchange_timeout_s),
                codes_of(with, pieces_, error_, vectors_of(*formula_)),
                [this](const Event& e) { handle(e); }),
      members_(static_cast<std::size_t>(options_.rejoin ? 0 : group_.started())),
      quarantine_(group_.rank(), group_.size()),
      resumed_(steps_before() == 0),
      samples_(options_.start_samples),
      samples_at_change_(samples_),
      usual_(pieces_.size() + 1),
      limits_(pieces_.size() + 1) {
  check<ConfigError>(slots() < 1 << kSlotBits, name(), ": the parameters are cut into ", slots(),
                     " pieces, at most ", 1 << kSlotBits, " are possible; use larger buckets");
  check(slots() == 1 || (vectors_of(*formula_) == 1 && formula_->messages_per_round() == 1), name(),
        ": several vectors in pieces");
  std::iota(members_.begin(), members_.end(), 0);
  if (options_.rejoin) members_ = {group_.rank()};
  membership_.listen([this] { exchange_.poll(); });
  for (const OwnVector& each : own_vectors_)
    own_.push_back(each.begins_as_model
                       ? params_.values().clone()
                       : Tensor::zeros({1, params_.size()}, DType::f32, params_.values().device()));
  adopt_members();
  k_ = steps_before();
  sharing_.workers = members_;
  sharing_.known.resize(members_.size());
  if (options_.global_batch > 0) heard_.resize(static_cast<std::size_t>(group_.size()));
  next_ = messages_in_steps(*formula_, k_);
  if (rounds_) validate(*rounds_);
}

SynchronousMethod::~SynchronousMethod() {
  if (finished_ || group_.size() < 2) return;
  // epoch 0: not as planned
  const Message bye{.type = MessageType::bye,
                    .nonce = epoch_,
                    .gradients = static_cast<double>(shared_ - in_step_)};
  for (const int peer : members_)
    if (peer != group_.rank()) group_.control().send(peer, bye);
}

std::vector<NamedTensor> SynchronousMethod::state() {
  std::vector<NamedTensor> all = outer_.state();
  if (error_.defined()) all.push_back({kPayloadError, error_});
  for (std::size_t i = 0; i < own_.size(); ++i)
    if (!own_vectors_[i].name.empty()) all.push_back({own_vectors_[i].name, own_[i]});
  return all;
}

void SynchronousMethod::adopt_members() {
  const bool shrunk = alive() != group_.started() || group_.started() < group_.size();
  by_rank_ = options_.rounds.empty();
  if (alone()) {
    rounds_ = nullptr;
  } else if (by_rank_ && shrunk && formula_->trees() > 0) {
    // What joins the neighbours of the dead is no tree.
    by_rank_ = false;
    rounds_ = make_rounds("tree", alive());
  } else if (by_rank_) {
    std::vector<bool> dead(static_cast<std::size_t>(group_.size()), true);
    for (const int m : members_) dead[static_cast<std::size_t>(m)] = false;
    const bool grows = group_.started() < group_.size();
    rounds_ = make_rounds(grows    ? graph_of_living(graph_, dead, options_.workers_per_node)
                          : shrunk ? heal(graph_, dead)
                                   : graph_);
  } else {
    rounds_ =
        rounds_over(options_.rounds, alive(), options_.workers_per_node, shrunk, traits_.directed);
  }
}

// --- a step

void SynchronousMethod::begin_step(double learning_rate) {
  check<Error>(!finished_, name(), ": step after finish");
  in_step_ = true;
  ++shared_;
  params_.settle_grads();
  learning_rate_ = learning_rate;
  if (formula_->uses_gradient()) unscale_gradient();
  local_step();
  epoch_of_step_ = epoch_;
}

void SynchronousMethod::end_step() {
  // Rounds that began anew since the local step: others are at its beginning. A worker that
  // launched now would wait for them in the next step, while they wait for its measurements in this
  // one.
  if (epoch_ == epoch_of_step_ && formula_->sends_ahead() && !pending(0)) launch_all(next_round());
  samples_ += static_cast<double>(options_.global_batch > 0 ? options_.global_batch
                                                            : alive() * options_.batch);
  in_step_ = false;
  ++steps_;
  ++stats_.gradients;
  if (group_.size() < 2) return note_known();
  exchange_.poll();
  if (newcomers_.waiting() && wall_seconds() >= next_try_) restart_ = true;
  restart_if_needed();
  note_known();
}

void SynchronousMethod::local_step() {
  const i64 k = k_++;  // first: rounds that begin anew begin at 0
  formula_->step(*this, k);
  if (std::exchange(changed_copy_, false)) params_.refresh();
}

void SynchronousMethod::begin_anew() {
  for (std::size_t i = 0; i < own_.size(); ++i)
    if (own_vectors_[i].cleared) own_[i].zero();
}

i64 SynchronousMethod::steps_before() const {
  const i64 of_step =
      options_.global_batch > 0 ? options_.global_batch : options_.batch * group_.started();
  return std::llround(options_.start_samples / static_cast<double>(of_step));
}

// --- rounds

int SynchronousMethod::place_of(int worker) const {
  return by_rank_ ? worker
                  : static_cast<int>(std::ranges::find(members_, worker) - members_.begin());
}

int SynchronousMethod::rank_at(int place) const {
  return by_rank_ ? place : members_[static_cast<std::size_t>(place)];
}

Round SynchronousMethod::round_at(i64 k, bool mirror) const {
  if (!rounds_) return {};
  const auto place_in_tree = [&](int place) { return mirror ? mirrored(place, alive()) : place; };
  Round round =
      rounds_->round(place_in_tree(place_of(group_.rank())), k / formula_->messages_per_round());
  for (auto* all : {&round.in, &round.out}) {
    for (Neighbour& n : *all) n.worker = rank_at(place_in_tree(n.worker));
    if (mirror) std::ranges::reverse(*all);  // ascending
  }
  return with_consensus_factor(std::move(round), formula_->consensus_factor());
}

std::vector<int> SynchronousMethod::neighbours_of(int worker) const {
  std::set<int> met;
  constexpr i64 kMostRounds = 64;  // of a period
  for (i64 k = 0; rounds_ && k < std::min(rounds_->period(), kMostRounds); ++k)
    for (const Neighbour& n : rounds_->round(place_of(worker), k).out)
      met.insert(rank_at(n.worker));
  return {met.begin(), met.end()};
}

void SynchronousMethod::launch(int slot, const Round& round, const Tensor& piece,
                               std::span<const char> note,
                               const std::function<RoundExchange::Outgoing(int)>& each) {
  if (may_refuse() && !alone()) {
    const std::size_t s = usual_place(slot);
    if (usual_[s].wants_norm()) usual_[s].norm(std::sqrt(squared_norm(piece)));
    limits_[s] = usual_[s].limit();
    note = {reinterpret_cast<const char*>(&limits_[s]), sizeof limits_[s]};
  }
  const i64 number = next_ - 1;
  const std::uint64_t session =
      (static_cast<std::uint64_t>(epoch_) + 1) << (kRoundBits + kSlotBits) |
      static_cast<std::uint64_t>(number) << kSlotBits | static_cast<std::uint64_t>(slot);
  exchange_.launch(
      slot, round, number, session, piece, note,
      [this, number](int peer) { return left_out(peer, number); }, each);
}

bool SynchronousMethod::left_out(int peer, i64 round) const {
  const auto stopped = stopped_.find(peer);
  return gone_.contains(peer) || (stopped != stopped_.end() && round >= stopped->second);
}

// What came is of no use. Of exchanges both ways both sides say so.
bool SynchronousMethod::refuses(int slot, const RoundExchange::Part& p) const {
  if (!p.ok) return false;
  if (!may_refuse()) return !std::isfinite(p.squared_distance);
  double theirs = 0;
  check<DistError>(p.note.size() == sizeof theirs, name(), ": worker ", p.peer, " sent a note of ",
                   p.note.size(), " bytes; wanted its limit of distances");
  std::memcpy(&theirs, p.note.data(), sizeof theirs);
  return too_far(std::sqrt(p.squared_distance), limits_[usual_place(slot)], theirs);
}

double SynchronousMethod::arrivals(int slot,
                                   const std::function<void(const RoundExchange::Part&)>& use,
                                   const std::function<void(const RoundExchange::Part&)>& lost) {
  const RoundExchange::Flight& flight = exchange_.wait(slot);
  // What was lost before rounds began anew was the reason for it, and is none to do so again.
  const bool now = of_now(flight);
  for (const RoundExchange::Part& p : flight.parts) {
    const double distance = p.squared_distance;
    const bool refused = refuses(slot, p), ok = p.ok && !refused;
    const double of_models = ok ? squared_distance_of(slot, p) : distance;
    if (p.ok && now) hear_steps(p.peer, static_cast<double>(shared_ - 1));
    ok ? use(p) : lost(p);
    UsualDistance& usual = usual_[usual_place(slot)];
    if (ok && may_refuse()) usual.accepted(std::sqrt(distance));
    if (refused) usual.refused();
    ExchangeRecord& record =
        round_records_
            .try_emplace(p.peer, ExchangeRecord{.peer = p.peer, .session = flight.session})
            .first->second;
    record.ok = record.ok && ok;
    record.refused = record.refused || refused;
    record.distance += of_models;
    record.seconds = std::max(record.seconds, p.seconds);
    // Both sides have refused and go on; anything else has one side only, or breaks what all share.
    restart_ = restart_ || (!ok && now && !(refused && may_refuse()));
  }
  if (slot + 1 < slots() || !of_model_) return flight.own;
  for (auto& [peer, record] : round_records_) {
    record.time = static_cast<double>(steps_);
    if (record.ok) {
      ++stats_.exchanges;
      squared_distance_ =
          squared_distance_ < 0 ? record.distance : 0.9 * squared_distance_ + 0.1 * record.distance;
    } else {
      ++(record.refused ? stats_.refused : stats_.failed);
      if (options_.on_fault && now && !left_out(peer, flight.round) && group_.control().alive(peer))
        options_.on_fault(record.refused ? "exchange refused" : "exchange failed", peer);
    }
    stats_.transfer_s += record.seconds;
    record.distance = std::sqrt(record.distance);
    edges_.add(record);
    if (options_.on_exchange) options_.on_exchange(record);
  }
  if (now) judge_partners();
  round_records_.clear();
  return flight.own;
}

// Refusals of both sides; what only one side can refuse begins rounds anew.
void SynchronousMethod::judge_partners() {
  const bool refusals =
      std::ranges::any_of(round_records_, [](const auto& each) { return each.second.refused; });
  const bool finite = !refusals || all_finite(params_.values());
  for (const auto& [peer, record] : round_records_) {
    std::optional<Message> said;
    if (record.ok) said = quarantine_.applied(peer);
    if (record.refused) said = quarantine_.refused(peer, finite);
    if (!said) continue;
    tell_all(*said);
    judge();
  }
}

void SynchronousMethod::tell_all(const Message& m) {
  for (const int p : members_)
    if (p != group_.rank() && !gone_.contains(p)) group_.control().send(p, m);
}

void SynchronousMethod::judge() {
  for (const int worker : members_) {
    if (gone_.contains(worker)) continue;
    const std::vector<int> neighbours = neighbours_of(worker);
    if (!quarantine_.is_broken(worker, neighbours)) continue;
    if (worker == group_.rank()) {
      const std::string why = quarantine_.verdict(neighbours);
      tell_all(quarantine_.resigns());
      throw GivenUp(why);
    }
    membership_.left(worker);
    lose(worker, "quarantined");
  }
}

// Whoever has sent what this worker waits for in a step has done the steps before it.
void SynchronousMethod::hear_steps(int peer, double steps) {
  if (heard_.empty()) return;
  double& known = heard_[static_cast<std::size_t>(peer)];
  known = std::max(known, std::min(steps, kMostSteps));
}

std::vector<int> SynchronousMethod::members() const {
  std::vector<int> living = members_;
  std::erase_if(living, [&](int m) { return m != group_.rank() && !group_.control().alive(m); });
  return living;
}

void SynchronousMethod::note_known() {
  if (heard_.empty()) return;
  heard_[static_cast<std::size_t>(group_.rank())] = static_cast<double>(shared_);
  for (std::size_t i = 0; i < sharing_.workers.size(); ++i)
    sharing_.known[i] = static_cast<i64>(heard_[static_cast<std::size_t>(sharing_.workers[i])]);
}

double SynchronousMethod::samples_of(std::span<const i64> steps) const {
  i64 batches = 0;
  for (std::size_t i = 0; i < steps.size(); ++i)
    batches += steps[i] * share_of(options_.global_batch / options_.batch, static_cast<i64>(i),
                                   std::ssize(steps));
  return static_cast<double>(batches) * static_cast<double>(options_.batch);
}

bool SynchronousMethod::of_now(const RoundExchange::Flight& flight) const {
  return flight.session >> (kRoundBits + kSlotBits) == static_cast<std::uint64_t>(epoch_) + 1;
}

double SynchronousMethod::squared_distance_of(int, const RoundExchange::Part& p) const {
  if (!of_model_) return 0;
  if (!packed_.defined() || !p.receives) return p.squared_distance;
  return squared_distance(packed(0), p.received.slice(0, params_.size()));
}

void SynchronousMethod::mix(int slot, Tensor values) {
  double missing = 0;
  std::vector<std::pair<double, Tensor>> others;
  const double own = arrivals(
      slot, [&](const RoundExchange::Part& p) { others.emplace_back(p.weight, p.received); },
      [&](const RoundExchange::Part& p) { missing += p.weight; });
  if (const Tensor& sent = exchange_.flight(slot).sent; sent.defined()) {
    // x + sum_j W_ij (their codes - ours): what rounding took stays here
    double shares = 0;
    for (const auto& [weight, received] : others) {
      axpy(values, static_cast<float>(weight), received);
      shares += weight;
    }
    axpy(values, static_cast<float>(-shares), sent);
    return;
  }
  // x + sum_j W_ij (x_j - x): where workers agree, that changes no bit. A formula that sums what
  // mixing does to x would otherwise sum how the same products are rounded in every round.
  const Clipping* clipping = formula_->clipping();
  if (!own_.empty() || clipping) {
    std::vector<double> weights, distances;
    for (auto& [weight, received] : others) {
      axpy(received, -1, values);
      weights.push_back(weight);
      if (clipping) distances.push_back(std::sqrt(squared_norm(received)));
    }
    if (clipping) weights = clipped(*clipping, std::move(weights), distances);
    for (std::size_t j = 0; j < others.size(); ++j)
      if (weights[j] != 0) axpy(values, static_cast<float>(weights[j]), others[j].second);
    return;
  }
  // by rank: the same bits in every run, and in pieces as in one
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto share = static_cast<float>(others[i].first);
    if (i == 0)
      weighted_sum(values, static_cast<float>(own + missing), share, others[i].second);
    else
      axpy(values, share, others[i].second);
  }
}

double SynchronousMethod::gossip() {
  if (alone()) return 0;
  if (before_.defined())
    before_.copy_from(params_.values());
  else
    before_ = params_.values().clone();
  mix_round();
  return squared_distance(params_.values(), before_);
}

void SynchronousMethod::keep_part_of_gossip(double part) {
  if (alone() || part == 1) return;
  Tensor values = params_.values();
  const double share = part_of_values(part);
  weighted_sum(values, static_cast<float>(share), static_cast<float>(1 - share), before_);
}

// --- events

void SynchronousMethod::handle(const Event& e) {
  membership_.hear(e);
  switch (e.kind) {
    case Event::Kind::dead:
      newcomers_.gone(e.peer);
      told_.erase(e.peer);
      return lose(e.peer, e.why == "left" ? "left" : "dead");
    case Event::Kind::joined:
      came_[e.peer] = e.session != 0 ? e.session : group_.arrivals(e.peer);
      return;
    case Event::Kind::message:
      if (e.message.type == MessageType::ask_state) {
        asked_to_join(e.peer, e.message);
      } else if (e.message.type == MessageType::admitted) {
        hear_admission(e.peer, e.message);
      } else if (e.message.type == MessageType::bye && e.message.epoch == 0) {
        membership_.left(e.peer);
        if (e.message.nonce == epoch_ && e.message.gradients >= 0)
          hear_steps(e.peer, e.message.gradients);
        lose(e.peer, "left");
      } else if (e.message.type == MessageType::stopped && e.message.epoch == epoch_) {
        // It waits for the others: what it has not begun it will not begin. If it is done, we may
        // be as well after this step.
        stopped_[e.peer] = e.message.nonce;
        exchange_.drop(e.peer, e.message.nonce);
        restart_ = restart_ || e.message.value == 0;
      } else if (e.message.type == MessageType::doubt) {
        quarantine_.heard(e.peer, e.message);
        judge();
      }
      return;
    default:
      return;
  }
}

void SynchronousMethod::lose(int peer, const std::string& what) {
  if (std::ranges::find(members_, peer) == members_.end() || !gone_.insert(peer).second) return;
  quarantine_.forget(peer);
  restart_ = true;
  exchange_.drop(peer);
  if (options_.on_fault) options_.on_fault(what, peer);
}

// --- the end

void SynchronousMethod::finish() {
  if (finished_) return;
  AveragedModel model;
  const auto average = [&](Collectives&) {
    model = average_of_models(params_, group_, weight_in_mean());
  };
  // A worker that heard of a death in its last step comes to begin anew; it is then done too, and
  // comes again.
  const double until = wall_seconds() + options_.finish_timeout_s;
  for (bool done = false; !done;) {
    const double left = until - wall_seconds();
    check<DistError>(left > 0, unfinished(group_.rank(), training_, options_.finish_timeout_s));
    try {
      done = meet(Purpose::finish, average, 0, Seconds(left));
    } catch (const DistError&) {
      if (wall_seconds() < until) throw;
      exchange_.poll();
      std::vector<int> late;
      for (const int m : members_)
        if (m != group_.rank() && !gone_.contains(m) && !stopped_.contains(m)) late.push_back(m);
      if (late.empty()) throw;
      fail<DistError>(unfinished(group_.rank(), late, options_.finish_timeout_s));
    }
  }
  adopt(params_, model);
  stats_.consensus_distance = model.distance;
  stats_.left_out = model.left_out;
  squared_distance_ = -1;
  finished_ = true;
}

MethodStats SynchronousMethod::stats() const {
  MethodStats out = stats_;
  out.alive = membership_.count();
  out.exposed_s += exchange_.waited();
  out.bytes_sent += exchange_.bytes_sent();
  out.edges = edges_.edges();
  if (squared_distance_ >= 0)
    out.consensus_distance = estimated_consensus_distance(squared_distance_, alive());
  return out;
}

}  // namespace gossamer::dist
