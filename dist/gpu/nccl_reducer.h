// The sum by NCCL: one communicator of all living workers, opened anew when they change. Its
// kernels wait for the other GPUs, and each holds a multiprocessor until they have come: that is
// what an all-reduce costs. No other communicator of this worker is open meanwhile (gossip has its
// own way, payload.h, and a worker trains by one method), so no two can wait for each other.
//
// A failure in any phase aborts the communicator; what the aborted kernels left in the sums is
// dropped, and the failure goes up to Membership, which lets the living meet again.
#pragma once

#include "gossamer/dist/gpu/gpu_reducer.h"

namespace gossamer::dist {

class NcclReducer final : public GpuReducer {
 public:
  // most_ctas: multiprocessors that the sums may take; 0: NCCL's choice. The port is used by the
  // reducer's thread alone.
  NcclReducer(Parts, NcclPort&, int most_ctas);
  ~NcclReducer() override;
  void open(Collectives& all, const std::vector<int>& members) override;
  void add(std::size_t bucket, const Tensor& own, Tensor sum) override;
  void complete() override;
  void give_up() override;

 private:
  std::string failed() override;
  // until what was asked of the communicator has come about
  void enacted(const char* what);
  void close();

  NcclPort& nccl_;
  const int most_ctas_;
  NcclPort::Comm comm_ = 0;
  bool wedged_ = false;  // an aborted communicator that never let go
};

}  // namespace gossamer::dist
