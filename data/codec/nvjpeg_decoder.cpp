// See jpeg_device.h and nvjpeg_decoder.h. Each image is a batch of one: the hardware decoder takes
// batches only, and what keeps it busy is that several threads decode at once.
#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/data/codec/jpeg_device.h"

#ifdef GOSSAMER_HAS_NVJPEG
#include <algorithm>
#include <cstring>
#include <optional>

#include "gossamer/core/dynamic_library.h"
#include "gossamer/core/memory.h"
#include "gossamer/data/codec/nvjpeg_decoder.h"

namespace gossamer::data {
namespace {

constexpr const char* kInstead = "; or decode on the CPU: data.decoder=cpu";

// True: the file is not for it. Anything else that is no success is the device's failure.
bool is_the_file(nvjpegStatus_t status) {
  return status == NVJPEG_STATUS_BAD_JPEG || status == NVJPEG_STATUS_JPEG_NOT_SUPPORTED ||
         status == NVJPEG_STATUS_INCOMPLETE_BITSTREAM ||
         status == NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED;
}

bool succeeded(nvjpegStatus_t status, const char* call) {
  if (status == NVJPEG_STATUS_SUCCESS) return true;
  if (is_the_file(status)) return false;
  fail<DeviceError>("nvJPEG: ", call, " failed with status ", static_cast<int>(status), kInstead);
}

// A file that was cut off ends without an end marker; decoders of GPUs fill what is missing with
// gray.
bool has_end(std::span<const std::byte> bytes) {
  const std::size_t look = std::min<std::size_t>(bytes.size(), 4096);
  for (std::size_t at = bytes.size(); at >= 2 && at > bytes.size() - look; --at)
    if (bytes[at - 2] == std::byte{0xFF} && bytes[at - 1] == std::byte{0xD9}) return true;
  return false;
}

void grow(std::shared_ptr<Block>& block, std::size_t& has, std::size_t wanted,
          const auto& allocate_bytes) {
  if (has >= wanted) return;
  // first, so that both are not held at once
  block.reset();
  has = 0;
  block = allocate_bytes(wanted);
  has = wanted;
}

}  // namespace

NvjpegCalls load_nvjpeg() {
  DynamicLibrary library{"libnvjpeg.so.13", "libnvjpeg.so.12"};
  check<DeviceError>(library.found(), "nvJPEG: libnvjpeg.so.13 is not found (", library.why(),
                     "); install it (it comes with the CUDA toolkit; pip install nvidia-nvjpeg) "
                     "and put its folder into LD_LIBRARY_PATH",
                     kInstead);
  NvjpegCalls calls;
  library.need(calls.property, "nvjpegGetProperty");
  library.need(calls.create, "nvjpegCreateEx");
  library.need(calls.destroy, "nvjpegDestroy");
  library.need(calls.create_state, "nvjpegJpegStateCreate");
  library.need(calls.destroy_state, "nvjpegJpegStateDestroy");
  library.need(calls.info, "nvjpegGetImageInfo");
  library.need(calls.begin_batch, "nvjpegDecodeBatchedInitialize");
  library.need(calls.decode_batch, "nvjpegDecodeBatched");
  check<DeviceError>(library.missing().empty(), "nvJPEG: ", library.path(), " has no ",
                     library.missing(), "; install a newer one", kInstead);
  return calls;
}

NvjpegDecoder::NvjpegDecoder(NvjpegCalls calls, Device device) : calls_(calls), device_(device) {
  std::optional<cuda::UseDevice> use;
  if (!device.is_cpu()) use.emplace(device);
  const nvjpegStatus_t status =
      calls_.create(NVJPEG_BACKEND_HARDWARE, nullptr, nullptr, NVJPEG_FLAGS_DEFAULT, &handle_);
  check<DeviceError>(
      status != NVJPEG_STATUS_ARCH_MISMATCH, "nvJPEG: ", device,
      " has no hardware decoder for JPEG (A30, A100, H100, H200 have one); ",
      "its other ways leave the Huffman decoding, which is most of the work, to the CPU", kInstead);
  check<DeviceError>(status == NVJPEG_STATUS_SUCCESS, "nvJPEG: nvjpegCreateEx on ", device,
                     " failed with status ", static_cast<int>(status), kInstead);
}

NvjpegDecoder::~NvjpegDecoder() {
  for (const auto& lane : free_) calls_.destroy_state(lane->state);
  calls_.destroy(handle_);
}

std::string NvjpegDecoder::name() const {
  int major = 0, minor = 0;
  calls_.property(MAJOR_VERSION, &major);
  calls_.property(MINOR_VERSION, &minor);
  return "nvJPEG " + std::to_string(major) + "." + std::to_string(minor);
}

std::unique_ptr<NvjpegDecoder::Lane> NvjpegDecoder::take() {
  {
    const std::scoped_lock lock(mutex_);
    if (!free_.empty()) {
      auto lane = std::move(free_.back());
      free_.pop_back();
      return lane;
    }
  }
  auto lane = std::make_unique<Lane>();
  if (!device_.is_cpu()) lane->stream = cuda::Stream(device_);
  check<DeviceError>(calls_.create_state(handle_, &lane->state) == NVJPEG_STATUS_SUCCESS,
                     "nvJPEG: nvjpegJpegStateCreate failed on ", device_, kInstead);
  return lane;
}

bool NvjpegDecoder::decode_rows(std::span<const std::byte> bytes, PickBox pick, RowSink sink) {
  std::optional<cuda::UseDevice> use;
  if (!device_.is_cpu()) use.emplace(device_);
  std::unique_ptr<Lane> lane = take();
  // Given back whatever happens: a state is begun anew with each image.
  struct Return {
    NvjpegDecoder& owner;
    std::unique_ptr<Lane>& lane;
    ~Return() {
      const std::scoped_lock lock(owner.mutex_);
      owner.free_.push_back(std::move(lane));
    }
  } const give_back{*this, lane};
  return decode(*lane, bytes, pick, sink);
}

bool NvjpegDecoder::decode(Lane& lane, std::span<const std::byte> bytes, PickBox pick,
                           RowSink sink) const {
  if (!has_end(bytes)) return false;
  const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  int components = 0, widths[NVJPEG_MAX_COMPONENT] = {}, heights[NVJPEG_MAX_COMPONENT] = {};
  nvjpegChromaSubsampling_t chroma = NVJPEG_CSS_UNKNOWN;
  if (!succeeded(calls_.info(handle_, data, bytes.size(), &components, &chroma, widths, heights),
                 "nvjpegGetImageInfo"))
    return false;
  const bool known = chroma == NVJPEG_CSS_444 || chroma == NVJPEG_CSS_422 ||
                     chroma == NVJPEG_CSS_420 || chroma == NVJPEG_CSS_440;
  const ImageSize size{widths[0], heights[0]};
  if (components != 3 || !known || size.width < 1 || size.height < 1 || size.width > kMaxSide ||
      size.height > kMaxSide || i64{size.width} * size.height * 3 > kMaxMemory)
    return false;
  const Box box = pick(size);
  check_box(box, size, "nvJPEG");

  const std::size_t row = static_cast<std::size_t>(size.width) * 3,
                    rows_bytes = row * static_cast<std::size_t>(box.height);
  grow(lane.there, lane.there_bytes, row * static_cast<std::size_t>(size.height),
       [&](std::size_t n) {
         if (device_.is_cpu()) return allocate(n);
         // the block belongs to the stream that is current
         const cuda::UseStream on(lane.stream);
         return allocate(n, device_);
       });
  grow(lane.here, lane.here_bytes, rows_bytes,
       [](std::size_t n) { return cuda::allocate_pinned(n); });
  auto* const there = static_cast<unsigned char*>(lane.there->data);
  auto* const here = static_cast<std::uint8_t*>(lane.here->data);

  nvjpegImage_t out{};
  out.channel[0] = there;
  out.pitch[0] = row;
  const std::size_t length = bytes.size();
  const auto stream = device_.is_cpu() ? nullptr : static_cast<cudaStream_t>(lane.stream.handle());
  if (!succeeded(calls_.begin_batch(handle_, lane.state, 1, 1, NVJPEG_OUTPUT_RGBI),
                 "nvjpegDecodeBatchedInitialize") ||
      !succeeded(calls_.decode_batch(handle_, lane.state, &data, &length, &out, stream),
                 "nvjpegDecodeBatched"))
    return false;
  const unsigned char* const first = there + row * static_cast<std::size_t>(box.y);
  if (device_.is_cpu()) {
    std::memcpy(here, first, rows_bytes);
  } else {
    cuda::copy(here, first, rows_bytes, lane.stream);
    lane.stream.synchronize();
  }
  sink({here + 3 * static_cast<std::size_t>(box.x), row, box.height, here + rows_bytes});
  return true;
}

std::shared_ptr<JpegDevice> open_nvjpeg(Device device) {
  check<DeviceError>(cuda::device_count() > 0, "nvJPEG: ", cuda::why_none(), kInstead);
  return std::make_shared<NvjpegDecoder>(load_nvjpeg(), device);
}

}  // namespace gossamer::data

#else

namespace gossamer::data {

std::shared_ptr<JpegDevice> open_nvjpeg(Device) {
  fail<DeviceError>("nvJPEG: this build has no ",
                    cuda::built() ? "nvJPEG (nvjpeg.h of the CUDA toolkit was not found)" : "CUDA",
                    "; build it with that, or decode on the CPU: data.decoder=cpu");
}

}  // namespace gossamer::data

#endif
