// parallel_for on threads of our own: one pool for the process, started on demand, whose threads
// sleep when there is nothing to do and block signals; a forked child starts its own. Waiting
// threads of OpenMP spin, which one busy core can make ten times slower, and only the environment
// of a program could change that, not a library. A piece that no worker has begun is done by
// whoever is awake, so nobody waits for a thread that has no core.
#include "gossamer/core/parallel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gossamer/core/cancel.h"
#include "gossamer/core/cores.h"
#include "gossamer/core/error.h"
#include "gossamer/core/host_signals.h"

namespace gossamer {
namespace {

using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);

constexpr i64 kMostThreads = 1024;
// How often a waiting thread looks for work before it sleeps, each time for 20 to 50 ns: as long as
// most gaps between two loops, and as waking a thread takes (tests/bench/RESULTS-CPU.md compares).
constexpr int kSpins = 2000;

void sleep_while(Word& word, std::uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake_sleeper(Word& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

template <class Ready>
void spin_until(Ready&& ready) {
  for (int i = 0; i < kSpins && !ready(); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
}

thread_local int threads_here = 0;       // 0: not set
thread_local bool inside_piece = false;  // the calling thread runs a piece of a loop

// A loop, on the stack of the thread that called parallel_for. Whoever runs a piece claims it
// first.
struct Loop {
  static constexpr std::uint32_t kCallerSleeps = 1u << 31;
  FunctionRef<void(i64, i64)> body;
  i64 n, pieces;
  std::array<std::atomic<std::uint64_t>, kMostThreads / 64> begun{};
  Word helpers;  // workers that may still touch this loop, and kCallerSleeps
  std::mutex mutex{};
  i64 failed = pieces;  // the first piece that threw, and what
  std::exception_ptr error{};

  bool claim(i64 piece) {
    auto& word = begun[static_cast<std::size_t>(piece / 64)];
    const std::uint64_t bit = std::uint64_t{1} << (piece % 64);
    return !(word.load(std::memory_order_relaxed) & bit) &&
           !(word.fetch_or(bit, std::memory_order_relaxed) & bit);
  }

  // Runs a thread's own piece and then others that nobody has begun.
  void work(i64 own) {
    for (i64 i = 0; i < pieces; ++i) {
      const i64 piece = (own + pieces - i) % pieces;
      if (!claim(piece)) continue;
      try {
        body(n * piece / pieces, n * (piece + 1) / pieces);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (piece < failed) failed = piece, error = std::current_exception();
      }
    }
  }

  // The last touch of a worker; the loop may be gone right after it.
  void leave() {
    Word& word = helpers;
    if (word.fetch_sub(1, std::memory_order_acq_rel) == (1 | kCallerSleeps)) wake_sleeper(word);
  }

  void wait_for_helpers() {
    const auto none = [&] { return helpers.load(std::memory_order_acquire) == 0; };
    spin_until(none);
    if (none()) return;
    helpers.fetch_or(kCallerSleeps, std::memory_order_acq_rel);
    for (;;) {
      const std::uint32_t left = helpers.load(std::memory_order_acquire);
      if (left == kCallerSleeps) return;
      sleep_while(helpers, left);
    }
  }
};

// One thread of the pool. Workers are never destroyed: they sleep until the process ends.
class alignas(64) Worker {
 public:
  explicit Worker(i64 number) : number_(number) {}

  // Gives it the loop. False: it has other work.
  bool post(Loop& loop) {
    Loop* expected = nullptr;
    if (loop_.load(std::memory_order_relaxed) || !loop_.compare_exchange_strong(expected, &loop))
      return false;
    if (asleep_.load() && asleep_.exchange(0)) wake_sleeper(asleep_);
    return true;
  }
  // Takes the loop back. False: it has begun.
  bool recall(Loop& loop) {
    Loop* expected = &loop;
    return loop_.compare_exchange_strong(expected, nullptr);
  }

  void start() {
    std::thread thread = start_thread([this] { run(); });
    pthread_setname_np(thread.native_handle(), "gsm-compute");
    thread.detach();
  }

 private:
  [[noreturn]] void run() {
    inside_piece = true;
    for (;;) {
      spin_until([&] { return loop_.load(std::memory_order_relaxed) != nullptr; });
      Loop* loop = take();
      while (!loop) {
        asleep_.store(1);
        if (!loop_.load()) sleep_while(asleep_, 1);
        asleep_.store(0);
        loop = take();  // none: it was called back meanwhile
      }
      loop->work((number_ + 1) % loop->pieces);
      loop_.store(nullptr, std::memory_order_release);  // free before the caller goes on
      loop->leave();
    }
  }

  Loop* take() {
    Loop* loop = loop_.load(std::memory_order_acquire);
    return loop && loop_.compare_exchange_strong(loop, busy()) ? loop : nullptr;
  }
  Loop* busy() { return reinterpret_cast<Loop*>(this); }

  const i64 number_;
  std::atomic<Loop*> loop_{nullptr};  // posted, or busy()
  Word asleep_{0};
};

// The workers of the process. A caller takes those that are idle.
class Pool {
 public:
  // Gives the loop to at most `wanted` workers and returns them in `team`.
  i64 post(Loop& loop, i64 wanted, Worker** team) {
    i64 found = 0, seen = 0;
    const auto look = [&] {
      for (const i64 count = count_.load(std::memory_order_acquire); found < wanted && seen < count;
           ++seen)
        if (Worker* w = workers_[static_cast<std::size_t>(seen)]; w->post(loop)) team[found++] = w;
    };
    look();
    while (found < wanted && grow(wanted)) look();
    return found;
  }

 private:
  // Callers at the same time share as many workers as there are cores.
  bool grow(i64 wanted) {
    const std::scoped_lock lock(mutex_);
    const i64 count = count_;
    if (full_ || count >= std::max(wanted, most_)) return false;
    try {
      auto worker = std::make_unique<Worker>(count);
      worker->start();
      workers_[static_cast<std::size_t>(count)] = worker.release();
    } catch (const std::exception&) {  // the system allows no more threads: it works without
      full_ = true;
      return false;
    }
    count_.store(count + 1, std::memory_order_release);
    return true;
  }

  std::mutex mutex_;
  bool full_ = false;
  const i64 most_ = std::min<i64>(usable_cores().count, kMostThreads) - 1;
  std::atomic<i64> count_{0};
  std::array<Worker*, kMostThreads> workers_{};
};

// A forked child has none of the threads, so it gets a new pool. No static of a function here: a
// child forked while another thread initialises one would wait for that thread for ever.
std::atomic<Pool*> current_pool{nullptr};
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { current_pool = nullptr; });
std::atomic<int> known_cores{0};  // 0: not asked for yet

Pool& pool() {
  Pool* pool = current_pool.load(std::memory_order_acquire);
  if (pool) return *pool;
  auto fresh = std::make_unique<Pool>();
  return current_pool.compare_exchange_strong(pool, fresh.get()) ? *fresh.release() : *pool;
}

}  // namespace

void set_compute_threads(int n) {
  check<ConfigError>(n >= 1, "threads: ", n, " is not a number of compute threads; use 1 or more");
  threads_here = n;
}

int compute_threads() {
  if (threads_here > 0) return threads_here;
  int cores = known_cores.load(std::memory_order_relaxed);
  if (cores == 0) known_cores = cores = usable_cores().count;
  return cores;
}

void parallel_for(i64 n, i64 grain, FunctionRef<void(i64, i64)> body) {
  if (n <= 0) return;
  check_cancelled();
  const i64 pieces =
      inside_piece ? 1
                   : std::min({i64{compute_threads()}, n / std::max<i64>(grain, 1), kMostThreads});
  if (pieces <= 1) {
    body(0, n);
    return;
  }
  const i64 wanted = pieces - 1;
  Loop loop{.body = body, .n = n, .pieces = pieces, .helpers = static_cast<std::uint32_t>(wanted)};
  std::array<Worker*, kMostThreads> team;
  const i64 posted = pool().post(loop, wanted, team.data());
  inside_piece = true;
  loop.work(0);
  inside_piece = false;
  std::uint32_t absent = static_cast<std::uint32_t>(wanted - posted);
  for (i64 i = 0; i < posted; ++i) absent += team[static_cast<std::size_t>(i)]->recall(loop);
  loop.helpers.fetch_sub(absent, std::memory_order_acq_rel);
  loop.wait_for_helpers();
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace gossamer
