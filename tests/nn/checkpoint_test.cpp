// Model files: exact round trips, torch's layout, and errors that say what does not fit.
#include "gossamer/nn/checkpoint.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "gossamer/core/flat.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/ops.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/layers.h"
#include "support/temp_folder.h"

namespace gossamer::nn {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Checkpoint : public InTempFolder {};
bool equal(const Module& a, const Module& b) {
  const auto x = a.state(), y = b.state();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i].name != y[i].name ||
        std::memcmp(x[i].tensor.data(), y[i].tensor.data(), x[i].tensor.bytes()) != 0)
      return false;
  return x.size() == y.size();
}
std::string failure(const fs::path& path, Module& module) {
  try {
    load(path, module);
  } catch (const IoError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(Checkpoint, SaveLoadSaveGivesTheSameBytesForEveryKindOfModel) {
  for (const char* name : {"resnet18", "resnet18-cifar", "resnet8-cifar"}) {
    const auto model = models::make(name, {.seed = 1});
    // running statistics and counters off their start
    (*model)(Tensor::full({2, 32, 32, 3}, 0.3f));
    save(file("a"), *model, {{"model", name}});
    const auto other = models::make(name, {.seed = 2});
    EXPECT_FALSE(equal(*model, *other));
    const auto metadata = load(file("a"), *other);
    EXPECT_TRUE(equal(*model, *other)) << name;
    EXPECT_EQ(metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"model", name}}));
    EXPECT_EQ(read_metadata(file("a")), metadata);
    save(file("b"), *other, metadata);
    EXPECT_EQ(contents(file("a")), contents(file("b"))) << name;
  }
}

TEST_F(Checkpoint, ConvolutionWeightsAreOihwInTheFile) {
  Conv2d conv(2, 1, {.kernel = 3});
  Tensor w = conv.parameters()[0].tensor;  // [1, 3, 3, 2]
  for (int i = 0; i < 18; ++i) w.as<float>()[i] = static_cast<float>(i);
  save(file("a"), conv);
  const Tensor stored = *read_safetensors(file("a")).find("weight");
  EXPECT_EQ(stored.shape(), (Shape{1, 2, 3, 3}));
  for (int c = 0; c < 2; ++c)
    for (int p = 0; p < 9; ++p)
      EXPECT_EQ(stored.as<float>()[c * 9 + p], static_cast<float>(p * 2 + c));
}

TEST_F(Checkpoint, FilesOf16BitsAreWidened) {
  for (const DType type : {DType::bf16, DType::f16}) {
    Linear layer(3, 2);
    write_safetensors(file("a"), {{"weight", Tensor::full({2, 3}, 1.5f, type)},
                                  {"bias", Tensor::full({2}, -3, type)}});
    load(file("a"), layer);
    EXPECT_EQ(layer.parameters()[0].tensor.as<float>()[5], 1.5f);
    EXPECT_EQ(layer.parameters()[1].tensor.as<float>()[1], -3.f);
  }
}

TEST_F(Checkpoint, PrefixesOfWrappersAreDroppedAndOldFilesMayLackTheCounter) {
  BatchNorm norm(1);
  write_safetensors(file("a"), {{"module._orig_mod.weight", Tensor::full({1}, 2)},
                                {"module.bias", Tensor::full({1}, 3)},
                                {"_orig_mod.running_mean", Tensor::full({1}, 4)},
                                {"running_var", Tensor::full({1}, 5)}});
  load(file("a"), norm);
  std::string values;
  for (const NamedTensor& t : norm.state())
    if (t.tensor.dtype() == DType::f32) values += std::to_string(static_cast<int>(t.tensor.item()));
  EXPECT_EQ(values, "2345");
}

TEST_F(Checkpoint, LightningsPrefixIsDroppedIfAllNamesHaveIt) {
  Linear layer(1, 1);
  write_safetensors(file("all"), {{"model._orig_mod.weight", Tensor::full({1, 1}, 2)},
                                  {"model._orig_mod.bias", Tensor::full({1}, 3)}});
  load(file("all"), layer);
  EXPECT_EQ(layer.parameters()[0].tensor.item(), 2);
  EXPECT_EQ(layer.parameters()[1].tensor.item(), 3);
  write_safetensors(file("one"),
                    {{"model.weight", Tensor::full({1, 1}, 4)}, {"bias", Tensor::full({1}, 5)}});
  EXPECT_THAT(failure(file("one"), layer), HasSubstr("model.weight"));
}

TEST_F(Checkpoint, CountersAreNeitherMissedNorInTheWay) {
  // torch's dropout has no counter, and a model without dropout takes the file of one that has it
  Sequential with;
  with.push(Linear(2, 2)).push(Dropout(0.5f));
  Linear without(2, 2);
  write_safetensors(file("torch"),
                    {{"0.weight", Tensor::full({2, 2}, 7)}, {"0.bias", Tensor::zeros({2})}});
  load(file("torch"), with);
  EXPECT_EQ(with.state()[0].tensor.as<float>()[0], 7);
  write_safetensors(file("ours"), {{"weight", Tensor::full({2, 2}, 8)},
                                   {"bias", Tensor::zeros({2})},
                                   {"drop.calls", Tensor::zeros({}, DType::i64)}});
  load(file("ours"), without);
  EXPECT_EQ(without.state()[0].tensor.as<float>()[0], 8);
  write_safetensors(file("more"), {{"weight", Tensor::full({2, 2}, 9)},
                                   {"bias", Tensor::zeros({2})},
                                   {"calls", Tensor::zeros({3})}});
  EXPECT_THAT(failure(file("more"), without), HasSubstr("Not in the model: calls"));
}

TEST_F(Checkpoint, ACounterMayHaveBeenCastWithTheRest) {
  for (const auto& [type, count] : {std::pair(DType::f16, 12.f),
                                    {DType::f32, 12.f},
                                    {DType::f16, std::numeric_limits<float>::infinity()}}) {
    BatchNorm norm(2), other(2);
    std::vector<NamedTensor> state = norm.state();
    for (NamedTensor& t : state)
      if (t.name == "num_batches_tracked")
        t.tensor = cast(Tensor::full({}, count), type);
      else
        t.tensor = cast(t.tensor, type);
    write_safetensors(file("cast"), state);
    EXPECT_EQ(failure(file("cast"), other), "accepted");
    for (const NamedTensor& t : other.state())
      if (t.name == "num_batches_tracked")
        EXPECT_EQ(*t.tensor.as<i64>(), std::isfinite(count) ? 12 : 0);
  }
}

TEST_F(Checkpoint, WhatDoesNotFitIsListedAndNothingIsChanged) {
  const auto ten = models::make("resnet8-cifar", {.seed = 1}),
             seven = models::make("resnet8-cifar", {.classes = 7, .seed = 2});
  const auto untouched = models::make("resnet8-cifar", {.classes = 7, .seed = 2});
  save(file("a"), *ten);
  EXPECT_THAT(failure(file("a"), *seven),
              testing::AllOf(HasSubstr(file("a").string()),
                             HasSubstr("fc.weight is f32[10, 64], wanted f32[7, 64]"),
                             HasSubstr("fc.bias"), HasSubstr("number of classes")));
  EXPECT_TRUE(equal(*seven, *untouched));

  const auto deeper = models::make("resnet20-cifar");
  EXPECT_THAT(
      failure(file("a"), *deeper),
      testing::AllOf(HasSubstr("Missing: layer1.1.conv1.weight"), HasSubstr("(60 in all)")));
  save(file("b"), *deeper);
  EXPECT_THAT(failure(file("b"), *ten), HasSubstr("Not in the model: layer1.1"));

  Linear layer(3, 2);
  write_safetensors(file("c"),
                    {{"weight", Tensor::zeros({2, 3}, DType::i32)}, {"bias", Tensor::zeros({2})}});
  EXPECT_THAT(failure(file("c"), layer), HasSubstr("weight is i32[2, 3], wanted f32[2, 3]"));
  write_safetensors(file("d"), {{"weight", Tensor::zeros({2, 3})},
                                {"bias", Tensor::zeros({2})},
                                {"module.bias", Tensor::zeros({2})}});
  EXPECT_THAT(failure(file("d"), layer), HasSubstr("two tensors are called \"bias\""));
}

TEST_F(Checkpoint, AFileCutInHalfIsRefusedAndNothingIsChanged) {
  const auto model = models::make("resnet8-cifar", {.seed = 1}),
             same = models::make("resnet8-cifar", {.seed = 1});
  save(file("a"), *models::make("resnet8-cifar", {.seed = 2}));
  const std::string whole = contents(file("a"));
  std::ofstream(file("a"), std::ios::binary) << whole.substr(0, whole.size() / 2);
  EXPECT_THAT(failure(file("a"), *model), HasSubstr("cut short"));
  EXPECT_TRUE(equal(*model, *same));
}

TEST_F(Checkpoint, TheMasterCopyIsSavedAndLoadedWhenLayersReadABfloatCopy) {
  const auto model = models::make("resnet8-cifar", {.seed = 1}),
             exact = models::make("resnet8-cifar", {.seed = 1});
  FlatParams params(model->parameters(), model->buffers(), {.compute = DType::bf16});
  save(file("flat"), *model, params, params.values());
  save(file("plain"), *exact);
  EXPECT_EQ(contents(file("flat")), contents(file("plain")));

  save(file("other"), *models::make("resnet8-cifar", {.seed = 2}));
  load(file("other"), *model, params);
  save(file("again"), *model, params, params.values());
  EXPECT_EQ(contents(file("other")), contents(file("again")));
  const Tensor w = model->parameters()[0].tensor;
  ASSERT_EQ(w.dtype(), DType::bf16);
  for (const NamedTensor& t : params.windows(params.values()))
    if (t.name == "conv1.weight") {
      EXPECT_EQ(w.as<bf16>()[0].bits, bf16(t.tensor.as<float>()[0]).bits);
    }
}

TEST_F(Checkpoint, ABlockOfAnotherModelIsRefused) {
  const auto model = models::make("resnet8-cifar"), other = models::make("resnet20-cifar");
  FlatParams params(other->parameters(), other->buffers());
  EXPECT_THROW(save(file("a"), *model, params, params.values()), ShapeError);
}

}  // namespace
}  // namespace gossamer::nn
