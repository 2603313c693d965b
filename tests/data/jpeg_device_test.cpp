// Decoding on a device: what it can't do the CPU does, with the same crop; nvJPEG's calls against a
// table of functions that stand for it.
#include "gossamer/data/codec/jpeg_device.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/core/cuda.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/data/loader/loader.h"
#ifdef GOSSAMER_HAS_NVJPEG
#include "gossamer/data/codec/nvjpeg_decoder.h"
#endif

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Decodes as the CPU does, or gives up before or after it has asked for the box.
struct FakeDevice final : JpegDevice {
  enum class Does { decode, give_up, give_up_late } does = Does::decode;
  std::atomic<int> asked = 0;
  bool decode_rows(std::span<const std::byte> bytes, PickBox pick, RowSink sink) override {
    ++asked;
    if (does == Does::give_up) return false;
    Image whole = decode(bytes, "device");
    const Box box = pick({whole.width, whole.height});
    if (does == Does::give_up_late) return false;
    // so that one sees who decoded
    for (std::uint8_t& p : whole.pixels) p = static_cast<std::uint8_t>(255 - p);
    const std::uint8_t* const first =
        whole.pixels.data() + (static_cast<std::size_t>(box.y) * whole.width + box.x) * 3;
    sink({first, static_cast<std::size_t>(whole.width) * 3, box.height,
          whole.pixels.data() + whole.pixels.size()});
    return true;
  }
  std::string name() const override { return "fake"; }
};

std::vector<std::uint8_t> prepared(const Bytes& jpeg, std::shared_ptr<JpegDevice> device) {
  std::vector<std::uint8_t> out(48 * 48 * 3);
  Scratch scratch;
  Rng rng(7);
  const Recipe recipe{
      .augment = Augment::resized_crop_flip, .size = 48, .resize = 48, .jpegs = std::move(device)};
  prepare(jpeg, {}, "a.jpg", recipe, rng, scratch, [&] { return out.data(); });
  return out;
}

TEST(JpegDevice, DecodesOrLeavesTheSameCropToTheCpu) {
  const Bytes jpeg = encode_jpeg(pattern(160, 120));
  const auto device = std::make_shared<FakeDevice>();
  const auto by_cpu = prepared(jpeg, nullptr), by_device = prepared(jpeg, device);
  int differ = 0;
  // rounding goes the other way
  for (std::size_t i = 0; i < by_cpu.size(); ++i)
    differ += std::abs(255 - by_device[i] - by_cpu[i]) > 1;
  EXPECT_EQ(differ, 0);
  for (const auto does : {FakeDevice::Does::give_up, FakeDevice::Does::give_up_late}) {
    device->does = does;
    EXPECT_EQ(prepared(jpeg, device), by_cpu);  // the crop is drawn once
  }
  EXPECT_EQ(device->asked, 3);
}

TEST(JpegDevice, IsUsedByALoaderThatIsGivenOneAndDamageIsStillNamed) {
  const TempFolder folder;
  const Bytes whole = encode_jpeg(pattern(60, 50));
  Bytes cut = whole;
  cut.resize(whole.size() / 2);
  for (int i = 0; i < 5; ++i)
    folder.write("set/cat/" + std::to_string(i) + ".jpg", i == 2 ? cut : whole);
  const auto device = std::make_shared<FakeDevice>();
  device->does = FakeDevice::Does::give_up;
  Loader loader(open({folder / "set"}), {.batch = 5, .size = 32, .threads = 2, .jpegs = device});
  EXPECT_TRUE(loader.next().images.defined());
  EXPECT_GE(device->asked, 5);
  EXPECT_THAT(loader.damaged(), testing::ElementsAre(HasSubstr("cat/2.jpg: damaged JPEG")));
}

TEST(JpegDevice, WithoutAGpuItSaysWhatToDo) {
  if (cuda::device_count() > 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_THAT(error_of<DeviceError>([] { open_nvjpeg(Device::cuda()); }),
              AllOf(HasSubstr("nvJPEG: "), HasSubstr("data.decoder=cpu")));
}

#ifdef GOSSAMER_HAS_NVJPEG
// Stands for the library: what it was asked, and what it answers.
struct Fake {
  nvjpegStatus_t create = NVJPEG_STATUS_SUCCESS, info = NVJPEG_STATUS_SUCCESS,
                 decode = NVJPEG_STATUS_SUCCESS;
  int components = 3, width = 40, height = 30, states = 0, decoded = 0;
  nvjpegChromaSubsampling_t chroma = NVJPEG_CSS_420;
} fake;

NvjpegCalls fake_calls() {
  fake = {};
  NvjpegCalls calls;
  calls.property = [](libraryPropertyType type, int* value) {
    return *value = type == MAJOR_VERSION ? 13 : 3, NVJPEG_STATUS_SUCCESS;
  };
  calls.create = [](nvjpegBackend_t backend, nvjpegDevAllocator_t*, nvjpegPinnedAllocator_t*,
                    unsigned, nvjpegHandle_t*) {
    EXPECT_EQ(backend, NVJPEG_BACKEND_HARDWARE);
    return fake.create;
  };
  calls.destroy = [](nvjpegHandle_t) { return NVJPEG_STATUS_SUCCESS; };
  calls.create_state = [](nvjpegHandle_t, nvjpegJpegState_t*) {
    return ++fake.states, NVJPEG_STATUS_SUCCESS;
  };
  calls.destroy_state = [](nvjpegJpegState_t) { return --fake.states, NVJPEG_STATUS_SUCCESS; };
  calls.info = [](nvjpegHandle_t, const unsigned char*, std::size_t, int* components,
                  nvjpegChromaSubsampling_t* chroma, int* widths, int* heights) {
    *components = fake.components, *chroma = fake.chroma, widths[0] = fake.width,
    heights[0] = fake.height;
    return fake.info;
  };
  calls.begin_batch = [](nvjpegHandle_t, nvjpegJpegState_t, int batch, int,
                         nvjpegOutputFormat_t format) {
    EXPECT_EQ(batch, 1);
    EXPECT_EQ(format, NVJPEG_OUTPUT_RGBI);
    return NVJPEG_STATUS_SUCCESS;
  };
  calls.decode_batch = [](nvjpegHandle_t, nvjpegJpegState_t, const unsigned char* const*,
                          const std::size_t*, nvjpegImage_t* out, cudaStream_t) {
    for (int y = 0; y < fake.height; ++y)
      for (int x = 0; x < 3 * fake.width; ++x)
        out->channel[0][static_cast<std::size_t>(y) * out->pitch[0] + x] =
            static_cast<unsigned char>(y * 7 + x);
    return ++fake.decoded, fake.decode;
  };
  return calls;
}

const Bytes kWhole{std::byte{0xFF}, std::byte{0xD8}, std::byte{0},
                   std::byte{0xFF}, std::byte{0xD9}, std::byte{0}};
bool refused(NvjpegDecoder& decoder, const Bytes& bytes = kWhole) {
  return !decoder.decode_rows(
      bytes,
      [](ImageSize) {
        return Box{0, 0, 1, 1};
      },
      [](const Rows&) { ADD_FAILURE() << "rows of a refused file"; });
}

TEST(Nvjpeg, GivesTheRowsOfTheBox) {
  {
    NvjpegDecoder decoder(fake_calls(), Device::cpu());
    EXPECT_EQ(decoder.name(), "nvJPEG 13.3");
    for (int again = 0; again < 3; ++again) {
      const Box box{5, 7, 20, 11};
      int rows = 0;
      EXPECT_TRUE(decoder.decode_rows(
          kWhole,
          [&](ImageSize size) {
            EXPECT_EQ(size.width, 40);
            EXPECT_EQ(size.height, 30);
            return box;
          },
          [&](const Rows& given) {
            rows += given.count;
            for (int y = 0; y < given.count; ++y)
              for (int x = 0; x < 3 * box.width; ++x)
                ASSERT_EQ(given.first[static_cast<std::size_t>(y) * given.stride + x],
                          static_cast<std::uint8_t>((box.y + y) * 7 + 3 * box.x + x));
            EXPECT_LE(given.first + static_cast<std::size_t>(given.count - 1) * given.stride +
                          3 * box.width,
                      given.end);
          }));
      EXPECT_EQ(rows, 11);
    }
    EXPECT_EQ(fake.states, 1);  // used again
  }
  EXPECT_EQ(fake.states, 0);
}

TEST(Nvjpeg, LeavesToTheCpuWhatItCantDoAndWhatIsDamaged) {
  NvjpegDecoder decoder(fake_calls(), Device::cpu());
  EXPECT_TRUE(refused(decoder, {std::byte{0xFF}, std::byte{0xD8}, std::byte{0}}));  // no end
  EXPECT_TRUE(refused(decoder, {}));
  for (const nvjpegStatus_t status : {NVJPEG_STATUS_BAD_JPEG, NVJPEG_STATUS_JPEG_NOT_SUPPORTED,
                                      NVJPEG_STATUS_INCOMPLETE_BITSTREAM}) {
    fake.info = status;
    EXPECT_TRUE(refused(decoder));
    fake.info = NVJPEG_STATUS_SUCCESS;
    fake.decode = status;
    EXPECT_TRUE(refused(decoder));
    fake.decode = NVJPEG_STATUS_SUCCESS;
  }
  fake.decoded = 0;
  for (const int components : {1, 2, 4}) {
    fake.components = components;
    EXPECT_TRUE(refused(decoder));
  }
  fake.components = 3;
  fake.chroma = NVJPEG_CSS_411;
  EXPECT_TRUE(refused(decoder));
  fake.chroma = NVJPEG_CSS_444;
  for (const auto& [width, height] : {std::pair{0, 10}, {10, -1}, {30'001, 1}, {30'000, 30'000}}) {
    fake.width = width, fake.height = height;
    EXPECT_TRUE(refused(decoder));
  }
  EXPECT_EQ(fake.decoded, 0);
}

TEST(Nvjpeg, TellsAFailureOfTheDeviceFromADamagedFile) {
  NvjpegCalls calls = fake_calls();
  fake.create = NVJPEG_STATUS_ARCH_MISMATCH;
  EXPECT_THAT(error_of<DeviceError>([&] { NvjpegDecoder(calls, Device::cpu()); }),
              AllOf(HasSubstr("no hardware decoder"), HasSubstr("data.decoder=cpu")));
  fake.create = NVJPEG_STATUS_NOT_INITIALIZED;
  EXPECT_THAT(error_of<DeviceError>([&] { NvjpegDecoder(calls, Device::cpu()); }),
              HasSubstr("status 1"));
  NvjpegDecoder decoder(fake_calls(), Device::cpu());
  fake.decode = NVJPEG_STATUS_EXECUTION_FAILED;
  EXPECT_THAT(error_of<DeviceError>([&] { refused(decoder); }),
              HasSubstr("nvjpegDecodeBatched failed with status 6"));
}
#endif

}  // namespace
}  // namespace gossamer::data
