// Tensors of others and for others: lent memory, and DLPack. And what all calls with tensors need.
#include "gossamer/apps/capi/tensor.h"

#include <algorithm>
#include <array>

#include "gossamer/apps/capi/dlpack.h"
#include "gossamer/apps/capi/model.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

struct Kind {
  gsm_dtype type;
  DType ours;
  std::uint8_t code, bits;  // of DLPack
};
constexpr std::array kKinds{Kind{GSM_F32, DType::f32, 2, 32}, Kind{GSM_BF16, DType::bf16, 4, 16},
                            Kind{GSM_F16, DType::f16, 2, 16}, Kind{GSM_U8, DType::u8, 1, 8},
                            Kind{GSM_I32, DType::i32, 0, 32}, Kind{GSM_I64, DType::i64, 0, 64}};

template <class Is>
const Kind& kind(const Is& is) {
  const auto at = std::ranges::find_if(kKinds, is);
  check<ArgumentError>(at != kKinds.end(),
                       "there is no such type; there are f32, bf16, f16, u8, i32 and i64");
  return *at;
}

void check_rank(int rank) {
  check<ArgumentError>(rank >= 0 && rank <= Shape::max_rank, rank, " dimensions; wanted 0 to ",
                       Shape::max_rank);
}

// The scopes of this thread, and the handles that each has noted.
thread_local std::vector<std::vector<const void*>> scopes;

// What a DLManagedTensor of ours stands on.
struct Lent {
  Tensor tensor;
  std::array<int64_t, Shape::max_rank> shape{}, strides{};
  DLManagedTensor managed{};
};

}  // namespace

namespace gossamer::capi {

gsm_tensor* hold(Tensor t) {
  void* const handle = add_object(std::make_shared<Held>(std::move(t)));
  if (!scopes.empty()) scopes.back().push_back(handle);
  return static_cast<gsm_tensor*>(handle);
}

std::shared_lock<std::shared_mutex> reading(const std::shared_ptr<Object>& set) {
  if (!set) return {};
  std::shared_lock lock(set->use, std::try_to_lock);
  check<BusyError>(lock.owns_lock(), "another thread changes the parameters that this belongs to");
  return lock;
}

void check_bytes(const Tensor& t, std::size_t bytes) {
  check<ArgumentError>(bytes == t.bytes(), bytes, " bytes for a tensor ", t.dtype(), " ", t.shape(),
                       ", which has ", t.bytes());
}

DType type_of(gsm_dtype type) {
  return kind([&](const Kind& each) { return each.type == type; }).ours;
}

Shape shape_of(const int64_t* sizes, int rank) {
  check_rank(rank);
  i64 numbers = 1;
  for (int d = 0; d < rank; ++d) {
    check<ArgumentError>(sizes[d] >= 1 && sizes[d] <= ((i64{1} << 40) - 1) / numbers, "dimension ",
                         d, " is ", sizes[d],
                         "; sizes must be at least 1, and their product below 2^40");
    numbers *= sizes[d];
  }
  return Shape::of(sizes, rank);
}

Shape open_shape_of(const int64_t* sizes, int rank) {
  check_rank(rank);
  std::array<int64_t, Shape::max_rank> known{};
  std::replace_copy(sizes, sizes + rank, known.begin(), int64_t{-1}, int64_t{1});
  shape_of(known.data(), rank);
  return Shape::of(sizes, rank);
}

}  // namespace gossamer::capi

gsm_status gsm_scope_begin(void) {
  return guarded([] { scopes.emplace_back(); });
}

gsm_status gsm_scope_end(void) {
  return guarded([] {
    check<ConfigError>(!scopes.empty(),
                       "gsm_scope_end without a gsm_scope_begin in this thread before it");
    const std::vector<const void*> made = std::move(scopes.back());
    scopes.pop_back();
    for (const void* handle : made) remove_object(handle);
  });
}

gsm_status gsm_tensor_keep(gsm_tensor* tensor) {
  return guarded([&] {
    const Shared<Held> t(tensor);
    for (std::vector<const void*>& scope : scopes) std::erase(scope, tensor);
  });
}

gsm_status gsm_tensor_from_blob(void* data, gsm_dtype type, const int64_t* shape, int32_t rank,
                                void (*deleter)(void* user), void* user, gsm_tensor** tensor) {
  return guarded([&] {
    check_given("data or tensor", data, tensor);
    if (rank != 0) check_given("shape", shape);
    const DType ours = type_of(type);
    const Shape sizes = shape_of(shape, rank);
    std::function<void()> release;
    if (deleter) release = [deleter, user] { deleter(user); };
    *tensor = hold(Tensor::wrap(data, sizes, ours, std::move(release)));
  });
}

gsm_status gsm_tensor_data(gsm_tensor* tensor, void** data) {
  return guarded([&] {
    const Reading t(tensor);
    check_given("data", data);
    *data = t->data();
  });
}

gsm_status gsm_tensor_shape(gsm_tensor* tensor, int64_t* shape, int32_t* rank, gsm_dtype* type) {
  return guarded([&] {
    const Reading t(tensor);
    check_given("shape, rank or type", shape, rank, type);
    for (int d = 0; d < t->rank(); ++d) shape[d] = t->shape(d);
    *rank = t->rank();
    *type = kind([&](const Kind& each) { return each.ours == t->dtype(); }).type;
  });
}

gsm_status gsm_tensor_from_dlpack(struct DLManagedTensor* managed, gsm_tensor** tensor) {
  return guarded([&] {
    check_given("managed or tensor", managed, tensor);
    const DLTensor& t = managed->dl_tensor;
    check<ArgumentError>(t.device.device_type == 1,
                         "the tensor is not one of a CPU; copy it there first");
    check<ArgumentError>(t.dtype.lanes == 1, "the numbers of the tensor have ", t.dtype.lanes,
                         " lanes; wanted 1");
    const Kind& k = kind(
        [&](const Kind& each) { return each.code == t.dtype.code && each.bits == t.dtype.bits; });
    check_given("data", t.data);
    if (t.ndim != 0) check_given("shape", t.shape);
    const Shape sizes = shape_of(t.shape, t.ndim);
    if (t.strides) {
      i64 wanted = 1;
      for (int d = t.ndim - 1; d >= 0; wanted *= t.shape[d--])
        check<ArgumentError>(t.shape[d] == 1 || t.strides[d] == wanted,
                             "the tensor is not contiguous; make it so first");
    }
    *tensor =
        hold(Tensor::wrap(static_cast<char*>(t.data) + t.byte_offset, sizes, k.ours, [managed] {
          if (managed->deleter) managed->deleter(managed);
        }));
  });
}

gsm_status gsm_tensor_to_dlpack(gsm_tensor* tensor, struct DLManagedTensor** managed) {
  return guarded([&] {
    const Reading t(tensor);
    check_given("managed", managed);
    auto lent = std::make_unique<Lent>();
    lent->tensor = t->detach();
    const int rank = lent->tensor.rank();
    i64 stride = 1;
    for (int d = rank - 1; d >= 0; --d) {
      const auto at = static_cast<std::size_t>(d);
      lent->shape[at] = lent->tensor.shape(d);
      lent->strides[at] = stride;
      stride *= lent->shape[at];
    }
    const Kind& k = kind([&](const Kind& each) { return each.ours == lent->tensor.dtype(); });
    lent->managed = {{lent->tensor.data(),
                      {1, 0},
                      rank,
                      {k.code, k.bits, 1},
                      lent->shape.data(),
                      lent->strides.data(),
                      0},
                     lent.get(),
                     [](DLManagedTensor* m) { delete static_cast<Lent*>(m->manager_ctx); }};
    *managed = &lent.release()->managed;
  });
}

gsm_status gsm_model_forward_tensor(gsm_model* model, gsm_tensor* images, gsm_tensor** logits) {
  return guarded([&] {
    const Shared<Model> m(model);
    const Reading x(images);
    check_given("logits", logits);
    const DType type = x->dtype();
    check<ArgumentError>(type == DType::u8 || type == DType::f32, "images of type ", type,
                         "; wanted u8, which is normalized, or f32, which is already");
    *logits = hold(m->logits(*x));
  });
}

gsm_status gsm_tensor_free(gsm_tensor* tensor) {
  return guarded([&] { free_object<Held>(tensor); });
}
