// See on_gpu.h.
#include "gossamer/apps/commands/on_gpu.h"

#include "gossamer/apps/terminal.h"
#include "gossamer/core/cuda/backend_cuda.h"

namespace gossamer::apps {

std::vector<JsonObject> convolutions_on(Device device) {
  std::vector<JsonObject> list;
  for (const cudnn::ConvEngine::Choice& c : conv_engine(device).choices()) {
    JsonObject& one = list.emplace_back();
    one.add("problem", c.problem.key()).add("plan", c.plan).add("from", c.from);
    one.add("us", c.microseconds).add("rejected", c.rejected);
  }
  return list;
}

std::vector<JsonObject> attentions_on(Device device) {
  std::vector<JsonObject> list;
  for (const cudnn::AttentionEngine::Choice& c : attention_engine(device).choices())
    list.emplace_back()
        .add("problem", c.problem.key())
        .add("plan", c.plan)
        .add("from", c.from)
        .add("us", c.microseconds)
        .add("other_us", c.other);
  return list;
}

std::vector<JsonObject> products_on(Device device) {
  std::vector<JsonObject> list;
  for (const cublas::Gemm::Choice& c : gemm_engine(device).choices()) {
    JsonObject& one = list.emplace_back();
    one.add("product", c.product).add("from", c.from).add("us", c.microseconds);
    one.add("first_us", c.first_guess).add("proposals", c.proposals).add("rejected", c.rejected);
  }
  return list;
}

void say_no_graph(const std::string& why) {
  say("the network runs eagerly, not as a CUDA graph: " + why);
}

}  // namespace gossamer::apps
