// What the benchmarks of passes share: times by events, rows beside the rate of a copy, and data.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "gossamer/core/backend.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/random.h"
#include "gossamer/core/update.h"

namespace gossamer::bench {

inline const Device kGpu = Device::cuda(0);
inline double copy_rate = 0;  // bytes/s

// Median of some repetitions, each of enough launches to take a millisecond or so.
inline double seconds_of(const std::function<void()>& pass, int launches = 10) {
  const cuda::Stream& stream = cuda::current_stream(kGpu);
  cuda::Event begin(kGpu, cuda::Event::Timing::on), end(kGpu, cuda::Event::Timing::on);
  std::vector<double> times;
  for (int k = 0; k < 3; ++k) pass();
  for (int repetition = 0; repetition < 9; ++repetition) {
    begin.record(stream);
    for (int k = 0; k < launches; ++k) pass();
    end.record(stream);
    if (!end.wait(std::chrono::seconds(60))) fail<DeviceError>("a pass took longer than a minute");
    times.push_back(cuda::Event::milliseconds(begin, end) / 1e3 / launches);
  }
  std::nth_element(times.begin(), times.begin() + 4, times.end());
  return times[4];
}

inline void row(const char* name, const Shape& shape, double bytes,
                const std::function<void()>& pass) {
  const double s = seconds_of(pass);
  std::printf("%-34s %-22s %8.1f MB %9.1f us %8.0f GB/s %5.0f %%\n", name, shape.str().c_str(),
              bytes / 1e6, s * 1e6, bytes / s / 1e9, 100 * bytes / s / copy_rate);
  std::fflush(stdout);
}

inline Tensor filled(Shape shape, float value, DType type) {
  return Tensor::full(shape, value, type, kGpu);
}

// Values in (-1, 1), or bytes: a pattern made on the CPU, repeated. Data that is all alike draws
// less power, and a GPU then runs faster.
inline Tensor random(Shape shape, DType type, std::uint64_t seed = 1) {
  constexpr i64 kPattern = (1 << 20) - 3;  // odd: rows do not repeat at once
  const i64 size = shape.numel(), pattern = std::min(size, kPattern),
            width = static_cast<i64>(size_of(type));
  Rng rng(seed);
  Tensor host = Tensor::empty({pattern}, type == DType::u8 ? DType::u8 : DType::f32);
  if (type == DType::u8) {
    for (i64 i = 0; i < pattern; ++i)
      host.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(rng.word());
  } else {
    for (float& v : host.span<float>()) v = rng.uniform(-1, 1);
  }
  const Tensor here = host.to(type).to(kGpu);
  Tensor out = Tensor::empty(shape, type, kGpu);
  for (i64 at = 0; at < size; at += pattern)
    cuda::copy(static_cast<std::byte*>(out.data()) + at * width, here.data(),
               static_cast<std::size_t>(std::min(pattern, size - at) * width),
               cuda::current_stream(kGpu));
  return out;
}

inline Backend& gpu() { return backend(kGpu); }

// Numbers of an update on the GPU.
inline Tensor numbers_on_gpu(int jump) {
  StepNumbers numbers;
  numbers.jump = jump;
  Tensor here = Tensor::empty({static_cast<i64>(sizeof numbers)}, DType::u8);
  std::memcpy(here.data(), &numbers, sizeof numbers);
  return here.to(kGpu);
}

// text_passes.cpp: those of GPT-2 small, with texts of 1024 ids.
void text_passes(i64 texts);

}  // namespace gossamer::bench
