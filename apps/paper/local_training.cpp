// See local_training.h.
#include "gossamer/apps/paper/local_training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "gossamer/apps/temporary_folder.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"
#include "gossamer/data/formats/shapes.h"
#include "gossamer/data/loader.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/layers.h"
#include "gossamer/nn/schedule.h"
#include "gossamer/nn/train/classification.h"

namespace gossamer::apps {
namespace {

namespace fs = std::filesystem;

constexpr i64 kSide = 32, kBytes = kSide * kSide * 3;
// No thread of this process dies; on a full machine one may wait long for a core.
constexpr dist::Seconds kPatience{3600};

PicturesInMemory read_pictures(const std::shared_ptr<const data::Dataset>& set, i64 most) {
  const i64 n = std::min(most, set->size());
  // A shuffled order, so that a part of a sorted set has all classes.
  data::Loader loader(set, {.batch = std::min<i64>(64, n),
                            .size = kSide,
                            .resize = kSide,
                            .threads = 2,
                            .epoch = {.seed = 1}});
  PicturesInMemory out{Tensor::empty({n, kSide, kSide, 3}, DType::u8),
                       Tensor::empty({n}, DType::i32), static_cast<i64>(set->classes().size())};
  for (i64 at = 0; at < n;) {
    const data::Batch b = loader.next();
    if (b.count() == 0) continue;  // the epoch is over
    const i64 count = std::min(b.count(), n - at);
    std::memcpy(out.images.span<std::uint8_t>().data() + at * kBytes,
                b.images.span<std::uint8_t>().data(), static_cast<std::size_t>(count * kBytes));
    std::copy_n(b.labels.span<std::int32_t>().data(), count,
                out.labels.span<std::int32_t>().data() + at);
    at += count;
  }
  return out;
}

struct Input {
  Tensor images, labels;
};

Tensor as_input(const Tensor& bytes) {
  return normalize(bytes, {.4914f, .4822f, .4465f}, {.2023f, .1994f, .2010f}, DType::f32);
}

// Pictures drawn at random, padded by 4 and cropped, half of them mirrored.
Input draw(const PicturesInMemory& set, i64 batch, Rng& random) {
  Tensor images = Tensor::zeros({batch, kSide, kSide, 3}, DType::u8),
         labels = Tensor::empty({batch}, DType::i32);
  for (i64 i = 0; i < batch; ++i) {
    const i64 k = random.below(static_cast<std::uint32_t>(set.labels.numel()));
    labels.span<std::int32_t>()[static_cast<std::size_t>(i)] =
        set.labels.span<std::int32_t>()[static_cast<std::size_t>(k)];
    const std::uint8_t* from = set.images.span<std::uint8_t>().data() + k * kBytes;
    std::uint8_t* to = images.span<std::uint8_t>().data() + i * kBytes;
    const i64 dy = static_cast<i64>(random.below(9)) - 4,
              dx = static_cast<i64>(random.below(9)) - 4;
    const bool mirror = random.below(2) == 1;
    for (i64 y = std::max<i64>(0, -dy); y < std::min(kSide, kSide - dy); ++y)
      for (i64 x = std::max<i64>(0, -dx); x < std::min(kSide, kSide - dx); ++x) {
        const i64 source = mirror ? kSide - 1 - (x + dx) : x + dx;
        std::memcpy(to + 3 * (y * kSide + x), from + 3 * ((y + dy) * kSide + source), 3);
      }
  }
  return {as_input(images), labels};
}

void evaluate(nn::Module& model, const PicturesInMemory& set, LocalOutcome& out) {
  constexpr i64 kBatch = 256;
  const NoGrad off;
  model.eval();
  double right = 0, loss = 0;
  for (i64 at = 0; at < set.labels.numel(); at += kBatch) {
    const i64 end = std::min(at + kBatch, set.labels.numel());
    const Tensor logits = model(as_input(set.images.slice(at, end))),
                 labels = set.labels.slice(at, end);
    const Tensor scores = nn::classification_scores(logits, labels, 1);
    loss += static_cast<double>(scores.as<float>()[0]) * static_cast<double>(end - at);
    right += static_cast<double>(scores.as<float>()[1]);
  }
  out.top1 = right / static_cast<double>(set.labels.numel());
  out.loss = loss / static_cast<double>(set.labels.numel());
}

// What the workers have found out together.
struct Shared {
  std::mutex mutex;
  LocalOutcome outcome;
  double late_loss = 0, late_steps = 0;
  std::exception_ptr failure;
};

void work(const LocalTraining& t, const LocalData& data, int rank, dist::Group& group,
          Shared& shared) {
  set_compute_threads(1);
  auto model = models::make(t.model, {.classes = data.train.classes, .seed = t.seed});
  auto parts = model->parts();
  FlatParams params(parts.parameters, parts.buffers);
  auto optimizer = nn::make_optimizer(t.optimizer, params, t.optimizer_options);
  dist::MethodOptions options = t.options;
  options.batch = t.batch;
  options.total_samples = t.images;
  options.seed = t.seed;
  options.exchange_timeout_s = kPatience.count();
  options.settings = t.options.settings.only(dist::method_settings(t.method));
  if (t.method == "allreduce")
    options.settings.set("overlap", false);  // no threads beside 16 others
  auto method = dist::make_method(t.method, params, *optimizer, group,
                                  dist::make_graph(t.graph, t.workers), options);
  const nn::Schedule schedule = nn::make_schedule({.kind = "step",
                                                   .peak = t.learning_rate,
                                                   .total = t.images,
                                                   .warmup = t.warmup * t.images,
                                                   .milestones = t.milestones});
  Rng random(t.seed, 1000 + static_cast<std::uint64_t>(rank));
  i64 step = 0;
  while (!method->done()) {
    const double seen = method->samples_seen();
    const Input input = draw(data.train, t.batch, random);
    params.zero_grad();
    Tensor loss = cross_entropy((*model)(input.images), input.labels);
    loss.backward();
    method->step(schedule(seen));
    const double part = seen / t.images;
    if (part + static_cast<double>(t.batch * t.workers) / t.images > .9) {  // after this step
      const std::lock_guard lock(shared.mutex);
      shared.late_loss += static_cast<double>(loss.item());
      ++shared.late_steps;
    }
    if (rank == 0 && ++step % 8 == 0)
      shared.outcome.distance.emplace_back(part, method->stats().consensus_distance);
  }
  method->finish();
  if (rank != 0) return;
  evaluate(*model, data.val, shared.outcome);
}

}  // namespace

LocalData read_local_data(const std::string& folder, i64 most_train, i64 most_val) {
  if (!folder.empty())
    return {read_pictures(data::open({folder}, data::Part::train), most_train),
            read_pictures(data::open({folder}, data::Part::val), most_val), folder};
  const TemporaryFolder drawn("paper");
  data::make_shapes(drawn.path() / "s", {.train = static_cast<int>(std::min<i64>(4096, most_train)),
                                         .val = static_cast<int>(std::min<i64>(1024, most_val)),
                                         .size = 32,
                                         .threads = 2});
  return {read_pictures(data::open({(drawn.path() / "s/train").string()}), most_train),
          read_pictures(data::open({(drawn.path() / "s/val").string()}), most_val), "shapes10"};
}

LocalOutcome train_locally(const LocalTraining& t, const LocalData& data) {
  const auto began = std::chrono::steady_clock::now();
  dist::LocalCluster cluster(t.workers, kPatience, kPatience);
  Shared shared;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < t.workers; ++rank)
    threads.emplace_back([&, rank] {
      try {
        work(t, data, rank, cluster.group(rank), shared);
      } catch (...) {
        {
          const std::lock_guard lock(shared.mutex);
          if (!shared.failure) shared.failure = std::current_exception();
        }
        cluster.kill(rank);
      }
    });
  for (std::thread& each : threads) each.join();
  if (shared.failure) std::rethrow_exception(shared.failure);
  shared.outcome.train_loss = shared.late_loss / shared.late_steps;
  shared.outcome.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return shared.outcome;
}

MeanAndError mean_and_error(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double v : values) sum += v / n;
  for (const double v : values) squares += (v - sum) * (v - sum);
  return {sum, n > 1 ? std::sqrt(squares / (n - 1) / n) : NAN};
}

MeanAndError mean_difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> differences;
  for (std::size_t k = 0; k < a.size(); ++k) differences.push_back(a[k] - b.at(k));
  return mean_and_error(differences);
}

std::string with_error(const MeanAndError& m) {
  return std::isnan(m.error) ? fmt::format("{:.2f} (one run)", m.mean)
                             : fmt::format("{:.2f} +- {:.2f}", m.mean, m.error);
}

}  // namespace gossamer::apps
