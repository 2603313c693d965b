// Workers that end as soon as they have joined, that do not fit each other, and that take different
// numbers of steps.
#include <atomic>
#include <deque>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include "dist/around.h"
#include "dist/net/harness.h"
#include "dist/rounds/synchronous.h"
#include "support/error_of.h"

namespace gossamer::dist::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The others may still be in the last operation of their joining.
TEST(BeginOfProcesses, AWorkerThatEndsWhenItHasJoinedIsLeftOut) {
  for (int round = 0; round < 10; ++round) {
    const auto errors = on_threads(4, [](Group& group) {
      if (group.rank() == 2) return;
      Quadratic q(group.rank(), 8);
      MethodOptions options;
      options.total_samples = 100;
      auto method = make_method("a2cid2", q.params, q.sgd, group, make_graph("ring", 4), options);
      EXPECT_NEAR(q.params.compute_f32().span<float>()[0], 4 / 3.0, 1e-5);  // of 0, 1 and 3
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

// Events stay in order for its method, also those that the test has waited for.
class Hears final : public Around {
 public:
  using Around::Around;
  // Returns at once if the method has had it already.
  void wait_for(MessageType type) {
    for (int quiet = 0; !heard_.contains(type);) {
      events_.push_back(hear(Seconds(1)));
      if (events_.back().kind == Event::Kind::none) ++quiet;
      check<DistTimeout>(quiet < 60, "a message that the test waits for did not come");
    }
  }

 private:
  Event next(Seconds limit) override {
    if (events_.empty()) return hear(limit);
    const Event e = events_.front();
    events_.pop_front();
    return e.kind == Event::Kind::none ? next(limit) : e;
  }
  Event hear(Seconds limit) {
    const Event e = Around::next(limit);
    if (e.kind == Event::Kind::message) heard_.insert(e.message.type);
    return e;
  }
  std::deque<Event> events_;
  std::set<MessageType> heard_;
};

// All finish then, well and soon: what the others had begun is taken back.
TEST(EndOfProcesses, AWorkerThatStopsWhileOthersAreInAStepIsNamedAndAllFinishAlike) {
  for (const int n : {2, 3, 4}) {
    std::vector<std::vector<float>> x(static_cast<std::size_t>(n));
    std::atomic<int> in_step = 0;
    const auto errors = on_threads(n, [&](Group& group) {
      Quadratic q(group.rank(), 3000);
      auto method = make_method("allreduce", q.params, q.sgd, group, make_graph("complete", n), {});
      const auto step = [&] {
        method->prepare(.05);
        q.gradient();
        method->step(.05);
      };
      for (int i = 0; i < 3; ++i) step();
      std::string error;
      if (group.rank() == 0) {
        while (in_step < n - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      } else {
        ++in_step;
        error = error_of(step);
      }
      method->finish();
      EXPECT_EQ(method->stats().gradients, 3);
      x[static_cast<std::size_t>(group.rank())] = copy(q.params.values());
      if (!error.empty()) throw DistError(error);
    });
    EXPECT_THAT(errors[0], IsEmpty());
    for (int r = 1; r < n; ++r) {
      EXPECT_THAT(errors[static_cast<std::size_t>(r)],
                  HasSubstr("worker 0 has finished after 3 steps, worker " + std::to_string(r) +
                            " is in step 4"));
      EXPECT_EQ(x[static_cast<std::size_t>(r)], x[0]);
    }
    EXPECT_THAT(x[0], Not(IsEmpty()));
  }
}

TEST(EndOfProcesses, AWorkerThatStopsBeforeTheOthersIsNamedAndKeepsItsModel) {
  for (const int dims : {8, 3000}) {
    const auto errors = on_threads(2, [&](Group& inner) {
      Hears group(inner);
      Quadratic q(group.rank(), dims);
      auto method = make_method("allreduce", q.params, q.sgd, group, make_graph("complete", 2), {});
      const auto steps = [&](int n) {
        for (int i = 0; i < n; ++i) q.gradient(), method->step(.05);
      };
      steps(2);
      if (group.rank() == 0) {
        const Tensor before = q.params.values().clone();
        method->finish();
        EXPECT_TRUE(std::ranges::equal(q.params.values().span<float>(), before.span<float>()));
      } else {
        group.wait_for(MessageType::stopped);
        steps(1);
      }
    });
    EXPECT_THAT(errors[0], IsEmpty());
    EXPECT_THAT(errors[1], HasSubstr("worker 0 has finished after 2 steps, worker 1 is in step 3"));
  }
}

}  // namespace
}  // namespace gossamer::dist::testing
