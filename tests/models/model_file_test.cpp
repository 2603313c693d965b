// models::open: what a file says about itself, and what is assumed where it says nothing.
#include "gossamer/models/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/random.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace gossamer::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ModelFile : public InTempFolder {};

TEST_F(ModelFile, OpensWithItsClassesAndItsPreprocessing) {
  const auto path = file("m.safetensors");
  const auto net = make("resnet8-cifar", {.classes = 2, .seed = 3});
  const ModelHeader header{"resnet8-cifar",
                           {"a cat", "dog"},
                           {.size = 24,
                            .resize = 28,
                            .filter = "area",
                            .mean = {.1f, .2f, .3f},
                            .std = {.4f, .5f, .6f}}};
  nn::save(path, *net, metadata_of(header));
  const OpenedModel m = open(path);
  EXPECT_EQ(m.name, "resnet8-cifar");
  EXPECT_THAT(m.classes, ElementsAre("a cat", "dog"));
  EXPECT_EQ(m.pictures.size, 24);
  EXPECT_EQ(m.pictures.resize, 28);
  EXPECT_EQ(m.pictures.filter, "area");
  EXPECT_EQ(m.pictures.mean, header.pictures.mean);
  EXPECT_EQ(m.pictures.std, header.pictures.std);
  EXPECT_THAT(m.notes, ElementsAre());
  EXPECT_FALSE(m.net->training());
  const NoGrad no_grad;
  net->eval();
  const Tensor x = m.pictures(Tensor::full({1, 24, 24, 3}, 100, DType::u8));
  EXPECT_FLOAT_EQ(x.as<float>()[1], (100 / 255.f - .2f) / .5f);
  EXPECT_THAT((*m.net)(x).span<float>(), testing::ElementsAreArray((*net)(x).span<float>()));
}

TEST_F(ModelFile, IsOpenedToComputeIn16Bits) {
  const auto net = make("resnet8-cifar", {.classes = 2, .seed = 3});
  nn::save(file("m.safetensors"), *net);
  const OpenedModel wide = open(file("m.safetensors")),
                    m = open(file("m.safetensors"), {}, Device::cpu(), DType::bf16);
  EXPECT_EQ(wide.params, nullptr);
  ASSERT_NE(m.params, nullptr);
  const NoGrad no_grad;
  const Tensor images = Tensor::full({1, 32, 32, 3}, 100, DType::u8),
               y = (*m.net)(m.pictures(images, DType::bf16)),
               want = (*wide.net)(wide.pictures(images));
  EXPECT_EQ(y.dtype(), DType::bf16);
  for (i64 i = 0; i < 2; ++i)
    EXPECT_NEAR(y.to(DType::f32).as<float>()[i], want.as<float>()[i], 5e-2) << i;
}

TEST_F(ModelFile, TheLastLayerMayHaveAnyOfItsUsualNames) {
  const auto net = make("resnet8-cifar", {.classes = 3, .seed = 4});
  net->eval();
  const NoGrad no_grad;
  const Tensor images = Tensor::full({1, 32, 32, 3}, 100, DType::u8);
  for (const std::string name : {"linear", "classifier", "head", "head.fc", "last_linear"}) {
    std::vector<NamedTensor> tensors = nn::in_file_layout(net->state());
    for (NamedTensor& t : tensors)
      if (t.name.starts_with("fc.")) t.name.replace(0, 2, name);
    write_safetensors(file("m"), tensors);
    const OpenedModel m = open(file("m"));
    EXPECT_THAT(m.notes[0], HasSubstr("its last layer is called " + name + "; taken for fc"));
    const Tensor x = m.pictures(images);
    EXPECT_THAT((*m.net)(x).span<float>(), testing::ElementsAreArray((*net)(x).span<float>()));
  }
}

TEST_F(ModelFile, WithoutAHeaderTheTensorsSayWhichModelItIs) {
  nn::save(file("m.safetensors"), *make("resnet18", {.classes = 3}));
  const OpenedModel m = open(file("m.safetensors"));
  EXPECT_EQ(m.name, "resnet18");
  EXPECT_THAT(m.classes, ElementsAre("0", "1", "2"));
  EXPECT_EQ(m.pictures.size, 224);
  EXPECT_EQ(m.pictures.resize, 256);
  EXPECT_FLOAT_EQ(m.pictures.mean[0], .485f);
  EXPECT_THAT(m.notes, ElementsAre(HasSubstr("taken for resnet18 with 3 classes")));
}

TEST_F(ModelFile, ClassesWithoutANameOfOneLineAreRefused) {
  const auto header = [](const std::vector<std::string>& classes) {
    return error_of<ConfigError>([&] {
      metadata_of({"resnet8-cifar", classes, usual_preprocessing("resnet8-cifar")});
    });
  };
  EXPECT_THAT(header({"", "a"}), HasSubstr("the name of class 0 is empty"));
  EXPECT_THAT(header({"a", "b", ""}), HasSubstr("the name of class 2 is empty"));
  EXPECT_THAT(header({"a", "b\nc"}), HasSubstr("the name of class 1 has a line break"));
}

TEST_F(ModelFile, DamagedHeadersAreNamed) {
  const auto net = make("resnet8-cifar", {.classes = 1});
  const auto good = metadata_of({"resnet8-cifar", {"a"}, usual_preprocessing("resnet8-cifar")});
  const std::vector<std::tuple<std::string, std::string, std::string>> cases{
      {"model", "resnet9", "known are: resnet18, "},
      {"classes", "", "is empty"},
      {"image_size", "0", "impossible"},
      {"resize", "many", "not a number"},
      {"filter", "cubic", "bilinear or area"},
      {"mean", "1\n2", "has 2 numbers"},
      {"std", "1\n0\n1", "above 0"},
      {"layout", "x", "checkpoint of one worker"}};
  for (const auto& [key, value, words] : cases) {
    auto bad = good;
    bad[key] = value;
    nn::save(file("bad.safetensors"), *net, bad);
    EXPECT_THAT(error_of<IoError>([&] { open(file("bad.safetensors")); }), HasSubstr(words));
  }
  auto bad = good;
  bad.erase("std");
  nn::save(file("bad.safetensors"), *net, bad);
  EXPECT_THAT(error_of<IoError>([&] { open(file("bad.safetensors")); }),
              HasSubstr("has no \"std\""));
}

}  // namespace
}  // namespace gossamer::models
