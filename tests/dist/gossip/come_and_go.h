// Joins, deaths and leaves of the workers of a Training in random order, while all train.
#pragma once

#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "dist/gossip/training.h"
#include "gossamer/core/random.h"

namespace gossamer::dist {

// GOSSAMER_STRESS_EXCHANGES: a thousandth of that, and a thousand gradients between two; else
// `usual`.
inline int stress_events(int usual) {
  const char* given = std::getenv("GOSSAMER_STRESS_EXCHANGES");
  return given ? static_cast<int>(std::strtoll(given, nullptr, 10) / 1000) : usual;
}

// t has started with `started` of `places`. Each event is waited for until all that live have heard
// of it, and then until they have done some steps. At the end all leave. founders_return: those
// that began may be started again, too.
inline void come_and_go(Training& t, int places, int started, int events, std::uint64_t seed,
                        bool founders_return = true) {
  Rng random(seed);
  std::vector<bool> here(static_cast<std::size_t>(places));
  std::fill_n(here.begin(), started, true);
  int alive = started;
  for (int event = 0; event < events;) {
    const auto rank = static_cast<int>(random.below(static_cast<std::uint32_t>(places)));
    const auto r = static_cast<std::size_t>(rank);
    if (!here[r]) {
      if (rank < started && !founders_return) continue;
      const int before = t.count("joined", rank);
      t.restart(rank);
      ASSERT_TRUE(t.until([&] { return t.count("joined", rank) == before + alive; }))
          << "event " << event << ": worker " << rank << " does not take part";
      ++alive;
    } else if (alive > 2) {
      // one that leaves may be missed in a collective before its farewell is heard
      const auto gone = [&] { return t.count("dead", rank) + t.count("left", rank); };
      const int before = gone();
      --alive;
      random.below(2) == 0 ? t.kill(rank) : t.leave(rank);
      ASSERT_TRUE(t.until([&] { return gone() == before + alive; }))
          << "event " << event << ": worker " << rank << " is not missed";
    } else {
      continue;
    }
    ++event;
    here[r] = !here[r];
    const double more = std::getenv("GOSSAMER_STRESS_EXCHANGES") ? 1000 : 10 * alive;
    ASSERT_TRUE(t.until([&, done = t.steps()] { return t.steps() >= done + more; }));
  }
  for (int rank = 0; rank < places; ++rank) {
    if (!here[static_cast<std::size_t>(rank)]) continue;
    // its estimate of what all have done: within what the dead did that nobody heard of
    if (t.options.global_batch == 0)
      EXPECT_NEAR(t.worker(rank).seen / t.steps(), 1, .2) << "as worker " << rank << " counts";
    t.worker(rank).leaves = true;
  }
  t.finish();
}

}  // namespace gossamer::dist
