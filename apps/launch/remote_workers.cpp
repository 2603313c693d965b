// Workers of another machine, through ssh and `gossamer agent`.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include <sys/wait.h>

#include "gossamer/apps/launch/agent.h"
#include "gossamer/apps/launch/agent_reader.h"
#include "gossamer/apps/launch/host_workers.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kHeartbeat(5), kTimeToEnd(1);

// Asks no question at the terminal, and gives up a host that does not answer, at the start or
// later.
constexpr const char* kSsh =
    "ssh -T -oBatchMode=yes -oConnectTimeout=10 -oServerAliveInterval=15 -oServerAliveCountMax=4";

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> found;
  for (std::string word; in >> word;) found.push_back(word);
  return found;
}

// A text as one word for the shell of the other machine.
std::string quoted(const std::string& text) {
  if (text.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-") ==
      std::string::npos)
    return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

class RemoteWorkers final : public HostWorkers {
 public:
  RemoteWorkers(Host host, const std::string& ssh) : HostWorkers(std::move(host)) {
    Pipe in = make_pipe(), out = make_pipe(), err = make_pipe();
    Child child{.self = false,
                .arguments = words(ssh.empty() ? kSsh : ssh),
                .environment = {},
                .in = in.read.get(),
                .out = out.write.get(),
                .err = err.write.get(),
                .keep = {}};
    check<ConfigError>(!child.arguments.empty(),
                       "--ssh is empty; give a command, such as --ssh 'ssh -p 2222'");
    command_ = child.arguments[0];
    child.arguments.insert(
        child.arguments.end(),
        {host_.name, quoted(std::filesystem::read_symlink("/proc/self/exe").string()), "agent"});
    pid_ = spawn(child);
    commands_.emplace(std::move(in.write));
    events_.emplace(std::move(out.read));
    errors_.emplace(std::move(err.read));
  }
  // The agent kills its workers when its input ends.
  ~RemoteWorkers() override {
    begin_to_end();
    const auto until = Clock::now() + (lost_ ? Clock::duration(0) : kTimeToEnd);
    while (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0) {
      if (Clock::now() > until) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  void begin_to_end() override { commands_->close(); }

  void open_listeners(const std::vector<int>& ranks, bool only_here,
                      const std::string& peer) override {
    agent_.expect(ranks);
    send({{"do", "open"},
          {"protocol", kAgentProtocol},
          {"folder", std::filesystem::current_path().string()},
          {"host", host_.name},
          {"address", host_.address},
          {"ranks", ranks},
          {"only_here", only_here},
          {"peer", peer}});
  }
  void start(const WorkerStart& what) override {
    agent_.ordered(what.rank);
    send({{"do", "start"},
          {"rank", what.rank},
          {"arguments", what.arguments},
          {"environment", what.environment}});
  }
  void signal(int number) override { send({{"do", "signal"}, {"number", number}}); }

  void poll(std::vector<WorkerEvent>& events) override {
    if (lost_) return;
    commands_->flush();
    if (Clock::now() - last_sent_ > kHeartbeat) send({{"do", "nothing"}});
    int status = 0;
    std::string why;
    const bool ended = pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_;
    for (const std::string& line : errors_->take())
      events.push_back({WorkerEvent::Kind::output, -1, 2, line});
    for (const std::string& line : events_->take()) agent_.read(line, events);
    if (!events.empty()) {
      addresses_ = agent_.addresses();
      interface_ = agent_.interface();
    }
    if (ended) {
      pid_ = 0;
      why = command_ + " " + status_text(status);
    }
    if (!agent_.refusal().empty()) why = agent_.refusal();
    if (why.empty()) return;
    lost_ = true;
    commands_->close();
    events.push_back({WorkerEvent::Kind::lost, -1, 0, why});
    for (const int rank : agent_.live())
      events.push_back({WorkerEvent::Kind::ended, rank, SIGKILL, ""});
  }

  void descriptors(std::vector<int>& readable, std::vector<int>& writable) const override {
    readable.push_back(events_->descriptor());
    readable.push_back(errors_->descriptor());
    if (commands_->pending()) writable.push_back(commands_->descriptor());
  }

 private:
  void send(const Json& command) {
    last_sent_ = Clock::now();
    commands_->write(agent_line(command));
  }

  std::string command_;
  AgentReader agent_;
  pid_t pid_ = 0;
  std::optional<LineWriter> commands_;
  std::optional<LineReader> events_, errors_;
  Clock::time_point last_sent_ = Clock::now();
  bool lost_ = false;
};

}  // namespace

std::unique_ptr<HostWorkers> remote_workers(Host host, const std::string& ssh) {
  return std::make_unique<RemoteWorkers>(std::move(host), ssh);
}

}  // namespace gossamer::apps
