// Bring your own parameters: any method on a flat vector that belongs to somebody else.
#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "gossamer/apps/capi/bytes.h"
#include "gossamer/apps/capi/cancel.h"
#include "gossamer/apps/capi/workers.h"
#include "gossamer/nn/optim.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

// x <- x - update, for methods of any optimizer's name: the caller has one of its own.
class GivenUpdate final : public nn::Sgd {
 public:
  GivenUpdate(FlatParams& params, const char* method)
      : Sgd(params, {.momentum = 0}), name_(dist::method_traits(method).usual_optimizer()) {}
  const char* name() const override { return name_.c_str(); }

 private:
  std::string name_;
};

// A size that the compiler knows: it looks at such a block in whole registers.
constexpr std::size_t kBlock = 1024;

// Room for sums over steps and workers: 2^27 numbers below 2^100 stay finite.
constexpr float kTooLarge = 0x1p100F;

// The place of the first number that is NaN, or 2^100 or more in magnitude; n if there is none.
std::size_t first_too_large(const float* x, std::size_t n) {
  constexpr std::uint32_t magnitude = 0x7fffffff;
  constexpr std::uint32_t up_to_the_sign =
      (magnitude + 1) - std::bit_cast<std::uint32_t>(kTooLarge);
  std::size_t at = 0;
  for (; at + kBlock <= n; at += kBlock) {
    std::uint32_t seen = 0;  // its highest bit: a magnitude of kTooLarge or more, infinite or NaN
    for (std::size_t i = 0; i < kBlock; ++i)
      seen |= (std::bit_cast<std::uint32_t>(x[at + i]) & magnitude) + up_to_the_sign;
    if (seen >> 31 != 0) break;
  }
  while (at < n && std::abs(x[at]) < kTooLarge) ++at;
  return at;
}

// Ends a call whose number other workers would get, too.
[[noreturn]] void refuse(const char* name, std::size_t at, float value) {
  fail<ArgumentError>(name, "[", at, "] is ", value,
                      "; wanted numbers below 2^100 (1.27e30) in magnitude, so that sums over "
                      "workers stay finite. Nothing was sent, and x is as it was");
}

const std::string kStateName = "gsm_gossip_options.state";

class Gossip final : public Object {
 public:
  // x: the caller's; values: what is there; state: NULL, or what it goes on from
  Gossip(std::shared_ptr<Workers> workers, std::span<float> x, const Tensor& values,
         TrainingPlan plan, const SafeTensors* state)
      : x_(x),
        params_({{"x", values}}),
        update_(params_, plan.method.c_str()),
        training_(std::move(workers), params_, update_, with_state(std::move(plan), state)) {
    params_.settle_grads();  // the caller's updates are whole
  }
  bool has_threads() const override { return true; }
  nn::TrainSnapshot state() { return snapshot({{}, params_, update_}, 0, {}, {}, &training_); }
  std::size_t size() const { return x_.size(); }
  void step(const float* update) {
    training_.check_on();
    // block by block, so that what was looked at is copied from the cache
    float* const gradient = params_.grads().as<float>();
    for (std::size_t at = 0; at < x_.size(); at += kBlock) {
      const std::size_t count = std::min(kBlock, x_.size() - at),
                        bad = first_too_large(update + at, count);
      if (bad < count) refuse("update", at + bad, update[at + bad]);
      std::copy_n(update + at, count, gradient + at);
    }
    training_.step(1);
  }
  void finish() { training_.finish(); }
  // Writes the caller's x: where the next update is to be computed, or the result.
  void take() {
    // during the training values() may be in an exchange already
    const Tensor& from = finished() ? params_.values() : params_.compute_f32();
    std::copy_n(from.as<float>(), x_.size(), x_.begin());
  }
  const Training& training() const { return training_; }

 private:
  TrainingPlan with_state(TrainingPlan plan, const SafeTensors* state) {
    if (!state) return plan;
    plan.from = method_in(*state, kStateName);
    restore({{}, params_, update_}, *state, kStateName);
    const std::span<const float> values = params_.values().span<float>();
    const std::size_t bad = first_too_large(values.data(), values.size());
    if (bad < values.size()) refuse("the x of the state", bad, values[bad]);
    return plan;
  }
  bool finished() const { return training_.finished(); }

  std::span<float> x_;
  FlatParams params_;
  GivenUpdate update_;
  Training training_;
};

}  // namespace

gsm_status gsm_gossip_new(gsm_group* group, float* x, int64_t n, const char* method,
                          const char* graph, const gsm_gossip_options* options,
                          gsm_gossip** gossip) {
  return guarded([&] {
    const Exclusive<Workers> workers(group);
    check_given("x, method, graph or gossip", x, method, graph, gossip);
    check<ArgumentError>(n >= 1 && n < i64{1} << 40, n, " parameters; wanted 1 to ",
                         (i64{1} << 40) - 1);
    const auto count = static_cast<std::size_t>(n), bad = first_too_large(x, count);
    // a worker that was started again takes over the values of another one
    if (bad < count && !workers->restarted()) refuse("x", bad, x[bad]);
    gsm_gossip_options given = options_of(options, "gsm_gossip_options");
    check<ConfigError>(!given.resume,
                       "gsm_gossip_options.resume is for trainers and own networks; give "
                       "gsm_gossip_new a state");
    std::shared_ptr<const SafeTensors> state;
    if (given.state)
      state = std::make_shared<const SafeTensors>(parse_safetensors(
          given_bytes(std::exchange(given.state, nullptr), given.state_size), kStateName));
    TrainingPlan plan = plan_of(method, graph, given);
    plan.resume = state != nullptr;
    const auto made = waiting<std::shared_ptr<Gossip>>(
        [group = workers.object(), at = std::span(x, count),
         values = Tensor::from(std::span(x, count), {n}), plan = std::move(plan),
         state] { return std::make_shared<Gossip>(group, at, values, plan, state.get()); });
    made->take();
    *gossip = static_cast<gsm_gossip*>(add_object(made));
  });
}

gsm_status gsm_gossip_step(gsm_gossip* gossip, const float* update) {
  return guarded([&] {
    check_given("update", update);
    if (!own_cancel()) {
      const Exclusive<Gossip> g(gossip);
      g->step(update);
      g->take();
      return;
    }
    const std::size_t size = Exclusive<Gossip>(gossip)->size();
    run_waiting([gossip, copy = std::vector<float>(update, update + size)] {
      Exclusive<Gossip>(gossip)->step(copy.data());
    });
    Exclusive<Gossip>(gossip)->take();
  });
}

gsm_status gsm_gossip_done(gsm_gossip* gossip, int32_t* done) {
  return guarded([&] {
    const Exclusive<Gossip> g(gossip);
    check_given("done", done);
    *done = g->training().done();
  });
}

gsm_status gsm_gossip_finish(gsm_gossip* gossip) {
  return guarded([&] {
    if (!own_cancel()) {
      const Exclusive<Gossip> g(gossip);
      g->finish();
      g->take();
      return;
    }
    run_waiting([gossip] { Exclusive<Gossip>(gossip)->finish(); });
    Exclusive<Gossip>(gossip)->take();
  });
}

gsm_status gsm_gossip_stats(gsm_gossip* gossip, gsm_gossip_stats_t* stats) {
  return guarded(
      [&] { give(Exclusive<Gossip>(gossip)->training().stats(), stats, "gsm_gossip_stats_t"); });
}

gsm_status gsm_gossip_state_memory(gsm_gossip* gossip, gsm_bytes** bytes) {
  return guarded([&] {
    const Exclusive<Gossip> g(gossip);
    check_given("bytes", bytes);
    check<ConfigError>(!g->training().finished(),
                       "the training has finished; its result is x, from which another one begins");
    const nn::TrainSnapshot state = g->state();
    *bytes = give_bytes(safetensors_bytes(state.tensors, state.header, "gsm_gossip_state_memory"));
  });
}

gsm_status gsm_gossip_free(gsm_gossip* gossip) {
  return guarded([&] { free_object<Gossip>(gossip); });
}
