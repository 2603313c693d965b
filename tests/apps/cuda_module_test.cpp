// libgossamer-cuda.so.0: opened where there is no GPU; refused when it is another release's; and it
// shows nothing but its entries.
#include "gossamer/apps/cuda_module.h"

#include <cstdlib>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/core/cuda.h"

namespace gossamer::apps {
namespace {

using testing::HasSubstr;

const std::string kBuilt = fs::path(GOSSAMER_PROGRAM).parent_path();

class CudaModule : public ProgramTest {};

TEST_F(CudaModule, RunsTheProgram) {
  if (!cuda::built()) GTEST_SKIP() << "this build has no CUDA";
  std::string why;
  const auto run = reinterpret_cast<CommandLine>(
      cuda_module_function_of(kBuilt + "/libgossamer-cuda.so.0", kCudaCommandLine, why));
  ASSERT_NE(run, nullptr) << why;
  std::string words[] = {"gossamer", "graph", "ring", "8"};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  EXPECT_EQ(run(4, arguments), 0);
}

TEST_F(CudaModule, ShowsNothingButItsEntries) {
  if (!cuda::built()) GTEST_SKIP() << "this build has no CUDA";
  const std::string list = "nm -D --defined-only '" + kBuilt + "/libgossamer-cuda.so.0' > '" +
                           (folder / "names").string() + "'";
  ASSERT_EQ(std::system(list.c_str()), 0);
  std::istringstream lines(read_text(folder / "names"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_THAT(line, HasSubstr(" gossamer_cuda_"));
  EXPECT_EQ(count, 3);
}

TEST_F(CudaModule, OfAnotherReleaseIsRefused) {
  std::string why;
  EXPECT_EQ(cuda_module_function_of(kBuilt + "/libother_module.so", kCudaCommandLine, why),
            nullptr);
  EXPECT_THAT(why, HasSubstr("libother_module.so is of version 0.0.1, this is "));
  EXPECT_THAT(why, HasSubstr("install both from one release"));
}

TEST_F(CudaModule, ThatIsNoneIsNamed) {
  const fs::path file = folder / "libgossamer-cuda.so.0";
  write_text(file, "no library");
  std::string why;
  EXPECT_EQ(cuda_module_function_of(file, kCudaCommandLine, why), nullptr);
  EXPECT_THAT(why, HasSubstr(file.string()));
}

}  // namespace
}  // namespace gossamer::apps
