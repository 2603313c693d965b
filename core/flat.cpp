// FlatParams: lays the parameters out, copies them in, and re-points the model's tensors at the
// blocks.
#include "gossamer/core/flat.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "gossamer/core/autograd.h"

namespace gossamer {
namespace {

constexpr i64 kAlign = 32;  // f32 elements: 128 bytes, for vector loads and NCCL
i64 aligned(i64 n) { return (n + kAlign - 1) / kAlign * kAlign; }

// Both are parts of one tensor (PartOf in autograd.h).
bool same_whole(const NamedTensor& a, const NamedTensor& b) {
  const auto whole = [](const NamedTensor& p) {
    return p.tensor.slot() ? p.tensor.slot()->part.whole : Tensor();
  };
  return whole(a).defined() && whole(b).defined() && whole(a).data() == whole(b).data();
}

// Matrices and filters, then the rest; backwards, but parts of one tensor in their order.
std::vector<NamedTensor> in_layout(std::vector<NamedTensor> params) {
  std::ranges::reverse(params);
  // std::ranges' needs more of libstdc++ 12 than clang 14 has
  std::stable_partition(params.begin(), params.end(),
                        [](const NamedTensor& p) { return p.tensor.rank() >= 2; });
  for (auto begin = params.begin(); begin != params.end();) {
    const auto end = std::find_if(begin + 1, params.end(),
                                  [&](const NamedTensor& p) { return !same_whole(*begin, p); });
    std::reverse(begin, end);
    begin = end;
  }
  return params;
}

// Where an entry ends, its padding included.
i64 end_of(const FlatParams& params, std::size_t entry) {
  const auto& entries = params.entries();
  return entry + 1 < entries.size() ? entries[entry + 1].offset : params.size();
}

}  // namespace

FlatParams::FlatParams(std::vector<NamedTensor> params, std::vector<NamedTensor> buffers,
                       FlatOptions options, std::vector<NamedTensor> frozen)
    : options_(options), params_(std::move(params)) {
  int exponent = 0;
  check<ShapeError>(is_floating(options.compute), "FlatParams: compute type ", options.compute,
                    "; use f32, bf16 or f16");
  check<ConfigError>(options.loss_scale > 0 && std::isfinite(options.loss_scale) &&
                         std::frexp(options.loss_scale, &exponent) == 0.5f,
                     "FlatParams: loss scale ", options.loss_scale,
                     "; wanted a power of two, so that scaling rounds nothing");
  std::set<std::string> names;
  for (const auto& [name, tensor] : params_) {
    check<ShapeError>(names.insert(name).second, "FlatParams: two parameters are called \"", name,
                      "\"");
    check<ShapeError>(tensor.dtype() == DType::f32, "FlatParams: parameter \"", name, "\" is ",
                      tensor.dtype(), ", wanted f32");
  }
  params_ = in_layout(std::move(params_));
  i64 offset = 0;
  std::vector<Tensor> parts;
  std::vector<PartOf> part_of;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Tensor& tensor = params_[i].tensor;
    entries_.push_back({params_[i].name, tensor.shape(), offset});
    parts.push_back(tensor);
    offset += tensor.numel();
    if (i + 1 < params_.size() && same_whole(params_[i], params_[i + 1])) continue;
    // where some parts are frozen, the others are tensors of their own
    const bool all = whole_of(parts).defined();
    for (const Tensor& part : std::exchange(parts, {}))
      part_of.push_back(all ? part.slot()->part : PartOf());
    offset = aligned(offset);
    if (tensor.rank() >= 2) decayed_ = offset;
  }
  const i64 size = offset;
  const Device device = params_.empty() ? Device() : params_[0].tensor.device();
  for (const auto& [name, tensor] : params_)
    check<DeviceError>(tensor.device() == device, "FlatParams: parameter \"", name, "\" is on ",
                       tensor.device(), ", others on ", device);
  values_ = Tensor::zeros({size}, DType::f32, device);
  grads_ = Tensor::zeros({size}, DType::f32, device);
  const bool half = options.compute != DType::f32;
  compute_f32_ = options.separate ? Tensor::zeros({size}, DType::f32, device) : values_;
  if (options.compute == DType::f16 || options.loss_scale != 1)
    overflow_ = Tensor::zeros({2}, DType::f32, device);
  if (half) compute_half_ = Tensor::zeros({decayed_}, options.compute, device);

  for (std::size_t i = 0; i < params_.size(); ++i) {
    Tensor& tensor = params_[i].tensor;
    const Entry& entry = entries_[i];
    const auto window = [&](const Tensor& flat) {
      return flat.slice(entry.offset, entry.offset + tensor.numel()).reshape(tensor.shape());
    };
    window(values_).copy_from(tensor);
    auto slot = std::make_shared<Slot>();
    slot->shape = tensor.shape();
    slot->value = window(grads_);
    slot->flat = true;
    slot->part = part_of[i];
    if (const Tensor& whole = slot->part.whole; whole.defined())
      slot->part.grad =
          slot->part.row == 0
              ? grads_.slice(entry.offset, entry.offset + whole.numel()).reshape(whole.shape())
              : slots_.back()->part.grad;
    slots_.push_back(slot);
    tensor.set_slot(std::move(slot));
  }
  for (NamedTensor& t : frozen) {
    if (t.tensor.dtype() != DType::f32) continue;  // a counter
    check<ShapeError>(names.insert(t.name).second, "FlatParams: two parameters are called \"",
                      t.name, "\"");
    check<ShapeError>(!std::as_const(t.tensor).requires_grad(), "FlatParams: \"", t.name,
                      "\" is said to be frozen, but wants a gradient");
    frozen_.push_back({std::move(t.name), t.tensor.detach()});
    frozen_half_.emplace_back();
    if (!half || t.tensor.rank() < 2) continue;
    t.tensor.rebind(Tensor::empty(t.tensor.shape(), options.compute, t.tensor.device()));
    frozen_half_.back() = t.tensor;
  }
  point_layers_at_copy();

  offset = 0;
  for (NamedTensor& buffer : buffers)
    if (buffer.tensor.dtype() == DType::f32) {
      buffer_entries_.push_back({buffer.name, buffer.tensor.shape(), offset});
      offset += aligned(buffer.tensor.numel());
      buffer_tensors_.push_back(std::move(buffer));
    }
  buffers_ = Tensor::zeros({offset}, DType::f32, device);
  for (std::size_t i = 0; i < buffer_tensors_.size(); ++i) {
    Tensor& tensor = buffer_tensors_[i].tensor;
    const Tensor window =
        buffers_.slice(buffer_entries_[i].offset, buffer_entries_[i].offset + tensor.numel())
            .reshape(tensor.shape());
    Tensor(window).copy_from(tensor);
    tensor.rebind(window);
  }
}

FlatParams::~FlatParams() {
  for (const auto& slot : slots_) {  // the tensors may live on, and are free again
    slot->flat = false;
    slot->on_ready = nullptr;
  }
}

i64 FlatParams::parameter_count() const {
  i64 n = 0;
  for (const Entry& e : entries_) n += e.shape.numel();
  return n;
}

void FlatParams::zero_grad() {
  for (const auto& slot : slots_) slot->stale = true;
}

void FlatParams::backward(const Tensor& loss, float share) const {
  gossamer::backward(loss, share * options_.loss_scale);
}

bool FlatParams::skips_step() const {
  return overflow_.defined() && overflow_.device().is_cpu() && overflow_.as<float>()[0] > 0;
}
i64 FlatParams::skipped_steps() const {
  return overflow_.defined() ? static_cast<i64>(overflow_.slice(1, 2).item()) : 0;
}

void FlatParams::settle_grads(FlatRange range) {
  const i64 end = range.end < 0 ? size() : range.end;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = *slots_[i];
    if (!slot.stale || entries_[i].offset < range.begin || entries_[i].offset >= end) continue;
    slot.value.zero();
    slot.stale = false;
  }
}

std::vector<FlatRange> FlatParams::buckets(i64 bytes) const {
  check<ConfigError>(bytes > 0, "buckets: ", bytes, " bytes; wanted at least 1");
  std::vector<FlatRange> out;
  i64 begin = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const i64 end = end_of(*this, i);
    if (end % kAlign != 0) continue;  // between parts of one tensor
    if ((end - begin) * static_cast<i64>(sizeof(float)) < bytes && end < size()) continue;
    out.push_back({begin, end});
    begin = end;
  }
  return out;
}

void FlatParams::on_ready(const std::vector<FlatRange>& ranges, Call ready, Call mark) {
  buckets_.assign(ranges.size(), {});
  bucket_of_.assign(slots_.size(), ranges.size());
  ready_ = std::move(ready), mark_ = std::move(mark);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const i64 from = entries_[i].offset, to = end_of(*this, i);
    for (std::size_t b = 0; b < ranges.size(); ++b) {
      const i64 begin = ranges[b].begin, end = ranges[b].end < 0 ? size() : ranges[b].end;
      if (to <= begin || from >= end) continue;
      check<ShapeError>(from >= begin && to <= end, "on_ready: range [", begin, ", ", end,
                        ") cuts parameter \"", entries_[i].name, "\", [", from, ", ", to, ")");
      bucket_of_[i] = b;
      ++buckets_[b].parameters;
    }
    if (bucket_of_[i] < ranges.size())
      slots_[i]->on_ready = [this, i] { arrived(i); };
    else
      slots_[i]->on_ready = nullptr;
  }
  arrived_.assign(slots_.size(), true);  // nothing is awaited until arm_ready()
}

void FlatParams::arm_ready() {
  std::fill(arrived_.begin(), arrived_.end(), false);
  for (Bucket& b : buckets_) b.missing = b.parameters;
}

void FlatParams::arrived(std::size_t slot) {
  // stale: its consumers had no gradient to give
  if (arrived_[slot] || slots_[slot]->stale) return;
  arrived_[slot] = true;
  const std::size_t bucket = bucket_of_[slot];
  if (--buckets_[bucket].missing > 0) return;
  if (mark_) mark_(bucket);
  if (recorded_)
    recorded_->push_back(bucket);
  else
    ready_(bucket);
}

std::vector<std::size_t> FlatParams::record_ready(FunctionRef<void()> pass) {
  std::vector<std::size_t> order;
  struct Restore {  // what is awaited of the launch that follows
    FlatParams& params;
    std::vector<Bucket> buckets = params.buckets_;
    std::vector<bool> arrived = params.arrived_;
    ~Restore() {
      params.buckets_ = std::move(buckets), params.arrived_ = std::move(arrived);
      params.recorded_ = nullptr;
    }
  } const restore{*this};
  arm_ready();
  recorded_ = &order;
  pass();
  return order;
}

void FlatParams::replay_ready(const std::vector<std::size_t>& ranges) {
  arrived_.assign(slots_.size(), true);
  for (const std::size_t bucket : ranges)
    if (std::exchange(buckets_[bucket].missing, 0) > 0) ready_(bucket);
}

void FlatParams::point_layers_at_copy() {
  const bool half = options_.compute != DType::f32;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    Tensor& tensor = params_[i].tensor;
    const i64 begin = entries_[i].offset;
    const Tensor& copy = half && tensor.rank() >= 2 ? compute_half_ : compute_f32_;
    tensor.rebind(copy.slice(begin, begin + tensor.numel()).reshape(tensor.shape()));
    if (PartOf& part = slots_[i]->part; part.whole.defined() && part.row == 0)
      part.whole.rebind(copy.slice(begin, begin + part.whole.numel()).reshape(part.whole.shape()));
  }
  refresh();
}

void FlatParams::separate() {
  if (std::exchange(options_.separate, true)) return;
  compute_f32_ = Tensor::zeros(values_.shape(), DType::f32, values_.device());
  point_layers_at_copy();
}

void FlatParams::refresh() {
  for (std::size_t i = 0; i < frozen_.size(); ++i)
    if (frozen_half_[i].defined()) frozen_half_[i].copy_from(frozen_[i].tensor);
  if (options_.compute != DType::f32) {
    compute_half_.copy_from(values_.slice(0, decayed_));
    if (options_.separate)
      compute_f32_.slice(decayed_, size()).copy_from(values_.slice(decayed_, size()));
  } else if (options_.separate) {
    compute_f32_.copy_from(values_);
  }
}

std::vector<NamedTensor> FlatParams::windows(const Tensor& flat, const std::string& prefix) const {
  check<ShapeError>(flat.shape() == values_.shape(), "windows: block ", flat.shape(),
                    " does not have this layout, ", values_.shape());
  std::vector<NamedTensor> out;
  for (const Entry& e : entries_)
    out.push_back(
        {prefix + e.name, flat.slice(e.offset, e.offset + e.shape.numel()).reshape(e.shape)});
  return out;
}

std::vector<NamedTensor> FlatParams::buffer_windows() const {
  std::vector<NamedTensor> out;
  for (const Entry& e : buffer_entries_)
    out.push_back({e.name, buffers_.slice(e.offset, e.offset + e.shape.numel()).reshape(e.shape)});
  return out;
}

std::uint64_t FlatParams::fingerprint() const {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  const auto add = [&](const std::string& text) {
    for (const char ch : text) hash = (hash ^ static_cast<unsigned char>(ch)) * 0x100000001b3ull;
  };
  for (const Entry& e : entries_) add(e.name + e.shape.str() + ";");
  return hash;
}

}  // namespace gossamer
