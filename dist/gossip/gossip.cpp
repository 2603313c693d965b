// The training thread's side of gossip.
#include "gossamer/dist/gossip/gossip.h"

#include <algorithm>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/finish.h"
#include "gossamer/dist/gossip/recorder.h"
#include "gossamer/dist/kept_gradient.h"

namespace gossamer::dist {
namespace {
// times exchange_timeout_s: as long as a restarted worker looks for a state
constexpr double kTakeoverPatience = 3;
}  // namespace

GossipMethod::GossipMethod(const MethodTraits& traits, const GossipKind& kind,
                           const MethodContext& with, GossipParts parts)
    : name_(traits.name),
      kind_(kind),
      params_(with.params),
      optimizer_(with.optimizer),
      group_(with.group),
      options_(with.options),
      membership_(group_, options_.min_workers),
      state_(
          GossipModel(params_.values(), kind.accelerated && group_.size() > 1 && options_.rate > 0,
                      kind.tracks),
          params_.buffers(),
          Roster(group_.rank(), group_.size(),
                 options_.start_samples / (static_cast<double>(options_.batch) * group_.started()),
                 options_.finish_timeout_s, group_.started()),
          ConsensusEstimate(group_.rank(), options_.seed), group_.size()) {
  const MethodOptions& options = options_;
  FlatParams& params = params_;
  Group& group = group_;
  const Graph& graph = with.graph;
  const bool exchanges = group.size() > 1 && options.rate > 0;
  // exchanges change the parameters while gradients are computed, and a gradient belongs to one
  // point
  if (exchanges) params.separate();
  if (group.size() > 1)
    state_.model.exchange_by(options.wire, group.device_port(), coding_of(options.payload));
  state_.clock.resume(wall_seconds());
  state_.logs = std::move(parts.logs);
  if (with.restore) (*with.restore)(GossipMethod::state());
  state_.model.restart_tracking();
  if (!options.rejoin) share_among_members();
  // At rate 0 too: someone must notice deaths, and the workers stop together.
  if (group.size() == 1) return;
  const RunDigest digest = run_digest(name(), params, optimizer_, graph, options);
  std::vector<Event> early;
  if (options.rejoin) early = start_again(digest, graph);
  state_.optimizer = &optimizer_;
  state_.sender = std::make_unique<StateSender>(group, digest, Seconds(options.exchange_timeout_s));
  if (!parts.policy) parts.policy = make_partner_policy(options, graph, group.rank());
  exchanger_ = std::make_unique<Exchanger>(state_, group, membership_, graph, options,
                                           std::move(parts.policy), std::move(early));
}

// Goes on from where a neighbour is. Returns the events that came meanwhile.
std::vector<Event> GossipMethod::start_again(const RunDigest& digest, const Graph& graph) {
  StateBlock block(params_.values().numel(), state_.model.has_twin(), params_.buffers().numel(),
                   optimizer_.state(), group_.size());
  Takeover taken = take_over(block, digest, group_, graph, Seconds(options_.exchange_timeout_s),
                             Seconds(kTakeoverPatience * options_.exchange_timeout_s));
  {
    const GossipModel::Access access(state_.model);
    Tensor(params_.values()).copy_from(block.x);
    if (state_.model.has_twin()) state_.model.twin().copy_from(block.twin);
  }
  if (block.buffers.numel() > 0) Tensor(params_.buffers()).copy_from(block.buffers);
  block.give(optimizer_.state());
  params_.refresh();
  std::vector<bool> reached;
  for (int p = 0; p < group_.size(); ++p) {
    reached.push_back(group_.control().alive(p));
    if (reached.back() && p != group_.rank()) membership_.joined(p);
  }
  state_.roster.start_again(block.count(), reached, wall_seconds());
  share_among_members();
  return std::move(taken.early);
}

GossipMethod::~GossipMethod() = default;

void GossipMethod::step(double learning_rate) {
  check<Error>(!finished_, name(), ": step after finish");
  params_.settle_grads();
  {
    const std::scoped_lock lock(state_.mutex);
    if (state_.error) std::rethrow_exception(state_.error);
  }
  state_.model.await_gradients();
  // It reads all gradients; the communication thread does not, but it changes y.
  const auto begin = [this] { optimizer_.begin_step({.clip = options_.clip_norm}); };
  if (!kind_.tracks) begin();
  {
    const std::scoped_lock lock(state_.mutex);
    if (kind_.tracks) {
      remove_loss_scale(params_);
      state_.model.track(params_.grads());
      put_loss_scale(params_);
      begin();
    }
    state_.clock.tick(wall_seconds());
    state_.rate.gradient();
    A2cid2& numbers = state_.model.numbers;
    const double rate_reached = state_.rate.rate();
    numbers.eta = RateTracker::kSafety * state_.eta_at_rate_1 * rate_reached;
    // A slow worker among fast ones does many exchanges a gradient, and eta grows with them: then a
    // drift over a whole gradient, taken back, would leave little but its rounding errors.
    if (options_.rate > 0) numbers.longest_gap = 2 / std::max(options_.rate, rate_reached);
    learning_rate *= weight_of_step();
    state_.model.gradient(static_cast<double>(state_.clock.count()), optimizer_,
                          static_cast<float>(learning_rate));
    state_.roster.gradient(own_batches());
    share_among_members();
    ++state_.stats.gradients;
    if (state_.sender && state_.sender->wanted()) state_.fill_sender();
    state_.happened(
        {.kind = WorkerEvent::Kind::gradient, .learning_rate = learning_rate, .eta = numbers.eta});
  }
  if (exchanger_) {
    exchanger_->wake();
    wait_for_exchanges();
  }
}

i64 GossipMethod::own_batches() const {
  if (options_.global_batch == 0) return 1;
  return sharing_.share(options_.global_batch / options_.batch, group_.rank());
}

void GossipMethod::share_among_members() {
  std::vector<int> members;
  for (int worker = 0; worker < group_.size(); ++worker)
    if (state_.roster.member(worker)) members.push_back(worker);
  if (members == sharing_.workers) return;
  sharing_.workers = std::move(members);
}

// A replay's learning rates are those that were recorded, with their weights.
double GossipMethod::weight_of_step() {
  if (!kind_.equal_weight || !options_.replay.empty()) return 1;
  state_.step_time.step(wall_seconds());
  if (state_.step_time.is_news()) {
    state_.step_times.said(group_.rank(), state_.step_time.said());
    state_.tell_step_time = true;
  }
  return state_.step_times.weight(state_.step_time.seconds());
}

// The policy says from which time on training must not run ahead of its exchanges, and for how long
// it may be held up.
void GossipMethod::wait_for_exchanges() {
  std::unique_lock lock(state_.mutex);
  const auto t = static_cast<double>(state_.clock.count());
  const auto free = [&] { return t < state_.hold.at || state_.error; };
  if (free()) return;
  const trace::Scope scope("wait quota");
  const double began = wall_seconds();
  if (!state_.changed.wait_for(lock, Seconds(state_.hold.seconds), free)) state_.waited_in_vain = t;
  const double now = wall_seconds();
  state_.stats.exposed_s += now - began;
  state_.clock.resume(now);
  const bool in_vain = state_.waited_in_vain >= 0;
  lock.unlock();
  if (in_vain) exchanger_->wake();
}

double GossipMethod::samples_seen() const {
  const std::scoped_lock lock(state_.mutex);
  return state_.roster.gradients_of_all() * static_cast<double>(options_.batch);
}

// Done when this worker's estimate of what all have done has reached the budget. The estimate is
// n q: n workers, and a number q that counts own gradients and is averaged in exchanges (roster.h).
// An exchange under way could still lower q, so there must be none. From then on q stays: every
// worker ends with q >= budget / n by itself, so together they have done the budget, never less.
bool GossipMethod::done() const {
  if (options_.total_samples <= 0) return false;
  const std::scoped_lock lock(state_.mutex);
  if (!state_.in_flight && state_.roster.gradients_of_all() * static_cast<double>(options_.batch) >=
                               options_.total_samples)
    complete();
  return state_.roster.is_complete();
}

void GossipMethod::complete() const {
  if (state_.roster.is_complete()) return;
  state_.roster.complete();
  state_.happened({.kind = WorkerEvent::Kind::completed});
}

void GossipMethod::finish() {
  if (finished_) return;
  {
    const std::scoped_lock lock(state_.mutex);
    complete();
  }
  if (exchanger_) exchanger_->finish();  // answers its neighbours until all workers have stopped
  {
    const std::scoped_lock lock(state_.mutex);
    if (state_.error) std::rethrow_exception(state_.error);
  }
  const GossipModel::Access access(state_.model);
  if (!state_.logs.empty()) {
    const Tensor on_host = params_.values().to(Device::cpu());
    const std::uint64_t digest = digest_of(on_host.span<float>());
    for (const auto& log : state_.logs) log->ended(digest);
  }
  std::vector<int> here;
  for (int p = 0; p < group_.size(); ++p)
    if (p != group_.rank() && state_.roster.member(p)) here.push_back(p);
  const AveragedModel model = average_models(params_, group_, membership_);
  const std::vector<int> members = membership_.members();
  for (const int p : here)
    if (options_.on_fault && std::ranges::find(members, p) == members.end())
      options_.on_fault("dead", p);
  if (const std::string who = membership_.given_up(); !who.empty())
    fail<GivenUp>("worker ", group_.rank(), ": ", who,
                  " has given this worker up at the end; the model of the others is without "
                  "this one's");
  const std::scoped_lock lock(state_.mutex);
  state_.model.restart();
  state_.estimate.forget();
  state_.stats.consensus_distance = model.distance;
  state_.stats.left_out = model.left_out;
  state_.stats.alive = static_cast<int>(membership_.members().size());
  finished_ = true;
}

void GossipMethod::read_model(const std::function<void()>& f) {
  const std::scoped_lock lock(state_.mutex);
  const GossipModel::Access access(state_.model);
  f();
}

void GossipMethod::quiesce(const std::function<void()>& f) {
  std::unique_lock lock(state_.mutex);
  struct Hold {
    GossipState& state;
    explicit Hold(GossipState& s) : state(s) { state.held = true; }
    ~Hold() {
      state.held = false;
      state.changed.notify_all();
    }
  } hold(state_);
  // ends by the deadline of the exchange
  state_.changed.wait(lock, [&] { return !state_.in_flight || state_.error; });
  const GossipModel::Access access(state_.model);
  f();
}

std::vector<NamedTensor> GossipMethod::state() {
  std::vector<NamedTensor> all;
  if (kind_.accelerated)
    all.push_back({"acid.tilde", state_.model.has_twin() ? state_.model.twin() : params_.values()});
  // Workers save at moments of their own, between which y has travelled: after a resume it is g.
  if (kind_.tracks) all.push_back({"tracking.gradient", state_.model.last_gradient()});
  if (state_.model.error().defined()) all.push_back({kPayloadError, state_.model.error()});
  return all;
}

MethodStats GossipMethod::stats() const {
  const std::scoped_lock lock(state_.mutex);
  MethodStats out = state_.stats;
  out.eta = state_.model.numbers.eta;
  const int alive = state_.roster.alive();
  if (!finished_) out.alive = alive;
  out.edges = state_.edges.edges();
  if (!finished_) out.consensus_distance = state_.estimate.distance(alive);
  return out;
}

}  // namespace gossamer::dist
