// What all ways to sum the gradients of GPUs have in common: a bucket's sum begins on the exchange
// stream, behind an event on the compute stream; the host watches, and only what it has seen come
// through is used. So the optimizer never reads what an aborted kernel left behind.
//
//   compute   - fwd - bwd -[ready 0]- bwd -[ready 1]- bwd -[ready 2].................. update
//   exchange  ............[ready 0]- sum 0 ---[ready 1]- sum 1 ---[ready 2]- sum 2 -[done]
//   thread                 launches            launches            launches          polls
//   training  - enqueues all of backward ------------------------ waits for the thread -'
#pragma once

#include <atomic>
#include <memory>

#include "gossamer/core/parallel.h"
#include "gossamer/dist/gpu/port.h"
#include "gossamer/dist/reducer.h"

namespace gossamer::dist {

class GpuReducer : public Reducer {
 public:
  struct Parts {
    Group& group;
    DevicePort& port;
    std::size_t buckets = 1;
    double limit_s = 60;           // for each wait for the others
    double abort_s = 30;           // for the device to let go of the buffers
    std::shared_ptr<void> keep{};  // what owns the port; destroyed last
  };
  explicit GpuReducer(Parts);
  void mark(std::size_t bucket) override;
  void interrupt() override;
  void open(Collectives& all, const std::vector<int>& members) override;
  void give_up() override;  // until what is in the exchange stream is done

 protected:
  using Stream = DevicePort::Stream;
  void after_gradients(std::size_t bucket);  // later work of the exchange stream comes behind them
  // Until `test` holds. DistError: the transport failed, a member is gone or has come anew, the
  // limit, or interrupt().
  void until(FunctionRef<bool()> test, const char* what);
  void reached(const char* what);              // until all work of the exchange stream is done
  virtual std::string failed() { return {}; }  // why the transport has, if it has

  const Parts parts_;
  Collectives* all_ = nullptr;
  std::vector<int> members_;

 private:
  // which member is gone, or has come anew; empty: none
  std::string missing() const;

  std::vector<std::uint64_t> arrivals_;  // of members_, when they met
  std::vector<DevicePort::Event> ready_;
  const DevicePort::Event done_;
  std::atomic<bool> interrupted_ = false;
};

// Device -> pinned memory -> collectives of the host -> device, bucket by bucket. Where there is no
// NCCL, or when it is asked for.
class StagedReducer final : public GpuReducer {
 public:
  explicit StagedReducer(Parts parts) : GpuReducer(std::move(parts)) {}
  void add(std::size_t bucket, const Tensor& own, Tensor sum) override;

 private:
  std::shared_ptr<Block> staging_;  // pinned, of the largest bucket so far
  std::size_t bytes_ = 0;
};

}  // namespace gossamer::dist
