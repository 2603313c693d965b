// What the tests of all-reduce share: a small network whose backward can be stopped halfway,
// workers that train with it on every kind of reducer, and what they must agree on.
#pragma once

#include <algorithm>
#include <optional>
#include <thread>

#include <gmock/gmock.h>

#include "dist/around.h"
#include "dist/gpu/fakes.h"
#include "dist/rounds/synchronous.h"
#include "dist/small_net.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/dist/gpu/nccl_reducer.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/time.h"
#include "support/error_of.h"

namespace gossamer::dist {

inline constexpr int kLayers = 4, kWidth = 20;
// a weight matrix each, and all of the biases: five buckets
inline constexpr i64 kBucket = 1500;
inline constexpr int kBuckets = kLayers + 1;

// x, and in its backward a call: what comes before it in the model has no gradients yet.
inline Tensor gate(const Tensor& x, const std::function<void()>& call) {
  Tensor y = x.clone();
  record("gate", y, {x}, {}, [call](const Tensor& g, const std::vector<Tensor>&) {
    call();
    return Grads{g};
  });
  return y;
}

struct Net : SmallNet {
  explicit Net(int rank) : SmallNet(rank, kLayers, kWidth) {}
  // halfway: called when backward has the gradients of two of the four layers.
  Tensor loss(const std::function<void()>& halfway) {
    return SmallNet::loss([&](const Tensor& x) { return gate(x, halfway); });
  }
};

// Counts the buckets that have been summed (host, staged), or are in the stream (NCCL).
class Counted final : public Reducer {
 public:
  Counted(std::unique_ptr<Reducer> inner, std::atomic<int>& added)
      : inner_(std::move(inner)), added_(added) {}
  void mark(std::size_t bucket) override { inner_->mark(bucket); }
  void interrupt() override { inner_->interrupt(); }
  void open(Collectives& all, const std::vector<int>& members) override {
    inner_->open(all, members);
  }
  void add(std::size_t bucket, const Tensor& own, Tensor sum) override {
    inner_->add(bucket, own, sum);
    ++added_;
  }
  void complete() override { inner_->complete(); }
  void give_up() override { inner_->give_up(); }

 private:
  const std::unique_ptr<Reducer> inner_;
  std::atomic<int>& added_;
};

enum class Way { host, staged, nccl };
enum class When { never, forward, halfway, in_step, after_step };

struct Trial {
  Way way = Way::nccl;
  int workers = 4, steps = 12;
  bool prepared = true;
  fake::Faults faults{};
  std::map<int, std::pair<int, When>> dies{};  // worker -> step, when
  // a worker that sleeps in the middle of each backward
  int late = -1;
  double clip = 0;
  const char* optimizer = "sgd";
  std::uint64_t seed = 1;
};

// Devices run beside the workers, each in a thread of its own.
class Devices {
 public:
  explicit Devices(fake::Machine& machine, int n) {
    for (int i = 0; i < n; ++i)
      threads_.emplace_back([this, &machine, i] {
        while (!over_)
          if (!machine.step(i)) std::this_thread::sleep_for(std::chrono::microseconds(20));
      });
  }
  ~Devices() {
    over_ = true;
    for (std::thread& t : threads_) t.join();
  }

 private:
  std::atomic<bool> over_ = false;
  std::vector<std::thread> threads_;
};

// Kills a worker a while from now; its destructor waits for that.
class Reaper {
 public:
  Reaper(fake::Machine& machine, LocalCluster& cluster, int rank, std::uint64_t us)
      : thread_([&machine, &cluster, rank, us] {
          std::this_thread::sleep_for(std::chrono::microseconds(us));
          machine.kill(rank);
          cluster.kill(rank);
        }) {}
  ~Reaper() { thread_.join(); }

 private:
  std::thread thread_;
};

inline bool soon(const std::function<bool()>& test) {
  for (const double limit = wall_seconds() + 20; !test();
       std::this_thread::sleep_for(std::chrono::microseconds(50)))
    if (wall_seconds() > limit) return false;
  return true;
}

inline std::unique_ptr<Reducer> reducer_of(Way way, Group& group, fake::Machine& machine,
                                           std::size_t buckets, double abort_s = 30) {
  fake::Gpu& gpu = machine.gpu(group.rank());
  GpuReducer::Parts parts{
      .group = group, .port = gpu, .buckets = buckets, .limit_s = 30, .abort_s = abort_s};
  if (way == Way::nccl) return std::make_unique<NcclReducer>(std::move(parts), gpu, 4);
  if (way == Way::staged) return std::make_unique<StagedReducer>(std::move(parts));
  return std::make_unique<HostReducer>();
}

// A group whose gradients are summed as the test wants.
class Summed final : public Around {
 public:
  using Make = std::function<std::unique_ptr<Reducer>(Group&, std::size_t buckets)>;
  Summed(Group& inner, Make make) : Around(inner), make_(std::move(make)) {}
  std::unique_ptr<Reducer> reducer(std::size_t buckets) override { return make_(*this, buckets); }

 private:
  const Make make_;
};

struct Outcome {
  // of each worker after its last step; empty: it died
  std::vector<std::vector<float>> x;
  std::vector<MethodStats> stats;
  std::vector<std::string> problems;
  std::vector<std::string> errors;  // of workers that ended with one
  // backward passes that saw sums begin before they were over
  int early = 0;
};

inline Outcome train(const Trial& t) {
  const auto n = static_cast<std::size_t>(t.workers);
  fake::Machine machine(t.workers, t.seed, t.faults);
  LocalCluster cluster(t.workers);
  Outcome out{.x = std::vector<std::vector<float>>(n),
              .stats = std::vector<MethodStats>(n),
              .problems = {},
              .errors = std::vector<std::string>(n),
              .early = 0};
  std::atomic<int> early = 0;
  {
    const Devices devices(machine, t.workers);
    on_workers(cluster, t.workers, [&](int rank, Group& inner) {
      std::atomic<int> added = 0;
      Summed group(inner, [&](Group& g, std::size_t buckets) -> std::unique_ptr<Reducer> {
        EXPECT_EQ(buckets, static_cast<std::size_t>(kBuckets));
        return std::make_unique<Counted>(reducer_of(t.way, g, machine, buckets), added);
      });
      Net net(rank);
      auto optimizer = nn::make_optimizer(t.optimizer, *net.params, {.weight_decay = .01});
      MethodOptions options = options_of("", t.workers, t.steps);
      options.settings.set("bucket_mb", 1. * kBucket / (1 << 20));
      options.clip_norm = t.clip;
      auto method = make_method("allreduce", *net.params, *optimizer, group,
                                make_graph("complete", t.workers), options);
      const auto victim = t.dies.find(rank);
      const auto dies = [&](int step, When when) {
        if (victim == t.dies.end() || victim->second != std::pair(step, when)) return;
        machine.kill(rank);
        cluster.kill(rank);
        fail<Error>("killed");
      };
      try {
        for (int step = 0; step < t.steps; ++step) {
          dies(step, When::forward);
          int before = 0;
          const Tensor loss = net.loss([&] {
            if (t.prepared && step > 0 && t.dies.empty() && t.faults.failing < 0) {
              EXPECT_TRUE(soon([&] { return added - before >= kLayers / 2; }))
                  << "no sums under backward in step " << step;
              EXPECT_EQ(added - before, kLayers / 2) << "a bucket without its gradients was summed";
              ++early;
            }
            if (rank == t.late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
            dies(step, When::halfway);
          });
          net.params->zero_grad();
          before = added;
          if (t.prepared) method->prepare(.05);
          loss.backward();
          std::optional<Reaper> reaper;
          if (victim != t.dies.end() && victim->second == std::pair(step, When::in_step))
            reaper.emplace(machine, cluster, rank, 100 * t.seed);
          method->step(.05);
          if (reaper) fail<Error>("killed");
          dies(step, When::after_step);
        }
        out.x[static_cast<std::size_t>(rank)] = copy(net.params->values());
        method->finish();
      } catch (const std::exception& e) {
        out.errors[static_cast<std::size_t>(rank)] = e.what();
        if (t.faults.failing < 0) throw;
        machine.kill(rank);  // its process ends
        cluster.kill(rank);
        return;
      }
      EXPECT_LE(machine.live_communicators(rank), 1);
      out.stats[static_cast<std::size_t>(rank)] = method->stats();
    });
  }
  out.early = early;
  out.problems = machine.problems();
  return out;
}

inline void expect_one_model(const Outcome& out, const Trial& t) {
  EXPECT_THAT(out.problems, testing::IsEmpty());
  const std::vector<float>* first = nullptr;
  for (int rank = 0; rank < t.workers; ++rank) {
    if (t.dies.contains(rank)) continue;
    const auto& x = out.x[static_cast<std::size_t>(rank)];
    ASSERT_FALSE(x.empty()) << "worker " << rank << ": "
                            << out.errors[static_cast<std::size_t>(rank)];
    if (!first) first = &x;
    EXPECT_EQ(x, *first) << "worker " << rank;
    const MethodStats& stats = out.stats[static_cast<std::size_t>(rank)];
    EXPECT_NEAR(stats.consensus_distance, 0, 1e-5);
    EXPECT_EQ(stats.alive, t.workers - static_cast<int>(t.dies.size()));
    EXPECT_GE(stats.gradients, t.steps - static_cast<int>(t.dies.size()));
    EXPECT_LE(stats.gradients, t.steps);
  }
}

}  // namespace gossamer::dist
