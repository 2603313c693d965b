// Loading cuDNN and talking to its descriptors.
#ifdef GOSSAMER_HAS_CUDA
#include "gossamer/core/cuda/cudnn_api.h"

#include "gossamer/core/dynamic_library.h"
#include "gossamer/core/error.h"

namespace gossamer::cudnn {
namespace {

constexpr std::size_t kOldest = 91100;  // first with planning for a device that is not there

Api load() {
  DynamicLibrary library{"libcudnn.so.9"};
  check<DeviceError>(library.found(), "cuDNN: libcudnn.so.9 is not found (", library.why(),
                     "); install it (pip install nvidia-cudnn-cu", CUDART_VERSION / 1000,
                     ", or NVIDIA's package cudnn9) and put its folder into LD_LIBRARY_PATH");
  Api api;
  library.need(api.version, "cudnnGetVersion");
  library.need(api.error_string, "cudnnGetErrorString");
  library.need(api.last_error_string, "cudnnGetLastErrorString");
  library.need(api.create, "cudnnCreate");
  library.need(api.destroy, "cudnnDestroy");
  library.need(api.set_stream, "cudnnSetStream");
  library.need(api.create_descriptor, "cudnnBackendCreateDescriptor");
  library.need(api.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  library.need(api.set_attribute, "cudnnBackendSetAttribute");
  library.need(api.get_attribute, "cudnnBackendGetAttribute");
  library.need(api.finalize, "cudnnBackendFinalize");
  library.need(api.execute, "cudnnBackendExecute");
  check<DeviceError>(library.missing().empty(), "cuDNN: ", library.path(), " has no ",
                     library.missing(), "; version 9.11 or newer is needed");
  check<DeviceError>(api.version() >= kOldest, "cuDNN: ", library.path(), " is version ",
                     api.version(), "; ", kOldest, " (9.11) or newer is needed");
  return api;
}

}  // namespace

const Api& api() {
  static const Api loaded = load();
  return loaded;
}

void ok(cudnnStatus_t status, const std::string& what) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  char detail[1024] = "";
  api().last_error_string(detail, sizeof detail);
  fail<DeviceError>("cuDNN ", api().version(), ": ", what, ": ", api().error_string(status),
                    detail[0] ? ": " : "", detail);
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  ok(api().create_descriptor(type, &raw_),
     "cudnnBackendCreateDescriptor of type " + std::to_string(type));
}
void Descriptor::reset() {
  if (raw_) api().destroy_descriptor(raw_);  // a failure here changes nothing
  raw_ = nullptr;
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::int64_t count, const void* values) {
  ok(api().set_attribute(raw_, name, type, count, values),
     "cudnnBackendSetAttribute " + std::to_string(name));
}
void Descriptor::set(cudnnBackendAttributeName_t name, std::int64_t value) {
  set(name, CUDNN_TYPE_INT64, 1, &value);
}
void Descriptor::set(cudnnBackendAttributeName_t name, std::initializer_list<std::int64_t> values) {
  set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.begin());
}
void Descriptor::set(cudnnBackendAttributeName_t name, float value) {
  set(name, CUDNN_TYPE_FLOAT, 1, &value);
}
void Descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}
void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  const cudnnBackendDescriptor_t raw = value.raw();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
}
void Descriptor::set_text(cudnnBackendAttributeName_t name, const std::string& json) {
  set(name, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(json.size()) + 1, json.c_str());
}

void Descriptor::finalize(const std::string& what) { ok(api().finalize(raw_), what); }
bool Descriptor::try_finalize() { return api().finalize(raw_) == CUDNN_STATUS_SUCCESS; }

std::int64_t Descriptor::get_int(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0, count = 0;
  ok(api().get_attribute(raw_, name, CUDNN_TYPE_INT64, 1, &count, &value),
     "cudnnBackendGetAttribute " + std::to_string(name));
  return value;
}

std::string Descriptor::get_text(cudnnBackendAttributeName_t name) const {
  std::int64_t size = 0;
  ok(api().get_attribute(raw_, name, CUDNN_TYPE_CHAR, 0, &size, nullptr),
     "cudnnBackendGetAttribute " + std::to_string(name));
  std::string text(static_cast<std::size_t>(size), '\0');
  ok(api().get_attribute(raw_, name, CUDNN_TYPE_CHAR, size, &size, text.data()),
     "cudnnBackendGetAttribute " + std::to_string(name));
  return text.c_str();  // up to the closing zero
}

std::vector<Descriptor> Descriptor::get_descriptors(cudnnBackendAttributeName_t name,
                                                    cudnnBackendDescriptorType_t type,
                                                    std::int64_t limit) const {
  std::vector<Descriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < limit; ++i) raw.push_back(found.emplace_back(type).raw());
  std::int64_t count = 0;
  ok(api().get_attribute(raw_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, limit, &count, raw.data()),
     "cudnnBackendGetAttribute " + std::to_string(name));
  found.resize(static_cast<std::size_t>(count < limit ? count : limit));
  return found;
}

}  // namespace gossamer::cudnn
#endif
