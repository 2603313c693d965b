// The harness itself, and the entry of worker processes.
#include "dist/net/harness.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

// Gloo's buffers wait in their destructor, by an atomic counter, until its thread has let go of
// them and of their memory. ThreadSanitizer does not see that in a library that was built without
// it.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:gloo::transport::tcp::\n"; }

namespace gossamer::dist::testing {
namespace {

std::map<std::string, Role>& roles() {
  static std::map<std::string, Role> all;
  return all;
}

}  // namespace

RegisterRole::RegisterRole(const char* name, Role role) { roles()[name] = role; }

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int listener(int* port) {
  const int s = gossamer::testing::bound_socket(port);
  EXPECT_EQ(listen(s, 64), 0);
  return s;
}

JoinOptions quick() {
  JoinOptions o;
  o.connect_timeout_s = 20;
  o.collective_timeout_s = 10;
  return o;
}

LaunchInfo place(int rank, int size, int port) {
  LaunchInfo info;
  info.rank = info.local_rank = rank;
  info.size = info.local_size = size;
  info.port = port;
  info.token = kToken;
  return info;
}

std::vector<std::string> on_threads(int size, const std::function<void(Group&)>& body,
                                    const JoinOptions& options) {
  const int port = free_port();
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        const auto group = process_group(place(r, size, port), options);
        body(*group);
      } catch (const std::exception& e) {
        errors[static_cast<std::size_t>(r)] = e.what();
      }
    });
  }
  for (auto& t : threads) t.join();
  return errors;
}

Worker::Worker(const std::string& role, const LaunchInfo& info, const std::string& network) {
  // Everything the child needs is ready before fork(): after it only exec.
  std::ostringstream spec_text;
  spec_text << role << " " << info.rank << " " << info.size << " " << info.port << " " << info.host
            << " " << info.local << " " << info.rejoin << " " << info.listener;
  for (const auto& seed : info.seeds) spec_text << " " << seed;
  const std::string spec = spec_text.str();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw DistError("pipe2");
  std::vector<std::string> environment = {"COMM_ROLE=" + spec,
                                          "COMM_PIPE=" + std::to_string(ends[1])};
  for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
  std::vector<char*> env;
  for (auto& e : environment) env.push_back(e.data());
  env.push_back(nullptr);
  char path[4096] = {};
  if (readlink("/proc/self/exe", path, sizeof path - 1) <= 0) throw DistError("readlink");
  std::string self = path, ip = "/usr/sbin/ip", netns = "netns", exec = "exec", name = network,
              filter = "--gtest_filter=Harness.DISABLED_RunsARole",
              all = "--gtest_also_run_disabled_tests", brief = "--gtest_brief=1";
  std::vector<char*> arguments;
  if (!network.empty()) arguments = {ip.data(), netns.data(), exec.data(), name.data()};
  for (auto* a : {&self, &filter, &all, &brief}) arguments.push_back(a->data());
  arguments.push_back(nullptr);
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  pid_ = fork();
  if (pid_ == 0) {
    fcntl(ends[1], F_SETFD, 0);
    if (info.listener >= 0) fcntl(info.listener, F_SETFD, 0);
    if (null >= 0) dup2(null, 1);
    execve(arguments[0], arguments.data(), env.data());
    _exit(127);
  }
  close(ends[1]);
  close(null);
  pipe_ = ends[0];
}

Worker::~Worker() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    wait();
  }
  close(pipe_);
}

void Worker::signal(int number) { kill(pid_, number); }

std::string Worker::line(double seconds) {
  const double until = now_s() + seconds;
  for (;;) {
    if (const auto end = buffer_.find('\n'); end != std::string::npos) {
      const std::string text = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return text;
    }
    pollfd p{pipe_, POLLIN, 0};
    const double left = until - now_s();
    if (left <= 0 || poll(&p, 1, static_cast<int>(left * 1000) + 1) <= 0) return "";
    char chunk[4096];
    const ssize_t n = read(pipe_, chunk, sizeof chunk);
    if (n <= 0) return "";
    buffer_.append(chunk, static_cast<std::size_t>(n));
  }
}

int Worker::wait() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) return -1;
  pid_ = -1;
  return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(Harness, DISABLED_RunsARole) {
  const char* spec = std::getenv("COMM_ROLE");
  const char* pipe = std::getenv("COMM_PIPE");
  ASSERT_TRUE(spec != nullptr && pipe != nullptr) << "only started by Worker";
  alarm(120);  // no worker outlives a test that died
  std::istringstream in(spec);
  std::string name;
  int rank = 0, size = 0, port = 0;
  in >> name >> rank >> size >> port;
  LaunchInfo info = place(rank, size, port);
  in >> info.host >> info.local >> info.rejoin >> info.listener;
  for (std::string seed; in >> seed;) info.seeds.push_back(seed);
  const int out = std::atoi(pipe);
  auto say = [out](const std::string& text) {
    const std::string with_end = text + "\n";
    if (write(out, with_end.data(), with_end.size()) < 0) _exit(3);
  };
  ASSERT_TRUE(roles().count(name)) << name;
  try {
    roles()[name](info, say);
    say("done");
  } catch (const std::exception& e) {
    say(std::string("error: ") + e.what());
    FAIL() << e.what();
  }
}

}  // namespace gossamer::dist::testing
