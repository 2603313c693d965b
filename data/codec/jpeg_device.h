// Decoding JPEG files elsewhere than on the CPU: by the hardware decoder of a GPU. Its pixels
// differ by a few levels from libjpeg's, so it is only used where it is asked for, and never for
// evaluation.
#pragma once

#include <memory>
#include <string>

#include "gossamer/core/device.h"
#include "gossamer/data/codec/codec.h"

namespace gossamer::data {

class JpegDevice {
 public:
  virtual ~JpegDevice() = default;
  // As decode_rows() of codec.h; thread-safe. False: not a file for it (no baseline JPEG in three
  // colours), or a damaged one: the CPU is to decode it, and to say what is wrong. It may have
  // asked `pick` by then, but not given rows. DeviceError: the device failed.
  virtual bool decode_rows(std::span<const std::byte>, PickBox, RowSink) = 0;
  virtual std::string name() const = 0;  // "nvJPEG 13.3"
};

// The hardware decoder of an A100, H100, H200 …, through nvJPEG, which is opened here. DeviceError:
// no GPU, no such decoder in it, no library, or a build without nvjpeg.h; the text says what to do.
std::shared_ptr<JpegDevice> open_nvjpeg(Device);

}  // namespace gossamer::data
