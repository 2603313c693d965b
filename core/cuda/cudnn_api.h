// cuDNN's raw backend interface: the library, loaded when first needed, and a descriptor that frees
// itself. Internal to core/cuda/cudnn_*.cpp: the only header that shows cuDNN's types.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <cudnn.h>

namespace gossamer::cudnn {

// The calls that are used here: the raw backend needs no more.
struct Api {
  decltype(&::cudnnGetVersion) version = nullptr;
  decltype(&::cudnnGetErrorString) error_string = nullptr;
  decltype(&::cudnnGetLastErrorString) last_error_string = nullptr;
  decltype(&::cudnnCreate) create = nullptr;
  decltype(&::cudnnDestroy) destroy = nullptr;
  decltype(&::cudnnSetStream) set_stream = nullptr;
  decltype(&::cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&::cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&::cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&::cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&::cudnnBackendFinalize) finalize = nullptr;
  decltype(&::cudnnBackendExecute) execute = nullptr;
};
// DeviceError that says what to install when there is no cuDNN 9.11 or newer
const Api& api();

// DeviceError with `what` and cuDNN's own words unless the status is success.
void ok(cudnnStatus_t status, const std::string& what);

class Descriptor {
 public:
  Descriptor() = default;  // none
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      raw_ = std::exchange(other.raw_, nullptr);
    }
    return *this;
  }
  cudnnBackendDescriptor_t raw() const { return raw_; }
  explicit operator bool() const { return raw_ != nullptr; }

  void set(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, std::int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t, std::int64_t);
  void set(cudnnBackendAttributeName_t, std::initializer_list<std::int64_t>);
  void set(cudnnBackendAttributeName_t, float);
  void set(cudnnBackendAttributeName_t, cudnnDataType_t);
  void set(cudnnBackendAttributeName_t, const Descriptor&);
  void set_text(cudnnBackendAttributeName_t, const std::string& json);
  void finalize(const std::string& what);
  bool try_finalize();  // false: not supported here

  std::int64_t get_int(cudnnBackendAttributeName_t) const;
  std::string get_text(cudnnBackendAttributeName_t) const;
  // Up to `limit` descriptors of the given type; those that cuDNN fills.
  std::vector<Descriptor> get_descriptors(cudnnBackendAttributeName_t, cudnnBackendDescriptorType_t,
                                          std::int64_t limit) const;

 private:
  void reset();
  cudnnBackendDescriptor_t raw_ = nullptr;
};

}  // namespace gossamer::cudnn
