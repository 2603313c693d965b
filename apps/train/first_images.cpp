// See first_images.h.
#include "gossamer/apps/train/first_images.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "gossamer/apps/train/worker.h"
#include "gossamer/core/autograd.h"

namespace gossamer::apps {
namespace {

constexpr i64 kImages = 8;

// input: normalized [1, H, W, 3]
data::Image picture(const Tensor& input, const Pictures& prepare) {
  const Tensor values = input.to(Device::cpu()).to(DType::f32);
  data::Image out{static_cast<int>(values.shape(1)), static_cast<int>(values.shape(2)), {}};
  for (i64 i = 0; i < values.numel(); ++i) {
    const auto channel = static_cast<std::size_t>(i % 3);
    const float v = 255 * (values.as<float>()[i] * prepare.std[channel] + prepare.mean[channel]);
    out.pixels.push_back(static_cast<std::uint8_t>(std::lround(std::clamp(v, 0.0f, 255.0f))));
  }
  return out;
}

}  // namespace

void show_images(Worker& w, const TrainingLoss& loss_of, const data::Batch& batch,
                 const Position& at) {
  if (!w.board.writes() || w.progress.silent() || !batch.labels.defined()) return;
  const NoGrad no_grad;
  const int side = static_cast<int>(batch.side());
  const TrainingLoss::Mix mix = loss_of.draw(side, side, at);
  Tensor numbers = Tensor::empty({static_cast<i64>(mix.size())}, DType::f32);
  std::ranges::copy(mix, numbers.as<float>());
  const Tensor input = loss_of.mixed(w.prepare(batch), numbers.to(w.device));
  const auto& classes = w.train_set->classes();
  std::vector<std::pair<std::string, data::Image>> images;
  for (i64 i = 0; i < std::min(kImages, batch.count()); ++i)
    images.emplace_back(
        fmt::format("first images/{} {}", i,
                    classes[static_cast<std::size_t>(batch.labels.as<std::int32_t>()[i])]),
        picture(input.slice(i, i + 1), w.prepare));
  w.board.images(static_cast<i64>(at.samples / static_cast<double>(w.config.gradient_images())),
                 images);
}

}  // namespace gossamer::apps
