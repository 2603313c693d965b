// The training thread's side of a2cid2 and adpsgd.
#include "gossamer/dist/gossip.h"

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/finish.h"

namespace gossamer::dist {
namespace {

// A worker may have this many exchanges waiting to be started before its training waits for them, and then for this many of its
// gradients at most. What is still owed then is dropped: who can't keep up, or has a slow neighbour, loses exchanges rather than time.
constexpr i64 kMostOwed = 4;
constexpr double kQuotaWait = 1;

}  // namespace

GossipMethod::GossipMethod(bool accelerated, FlatParams& params, Optimizer& optimizer, Group& group, const Graph& graph, const MethodOptions& options)
    : accelerated_(accelerated), params_(params), optimizer_(optimizer), group_(group), options_(options),
      membership_(group, options.min_workers),
      state_(params.values(), accelerated && group.size() > 1 && options.rate > 0, options.seed, group.rank()) {
  const bool exchanges = group.size() > 1 && options.rate > 0;
  check<ConfigError>(!exchanges || !params.aliased(), name(), ": exchanges change the parameters while gradients are computed; build FlatParams "
                     "with FlatOptions::frozen = true, so that a gradient belongs to one point");
  state_.alive = group.size();
  state_.stats.alive = group.size();
  state_.progress = options.start_samples / (static_cast<double>(options.batch) * group.size());
  state_.clock.resume(wall_seconds());
  // At rate 0 too: someone must notice deaths, and the workers stop together.
  if (group.size() > 1) exchanger_ = std::make_unique<Exchanger>(state_, group, membership_, graph, options);
}

GossipMethod::~GossipMethod() = default;

void GossipMethod::step(double learning_rate) {
  check<Error>(!finished_, name(), ": step after finish");
  params_.settle_grads();
  const float factor = clip_factor(params_.grads(), options_.clip_norm);
  const auto rate = static_cast<float>(learning_rate);
  {
    const std::scoped_lock lock(state_.mutex);
    if (state_.error) std::rethrow_exception(state_.error);
    state_.clock.tick(wall_seconds());
    state_.rate.gradient();
    state_.worker.gossip.eta = RateTracker::kSafety * state_.eta_at_rate_1 * state_.rate.rate();
    state_.worker.gradient_event(static_cast<double>(state_.clock.count()), [&](double c, double s) {
      if (!state_.worker.has_twin()) return optimizer_.step(rate, nullptr, factor);
      const Twin twin{state_.worker.twin(), static_cast<float>(c), static_cast<float>(s)};
      optimizer_.step(rate, &twin, factor);
    });
    state_.progress += 1;
    ++state_.stats.gradients;
  }
  if (exchanger_) {
    exchanger_->wake();
    wait_for_quota();
  }
}

void GossipMethod::wait_for_quota() {
  std::unique_lock lock(state_.mutex);
  state_.collect_due(static_cast<double>(state_.clock.count()));
  if (state_.alive == 1) state_.owed = 0;
  if (state_.owed <= kMostOwed) return;
  const trace::Scope scope("wait quota", state_.owed);
  const double began = wall_seconds(), limit = kQuotaWait * state_.clock.mean();
  if (!state_.changed.wait_for(lock, Seconds(limit), [&] { return state_.owed <= kMostOwed || state_.error; })) state_.owed = 0;
  const double now = wall_seconds();
  state_.stats.exposed_s += now - began;
  state_.clock.resume(now);
}

double GossipMethod::samples_seen() const {
  const std::scoped_lock lock(state_.mutex);
  return state_.gradients_of_all() * static_cast<double>(options_.batch);
}

// Done when n q has reached the budget and no exchange under way can lower q again. From then on q stays: every worker ends with
// q >= budget / n by itself, so together they have done the budget, never less.
bool GossipMethod::done() const {
  if (options_.total_samples <= 0) return false;
  const std::scoped_lock lock(state_.mutex);
  if (!state_.settled) state_.settled = !state_.in_flight && state_.gradients_of_all() * static_cast<double>(options_.batch) >= options_.total_samples;
  return state_.settled;
}

void GossipMethod::finish() {
  if (finished_) return;
  {
    const std::scoped_lock lock(state_.mutex);
    state_.settled = true;
  }
  if (exchanger_) exchanger_->finish();
  {
    const std::scoped_lock lock(state_.mutex);
    if (state_.error) std::rethrow_exception(state_.error);
  }
  const double distance = average_models(params_, membership_);
  const std::scoped_lock lock(state_.mutex);
  state_.worker.restart();
  state_.squared_distance = -1;
  state_.stats.consensus_distance = distance;
  state_.stats.alive = static_cast<int>(membership_.members().size());
  finished_ = true;
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
  state_.changed.wait(lock, [&] { return !state_.in_flight || state_.error; });      // ends by the deadline of the exchange
  f();
}

std::vector<NamedTensor> GossipMethod::state() {
  if (!accelerated_) return {};
  return {{"acid.tilde", state_.worker.has_twin() ? state_.worker.twin() : params_.values()}};
}

// Between exchanges the distance is estimated from the differences that partners see. For two workers drawn at random,
// E |x_i - x_j|^2 = 2n/(n-1) * mean |x_i - mean|^2. Neighbours are closer to each other than that: on a sparse graph it is a lower bound.
MethodStats GossipMethod::stats() const {
  const std::scoped_lock lock(state_.mutex);
  MethodStats out = state_.stats;
  out.eta = state_.worker.gossip.eta;
  if (state_.squared_distance >= 0)
    out.consensus_distance = std::sqrt(state_.squared_distance * std::max(1, state_.alive - 1) / (2.0 * std::max(2, state_.alive)));
  return out;
}

}  // namespace gossamer::dist
