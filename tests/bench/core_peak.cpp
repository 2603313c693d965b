// See core_peak.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gossamer/tests/bench/core_peak.cpp"
// This file is compiled once for each kind of CPU.
#include <hwy/foreach_target.h>
//
#include <algorithm>

#include <time.h>

#include "gossamer/core/cpu/vectors_inl.h"
#include "gossamer/core/tensor.h"
#include "gossamer/tests/bench/core_peak.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::bench::HWY_NAMESPACE {
namespace {

using namespace gossamer::cpu::HWY_NAMESPACE;  // Floats, Vector

// A multiply-add takes four turns and two begin in each: eight sums keep both units at work. Twelve
// and two factors fit 16 registers.
constexpr int kSums = 12;

double fma_piece(i64 turns) {
  const Floats d;
  volatile float factor = 0.999f, step = 0.001f, seen;  // the compiler must not know them
  const Vector a = hn::Set(d, factor), b = hn::Set(d, step);
  Vector sum[kSums];
  for (int j = 0; j < kSums; ++j) sum[j] = hn::Set(d, static_cast<float>(j));
  for (i64 i = 0; i < turns; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kSums; ++j) sum[j] = hn::MulAdd(a, sum[j], b);
  }
  for (int j = 1; j < kSums; ++j) sum[0] = hn::Add(sum[0], sum[j]);
  seen = hn::GetLane(sum[0]);
  (void)seen;
  return 2.0 * kSums * static_cast<double>(kLanes * turns);
}

}  // namespace
}  // namespace gossamer::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::bench {
namespace {

HWY_EXPORT(fma_piece);

// work: operations or bytes of a call
double best_rate(double best, double work, int threads, FunctionRef<double()> run) {
  const double begin = seconds_now(threads);
  const double done = run();
  return std::max(best, (work > 0 ? work : done) / (seconds_now(threads) - begin));
}

Speed in_turn(double work, int threads, double seconds, FunctionRef<void()> pass,
              FunctionRef<double()> measure) {
  const auto call = [&] {
    pass();
    return 0.0;
  };
  call();  // what is made once
  measure();
  Speed s{0, 0};
  const double end = seconds_now(threads) + seconds;
  for (int n = 0; n < 3 || seconds_now(threads) < end; ++n) {
    s.rate = best_rate(s.rate, work, threads, call);
    s.peak = best_rate(s.peak, 0, threads, measure);
  }
  return s;
}

}  // namespace

double seconds_now(int threads) {
  timespec t{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double fma_loop(int threads, i64 turns) {
  const int before = compute_threads();
  set_compute_threads(threads);
  double operations = 0;
  parallel_for(threads, 1, [&](i64 begin, i64) {
    const double done = HWY_DYNAMIC_DISPATCH(fma_piece)(turns);
    if (begin == 0) operations = done;
  });
  set_compute_threads(before);
  return threads * operations;
}

Speed against_fma(double operations, int threads, double seconds, FunctionRef<void()> pass) {
  constexpr i64 turns = 50'000;  // a fifth of a millisecond
  return in_turn(operations, threads, seconds, pass, [&] { return fma_loop(threads, turns); });
}

Speed against_copy(double bytes, int threads, double seconds, FunctionRef<void()> pass) {
  const Tensor from = Tensor::zeros({static_cast<i64>(bytes / 8)});
  Tensor to = Tensor::zeros(from.shape());
  const auto copy = [&] {
    parallel_for(from.numel(), 1 << 12, [&](i64 begin, i64 end) {
      std::copy_n(from.as<float>() + begin, end - begin, to.as<float>() + begin);
    });
    return static_cast<double>(2 * from.bytes());
  };
  return in_turn(bytes, threads, seconds, pass, copy);
}

}  // namespace gossamer::bench
#endif
