// Workers that share one order of batches while some of them die at any moment: every batch of
// every epoch is trained on once. The model counts: a parameter for each batch, which its gradient
// moves.
#include "gossamer/apps/train/dealing.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "dist/gossip/come_and_go.h"

namespace gossamer::apps {
namespace {

using dist::LocalCluster;

constexpr int kWorkers = 6;
constexpr i64 kBatches = 23, kOfStep = 12, kEpochs = 4;

// Some die: so many, at steps and moments that the seed says.
struct Deaths {
  Deaths(std::uint64_t seed, int count) {
    Rng rng(seed, 1);
    while (static_cast<int>(at.size()) < count) {
      const int rank = static_cast<int>(rng.below(kWorkers));
      if (at.contains(rank)) continue;
      at[rank] = {1 + static_cast<i64>(rng.below(6)), rng.below(3)};
    }
  }
  struct Moment {
    i64 step;
    std::uint32_t how;  // 0: before its gradient, 1: behind it, 2: in its sum
  };
  std::map<int, Moment> at;
};

// Returns how many batches were dealt again, as each worker says it; -1: it died.
std::vector<i64> train(std::uint64_t seed, int deaths) {
  const Deaths die(seed, deaths);
  LocalCluster cluster(kWorkers);
  std::vector<i64> again(kWorkers, -1);
  std::array<std::atomic<i64>, kWorkers> begun{};  // steps
  on_workers(cluster, kWorkers, [&](int rank, dist::Group& group) {
    Tensor counts = Tensor::zeros({kBatches * kEpochs});
    FlatParams params({{"x", counts}}, {});
    params.settle_grads();
    nn::Sgd sgd(params, {.momentum = 0});
    dist::MethodOptions options;
    options.global_batch = kOfStep;
    auto method = dist::make_method("allreduce", params, sgd, group,
                                    dist::make_graph("complete", kWorkers), options);
    i64 mine = 0;
    Dealing dealing({.rank = rank,
                     .batches_of_epoch = kBatches,
                     .batches_of_step = kOfStep,
                     .deal = [](const data::Deal&) {}},
                    *method);
    std::thread killer;
    const auto own_death = die.at.find(rank);
    const auto is_done = [&] {
      return dealing.left().epoch >= kEpochs &&
             std::ranges::max(dealing.known()) * kOfStep >= std::ssize(dealing.begin().again);
    };
    for (i64 step = 0; !is_done(); ++step) {
      const auto moment = [&](std::uint32_t how) {
        return own_death != die.at.end() && own_death->second.step == step &&
               own_death->second.how == how;
      };
      if (moment(0)) return cluster.kill(rank);
      const auto g = params.grads().span<float>();
      std::ranges::fill(g, 0.f);
      for (i64 i = method->sharing().share(kOfStep, rank); i > 0; --i, dealing.taken()) {
        const data::Position at = dealing.next();
        if (at.epoch < kEpochs)
          g[static_cast<std::size_t>(at.epoch * kBatches + at.step)] += 1.f / kOfStep;
      }
      if (moment(1)) return cluster.kill(rank);
      begun[static_cast<std::size_t>(rank)] = step + 1;
      if (moment(2)) {
        // Beside its own call, when the others are in that step too, or have gone.
        killer = std::thread([&, step] {
          for (int w = 0; w < kWorkers; ++w)
            while (begun[static_cast<std::size_t>(w)] <= step && group.control().alive(w) &&
                   !die.at.contains(w))
              std::this_thread::yield();
          cluster.kill(rank);
        });
      }
      try {
        method->step(1);
      } catch (...) {
        if (killer.joinable()) killer.join();
        throw;
      }
      if (killer.joinable()) {
        killer.join();
        return;
      }
      if (const std::optional<i64> more = dealing.after_step()) mine += *more;
    }
    method->finish();
    const auto x = params.values().span<float>();
    for (std::size_t i = 0; i < static_cast<std::size_t>(kBatches * kEpochs); ++i) {
      // Once moves it by 1/12 of the mean, by more in a step of which some were lost.
      const double times = -static_cast<double>(x[i]) * kOfStep;
      EXPECT_GE(times, .999) << "batch " << i << ", seed " << seed;
      EXPECT_LT(times, 1.999) << "batch " << i << ", seed " << seed;
    }
    again[static_cast<std::size_t>(rank)] = mine;
  });
  return again;
}

TEST(Dealing, WithoutDeathsNothingComesAgain) {
  for (const i64 each : train(0, 0)) EXPECT_EQ(each, 0);
}

// GOSSAMER_STRESS_DEATHS: how many workers die, in all runs together.
TEST(Dealing, EveryBatchIsTrainedOnOnceWhoeverDies) {
  const char* wanted = std::getenv("GOSSAMER_STRESS_DEATHS");
  const int deaths = wanted ? std::atoi(wanted) : 24;
  for (int died = 0; died < deaths; died += 2) {
    const std::vector<i64> again = train(static_cast<std::uint64_t>(died + 1), 2);
    std::optional<i64> said;
    for (const i64 each : again) {
      if (each < 0) continue;
      EXPECT_EQ(said.value_or(each), each) << "all that live say the same";
      said = each;
    }
    ASSERT_TRUE(said);
    EXPECT_LE(*said, 2 * kOfStep / (kWorkers - 1) + 2);
  }
}

// --- who comes and goes in rounds

// What all workers computed, as they noted it: the batches of each step, by stretch (between two
// changes of who shares) and rank; and what of it counts, as those that live say.
class Ledger {
 public:
  static constexpr i64 kEpoch = 37, kStep = 9;

  void begins_step(i64 stretch, int rank, std::vector<data::Position> batches) {
    const std::scoped_lock lock(mutex_);
    stretches_[stretch].steps[rank].push_back(std::move(batches));
  }
  void deals(i64 stretch, const std::vector<double>& from, const std::vector<int>& workers) {
    const std::scoped_lock lock(mutex_);
    Stretch& s = stretches_[stretch];
    if (s.from.empty()) s.from = from, s.workers = workers;
    EXPECT_EQ(s.from, from) << "all deal the same, stretch " << stretch;
    EXPECT_EQ(s.workers, workers) << "stretch " << stretch;
  }
  void counts(i64 stretch, const std::vector<i64>& done) {
    const std::scoped_lock lock(mutex_);
    Stretch& s = stretches_[stretch];
    if (s.done.empty()) s.done = done;
    EXPECT_EQ(s.done, done) << "all say the same of stretch " << stretch;
  }
  // When all have ended: every batch before the end counts once, but for those that come again.
  // Returns how many did.
  i64 check() {
    std::map<std::pair<i64, i64>, int> counted;
    i64 again = 0;
    data::Dealt left;
    for (auto& [number, s] : stretches_) {
      if (s.workers.empty()) continue;  // nobody did a step between two changes
      if (s.done.empty()) {             // the last
        EXPECT_EQ(number, stretches_.rbegin()->first);
        for (const int w : s.workers) s.done.push_back(std::ssize(s.steps[w]));
      }
      EXPECT_EQ(s.done.size(), s.workers.size()) << "stretch " << number;
      for (std::size_t i = 0; i < std::min(s.done.size(), s.workers.size()); ++i) {
        const auto& steps = s.steps[s.workers[i]];
        EXPECT_LE(s.done[i], std::ssize(steps)) << "stretch " << number;
        for (i64 k = 0; k < std::min(s.done[i], std::ssize(steps)); ++k)
          for (const data::Position& p : steps[static_cast<std::size_t>(k)])
            EXPECT_EQ((counted[{p.epoch, p.step}]++), 0)
                << "batch " << p.step << " of epoch " << p.epoch << ", stretch " << number;
      }
      const data::Deal deal(dealt_from(s.from), kEpoch, kStep, 0,
                            static_cast<int>(s.workers.size()));
      left = deal.after(s.done);
      again += std::ssize(left.again);
    }
    for (const data::Position& p : left.again) EXPECT_EQ((counted[{p.epoch, p.step}]++), 0);
    i64 missing = 0;
    for (i64 i = 0; i < left.next.epoch * kEpoch + left.next.step; ++i)
      missing += counted[{i / kEpoch, i % kEpoch}] == 0;
    EXPECT_EQ(missing, 0);
    EXPECT_EQ(std::ssize(counted), left.next.epoch * kEpoch + left.next.step);
    EXPECT_GT(left.next.epoch, 0) << "or nothing is shown";
    return again;
  }

 private:
  struct Stretch {
    std::vector<double> from;
    std::vector<int> workers;
    std::vector<i64> done;
    std::map<int, std::vector<std::vector<data::Position>>> steps;
  };
  std::mutex mutex_;
  std::map<i64, Stretch> stretches_;
};

class Shares final : public dist::Training::Beside {
 public:
  Shares(Ledger& ledger, int rank) : ledger_(ledger), rank_(rank) {}
  void options(dist::MethodOptions& o) override {
    o.tell = [this] {
      std::vector<double> note = to_numbers(dealing_->begin());
      note.push_back(static_cast<double>(first_ + std::ssize(method_->sharing().changes)));
      return note;
    };
    o.told = [this](std::vector<double> note) {
      first_ = static_cast<i64>(note.back());
      note.pop_back();
      told_ = std::move(note);
    };
  }
  void begins(const dist::Method& method) override {
    method_ = &method;
    dealing_ = std::make_unique<Dealing>(
        Dealing::Options{.rank = rank_,
                         .batches_of_epoch = Ledger::kEpoch,
                         .batches_of_step = Ledger::kStep,
                         .from = told_.empty() ? data::Dealt() : dealt_from(told_),
                         .deal = [](const data::Deal&) {}},
        method);
    seen_ = static_cast<std::size_t>(0);
    note_changes();
  }
  void before_step() override {
    std::vector<data::Position> batches;
    for (i64 i = method_->sharing().share(Ledger::kStep, rank_); i > 0; --i, dealing_->taken())
      batches.push_back(dealing_->next());
    ledger_.begins_step(stretch(), rank_, std::move(batches));
  }
  void after_step() override {
    if (dealing_->after_step()) note_changes();
  }

 private:
  i64 stretch() const { return first_ + static_cast<i64>(seen_); }
  void note_changes() {
    const dist::Sharing& now = method_->sharing();
    for (; seen_ < now.changes.size(); ++seen_) ledger_.counts(stretch(), now.changes[seen_].done);
    ledger_.deals(stretch(), to_numbers(dealing_->begin()), now.workers);
  }

  Ledger& ledger_;
  const int rank_;
  const dist::Method* method_ = nullptr;
  std::unique_ptr<Dealing> dealing_;
  std::vector<double> told_;
  i64 first_ = 0;         // the stretch in which it began
  std::size_t seen_ = 0;  // changes
};

class DealingRounds : public testing::TestWithParam<const char*> {
 protected:
  void shares(dist::Training& t) {
    t.options.global_batch = Ledger::kStep;
    t.beside = [this](int rank) { return std::make_unique<Shares>(ledger_, rank); };
  }
  Ledger ledger_;
};

TEST_P(DealingRounds, EveryBatchCountsOnceWhoeverDies) {
  dist::Training t(5, 1, GetParam(), std::string(GetParam()) == "relay-sgd" ? "chain" : "ring");
  t.options.total_samples = 2000 * Ledger::kStep;
  shares(t);
  t.start();
  for (const int rank : {3, 0}) {
    ASSERT_TRUE(t.until([&, done = t.steps()] { return t.steps() >= done + 150; }));
    t.kill(rank);
  }
  t.finish();
  EXPECT_EQ(t.count("dead", 0), 3);
  ledger_.check();
}

INSTANTIATE_TEST_SUITE_P(Methods, DealingRounds,
                         testing::Values("allreduce", "dpsgd", "sgp", "local-sgd", "diloco",
                                         "noloco", "gradient-tracking", "relay-sgd"),
                         [](const auto& test) { return dist::word(test.param); });

class DealingJoins : public DealingRounds {};

TEST_P(DealingJoins, EveryBatchCountsOnceWhoeverComesAndGoes) {
  dist::Training t(6, 1e9, GetParam(), "ring", dist::Seconds(.5), 3);
  shares(t);
  t.start();
  come_and_go(t, 6, 3, dist::stress_events(12), 7, false);
  ledger_.check();
}

INSTANTIATE_TEST_SUITE_P(Methods, DealingJoins, testing::Values("diloco", "noloco"),
                         [](const auto& test) { return dist::word(test.param); });

}  // namespace
}  // namespace gossamer::apps
