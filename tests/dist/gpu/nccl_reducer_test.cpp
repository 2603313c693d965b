// Sums by NCCL, on fake devices and a fake library: order, failures, and what a death leaves.
#include <thread>

#include "dist/rounds/allreduce.h"
#include "gossamer/dist/local/local_cluster.h"

namespace gossamer::dist {
namespace {

// Two reducers by hand. body(rank, group, gpu, reducer).
void by_hand(fake::Machine& machine,
             const std::function<void(int, Group&, fake::Gpu&, Reducer&)>& body,
             Way way = Way::nccl, double abort_s = 30) {
  LocalCluster cluster(2);
  const Devices devices(machine, 2);
  on_workers(cluster, 2, [&](int rank, Group& group) {
    const auto reducer = reducer_of(way, group, machine, 2, abort_s);
    reducer->open(group.collectives(), {0, 1});
    // who aborts at once would keep the other from opening
    group.collectives().barrier();
    body(rank, group, machine.gpu(rank), *reducer);
  });
}

TEST(GpuReducers, SumWhatTheComputeLaneHasWrittenNotWhatWasThereBefore) {
  for (const Way way : {Way::nccl, Way::staged})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      fake::Machine machine(2, seed);
      by_hand(
          machine,
          [&](int rank, Group&, fake::Gpu& gpu, Reducer& reducer) {
            const Tensor own = Tensor::full({8}, 100), sum = Tensor::zeros({8});
            for (const std::size_t bucket : {0u, 1u}) {
              gpu.run(DevicePort::Stream::compute, [&, bucket] {
                own.slice(4 * static_cast<i64>(bucket), 4 * static_cast<i64>(bucket) + 4)
                    .fill(1.0f + static_cast<float>(rank));
              });
              reducer.mark(bucket);
              reducer.add(
                  bucket, own.slice(4 * static_cast<i64>(bucket), 4 * static_cast<i64>(bucket) + 4),
                  sum.slice(4 * static_cast<i64>(bucket), 4 * static_cast<i64>(bucket) + 4));
            }
            reducer.complete();
            EXPECT_THAT(copy(sum), testing::Each(3)) << "seed " << seed;
          },
          way);
      EXPECT_THAT(machine.problems(), testing::IsEmpty());
    }
}

TEST(NcclReducer, OpensOneCommunicatorForAllAndANewOneForThoseWhoAreLeft) {
  fake::Machine machine(2, 1);
  by_hand(machine, [&](int rank, Group& group, fake::Gpu&, Reducer& reducer) {
    EXPECT_EQ(machine.live_communicators(rank), 1);
    reducer.open(group.collectives(), {0, 1});
    EXPECT_EQ(machine.live_communicators(rank), 1);
    group.collectives().barrier();
    reducer.open(group.collectives(), {rank});  // alone: a copy
    EXPECT_EQ(machine.live_communicators(rank), 0);
    const Tensor own = Tensor::full({4}, 7), sum = Tensor::zeros({4});
    reducer.mark(0);
    reducer.add(0, own, sum);
    reducer.complete();
    EXPECT_THAT(copy(sum), testing::Each(7));
  });
  for (const auto& launch : machine.take_launches()) EXPECT_EQ(launch.name, "all-reduce");
  EXPECT_THAT(machine.problems(), testing::IsEmpty());
}

TEST(NcclReducer, AFailureOfTheTransportIsAnErrorAndTheDeviceLetsGo) {
  for (const fake::Faults& faults : {fake::Faults{.transfer_fails = 1}, fake::Faults{.id_fails = 1},
                                     fake::Faults{.init_fails = 1}}) {
    fake::Machine machine(2, 1, faults);
    std::atomic<int> errors = 0;
    LocalCluster cluster(2);
    const Devices devices(machine, 2);
    const std::string error = error_of([&] {
      on_workers(cluster, 2, [&](int rank, Group& group) {
        const auto reducer = reducer_of(Way::nccl, group, machine, 1);
        const Tensor own = Tensor::zeros({4}), sum = Tensor::zeros({4});
        try {
          reducer->open(group.collectives(), {0, 1});
          reducer->mark(0);
          reducer->add(0, own, sum);
          reducer->complete();
        } catch (const DistError&) {
          ++errors;
          reducer->give_up();
          EXPECT_EQ(machine.live_communicators(rank), 0);
          throw;
        }
      });
    });
    EXPECT_THAT(error, testing::ContainsRegex("NCCL|ncclGetUniqueId|is gone|died"));
    EXPECT_GE(errors, 1);
    EXPECT_THAT(machine.problems(), testing::IsEmpty());
  }
}

TEST(NcclReducer, ACommunicatorThatNeverLetsGoIsSaidAndNoneFollows) {
  fake::Machine machine(2, 1, {.abort_hangs = true});
  by_hand(
      machine,
      [&](int, Group& group, fake::Gpu&, Reducer& reducer) {
        for (int i = 0; i < 2; ++i)
          EXPECT_THAT(error_of([&] {
                        reducer.open(group.collectives(), {0, 1});
                      }),
                      testing::HasSubstr("never let go of the GPU"));
      },
      Way::nccl, .05);
}

TEST(NcclReducer, AnInterruptEndsAWaitForOthers) {
  fake::Machine machine(2, 1);
  by_hand(machine, [&](int rank, Group& group, fake::Gpu&, Reducer& reducer) {
    const Tensor own = Tensor::zeros({4}), sum = Tensor::zeros({4});
    if (rank == 0) {
      reducer.mark(0);
      reducer.add(0, own, sum);  // the other's kernel never comes
      std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        reducer.interrupt();
      });
      EXPECT_THAT(error_of([&] { reducer.complete(); }), testing::HasSubstr("given up"));
      later.join();
      reducer.give_up();
      EXPECT_EQ(machine.live_communicators(0), 0);
    } else {
      EXPECT_THAT(error_of([&] { group.collectives().barrier(); }),
                  testing::HasSubstr("given up by worker 0"));
    }
  });
}

// As for any collective: who sees it waits a while for the death behind it, and then gives up. That
// is the death the others wait for, or they have given up before.
TEST(NcclReducer, AFailureWithoutADeathEndsItsWorkerAndLeavesNobodyHangingOrDifferent) {
  const Trial trial{.workers = 3, .steps = 6, .faults = {.failing = 1, .failing_transfer = 12}};
  const Outcome out = train(trial);
  EXPECT_THAT(out.problems, testing::IsEmpty());
  EXPECT_THAT(out.errors, testing::Contains(testing::HasSubstr("NCCL: ")));
  const std::vector<float>* first = nullptr;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_NE(out.stats[rank].gradients == 0, out.errors[rank].empty())
        << "either an error or the end";
    if (!out.errors[rank].empty()) continue;
    if (first) EXPECT_EQ(out.x[rank], *first);
    first = &out.x[rank];
  }
}

TEST(AllReduce, PrepareMayComeTwiceButNotAfterSumsHaveBegun) {
  LocalCluster cluster(2);
  on_workers(cluster, 2, [&](int, Group& group) {
    Net net(0);
    auto optimizer = nn::make_optimizer("sgd", *net.params);
    auto method = make_method("allreduce", *net.params, *optimizer, group, make_graph("ring", 2),
                              options_of("", 2, 3));
    net.params->zero_grad();
    net.loss([] {}).backward();
    // after backward: everything is summed in step()
    method->prepare(.1);
    method->step(.1);
    method->prepare(.1);
    method->prepare(.1);
    net.params->zero_grad();
    net.loss([] {}).backward();
    EXPECT_THROW(method->prepare(.1), Error);
    method->step(.1);
    method->finish();
  });
}

}  // namespace
}  // namespace gossamer::dist
