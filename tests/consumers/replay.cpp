// The line that the consumers fit by gsm_gossip_*, fitted by the C++ path in the order of events
// that they have recorded. Prints the bits of the result, which must be theirs.
// A worker of as many processes as have recorded: sums in another order would differ in their bits.
//   consumer_replay FOLDER
#include <bit>
#include <cstdint>
#include <cstdio>

#include "gossamer/dist/method.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/nn/optim.h"

using namespace gossamer;

// uniform in -1 … 1
static float draw(std::uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
}

static void work(dist::Group& group, const char* folder) {
  FlatParams params({{"x", Tensor::zeros({2}).requires_grad()}});
  params.settle_grads();
  nn::Sgd sgd(params, {.momentum = 0});
  dist::MethodOptions options;
  options.total_samples = 10000.0 * group.size();
  options.replay = folder;
  const auto method = dist::make_method("a2cid2", params, sgd, group,
                                        dist::make_graph("ring", group.size()), options);
  auto random = 12345u + static_cast<std::uint32_t>(group.rank());
  while (!method->done()) {
    const float* x = params.compute_f32().as<float>();
    const float at = draw(random), y = 3.0f * at - 1.0f + 0.1f * draw(random);
    const float error = x[0] * at + x[1] - y;
    float* g = params.grads().as<float>();
    g[0] = 0.05f * error * at;
    g[1] = 0.05f * error;
    method->step(1);
  }
  method->finish();
  const float* x = params.values().as<float>();
  std::printf("bits %08x %08x\n", std::bit_cast<std::uint32_t>(x[0]),
              std::bit_cast<std::uint32_t>(x[1]));
}

int main(int, char** arguments) {
  const auto group = dist::join(dist::launch_info());
  work(*group, arguments[1]);
}
