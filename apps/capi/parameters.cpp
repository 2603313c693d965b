// The parameters of a trainer, one by one, and its state.
#include <algorithm>
#include <span>

#include "gossamer/apps/capi/bytes.h"
#include "gossamer/apps/capi/trainer.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/nn/weights.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

const Parameter& parameter_of(const Trainer& t, i64 index) {
  const std::vector<Parameter>& all = t.parameters();
  check_index("parameter", index, all.size());
  return all[static_cast<std::size_t>(index)];
}

void check_count(const Parameter& p, i64 n) {
  check<ArgumentError>(n == p.shape.numel(), p.name, " has ", p.shape.numel(),
                       " numbers, and there is room for ", n);
}

}  // namespace

gsm_status gsm_bytes_data(gsm_bytes* bytes, const void** data, size_t* size) {
  return guarded([&] {
    const Shared<Bytes> b(bytes);
    check_given("data or size", data, size);
    *data = b->bytes.data();
    *size = b->bytes.size();
  });
}

gsm_status gsm_bytes_free(gsm_bytes* bytes) {
  return guarded([&] { free_object<Bytes>(bytes); });
}

gsm_status gsm_trainer_parameter_count(gsm_trainer* trainer, int64_t* count) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    check_given("count", count);
    *count = static_cast<i64>(t->parameters().size());
  });
}

gsm_status gsm_trainer_parameter_info(gsm_trainer* trainer, int64_t index,
                                      gsm_parameter_info_t* info) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    const Parameter& p = parameter_of(*t.object(), index);
    gsm_parameter_info_t is{};
    is.name = p.name.c_str();
    is.rank = p.shape.rank();
    for (int d = 0; d < is.rank; ++d) is.shape[d] = p.shape[d];
    is.kind = p.kind;
    is.numbers = p.shape.numel();
    give(is, info, "gsm_parameter_info_t");
  });
}

gsm_status gsm_trainer_parameter_find(gsm_trainer* trainer, const char* name, int64_t* index) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    check_given("name or index", name, index);
    const auto at = std::ranges::find(t->parameters(), name, &Parameter::name);
    check<ArgumentError>(at != t->parameters().end(), "there is no parameter \"", printable(name),
                         "\"; gsm_trainer_parameter_info names them");
    *index = at - t->parameters().begin();
  });
}

gsm_status gsm_trainer_parameter_read(gsm_trainer* trainer, int64_t index, gsm_part part, float* to,
                                      int64_t n) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("to", to);
    const Parameter& p = parameter_of(*t.object(), index);
    check_count(p, n);
    t->read([&] {
      const Tensor values = t->window(p, part, false).to(Device::cpu());
      std::ranges::copy(values.span<float>(), to);
    });
  });
}

gsm_status gsm_trainer_parameter_write(gsm_trainer* trainer, int64_t index, gsm_part part,
                                       const float* from, int64_t n) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("from", from);
    const Parameter& p = parameter_of(*t.object(), index);
    check_count(p, n);
    check_finite(p.name.c_str(), from, n);
    if (part != GSM_GRADIENT) t->check_own();
    t->window(p, part, true).copy_from(Tensor::wrap(const_cast<float*>(from), {n}, DType::f32));
    t->wrote(part);
  });
}

gsm_status gsm_trainer_gradient_norm(gsm_trainer* trainer, double* norm) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("norm", norm);
    *norm = t->gradient_norm();
  });
}

gsm_status gsm_trainer_lock(gsm_trainer* trainer) {
  return guarded([&] { Unlocked(trainer)->lock(); });
}

gsm_status gsm_trainer_unlock(gsm_trainer* trainer) {
  return guarded([&] { Exclusive<Trainer>(trainer)->unlock(); });
}

gsm_status gsm_trainer_parameter_data(gsm_trainer* trainer, int64_t index, gsm_part part,
                                      float** data) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    check_given("data", data);
    check<ConfigError>(t->locked(),
                       "exchanges may write these numbers; call gsm_trainer_lock first");
    const Tensor window = t->window(parameter_of(*t.object(), index), part, true);
    check<DeviceError>(window.device().is_cpu(),
                       "these numbers lie on a GPU; use gsm_trainer_parameter_read");
    *data = window.as<float>();
  });
}

gsm_status gsm_trainer_init_fit(gsm_trainer* trainer, int64_t* loaded, int64_t* left) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    check_given("loaded or left", loaded, left);
    *loaded = static_cast<i64>(t->fit().fitting.size());
    *left = static_cast<i64>(t->left().size());
  });
}

gsm_status gsm_trainer_init_left(gsm_trainer* trainer, int64_t index, const char** what) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    check_given("what", what);
    check_index("unfit tensor", index, t->left().size());
    *what = t->left()[static_cast<std::size_t>(index)].c_str();
  });
}

// --- files

gsm_status gsm_trainer_save(gsm_trainer* trainer, const char* path, const char* const* names) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_path(path);
    t->check_own();
    const Trainer::File file = t->file(names);
    write_safetensors(path, file.tensors, file.metadata);
  });
}

gsm_status gsm_trainer_save_memory(gsm_trainer* trainer, const char* const* names,
                                   gsm_bytes** bytes) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("bytes", bytes);
    t->check_own();
    const Trainer::File file = t->file(names);
    *bytes = give_bytes(safetensors_bytes(file.tensors, file.metadata, "gsm_trainer_save_memory"));
  });
}

gsm_status gsm_trainer_save_onnx(gsm_trainer* trainer, const char* path, const char* const* names,
                                 const gsm_onnx_options* options) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_path(path);
    t->check_own();
    write_file(path, t->onnx(names, options_of(options, "gsm_onnx_options")));
  });
}

gsm_status gsm_trainer_save_onnx_memory(gsm_trainer* trainer, const char* const* names,
                                        const gsm_onnx_options* options, gsm_bytes** bytes) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("bytes", bytes);
    t->check_own();
    *bytes = give_bytes(t->onnx(names, options_of(options, "gsm_onnx_options")));
  });
}

gsm_status gsm_trainer_save_adapter(gsm_trainer* trainer, const char* folder, const char* base) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_path(folder);
    t->check_own();
    t->save_adapter(folder, base);
  });
}

gsm_status gsm_trainer_load(gsm_trainer* trainer, const char* path) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_path(path);
    t->check_own();
    t->load(nn::read_weights(path));
  });
}

gsm_status gsm_trainer_state_save(gsm_trainer* trainer, const char* path) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_path(path);
    const nn::TrainSnapshot state = t->state();
    write_safetensors(path, state.tensors, state.header);
  });
}

gsm_status gsm_trainer_state_memory(gsm_trainer* trainer, gsm_bytes** bytes) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("bytes", bytes);
    const nn::TrainSnapshot state = t->state();
    *bytes = give_bytes(safetensors_bytes(state.tensors, state.header, "gsm_trainer_state_memory"));
  });
}

gsm_status gsm_trainer_state_load(gsm_trainer* trainer, const char* path) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_path(path);
    t->check_own();
    t->restore(read_safetensors(path), path);
  });
}

gsm_status gsm_trainer_state_restore(gsm_trainer* trainer, const void* bytes, size_t size) {
  return guarded([&] {
    const Unlocked t(trainer);
    const auto given = given_bytes(bytes, size);
    t->check_own();
    t->restore(parse_safetensors(given, kGivenBytes), kGivenBytes);
  });
}
