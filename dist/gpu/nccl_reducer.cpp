// The life of the communicator of all.
#include "gossamer/dist/gpu/nccl_reducer.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {

NcclReducer::NcclReducer(Parts parts, NcclPort& nccl, int most_ctas)
    : GpuReducer(std::move(parts)), nccl_(nccl), most_ctas_(most_ctas) {}

NcclReducer::~NcclReducer() {
  try {
    close();
  } catch (const std::exception&) {  // a destructor can't tell, and the process ends
  }
}

void NcclReducer::open(Collectives& all, const std::vector<int>& members) {
  close();
  GpuReducer::open(all, members);
  if (members.size() == 1) return;
  // An id is made when all are here: NCCL starts a thread for it that waits for them.
  all.barrier();
  const auto place = std::ranges::find(members, parts_.group.rank()) - members.begin();
  NcclPort::Id id{};
  if (place == 0) id = nccl_.unique_id();
  // a byte in each: what travels as a number stays what it is
  std::vector<float> bytes(id.size());
  std::ranges::transform(id, bytes.begin(),
                         [](char c) { return static_cast<float>(static_cast<unsigned char>(c)); });
  all.broadcast(Tensor::wrap(bytes.data(), {static_cast<i64>(bytes.size())}, DType::f32),
                members.front());
  std::ranges::transform(bytes, id.begin(),
                         [](float f) { return static_cast<char>(static_cast<unsigned char>(f)); });
  comm_ = nccl_.init(id, static_cast<int>(members.size()), static_cast<int>(place),
                     {.most_ctas = most_ctas_, .name = "all-reduce"});
  enacted("opening the NCCL communicator of all workers");
}

void NcclReducer::add(std::size_t bucket, const Tensor& own, Tensor sum) {
  after_gradients(bucket);
  if (members_.size() == 1) {
    parts_.port.copy(Stream::exchange, sum.data(), own.data(), own.bytes());
    return reached("copy of the gradients");
  }
  nccl_.group_start();
  nccl_.all_reduce_sum(comm_, own.as<float>(), sum.as<float>(),
                       static_cast<std::size_t>(own.numel()));
  nccl_.group_end();
  // Nothing may follow in the stream, nor in the communicator, before its kernel is there.
  enacted("launching an all-reduce");
}

// The kernel of a transport that failed ends as well, so the last word is the communicator's.
void NcclReducer::complete() {
  reached("all-reduce of the gradients");
  if (comm_ != 0) enacted("all-reduce of the gradients");
}

void NcclReducer::give_up() { close(); }

std::string NcclReducer::failed() {
  if (comm_ == 0) return {};
  const NcclPort::Status s = nccl_.status(comm_);
  return s.stage == Stage::failed ? "NCCL: " + s.why : std::string();
}

void NcclReducer::enacted(const char* what) {
  until([&] { return nccl_.status(comm_).stage == Stage::done; }, what);
}

// Aborted even when all is well: an orderly end would wait for members that may be gone.
void NcclReducer::close() {
  if (const NcclPort::Comm comm = std::exchange(comm_, 0); comm != 0) {
    nccl_.abort(comm);
    for (const double limit = wall_seconds() + parts_.abort_s; !nccl_.gone(comm) && !wedged_;
         std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      wedged_ = wall_seconds() > limit;
  }
  check<DistError>(!wedged_, "worker ", parts_.group.rank(),
                   ": an aborted all-reduce never let go of the GPU; start this worker again");
}

}  // namespace gossamer::dist
