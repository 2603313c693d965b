// Brings batches to the device of the model. On a CPU a batch stays in the loader's memory. On a
// GPU it gets a fixed address, where a captured step reads it, and a copy stream brings the next
// batch while the current one is computed:
//
//   copy stream     batch k+1: pinned -> landing[k+1], record(there)
//   compute stream  … step k … wait(there), landing[k+1] -> fixed, step k+1, record(end)
//   host            enqueues step k, then brings batch k+1: it waits for the end of step k-1 before
//                   it writes to landing[k+1], and for nothing else
#pragma once

#include <array>
#include <optional>
#include <span>

#include "gossamer/core/cuda.h"
#include "gossamer/data/loader.h"

namespace gossamer::apps {

class StepInputs {
 public:
  // like_gpu: behaves on a CPU as on a GPU, for tests.
  explicit StepInputs(Device, bool like_gpu = false);
  ~StepInputs();
  StepInputs(const StepInputs&) = delete;
  StepInputs& operator=(const StepInputs&) = delete;

  // Starts the copy of a batch and of the numbers that belong to it. At most one batch may be
  // brought before the step of the previous one has ended.
  void bring(const data::Batch&, std::span<const float> numbers);
  // What was brought. It has the same address as before while the loader and the side S are the
  // same and the number of images N does not grow. Boxes vary in size, so `bytes` is all their
  // room.
  struct Views {
    data::Batch batch;
    Tensor numbers;  // f32
  };
  Views take();
  Views put(const data::Batch& batch, std::span<const float> numbers) {
    return bring(batch, numbers), take();
  }
  // Call it when all work that reads the views is enqueued.
  void step_ends();

 private:
  struct Landing {
    Views host;                      // brought, but not taken; its numbers are pinned
    Views device, window;            // the whole memory; the part that the batch occupies
    cuda::Event there;               // the copy has ended
    std::optional<cuda::Event> end;  // of the step that used it
  };
  Landing& landing_of(std::size_t step) { return landings_[step % landings_.size()]; }
  void await(Landing&);
  void refit(Views&, const Views& brought) const;  // makes room for the batch

  const Device device_;
  const bool fixed_;  // batches get a fixed address
  std::optional<cuda::Stream> copies_;
  std::array<Landing, 2> landings_;
  std::size_t brought_ = 0, step_ = 0;  // batches; steps that have ended
  Views room_;                          // the fixed memory
};

}  // namespace gossamer::apps
