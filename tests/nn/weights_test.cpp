// Weights of others: names without prefixes, names that are changed, tensors of unknown types.
#include "gossamer/nn/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/layers.h"
#include "support/error_of.h"
#include "support/temp_folder.h"
#include "support/torch_bytes.h"

namespace gossamer::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class WeightsTest : public InTempFolder {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name).string();
  }
  // A safetensors file of tensors of two bytes of a type each.
  std::string of_types(const std::vector<std::pair<std::string, std::string>>& types) {
    std::string header = "{", data;
    for (const auto& [name, type] : types) {
      const std::size_t bytes = type == "F32" ? 8 : type == "F64" ? 16 : 2;
      header += (data.empty() ? "\"" : ",\"") + name + R"(":{"dtype":")" + type +
                R"(","shape":[2,1],"data_offsets":[)" + std::to_string(data.size()) + "," +
                std::to_string(data.size() + bytes) + "]}";
      data += std::string(bytes, '\0');
    }
    header += "}";
    return write("w", raw<std::uint64_t>(header.size()) + header + data);
  }
};

std::vector<std::string> names(const Weights& w) { return names_of(w.tensors); }

TEST_F(WeightsTest, TensorsOfUnknownTypesAreSkippedAndSaid) {
  const Weights w =
      read_weights(of_types({{"model.mask", "BOOL"}, {"model.weight", "F32"}, {"model.x", "F64"}}));
  EXPECT_THAT(names(w), ElementsAre("weight", "x"));
  ASSERT_EQ(w.unread.size(), 1u);
  EXPECT_EQ(w.unread[0].name, "mask");
  EXPECT_THAT(w.notes, ElementsAre(HasSubstr("w: 1 tensor of f64 rounded to f32"),
                                   HasSubstr("w: skipped, since Gossamer has no such type: mask "
                                             "(BOOL)")));
}

TEST_F(WeightsTest, ATensorThatIsNeededIsRefusedByItsNameAndType) {
  Linear linear(1, 2, {.bias = false});
  const Tensor before = linear.parameters()[0].tensor.clone();
  const Weights bad = read_weights(of_types({{"weight", "BOOL"}}));
  for (const auto& load_it : {+[](const Weights&w, Module&m) { load(w, m); },
                              +[](const Weights&w, Module&m) { load_what_fits(w, m); }})
    EXPECT_THAT(error_of<IoError>([&] { load_it(bad, linear); }),
                HasSubstr("w: \"weight\" is of type BOOL, which Gossamer does not read"));
  EXPECT_EQ(linear.parameters()[0].tensor.span<float>()[0], before.span<float>()[0]);
  const Weights good = read_weights(of_types({{"mask", "I8"}, {"weight", "F32"}}));
  EXPECT_EQ(error_of<IoError>([&] { load(good, linear); }), "no error");
  EXPECT_EQ(linear.parameters()[0].tensor.span<float>()[0], 0);
}

TEST_F(WeightsTest, NamesCanBeChanged) {
  const auto file = of_types({{"head.fc.weight", "F32"}, {"head.norm", "F32"}, {"header", "F32"}});
  EXPECT_THAT(names(read_weights(file, {.key = "", .rename = {{"head", "x"}, {"head.fc", "fc"}}})),
              ElementsAre("fc.weight", "x.norm", "header"));
  const auto refusal = [&](const std::map<std::string, std::string>& by) {
    return error_of<IoError>([&] { read_weights(file, {.key = "", .rename = by}); });
  };
  EXPECT_THAT(refusal({{"hea", "fc"}}),
              HasSubstr("w: no tensor's name begins with hea, which "
                        "init_rename changes to \"fc\". There are: head, header"));
  EXPECT_THAT(names(read_weights(file, {.key = "", .rename = {{"head", ""}}})),
              ElementsAre("fc.weight", "norm", "header"));
  EXPECT_THAT(refusal({{"header", ""}}), HasSubstr("leaves no name of \"header\""));
  EXPECT_THAT(refusal({{"header", "head.norm"}}),
              HasSubstr("two tensors are called \"head.norm\" after init_rename"));
}

TEST_F(WeightsTest, AStateDictIsChosenOfATorchFileOnly) {
  const auto torch = write("t", torch_bytes({{"a", Tensor::zeros({1})}}, "net"));
  EXPECT_THAT(names(read_weights(torch, {.key = "net", .rename = {}})), ElementsAre("a"));
  EXPECT_THAT(error_of<IoError>([&] { read_weights(torch, {.key = "ema", .rename = {}}); }),
              HasSubstr("has no state dict called ema; there are: net"));
  const auto safe = of_types({{"a", "F32"}});
  EXPECT_THAT(error_of<IoError>([&] { read_weights(safe, {.key = "ema", .rename = {}}); }),
              HasSubstr("init_key = ema: a safetensors file holds one set of weights"));
}

}  // namespace
}  // namespace gossamer::nn
