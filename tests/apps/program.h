// For the tests of the program: runs it as users do, in a folder of its own, and keeps what it
// said.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gossamer/core/io/safetensors.h"
#include "gossamer/data/formats/shapes.h"

namespace gossamer::apps {

namespace fs = std::filesystem;
using Json = nlohmann::json;

inline std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

struct Result {
  int code = -1;  // exit code, or 1000 + signal
  std::string out, err;
};

// A temporary folder with a small set of shapes (train 96, val 40) made once for all tests of the
// process.
class ProgramTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { shapes(); }
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "gossamer-apps-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    fs::create_symlink(shapes(), folder / "s");
  }
  void TearDown() override {
    for (const pid_t pid : {running, beside})
      if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
      }
    fs::remove_all(folder);
  }

  static const fs::path& shapes() {
    static const struct Made {
      fs::path path;
      Made() {
        std::string pattern = (fs::temp_directory_path() / "gossamer-shapes-XXXXXX").string();
        path = fs::path(mkdtemp(pattern.data())) / "s";
        data::make_shapes(path, {.train = 96, .val = 40, .size = 32, .threads = 1});
      }
      ~Made() { fs::remove_all(path.parent_path()); }
    } made;
    return made.path;
  }

  // Starts `program` in `folder`; its output goes to the files out and err there.
  pid_t start(const std::vector<std::string>& arguments,
              const std::vector<std::string>& environment = {}) {
    return running = start(arguments, environment, "");
  }
  // The same beside it: its output goes to out-beside and err-beside.
  pid_t start_beside(const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment = {}) {
    return beside = start(arguments, environment, "-beside");
  }
  pid_t start(const std::vector<std::string>& arguments,
              const std::vector<std::string>& environment, const std::string& suffix) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    if (chdir(folder.c_str()) != 0) _exit(99);
    const int out = open(("out" + suffix).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644),
              err = open(("err" + suffix).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(out, 1);
    dup2(err, 2);
    signal(SIGPIPE, SIG_DFL);
    if (in_child) in_child();
    for (const char* name : {"GOSSAMER_RANK", "RANK", "WORLD_SIZE", "SLURM_PROCID",
                             "OMPI_COMM_WORLD_RANK", "PMI_RANK"})
      unsetenv(name);
    for (const std::string& e : environment) putenv(const_cast<char*>(e.c_str()));
    std::vector<char*> argv{const_cast<char*>("gossamer")};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    execv(program.c_str(), argv.data());
    _exit(98);
  }
  // Seconds: long even for a program with sanitizers on a machine that has ten other things to do.
  static constexpr double kLimit = 500;
  // Process of each rank, once all have trained a few steps.
  std::map<int, pid_t> workers_at_work(int n) {
    for (int i = 0; i < static_cast<int>(kLimit * 50); ++i) {
      std::map<int, pid_t> pids;
      for (const Json& e : events("start")) pids[e["rank"]] = e["pid"];
      std::map<int, int> steps;
      for (const Json& e : events("step")) ++steps[e["rank"]];
      if (static_cast<int>(pids.size()) == n && static_cast<int>(steps.size()) == n &&
          std::ranges::all_of(steps, [](auto& s) { return s.second >= 3; }))
        return pids;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return {};
  }

  Result wait(double limit_s = kLimit) { return wait(running, "", limit_s); }
  Result wait_beside(double limit_s = kLimit) { return wait(beside, "-beside", limit_s); }
  Result wait(pid_t& pid, const std::string& suffix, double limit_s) {
    const fs::path out = folder / ("out" + suffix), err = folder / ("err" + suffix);
    int status = 0;
    for (int i = 0; i < static_cast<int>(limit_s * 50); ++i) {
      if (waitpid(pid, &status, WNOHANG) == pid) {
        pid = 0;
        return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), read_text(out),
                read_text(err)};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ADD_FAILURE() << "the program did not end within " << limit_s << " s; it said:\n"
                  << read_text(out) << read_text(err);
    return {};
  }
  Result run(const std::vector<std::string>& arguments,
             const std::vector<std::string>& environment = {}) {
    start(arguments, environment);
    return wait();
  }

  // A training run of seconds; later arguments win.
  static std::vector<std::string> tiny(std::vector<std::string> more) {
    std::vector<std::string> all{
        "train",          "data.train=s/train", "data.val=s/val",     "train.batch=8",
        "train.epochs=1", "train.threads=1",    "train.bn_batches=2", "train.device=cpu",
        "run.name=t",     "run.log_every=1",    "eval.every=0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // Steps of each of n workers take so many times as long, asleep: a run that is not over before
  // what it is started for, on any number of cores.
  static std::string slowed(int n, int factor) {
    std::string faults;
    for (int rank = 0; rank < n; ++rank)
      faults += (rank ? ",slow:rank=" : "slow:rank=") + std::to_string(rank) + ":x" +
                std::to_string(factor);
    return "dist.inject=" + faults;
  }

  // Lines of log.jsonl with this event.
  std::vector<Json> events(const std::string& event, const std::string& run = "t") const {
    std::vector<Json> found;
    std::istringstream log(read_text(folder / "runs" / run / "log.jsonl"));
    for (std::string line; std::getline(log, line);)
      if (Json e = Json::parse(line, nullptr, false); e.is_object() && e["event"] == event)
        found.push_back(e);
    return found;
  }
  // Waits until the log holds `count` events of the kind.
  bool wait_for(const std::string& event, std::size_t count, double limit_s = kLimit) {
    for (int i = 0; i < static_cast<int>(limit_s * 50); ++i) {
      if (events(event).size() >= count) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  // Names of a run's checkpoints, those by samples in their order.
  std::vector<std::string> checkpoints(const std::string& where = "runs/t") const {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& e : fs::directory_iterator(folder / where / "checkpoints", none))
      names.push_back(e.path().filename());
    std::ranges::sort(names);
    return names;
  }
  Json summary(const std::string& run = "t") const {
    return Json::parse(read_text(folder / "runs" / run / "summary.json"), nullptr, false);
  }

  // Byte-for-byte equality of all tensors of two files.
  static void expect_same_tensors(const fs::path& a, const fs::path& b) {
    const SafeTensors x = read_safetensors(a), y = read_safetensors(b);
    ASSERT_EQ(x.tensors.size(), y.tensors.size());
    ASSERT_GT(x.tensors.size(), 10u);
    for (const NamedTensor& t : x.tensors) {
      const Tensor* other = y.find(t.name);
      ASSERT_NE(other, nullptr) << t.name;
      EXPECT_EQ(std::memcmp(t.tensor.data(), other->data(), t.tensor.bytes()), 0) << t.name;
    }
  }

  fs::path folder, program = GOSSAMER_PROGRAM;
  pid_t running = 0, beside = 0;
  std::function<void()> in_child;  // called before the program is started
};

}  // namespace gossamer::apps
