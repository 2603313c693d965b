// A folder of PEFT as a model: its adapter is added to the weights of the model that it names.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/apps/train/language_source.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace gossamer::apps {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Adapter : public InTempFolder {
 protected:
  void SetUp() override {
    InTempFolder::SetUp();
    const fs::path golden = GOSSAMER_SOURCE_DIR "/tests/golden/llama";
    fs::copy(golden / "llama", file("llama"), fs::copy_options::recursive);
    fs::copy(golden / "llama-lora", file("own"), fs::copy_options::recursive);
    name_base("../llama");
  }
  void name_base(const std::string& base) {
    std::ofstream(file("own/adapter_config.json"))
        << R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", )"
        << R"("v_proj"], "base_model_name_or_path": ")" << base << "\"}";
  }
  Tensor golden(const char* key) const {
    return *read_safetensors(file("own/golden.safetensors")).find(key);
  }
};

TEST_F(Adapter, IsAModelWithTheLogitsOfPeft) {
  const NoGrad off;
  const ModelSource source = find_model(file("own"));
  EXPECT_EQ(task_of(source), "language");
  EXPECT_EQ(fs::weakly_canonical(source.beside), fs::weakly_canonical(file("llama")));
  const LanguageModel model = load_language_model(source, DType::f32);
  EXPECT_THAT(model.notes, testing::Contains(HasSubstr("the adapter of ")));
  const Tensor ids = *read_safetensors(file("llama/golden.safetensors")).find("input_ids"),
               logits = (*model.net)(ids), want = golden("logits");
  ASSERT_EQ(logits.shape(), want.shape());
  for (std::size_t i = 0; i < want.span<float>().size(); ++i)
    ASSERT_NEAR(logits.span<float>()[i], want.span<float>()[i], 3e-5);
}

TEST_F(Adapter, WithoutItsModelItIsRefused) {
  name_base("elsewhere/llama");
  EXPECT_THAT(error_of<IoError>([&] { find_model(file("own")); }),
              HasSubstr("base_model_name_or_path is elsewhere/llama"));
  name_base("../own");
  EXPECT_THAT(error_of<IoError>([&] { find_model(file("own")); }), HasSubstr("is an adapter, too"));
}

}  // namespace
}  // namespace gossamer::apps
