// The table of models.
#include "gossamer/models/registry.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/models/gpt2.h"
#include "gossamer/models/model_file.h"
#include "gossamer/models/named_options.h"
#include "gossamer/models/transformer.h"
#include "gossamer/nn/checkpoint.h"
#include "support/error_of.h"

namespace gossamer {
namespace {

using testing::HasSubstr;

TEST(Registry, AnUnknownNameIsAnsweredWithTheNearestAndAllKnownOnes) {
  try {
    models::make("resnet20-cifra");
    FAIL() << "an unknown model was made";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("did you mean \"resnet20-cifar\""),
                                             testing::HasSubstr("resnet152")));
  }
  try {
    models::info("vgg");
    FAIL() << "an unknown model was found";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::Not(testing::HasSubstr("did you mean")),
                                             testing::HasSubstr("resnet152")));
  }
  EXPECT_THROW(models::info(""), ConfigError);
  EXPECT_THROW(models::make("resnet18", {.classes = -1}), ConfigError);
  EXPECT_EQ(models::info("resnet50").image_size, 224);
}

TEST(Registry, EachNameIsOfOneFamilyAndEachOptionThatAFamilyTakesExists) {
  std::set<std::string> names, options;
  for (const NamedSetting& s : settings_of(models::ModelOptions())) options.insert(s.setting.name);
  for (const models::Family& family : models::families()) {
    EXPECT_FALSE(family.models.empty()) << family.name;
    for (const models::ModelInfo& model : family.models) {
      EXPECT_TRUE(names.insert(model.name).second) << model.name;
      EXPECT_EQ(models::family_of(model.name).name, family.name);
      EXPECT_EQ(model.image_size > 0, family.task == "pictures") << model.name;
    }
    for (const std::string& option : family.options)
      EXPECT_TRUE(options.contains(option)) << family.name << " takes " << option;
  }
  EXPECT_EQ(models::names().size(), names.size());
  EXPECT_THAT(models::tasks(), testing::ElementsAre("pictures", "language", "translation"));
}

// As models::open() and transfer learning take it: a file says the model's name and its classes.
TEST(Registry, AModelOfPicturesFollowsFromItsNameItsClassesAndItsState) {
  for (const models::Family& family : models::families()) {
    if (family.task != "pictures") continue;
    for (const models::ModelInfo& model : family.models) {
      SCOPED_TRACE(model.name);
      const auto net = models::make(model.name, {.classes = 7});
      const nn::Weights file{.file = model.name,
                             .tensors = nn::in_file_layout(net->state()),
                             .metadata = {},
                             .notes = {}};
      EXPECT_EQ(models::head_of(file).shape(0), 7);
      if (!family.recognise) continue;
      const auto known = models::recognise(file.tensors);
      ASSERT_TRUE(known.has_value());
      EXPECT_EQ(known->name, model.name);
      EXPECT_EQ(known->classes, 7);
    }
  }
}

i64 count(const nn::Module& module) {
  i64 sum = 0;
  for (const NamedTensor& p : module.parameters()) sum += p.tensor.numel();
  return sum;
}

TEST(Registry, Vgg11HasThePublishedConvolutionsAndASmallHead) {
  const auto net = models::make("vgg11-cifar");
  // torchvision's vgg11 has 9,220,480 of them in its convolutions
  EXPECT_EQ(count(*net), 9'220'480 + 512 * 10 + 10);
  EXPECT_TRUE(net->buffers().empty());
  const NoGrad no_grad;
  EXPECT_EQ((*net)(Tensor::zeros({2, 33, 40, 3})).shape(), (Shape{2, 10}));
  EXPECT_THAT(error_of<ShapeError>([&] {
                (*net)(Tensor::zeros({2, 31, 40, 3}));
              }),
              HasSubstr("32 x 32 pixels or more"));
}

TEST(Registry, MakesTextModelsOfAnySize) {
  const auto gpt2 = models::make(
      "gpt2",
      {.classes = 100, .layers = 2, .width = 16, .heads = 2, .positions = 8, .bias = false});
  // tables; of each block two norms, attention and the branch of four widths; the last norm
  EXPECT_EQ(count(*gpt2), 16 * (100 + 8) + 2 * (2 * 16 + 12 * 16 * 16) + 16);
  const auto transformer =
      models::make("transformer-big", {.classes = 50, .layers = 1, .width = 16, .heads = 2});
  const auto wider = models::make(
      "transformer-big", {.classes = 50, .layers = 1, .width = 16, .heads = 2, .ff = 4097});
  EXPECT_EQ(count(*wider) - count(*transformer), 2 * (2 * 16 + 1));
}

TEST(Registry, AFamilysOwnOptionsAreSetByTheNamesOfModelOptions) {
  models::TransformerOptions own;
  models::set_options(own, settings_of(models::ModelOptions{.heads = 4, .norm_first = true}));
  EXPECT_EQ(own.heads, 4);
  EXPECT_TRUE(own.norm_first);
  EXPECT_EQ(own.layers, models::TransformerOptions().layers);
  models::TransformerOptions again;
  models::set_options(again, models::named_options(own));
  EXPECT_EQ(again.heads, 4);
  EXPECT_TRUE(again.norm_first);
  EXPECT_THAT(
      models::taken_by<models::Gpt2Options>(),
      testing::ElementsAre("layers", "width", "heads", "positions", "bias", "gelu", "dropout"));
  EXPECT_THAT(error_of<ConfigError>([] { models::Gpt2(models::Gpt2Options{.gelu = "relu"}); }),
              HasSubstr("gelu relu; it must be one of tanh, erf"));
}

TEST(Registry, AnOptionThatTheFamilyDoesNotTakeIsRefused) {
  EXPECT_THAT(error_of<ConfigError>([] { models::make("resnet50", {.layers = 3}); }),
              HasSubstr("model resnet50 takes no layers"));
  EXPECT_THAT(error_of<ConfigError>([] { models::make("gpt2", {.zero_init_residual = true}); }),
              HasSubstr("model gpt2 takes no zero_init_residual"));
  EXPECT_THAT(error_of<ConfigError>([] { models::make("gpt2", {.norm_first = true}); }),
              HasSubstr("its family, gpt2, takes layers, width"));
  EXPECT_THAT(error_of<ConfigError>([] { models::make("gpt2", {.heads = 0}); }),
              HasSubstr("1 to 1024"));
  EXPECT_THAT(error_of<ConfigError>([] { models::info("gpt2", "pictures"); }),
              HasSubstr("is for task=language; known for pictures are resnet18"));
}

}  // namespace
}  // namespace gossamer
