// Workers that end as soon as they have joined.
#include "dist/net/harness.h"
#include "dist/workers.h"

namespace gossamer::dist::testing {
namespace {

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

}  // namespace
}  // namespace gossamer::dist::testing
