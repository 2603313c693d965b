// Gossip of workers whose tensors lie on GPUs, recorded and repeated: the same bits, whatever the
// devices take for their time. The GPUs are fakes, and what the layers compute is emulated as one
// does it.
#include <gmock/gmock.h>

#include "dist/gossip/net_training.h"
#include "dist/gpu/devices.h"
#include "gossamer/dist/gossip/recorder.h"
#include "gossamer/dist/gpu/device_group.h"
#include "support/temp_folder.h"
#include "support/use_backend.h"

namespace gossamer::dist {
namespace {

constexpr int kWorkers = 3;

class GpuReplays : public InTempFolder, public ::testing::WithParamInterface<const char*> {
 protected:
  std::vector<std::vector<float>> train(const std::string& record, const std::string& replay,
                                        std::uint64_t seed, double longest_ms) {
    const UseBackend emulated("cuda_emulated");
    fake::Machine machine(kWorkers, seed);
    machine.eager = true;
    const fake::Devices devices(machine, kWorkers);
    MethodOptions options;
    options.seed = 3;
    options.rate = 1.5;
    options.record = record.empty() ? "" : file(record).string();
    options.replay = replay.empty() ? "" : file(replay).string();
    auto out = train_nets(
        kWorkers, options, longest_ms,
        [&](int rank, Group& host) -> std::unique_ptr<Group> {
          return std::make_unique<DeviceGroup>(
              DeviceGroup::Parts{.host = host, .port = machine.gpu(rank)});
        },
        GetParam());
    EXPECT_THAT(machine.problems(), ::testing::IsEmpty());
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Methods, GpuReplays, ::testing::Values("a2cid2", "adpsgd"));

TEST_P(GpuReplays, RepeatARunBitForBitWhateverDevicesAndWorkersTake) {
  const auto recorded = train("first", "", 1, .2);
  for (const std::uint64_t seed : {2, 3}) {
    EXPECT_EQ(train("second", "first", seed, 2), recorded);
    for (int rank = 0; rank < kWorkers; ++rank)
      EXPECT_EQ(contents(record_path(file("second").string(), rank)),
                contents(record_path(file("first").string(), rank)));
  }
}

}  // namespace
}  // namespace gossamer::dist
