// Bring your own parameters: any method on a flat vector that belongs to somebody else.
#include <algorithm>

#include "gossamer/apps/capi/workers.h"
#include "gossamer/nn/optim.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

// x <- x - update, for methods of any optimizer's name: the caller has one of its own.
class GivenUpdate final : public nn::Sgd {
 public:
  GivenUpdate(FlatParams& params, const char* method)
      : Sgd(params, {.momentum = 0}), name_(dist::method_optimizer(method)) {}
  const char* name() const override { return name_.c_str(); }

 private:
  std::string name_;
};

class Gossip final : public Object {
 public:
  Gossip(std::shared_ptr<Workers> workers, float* x, i64 n, const char* method, const char* graph,
         const gsm_gossip_options& options)
      : x_(x, static_cast<std::size_t>(n)),
        params_({{"x", Tensor::from(x_, {n})}}),
        update_(params_, method),
        training_(std::move(workers), params_, update_, method, graph, options) {
    params_.settle_grads();  // the caller's updates are whole
    take(params_.values());
  }
  bool has_threads() const override { return true; }
  void step(const float* update) {
    std::copy_n(update, x_.size(), params_.grads().as<float>());
    training_.step(1);
    take(params_.compute_f32());
  }
  void finish() {
    training_.finish();
    take(params_.values());
  }
  const Training& training() const { return training_; }

 private:
  void take(const Tensor& values) { std::copy_n(values.as<float>(), x_.size(), x_.begin()); }

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
    *gossip = static_cast<gsm_gossip*>(add_object(std::make_shared<Gossip>(
        workers.object(), x, n, method, graph, options_of(options, "gsm_gossip_options"))));
  });
}

gsm_status gsm_gossip_step(gsm_gossip* gossip, const float* update) {
  return guarded([&] {
    const Exclusive<Gossip> g(gossip);
    check_given("update", update);
    g->step(update);
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
  return guarded([&] { Exclusive<Gossip>(gossip)->finish(); });
}

gsm_status gsm_gossip_stats(gsm_gossip* gossip, gsm_gossip_stats_t* stats) {
  return guarded(
      [&] { give(Exclusive<Gossip>(gossip)->training().stats(), stats, "gsm_gossip_stats_t"); });
}

gsm_status gsm_gossip_free(gsm_gossip* gossip) {
  return guarded([&] { free_object<Gossip>(gossip); });
}
