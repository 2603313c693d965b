// Methods for workers whose data differ, on the problem of unlike_data.h, for which the values
// after 3, 50 and 2,000 rounds are known (computed from the matrix form of each method in double
// precision, in Python).
#include "dist/methods/unlike_data.h"

#include <atomic>
#include <functional>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/local/local_cluster.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

struct Case {
  const char* name;
  const char* method;
  double momentum;
  bool nesterov;
  Settings settings;
  Points after3, after50;
  double distance;  // after 2,000, to the minimum
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class UnlikeData : public testing::TestWithParam<Case> {};

TEST_P(UnlikeData, TheFormulaGivesTheKnownValues) {
  const Case& c = GetParam();
  InDouble all(c.method, c.settings, c.momentum, c.nesterov);
  const auto expect = [&](const Points& wanted, int round) {
    for (std::size_t i = 0; i < kWorkers; ++i)
      for (std::size_t k = 0; k < 2; ++k)
        EXPECT_NEAR(all.x()[i][k], wanted[i][k], 1e-10) << "round " << round << ", worker " << i;
  };
  all.run(3);
  expect(c.after3, 3);
  all.run(47);
  expect(c.after50, 50);
  all.run(1950);
  EXPECT_NEAR(root_mean_square(all.x()), c.distance, c.distance > 0 ? 6e-4 : 1e-9);
}

// The same by workers that train, in single precision; and stopped after 20 rounds and resumed.
TEST_P(UnlikeData, WorkersThatTrainGiveThemToo) {
  const Case& c = GetParam();
  constexpr int kStop = 20, kSteps = 50;
  for (const bool stopped : {false, true}) {
    std::vector<std::vector<NamedTensor>> kept(kWorkers);
    std::vector<std::vector<float>> x(kWorkers), velocity(kWorkers);
    const auto train = [&](int from, int to) {
      LocalCluster cluster(kWorkers);
      on_workers(cluster, kWorkers, [&](int rank, Group& group) {
        const auto me = static_cast<std::size_t>(rank);
        Tensor w = Tensor::zeros({2});
        FlatParams params({{"w", w}});
        params.settle_grads();
        nn::Sgd sgd(params, {.momentum = c.momentum, .nesterov = c.nesterov});
        MethodOptions options = options_of("chain", kWorkers, kSteps);
        options.settings = c.settings;
        options.start_samples = static_cast<double>(options.batch) * kWorkers * from;
        const auto method =
            make_method(c.method, params, sgd, group, make_graph("complete", kWorkers), options);
        if (from > 0) {
          std::ranges::copy(x[me], params.values().span<float>().begin());
          std::ranges::copy(velocity[me], sgd.state()[0].tensor.span<float>().begin());
          const std::vector<NamedTensor> state = method->state();
          ASSERT_EQ(state.size(), kept[me].size());
          for (std::size_t i = 0; i < state.size(); ++i)
            Tensor(state[i].tensor).copy_from(kept[me][i].tensor);
          params.refresh();
        }
        for (int step = from; step < to; ++step) {
          const auto at = params.compute_f32().span<float>();
          const Point g = gradient(me, {static_cast<double>(at[0]), static_cast<double>(at[1])});
          for (std::size_t k = 0; k < 2; ++k)
            params.grads().span<float>()[k] = static_cast<float>(g[k]);
          method->step(kRate);
        }
        x[me] = copy(params.values());
        velocity[me] = copy(sgd.state()[0].tensor);
        kept[me].clear();
        for (const NamedTensor& each : method->state())
          kept[me].push_back({each.name, each.tensor.clone()});
        group.collectives().barrier();
      });
    };
    if (stopped)
      train(0, kStop), train(kStop, kSteps);
    else
      train(0, kSteps);
    for (std::size_t i = 0; i < kWorkers; ++i)
      for (std::size_t k = 0; k < 2; ++k)
        EXPECT_NEAR(static_cast<double>(x[i][k]), c.after50[i][k], 1e-5)
            << "worker " << i << (stopped ? ", resumed" : "");
  }
}

const Case kCases[] = {
    Case{"gut",
         "d2",
         0,
         false,
         Settings().set("damp", .9),
         {{{.162703703704, .400944444444},
           {.141361111111, .381870370370},
           {.092314814815, .341166666667},
           {.080092592593, .314240740741}}},
         {{{.065736384114, 1.187016665132},
           {.059312242716, 1.197496572158},
           {.041509566496, 1.206696292085},
           {.038447584664, 1.211955580970}}},
         .0158807},
    Case{"dpsgd",
         "dpsgd",
         0,
         false,
         Settings().set("overlap", false),
         {{{.170037037037, .411944444444},
           {.160944444444, .400203703704},
           {.067731481481, .331000000000},
           {.073759259259, .292074074074}}},
         {{{.153356682958, 1.12054032698},
           {.107177337769, 1.20263936423},
           {-.047571961370, 1.27033013358},
           {-.058898544802, 1.31307954350}}},
         .128},
    Case{"qg_dsgdm",
         "qg-dsgdm",
         kMomentum,
         false,
         {},
         {{{.186243703704, .450599444444},
           {.174001111111, .436170370370},
           {.077184814815, .362801666667},
           {.080862592593, .320155740741}}},
         {{{.075961181037, 1.16492503537},
           {.031592229620, 1.25622102237},
           {-.123970622071, 1.33821050276},
           {-.138877395798, 1.38776751389}}},
         .128},
    Case{"qg_dsgdm_n",
         "qg-dsgdm",
         kMomentum,
         true,
         {},
         {{{.293333280370, .716717989444},
           {.271721237778, .717060387037},
           {.087933928148, .614895448333},
           {.118481705926, .558070642407}}},
         {{{.197102391176, 1.08346589180},
           {.133957470450, 1.21624829553},
           {-.131197313789, 1.32204383092},
           {-.129263481408, 1.39517158731}}},
         .203},
    Case{"d2",
         "d2",
         0,
         false,
         {},
         {{{.161333333333, .399166666667},
           {.139370370370, .379648148148},
           {.094861111111, .342296296296},
           {.081351851852, .317444444444}}},
         {{{.053012759564, 1.19643077877},
           {.053037030794, 1.19662476907},
           {.053036461347, 1.19689985450},
           {.053013582434, 1.19704092757}}},
         0},
    Case{"exact_diffusion",
         "exact-diffusion",
         0,
         false,
         {},
         {{{.206574652778, .419788194444},
           {.118978587963, .395553240741},
           {.118777777778, .353549189815},
           {.055346064815, .280529513889}}},
         {{{.052994042792, 1.19628562211},
           {.052848567285, 1.19702651113},
           {.052472659599, 1.19770460643},
           {.052092750889, 1.19825131300}}},
         0},
    Case{"decentlam",
         "decentlam",
         kMomentum,
         false,
         {},
         {{{.330037037037, .791944444444},
           {.305444444444, .763203703704},
           {.135231481481, .629500000000},
           {.139759259259, .548074074074}}},
         {{{.137770103670, 1.09752439614},
           {.088689236984, 1.16567965543},
           {-.066728187987, 1.21423611754},
           {-.081722787710, 1.24163812507}}},
         0.128},
    Case{"gradient_tracking",
         "gradient-tracking",
         0,
         false,
         {},
         {{{.214541666667, .428000000000},
           {.076333333333, .359000000000},
           {.147000000000, .368666666667},
           {.053916666667, .289875000000}}},
         {{{.050772730528, 1.19481466072},
           {.050737920483, 1.19912018593},
           {.050571106143, 1.20466343429},
           {.050388309545, 1.20852052076}}},
         0},
    Case{"gradient_tracking_atc",
         "gradient-tracking",
         0,
         false,
         Settings().set("overlap", false),
         {{{.166346707819, .409693415638},
           {.139258230453, .383473251029},
           {.097822016461, .339117283951},
           {.073619341564, .306141975309}}},
         {{{.051976081850, 1.19552500731},
           {.051906130799, 1.19782173745},
           {.051793109563, 1.20103663484},
           {.051703283031, 1.20329276623}}},
         0},
    Case{"momentum_tracking",
         "gradient-tracking",
         kMomentum,
         false,
         {},
         {{{.442541666667, .818000000000},
           {.163333333333, .740000000000},
           {.303000000000, .704666666667},
           {.077916666667, .510375000000}}},
         {{{.095282460658, 1.14225042093},
           {.060012918804, 1.16981676127},
           {.004087610864, 1.20373663260},
           {-.032677324245, 1.21712196800}}},
         0},
    Case{"relay_sgd",
         "relay-sgd",
         0,
         false,
         {},
         {{{.110386718750, .274941406250},
           {.113687500000, .314550781250},
           {.100023437500, .314039062500},
           {.071179687500, .260910156250}}},
         {{{.082063812039, 1.16226015666},
           {.081102366905, 1.16358837058},
           {.081093251995, 1.16371484386},
           {.082062345474, 1.16246879454}}},
         0},
    Case{"choco",
         "choco",
         0,
         false,
         Settings().set("compressed_share", .5),
         {{{.364652777778, .470222222222},
           {-.141444444444, .334555555556},
           {.402666666667, .484222222222},
           {-.079416666667, .185541666667}}},
         {{{.695057702288, 1.10787044095},
           {-.179638676418, 1.27613199638},
           {.374361719688, 1.53149134403},
           {-.303216351514, 1.45136981397}}},
         0.482},
    Case{"choco_sign",
         "choco",
         0,
         false,
         Settings().set("compressor", "sign"),
         {{{.330208333333, .462055555556},
           {-.084166666667, .351388888889},
           {.354166666667, .459611111111},
           {-.057916666667, .198486111111}}},
         {{{.694283864192, 1.10776303403},
           {-.179942543473, 1.27638139860},
           {.374339692313, 1.53176603979},
           {-.302892266934, 1.45141555689}}},
         0.482},
    Case{"choco_icml",
         "choco",
         0,
         false,
         Settings().set("compressed_share", .5).set("overlap", false),
         {{{.317085000000, .452515259259},
           {-.051728888889, .348284000000},
           {.285506666667, .454261111111},
           {-.025331111111, .207362407407}}},
         {{{.538009794089, 1.09329303033},
           {-.059457967806, 1.23967028846},
           {.195789826230, 1.46103510360},
           {-.242399066219, 1.43184425714}}},
         0.363},
};

INSTANTIATE_TEST_SUITE_P(Methods, UnlikeData, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// A worker alone takes the optimizer's own step, to the bit.
TEST(UnlikeData, AWorkerAloneIsNotCorrected) {
  const auto train = [](const std::string& name) {
    LocalCluster cluster(1);
    std::vector<float> out;
    on_workers(cluster, 1, [&](int rank, Group& group) {
      Quadratic q(rank, 5, .9f);
      const auto method =
          make_method(name, q.params, q.sgd, group, make_graph("ring", 1), options_of("", 1, 30));
      while (!method->done()) q.gradient(.1f), method->step(.1);
      out = copy(q.params.values());
    });
    return out;
  };
  EXPECT_EQ(train("d2"), train("dpsgd"));
  EXPECT_EQ(train("exact-diffusion"), train("dpsgd"));
  EXPECT_EQ(train("gradient-tracking"), train("dpsgd"));
  EXPECT_EQ(train("decentlam"), train("dpsgd"));
  EXPECT_EQ(train("relay-sgd"), train("dpsgd"));
  EXPECT_EQ(train("choco"), train("dpsgd"));
}

// Rounds that change would let the correction grow without limit.
TEST(UnlikeData, D2RefusesRoundsThatItCannotTake) {
  const auto error = [](const std::string& name, const std::string& rounds, int n) {
    LocalCluster cluster(n);
    MethodOptions options = options_of(rounds, n, 1);
    return error_of(
        [&] { check_method(name, "sgd", cluster.group(0), make_graph("ring", n), options); });
  };
  for (const char* rounds : {"one-peer-exp", "base:2", "epidemic:2"}) {
    for (const char* name : {"d2", "exact-diffusion"})
      EXPECT_NE(error(name, rounds, 6).find("its correction would grow"), std::string::npos)
          << name << " " << rounds << ": " << error(name, rounds, 6);
    EXPECT_NE(error("choco", rounds, 6).find("replicas of the same neighbours only"),
              std::string::npos);
  }
  // An even ring with weights 1/3 has exactly -1/3.
  EXPECT_NE(error("d2", "", 16)
                .find("is -0.333333; it must be above -1/3; take the method "
                      "exact-diffusion"),
            std::string::npos)
      << error("d2", "", 16);
  EXPECT_EQ(error("d2", "", 15), "no error");
  EXPECT_EQ(error("exact-diffusion", "", 16), "no error");
  EXPECT_EQ(error("qg-dsgdm", "epidemic:2", 16), "no error");
  // QG needs the momentum that it steers.
  LocalCluster cluster(1);
  Quadratic q(0, 4);
  nn::Adam adam(q.params);
  EXPECT_NE(error_of([&] {
              make_method("qg-dsgdm", q.params, adam, cluster.group(0), make_graph("ring", 1),
                          options_of("", 1, 1));
            }).find("steers the momentum of SGD"),
            std::string::npos);
}

// What a dead worker's data did to a correction or a sum is gone after the meeting: the living end
// at the mean of their own targets.
TEST(UnlikeData, ADeadWorkerLeavesNothingBehind) {
  constexpr int n = 5, dies = 4, steps = 400;
  for (const auto& [name, settings] : {std::pair("exact-diffusion", Settings()),
                                       {"gradient-tracking", Settings()},
                                       {"gradient-tracking", Settings().set("overlap", false)},
                                       {"relay-sgd", Settings()},
                                       {"relay-sgd", Settings().set("two_trees", true)}}) {
    SCOPED_TRACE(name);
    LocalCluster cluster(n);
    std::vector<std::vector<float>> x(n);
    on_workers(cluster, n, [&](int rank, Group& group) {
      Quadratic q(rank, 6);
      MethodOptions options = options_of("", n, steps);
      options.settings = settings;
      const auto method =
          make_method(name, q.params, q.sgd, group, make_graph(graph_for(name), n), options);
      for (int step = 0; !method->done(); ++step) {
        if (rank == dies && step == 60) return cluster.kill(rank);
        q.gradient();
        method->step(.1);
      }
      x[static_cast<std::size_t>(rank)] = copy(q.params.values());
      method->finish();
    });
    for (std::size_t i = 0; i < n; ++i) {
      if (i == dies) continue;
      for (std::size_t k = 0; k < 6; ++k)
        EXPECT_NEAR(static_cast<double>(x[i][k]), 1.5 + .01 * static_cast<double>(k), 1e-4) << i;
    }
  }
}

// An exchange that fails costs nothing that stays: here a link is cut for longer than an exchange
// may take.
TEST(UnlikeData, AnExchangeThatFailsLeavesNothingBehind) {
  constexpr int n = 4, steps = 400, cut = 60;
  for (const bool overlap : {true, false}) {
    LocalCluster cluster(n, Seconds(30));
    std::atomic<int> failed = 0;
    on_workers(cluster, n, [&](int rank, Group& group) {
      Quadratic q(rank, 6);
      MethodOptions options = options_of("", n, steps);
      options.settings.set("overlap", overlap);
      options.exchange_timeout_s = .2;
      options.on_fault = [&](const std::string& what, int) {
        failed += what == "exchange failed";
        cluster.mend(1, 2);
      };
      const auto method =
          make_method("gradient-tracking", q.params, q.sgd, group, make_graph("ring", n), options);
      for (int step = 0; !method->done(); ++step) {
        if (rank == 1 && step == cut) cluster.cut(1, 2);
        q.gradient();
        method->step(.1);
      }
      for (std::size_t k = 0; k < 6; ++k)
        EXPECT_NEAR(static_cast<double>(q.params.values().span<float>()[k]),
                    1.5 + .01 * static_cast<double>(k), 1e-4)
            << rank;
      method->finish();
    });
    EXPECT_GT(failed, 0);
  }
}

// Both vectors travel in one message with overlap, in two without: twice the bytes of D-PSGD, and
// as many exchanges.
TEST(UnlikeData, TrackingSendsTwoVectors) {
  constexpr int n = 4, steps = 10;
  const auto sent = [](const std::string& name, bool overlap, const std::string& payload) {
    LocalCluster cluster(n);
    std::pair<double, i64> of_first;
    on_workers(cluster, n, [&](int rank, Group& group) {
      Quadratic q(rank, 512);
      MethodOptions options = options_of("", n, steps, overlap);
      options.payload = payload;
      const auto method = make_method(name, q.params, q.sgd, group, make_graph("ring", n), options);
      while (!method->done()) q.gradient(), method->step(.1);
      method->finish();
      if (rank == 0) of_first = {method->stats().bytes_sent, method->stats().exchanges};
    });
    return of_first;
  };
  for (const char* payload : {"f32", "bf16", "int8"}) {
    const auto plain = sent("dpsgd", true, payload),
               both = sent("gradient-tracking", true, payload),
               after = sent("dpsgd", false, payload),
               apart = sent("gradient-tracking", false, payload);
    EXPECT_EQ(both.first, 2 * plain.first) << payload;
    EXPECT_EQ(both.second, plain.second);
    // The first y is not mixed.
    EXPECT_EQ(apart.first, after.first * (2 * steps - 1) / steps) << payload;
    EXPECT_EQ(apart.second, after.second);
  }
}

}  // namespace
}  // namespace gossamer::dist
