// Convolutions by cuDNN: what is asked (ConvProblem), how it can be computed (Plan), and the
// search for plans, also for attention (cudnn_attention.h). No vendor type appears here, and
// planning needs no GPU: with the properties of a device as text, a build machine can ask what
// cuDNN would do on it. Running a plan is in cudnn_engine.h.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/backend.h"
#include "gossamer/core/error.h"

namespace gossamer::cudnn {

enum class ConvOp { forward, backward_data, backward_filter };

// y [n,ho,wo,k] = x [n,h,w,c] * w [k,r,s,c/groups]; all NHWC, all of one type, sums in f32. Padding
// may differ before and after.
struct ConvProblem {
  ConvOp op = ConvOp::forward;
  DType type = DType::bf16;
  i64 n = 0, h = 0, w = 0, c = 0, k = 0, r = 0, s = 0;
  i64 stride = 1, pad_before = 0, pad_after = 0, dilation = 1, groups = 1;
  bool accumulate = false;  // add to what the result holds
  bool tf32 = false;        // f32 only: products may be rounded to 10 bits
  // For inference: y = relu?(sums (+ add, like y) + bias [k]), of the type of the rest; only with a
  // bias the other two.
  bool bias = false, add = false, relu = false;
  i64 ho() const { return (h + pad_before + pad_after - dilation * (r - 1) - 1) / stride + 1; }
  i64 wo() const { return (w + pad_before + pad_after - dilation * (s - 1) - 1) / stride + 1; }
  bool operator==(const ConvProblem&) const = default;
  // "fprop bf16 n256 56x56x64 k64 3x3 s1 p1,1 d1 g1": one line, one problem
  std::string key() const;
};
// Where its tensors are.
struct ConvMemory {
  void *x, *w, *y, *bias = nullptr, *add = nullptr;
};
ConvProblem problem_of(ConvOp, DType, const ConvGeometry&, bool accumulate = false,
                       bool tf32 = false);

// useful plans need 0 to 17 MB; the rest is a trap
inline constexpr std::size_t kWorkspaceCap = std::size_t{256} << 20;

// One way to compute a problem. Copies are handles.
class Plan {
 public:
  struct Impl;
  Plan() = default;
  explicit Plan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  bool defined() const { return impl_ != nullptr; }
  int engine() const;             // cuDNN's number of the kernel family
  std::size_t workspace() const;  // bytes
  bool tensor_cores() const;
  // has cluster-size knobs: kernels written for Hopper or newer
  bool clusters() const;
  // a kernel generated while the program runs, not one that ships with cuDNN
  bool compiles() const;
  // its sums have no fixed order, so bits differ from run to run (cuDNN's note NONDETERMINISTIC)
  bool any_order() const;
  std::string describe() const;  // "eng67 TILE_CGA_M=2 …, 0.0 MB"
  // to be made again by Planner::from_json on the same GPU model and cuDNN
  std::string json() const;
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

struct AttentionProblem;

// Finds plans for one device. deterministic: only those that give the same bits in every run.
class Planner {
 public:
  // For a device described by cuDNN's JSON of its properties; no GPU and no driver is needed.
  static Planner for_properties(const std::string& json, bool deterministic = false);
  // For the device of a cuDNN handle (cudnnHandle_t), which must outlive the planner and its plans.
  static Planner for_handle(void* handle, bool deterministic = false);

  // Plans in the order of cuDNN's heuristics (mode A, then its fallbacks where few are left), best
  // guess first, at most `limit`, without those that need more than `cap` bytes of workspace or
  // that cuDNN refuses when they are built; of convolutions those whose kernels ship with cuDNN.
  // Empty: cuDNN cannot do it.
  std::vector<Plan> plans(const ConvProblem&, std::size_t limit = 64,
                          std::size_t cap = kWorkspaceCap) const;
  std::vector<Plan> plans(const AttentionProblem&, std::size_t limit = 64,
                          std::size_t cap = kWorkspaceCap) const;
  // How many kernels cuDNN proposes, of those that it makes while the program runs: to make them it
  // needs a driver.
  std::size_t proposals(const AttentionProblem&) const;
  // A plan for this problem from its text. Undefined if cuDNN refuses it, or if plans() would.
  Plan from_json(const std::string& json, const ConvProblem&,
                 std::size_t cap = kWorkspaceCap) const;
  struct Target;

 private:
  explicit Planner(std::shared_ptr<const Target> target) : target_(std::move(target)) {}
  std::shared_ptr<const Target> target_;
};

std::string library_version();  // "9.19.0", or "not found: …"

}  // namespace gossamer::cudnn
