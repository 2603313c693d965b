// The table of backends, and which one the CPU uses.
#include "gossamer/core/backend.h"

#include <algorithm>
#include <atomic>

#include "gossamer/core/compute.h"

namespace gossamer {

Backend& cpu_engine();             // cpu/engine.cpp
Backend& cpu_own_engine();         // cpu/engine.cpp
Backend& reference_backend();      // cpu/reference.cpp
Backend& cuda_backend(Device);     // cuda/backend_cuda.cpp
Backend& cuda_emulated_backend();  // cuda/emulated.cpp

namespace {

struct Entry {
  const char* name;
  Backend& (*get)();
};
// The first is the default of the CPU.
constexpr Entry kTable[] = {
    {"cpu", &cpu_engine},
#ifdef GOSSAMER_HAS_ONEDNN
    {"cpu_own", &cpu_own_engine},
#endif
    {"reference", &reference_backend},
    {"cuda_emulated", &cuda_emulated_backend},
};
std::atomic<const Entry*> in_use{&kTable[0]};

const Entry& find(const std::string& name) {
  const auto it = std::ranges::find_if(kTable, [&](const Entry& e) { return name == e.name; });
  if (it != std::end(kTable)) return *it;
  std::string known;
  for (const Entry& e : kTable) known += (known.empty() ? "" : ", ") + std::string(e.name);
  fail<DeviceError>("backend: this build has no \"", name, "\"; it has: ", known);
}

}  // namespace

bool Backend::linear(const Tensor&, const Tensor&, const Tensor&, Activation, Tensor&,
                     const Tensor&) {
  return false;
}
bool Backend::conv_dx_add(const ConvGeometry&, const Tensor&, const Tensor&, Tensor&) {
  return false;
}
i64 Backend::most_logits() const { return 0; }
void Backend::softmax_norms(const Tensor&, const Tensor&, const LossRows&, Tensor&, Tensor&) {
  fail<Error>("softmax_norms: ", name(), " keeps no logits");
}
void Backend::softmax_back(Tensor&, const Tensor&, const LossRows&, const Tensor&, const Tensor&,
                           const Tensor&) {
  fail<Error>("softmax_back: ", name(), " keeps no logits");
}

Backend& backend(Device device) {
  if (!device.is_cpu()) return cuda_backend(device);
  return in_use.load(std::memory_order_relaxed)->get();
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
