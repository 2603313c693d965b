// The pass of input_pass.h: checks, and the launch of input.h.
#include "gossamer/core/cuda/kernels/input.h"

namespace gossamer {

using namespace kernels;

void check_pictures(std::span<const Picture> pictures, i64 bytes, int height, int width) {
  for (std::size_t n = 0; n < pictures.size(); ++n) {
    const Picture& p = pictures[n];
    check<ShapeError>(p.width > 0 && p.height > 0 && p.to_width > 0 && p.to_height > 0 &&
                          p.x >= 0 && p.y >= 0 && p.x <= p.to_width - width &&
                          p.y <= p.to_height - height,
                      "input: picture ", n, " of the batch, ", p.width, " x ", p.height,
                      " resized to ", p.to_width, " x ", p.to_height, ", has no window of ", width,
                      " x ", height, " at (", p.x, ", ", p.y, ")");
    const Taps left = Taps::of(p.width, p.to_width, p.x),
               right = Taps::of(p.width, p.to_width, p.x + width - 1);
    const Taps top = Taps::of(p.height, p.to_height, p.y),
               bottom = Taps::of(p.height, p.to_height, p.y + height - 1);
    const i64 columns = right.first + right.count, rows = bottom.first + bottom.count;
    const i64 begin = p.offset + i64{top.first} * p.pitch + 3 * i64{left.first},
              end = p.offset + (rows - 1) * p.pitch + 3 * columns;
    check<ShapeError>(p.pitch >= 0 && begin >= 0 && end <= bytes, "input: picture ", n,
                      " of the batch reads bytes [", begin, ", ", end, ") of ", bytes);
  }
}

void input_pass(const Tensor& bytes, const Tensor& pictures, const std::array<float, 3>& mean,
                const std::array<float, 3>& std, Tensor& out) {
  const char* op = "input_pass";
  check<ShapeError>(bytes.defined() && bytes.dtype() == DType::u8 && pictures.defined() &&
                        pictures.dtype() == DType::u8 && out.defined() && out.rank() == 4,
                    op, ": wanted u8 bytes, u8 pictures and an output [N, H, W, 3]");
  check<ShapeError>(out.shape(3) == 3, op, ": output is ", out.shape(), "; wanted [N, H, W, 3]");
  check<ShapeError>(pictures.numel() == out.shape(0) * static_cast<i64>(sizeof(Picture)), op, ": ",
                    pictures.numel(), " bytes of pictures for output ", out.shape(),
                    "; each takes ", sizeof(Picture));
  check<DeviceError>(bytes.device() == out.device() && pictures.device() == out.device(), op,
                     ": bytes on ", bytes.device(), ", pictures on ", pictures.device(),
                     ", output on ", out.device());
  check<ShapeError>(aligned16(out.data()) && aligned16(pictures.data()), op,
                    ": output and pictures must start on 16 bytes");
  const int h = static_cast<int>(out.shape(1)), w = static_cast<int>(out.shape(2));
  const std::shared_ptr<Block> taps =
      allocate(sizeof(Taps) * static_cast<std::size_t>(out.shape(0) * (h + w)), out.device());
  const auto* const table = static_cast<const Picture*>(pictures.data());
  for_each(out.device(), out.shape(0) * (h + w),
           FindTaps{table, h, w, static_cast<Taps*>(taps->data)});
  with_floating(out.dtype(), op, [&]<class T>() {
    using Kernel = InputTile<T>;
    const int down = (h + Kernel::side - 1) / Kernel::side,
              across = (w + Kernel::side - 1) / Kernel::side;
    Kernel k{bytes.as<std::uint8_t>(),
             bytes.numel(),
             aligned16(bytes.data()),
             table,
             static_cast<const Taps*>(taps->data),
             out.as<T>(),
             h,
             w,
             down,
             across,
             {},
             {}};
    for (std::size_t c = 0; c < 3; ++c) {
      k.factor[c] = 1 / (255 * std[c]);
      k.offset[c] = -mean[c] / std[c];
    }
    for_each_block(out.device(), out.shape(0) * down * across, k);
  });
}

}  // namespace gossamer
