// What the program does with its standard streams: closed ones, full disks, names in process lists.

#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Terminal : public ProgramTest {
 protected:
  // Runs the program with what `change` does to its streams.
  Result with(const std::function<void()>& change, const std::vector<std::string>& arguments) {
    in_child = change;
    const Result r = run(arguments);
    in_child = nullptr;
    return r;
  }
  static void full(int fd) { dup2(open("/dev/full", O_WRONLY), fd); }
};

TEST_F(Terminal, ClosedStreamsAreNotTheNextFilesThatAreOpened) {
  for (const auto& closed : std::vector<std::vector<int>>{{1}, {0, 1, 2}, {2}}) {
    fs::remove_all(folder / "runs");
    const Result r = with(
        [&] {
          for (const int fd : closed) close(fd);
        },
        tiny({"--workers", "2"}));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(summary()["workers_at_end"], 2);
    for (const auto& file : fs::recursive_directory_iterator(folder / "runs"))
      if (file.path().extension() == ".lock")
        EXPECT_EQ(fs::file_size(file.path()), 0u) << read_text(file.path());
    if (closed.size() == 1 && closed[0] == 1)
      EXPECT_THAT(r.err, HasSubstr("the files are written"));
  }
}

TEST_F(Terminal, ACommandThatWritesFilesSucceedsWithoutAReader) {
  for (const auto& change : std::vector<std::function<void()>>{[] { full(1); }, [] { close(1); },
                                                               [] { full(1), full(2); }}) {
    fs::remove_all(folder / "runs");
    EXPECT_EQ(with(change, tiny({})).code, 0);
    EXPECT_TRUE(fs::exists(folder / "runs/t/model.safetensors"));
    for (const auto& command : std::vector<std::vector<std::string>>{
             {"report", "runs/t"},
             {"export", "runs/t/model.safetensors", "--to", "torch", "--out", "m.pth"},
             {"data", "pack", "s", "packed", "--shard-images", "50"}}) {
      fs::remove_all(folder / "packed");
      EXPECT_EQ(with(change, command).code, 0) << command[0];
    }
    EXPECT_TRUE(fs::exists(folder / "packed/val")) << "the second part, behind what was printed";
  }
}

TEST_F(Terminal, ACommandWhoseResultIsPrintedFailsWithoutAReader) {
  ASSERT_EQ(run(tiny({})).code, 0);
  const std::string model = "runs/t/model.safetensors";
  for (const auto& command :
       std::vector<std::vector<std::string>>{{"eval", model, "data.val=s/val"},
                                             {"eval", model, "data.val=s/val", "--json"},
                                             {"classify", model, "s/val"},
                                             {"classify", model, "s/val", "--json"},
                                             {"config"},
                                             {"graph", "ring", "16"},
                                             {"--help"}}) {
    for (const auto& change :
         std::vector<std::function<void()>>{[] { full(1); }, [] { close(1); }}) {
      const Result r = with(change, command);
      EXPECT_EQ(r.code, 6) << command[0] << r.err;
      EXPECT_THAT(r.err, HasSubstr("what was printed could not be written whole: "));
    }
    EXPECT_EQ(with([] { full(2); }, command).code, 0) << command[0];
  }
}

TEST_F(Terminal, NamesOfOthersDoNotSteerIt) {
  ASSERT_EQ(run(tiny({})).code, 0);
  const fs::path at = folder / "x\033[31m/c\033]0;t\007";
  fs::create_directories(at);
  for (const auto& file : fs::recursive_directory_iterator(folder / "s/val/"))
    if (file.path().extension() == ".jpg" && !fs::exists(at / "p\033[2J.jpg"))
      fs::copy_file(file.path(), at / "p\033[2J.jpg");
  write_text(at / "q\302\233.jpg", "no picture");
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"classify", "runs/t/model.safetensors", at.parent_path().string()},
           {"classify", "runs/t/model.safetensors", at.parent_path().string(), "--json"},
           {"data", "check", at.parent_path().string()},
           {"eval", "runs/t/model.safetensors", "data.val=" + at.parent_path().string()}}) {
    const Result r = run(command);
    EXPECT_THAT(r.out + r.err, AnyOf(HasSubstr("x1b"), HasSubstr("u001b"))) << command[0];
    for (const char* control : {"\033", "\007", "\302\233"})
      EXPECT_THAT(r.out + r.err, Not(HasSubstr(control))) << command[0];
  }
}

TEST_F(Terminal, ProcessesAreCalledGossamerAndSayTheirRank) {
  start(tiny({"train.epochs=50", slowed(2, 2), "--workers", "2"}));
  const auto pids = workers_at_work(2);
  ASSERT_EQ(pids.size(), 2u) << read_text(folder / "err");
  for (const auto& [rank, pid] : pids) {
    const std::string at = "/proc/" + std::to_string(pid);
    EXPECT_EQ(read_text(at + "/comm"), "gossamer\n");
    EXPECT_EQ(std::string(read_text(at + "/cmdline").c_str()), "gossamer:" + std::to_string(rank));
  }
  EXPECT_EQ(read_text("/proc/" + std::to_string(running) + "/comm"), "gossamer\n");
}

}  // namespace
}  // namespace gossamer::apps
