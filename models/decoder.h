// Texts that a language model goes on with, all together, one id after the other. What changes from
// id to id lies on the model's device: a step there waits for nothing, and can be a graph. Who asks
// for the ids of a step when the next one is under way keeps the device busy.
// Threads: one at a time for a Decoder.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "gossamer/core/captured_step.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/ops/decode.h"
#include "gossamer/models/language_net.h"

namespace gossamer::models {

class Decoder {
 public:
  using Ids = std::vector<std::int32_t>;
  // graphs: of steps, after some eager ones.
  Decoder(LanguageNet&, i64 texts, GraphOptions graphs = {});
  i64 texts() const { return ids_.numel(); }
  Device device() const { return device_; }
  i64 positions() const { return net_.positions(); }
  i64 length() const { return cache_.length; }  // ids of each text that were read

  // Other texts: how their ids are chosen, and a seed for each, whose draws begin.
  void begin(const Choice&, std::span<const std::uint64_t> seeds);
  // Reads texts [texts, T], T at least 1, from their beginning, and chooses the id behind each;
  // given (below, too): that id where it is not negative.
  void read(const Ids& texts, const Ids& given);
  // Reads the ids chosen last, and chooses those behind them. ShapeError: the model's positions are
  // all taken.
  void step(const Ids& given);
  // The ids of the first read() or step() that was not asked for; waits for it. Error: a text's
  // logits are not finite.
  Ids ids();

 private:
  void give(const Ids& given);
  void mark_seen(const Ids& texts);
  void choose(const Tensor& logits);
  void send();

  struct Sent {
    std::shared_ptr<Block> ids;  // on the host
    cuda::Event done;
  };
  LanguageNet& net_;
  Device device_;
  LanguageNet::Cache cache_;
  TextPositions positions_;
  Choice choice_;
  Draws draws_;
  Tensor ids_, given_;  // i32 [texts], on the device
  Ids given_now_;       // what given_ holds
  CapturedStep step_;   // with choice_
  std::deque<Sent> sent_;
};

}  // namespace gossamer::models
