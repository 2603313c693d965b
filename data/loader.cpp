// The loader. The unit of work is one image. All threads fill batches in order, and so does next()
// while it has nothing to return. On a full machine a thread of low priority may starve while it
// makes an image: next() then makes that image as well, and the first of the two owns the row.
// Both make the same bytes. No thread takes over a row that has an owner. So a thread that may
// starve finishes its image in its own memory before it owns the row; one that can't starve owns
// the row before the last pass, which writes the pixels to their place.
#include "gossamer/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "gossamer/core/cancel.h"
#include "gossamer/core/error.h"
#include "gossamer/core/host_signals.h"
#include "gossamer/core/input_pass.h"
#include "gossamer/data/loader/affinity.h"
#include "gossamer/data/loader/batch_job.h"
#include "gossamer/data/loader/checked_options.h"
#include "gossamer/data/loader/epoch.h"
#include "gossamer/data/loader/image_maker.h"
#include "gossamer/data/loader/walk.h"

namespace gossamer::data {
namespace {

// how long next() waits for images that other threads are making before it makes them itself
constexpr std::chrono::milliseconds kWaitForOthers{2};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

}  // namespace

struct Loader::Impl {
  Impl(const std::shared_ptr<const Dataset>& set, const LoaderOptions& o)
      : dataset(set),
        options(o),
        steps(steps_of(*set, o)),
        maker(set, o),
        recipe(std::make_shared<const Recipe>(recipe_of(o, o.size))),
        made(steps),
        at(steps) {
    const auto rows = static_cast<std::size_t>(o.batch);
    const std::size_t box = maker.box_bytes();
    const BatchPool::Bytes bytes{rows * (box ? box : recipe->bytes()), rows * sizeof(std::int32_t),
                                 box ? rows * sizeof(Picture) : 0};
    pool = std::make_shared<BatchPool>(bytes, static_cast<int>(std::min<i64>(o.ahead, steps)),
                                       o.pinned);
  }

  // Shuffles an epoch, unless that is done. Only the caller's thread does it, and without the lock:
  // a million swaps at low priority, with the lock held, would stop all threads on a full machine.
  void need_order(i64 wanted) {
    if (steps == 0) return;
    {
      const std::scoped_lock lock(mutex);
      if (orders.contains(wanted)) return;
    }
    auto fresh = std::make_shared<const std::vector<i64>>(
        epoch_order(dataset->size(), options.epoch, wanted));
    const std::scoped_lock lock(mutex);
    std::erase_if(orders, [&](const auto& known) { return known.first != wanted - 1; });
    orders.emplace(wanted, std::move(fresh));
    room.notify_all();
  }

  // --- jobs, under `mutex` ---

  bool can_add_job() const { return steps > 0 && orders.contains(made.next().epoch); }
  void add_job() {
    made.epoch_is_over();
    const Position place = made.next();
    auto job = std::make_shared<BatchJob>();
    job->epoch = place.epoch;
    job->begin = place.step * options.batch;
    job->order = orders.at(place.epoch);
    job->recipe = recipe;
    job->room = static_cast<std::size_t>(options.batch) * maker.box_bytes();
    job->count = static_cast<int>(
        std::min<i64>(options.batch, static_cast<i64>(job->order->size()) - job->begin));
    job->owned = std::make_unique<std::atomic<bool>[]>(static_cast<std::size_t>(job->count));
    job->absent.resize(static_cast<std::size_t>(job->count));
    job->pooled = std::make_shared<PooledMemory>(pool);
    jobs.push_back(std::move(job));
    made.advance();
  }

  // The first batch with an image that no thread makes yet; a new one while there is room; else
  // none.
  std::shared_ptr<BatchJob> open_job() {
    for (const auto& job : jobs)
      if (job->claimed.load(std::memory_order_relaxed) < job->count) return job;
    if (static_cast<int>(jobs.size()) >= options.ahead || !can_add_job()) return nullptr;
    add_job();
    return jobs.back();
  }

  // --- work, without the lock ---

  void do_image(BatchJob& job, int i, ImageInHand& image, bool may_starve) {
    image.error = nullptr;
    image.absent = image.in_pixels = false;
    const bool cancelled = job.cancelled.load(std::memory_order_relaxed);
    if (!cancelled) {
      try {
        maker.make(job.place(i), *job.recipe, image);
        if (may_starve && !job.room && !image.absent) {
          image.pixels.resize(job.recipe->bytes());
          image.preparer.finish(image.pixels.data());
          image.in_pixels = true;
        }
      } catch (...) {
        image.error = std::current_exception();
      }
    }
    if (job.owned[i].exchange(true, std::memory_order_acq_rel)) return;
    if (!image.error && !cancelled) {
      try {
        if (image.absent)
          job.absent[static_cast<std::size_t>(i)] = 1;
        else
          job.put(i, image);
      } catch (...) {
        image.error = std::current_exception();
      }
    }
    if (image.error || !image.damaged.empty()) job.note(i, image);
    if (job.done.fetch_add(1, std::memory_order_acq_rel) + 1 == job.count) {
      // with the lock, or a waiter could miss it between its check and its sleep
      const std::scoped_lock lock(mutex);
      filled.notify_all();
    }
  }

  // Makes images of one batch until all have been started.
  void work(BatchJob& job, ImageInHand& image, bool may_starve) {
    for (;;) {
      check_cancelled();  // in the caller's thread: what is left is done in its next call
      const int i = job.claimed.fetch_add(1);
      if (i >= job.count) break;
      do_image(job, i, image, may_starve);
    }
  }

  void run_thread(std::promise<void>& placed) {
    // The thread is placed before its first image, so that its memory lies on the node of its CPUs.
    try {
      if (!options.cpus.empty()) pin(options.cpus);
      placed.set_value();
    } catch (...) {
      placed.set_exception(std::current_exception());
      return;
    }
    if (options.background) lower_priority();
    ImageInHand image;
    std::unique_lock lock(mutex);
    while (!closed) {
      std::shared_ptr<BatchJob> job;
      try {
        job = open_job();
      } catch (...) {
        // no memory for another batch: next() gets the same error and throws it
      }
      if (!job) {
        const auto start = Clock::now();
        room.wait(lock);
        idle_s += seconds_since(start);
        continue;
      }
      lock.unlock();
      work(*job, image, options.background);
      job.reset();
      lock.lock();
    }
  }

  std::shared_ptr<BatchJob> take() {
    const auto start = Clock::now();
    std::unique_lock lock(mutex);
    if (jobs.empty()) add_job();
    std::shared_ptr<BatchJob> job = jobs.front();
    const auto complete = [&] { return job->done.load(std::memory_order_acquire) == job->count; };
    if (!complete()) {
      lock.unlock();
      work(*job, caller, false);
      lock.lock();
      if (!filled.wait_for(lock, kWaitForOthers, complete)) {
        lock.unlock();
        for (int i = 0; i < job->count; ++i)
          if (!job->owned[i].load(std::memory_order_relaxed)) do_image(*job, i, caller, false);
        lock.lock();
        filled.wait(lock, complete);  // the other rows have owners, which are writing
      }
    }
    jobs.pop_front();
    room.notify_all();
    wait_s += seconds_since(start);
    return job;
  }

  // Moves the rows together over those that are absent, and returns how many there are.
  // samples: receives those of the rows that are kept.
  i64 close_gaps(BatchJob& job, std::vector<i64>& samples) {
    i64 kept = 0;
    for (i64 i = 0; i < job.count; ++i) {
      if (job.absent[static_cast<std::size_t>(i)]) {
        if (++absent_in_a_row >= maker.too_many(static_cast<i64>(job.order->size())))
          ImageMaker::give_up(absent_in_a_row, job.damaged.front().text);
        continue;
      }
      absent_in_a_row = 0;
      if (kept != i) job.move_row(i, kept);
      if (!options.replace_damaged)
        samples.push_back((*job.order)[static_cast<std::size_t>(job.begin + i)]);
      ++kept;
    }
    return kept;
  }

  void cancel_jobs() {  // under the lock
    for (const auto& job : jobs) job->cancelled = true;
    jobs.clear();
  }

  // The next batches are others than those that were made ahead.
  void go_to(const Walk& to) {
    need_order(to.next().epoch);
    const std::scoped_lock lock(mutex);
    cancel_jobs();
    at = made = to;
    failed = nullptr;
    absent_in_a_row = 0;
    room.notify_all();
  }

  void close() {
    {
      const std::scoped_lock lock(mutex);
      closed = true;
      cancel_jobs();
      room.notify_all();
    }
    // joins: each thread finishes at most the image that it makes
    threads.clear();
  }

  std::shared_ptr<const Dataset> dataset;
  LoaderOptions options;
  i64 steps;  // of an epoch
  ImageMaker maker;
  std::shared_ptr<BatchPool> pool;

  mutable std::mutex mutex;
  std::shared_ptr<const Recipe> recipe;  // of the next job
  // room: a thread may find work; filled: a batch is complete
  std::condition_variable room, filled;
  std::deque<std::shared_ptr<BatchJob>> jobs;  // in the order in which next() returns them
  Walk made;                                   // to the next job to be made
  // by epoch: the one that is read and perhaps the next
  std::map<i64, std::shared_ptr<const std::vector<i64>>> orders;
  bool closed = false;
  Walk at;  // to the batch that next() returns
  i64 images = 0, absent_in_a_row = 0;
  double wait_s = 0, idle_s = 0;
  std::set<i64> damaged_indices;
  std::vector<std::string> damaged;
  // the error that next() throws again until seek()
  std::exception_ptr failed;

  ImageInHand caller;  // of next()
  std::vector<std::jthread> threads;
};

Loader::Loader(const std::shared_ptr<const Dataset>& dataset, const LoaderOptions& options) {
  check<ConfigError>(dataset != nullptr, "loader: no data set");
  impl_ = std::make_unique<Impl>(dataset, options);
  impl_->need_order(0);
  try {
    const HostSignals blocked;
    for (int i = 0; i < options.threads; ++i) {
      std::promise<void> placed;
      auto in_place = placed.get_future();
      impl_->threads.emplace_back(
          [impl = impl_.get(), placed = std::move(placed)]() mutable { impl->run_thread(placed); });
      in_place.get();
    }
  } catch (const std::system_error& error) {
    const std::size_t running = impl_->threads.size();
    impl_->close();
    fail<ConfigError>("loader: thread ", running + 1, " of ", options.threads,
                      " can't be started: ", error.what(), "; use fewer threads");
  } catch (...) {
    impl_->close();
    throw;
  }
}

Loader::~Loader() { impl_->close(); }

i64 Loader::steps() const { return impl_->steps; }

void Loader::seek(i64 epoch, i64 step) {
  check_seek("loader", {epoch, step}, impl_->steps);
  Walk to(impl_->steps);
  to.seek({epoch, step});
  impl_->go_to(to);
}

void Loader::deal(const Deal& from) {
  check_deal("loader", impl_->options.epoch, impl_->steps, from);
  Walk to(impl_->steps);
  to.deal(from);
  impl_->go_to(to);
}

void Loader::set_size(int size) {
  auto fresh = std::make_shared<const Recipe>(recipe_of(impl_->options, size));
  std::optional<Walk> at;
  {
    const std::scoped_lock lock(impl_->mutex);
    if (impl_->recipe->size == size) return;
    impl_->recipe = std::move(fresh);
    at = impl_->at;
  }
  impl_->go_to(*at);
}

int Loader::size() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->recipe->size;
}

i64 Loader::epoch() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->at.epoch();
}

Batch Loader::next() {
  Impl& s = *impl_;
  while (true) {
    i64 epoch = 0;
    bool ends_soon = false;
    {
      const std::scoped_lock lock(s.mutex);
      if (s.failed) std::rethrow_exception(s.failed);
      if (s.at.epoch_is_over()) return {};
      epoch = s.at.epoch();
      ends_soon = s.at.next(s.options.ahead).epoch > epoch;
    }
    s.need_order(epoch);
    if (ends_soon) s.need_order(epoch + 1);  // the threads run into the next epoch
    const std::shared_ptr<BatchJob> job = s.take();
    const std::scoped_lock lock(s.mutex);
    // Damage is counted when its batch is returned, so that the numbers don't depend on how far
    // ahead the threads are.
    std::ranges::sort(job->damaged, {}, &DamagedImage::index);
    for (const DamagedImage& damage : job->damaged)
      if (s.damaged_indices.insert(damage.index).second) s.damaged.push_back(damage.text);
    i64 kept = 0;
    std::vector<i64> samples;
    try {
      if (job->error) std::rethrow_exception(std::exchange(job->error, nullptr));
      kept = s.close_gaps(*job, samples);
    } catch (...) {
      s.failed = std::current_exception();
      throw;
    }
    s.at.advance();
    s.images += kept;
    // an empty batch would end the epoch for the user
    if (kept == 0) continue;
    return job->batch(kept, std::move(samples));
  }
}

LoaderStats Loader::stats() const {
  const Impl& s = *impl_;
  const std::scoped_lock lock(s.mutex);
  const auto ready = std::ranges::count_if(s.jobs, [](const auto& job) {
    return job->done.load(std::memory_order_acquire) == job->count;
  });
  return {s.images, static_cast<i64>(s.damaged.size()), s.wait_s, s.idle_s,
          static_cast<int>(ready)};
}

std::vector<std::string> Loader::damaged() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->damaged;
}

}  // namespace gossamer::data
