// CHOCO-SGD: fixed points, replicas, bytes.
#include <algorithm>
#include <atomic>

#include <gtest/gtest.h>

#include "dist/methods/unlike_data.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/local/local_cluster.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

// Whatever travels, choco ends at the fixed point of D-PSGD: without compression and with kappa 1
// it is D-PSGD in every step.
TEST(Choco, WhatChocoCompressesMovesNoFixedPoint) {
  for (const bool overlap : {true, false}) {
    const auto at = [overlap](const Settings& settings, int steps) {
      InDouble all("choco", Settings(settings).set("overlap", overlap), 0, false);
      all.run(steps);
      return all.x();
    };
    const auto all_of_it = Settings().set("compressed_share", 1.);
    const Points end = at(all_of_it, 4000);
    for (const Settings& some :
         {Settings().set("compressed_share", .5), Settings().set("compressor", "sign"),
          Settings().set("compressor", "random-k").set("compressed_share", .5),
          Settings().set("compressor", "qsgd"), Settings().set("compressor", "int8")}) {
      const Points other = at(some, 4000);
      for (std::size_t i = 0; i < kWorkers; ++i)
        for (std::size_t k = 0; k < 2; ++k) EXPECT_NEAR(other[i][k], end[i][k], 1e-10);
    }
    InDouble plain("dpsgd", Settings().set("overlap", overlap), 0, false);
    plain.run(60);
    const Points same = at(Settings(all_of_it).set("replica_step", 1.), 60);
    for (std::size_t i = 0; i < kWorkers; ++i)
      for (std::size_t k = 0; k < 2; ++k) EXPECT_NEAR(same[i][k], plain.x()[i][k], 1e-13);
  }
}

// What a worker keeps of a neighbour has the same bits as that one has of itself, also after a
// message was lost.
TEST(Choco, ReplicasAgreeToTheBit) {
  constexpr int n = 4, steps = 60, cut = 20;
  for (const char* compressor : {"top-k", "random-k", "sign", "qsgd", "int8"})
    for (const bool overlap : {true, false}) {
      LocalCluster cluster(n, Seconds(30));
      std::vector<std::vector<float>> own(n), others(n);
      std::atomic<int> failed = 0;
      on_workers(cluster, n, [&](int rank, Group& group) {
        Quadratic q(rank, 300);
        MethodOptions options = options_of("", n, steps);
        options.settings.set("overlap", overlap).set("compressor", compressor);
        options.exchange_timeout_s = .2;
        options.on_fault = [&](const std::string& what, int) {
          failed += what == "exchange failed";
          cluster.mend(1, 2);
        };
        const auto method =
            make_method("choco", q.params, q.sgd, group, make_graph("ring", n), options);
        const auto me = static_cast<std::size_t>(rank);
        for (int step = 0; !method->done(); ++step) {
          if (rank == 1 && step == cut) cluster.cut(1, 2);
          q.gradient(.1f);
          method->step(.05);
          // Workers may be a step apart by now. So many messages since the models were sent whole
          // there are after the failure only.
          const std::vector<NamedTensor> state = method->state();
          if (state.at(2).tensor.as<i64>()[0] != cut + 5) continue;
          own[me] = copy(state[0].tensor.reshape({-1}));
          others[me] = copy(state[1].tensor.reshape({-1}));
        }
        method->finish();
      });
      EXPECT_GT(failed, 0);
      for (int i = 0; i < n; ++i) {
        const auto& known = others[static_cast<std::size_t>(i)];
        const std::vector<int> neighbours = make_graph("ring", n).neighbours(i);
        const std::size_t size = own[0].size();
        ASSERT_EQ(known.size(), neighbours.size() * size);
        for (std::size_t j = 0; j < neighbours.size(); ++j)
          EXPECT_TRUE(std::equal(known.begin() + static_cast<std::ptrdiff_t>(j * size),
                                 known.begin() + static_cast<std::ptrdiff_t>((j + 1) * size),
                                 own[static_cast<std::size_t>(neighbours[j])].begin()))
              << compressor << ", worker " << i << " of " << neighbours[j];
      }
    }
}

// The first message of a run is the whole model; each later one is 2 % with the largest 1 %.
TEST(Choco, TheLargestPercentIsTwoPercentOfTheBytes) {
  constexpr int n = 4, dims = 10'000;
  const auto sent = [](int steps) {
    LocalCluster cluster(n);
    double bytes = 0;
    on_workers(cluster, n, [&](int rank, Group& group) {
      Quadratic q(rank, dims);
      MethodOptions options = options_of("", n, steps, false);
      options.settings.set("compressed_share", .01).set("replica_step", .05);
      const auto method =
          make_method("choco", q.params, q.sgd, group, make_graph("ring", n), options);
      while (!method->done()) q.gradient(), method->step(.05);
      method->finish();
      if (rank == 0) bytes = method->stats().bytes_sent;
    });
    return bytes;
  };
  const double each = (sent(30) - sent(10)) / 20, whole = 2. * 4 * dims;  // two neighbours
  EXPECT_GT(each, 0);
  EXPECT_LE(each, .022 * whole);
}

}  // namespace
}  // namespace gossamer::dist
