// Workers that end as soon as they have joined, that do not fit each other, and that take different
// numbers of steps.
#include <gmock/gmock.h>

#include "dist/net/harness.h"
#include "dist/workers.h"

namespace gossamer::dist::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The others may still be in the last operation of their joining.
TEST(BeginOfProcesses, AWorkerThatEndsWhenItHasJoinedIsLeftOut) {
  for (int round = 0; round < 10; ++round) {
    const auto errors = on_threads(4, [](Group& group) {
      if (group.rank() == 2) return;
      Quadratic q(group.rank(), 8);
      MethodOptions options;
      options.total_samples = 100;
      auto method = make_method("a2cid2", q.params, q.sgd, group, make_graph("ring", 4), options);
      EXPECT_NEAR(q.params.values().span<float>()[0], 4 / 3.0, 1e-5);  // of 0, 1 and 3
      while (!method->done()) {
        q.gradient();
        method->step(.05);
      }
      method->finish();
      EXPECT_EQ(method->stats().alive, 3);
    });
    EXPECT_EQ(errors, std::vector<std::string>(4));
  }
}

// Nobody may begin without those that it does not agree with.
TEST(BeginOfProcesses, WorkersWhoseModelsDifferAreAllTold) {
  for (const char* method : {"allreduce", "a2cid2"}) {
    for (int round = 0; round < 5; ++round) {
      const auto errors = on_threads(4, [&](Group& group) {
        Quadratic q(group.rank(), group.rank() == 2 ? 3000 : 8);
        make_method(method, q.params, q.sgd, group, make_graph("ring", 4), {});
      });
      for (const std::string& error : errors)
        EXPECT_THAT(error, HasSubstr("workers 0 and 2 do not agree on the model"));
    }
  }
}

TEST(EndOfProcesses, AWorkerThatStopsBeforeTheOthersIsNamedAndKeepsItsModel) {
  for (const int dims : {8, 3000}) {
    std::atomic<bool> stopped = false;
    const auto errors = on_threads(2, [&](Group& group) {
      Quadratic q(group.rank(), dims);
      auto method = make_method("allreduce", q.params, q.sgd, group, make_graph("complete", 2), {});
      const auto steps = [&](int n) {
        for (int i = 0; i < n; ++i) q.gradient(), method->step(.05);
      };
      steps(2);
      if (group.rank() == 0) {
        const Tensor before = q.params.values().clone();
        stopped = true;
        method->finish();
        EXPECT_TRUE(std::ranges::equal(q.params.values().span<float>(), before.span<float>()));
      } else {
        while (!stopped) std::this_thread::yield();
        steps(1);
      }
    });
    EXPECT_THAT(errors[0], IsEmpty());
    EXPECT_THAT(errors[1], HasSubstr("worker 0 has finished after 2 steps, worker 1 is in step 3"));
  }
}

}  // namespace
}  // namespace gossamer::dist::testing
