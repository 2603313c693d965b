// The head of fused.h: global averages, loss and counters. Kernels: stem_kernels.h, head_kernels.h.
#include "gossamer/core/ops/fused_checks.h"
#include "gossamer/core/ops/head_kernels.h"
#include "gossamer/core/ops/stem_kernels.h"

namespace gossamer::fused {

using namespace kernels;

namespace {
// f(whole) with `whole` known at compile time.
template <class F>
void with_vectors(bool whole, F&& f) {
  if (whole)
    f.template operator()<true>();
  else
    f.template operator()<false>();
}
}  // namespace

void global_average(const Tensor& x, Tensor& y) {
  const char* op = "global_average";
  matrix_of(op, x);
  check<ShapeError>(x.rank() == 4, op, ": input is ", x.shape(), "; wanted [N, H, W, C]");
  const i64 cols = x.shape(3), pixels = x.shape(1) * x.shape(2);
  check_type(op, "y", y, {x.shape(0), cols}, x.dtype(), x.device());
  with_floating(x.dtype(), op, [&]<class T>() {
    with_vectors(fits_vectors(cols, {&x, &y}), [&]<bool whole>() {
      for_each(x.device(), x.shape(0) * ((cols + 7) / 8),
               GlobalAverage<T, whole>{x.as<T>(), y.as<T>(), pixels, cols}, 64);
    });
  });
}

void global_average_back(const Tensor& dy, Tensor& dx) {
  const char* op = "global_average_back";
  matrix_of(op, dx);
  check<ShapeError>(dx.rank() == 4, op, ": dx is ", dx.shape(), "; wanted [N, H, W, C]");
  const i64 cols = dx.shape(3), pixels = dx.shape(1) * dx.shape(2);
  check_type(op, "dy", dy, {dx.shape(0), cols}, dx.dtype(), dx.device());
  with_floating(dx.dtype(), op, [&]<class T>() {
    with_vectors(fits_vectors(cols, {&dy, &dx}), [&]<bool whole>() {
      for_each(dx.device(), dx.shape(0) * pixels * ((cols + 7) / 8),
               GlobalAverageBack<T, whole>{dy.as<T>(), dx.as<T>(), pixels, cols,
                                           1.0f / static_cast<float>(pixels)},
               1 << 12);
    });
  });
}

Tensor new_counters(Device device) { return Tensor::zeros({sizeof(Counters)}, DType::u8, device); }

Counters read_counters(const Tensor& counters) {
  check_type("read_counters", "counters", counters, {sizeof(Counters)}, DType::u8,
             counters.device());
  const Tensor here = counters.to(Device::cpu());
  Counters c;
  std::memcpy(&c, here.data(), sizeof c);
  return c;
}

void softmax_loss(const Tensor& logits, const Tensor& labels, float label_smoothing,
                  float grad_scale, Tensor& losses, Tensor& dz, Tensor& counters) {
  const char* op = "softmax_loss";
  matrix_of(op, logits);
  check<ShapeError>(logits.rank() == 2, op, ": logits are ", logits.shape(), "; wanted [N, K]");
  check<ShapeError>(label_smoothing >= 0 && label_smoothing < 1, op, ": label_smoothing ",
                    label_smoothing, " is not in [0, 1)");
  const i64 rows = logits.shape(0), cols = logits.shape(1);
  check_type(op, "labels", labels, {rows}, DType::i32, logits.device());
  check_type(op, "losses", losses, {rows}, DType::f32, logits.device());
  if (dz.defined()) check_type(op, "dz", dz, logits.shape(), dz.dtype(), logits.device());
  if (counters.defined())
    check_type(op, "counters", counters, {sizeof(Counters)}, DType::u8, logits.device());
  const Scratch ranks(rows, logits.device());
  int* const rank = reinterpret_cast<int*>(ranks.data());
  with_floating(logits.dtype(), dz.defined() ? dz.dtype() : DType::f32, op,
                [&]<class T, class D>() {
                  for_each_block(logits.device(), rows,
                                 SoftmaxLoss<T, D>{logits.as<T>(), labels.as<std::int32_t>(), cols,
                                                   label_smoothing, grad_scale, losses.as<float>(),
                                                   rank, dz.defined() ? dz.as<D>() : nullptr});
                });
  if (counters.defined())
    for_each_block(
        logits.device(), 1,
        CountRows{losses.as<float>(), rank, rows, static_cast<Counters*>(counters.data())});
}

}  // namespace gossamer::fused
