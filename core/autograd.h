// The tape. An op computes its result, then records one Node: its inputs' gradient slots, the
// tensors it must keep, and a closure from the gradient of the result to the gradients of the
// inputs. No double backward.
// Threads: a tape belongs to the thread that records it and walks it; NoGrad holds for its thread.
// Two threads may not accumulate gradients in one leaf at once.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "gossamer/core/tensor.h"

namespace gossamer {

// One gradient for each input, in order; an undefined one means "none".
using Grads = std::vector<Tensor>;
using Back = std::function<Grads(const Tensor& g, const std::vector<Tensor>& saved)>;
// An op may also write an input's gradient straight to the place where it is accumulated, and
// return `at` as that gradient. This saves a copy for parameters, whose gradients lie in one block
// (flat.h), and an addition where branches of a network meet.
struct Place {
  Tensor at;  // undefined: there is no such place, or others hold its sum too
  // false: overwrite it (a parameter's first gradient);  true: add to it
  bool holds_sum = false;
};
using Places = std::vector<Place>;  // one per input
using BackInPlace =
    std::function<Grads(const Tensor& g, const std::vector<Tensor>& saved, const Places& places)>;

// One recorded op. It owns the slots of its inputs and what is in `saved`, but not the slot of its
// result, which owns it: so no cycle can arise.
struct Node {
  const char* name = "";
  std::uint64_t sequence = 0;  // position on the tape: backward walks downwards
  std::vector<std::shared_ptr<Slot>> inputs;
  // What backward needs of the forward pass; detached by record(). Freed as soon as backward() has
  // run this node; without a backward(), when the last tensor that was computed from it is gone.
  std::vector<Tensor> saved;
  BackInPlace back;
  std::weak_ptr<Slot> out;  // where the gradient of the result is accumulated
  Node();
  ~Node();            // frees long chains in a loop, not by recursion
  static i64 live();  // nodes alive in the process (tests: 0 after backward)
};

// Of a parameter that is some rows of a larger tensor, all of whose rows are such parameters: that
// tensor, which a layer reads as a whole (joined_linear in ops.h), and the parameter's first row.
// Whoever gives parameters other memory keeps them together: `whole` is rebound, too.
struct PartOf {
  Tensor whole;  // undefined: the parameter is a tensor of its own
  i64 row = 0;
  Tensor grad;  // the place of the whole's gradient; undefined: the parts' lie apart
};

// Where the gradient of one tensor is accumulated.
struct Slot {
  Shape shape;
  // of the gradient: the tensor's own type, f32 for parameters
  DType dtype = DType::f32;
  Tensor value;       // the sum so far; for flat parameters a fixed window
  bool stale = true;  // the next gradient overwrites instead of adding
  bool leaf = true;
  bool flat = false;            // value is a window of a FlatParams, which relies on it
  PartOf part;                  // leaf only
  std::shared_ptr<Node> maker;  // null for a leaf
  // leaf only: called when its last gradient of this backward pass is in
  std::function<void()> on_ready;
  int pending = 0;  // leaf only, during backward(): gradients that may still come
};

// Puts one node on the tape of `out`, unless no input wants a gradient or a NoGrad is alive in this
// thread. `out` must not be on the tape yet. `saved` is detached; closures capture options only,
// never tensors that require gradients.
void record(const char* name, Tensor& out, const std::vector<Tensor>& inputs,
            std::vector<Tensor> saved, Back back);
void record(const char* name, Tensor& out, const std::vector<Tensor>& inputs,
            std::vector<Tensor> saved, BackInPlace back);

// True when record() would record: lets an op skip saving what only backward needs.
bool wants_grad(const std::vector<Tensor>& inputs);

// What these are the parts of, if they are all of them, in order: else undefined.
Tensor whole_of(const std::vector<Tensor>& parts);

// Walks the tape from `root`, one element with the given gradient, in the order in which its nodes
// were recorded, backwards. Frees saved tensors as it goes; a second call on the same tape throws.
// Each gradient's shape and type are checked against its input; the error names the op.
void backward(const Tensor& root, float gradient = 1);

// While alive, nothing in this thread is recorded.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

}  // namespace gossamer
