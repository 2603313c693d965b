// A training batch where the network computes. On a CPU it is the loader's own memory. On a GPU
// batches lie in fixed memory, where a recorded step finds them; a stream of its own brings the
// next one while this one is computed:
//
//   copies   batch k+1: pinned -> landing[k+1] ─ record(there)
//   compute  ··· step k ··· wait(there) ─ landing[k+1] -> fixed ─ step k+1 ─ record(end)
//   host     gives step k to the device, brings batch k+1: waits for the end of step k-1 before it
//   touches landing[k+1], and that is its only wait
#pragma once

#include <array>
#include <optional>
#include <span>

#include "gossamer/core/cuda.h"
#include "gossamer/data/loader.h"

namespace gossamer::apps {

class StepInputs {
 public:
  // fixed: as on a GPU, for tests on a CPU.
  explicit StepInputs(Device, bool fixed = false);
  ~StepInputs();
  StepInputs(const StepInputs&) = delete;
  StepInputs& operator=(const StepInputs&) = delete;

  // Begins to bring a batch, and numbers that go with it. At most one is brought before the step of
  // the last one has ended.
  void bring(const data::Batch&, std::span<const float> numbers);
  // What was brought. The same memory as long as the loader is the same, S stays and N does not
  // grow. Of boxes, which vary in size, `bytes` is all there is room for.
  struct Views {
    data::Batch batch;
    Tensor numbers;  // f32
  };
  Views take();
  Views put(const data::Batch& batch, std::span<const float> numbers) {
    return bring(batch, numbers), take();
  }
  // all that reads the views is enqueued
  void step_ends();

 private:
  struct Landing {
    // brought, not taken; its numbers: pinned
    Views host;
    // all the memory; what the batch takes of it
    Views device, window;
    cuda::Event there;
    std::optional<cuda::Event> end;  // of the step that used it; none yet
  };
  Landing& landing_of(std::size_t step) { return landings_[step % landings_.size()]; }
  void await(Landing&);
  void refit(Views&, const Views& brought) const;  // there is room for the batch

  const Device device_;
  const bool fixed_;
  std::optional<cuda::Stream> copies_;
  std::array<Landing, 2> landings_;
  std::size_t brought_ = 0, step_ = 0;  // batches; steps that have ended
  Views room_;                          // the fixed memory
};

}  // namespace gossamer::apps
