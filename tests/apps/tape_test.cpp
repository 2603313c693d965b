// `gossamer tape`: the ops of a forward pass, the bytes that they keep, and the drawing.
#include "gossamer/core/tape.h"

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/core/ops.h"

namespace gossamer::apps {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Tape, CountsMemoryThatSeveralKeepOnceAndParametersNotAtAll) {
  const Tensor x = Tensor::full({8, 4}, 1);
  Tensor w = Tensor::full({4, 2}, 1);
  w.requires_grad();
  const Tensor loss = mean(relu(matmul(x, w)));
  const auto nodes = tape(loss);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_STREQ(nodes[0]->name, "matmul");
  EXPECT_STREQ(nodes[1]->name, "relu");
  EXPECT_STREQ(nodes[2]->name, "mean");
  // x [8, 4] and the result of relu [8, 2]; matmul keeps w too if x wants a gradient
  const std::size_t bytes = tape_bytes(nodes, {{"w", w}});
  EXPECT_EQ(bytes, (8 * 4 + 8 * 2) * sizeof(float));
  loss.backward();
  EXPECT_EQ(tape_bytes(nodes), 0u) << "backward has freed what was kept";
}

using TapeCommandTest = ProgramTest;

TEST_F(TapeCommandTest, ListsOpsThatReadTheParametersOfTheModel) {
  const Json r = Json::parse(run({"tape", "resnet8-cifar", "--batch", "2", "--json"}).out);
  const Json& first = r["ops"][0];
  EXPECT_EQ(first["op"], "conv2d");
  EXPECT_EQ(first["shape"], "2 x 32 x 32 x 16");
  EXPECT_EQ(first["parameters"], Json({"conv1.weight"}));
  EXPECT_EQ(first["keeps"], 2 * 32 * 32 * 3 * 4) << "the pictures";
  EXPECT_EQ(r["parameters"], 75290 * 4);
  std::size_t keeps = 0;
  int shortcuts = 0;
  for (int k = 0; const Json& op : r["ops"]) {
    keeps += op["keeps"].get<std::size_t>();
    for (const int from : op["from"]) {
      EXPECT_LT(from, k);
      shortcuts += from < k - 1;
    }
    ++k;
  }
  EXPECT_EQ(r["keeps"], keeps);
  EXPECT_GE(shortcuts, 3) << "of the residual blocks";
  const Json half =
      Json::parse(run({"tape", "resnet8-cifar", "--batch", "2", "--dtype", "bf16", "--json"}).out);
  EXPECT_LT(half["keeps"].get<double>(), .6 * static_cast<double>(keeps));
}

TEST_F(TapeCommandTest, DrawsALineForEachOp) {
  ASSERT_EQ(run({"tape", "gpt2:2x64:32:100", "--svg", "t.svg"}).code, 0);
  const std::string svg = read_text(folder / "t.svg");
  EXPECT_THAT(svg, StartsWith("<svg xmlns"));
  EXPECT_THAT(svg, EndsWith("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr(">attention</text>"));
  EXPECT_THAT(svg, HasSubstr(">parameters of</text>"));
  EXPECT_THAT(svg, HasSubstr("1 x 32 x 64"));
  EXPECT_THAT(svg, HasSubstr("h.1.mlp.c_proj"));
}

TEST_F(TapeCommandTest, NamesAModelAndATypeThatItDoesNotKnow) {
  const Result model = run({"tape", "resnet19"});
  EXPECT_EQ(model.code, 2);
  EXPECT_THAT(model.err, HasSubstr("resnet18"));
  const Result type = run({"tape", "resnet18", "--dtype", "f8"});
  EXPECT_EQ(type.code, 2);
  EXPECT_THAT(type.err, HasSubstr("wanted is f32 or bf16"));
}

}  // namespace
}  // namespace gossamer::apps
