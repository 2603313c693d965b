// Buckets in order, and the thread that sums them.
#include "gossamer/dist/rounds/gradient_sum.h"

#include "gossamer/core/error.h"
#include "gossamer/core/host_signals.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {

GradientSum::GradientSum(const Tensor& grads, std::vector<FlatRange> buckets,
                         std::unique_ptr<Reducer> reducer)
    : grads_(grads),
      sum_(Tensor::zeros(grads.shape(), DType::f32, grads.device())),
      buckets_(std::move(buckets)),
      reducer_(std::move(reducer)),
      thread_(start_thread([this] { run(); })) {}

GradientSum::~GradientSum() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
    if (busy_) reducer_->interrupt();
  }
  changed_.notify_all();
  thread_.join();
}

void GradientSum::open(Collectives& all, const std::vector<int>& members) {
  wait();
  begun_ = false;
  failure_ = nullptr;
  give([&] { reducer_->open(all, members); });
  wait();
  throw_failure();
}

void GradientSum::begin() {
  check<Error>(next_ == 0 || !begun_,
               "the sum of a gradient begins before the last one was finished");
  begun_ = true;
  whole_ = false;
  ready_.assign(buckets_.size(), false);
  next_ = 0;
}

void GradientSum::ready(std::size_t bucket) {
  if (!begun_ || ready_[bucket]) return;
  ready_[bucket] = true;
  for (; next_ < buckets_.size() && ready_[next_]; ++next_)
    give([this, b = next_] {
      const trace::Scope scope("all-reduce", static_cast<i64>(b));
      const FlatRange& range = buckets_[b];
      reducer_->add(b, grads_.slice(range.begin, range.end), sum_.slice(range.begin, range.end));
    });
}

void GradientSum::give_rest() {
  if (!begun_ || whole_) return;
  for (std::size_t b = next_; b < buckets_.size(); ++b) {
    if (!ready_[b]) mark(b);
    ready(b);
  }
  give([this] { reducer_->complete(); });
  whole_ = true;
}

bool GradientSum::complete_within(Seconds limit) {
  if (!begun_) begin();
  give_rest();
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return !busy_ && jobs_.empty(); });
}

void GradientSum::finish() {
  if (!begun_) begin();
  give_rest();
  wait();
  begun_ = false;
  throw_failure();
}

void GradientSum::give_up() {
  {
    const std::scoped_lock lock(mutex_);
    jobs_.clear();
    if (busy_) reducer_->interrupt();
  }
  wait();
  begun_ = false;
  failure_ = nullptr;
}

double GradientSum::busy_s() const {
  const std::scoped_lock lock(mutex_);
  return busy_s_;
}

void GradientSum::give(std::function<void()> job) {
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) return;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void GradientSum::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_ && jobs_.empty(); });
}

void GradientSum::throw_failure() {
  if (const std::exception_ptr failure = std::exchange(failure_, nullptr))
    std::rethrow_exception(failure);
}

void GradientSum::run() {
  trace::name_thread("all-reduce");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
    if (closing_) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    const double began = wall_seconds();
    std::exception_ptr failure;
    try {
      job();
    } catch (...) {
      failure = std::current_exception();
      try {
        reducer_->give_up();
      } catch (...) {
        failure = std::current_exception();
      }
    }
    lock.lock();
    busy_s_ += wall_seconds() - began;
    busy_ = false;
    if (failure) {
      failure_ = failure;
      jobs_.clear();
    }
    changed_.notify_all();
  }
}

}  // namespace gossamer::dist
