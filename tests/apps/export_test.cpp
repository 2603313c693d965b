// `gossamer export`: a model for others, and back. tests/interop/weights_torch.py reads the files
// with torch, torchvision and onnxruntime.
#include <cstring>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/nn/weights.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class Export : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    const Result r = run(tiny({"data.mean=0.4,0.5,0.6"}));
    ASSERT_EQ(r.code, 0) << r.err;
  }
  Result to(const std::string& format, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"export", "runs/t/model.safetensors", "--to", format});
    more.insert(more.end(), {"--out", "exported"});
    return run(more);
  }
};

TEST_F(Export, ToTorchAndToSafetensorsKeepsEveryBit) {
  const auto was = read_safetensors(folder / "runs/t/model.safetensors");
  for (const char* format : {"torch", "safetensors"}) {
    const Result r = to(format);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr("exported: resnet8-cifar with 10 classes for pictures of 32x32"));
    const nn::Weights is = nn::read_weights(folder / "exported");
    ASSERT_EQ(is.tensors.size(), was.tensors.size());
    for (const NamedTensor& t : was.tensors) {
      const Tensor* same = is.find(t.name);
      ASSERT_TRUE(same && same->shape() == t.tensor.shape()) << t.name;
      EXPECT_EQ(std::memcmp(same->data(), t.tensor.data(), t.tensor.bytes()), 0) << t.name;
    }
  }
  // The last one has our header too.
  EXPECT_TRUE(read_text(folder / "exported") == read_text(folder / "runs/t/model.safetensors"));
}

TEST_F(Export, ToOnnxWritesAGraphWithItsMetadata) {
  const Result r = to("onnx", {"--input", "bytes", "--keep-batch-norm", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out)["to"], "onnx");
  const std::string kept = read_text(folder / "exported");
  for (const char* part : {"BatchNormalization", "layer1.0.bn1.running_mean", "image_size", "mean",
                           "0.4\n0.5\n0.6", "images", "logits"})
    EXPECT_TRUE(kept.find(part) != kept.npos) << part;
  ASSERT_EQ(to("onnx").code, 0);
  const std::string folded = read_text(folder / "exported");
  EXPECT_TRUE(folded.find("BatchNormalization") == folded.npos);
}

TEST_F(Export, NoCommandWritesOverItsModelOrWhatARunHasWritten) {
  fs::copy_file(folder / "runs/t/model.safetensors", folder / "mine.safetensors");
  const auto refused = [&](std::vector<std::string> arguments, const std::string& option,
                           const std::string& file) {
    const std::string before = read_text(folder / file);
    arguments.insert(arguments.end(), {option, file});
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 2) << file << r.out;
    EXPECT_THAT(r.err, HasSubstr("name another file"));
    EXPECT_TRUE(read_text(folder / file) == before) << file;
  };
  for (const char* file : {"runs/t/model.safetensors", "runs/t/config.toml", "runs/t/log.jsonl"}) {
    refused({"export", "runs/t", "--to", "torch"}, "--out", file);
    refused({"average", "mine.safetensors"}, "--out", file);
    refused({"report", "runs/t"}, "--out", file);
    refused({"graph", "ring", "4"}, "--html", file);
  }
  refused({"export", "mine.safetensors", "--to", "torch"}, "--out", "mine.safetensors");
  refused({"average", "mine.safetensors"}, "--out", "mine.safetensors");
  // what is no file of the run itself may be there, also again
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run({"export", "runs/t", "--to", "torch", "--out", "runs/t/model.pth"}).code, 0);
    EXPECT_EQ(run({"report", "runs/t", "--out", "runs/t/report.html"}).code, 0);
  }
}

TEST_F(Export, RefusesWhatIsNotForTheFormat) {
  for (const auto& [more, text] :
       {std::pair{std::vector<std::string>{"--input", "bytes"}, "--input and --keep-batch-norm"},
        {{"--keep-batch-norm"}, "are for --to onnx"}}) {
    const Result r = to("torch", more);
    EXPECT_EQ(r.code, 2);
    EXPECT_THAT(r.err, HasSubstr(text));
  }
  const Result r = to("tflite");
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("--to tflite: wanted onnx, safetensors or torch"));
  const Result input = to("onnx", {"--input", "jpeg"});
  EXPECT_EQ(input.code, 2);
  EXPECT_THAT(input.err, HasSubstr("--input jpeg: wanted normalized, unit or bytes"));
  EXPECT_FALSE(fs::exists(folder / "exported"));
}

}  // namespace
}  // namespace gossamer::apps
