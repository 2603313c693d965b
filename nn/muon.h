// Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon): the momentum of each hidden matrix
// is made orthogonal before it is subtracted. Vectors, tables and heads take AdamW.
//   B <- mu B + (1 - mu) G,  U = mu B + (1 - mu) G,  W <- (1 - lr wd) W - lr s orthogonal(U)
// s is sqrt(max(1, rows/columns)), as published first; match_rms: 0.2 sqrt(max(rows, columns)), so
// that updates are as long as AdamW's and its learning rate and weight decay fit (Liu et al. 2025,
// arXiv 2502.16982). It is not linear in G: what workers average is best averaged before.
// Threads: one at a time for an optimizer and its FlatParams.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/muon_update.h"
#include "gossamer/nn/optim.h"

namespace gossamer::nn {

// About the nearest matrix with orthonormal rows (or columns, of which there are fewer): x/|x|,
// then five times x <- a x + (b A + c A^2) x with A = x x'. Singular values end in about 0.7
// to 1.2, except those that were almost 0. x f32 [M, N] -> [M, N]. No gradient.
Tensor orthogonal(const Tensor& x);

// Parameters of rank 2 or more that adam_for does not select are hidden matrices: [rows, all the
// rest]. A range of update() holds whole ones; else it is an Error.
class Muon final : public FlatOptimizer {
 public:
  explicit Muon(FlatParams&, const MuonOptions& = {});
  void begin_step(const GradientScale& = {}) override;
  // {"momentum", "second_moment": f32 [size], {"steps", i64 [1]}}: of hidden matrices B and zero,
  // of the rest Adam's moments
  std::vector<NamedTensor> state() override;
  const char* name() const override { return match_rms_ ? "muon-rms" : "muon"; }

 private:
  struct Matrix {
    i64 begin, end;  // of the block, with padding
    i64 rows, columns;
    float scale;  // s
  };
  AdamCount count() const override { return count_; }
  float usual_factor(const FlatParams::Entry&) const override;
  void pass(const UpdateBlocks&, FlatRange, float weight_decay) override;
  bool is_hidden(const FlatParams::Entry&) const;
  void update_matrix(const Matrix&, const UpdateBlocks&);

  const bool match_rms_;
  const Selection adam_for_;
  const float adam_factor_;
  MuonRule rule_;
  AdamRule adam_;  // of the same two blocks
  AdamCount count_;
  std::vector<Matrix> matrices_;  // in the order of the block
};

}  // namespace gossamer::nn
