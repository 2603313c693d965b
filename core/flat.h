// FlatParams: all parameters of a model in one block, their gradients in another, running
// statistics in a third. Optimizer step, mixing, exchange, clipping and checkpoint are then one
// pass over a span. The model's tensors stay ordinary tensors: they become windows, and no layer
// notices. It is built once, from a model on its device, before the optimizer and the method (which
// work on the blocks).
// Threads: one at a time for a FlatParams and the tensors that are its windows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/core/tensor.h"

namespace gossamer {

// elements [begin, end) of a flat block; end < 0: to its end
struct FlatRange {
  i64 begin = 0, end = -1;
};

struct FlatOptions {
  // type in which layers read parameters of rank >= 2 (rank < 2 stays f32): f32, bf16 or f16
  DType compute = DType::f32;
  bool separate = false;  // separate() from the start
  // grads() holds the gradients times this, a power of two: see backward()
  float loss_scale = 1;
};

// Layout: parameters of rank >= 2 first (they take weight decay), then the rest; each part in
// reverse order of registration (roughly the order in which gradients become ready); each entry
// starts on 128 bytes; padding is zero and stays zero.
class FlatParams {
 public:
  // Copies the tensors in and re-points them: parameters at the compute copy (see refresh()), their
  // gradients at grads(), f32 buffers at buffers(). All handles of these tensors, a user's too, see
  // that from now on; a window that was made before (slice, reshape, detach) still sees the old
  // memory. Integer buffers are left alone. The tensors must be f32 and can't be resized or frozen
  // (requires_grad(false)) afterwards. ShapeError on a duplicate name.
  // frozen: parameters and buffers that are not trained (nn::Module::parts()). They get no place in
  // the blocks, so nothing changes or exchanges them; layers read them in the compute type too.
  explicit FlatParams(std::vector<NamedTensor> params, std::vector<NamedTensor> buffers = {},
                      FlatOptions = {}, std::vector<NamedTensor> frozen = {});
  ~FlatParams();
  FlatParams(const FlatParams&) = delete;
  FlatParams& operator=(const FlatParams&) = delete;

  const Tensor& values() const { return values_; }  // f32 [size]: the master copy
  const Tensor& grads() const { return grads_; }    // f32 [size]
  // f32 [buffer size]: running means and variances
  const Tensor& buffers() const { return buffers_; }
  i64 size() const { return values_.numel(); }
  i64 decayed() const { return decayed_; }  // values()[0, decayed()) have rank >= 2
  i64 parameter_count() const;              // without padding

  // Gradients count as zero from here on: the first one of the next backward pass overwrites its
  // window.
  void zero_grad();
  // Walks the tape from a loss, whose gradient is share times the loss scale, so that small
  // gradients do not vanish in f16. Optimizers divide by the scale again. Gradients of several
  // passes since zero_grad() add up; with share = 1/n those of n losses are the gradient of their
  // mean.
  void backward(const Tensor& loss, float share = 1) const;
  float loss_scale() const { return options_.loss_scale; }
  // In f16, or with a loss scale, a step whose gradients are not all finite is skipped. f32 [2] on
  // the device, written by find_overflow(): how many of grads() are not finite now; how many steps
  // were skipped. Undefined otherwise: no step is skipped.
  const Tensor& overflow() const { return overflow_; }
  // Whether the last find_overflow() found some; false on a GPU, where asking would wait.
  bool skips_step() const;
  // How many steps were skipped so far. The host waits for a GPU.
  i64 skipped_steps() const;
  // Sets windows to zero that no gradient has reached since zero_grad(). Call it before grads() is
  // read.
  void settle_grads(FlatRange = {});

  // Buckets: the block cut between parameters into ranges of about `bytes` (one parameter may be
  // longer), which together are the block.
  std::vector<FlatRange> buckets(i64 bytes) const;
  // From now on backward() calls mark(i) and then ready(i), in its thread, when the last gradient
  // in ranges[i] is in: once after each arm_ready(). A range with a parameter that gets no gradient
  // is never ready. Ranges begin and end between parameters; an empty list ends the calls. mark may
  // only enqueue work on the device, which follows that gradient.
  using Call = std::function<void(std::size_t)>;
  void on_ready(const std::vector<FlatRange>& ranges, Call ready, Call mark = nullptr);
  void arm_ready();
  // For a backward pass that a graph captures (cuda::Graph) while `pass` runs: its marks become
  // part of the graph, and ready is not called. Returns the ranges in the order in which they get
  // ready. After each launch replay_ready() calls ready for those that are armed.
  std::vector<std::size_t> record_ready(FunctionRef<void()> pass);
  void replay_ready(const std::vector<std::size_t>& ranges);

  const FlatOptions& options() const { return options_; }
  // The compute copy is what layers read: values() itself, unless it is separate or of 16 bits.
  // f32 [size]; with 16 bits only [decayed(), size) is used
  const Tensor& compute_f32() const { return compute_f32_; }
  // bf16 or f16 [decayed()], undefined for f32
  const Tensor& compute_half() const { return compute_half_; }
  void refresh();  // compute copy <- values(), frozen()
  // Gives layers a copy of their own, and refreshes it: from now on values() may change during
  // forward and backward. Methods that exchange values() during the computation call it, between
  // two passes.
  void separate();
  bool aliased() const { return !options_.separate; }

  struct Entry {
    std::string name;
    Shape shape;
    i64 offset;  // in elements
  };
  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<Entry>& buffer_entries() const { return buffer_entries_; }
  // Windows on any flat block of this layout (values(), a momentum, a twin …), by name: for
  // checkpoints.
  std::vector<NamedTensor> windows(const Tensor& flat, const std::string& prefix = "") const;
  std::vector<NamedTensor> buffer_windows() const;
  const std::vector<NamedTensor>& frozen() const { return frozen_; }  // their f32 values
  // of names and shapes: equal on all workers, or they can't exchange
  std::uint64_t fingerprint() const;

 private:
  FlatOptions options_;
  std::vector<NamedTensor> params_, buffer_tensors_, frozen_;
  std::vector<Tensor> frozen_half_;  // of frozen_: what layers read instead, or undefined
  // of params_, kept here: what users do to their tensors can't take them away
  std::vector<std::shared_ptr<Slot>> slots_;
  std::vector<Entry> entries_, buffer_entries_;
  Tensor values_, grads_, buffers_, compute_f32_, compute_half_, overflow_;
  i64 decayed_ = 0;

  struct Bucket {
    i64 parameters = 0, missing = 0;
  };
  void point_layers_at_copy();
  void arrived(std::size_t slot);
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // of slots_
  std::vector<bool> arrived_;
  Call ready_, mark_;
  std::vector<std::size_t>* recorded_ = nullptr;  // while a pass is recorded
};

}  // namespace gossamer
