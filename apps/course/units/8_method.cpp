// Unit 8 of the course: a method of your own, in about 40 lines. Fill the hole, then
//   gossamer course check 8
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
const double prediction = NAN;

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
    // The hole.
    // 1. optimizer_.step(learning_rate) makes the step of params_.values().
    // 2. group_.payload().exchange(peer, session, tensor to send, tensor to fill, {},
    //    Seconds(5)) starts an exchange; session: a number that both sides know and that does not
    //    come again.
    // 3. group_.control().next(Seconds(5)) waits for an Event; the one of kind
    //    Event::Kind::exchanged says that received_ is there (if it is ok).
    // 4. params_.values() becomes the mean of both.
    (void)learning_rate;
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

// ---- The test. `gossamer course check` uses its own copy of what follows.

constexpr int kDims = 5;
double target(int rank) { return rank % 3 - 1.0; }

// A worker's place among the others, which sees that no session comes again.
class Watched : public Group, private Payload {
 public:
  explicit Watched(Group& group) : group_(group) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  ControlLink& control() override { return group_.control(); }
  Payload& payload() override { return *this; }
  Collectives& collectives() override { return group_.collectives(); }
  void rebuild(const std::vector<int>& alive, std::uint32_t epoch, Seconds limit) override {
    group_.rebuild(alive, epoch, limit);
  }
  Seconds collective_limit() const override { return group_.collective_limit(); }
  std::vector<int> alive() const override { return group_.alive(); }

 private:
  void exchange(int peer, std::uint64_t session, const Tensor& send, const Tensor& receive,
                std::span<const char> note, Seconds deadline) override {
    course::expect(used_.emplace(peer, session).second,
                   "each exchange of two workers has a session of its own",
                   "session " + std::to_string(session) + " of workers " + std::to_string(rank()) +
                       " and " + std::to_string(peer) +
                       " comes again: the number of the step, done_, does not");
    group_.payload().exchange(peer, session, send, receive, note, deadline);
  }
  void abort(int peer, std::uint64_t from_session) override {
    group_.payload().abort(peer, from_session);
  }
  void drain(Seconds limit) override { group_.payload().drain(limit); }

  Group& group_;
  std::set<std::pair<int, std::uint64_t>> used_;  // peers and sessions
};

// x of each worker after so many steps of |x - target|^2 / 2, begun at its rank; and after
// finish().
struct Outcome {
  std::vector<double> before, after;
};
Outcome train(int n, int steps, double learning_rate) {
  Outcome out{std::vector<double>(static_cast<std::size_t>(n)),
              std::vector<double>(static_cast<std::size_t>(n))};
  LocalCluster cluster(n);
  std::vector<std::string> errors(static_cast<std::size_t>(n));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      try {
        Tensor x = Tensor::full({kDims}, static_cast<float>(rank));
        FlatParams params({{"x", x}});
        nn::Sgd optimizer(params, {.momentum = 0});
        Watched group(cluster.group(rank));
        Mine method(params, optimizer, group, steps);
        while (!method.done()) {
          params.settle_grads();
          for (int k = 0; k < kDims; ++k)
            params.grads().span<float>()[static_cast<std::size_t>(k)] =
                params.values().span<float>()[static_cast<std::size_t>(k)] -
                static_cast<float>(target(rank));
          method.step(learning_rate);
        }
        out.before[at] = x.span<float>()[kDims - 1];
        method.finish();
        out.after[at] = x.span<float>()[kDims - 1];
      } catch (const std::exception& e) {
        errors[at] = e.what();
        cluster.kill(rank);
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& e : errors)
    course::expect(e.empty(), "all workers reach the end",
                   "one said: " + e +
                       ". Do both sides name each other, and the same session? k begins anew after "
                       "log2(n) - 1");
  return out;
}

double mean(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}
double spread(const std::vector<double>& x) {
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  return *most - *least;
}

int main() {
  using course::expect;
  const Outcome once = train(8, 1, 0), mixed = train(8, 3, 0);
  bool moved = false, swapped = true;
  for (int rank = 0; rank < 8; ++rank) {
    const double x = once.before[static_cast<std::size_t>(rank)];
    moved = moved || x != rank;
    swapped = swapped && x == (rank ^ 1);
  }
  expect(moved, "a step mixes", "the workers are where they were: steps 2 to 4");
  expect(!swapped, "a step mixes",
         "each worker holds what its peer held: x becomes the mean of both, not received_ alone");
  expect(
      course::near(mean(once.before), 3.5, 1e-6), "the mean is kept",
      "it was 3.5 and is " + course::shown(mean(once.before)) +
          ": both workers take the mean of the same two. Was received_ there? Wait for the event "
          "`exchanged` and look at its ok; both sides name each other and the same session");
  expect(course::near(once.before[0], .5, 1e-6) && course::near(once.before[7], 6.5, 1e-6),
         "the first step pairs 0 with 1, 2 with 3 ...",
         "worker 0 holds " + course::shown(once.before[0]) +
             " instead of 0.5: the peer is rank ^ (1 << k), and x the mean of both");
  expect(spread(mixed.before) < 1e-6, "after three steps all eight hold the same",
         "they differ by " + course::shown(spread(mixed.before)) +
             ": k grows by one each step, from 0 to log2(n) - 1");
  const Outcome first = train(4, 1, .5);
  expect(course::near(first.before[2], 1.25, 1e-6), "a step begins with the own gradient",
         "worker 2 holds " + course::shown(first.before[2]) +
             " instead of 1.25 after a step of .5: optimizer_.step() first, then the exchange");
  course::done("mixing: the mean is kept, and exact after log2 n steps");

  const Outcome trained = train(4, 300, .05);
  const double wanted = (target(0) + target(1) + target(2) + target(3)) / 4;
  expect(std::abs(mean(trained.before) - mean(train(4, 2, 0).before)) > .1, "it trains",
         "x has not moved: optimizer_.step() takes the learning rate");
  expect(course::near(mean(trained.before), wanted, .01),
         "the mean reaches the common minimum " + course::shown(wanted),
         "it is " + course::shown(mean(trained.before)));
  expect(spread(trained.before) < .2, "the workers stay together",
         "they differ by " + course::shown(spread(trained.before)));
  expect(spread(trained.after) < 1e-6, "finish() makes them one", "it was right as it was");
  course::done("training: four workers with unlike data find the common minimum");
  course::predicted(prediction,
                    static_cast<double>(mixing(*make_rounds("one-peer-exp", 16))->rounds), .01,
                    "the steps until 16 workers agree");
  return course::end();
}
