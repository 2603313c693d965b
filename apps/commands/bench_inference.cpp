// `gossamer bench inference`: images a second and latency of a model folded for inference, on
// noise: of pixels that lie ready on the device, and from bytes on the host, as an evaluation has
// them.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/on_gpu.h"
#include "gossamer/apps/config_check.h"
#include "gossamer/apps/machine.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/picture_input.h"
#include "gossamer/apps/train/picture_model.h"
#include "gossamer/apps/train/picture_step.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/captured_step.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/text/json.h"
#include "gossamer/dist/time.h"
#include "gossamer/models/model_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/inference.h"

namespace gossamer::apps {
namespace {

// Fewer say nothing about a median.
constexpr std::size_t kLeastCalls = 5;

// The least value that a share of all does not exceed.
double quantile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

struct Timed {
  std::unique_ptr<nn::Module> net;     // in eval mode
  std::unique_ptr<FlatParams> params;  // its values, of `type`
  Pictures pictures{};
};

// A model of the table, with drawn weights; or one that find_model() finds.
Timed open_timed(const std::string& model, DType type, const Config& config, Device device) {
  const auto known = models::names("pictures");
  Timed out;
  if (std::ranges::find(known, model) == known.end() && std::filesystem::exists(model)) {
    const ModelSource source = find_model(model, config);
    check_task(source, "bench inference", "pictures");
    LoadedModel loaded = load_model(source, type, config, device);
    for (const std::string& line : loaded.notes) say(line);
    out = {std::move(loaded.net), std::move(loaded.params), loaded.pictures};
  } else {
    for (const auto& [key, from] : config.origin)
      check<ConfigError>(key == "train.device", "bench inference: ", key,
                         " is for files of models; leave it out with a name");
    const models::Preprocessing usual = models::usual_preprocessing(model);
    out = {models::make(model),
           nullptr,
           {.size = usual.size,
            .resize = usual.resize,
            .mean = of_rgb(usual.mean),
            .std = of_rgb(usual.std),
            .dtype = type,
            .device = device}};
    out.params = nn::put_on(*out.net, device, type);
  }
  return out;
}

// Seconds of each call, for at least so long; sorted.
template <class F>
std::vector<double> times_of(double seconds, F&& call) {
  std::vector<double> times;
  for (double last = dist::wall_seconds(), end = last + seconds;
       last < end || times.size() < kLeastCalls;) {
    call();
    const double now = dist::wall_seconds();
    times.push_back(now - last);
    last = now;
  }
  std::ranges::sort(times);
  return times;
}

}  // namespace

int bench_inference(const BenchInferenceOptions& o) {
  check<ConfigError>(o.dtype == "f32" || o.dtype == "bf16", "bench inference: --dtype ", o.dtype,
                     " is unknown; use f32 or bf16");
  check<ConfigError>(o.batch >= 1 && o.size >= 0 && o.seconds >= 0,
                     "bench inference: --batch must be at least 1; --size and --seconds not "
                     "negative");
  set_compute_threads(o.threads);
  const DType type = o.dtype == "f32" ? DType::f32 : DType::bf16;
  Config config = load_config(o.arguments);
  std::vector<std::string> allowed = model_keys();
  allowed.push_back("train.device");
  allow_keys(config, "bench inference", allowed);
  validate(config, 1);
  const Device device = command_device(config);
  Timed timed = open_timed(o.model, type, config, device);
  Pictures& prepare = timed.pictures;
  if (o.size) prepare.resize = resize_for(prepare, o.size), prepare.size = o.size;
  const int side = prepare.size;
  const data::Batch bytes = noise_batch(prepare, o.batch);
  const Tensor pixels = prepare(bytes);

  const double begin = dist::wall_seconds();
  const nn::Inference net(*timed.net, {.on_failure = say_no_graph});
  // with the logits on the host, which waits for them
  const auto classify = [&] { return net(pixels).to(Device::cpu()); };
  nn::StepInputs inputs(device);
  const auto from_bytes = [&] {
    const nn::StepBatch there = inputs.put(step_batch(bytes), std::array{0.0f}).batch;
    const Tensor logits = net(prepare(picture_batch(there))).to(Device::cpu());
    inputs.step_ends();
  };
  classify();
  const double prepared = dist::wall_seconds() - begin;
  classify();
  reset_peak(device);
  const std::vector<double> times = times_of(o.seconds, classify);
  const double middle = quantile(times, 0.5), images_per_s = o.batch / middle;
  const std::size_t peak = memory_stats(device).peak;
  from_bytes();
  const double fed = quantile(times_of(o.seconds, from_bytes), 0.5);
  if (o.json) {
    JsonObject out;
    out.add("engine", "gossamer")
        .add("device", device.is_cpu() ? "cpu" : cuda::properties(device).name)
        .add("model", o.model);
    if (device.is_cpu()) out.add("kernels", cpu::kernel_set());
    out.add("batch", o.batch).add("threads", o.threads).add("dtype", o.dtype).add("size", side);
    out.add("calls", times.size()).add("images_per_s", images_per_s);
    out.add("ms_median", 1e3 * middle).add("ms_min", 1e3 * times.front());
    out.add("ms_p90", 1e3 * quantile(times, 0.9)).add("ms_p99", 1e3 * quantile(times, 0.99));
    out.add("prepare_ms", 1e3 * prepared);
    out.add("from_bytes_images_per_s", o.batch / fed).add("from_bytes_ms_median", 1e3 * fed);
    out.add("peak_bytes", peak).add("peak_rss_bytes", peak_resident_bytes());
    if (!device.is_cpu()) out.add("convolutions", convolutions_on(device));
    fmt::print("{}\n", out.str());
    return 0;
  }
  const std::string where =
      device.is_cpu()
          ? fmt::format("{} thread{}, {}", o.threads, o.threads == 1 ? "" : "s", cpu::kernel_set())
          : cuda::properties(device).name;
  fmt::print("{} {}, batch {}, {} x {} pixels, {}: {} calls\n", o.model, o.dtype, o.batch, side,
             side, where, times.size());
  fmt::print(
      "  {:.1f} images/s; {:.2f} ms a call (median; 90 %: {:.2f}, 99 %: {:.2f}); folded, packed "
      "and "
      "first run in {:.0f} ms; tensors {:.1f} MB, process {:.1f} MB at most\n",
      images_per_s, 1e3 * middle, 1e3 * quantile(times, 0.9), 1e3 * quantile(times, 0.99),
      1e3 * prepared, static_cast<double>(peak) / 1e6,
      static_cast<double>(peak_resident_bytes()) / 1e6);
  fmt::print("  {:.1f} images/s; {:.2f} ms a call, from bytes on the host, as eval has them\n",
             o.batch / fed, 1e3 * fed);
  return 0;
}

}  // namespace gossamer::apps
