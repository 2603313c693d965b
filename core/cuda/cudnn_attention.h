// Attention by cuDNN on one GPU: which calls it takes, and the plans that run them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/backend.h"
#include "gossamer/core/cuda/cudnn_engine.h"

namespace gossamer::cudnn {

// One call of Backend::attention or attention_back, in numbers. Rows of y and dy are heads * size
// apart.
struct AttentionProblem {
  bool backward = false;
  DType type = DType::bf16;
  i64 batch = 0, heads = 0, queries = 0, keys = 0, size = 0;
  bool causal = false;        // query i sees keys 0 … i
  i64 q_row = 0, kv_row = 0;  // elements from a row of q, and of k and v, to the next
  bool log_sums = false;      // forward: they are wanted
  // backward: the sums of dq may be taken in any order, so that bits differ from run to run, but
  // no room is needed for all slopes of the scores
  bool any_order = false;
  bool operator==(const AttentionProblem&) const = default;
  // "attention bf16 b8 h12 q1024 k1024 d64 causal rows 2304,2304": one line, one problem
  std::string key() const;
};

// What cuDNN takes: bf16 or f16, heads of 8, 16, … 128 numbers, several queries, no dropout,
// no lengths, heads of their own for keys, neither windows nor documents; if causal, from position
// 0 and as many keys as queries, for each length is compiled anew. The rest is computed by
// kernels/attention.h.
bool fits(const Attention&);
AttentionProblem problem_of(const Attention&, bool backward, bool log_sums = false);

class AttentionEngine {
 public:
  // options.deterministic: backward keeps all slopes of the scores, whatever room they need: batch
  // * heads * queries * keys numbers of 16 bits.
  explicit AttentionEngine(Device, const EngineOptions& = {});
  ~AttentionEngine();
  AttentionEngine(const AttentionEngine&) = delete;
  AttentionEngine& operator=(const AttentionEngine&) = delete;

  // As Backend's attention and attention_back, for calls that fit, by cuDNN's first guess of a
  // plan. False, and nothing done, where cuDNN has none. Thread-safe. Backward has two ways, one of
  // them with sums in any order: if options.autotune, they are measured when a problem is first met
  // outside of a capture, which waits for the device, and the choice goes into the plan file.
  bool forward(const Attention&, const Tensor& y, const Tensor& log_sums);
  bool backward(const Attention&, const Tensor& y, const Tensor& log_sums, const Tensor& dy,
                const PackedRows& dq, const PackedRows& dk, const PackedRows& dv);

  // What was chosen so far, as ConvEngine::choices says it, and microseconds of the other way.
  struct Choice {
    AttentionProblem problem;
    std::string plan, from;
    double microseconds, other;
  };
  std::vector<Choice> choices() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::cudnn
