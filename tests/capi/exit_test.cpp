// A host may exit while its other threads are inside the library.
#include <cstdio>
#include <string>

#include "gossamer/apps/capi/gossamer.h"
#include "support/exits.h"

namespace gossamer {
namespace {

void need(gsm_status status) {
  if (status == GSM_OK) return;
  std::fprintf(stderr, "%s\n", gsm_last_error());
  std::_Exit(1);
}

// A trainer of each thread's own.
void train(int turn) {
  static thread_local gsm_trainer* trainer = nullptr;
  if (!trainer) need(gsm_trainer_new("resnet8-cifar", 2, nullptr, &trainer));
  const int n = 1 + turn % 5;  // other shapes
  const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(n) * 32 * 32 * 3, 77);
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(n), 1);
  float loss = 0;
  need(gsm_trainer_gradient(trainer, pixels.data(), labels.data(), n, 32, 32, &loss));
  need(gsm_trainer_step(trainer, .01));
}

TEST(Exit, WhileThreadsTrain) { testing::expect_clean_exits(100, 1, {train, train, train}); }

// Two workers, whose exchanges go on in the background.
TEST(Exit, WhileWorkersExchange) {
  const auto work = [](int rank) {
    return [rank](int) {
      static gsm_group* groups[2] = {};
      static const bool made = (need(gsm_group_local(2, groups)), true);
      (void)made;
      static thread_local gsm_gossip* gossip = nullptr;
      static thread_local float x[256] = {};
      if (!gossip) need(gsm_gossip_new(groups[rank], x, 256, "a2cid2", "ring", nullptr, &gossip));
      const float update[256] = {.1f};
      need(gsm_gossip_step(gossip, update));
    };
  };
  testing::expect_clean_exits(100, 20, {work(0), work(1)});
}

}  // namespace
}  // namespace gossamer
