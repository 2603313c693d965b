// The fuzz target of the control channel on a few thousand made-up inputs, so that it is built and
// run everywhere.
#include <random>

#include <gtest/gtest.h>

#include "fuzz/wire.cpp"

namespace {

TEST(Fuzz, TheControlChannelsTargetRunsOnMadeUpInputs) {
  std::mt19937 random(9);
  for (int i = 0; i < 3000; ++i) {
    Bytes input;
    for (unsigned frames = 1 + random() % 4; frames > 0; --frames) {
      Frame f;
      f.kind = static_cast<Kind>(1 + random() % 11);
      f.rank = random() % 8;
      Bytes bytes = encode(f);
      for (unsigned flips = random() % 6; flips > 0; --flips)
        bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
      input.insert(input.end(), bytes.begin(), bytes.end());
      if (random() % 2 == 0) {
        const Bytes table = encode_table({{"10.0.0.1", 1}, {"::1", 2}});
        input.insert(input.end(), table.begin(), table.end());
      }
    }
    input.resize(random() % (input.size() + 1));
    // it aborts when something is wrong
    ASSERT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
  }
}

}  // namespace
