// See evaluate.h. Nothing waits for a GPU until the last batch is enqueued: batches are brought by
// StepInputs, and the results of each batch stay on the device.
#include "gossamer/apps/train/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "gossamer/apps/train/fitting_batch.h"
#include "gossamer/apps/train/picture_input.h"
#include "gossamer/apps/train/picture_step.h"
#include "gossamer/apps/train/task.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/captured_step.h"
#include "gossamer/core/input_pass.h"
#include "gossamer/core/ops.h"
#include "gossamer/nn/inference.h"
#include "gossamer/nn/train/classification.h"

namespace gossamer::apps {
namespace {

constexpr double kLeastProbability = 1e-30;

// The same batch with `size` rows; those after its own are zero, or repeat the last box.
data::Batch filled_up(const data::Batch& batch, i64 size) {
  const auto rows = [&](const Tensor& t, bool repeat) {
    if (!t.defined()) return t;
    std::vector<i64> shape(t.shape().begin(), t.shape().end());
    const i64 own = shape[0];
    shape[0] = size;
    Tensor out = Tensor::zeros(Shape::of(shape.data(), t.rank()), t.dtype());
    out.slice(0, own).copy_from(t);
    for (i64 i = own; repeat && i < size; ++i) out.slice(i, i + 1).copy_from(t.slice(own - 1, own));
    return out;
  };
  data::Batch out = batch;
  out.images = rows(batch.images, false);
  out.labels = rows(batch.labels, false);
  if (batch.pictures.defined())
    out.pictures = rows(batch.pictures.reshape({batch.count(), -1}), true).reshape({-1});
  return out;
}

// Its pictures left to right. u8 [N, H, W, 3] on the host, or boxes, whose table is.
data::Batch mirrored(const data::Batch& batch) {
  data::Batch out = batch;
  if (batch.pictures.defined()) {
    out.pictures = batch.pictures.clone();
    auto* const picture = reinterpret_cast<Picture*>(out.pictures.as<std::uint8_t>());
    for (i64 i = 0; i < batch.count(); ++i) picture[i].flip = !picture[i].flip;
    return out;
  }
  out.images = Tensor::empty(batch.images.shape(), DType::u8);
  const i64 width = batch.images.shape(2), rows = batch.images.shape(0) * batch.images.shape(1);
  const auto* in = batch.images.as<std::uint8_t>();
  auto* to = out.images.as<std::uint8_t>();
  for (i64 row = 0; row < rows; ++row, in += 3 * width, to += 3 * width)
    for (i64 x = 0; x < width; ++x) std::copy_n(in + 3 * x, 3, to + 3 * (width - 1 - x));
  return out;
}

// Judges the logits of several batches at once, since reading them waits for a GPU.
class Judge {
 public:
  explicit Judge(std::vector<Judgement>* judged) : judged_(judged) {}
  // batch: as the loader gave it.
  void add(const Tensor& logits, const data::Batch& batch) {
    if (!judged_) return;
    const auto* labels = batch.labels.as<std::int32_t>();
    for (i64 n = 0; n < batch.count(); ++n)
      judged_->push_back(
          {.label = labels[n], .sample = batch.samples[static_cast<std::size_t>(n)]});
    unread_.push_back(logits);
    numbers_ += logits.numel();
    if (logits.device().is_cpu() || numbers_ > kMostUnread) read();
  }
  void read() {
    for (const Tensor& logits : unread_) {
      const Tensor values = logits.to(Device::cpu()).to(DType::f32);
      for (i64 n = 0; n < values.shape(0); ++n)
        look(values.as<float>() + n * values.shape(1), static_cast<int>(values.shape(1)),
             (*judged_)[done_++]);
    }
    unread_.clear();
    numbers_ = 0;
  }

 private:
  static constexpr i64 kMostUnread = i64{1} << 24;
  static void look(const float* row, int classes, Judgement& j) {
    // the best of the others, and whether the label is better
    int best = j.label == 0 && classes > 1 ? 1 : 0;
    for (int k = 0; k < classes; ++k)
      if (k != j.label && row[k] > row[best]) best = k;
    j.predicted = row[j.label] > row[best] || classes == 1 ? j.label : best;
    double sum = 0;
    for (int k = 0; k < classes; ++k)
      sum += std::exp(static_cast<double>(row[k]) - static_cast<double>(row[j.predicted]));
    j.probability = static_cast<float>(1 / sum);
  }
  std::vector<Judgement>* judged_;
  std::vector<Tensor> unread_;
  i64 numbers_ = 0;
  std::size_t done_ = 0;
};

// The logarithm of the mean of the models' probabilities. As logits they are these probabilities.
Tensor ensemble(const std::vector<Tensor>& logits) {
  const Shape shape = logits[0].shape();
  std::vector<double> mean(static_cast<std::size_t>(logits[0].numel()));
  for (const Tensor& each : logits) {
    const Tensor p = softmax(each.to(Device::cpu()).to(DType::f32));
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += p.as<float>()[i];
  }
  Tensor out = Tensor::empty(shape, DType::f32);
  for (std::size_t i = 0; i < mean.size(); ++i)  // no probability is 0: its cross entropy is finite
    out.as<float>()[i] = static_cast<float>(
        std::log(std::max(mean[i] / static_cast<double>(logits.size()), kLeastProbability)));
  return out.to(logits[0].device());
}

// The counts of each model, and of their ensemble if there are several.
std::vector<Counts> evaluate_in_batches(std::span<nn::Module* const> nets,
                                        const std::shared_ptr<const data::Dataset>& set,
                                        const Pictures& prepare, const EvalOptions& options,
                                        std::vector<std::string>* damaged,
                                        std::vector<Judgement>* judged) {
  const NoGrad no_grad;
  std::string no_graph;
  std::vector<nn::Inference> models;
  for (nn::Module* net : nets)
    models.emplace_back(
        *net, GraphOptions{.on_failure = [&](const std::string& why) { no_graph = why; }});
  const Device device = prepare.device;
  const bool like_gpu = options.like_gpu || !device.is_cpu();
  data::Loader loader(set, {.batch = options.batch,
                            .size = prepare.size,
                            .resize = prepare.resize,
                            .filter = prepare.filter,
                            .threads = options.threads,
                            .epoch = data::in_order(options.part, options.parts),
                            .strict = options.strict,
                            .replace_damaged = false,
                            .pinned = !device.is_cpu(),
                            .boxes = device_resizes(prepare, like_gpu)});
  const int k = static_cast<int>(std::min<std::size_t>(5, set->classes().size()));
  nn::StepInputs inputs(device);
  std::vector<i64> images;  // of each batch
  Judge judge(judged);
  const bool together = options.ensemble && nets.size() > 1;
  const std::size_t judges = nets.size() + together;
  // loss, top-1, top-5 of each
  const Tensor results =
      Tensor::zeros({loader.steps() * static_cast<i64>(judges), 3}, DType::f32, device);
  i64 row = 0, seen = 0;
  for (i64 step = 0; options.max_batches == 0 || step < options.max_batches; ++step) {
    const data::Batch batch = loader.next();
    if (!batch.labels.defined()) break;
    const i64 n = batch.count();
    const data::Batch whole =
        like_gpu && n < options.batch ? filled_up(batch, options.batch) : batch;
    const data::Batch in = picture_batch(inputs.put(step_batch(whole), std::array{0.0f}).batch);
    const Tensor labels = in.labels.slice(0, n), input = prepare(in);
    Tensor mirror;
    if (options.flip) {
      data::Batch other = mirrored(whole);
      if (in.bytes.defined()) other.bytes = in.bytes;  // they are there already
      mirror = prepare(other);
    }
    std::vector<Tensor> logits;
    for (const nn::Inference& model : models) {
      Tensor own = model(input).slice(0, n);
      if (options.flip) own = mul(add(own, model(mirror).slice(0, n)), 0.5f);
      logits.push_back(own);
    }
    if (together) logits.push_back(ensemble(logits));
    judge.add(logits.back(), batch);
    for (const Tensor& each : logits) {
      results.slice(row, row + 1)
          .reshape({3})
          .copy_from(nn::classification_scores(each, labels, k));
      ++row;
    }
    images.push_back(n);
    inputs.step_ends();
    if (options.progress) options.progress(seen += n);
  }
  judge.read();
  const Tensor table = results.to(Device::cpu());
  std::vector<Counts> all(judges, Counts{.batch = options.batch, .no_graph = no_graph});
  const float* numbers = table.as<float>();
  for (const i64 batch : images)
    for (Counts& counts : all) {
      const auto n = static_cast<double>(batch);
      counts.items += n;
      counts.loss += n * static_cast<double>(numbers[0]);
      counts.top1 += static_cast<double>(numbers[1]);
      counts.top5 += static_cast<double>(numbers[2]);
      numbers += 3;
    }
  if (damaged) *damaged = loader.damaged();
  return all;
}

}  // namespace

std::vector<Counts> evaluate(std::span<nn::Module* const> nets,
                             const std::shared_ptr<const data::Dataset>& set,
                             const Pictures& prepare, const EvalOptions& options,
                             std::vector<std::string>* damaged, std::vector<Judgement>* judged) {
  const EvalMode eval(nets);
  return with_fitting_batch(options.batch, prepare.device, [&](i64 batch) {
    if (judged) judged->clear();
    EvalOptions now = options;
    now.batch = batch;
    return evaluate_in_batches(nets, set, prepare, now, damaged, judged);
  });
}

}  // namespace gossamer::apps
