// A solution of unit 8 of the course: a method of your own, in about 40 lines.
#include <algorithm>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "check.h"
#include "gossamer/dist/graph/theory.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/method.h"
#include "gossamer/nn/optim.h"

using namespace gossamer;
using namespace gossamer::dist;

// Your prediction: 16 workers do not train, they only mix as below. After how many steps do all
// hold the same?
const double prediction = 4;

// In its step k worker i takes its own gradient's step, then averages with the one worker i XOR
// 2^k, k counted modulo log2 n: one peer at a time, another one each time.
class Mine : public Method {
 public:
  Mine(FlatParams& params, Optimizer& optimizer, Group& group, i64 steps)
      : params_(params),
        optimizer_(optimizer),
        group_(group),
        steps_(steps),
        received_(Tensor::empty({params.size()})) {}

  void step(double learning_rate) override {
    optimizer_.step(static_cast<float>(learning_rate));
    int powers = 0;
    while (1 << powers < group_.size()) ++powers;
    const int peer = group_.rank() ^ (1 << (done_ % powers));
    group_.payload().exchange(peer, static_cast<std::uint64_t>(done_), params_.values(), received_,
                              {}, Seconds(5));
    Event e;
    do e = group_.control().next(Seconds(5));
    while (e.kind != Event::Kind::exchanged && e.kind != Event::Kind::none);
    check<DistError>(e.ok, "the exchange with worker ", peer, " failed");
    const auto x = params_.values().span<float>(), other = received_.span<float>();
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = (x[k] + other[k]) / 2;
    ++done_;
  }
  void finish() override {  // the mean of all models
    group_.collectives().all_reduce_sum(params_.values());
    for (float& v : params_.values().span<float>()) v /= static_cast<float>(group_.size());
  }
  double samples_seen() const override { return static_cast<double>(done_) * group_.size(); }
  bool done() const override { return done_ >= steps_; }
  void quiesce(const std::function<void()>& f) override { f(); }
  std::vector<NamedTensor> state() override { return {}; }
  MethodStats stats() const override { return {}; }
  const char* name() const override { return "mine"; }

 private:
  FlatParams& params_;
  Optimizer& optimizer_;
  Group& group_;
  i64 steps_, done_ = 0;
  Tensor received_;  // of the peer
};
