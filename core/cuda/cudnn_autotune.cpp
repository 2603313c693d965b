// Autotuning: random operands, several sets of them so that no run finds its data in the L2 cache,
// events around every timed run, medians.
#ifdef GOSSAMER_HAS_CUDA
#include "gossamer/core/cuda/cudnn_autotune.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/cuda/conv_term.h"
#include "gossamer/core/cuda/rank_by_time.h"
#include "gossamer/core/random.h"

namespace gossamer::cudnn {
namespace {

using cuda::Event;
using cuda::Stream;

struct Operands {
  Tensor x, w, y, bias, add;  // the last two may be undefined
  std::size_t bytes() const {
    return x.bytes() + w.bytes() + y.bytes() + (add.defined() ? add.bytes() : 0);
  }
  Operands copy() const {
    return {x.clone(), w.clone(), y.clone(), bias, add.defined() ? add.clone() : Tensor()};
  }
  ConvMemory memory() const {
    const auto of = [](const Tensor& t) { return t.defined() ? t.data() : nullptr; };
    return {of(x), of(w), of(y), of(bias), of(add)};
  }
};

// Values in (-1, 1): a pattern made on the CPU, repeated. Zeros would draw less power and run
// faster than real data.
Tensor random_tensor(Shape shape, DType type, Device device, std::uint64_t seed) {
  // odd: rows of channels do not repeat at once
  constexpr i64 kPattern = (1 << 18) - 3;
  const i64 size = shape.numel(), pattern = std::min(size, kPattern);
  Tensor host = Tensor::empty({pattern});
  const Philox random(seed);
  for (i64 i = 0; i < pattern; ++i)
    host.as<float>()[i] = 2 * to_unit(random(static_cast<std::uint64_t>(i), 0).v[0]) - 1;
  const Tensor here = host.to(type).to(device);
  Tensor out = Tensor::empty(shape, type, device);
  const std::size_t width = size_of(type);
  for (i64 at = 0; at < size; at += pattern)
    cuda::copy(static_cast<std::byte*>(out.data()) + static_cast<std::size_t>(at) * width,
               here.data(), static_cast<std::size_t>(std::min(pattern, size - at)) * width,
               cuda::current_stream(device));
  return out;
}

Operands make_operands(const ConvProblem& p, Device device) {
  const Shape result{p.n, p.ho(), p.wo(), p.k};
  return {random_tensor({p.n, p.h, p.w, p.c}, p.type, device, 1),
          random_tensor({p.k, p.r, p.s, p.c / p.groups}, p.type, device, 2),
          random_tensor(result, p.type, device, 3),
          p.bias ? random_tensor({p.k}, p.type, device, 4) : Tensor(),
          p.add ? random_tensor(result, p.type, device, 5) : Tensor()};
}

// Rounding of the type over a sum in f32, relative to a typical element. In f32 a chain of n
// additions is off by some 2e-7 sqrt(n) at one of 48 elements: 4e-4 for the three million terms of
// a stem's filter. Products rounded to 10 bits are off by 8e-4 whatever n is.
double tolerance(const ConvProblem& p) {
  if (p.type == DType::f32 && !p.tf32)
    return std::max(1e-4, 2e-7 * std::sqrt(static_cast<double>(ConvTerm<float>::terms(p))));
  return p.type == DType::bf16 ? 3e-2 : 5e-3;
}

// After an illegal access every call fails, once the kernel that made it has ended.
bool usable(Device device, const Stream& stream) {
  try {
    const Event end(device);
    end.record(stream);
    return end.wait(std::chrono::seconds(60));
  } catch (const DeviceError&) {
    return false;
  }
}

// A plan failed: another can be tried only on a device that still answers.
void check_usable(Device device, const Stream& stream, const ConvProblem& problem, const Plan& plan,
                  const DeviceError& e) {
  check<DeviceError>(usable(device, stream), "cuDNN: a plan for ", problem.key(), " (",
                     plan.describe(), ") made ", device, " unusable for this process: ", e.what());
}

// Whether the plan's result is what our own code computes.
bool is_right(cudnnHandle_t handle, const Plan& plan, const ConvProblem& problem, Device device,
              const Operands& o) {
  prepare_check(device, problem, o.memory());
  execute(handle, plan, device, cuda::current_stream(device), o.memory());
  return conv_error(device, problem, o.memory()) < tolerance(problem);
}

// why: what the first plan said that did not run.
[[noreturn]] void none_is_right(const ConvProblem& problem, Device device, std::size_t plans,
                                int rejected, const std::string& why) {
  check<DeviceError>(rejected > 0, "cuDNN: no plan for ", problem.key(), " runs on ", device,
                     ", of ", plans, "; the first: ", why);
  fail<DeviceError>("cuDNN: none of ", plans, " plans computes ", problem.key(), " correctly on ",
                    device, " (", rejected, " ran and were wrong); update cuDNN");
}

}  // namespace

Measured measure(cudnnHandle_t handle, const std::vector<Plan>& plans, const ConvProblem& problem,
                 Device device, std::chrono::milliseconds warm_up) {
  const Stream stream = cuda::current_stream(device);
  std::vector<Operands> sets{make_operands(problem, device)};
  const std::size_t once = sets[0].bytes();
  for (std::size_t cold = 2 * cuda::properties(device).l2, total = once;
       total < cold && sets.size() < 16; total += once)
    sets.push_back(sets[0].copy());
  std::size_t next = 0;
  const auto run = [&](const Plan& plan) {
    execute(handle, plan, device, stream, sets[next++ % sets.size()].memory());
  };
  const Event marks[] = {Event(device, Event::Timing::on), Event(device, Event::Timing::on)};
  std::string why;  // what the first plan said that did not run
  const auto time = [&](std::size_t i) {
    try {
      // loads the kernel; and while it runs the host enqueues the run that is timed
      run(plans[i]);
      marks[0].record(stream);
      run(plans[i]);
      marks[1].record(stream);
      if (!marks[1].wait(std::chrono::seconds(60)))
        fail<DeviceError>("a convolution that takes longer than a minute");
      return 1e3 * Event::milliseconds(marks[0], marks[1]);
    } catch (const DeviceError& e) {
      check_usable(device, stream, problem, plans[i], e);
      if (why.empty()) why = e.what();
      return 0.0;
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < plans.size();)
    if (time(i) <= 0)
      ++i;
    else if (std::chrono::steady_clock::now() - begin >= warm_up)
      break;

  Measured best;
  for (const auto& [i, microseconds] : rank_by_time(plans.size(), time)) {
    if (is_right(handle, plans[i], problem, device, sets[0])) {
      best.plan = plans[i];
      best.microseconds = microseconds;
      return best;
    }
    ++best.rejected;
  }
  none_is_right(problem, device, plans.size(), best.rejected, why);
}

Measured first_right(cudnnHandle_t handle, const std::vector<Plan>& plans,
                     const ConvProblem& problem, Device device) {
  const Operands operands = make_operands(problem, device);
  Measured found;
  std::string why;
  for (const Plan& plan : plans) {
    try {
      if (is_right(handle, plan, problem, device, operands)) {
        found.plan = plan;
        return found;
      }
      ++found.rejected;
    } catch (const DeviceError& e) {
      check_usable(device, cuda::current_stream(device), problem, plan, e);
      if (why.empty()) why = e.what();
    }
  }
  none_is_right(problem, device, plans.size(), found.rejected, why);
}

}  // namespace gossamer::cudnn
#endif
