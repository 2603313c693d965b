// Keeps dist/README.md true: its code stands here, word for word, and runs.
#include <filesystem>
#include <fstream>

#include "dist/workers.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/net/launch.h"

namespace gossamer {
namespace {

TEST(DistReadme, ItsLoopTrainsInAGroupOfOne) {
  Tensor w = Tensor::full({4}, 3.0f);
  FlatParams params({{"w", w}});
  nn::Sgd optimizer(params);
  dist::MethodOptions options;
  options.total_samples = 60;
  const auto loss_of_the_next_batch = [&] { return mean(mul(w, w)); };
  const auto schedule = [](double samples) { return samples < 30 ? 0.1 : 0.05; };
  const float before = loss_of_the_next_batch().item();

  auto group = dist::join(dist::launch_info());
  auto graph = dist::make_graph("ring", group->size());
  auto method = dist::make_method("a2cid2", params, optimizer, *group, graph, options);
  while (!method->done()) {
    params.zero_grad();
    loss_of_the_next_batch().backward();
    // a gradient event; exchanges go on in the background
    method->step(schedule(method->samples_seen()));
  }
  // all workers now hold the mean of their models
  method->finish();

  EXPECT_EQ(method->stats().gradients, 60);
  EXPECT_LT(loss_of_the_next_batch().item(), 0.5f * before);
}

}  // namespace

namespace dist {
TEST(DistReadme, ItsClusterLosesAWorker) {
  const int rank = 1;
  LocalCluster cluster(4);  // then, in thread `rank`:
  // control link, payload and collectives between threads
  Group& group = cluster.group(rank);
  cluster.kill(2);  // as kill -9 does to a process
  EXPECT_EQ(group.alive(), (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(group.control().next(Seconds(1)).kind, Event::Kind::dead);
}
}  // namespace dist

namespace {

TEST(DistReadme, ItsCodeStandsInThisFileAndTheFilesItNamesExist) {
  const auto text_of = [](const std::filesystem::path& path) {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::filesystem::path root = GOSSAMER_SOURCE_DIR;
  const std::string readme = text_of(root / "dist/README.md"),
                    here = text_of(root / "tests/dist/readme_test.cpp");
  int blocks = 0, files = 0;
  for (std::size_t at = readme.find("```cpp\n"); at != std::string::npos;
       at = readme.find("```cpp\n", at + 1), ++blocks) {
    const std::size_t begin = at + 7, end = readme.find("```", begin);
    EXPECT_NE(here.find(readme.substr(begin, end - begin)), std::string::npos)
        << readme.substr(begin, end - begin);
  }
  EXPECT_EQ(blocks, 2);
  for (std::size_t at = readme.find('`'); at != std::string::npos; at = readme.find('`', at + 1)) {
    const std::size_t end = readme.find('`', at + 1);
    if (end == std::string::npos) break;
    const std::string word = readme.substr(at + 1, end - at - 1);
    at = end;
    if (word.find(' ') != std::string::npos || !(word.ends_with(".cpp") || word.ends_with(".h")))
      continue;
    EXPECT_TRUE(std::filesystem::exists(root / "dist" / word) ||
                std::filesystem::exists(root / word))
        << word;
    ++files;
  }
  EXPECT_GT(files, 15);
}

}  // namespace
}  // namespace gossamer
