// Keeps core/README.md true: each of its code blocks stands, word for word, in a source file.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"

namespace gossamer {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(CoreReadme, ItsExampleRuns) {
  Tensor x = Tensor::from(std::vector<float>{1, -2, 3, -4}, {2, 2});
  Tensor w = Tensor::full({2, 2}, 0.5f);
  w.requires_grad();
  Tensor loss = mean(relu(matmul(x, w)));
  loss.backward();
  EXPECT_EQ(loss.item(), 0);  // x w = -0.5 everywhere
  EXPECT_EQ(w.grad().shape(), (Shape{2, 2}));
}

TEST(CoreReadme, ItsExampleOfALossScaleRuns) {
  Tensor x = Tensor::full({2, 2}, 3), w = Tensor::full({2, 2}, 0.5f);
  FlatParams params({{"w", w}}, {}, {.compute = DType::f16, .loss_scale = 1024});
  Tensor y = matmul(x.to(DType::f16), w);
  params.backward(mean(cast(y, DType::f32)));  // instead of backward() of the loss itself
  EXPECT_EQ(w.grad().as<float>()[0], 1024 * 2 * 3 / 4.0f);
}

TEST(CoreReadme, ItsCodeBlocksStandInTheSources) {
  const fs::path root = GOSSAMER_SOURCE_DIR;
  std::string sources = text_of(root / "tests/core/readme_test.cpp");
  for (const auto& entry : fs::recursive_directory_iterator(root / "core"))
    if (entry.path().extension() == ".cpp" || entry.path().extension() == ".h")
      sources += text_of(entry.path());
  std::istringstream readme(text_of(root / "core/README.md"));
  std::string block;
  bool inside = false;
  int blocks = 0;
  for (std::string line; std::getline(readme, line);) {
    if (!inside && line == "```cpp") {
      inside = true;
      block.clear();
    } else if (inside && line == "```") {
      inside = false;
      ++blocks;
      EXPECT_NE(sources.find(block), std::string::npos)
          << "no source file contains this block of core/README.md:\n"
          << block;
    } else if (inside) {
      block += line + "\n";
    }
  }
  EXPECT_GE(blocks, 5);
}

}  // namespace
}  // namespace gossamer
