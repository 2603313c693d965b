// Events on tensors, in the order of the device.
#include "gossamer/dist/gossip/model.h"

#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/exchange.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/gossip/tracking.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {
constexpr auto kLook = std::chrono::microseconds(20);
constexpr double kStepLimit = 600;  // seconds
constexpr i64 kGrain = 1 << 14;     // elements of a loop for one thread
}  // namespace

GossipModel::GossipModel(Tensor x, bool with_twin, bool tracks) : x_(std::move(x)) {
  if (with_twin) twin_ = x_.clone();
  if (!tracks) return;
  tracker_ = Tensor::zeros({x_.numel()});
  last_gradient_ = Tensor::zeros({1, x_.numel()});
}

void GossipModel::exchange_by(DType wire, DevicePort* device, Coding coding) {
  check<ConfigError>(device != nullptr || wire == DType::f32,
                     "snapshots between CPUs are f32, not ", wire);
  check<ConfigError>(device == nullptr || coding == Coding::f32,
                     "a payload of bf16 or int8 is for CPUs; between GPUs the wire may be f16");
  coding_ = coding;
  const i64 n = x_.numel(), sent = tracks() ? 2 * n : n;
  if (coding != Coding::f32) {
    if (coding == Coding::int8) error_ = Tensor::zeros({1, sent});
    codes_.emplace(coding, sent, error_);
    received_codes_ = Tensor::empty({coded_bytes(coding, sent)}, DType::u8);
  }
  own_ = Tensor::empty({sent}, wire, x_.device());
  received_ = Tensor::empty({sent}, wire, x_.device());
  own_x_ = own_.slice(0, n), received_x_ = received_.slice(0, n);
  if (tracks()) own_y_ = own_.slice(n, sent), received_y_ = received_.slice(n, sent);
  device_ = device;
  if (!device_) return;
  order_ = device_->make_event();
  gradients_ = device_->make_event();
  leave(Stream::compute);  // what made (x, x~) comes before the first snapshot
}

void GossipModel::enter(Stream stream) {
  if (device_) device_->wait(stream, order_);
}
void GossipModel::leave(Stream stream) {
  if (device_) device_->record(order_, stream);
}
template <class F>
void GossipModel::run(Stream stream, F f) {
  enter(stream);
  if (device_)
    device_->run(stream, f);
  else
    f();
  leave(stream);
}

void GossipModel::gradient(double t, Optimizer& optimizer, float learning_rate) {
  const A2cid2::Mix mix = numbers.gradient(t);
  const Twin twin{twin_, static_cast<float>(mix.c), static_cast<float>(mix.s)};
  // x and x~ have drifted to t when the difference is applied, as `numbers` has.
  const bool with_difference = std::exchange(kept_, false);
  const Jump jump = numbers.arrived(mark_);
  const Difference difference{own_x_, received_x_, static_cast<float>(jump.x),
                              static_cast<float>(jump.twin)};
  enter(Stream::compute);
  optimizer.update({}, learning_rate, has_twin() ? &twin : nullptr,
                   with_difference ? &difference : nullptr);
  leave(Stream::compute);
}

void GossipModel::snapshot(double t) {
  apply_kept();
  const A2cid2::Mix mix = numbers.snapshot(t, mark_);
  run(Stream::exchange, [this, mix] {
    take_snapshot(x_, twin_, static_cast<float>(mix.c), static_cast<float>(mix.s), own_x_);
  });
  if (tracks()) own_y_.copy_from(tracker_);
}

// Both workers then subtract their difference of what both have, so rounding moves no mean.
void GossipModel::pack() {
  if (codes_) codes_->encode(own_);
}
double GossipModel::unpack(double known) {
  if (!codes_) return known;
  Coded::decode(coding_, received_codes_, received_);
  return squared_distance(own_, received_);
}

double GossipModel::part_of_parameters(double squared) const {
  return tracks() ? squared_distance(own_x_, received_x_) : squared;
}

double GossipModel::snapshot_norm() {
  double norm = 0;
  const auto measure = [&] {
    norm = std::sqrt(squared_norm(own_.dtype() == DType::f32 ? own_ : own_.to(DType::f32)));
  };
  if (device_)
    device_->run(Stream::exchange, measure);
  else
    measure();
  return norm;
}

// A sketch is linear. Of x after its drift, without a difference that is there and not applied yet,
// it is the same sum of sketches as x is of tensors.
PairSketch GossipModel::sketch(double t, std::uint64_t stream) {
  A2cid2::Mark unused;
  const A2cid2::Mix mix = numbers.snapshot(t, unused);
  PairSketch out{};
  // On a stream of its own: an exchange that is under way may wait for its peer, and training would
  // wait with it.
  run(Stream::measure, [&] {
    add_sketch(x_, mix.c, stream, out);
    if (has_twin()) add_sketch(twin_, mix.s, stream, out);
    if (!kept_) return;
    const Jump jump = numbers.arrived(mark_);
    const double part = has_twin() ? mix.c * jump.x + mix.s * jump.twin : jump.x;
    const auto f32 = [](const Tensor& s) { return s.dtype() == DType::f32 ? s : s.to(DType::f32); };
    add_sketch(f32(own_x_), -part, stream, out);
    add_sketch(f32(received_x_), part, stream, out);
  });
  return out;
}

void GossipModel::arrived(bool to_tracker) {
  kept_ = true;
  if (tracks() && to_tracker) {
    Tensor none;
    apply_difference(tracker_, none, static_cast<float>(numbers.arrived(mark_).x), 0, own_y_,
                     received_y_);
  }
  if (!device_) return;
  // Later work on (x, x~) waits for what brought the snapshot.
  enter(Stream::exchange);
  leave(Stream::exchange);
}

void GossipModel::apply_kept() {
  if (!std::exchange(kept_, false)) return;
  const Jump jump = numbers.arrived(mark_);
  run(Stream::exchange, [this, jump] {
    apply_difference(x_, twin_, static_cast<float>(jump.x), static_cast<float>(jump.twin), own_x_,
                     received_x_);
  });
}

void GossipModel::restart_tracking() {
  if (tracks()) tracker_.copy_from(last_gradient_.reshape({-1}));
}

void GossipModel::track(const Tensor& gradient) {
  float *const now = Tensor(gradient).as<float>(), *const g = last_gradient_.as<float>(),
               *const y = tracker_.as<float>();
  parallel_for(tracker_.numel(), kGrain, [&](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) {
      track_element(now[i], g[i], y[i]);
      now[i] = y[i];
    }
  });
}

GossipModel::Access::Access(GossipModel& model) : model_(model) {
  model_.apply_kept();
  model_.enter(Stream::compute);
}
GossipModel::Access::~Access() {
  try {
    model_.leave(Stream::compute);
  } catch (const Error&) {  // the device has failed: the next call says so too
  }
}

void GossipModel::restart() {
  if (has_twin()) twin_.copy_from(x_);
}

// Asleep for half of what it took last time; then awake often enough that the device does not
// notice.
void GossipModel::await_gradients() {
  if (!device_) return;
  const trace::Scope scope("wait gradients");
  device_->record(gradients_, Stream::compute);
  const PreciseSleep precise;
  const double began = wall_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(waited_ / 2));
  while (!device_->done(gradients_)) {
    check<DeviceError>(wall_seconds() - began < kStepLimit,
                       "a training step on the GPU takes more than ", kStepLimit, " s");
    std::this_thread::sleep_for(kLook);
  }
  waited_ = wall_seconds() - began;
}

}  // namespace gossamer::dist
