// See first_images.h.
#include "gossamer/apps/train/first_images.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

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

std::vector<std::pair<std::string, data::Image>> first_images(
    const nn::DrawnBatch& drawn, const PictureStep& step, const Pictures& prepare,
    const std::vector<std::string>& classes) {
  const NoGrad no_grad;
  const data::Batch batch = picture_batch(drawn.batch);
  const Tensor numbers =
      Tensor::from(drawn.numbers, {static_cast<i64>(drawn.numbers.size())}).to(prepare.device);
  const Tensor input = step.loss_of().mixed(prepare(batch), numbers);
  std::vector<std::pair<std::string, data::Image>> images;
  for (i64 i = 0; i < std::min(kImages, batch.count()); ++i)
    images.emplace_back(
        fmt::format("first images/{} {}", i,
                    classes[static_cast<std::size_t>(batch.labels.as<std::int32_t>()[i])]),
        picture(input.slice(i, i + 1), prepare));
  return images;
}

}  // namespace gossamer::apps
