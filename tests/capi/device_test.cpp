// Devices in C: without a GPU the error says what is missing; with libgossamer-cuda.so.0 beside the
// library all calls go there. That module is one of the tests', which emulates a GPU.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/trainers.h"

namespace gossamer {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kModule = "libgossamer-cuda.so.0";

// The calls that take a device, of one table of functions.
struct OnDevice {
  const gsm_api* api;
  const char* device;

  gsm_status open(const std::string& path, gsm_model** model) const {
    gsm_model_options o{};
    o.struct_size = sizeof o;
    o.path = path.c_str();
    o.device = device;
    return api->model_open_with(&o, model);
  }
  gsm_status make(const char* name, int64_t classes, gsm_trainer** trainer) const {
    gsm_trainer_options o{};
    o.struct_size = sizeof o;
    o.seed = 3;
    o.device = device;
    if (std::string(name) == "gpt2") o.model_options = "layers=1 width=32 heads=2 positions=16";
    return api->trainer_new(name, classes, &o, trainer);
  }
  gsm_status open(const std::string& path, gsm_language** language) const {
    gsm_language_options o{};
    o.struct_size = sizeof o;
    o.device = device;
    return api->language_open(path.c_str(), &o, language);
  }
};

class CDevice : public InTempFolder {
 protected:
  // Another copy of the library, in the test's folder: it looks for the module beside itself.
  const gsm_api* library_beside() {
    Dl_info info{};
    EXPECT_NE(dladdr(reinterpret_cast<void*>(&gsm_get_api), &info), 0);
    const fs::path copy = file("libgossamer.so.0");
    fs::copy_file(info.dli_fname, copy);
    void* const library = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      ADD_FAILURE() << dlerror();
      return nullptr;
    }
    const gsm_api* (*get)(uint32_t) = nullptr;
    *reinterpret_cast<void**>(&get) = dlsym(library, "gsm_get_api");
    return get(GSM_API_VERSION);
  }
  // What each of the calls says of a device that is not there.
  void expect_errors(const gsm_api* api, const testing::Matcher<const char*>& text) {
    const OnDevice gpu{api, "cuda:0"};
    int32_t count = -1;
    EXPECT_EQ(api->device_count(&count), GSM_OK);
    EXPECT_EQ(count, 0);
    gsm_model* model = nullptr;
    gsm_trainer* trainer = nullptr;
    gsm_language* language = nullptr;
    EXPECT_EQ(gpu.open("m.safetensors", &model), GSM_ERROR_DEVICE);
    EXPECT_THAT(api->last_error(), text);
    EXPECT_EQ(gpu.make("resnet8-cifar", 2, &trainer), GSM_ERROR_DEVICE);
    EXPECT_THAT(api->last_error(), text);
    EXPECT_EQ(gpu.open("m.safetensors", &language), GSM_ERROR_DEVICE);
    EXPECT_THAT(api->last_error(), text);
  }
  // The losses of some steps on two pictures, and the model's file.
  std::vector<float> train(const OnDevice& on, const std::string& path) {
    std::vector<uint8_t> pixels(2 * 192, 40);
    std::fill(pixels.begin() + 192, pixels.end(), 200);
    const int32_t labels[] = {0, 1};
    gsm_trainer* trainer = nullptr;
    EXPECT_EQ(on.make("resnet8-cifar", 2, &trainer), GSM_OK) << on.api->last_error();
    std::vector<float> losses(10);
    for (float& loss : losses) {
      EXPECT_EQ(on.api->trainer_gradient(trainer, pixels.data(), labels, 2, 8, 8, &loss), GSM_OK);
      EXPECT_EQ(on.api->trainer_step(trainer, .01), GSM_OK);
    }
    EXPECT_EQ(on.api->trainer_save(trainer, path.c_str(), nullptr), GSM_OK);
    EXPECT_EQ(on.api->trainer_free(trainer), GSM_OK);
    return losses;
  }
  std::vector<float> logits(const OnDevice& on, const std::string& path) {
    gsm_model* model = nullptr;
    EXPECT_EQ(on.open(path, &model), GSM_OK) << on.api->last_error();
    const std::vector<uint8_t> pixels(2 * 192, 90);
    std::vector<float> y(4);
    EXPECT_EQ(on.api->model_forward_u8(model, pixels.data(), 2, 8, 8, y.data()), GSM_OK);
    EXPECT_EQ(on.api->model_free(model), GSM_OK);
    return y;
  }
};

TEST_F(CDevice, ThatIsNotThereIsToldWithWhatIsMissing) {
  int32_t count = 0;
  MUST(gsm_device_count(&count));
  if (count > 0) GTEST_SKIP() << "there is a GPU";
#ifdef GOSSAMER_HAS_CUDA
  const auto text = HasSubstr("driver");
#else
  const auto text = HasSubstr("libgossamer-cuda.so.0 is installed");
#endif
  expect_errors(gsm_get_api(GSM_API_VERSION),
                AllOf(HasSubstr("device cuda:0: "), text, HasSubstr("the device cpu")));
}

TEST_F(CDevice, AModelTakesAPathOrBytesAndAType) {
  gsm_trainer* trainer = nullptr;
  MUST(gsm_trainer_new("resnet8-cifar", 2, nullptr, &trainer));
  gsm_bytes* bytes = nullptr;
  MUST(gsm_trainer_save_memory(trainer, nullptr, &bytes));
  gsm_model_options o{};
  o.struct_size = sizeof o;
  gsm_model* model = nullptr;
  EXPECT_EQ(gsm_model_open_with(&o, &model), GSM_ERROR_ARGUMENT);
  MUST(gsm_bytes_data(bytes, &o.bytes, &o.size));
  o.path = "m.safetensors";
  EXPECT_EQ(gsm_model_open_with(&o, &model), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("give path, or bytes"));
  o.path = nullptr;
  o.type = "f64";
  EXPECT_EQ(gsm_model_open_with(&o, &model), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("gsm_model_options.type: f64"));
  const std::vector<uint8_t> pixels(192, 90);
  float y[2][2];
  for (const char* type : {"f32", "bf16"}) {
    o.type = type;
    MUST(gsm_model_open_with(&o, &model));
    MUST(gsm_model_forward_u8(model, pixels.data(), 1, 8, 8, y[type == std::string("bf16")]));
    MUST(gsm_model_free(model));
  }
  EXPECT_NE(y[0][0], y[1][0]);
  for (int k = 0; k < 2; ++k) EXPECT_NEAR(y[0][k], y[1][k], .02 * (1 + std::fabs(y[0][k])));
  MUST(gsm_bytes_free(bytes));
  MUST(gsm_trainer_free(trainer));
}

#ifndef GOSSAMER_HAS_CUDA

TEST_F(CDevice, AModuleThatIsBrokenIsNamed) {
  std::ofstream(file(kModule)) << "no library";
  const gsm_api* const api = library_beside();
  ASSERT_NE(api, nullptr);
  expect_errors(api, AllOf(HasSubstr("device cuda:0: "), HasSubstr(file(kModule).string())));
  // The CPU is there as ever.
  EXPECT_EQ(train({api, "cpu"}, file("m.safetensors").string()).size(), 10);
}

TEST_F(CDevice, AModuleBesideTheLibraryAnswersItsCalls) {
  fs::create_symlink(GOSSAMER_EMULATED_MODULE, file(kModule));
  const OnDevice gpu{library_beside(), "cuda:0"}, cpu{gsm_get_api(GSM_API_VERSION), "cpu"};
  ASSERT_NE(gpu.api, nullptr);
  int32_t count = 0;
  ASSERT_EQ(gpu.api->device_count(&count), GSM_OK);
  EXPECT_EQ(count, 1);
  const std::string there = file("there.safetensors").string(),
                    here = file("here.safetensors").string();
  const std::vector<float> losses = train(gpu, there), same = train(cpu, here);
  EXPECT_LT(losses.back(), losses.front() / 2);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], same[i], 1e-3) << i;
  EXPECT_NE(losses, same);  // its sums have another order
  // Either reads the other's file.
  const std::vector<float> y = logits(gpu, here), z = logits(cpu, here);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], z[i], 1e-4) << i;
  EXPECT_EQ(logits(cpu, there).size(), 4);
  // No handle of one is one of the other.
  gsm_model* model = nullptr;
  ASSERT_EQ(gpu.open(there, &model), GSM_OK) << gpu.api->last_error();
  EXPECT_STREQ(gpu.api->version(), gsm_version());
  EXPECT_EQ(gpu.api->shutdown(), GSM_OK);
  EXPECT_EQ(gpu.api->model_free(model), GSM_ERROR_HANDLE);
}

TEST_F(CDevice, ALanguageModelIsTrainedAndGoesOnWithATextThere) {
  fs::create_symlink(GOSSAMER_EMULATED_MODULE, file(kModule));
  const OnDevice gpu{library_beside(), "cuda:0"};
  ASSERT_NE(gpu.api, nullptr);
  gsm_trainer* trainer = nullptr;
  ASSERT_EQ(gpu.make("gpt2", 8, &trainer), GSM_OK) << gpu.api->last_error();
  const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 0};
  float first = 0, loss = 0;
  ASSERT_EQ(gpu.api->trainer_gradient_ids(trainer, ids, nullptr, 1, 8, &first), GSM_OK);
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(gpu.api->trainer_step(trainer, .1), GSM_OK);
    ASSERT_EQ(gpu.api->trainer_gradient_ids(trainer, ids, nullptr, 1, 8, &loss), GSM_OK);
  }
  EXPECT_LT(loss, first / 4);
  const std::string path = file("m.safetensors").string();
  ASSERT_EQ(gpu.api->trainer_save(trainer, path.c_str(), nullptr), GSM_OK);
  gsm_language* language = nullptr;
  ASSERT_EQ(gpu.open(path, &language), GSM_OK) << gpu.api->last_error();
  gsm_generation_options o{};
  o.struct_size = sizeof o;
  o.temperature = -1;
  gsm_generation* generation = nullptr;
  ASSERT_EQ(gpu.api->generation_new(language, ids, 2, &o, &generation), GSM_OK);
  for (const int32_t wanted : {3, 4, 5}) {
    int32_t id = 0, done = 0;
    ASSERT_EQ(gpu.api->generation_next(generation, &id, &done), GSM_OK);
    EXPECT_EQ(id, wanted);
  }
  EXPECT_EQ(gpu.api->shutdown(), GSM_OK);
}

#endif

}  // namespace
}  // namespace gossamer
