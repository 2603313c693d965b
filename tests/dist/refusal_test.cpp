// Exchanges that are refused, because the two models are further apart than can be right: by both
// sides alike, so the sum of all models stays; never in a run that is in order.
#include <numeric>
#include <thread>

#include <gmock/gmock.h>

#include "dist/around.h"
#include "dist/rounds/synchronous.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/quarantine.h"
#include "gossamer/dist/usual_distance.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kWorkers = 4, kDims = 16;

UsualDistance usual_of(double norm, const std::vector<double>& distances) {
  UsualDistance out;
  EXPECT_TRUE(out.wants_norm());
  out.norm(norm);
  for (const double each : distances) out.accepted(each);
  return out;
}

TEST(UsualDistance, ALimitIsBothOverTheMedianAndOverTheModel) {
  // without a history: six orders of magnitude, or no limit at all where nothing has a scale
  EXPECT_EQ(usual_of(2, {}).limit(), 2e6);
  EXPECT_EQ(usual_of(0, {}).limit(), INFINITY);
  // equal models have told nothing
  EXPECT_EQ(usual_of(2, std::vector<double>(100, 0.0)).limit(), 2e6);
  EXPECT_EQ(usual_of(2, {1, 1, 1, 1, 9, 9, 9}).limit(), 2e6);
  // a thousand medians or norms, whichever is more
  EXPECT_EQ(usual_of(.5, {1, 1, 1, 1, 1, 9, 9, 9}).limit(), 1000);
  EXPECT_EQ(usual_of(2, {1, 1, 1, 1, 1, 9, 9, 9}).limit(), 2000);
  EXPECT_EQ(usual_of(0, {1, 1, 1, 1, 1, 9, 9, 9}).limit(), 1000);
  // what was long ago is forgotten
  std::vector<double> many(100, 1.0);
  many.insert(many.end(), 31, 5.0);
  EXPECT_EQ(usual_of(2, many).limit(), 5000);
}

TEST(UsualDistance, BothSidesDecideAlikeAndWhatIsNotFiniteIsRefused) {
  EXPECT_FALSE(too_far(3, 3, INFINITY));
  EXPECT_FALSE(too_far(0, 0, 0));
  for (const auto& [one, other] : {std::pair(2.0, 5.0), std::pair<double, double>(2.0, INFINITY)}) {
    EXPECT_TRUE(too_far(3, one, other));
    EXPECT_TRUE(too_far(3, other, one));
  }
  EXPECT_TRUE(too_far(NAN, INFINITY, INFINITY));
  EXPECT_TRUE(too_far(INFINITY, INFINITY, INFINITY));
  EXPECT_TRUE(too_far(0, NAN, 1));  // a sender whose own model is not finite
  EXPECT_TRUE(too_far(0, 1, NAN));
  EXPECT_TRUE(std::isnan(usual_of(NAN, {1, 1, 1, 1, 1, 1, 1, 1}).limit()));
}

TEST(UsualDistance, AFalseAlarmEndsWithTheNextExchange) {
  UsualDistance usual = usual_of(1e-7, {});  // nearly zeros at the start
  EXPECT_TRUE(too_far(1, usual.limit(), INFINITY));
  usual.refused();
  EXPECT_TRUE(usual.wants_norm());
  usual.norm(1);
  EXPECT_FALSE(too_far(1, usual.limit(), INFINITY));
  int measured = 0;
  for (int i = 0; i < 1000; ++i) measured += usual.wants_norm();
  EXPECT_LE(measured, 10);  // costs nothing in the long run
}

// Sends something else than the model, from some exchange on, `times` times.
class Spoiler final : public Around {
 public:
  Spoiler(Group& inner, float value, int from, int times)
      : Around(inner), value_(value), from_(from), until_(from + times) {}

 private:
  void exchange(int peer, std::uint64_t session, const Tensor& out, const Tensor& in,
                std::span<const char> note, Seconds deadline) override {
    const bool spoils = count_ >= from_ && count_ < until_ && out.defined();
    ++count_;
    if (!spoils) return Around::exchange(peer, session, out, in, note, deadline);
    kept_.push_back(Tensor::full({out.numel()}, value_));
    Around::exchange(peer, session, kept_.back(), in, note, deadline);
  }
  const float value_;
  const int from_, until_;
  int count_ = 0;
  std::vector<Tensor> kept_;  // a payload holds no copy
};

struct Spoiled {
  std::string method;
  float value;
  int from, times;
};
void PrintTo(const Spoiled& s, std::ostream* out) {
  *out << s.method << " sends " << s.value << ", " << s.times << " times from exchange " << s.from;
}
class OneWorkerSends : public testing::TestWithParam<Spoiled> {};

// The learning rate is 0, so only exchanges change anything: the mean of the models is that of the
// start, and nobody takes part in an exchange that is refused.
TEST_P(OneWorkerSends, NeitherSideTakesItAndTheMeanStays) {
  const Spoiled s = GetParam();
  LocalCluster cluster(kWorkers);
  std::vector<MethodStats> stats(kWorkers);
  std::vector<std::vector<float>> models(kWorkers);
  Pace pace(kWorkers);
  on_workers(cluster, kWorkers, [&](int rank, Group& plain) {
    const Pace::Leaves leaves{pace, rank};
    Spoiler spoiler(plain, s.value, s.from, s.times);
    Group& group = rank == 2 ? spoiler : plain;
    Quadratic q(rank, kDims);
    MethodOptions options;
    options.start_samples = kWorkers;  // each goes on from its own model
    // several times what the exchanges below take where threads wait for a core
    options.total_samples = 300 * kWorkers;
    options.settings.set("overlap", false);
    options.settings = options.settings.only(method_settings(s.method));
    auto method =
        make_method(s.method, q.params, q.sgd, group, make_graph("complete", kWorkers), options);
    while (!method->done()) {
      q.gradient();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      method->step(0);
      pace.step(rank);
    }
    pace.leaves(rank);
    method->finish();
    const auto r = static_cast<std::size_t>(rank);
    stats[r] = method->stats();
    const auto x = q.params.values().span<float>().first(kDims);  // without the padding
    models[r].assign(x.begin(), x.end());
  });
  std::map<std::pair<int, int>, i64> refused;
  for (int rank = 0; rank < kWorkers; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    i64 sum = 0;
    for (const EdgeStats& e : stats[r].edges) refused[{rank, e.peer}] = e.refused, sum += e.refused;
    EXPECT_EQ(stats[r].refused, sum);
    EXPECT_EQ(stats[r].failed, 0);
    EXPECT_THAT(stats[r].left_out, IsEmpty());  // its model is in order
    for (const float x : models[r]) EXPECT_NEAR(x, 1.5, 1e-5);
  }
  for (const auto& [pair, count] : refused) {
    EXPECT_EQ(count, (refused[{pair.second, pair.first}])) << pair.first << " " << pair.second;
    EXPECT_TRUE(count == 0 || pair.first == 2 || pair.second == 2);
  }
  EXPECT_GT(stats[2].refused, 0);
  EXPECT_EQ(stats[2].refused, s.times);
}
// one less than what puts a worker in quarantine, by two neighbours
constexpr int kTooFew = 2 * Quarantine::kInARow - 1;
INSTANTIATE_TEST_SUITE_P(
    Refusals, OneWorkerSends,
    testing::Values(Spoiled{"adpsgd", NAN, 0, 1}, Spoiled{"adpsgd", 1e12f, 20, 1},
                    Spoiled{"adpsgd", INFINITY, 0, kTooFew}, Spoiled{"adpsgd", 1e12f, 0, kTooFew},
                    Spoiled{"async-tracking", NAN, 20, 1},
                    Spoiled{"async-tracking", 1e12f, 20, kTooFew}, Spoiled{"a2cid2", NAN, 20, 1},
                    Spoiled{"a2cid2", 1e12f, 0, 1}, Spoiled{"a2cid2", 1e12f, 20, kTooFew},
                    Spoiled{"dpsgd", NAN, 0, 1}, Spoiled{"dpsgd", 1e12f, 30, 1},
                    Spoiled{"dpsgd", 1e12f, 30, kTooFew}, Spoiled{"dpsgd", NAN, 0, kTooFew}));

// What comes so late that nobody is put in quarantine for it: the others' result is theirs, and the
// one whose model was lost gets it too.
TEST(Refusals, AModelThatWasRuinedIsNotInTheMean) {
  for (const char* name : {"adpsgd", "a2cid2", "async-tracking", "dpsgd", "sgp"})
    for (const float ruin : {NAN, 1e12f}) {
      // push-sum has nobody to refuse: what one sends is gone from it
      if (std::string(name) == "sgp" && ruin == 1e12f) continue;
      SCOPED_TRACE(name);
      LocalCluster cluster(kWorkers);
      Pace pace(kWorkers);
      on_workers(cluster, kWorkers, [&](int rank, Group& group) {
        const Pace::Leaves leaves{pace, rank};
        Quadratic q(rank, kDims);
        MethodOptions options;
        options.total_samples = 40 * kWorkers;
        options.exchange_least_s = options.exchange_timeout_s;
        options.settings.set("quota", "exact");
        options.settings = options.settings.only(method_settings(name));
        auto method =
            make_method(name, q.params, q.sgd, group, make_graph("complete", kWorkers), options);
        bool ruined = false;
        while (!method->done()) {
          q.gradient();
          if (rank == 2 && method->samples_seen() >= options.total_samples - 2 * kWorkers) {
            // values may be on their way: only a step may change them
            Tensor(q.params.grads()).fill(ruined ? 0 : ruin / .02f);
            ruined = true;
          }
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          method->step(.02);
          pace.step(rank);
        }
        pace.leaves(rank);
        method->finish();
        EXPECT_THAT(method->stats().left_out, ElementsAre(2));
        for (const float x : q.params.values().span<float>().first(kDims))
          EXPECT_TRUE(x > 0 && x < 4) << x;
        for (const float x : q.params.buffers().span<float>()) EXPECT_TRUE(std::isfinite(x));
      });
    }
}

// In a sum of all, who counts is decided by all; who does not count goes on as the others do.
struct Summed {
  const char *method, *payload;
  i64 delay;
};
class Sums : public testing::TestWithParam<Summed> {
 protected:
  // Worker by worker: gradients of the ranks `broken` are not finite in step `from` and those after
  // it, `steps` of them.
  static std::vector<std::string> train(const std::vector<int>& broken, int from, int steps,
                                        std::vector<float>& ends, std::vector<int>& told) {
    LocalCluster cluster(kWorkers);
    std::vector<std::string> errors(kWorkers);
    ends.assign(kWorkers, 0), told.assign(kWorkers, 0);
    on_workers(cluster, kWorkers, [&](int rank, Group& group) {
      const auto at = static_cast<std::size_t>(rank);
      Quadratic q(rank, kDims, .9f);
      MethodOptions options;
      options.total_samples = 40 * kWorkers;
      options.payload = GetParam().payload;
      options.settings.set("period", 4);
      options.settings.set("outer_delay", GetParam().delay);
      options.settings = options.settings.only(method_settings(GetParam().method));
      options.on_fault = [&](const std::string& what, int peer) {
        if (what == "left out" && peer == 2) ++told[at];
      };
      auto method = make_method(GetParam().method, q.params, q.sgd, group,
                                make_graph("complete", kWorkers), options);
      errors[at] = error_of([&] {
        for (int step = 0; !method->done(); ++step) {
          q.gradient();
          if (step >= from && step < from + steps &&
              std::ranges::find(broken, rank) != broken.end())
            q.params.grads().span<float>()[3] = q.params.buffers().span<float>()[1] = NAN;
          method->step(.02);
        }
        method->finish();
        EXPECT_THAT(method->stats().left_out, IsEmpty());
        for (const float x : q.params.values().span<float>().first(kDims))
          EXPECT_TRUE(x > 0 && x < 4) << x;
        for (const float x : q.params.buffers().span<float>()) EXPECT_TRUE(std::isfinite(x));
        ends[at] = q.params.values().span<float>()[3];
      });
    });
    return errors;
  }
};
INSTANTIATE_TEST_SUITE_P(Of, Sums,
                         testing::Values(Summed{"allreduce", "f32", 0},
                                         Summed{"local-sgd", "f32", 0}, Summed{"diloco", "f32", 0},
                                         Summed{"diloco", "f32", 2}, Summed{"diloco", "int8", 2},
                                         Summed{"diloco", "int8", 0}, Summed{"diloco", "bf16", 0}),
                         [](const auto& of) {
                           std::string name = of.param.method;
                           std::erase(name, '-');
                           return name + "_" + of.param.payload +
                                  (of.param.delay > 0 ? "_later" : "");
                         });

TEST_P(Sums, LeaveOutAWorkerWhoseValuesAreNotFinite) {
  std::vector<float> ends;
  std::vector<int> told;
  EXPECT_THAT(train({2}, 10, 1, ends, told), testing::Each("no error"));
  EXPECT_THAT(told, testing::Each(1));
  EXPECT_THAT(ends, testing::Each(ends[0]));
}

TEST_P(Sums, EndIfNobodysValuesAreFinite) {
  std::vector<float> ends;
  std::vector<int> told;
  for (const std::string& error : train({0, 1, 2, 3}, 10, 1, ends, told)) {
    EXPECT_THAT(error, HasSubstr(std::string(GetParam().method) + ", step 1"));
    EXPECT_THAT(error, HasSubstr("is not finite: those of worker(s) 0, 1, 2, 3 are not"));
  }
}

// A worker that stays broken is told of once; the others' mean is theirs alone.
TEST(Refusals, AllReduceGoesOnWithTheGradientsOfTheOthers) {
  LocalCluster cluster(kWorkers);
  on_workers(cluster, kWorkers, [&](int rank, Group& group) {
    Quadratic q(rank, kDims);
    MethodOptions options;
    options.total_samples = 5 * kWorkers + 30 * (kWorkers - 1);
    int told = 0;
    options.on_fault = [&](const std::string&, int) { ++told; };
    auto method =
        make_method("allreduce", q.params, q.sgd, group, make_graph("complete", kWorkers), options);
    double x = 1.5;
    int step = 0;
    for (; !method->done(); ++step) {
      q.gradient();
      if (rank == 2 && step >= 5) q.params.grads().span<float>()[7] = INFINITY;
      method->step(.02);
      x -= .02 * (x - (step < 5 ? 1.5 : 4. / 3) - .01 * 3);
      EXPECT_NEAR(q.params.values().span<float>()[3], x, 1e-5);
    }
    EXPECT_EQ(step, 35);
    EXPECT_EQ(told, 1);
    method->finish();
  });
}

// One run of a method as it may be: unlike workers, a schedule that warms up and jumps, models that
// begin at zeros or apart, a late worker, weight in either of the two event orders.
i64 refused_in_a_run(const std::string& name, int run) {
  constexpr int n = 3, steps = 24;
  Rng draw(static_cast<std::uint64_t>(run), 77);
  const bool zeros = run % 3 == 0, apart = run % 3 == 1, warm = run % 2 == 0;
  const float jump = std::array{1.f, 100.f, .001f}[static_cast<std::size_t>(run / 2 % 3)];
  const int late = run % 5 == 0 ? run % n : -1;
  const char* const graph =
      name == "relay-sgd"
          ? graph_for(name)
          : std::array{"ring", "complete", "chain"}[static_cast<std::size_t>(run % 3)];
  LocalCluster cluster(n);
  std::atomic<i64> refused{0};
  on_workers(cluster, n, [&](int rank, Group& group) {
    Quadratic q(rank, 8, run % 4 == 0 ? .9f : 0);
    if (zeros) Tensor(q.params.values()).zero();
    q.params.refresh();
    MethodOptions options;
    options.seed = static_cast<std::uint64_t>(run);
    options.start_samples = apart ? n : 0;
    options.total_samples = n * steps;
    options.settings.set("period", 3);
    options.settings.set("overlap", run % 2 == 1);
    options.settings = options.settings.only(method_settings(name));
    options.pairing = std::array{"handshake", "schedule"}[static_cast<std::size_t>(run % 2)];
    options.exchange_least_s = options.exchange_timeout_s;
    const std::unique_ptr<Optimizer> optimizer = nn::make_optimizer(
        method_traits(name).usual_optimizer(), q.params, {.momentum = run % 4 == 0 ? .9 : 0});
    auto method = make_method(name, q.params, *optimizer, group, make_graph(graph, n), options);
    for (int step = 0; !method->done(); ++step) {
      q.gradient(.1f);
      if (rank == late && step == steps / 2)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const float warmup = warm ? std::min(1.f, static_cast<float>(step) / 8) : 1;
      method->step(.005 * static_cast<double>(warmup * (step > steps / 2 ? jump : 1.f)));
    }
    method->finish();
    refused += method->stats().refused + static_cast<i64>(method->stats().left_out.size());
  });
  return refused;
}

TEST(Refusals, NoneInAThousandRunsOfAllMethodsThatAreInOrder) {
  const std::vector<std::string> names = method_names();
  for (int run = 0; run < 1000; ++run) {
    const std::string& name = names[static_cast<std::size_t>(run) % names.size()];
    ASSERT_EQ(refused_in_a_run(name, run / static_cast<int>(names.size())), 0)
        << name << ", run " << run;
  }
}

}  // namespace
}  // namespace gossamer::dist
