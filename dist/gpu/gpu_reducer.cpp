// Waiting with one eye on the others, and the way over the host.
#include "gossamer/dist/gpu/gpu_reducer.h"

#include <algorithm>
#include <thread>

#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {
constexpr auto kLook = std::chrono::microseconds(30);  // between two looks at the device
// seconds between two looks at the members
constexpr double kLookAround = 2e-3;
}  // namespace

GpuReducer::GpuReducer(Parts parts) : parts_(std::move(parts)), done_(parts_.port.make_event()) {
  for (std::size_t b = 0; b < parts_.buckets; ++b) ready_.push_back(parts_.port.make_event());
}

void GpuReducer::mark(std::size_t bucket) {
  parts_.port.record(ready_.at(bucket), Stream::compute);
}
void GpuReducer::after_gradients(std::size_t bucket) {
  parts_.port.wait(Stream::exchange, ready_.at(bucket));
}

void GpuReducer::interrupt() {
  interrupted_ = true;
  if (all_) all_->interrupt();
}

void GpuReducer::open(Collectives& all, const std::vector<int>& members) {
  interrupted_ = false;
  all_ = &all;
  members_ = members;
  arrivals_.clear();
  for (const int m : members_)
    arrivals_.push_back(m == parts_.group.rank() ? 0 : parts_.group.arrivals(m));
}

std::string GpuReducer::missing() const {
  const std::vector<int> alive = parts_.group.alive();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const int m = members_[i];
    if (std::ranges::find(alive, m) == alive.end())
      return "worker " + std::to_string(m) + " is gone";
    if (m != parts_.group.rank() && parts_.group.arrivals(m) != arrivals_[i])
      return "worker " + std::to_string(m) + " was gone";
  }
  return {};
}

void GpuReducer::until(FunctionRef<bool()> test, const char* what) {
  const double began = wall_seconds();
  const PreciseSleep precise;
  for (double next = began; !test();) {
    const double now = wall_seconds();
    if (now >= next) {
      check<DistError>(!interrupted_, "worker ", parts_.group.rank(), ", ", what, ": given up");
      for (const std::string& why : {failed(), missing()})
        check<DistError>(why.empty(), "worker ", parts_.group.rank(), ", ", what, ": ", why);
      check<DistError>(now - began < parts_.limit_s, "worker ", parts_.group.rank(), ", ", what,
                       ": not done after ", parts_.limit_s, " s, though all of ", members_.size(),
                       " workers are alive");
      next = now + kLookAround;
    }
    std::this_thread::sleep_for(kLook);
  }
}

void GpuReducer::reached(const char* what) {
  parts_.port.record(done_, Stream::exchange);
  until([&] { return parts_.port.done(done_); }, what);
}

void GpuReducer::give_up() {
  parts_.port.record(done_, Stream::exchange);
  for (const double limit = wall_seconds() + parts_.abort_s; !parts_.port.done(done_);
       std::this_thread::sleep_for(kLook))
    check<DistError>(wall_seconds() < limit, "worker ", parts_.group.rank(),
                     ": the GPU did not finish its copies in ", parts_.abort_s, " s");
}

void StagedReducer::add(std::size_t bucket, const Tensor& own, Tensor sum) {
  if (bytes_ < own.bytes()) {
    bytes_ = own.bytes();
    staging_ = cuda::allocate_pinned(bytes_);
  }
  auto* floats = static_cast<float*>(staging_->data);
  after_gradients(bucket);
  parts_.port.copy(Stream::exchange, floats, own.data(), own.bytes());
  reached("gradients on their way to the host");
  all_->all_reduce_sum(Tensor::wrap(floats, {own.numel()}, DType::f32));
  parts_.port.copy(Stream::exchange, sum.data(), floats, own.bytes());
  reached("sums on their way from the host");
}

}  // namespace gossamer::dist
