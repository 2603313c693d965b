// See picture_input.h.
#include "gossamer/apps/train/picture_input.h"

#include "gossamer/core/cuda.h"
#include "gossamer/core/input_pass.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/random.h"
#include "gossamer/data/augment/preparer.h"
#include "gossamer/data/loader/checked_options.h"

namespace gossamer::apps {

bool device_resizes(const Pictures& p, bool like_gpu) {
  return p.filter == data::Shrink::bilinear && (like_gpu || !p.device.is_cpu());
}

Tensor read_picture(const std::string& path, const Pictures& p, bool like_gpu) {
  if (!device_resizes(p, like_gpu)) return p(data::read_image(path, p.resize, p.size, p.filter));
  const std::size_t room = data::box_bytes_of({.size = p.size, .boxes = true});
  const data::ImageBox box = data::read_box(path, p.resize, p.size, room);
  return p({.images = {},
            .labels = Tensor::zeros({1}, DType::i32),
            .bytes = box.bytes,
            .pictures = box.picture,
            .size = p.size});
}

data::Batch noise_batch(const Pictures& p, i64 count, bool like_gpu) {
  const bool boxes = device_resizes(p, like_gpu);
  const int side = boxes ? p.resize : p.size;
  const i64 each = i64{3} * side * side;
  const auto bytes = static_cast<std::size_t>(count * each);
  // page-locked for a GPU, as the loader's
  const std::shared_ptr<Block> memory =
      p.device.is_cpu() ? allocate(bytes) : cuda::allocate_pinned(bytes);
  Tensor pixels =
      Tensor::wrap(memory->data, {count, side, side, 3}, DType::u8, [memory] { (void)memory; });
  Rng rng(0);
  for (std::uint8_t& v : pixels.span<std::uint8_t>()) v = static_cast<std::uint8_t>(rng.below(256));
  const Tensor labels = Tensor::zeros({count}, DType::i32);
  if (!boxes) return {pixels, labels};
  Tensor table = Tensor::empty({count * static_cast<i64>(sizeof(Picture))}, DType::u8);
  auto* const picture = reinterpret_cast<Picture*>(table.as<std::uint8_t>());
  for (i64 i = 0; i < count; ++i)
    picture[i] = {.offset = i * each,
                  .pitch = 3 * side,
                  .width = side,
                  .height = side,
                  .to_width = side,
                  .to_height = side,
                  .x = (side - p.size) / 2,
                  .y = (side - p.size) / 2};
  return {.images = {},
          .labels = labels,
          .bytes = pixels.reshape({-1}),
          .pictures = table,
          .room = count * each,
          .size = p.size};
}

}  // namespace gossamer::apps
