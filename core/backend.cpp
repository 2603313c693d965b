// The table of backends, and which one the CPU uses.
#include "gossamer/core/backend.h"

#include <algorithm>
#include <atomic>

namespace gossamer {

Backend& reference_backend();   // backend_reference.cpp
Backend& passes_backend();      // backend_passes.cpp
Backend& cuda_backend(Device);  // backend_cuda.cpp
#ifdef GOSSAMER_HAS_ONEDNN
Backend& onednn_backend();  // backend_onednn.cpp
#endif

namespace {

struct Entry {
  const char* name;
  Backend& (*get)();
};
// The first is the default of the CPU.
constexpr Entry kTable[] = {
#ifdef GOSSAMER_HAS_ONEDNN
    {"onednn", &onednn_backend},
#endif
    {"reference", &reference_backend},
    {"passes", &passes_backend},
};
const Entry& kPasses = *(std::end(kTable) - 1);
std::atomic<const Entry*> in_use{&kTable[0]};

const Entry& find(const std::string& name) {
  const auto it = std::ranges::find_if(kTable, [&](const Entry& e) { return name == e.name; });
  if (it != std::end(kTable)) return *it;
  std::string known;
  for (const Entry& e : kTable) known += (known.empty() ? "" : ", ") + std::string(e.name);
  fail<DeviceError>("backend: this build has no \"", name, "\"; it has: ", known);
}

[[noreturn]] void no_batch_norm(const Backend& b) {
  fail<DeviceError>(
      "backend \"", b.name(),
      "\": batch norm is made of passes there (fused.h), not by a call of the backend");
}

}  // namespace

bool Backend::conv_dx_add(const ConvGeometry&, const Tensor&, const Tensor&, Tensor&) {
  return false;
}
void Backend::batch_norm_train(const Tensor&, const Tensor*, const Tensor&, const Tensor&, float,
                               bool, Tensor&, Tensor&, Tensor&) {
  no_batch_norm(*this);
}
void Backend::batch_norm_apply(const Tensor&, const Tensor*, const Tensor&, const Tensor&, bool,
                               const Tensor&, const Tensor&, Tensor&) {
  no_batch_norm(*this);
}
void Backend::batch_norm_back(const Tensor&, const Tensor&, const Tensor*, const Tensor&,
                              const Tensor&, const Tensor&, bool, Tensor&, Tensor&, Tensor&,
                              Tensor*) {
  no_batch_norm(*this);
}

Backend& backend(Device device) {
  if (!device.is_cpu()) return cuda_backend(device);
  return in_use.load(std::memory_order_relaxed)->get();
}
bool by_passes(Device device) {
  return !device.is_cpu() || in_use.load(std::memory_order_relaxed) == &kPasses;
}
Backend& backend(const std::string& name) { return find(name).get(); }
void use_cpu_backend(const std::string& name) {
  in_use.store(&find(name), std::memory_order_relaxed);
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Entry& e : kTable) names.emplace_back(e.name);
  return names;
}

}  // namespace gossamer
