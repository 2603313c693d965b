// The decoder behind open_nvjpeg(). Internal: it shows the vendor's types, and only a build with
// nvjpeg.h has it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nvjpeg.h>

#include "gossamer/core/cuda.h"
#include "gossamer/data/codec/jpeg_device.h"

namespace gossamer::data {

struct NvjpegCalls {
  decltype(&::nvjpegGetProperty) property = nullptr;
  decltype(&::nvjpegCreateEx) create = nullptr;
  decltype(&::nvjpegDestroy) destroy = nullptr;
  decltype(&::nvjpegJpegStateCreate) create_state = nullptr;
  decltype(&::nvjpegJpegStateDestroy) destroy_state = nullptr;
  decltype(&::nvjpegGetImageInfo) info = nullptr;
  decltype(&::nvjpegDecodeBatchedInitialize) begin_batch = nullptr;
  decltype(&::nvjpegDecodeBatched) decode_batch = nullptr;
};
NvjpegCalls load_nvjpeg();  // DeviceError: not found, or too old

class NvjpegDecoder final : public JpegDevice {
 public:
  // A device that is the CPU means that the calls write to host memory: for tests.
  NvjpegDecoder(NvjpegCalls, Device);
  ~NvjpegDecoder() override;
  bool decode_rows(std::span<const std::byte>, PickBox, RowSink) override;
  std::string name() const override;

 private:
  // What one image needs. Lanes are taken and given back, so there are as many as threads decode at
  // once.
  struct Lane {
    nvjpegJpegState_t state = nullptr;
    cuda::Stream stream;
    // the whole picture; its wanted rows in host memory
    std::shared_ptr<Block> there, here;
    std::size_t there_bytes = 0, here_bytes = 0;
  };
  std::unique_ptr<Lane> take();
  bool decode(Lane&, std::span<const std::byte>, PickBox, RowSink) const;

  NvjpegCalls calls_;
  Device device_;
  nvjpegHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> free_;
};

}  // namespace gossamer::data
