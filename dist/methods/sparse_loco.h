// SparseLoCo (Sarfi et al. 2025, arXiv 2508.15706): `period` own steps from the reference r, which
// all workers have with the same bits; then the way is compressed by Q, and each worker keeps in e
// what Q did not let through:
//   e <- beta e + alpha (r - x),   s = Q(e),   e <- e - s
//   r <- r - alpha (mean of all s),   x <- r
// beta is sparse_decay and alpha sparse_rate; the second use of alpha is the paper's. Q is, if
// nothing else is said, the authors': of each stretch of 4,096 values of a parameter the 128
// largest, with 2 bits for a value. (They cut matrices into squares of 64 x 64.) The mean is over
// all workers, as in the paper, or value by value over those that sent one, as in the authors'
// code.
//
// Every worker gets the codes of all and adds them in one order, so r keeps the same bits
// everywhere. A worker whose e is not finite is left out and begins a new e. After a death the e of
// the dead is lost; the living keep theirs and take the mean of their models, sent whole, for r.
#pragma once

#include "gossamer/dist/methods/compressed_parameters.h"
#include "gossamer/dist/methods/mixing_options.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

struct SparseLocoOptions : PeriodOptions, CompressionOptions {
  double sparse_decay = .95, sparse_rate = 1;
  std::string sparse_mean = "all";
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    PeriodOptions::visit(self, f);
    CompressionOptions::visit(self, f);
    f(self.sparse_decay, Setting{.name = "sparse_decay",
                                 .about = "sparse-loco: part of what was not sent that is kept "
                                          "until the next outer step (beta)",
                                 .range = Range::from_to(0, 1)});
    f(self.sparse_rate, Setting{.name = "sparse_rate",
                                .about = "sparse-loco: rate of the outer steps (alpha), which the "
                                         "method applies twice",
                                .range = Range::above_zero_to(10)});
    f(self.sparse_mean,
      Setting{.name = "sparse_mean",
              .about = "sparse-loco: what the sum of a value is divided by: all | senders: the "
                       "workers, or those that sent it",
              .choices = {"all", "senders"}});
  }
};

class SparseLoco final : public RoundFormula {
 public:
  static constexpr Vector kReference = Vector::first, kKept = Vector::second;

  explicit SparseLoco(const SparseLocoOptions& o)
      : period_(o.period),
        decay_(o.sparse_decay),
        rate_(o.sparse_rate),
        over_(o.sparse_mean == "all" ? MeanOver::all : MeanOver::senders),
        compressor_(o.usually("chunk-top-k"), kSeed) {}
  std::vector<OwnVector> own_vectors() const override {
    return {{.name = "sparse.reference", .cleared = false, .begins_as_model = true},
            {.name = "sparse.kept", .cleared = false}};
  }
  const Compressor* compressor() const override { return &compressor_; }
  void step(RoundWorker& worker, i64 k) const override {
    worker.update();
    if ((k + 1) % period_ != 0) return;
    worker.blend(Vector::model, -1, 1, kReference);  // the way
    worker.blend(kKept, decay_, rate_, Vector::model);
    worker.average_compressed(kKept, over_);
    worker.blend(kReference, 1, -rate_, Vector::model);
    worker.blend(Vector::model, 0, 1, kReference);
  }

 private:
  static constexpr std::uint64_t kSeed = 2508'15706;
  const i64 period_;
  const double decay_, rate_;
  const MeanOver over_;
  const Compressor compressor_;
};

// What the formula does on tensors, and beginning anew.
class SparseLocoMethod final : public SynchronousMethod {
 public:
  SparseLocoMethod(const MethodTraits&, const MethodContext&, const SparseLocoOptions&);
  std::vector<NamedTensor> state() override;  // none in a group of one

 private:
  void local_step() override;
  void begin_anew() override;
  void average_compressed(Vector v, MeanOver) override;

  const CompressedParameters compressed_;
  // u8: Q(e), and a byte: 1 if e is not finite. f32 [n]: what Q(e) stands for
  const Tensor code_, sent_;
  // f32 [1, 1]: above 0 after a death, as long as references may differ
  const Tensor uneven_;
};

}  // namespace gossamer::dist
