// Tensors of one's own, and the tape: who wants gradients, and the pass that finds them.
#include "gossamer/core/tape.h"

#include <cmath>
#include <optional>
#include <unordered_set>

#include "gossamer/apps/capi/cancel.h"
#include "gossamer/apps/capi/networks.h"
#include "gossamer/apps/capi/tensor.h"
#include "gossamer/nn/init.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

// Gradients that calls work on now. Never destroyed, as the table of handles.
struct InUse {
  std::mutex mutex;
  std::unordered_set<const void*> all;
};
InUse& in_use() {
  static auto* const it = new InUse;
  return *it;
}

thread_local std::optional<NoGrad> no_grad;

Shape given_shape(const int64_t* shape, int32_t rank) {
  if (rank != 0) check_given("shape", shape);
  return shape_of(shape, rank);
}

std::shared_ptr<Slot> leaf_slot(const Tensor& t) {
  check<ArgumentError>(t.requires_grad(),
                       "this tensor has no gradient; call gsm_tensor_require_grad before an op "
                       "reads it");
  check<ArgumentError>(t.slot()->leaf,
                       "this tensor is computed from others: its gradient is not kept. Those of "
                       "the tensors that require one are");
  return t.slot();
}

}  // namespace

namespace gossamer::capi {

Gradients::Gradients(std::vector<const void*> theirs) : theirs_(std::move(theirs)) {
  InUse& used = in_use();
  const std::scoped_lock lock(used.mutex);
  for (const void* each : theirs_)
    check<BusyError>(!used.all.contains(each),
                     "another thread finds or uses gradients of the same tensors");
  used.all.insert(theirs_.begin(), theirs_.end());
}

Gradients::~Gradients() {
  InUse& used = in_use();
  const std::scoped_lock lock(used.mutex);
  for (const void* each : theirs_) used.all.erase(each);
}

}  // namespace gossamer::capi

gsm_status gsm_tensor_full(float value, gsm_dtype type, const int64_t* shape, int32_t rank,
                           gsm_tensor** tensor) {
  return guarded([&] {
    check_given("tensor", tensor);
    const DType ours = type_of(type);
    check<ArgumentError>(is_floating(ours) || (value == std::trunc(value) && std::abs(value) < 1e9),
                         value, " is no number of the type ", ours);
    check<ArgumentError>(ours != DType::u8 || (value >= 0 && value <= 255), value,
                         " is no number of the type u8; wanted 0 to 255");
    *tensor = hold(Tensor::full(given_shape(shape, rank), value, ours));
  });
}

gsm_status gsm_tensor_copy(const void* data, gsm_dtype type, const int64_t* shape, int32_t rank,
                           gsm_tensor** tensor) {
  return guarded([&] {
    check_given("data or tensor", data, tensor);
    const Tensor t = Tensor::empty(given_shape(shape, rank), type_of(type));
    std::memcpy(t.data(), data, t.bytes());
    *tensor = hold(t);
  });
}

gsm_status gsm_tensor_uniform(float low, float high, uint64_t seed, const int64_t* shape,
                              int32_t rank, gsm_tensor** tensor) {
  return guarded([&] {
    check_given("tensor", tensor);
    check<ArgumentError>(
        std::isfinite(low) && std::isfinite(high) && low <= high && std::isfinite(high - low),
        "uniform from ", low, " to ", high, "; wanted finite numbers, the smaller one first");
    Rng random(seed);
    *tensor = hold(nn::uniform(given_shape(shape, rank), low, high, random));
  });
}

gsm_status gsm_tensor_normal(float mean, float deviation, uint64_t seed, const int64_t* shape,
                             int32_t rank, gsm_tensor** tensor) {
  return guarded([&] {
    check_given("tensor", tensor);
    check<ArgumentError>(std::isfinite(mean) && std::isfinite(deviation) && deviation >= 0,
                         "normal with mean ", mean, " and deviation ", deviation,
                         "; wanted finite numbers, and a deviation of 0 or more");
    Rng random(seed);
    *tensor = hold(nn::normal(given_shape(shape, rank), mean, deviation, random));
  });
}

gsm_status gsm_tensor_item(gsm_tensor* tensor, float* value) {
  return guarded([&] {
    const Reading t(tensor);
    check_given("value", value);
    *value = t->item();
  });
}

gsm_status gsm_tensor_read(gsm_tensor* tensor, void* data, size_t bytes) {
  return guarded([&] {
    const Reading t(tensor);
    check_given("data", data);
    check_bytes(*t, bytes);
    std::memcpy(data, t->data(), bytes);
  });
}

gsm_status gsm_tensor_write(gsm_tensor* tensor, const void* data, size_t bytes) {
  return guarded([&] {
    const Shared<Held> t(tensor);
    check_given("data", data);
    check_bytes(t->tensor, bytes);
    if (const std::shared_ptr<Object> set = t->set.lock())
      return write_parameter(set, t->tensor, data);
    std::memcpy(t->tensor.data(), data, bytes);
  });
}

gsm_status gsm_reshape(gsm_tensor* x, const int64_t* shape, int32_t rank, gsm_tensor** y) {
  return guarded([&] {
    const Reading t(x);
    check_given("y", y);
    if (rank != 0) check_given("shape", shape);
    *y = hold(t->reshape(open_shape_of(shape, rank)));
  });
}

gsm_status gsm_detach(gsm_tensor* x, gsm_tensor** y) {
  return guarded([&] {
    const Reading t(x);
    check_given("y", y);
    *y = hold(t->detach());
  });
}

gsm_status gsm_tensor_require_grad(gsm_tensor* tensor) {
  return guarded([&] {
    const Exclusive<Held> held(tensor);
    Tensor t = held->tensor;
    check<ArgumentError>(is_floating(t.dtype()), "a tensor of type ", t.dtype(),
                         " has no gradient; wanted f32, bf16 or f16");
    check<ArgumentError>(!t.slot() || t.slot()->leaf,
                         "this tensor is computed from others: its gradient is found, but not "
                         "kept. Call gsm_tensor_require_grad for what it is computed from");
    t.requires_grad();
  });
}

gsm_status gsm_backward(gsm_tensor* loss) {
  return guarded([&] {
    const Reading held(loss);
    const Tensor& root = *held;
    check<ArgumentError>(root.numel() == 1, "gsm_backward begins with one number, but this is ",
                         root.shape(), "; make it one first, by gsm_mean or gsm_sum");
    check<ArgumentError>(root.slot() && !root.slot()->leaf,
                         "nothing was recorded for this tensor: nothing that it is computed from "
                         "requires a gradient (gsm_tensor_require_grad), or "
                         "gsm_set_grad_enabled(0) holds in this thread");
    const std::vector<std::shared_ptr<Node>> nodes = tape(root);
    std::vector<const void*> used;
    std::vector<std::shared_ptr<Slot>> leaves;
    for (const auto& node : nodes) {
      used.push_back(node.get());
      for (const auto& slot : node->inputs)
        if (slot && slot->leaf) {
          used.push_back(slot.get());
          leaves.push_back(slot);
        }
    }
    const Gradients mine(std::move(used));
    for (const auto& node : nodes)
      check<ConfigError>(static_cast<bool>(node->back), "gsm_backward: the tape of ", node->name,
                         " was walked before, and is gone; compute the loss again");
    try {
      const Computing computing;
      backward(root);
    } catch (const Cancelled&) {
      // Some have a part of it.
      for (const auto& slot : leaves) slot->stale = true;
      throw;
    }
  });
}

gsm_status gsm_tensor_grad(gsm_tensor* tensor, gsm_tensor** gradient) {
  return guarded([&] {
    const Reading t(tensor);
    check_given("gradient", gradient);
    const std::shared_ptr<Slot> slot = leaf_slot(*t);
    const Gradients mine({slot.get()});
    const Tensor g = t->grad();
    check<ConfigError>(g.defined(),
                       "no gradient has come for this tensor: call gsm_backward with a loss that "
                       "is computed from it");
    *gradient = hold(g.clone());
  });
}

gsm_status gsm_tensor_zero_grad(gsm_tensor* tensor) {
  return guarded([&] {
    const Reading t(tensor);
    const std::shared_ptr<Slot> slot = leaf_slot(*t);
    const Gradients mine({slot.get()});
    slot->stale = true;
  });
}

gsm_status gsm_set_grad_enabled(int32_t enabled) {
  return guarded([&] {
    if (enabled)
      no_grad.reset();
    else if (!no_grad)
      no_grad.emplace();
  });
}
