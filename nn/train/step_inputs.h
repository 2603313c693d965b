// Brings batches to the device of the model. On a CPU a batch stays in the loader's memory. On a
// GPU it gets a fixed address, where a captured step reads it, and a copy stream brings the next
// batch while the current one is computed:
//
//   copy stream     batch k+1: pinned -> landing[k+1], record(there)
//   compute stream  … step k … wait(there), landing[k+1] -> fixed, step k+1, record(end)
//   host            enqueues step k, then brings batch k+1: it waits for the end of step k-1 before
//                   it writes to landing[k+1], and for nothing else
// Threads: one at a time for a StepInputs.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "gossamer/core/cuda.h"
#include "gossamer/core/tensor.h"

namespace gossamer::nn {

// The tensors of a batch. Only the task that made it knows what each of them means.
struct StepBatch {
  std::vector<Tensor> tensors{};
  // Elements that each may have in another batch of the same source, for those whose size varies;
  // 0, or no entry: it has its own size.
  std::vector<i64> room{};
  Shape shape{};  // what varies between batches: a captured step fits one shape
  bool empty() const { return tensors.empty(); }
  // The shape of a tensor in the views: its own, or [room] if it has room.
  Shape shape_of(std::size_t tensor) const;
};

// A batch with the random numbers that were drawn for it.
struct DrawnBatch {
  StepBatch batch{};
  std::vector<float> numbers{};
};

class StepInputs {
 public:
  // like_gpu: behaves on a CPU as on a GPU, for tests.
  explicit StepInputs(Device, bool like_gpu = false);
  ~StepInputs();
  StepInputs(const StepInputs&) = delete;
  StepInputs& operator=(const StepInputs&) = delete;

  // Starts the copy of a batch and of the numbers that belong to it. At most one batch may be
  // brought before the step of the previous one has ended.
  void bring(const StepBatch&, std::span<const float> numbers);
  // What was brought. A tensor keeps its address unless it grows; one with room has all of it.
  struct Views {
    StepBatch batch;
    Tensor numbers;  // f32
  };
  Views take();
  Views put(const StepBatch& batch, std::span<const float> numbers) {
    return bring(batch, numbers), take();
  }
  // Call it when all work that reads the views is enqueued.
  void step_ends();

 private:
  // Fixed memory of each tensor, as rows without a shape.
  struct Room {
    std::vector<Tensor> tensors;
    Tensor numbers;
  };
  struct Landing {
    Views host;                      // brought, but not taken; its numbers are pinned
    Room device;                     // where it lands
    cuda::Event there;               // recorded after the copy
    std::optional<cuda::Event> end;  // of the step that used it
  };
  Landing& landing_of(std::size_t step) { return landings_[step % landings_.size()]; }
  void await(Landing&);
  void refit(Room&, const Views& brought) const;  // makes room for the batch

  const Device device_;
  const bool fixed_;  // batches get a fixed address
  std::optional<cuda::Stream> copies_;
  std::array<Landing, 2> landings_;
  std::size_t brought_ = 0, step_ = 0;  // batches; steps that have ended
  Room room_;                           // where steps read
};

}  // namespace gossamer::nn
