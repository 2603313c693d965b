// `gossamer bench step`: the time of whole training steps (forward, backward, optimizer) or of
// inference, on synthetic images, on pictures that the loader feeds, or on synthetic text.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/language_text.h"
#include "gossamer/apps/commands/on_gpu.h"
#include "gossamer/apps/config.h"
#include "gossamer/apps/machine.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/pictures.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/backend.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/device_names.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"
#include "gossamer/core/text/json.h"
#include "gossamer/data/loader.h"
#include "gossamer/dist/time.h"
#include "gossamer/models/model_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/optim.h"

namespace gossamer::apps {
namespace {

// CPU time of all threads of the process. With one thread it does not depend on other programs;
// with more, waiting counts too.
double cpu_seconds_now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Tensor random_images(i64 batch, i64 side) {
  Rng rng(0);
  Tensor images = Tensor::empty({batch, side, side, 3});
  for (float& v : images.span<float>()) v = rng.normal();
  return images;
}

Tensor random_labels(i64 batch, i64 classes) {
  Rng rng(1);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(batch));
  for (auto& l : labels)
    l = static_cast<std::int32_t>(rng.below(static_cast<std::uint32_t>(classes)));
  return Tensor::from(labels, Shape{batch});
}

FlatOptions options(DType type) {
  return {.compute = type, .loss_scale = type == DType::f16 ? kLossScaleOfF16 : 1.0f};
}

std::unique_ptr<nn::Module> on(Device device, std::unique_ptr<nn::Module> model) {
  model->to(device);
  return model;
}

struct Input {
  Tensor images, labels;
};

// One synthetic batch in every step, or batches of the loader.
class Feed {
 public:
  Feed(const BenchStepOptions& o, int side, i64 classes, DType type, Device device)
      : type_(type), device_(device), classes_(classes) {
    if (o.data.empty()) {
      fixed_ = {random_images(o.batch, side).to(device).to(type),
                random_labels(o.batch, classes).to(device)};
      return;
    }
    const auto set = data::open({o.data});
    classes_ = static_cast<i64>(set->classes().size());
    const data::Augment crop = o.eval       ? data::Augment::none
                               : side <= 64 ? data::Augment::pad_crop_flip
                                            : data::Augment::resized_crop_flip;
    loader_ = std::make_unique<data::Loader>(
        set, data::LoaderOptions{.batch = o.batch,
                                 .size = side,
                                 .augment = crop,
                                 .threads = o.data_threads,
                                 .background = o.threads + o.data_threads > cores()});
  }
  Input next() {
    if (!loader_) return fixed_;
    data::Batch batch = loader_->next();
    if (!batch.images.defined()) batch = loader_->next();  // the next epoch
    return {prepare_(batch.images.to(device_), type_), batch.labels.to(device_)};
  }
  i64 classes() const { return classes_; }  // of the data
  double wait_s() const { return loader_ ? loader_->stats().wait_s : 0; }

 private:
  const models::Preprocessing prepare_ = models::usual_preprocessing("resnet50");
  DType type_;
  Device device_;
  Input fixed_;
  i64 classes_;
  std::unique_ptr<data::Loader> loader_;
};

// What is timed.
struct Steps {
  std::function<void()> step;
  std::function<double()> wait_s;  // for data, so far
  double samples = 0;              // of a step
  const char* unit = "images";
};

Steps picture_steps(const BenchStepOptions& o, Device device, DType type) {
  const models::ModelInfo& info = models::info(o.model, "pictures");
  struct All {
    Feed feed;
    std::unique_ptr<nn::Module> model;
    FlatParams params;
    nn::Sgd optimizer;
    All(const BenchStepOptions& o, int side, i64 classes, Device device, DType type)
        : feed(o, side, classes, type, device),
          model(on(device, models::make(o.model, {.classes = feed.classes()}))),
          params(model->parameters(), model->buffers(), options(type)),
          optimizer(params, {.momentum = 0.9f, .weight_decay = 1e-4f}) {
      model->train(!o.eval);
    }
  };
  const auto all =
      std::make_shared<All>(o, o.size ? o.size : info.image_size, info.classes, device, type);
  const auto step = [all, eval = o.eval] {
    const Input input = all->feed.next();
    if (eval) {
      const NoGrad no_grad;
      all->model->forward(input.images);
      return;
    }
    all->params.zero_grad();
    all->params.backward(cross_entropy(all->model->forward(input.images), input.labels));
    all->optimizer.step(0.01f);
  };
  return {step, [all] { return all->feed.wait_s(); }, static_cast<double>(o.batch), "images"};
}

// As language models are trained: AdamW, decay 0.1 of matrices, the gradient's norm at most 1.
Steps text_steps(const BenchStepOptions& o, Device device, DType type) {
  struct All {
    std::unique_ptr<models::LanguageNet> model;
    FlatParams params;
    nn::Adam optimizer;
    Tensor ids, labels;
    All(const BenchStepOptions& o, const models::LanguageOptions& language, Device device,
        DType type)
        : model(models::make_language(language)),
          params((model->to(device), model->parameters()), model->buffers(), options(type)),
          optimizer(params, {.beta1 = 0.9,
                             .beta2 = 0.95,
                             .epsilon = 1e-8,
                             .weight_decay = 0.1f,
                             .decoupled = true}) {
      const Shape shape{o.batch, model->positions()};
      ids = random_labels(shape.numel(), model->vocabulary()).reshape(shape).to(device);
      labels = random_labels(shape.numel(), model->vocabulary()).reshape(shape).to(device);
      model->train(!o.eval);
    }
  };
  check<ConfigError>(o.data.empty() && o.size == 0,
                     "bench step: --data and --size are for models of pictures");
  const auto all =
      std::make_shared<All>(o, language_of_text("bench step: --model", o.model), device, type);
  const auto step = [all, eval = o.eval] {
    if (eval) {
      const NoGrad no_grad;
      all->model->forward(all->ids);
      return;
    }
    all->params.zero_grad();
    all->params.backward(all->model->loss(all->ids, all->labels));
    all->optimizer.step(1e-4f, nullptr, {.clip = 1});
  };
  return {step, [] { return 0.0; }, static_cast<double>(all->ids.numel()), "tokens"};
}

struct Times {
  std::vector<double> each, cpu;  // seconds a step; CPU time of all threads
};

// Steps on a GPU: events mark their ends on the device, the host runs at most two steps ahead.
Times time_on_gpu(Device device, const std::function<void()>& step,
                  const std::function<bool(std::size_t, double)>& enough) {
  const cuda::Stream stream = cuda::current_stream(device);
  std::vector<cuda::Event> ends;
  const auto mark = [&] { ends.emplace_back(device, cuda::Event::Timing::on).record(stream); };
  stream.synchronize();
  Times times;
  mark();
  for (const double begin = dist::wall_seconds();
       !enough(ends.size() - 1, dist::wall_seconds() - begin);) {
    const double cpu = cpu_seconds_now();
    step();
    mark();
    times.cpu.push_back(cpu_seconds_now() - cpu);
    if (ends.size() > 2)
      check<DeviceError>(ends[ends.size() - 3].wait(std::chrono::minutes(5)),
                         "bench step: a step takes more than five minutes");
  }
  stream.synchronize();
  for (std::size_t i = 1; i < ends.size(); ++i)
    times.each.push_back(cuda::Event::milliseconds(ends[i - 1], ends[i]) / 1e3);
  return times;
}

Times time_on_cpu(const std::function<void()>& step,
                  const std::function<bool(std::size_t, double)>& enough) {
  Times times;
  const double begin = dist::wall_seconds();
  double cpu_last = cpu_seconds_now();
  for (double last = begin; !enough(times.each.size(), last - begin);) {
    step();
    const double now = dist::wall_seconds(), cpu_now = cpu_seconds_now();
    times.each.push_back(now - last);
    times.cpu.push_back(cpu_now - cpu_last);
    last = now;
    cpu_last = cpu_now;
  }
  return times;
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  const std::size_t half = v.size() / 2;
  return v.size() % 2 ? v[half] : (v[half - 1] + v[half]) / 2;
}

}  // namespace

int bench_step(const BenchStepOptions& o) {
  check<ConfigError>(o.dtype == "f32" || o.dtype == "bf16" || o.dtype == "f16" || o.dtype == "auto",
                     "bench step: --dtype ", o.dtype, " is unknown; use f32, bf16, f16 or auto");
  check<ConfigError>(o.data_threads >= 1, "bench step: --data-threads must be at least 1");
  check<ConfigError>(o.batch >= 1 && o.steps >= 1 && o.warmup >= 0 && o.size >= 0 && o.seconds >= 0,
                     "bench step: --batch and --steps must be at least 1; --warmup, --size and "
                     "--seconds not negative");
  set_compute_threads(o.threads);
  if (!o.backend.empty()) use_cpu_backend(o.backend);
  const Device device = device_of(o.device);
  check<ConfigError>(!o.graph || (!device.is_cpu() && o.data.empty()),
                     "bench step: --graph is for a GPU and synthetic images");
  check<ConfigError>(!device.is_cpu() || (!o.tf32 && o.plans.empty() && !o.deterministic),
                     "bench step: --tf32, --plans and --deterministic are for a GPU; this is "
                     "--device ",
                     o.device);
  if (!device.is_cpu())
    configure_cuda({.tf32 = o.tf32, .plan_file = o.plans, .deterministic = o.deterministic});
  const DType type = compute_type(o.dtype, !device.is_cpu());
  const Steps steps =
      is_language_text(o.model) ? text_steps(o, device, type) : picture_steps(o, device, type);
  const std::function<void()>& step = steps.step;

  for (int i = 0; i < o.warmup; ++i) step();
  cuda::Graph graph;
  if (o.graph) graph = cuda::Graph::capture(device, step);
  const std::function<void()> run =
      o.graph ? std::function<void()>([&] { graph.launch(cuda::current_stream(device)); }) : step;
  const std::uint64_t waits_before = cuda::waits();
  const double begin = dist::wall_seconds(), waited = steps.wait_s();
  const auto enough = [&](std::size_t done, double passed) {
    return o.seconds > 0 ? passed >= o.seconds && done >= 5
                         : done >= static_cast<std::size_t>(o.steps);
  };
  const auto [times, cpu_times] =
      device.is_cpu() ? time_on_cpu(run, enough) : time_on_gpu(device, run, enough);

  const double wait_s = steps.wait_s() - waited,
               wait_fraction = wait_s / (dist::wall_seconds() - begin);
  const double middle = median(times), per_s = steps.samples / middle;
  const MemoryStats memory = memory_stats(device);
  const std::string engine = backend(device).name();
  // The measurement itself waits, too: once before, once after, once in each step from the second
  // on. Those waits do not count.
  const std::uint64_t hidden =
      device.is_cpu() ? 0
                      : cuda::waits() - waits_before -
                            std::min<std::uint64_t>(cuda::waits() - waits_before, times.size() + 1);
  if (o.json) {
    JsonObject out;
    out.add("engine", "gossamer")
        .add("backend", engine)
        .add("device", device.is_cpu() ? "cpu" : cuda::properties(device).name);
    if (device.is_cpu()) out.add("kernels", cpu::kernel_set());
    out.add("model", o.model).add("batch", o.batch);
    out.add("threads", o.threads)
        .add("dtype", name_of(type))
        .add("mode", o.eval ? "eval" : "train")
        .add("samples", times.size());
    out.add("ms_median", 1e3 * middle)
        .add("ms_min", 1e3 * std::ranges::min(times))
        .add(std::string(steps.unit) + "_per_s", per_s);
    out.add("cpu_ms_median", 1e3 * median(cpu_times));
    if (!o.data.empty())
      out.add("data", o.data)
          .add("data_threads", o.data_threads)
          .add("data_wait_s", wait_s)
          .add("data_wait_fraction", wait_fraction);
    if (!device.is_cpu()) out.add("graph", o.graph).add("hidden_waits", hidden);
    out.add("peak_bytes", memory.peak).add("peak_rss_bytes", peak_resident_bytes());
    if (!device.is_cpu())
      out.add("convolutions", convolutions_on(device))
          .add("attention", attentions_on(device))
          .add("products", products_on(device));
    fmt::print("{}\n", out.str());
    return 0;
  }
  const std::string where =
      device.is_cpu() ? fmt::format("{} thread{}, {}", o.threads, o.threads == 1 ? "" : "s", engine)
                      : fmt::format("{}{}, {} hidden waits", cuda::properties(device).name,
                                    o.graph ? ", as a graph" : "", hidden);
  fmt::print("{} {}, batch {}, {} {} steps on {}\n", o.model, name_of(type), o.batch, times.size(),
             o.eval ? "inference" : "training", where);
  fmt::print(
      "  {:.1f} {}/s, {:.2f} ms a step (median; best {:.2f}), tensors {:.1f} MB, process "
      "{:.1f} MB at most\n",
      per_s, steps.unit, 1e3 * middle, 1e3 * std::ranges::min(times),
      static_cast<double>(memory.peak) / 1e6, static_cast<double>(peak_resident_bytes()) / 1e6);
  if (!o.data.empty())
    fmt::print("  data wait {:.2f} % of the time, {} data thread{}\n", 100 * wait_fraction,
               o.data_threads, o.data_threads == 1 ? "" : "s");
  return 0;
}

}  // namespace gossamer::apps
