// The launcher behind --workers and --hosts: decides what is started, stopped, started again and
// reported. host_workers.h runs the processes.
#include "gossamer/apps/launch/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gossamer/apps/launch/host_workers.h"
#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/dist/net/grant.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/dist/net/launch_sources.h"
#include "gossamer/dist/net/token.h"

namespace gossamer::apps {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = WorkerEvent::Kind;
double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}
Clock::time_point in_seconds(double s) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

// The part of our environment that workers on other hosts need: settings of this program and of its
// libraries.
std::map<std::string, std::string> environment_to_pass_on() {
  std::map<std::string, std::string> passed;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e, name = entry.substr(0, entry.find('='));
    for (const char* prefix : {"GOSSAMER_", "DNNL_", "ONEDNN_"})
      if (name.starts_with(prefix) && name.size() < entry.size())
        passed[name] = entry.substr(name.size() + 1);
  }
  return passed;
}

class Supervisor {
 public:
  explicit Supervisor(const Launch& launch) : launch_(launch), hosts_(launch.hosts) {
    if (hosts_.empty())
      hosts_ = {Host{.name = "localhost", .slots = launch.workers, .address = "", .here = true}};
    for (const int h : place_workers(hosts_, launch.workers))
      workers_.push_back({.host = static_cast<std::size_t>(h)});
    hosts_.resize(workers_.back().host + 1);  // no worker is placed on the rest
  }

  ~Supervisor() {
    // All begin to end before the first is waited for.
    for (const auto& host : on_host_) host->begin_to_end();
    on_host_.clear();
    // More signals after the one that was obeyed would end this process with an exit code that says
    // less.
    while (stopped_by_ != 0 && signals_.next()) continue;
  }

  int run() {
    open_hosts();
    while (!stopped_by_ && !opened_all() && !over_) step();
    if (!stopped_by_ && !over_) {
      token_ = token();
      for (std::size_t rank = 0; rank < workers_.size(); ++rank)
        start(static_cast<int>(rank), false);
      // When all have ended, none is started again.
      while (!over_ && running() > 0) step();
    }
    print_events();
    if (cut_short_ && (not_saved_ || running() > 0)) {
      print(stderr, kKilledText);
      return kKilled;
    }
    if (stopped_by_ && error_ != 6)  // 6: saved, but not where it should be
      return 128 + (stopped_by_ == SIGHUP ? SIGTERM : stopped_by_);
    if (error_) return error_;
    if (finished_ > 0) return 0;
    say("no worker has finished, so the run has no result; if it wrote a checkpoint "
        "(run.checkpoint_every), go on from it with: gossamer train --resume DIR");
    return 5;
  }

 private:
  struct Worker {
    std::size_t host = 0;
    bool running = false, ready = false, finished = false;
    int restarts = 0;
    std::optional<Clock::time_point> again{};  // when it is started again
  };

  // ---- hosts
  bool one_host() const { return hosts_.size() == 1; }

  // An address under which host h reaches a host with other workers.
  std::string peer_of(std::size_t h) const {
    if (one_host()) return "127.0.0.1";
    const Host& other = hosts_[h == 0 ? 1 : 0];
    if (!other.address.empty()) return other.address;
    if (!other.here) return other.name;
    dist::LaunchInfo towards;
    towards.local = false;
    towards.host = hosts_[h].address.empty() ? hosts_[h].name : hosts_[h].address;
    return dist::bind_address(towards);
  }

  void open_hosts() {
    const char* const interface = std::getenv("GOSSAMER_INTERFACE");
    const char* const ssh = std::getenv("GOSSAMER_SSH");
    for (std::size_t h = 0; h < hosts_.size(); ++h) {
      Host host = hosts_[h];
      if (host.address.empty() && interface && !one_host()) host.address = interface;
      on_host_.push_back(
          host.here ? local_workers(host, false)
                    : remote_workers(host, launch_.ssh.empty() && ssh ? ssh : launch_.ssh));
      opened_.push_back(false);
      lost_.push_back(false);
      std::vector<int> ranks;
      for (std::size_t r = 0; r < workers_.size(); ++r)
        if (workers_[r].host == h) ranks.push_back(static_cast<int>(r));
      on_host_[h]->open_listeners(ranks, one_host(), peer_of(h));
    }
    late_ = in_seconds(launch_.connect_timeout_s);
    notice_ = in_seconds(std::min(10.0, launch_.connect_timeout_s / 2));
  }

  bool opened_all() {
    std::string missing;
    for (std::size_t h = 0; h < hosts_.size(); ++h)
      if (!opened_[h]) missing += (missing.empty() ? "" : ", ") + hosts_[h].name;
    if (missing.empty()) return true;
    if (Clock::now() > late_)
      fail<DistError>("no answer from ", missing, " within ", launch_.connect_timeout_s,
                      " s (dist.connect_timeout_s); does `ssh ",
                      missing.substr(0, missing.find(',')), "` work without a password?");
    if (Clock::now() > notice_) {
      say("waiting for " + missing);
      notice_ = in_seconds(10);
    }
    return false;
  }

  // Of a run that others may join: the one that they have, too.
  std::string token() const {
    if (launch_.places <= launch_.workers) return dist::new_token();
    dist::LaunchInfo place = dist::outside_info();
    place.size = launch_.workers;
    place.places = launch_.places;
    dist::read_host_port("worker 0", address(0), place.host, place.port);
    place.local = one_host();
    return dist::with_token(place, launch_.open).token;
  }

  // ---- workers
  void start(int rank, bool again) {
    Worker& w = workers_[static_cast<std::size_t>(rank)];
    HostWorkers& here = *on_host_[w.host];
    int local_rank = 0, local_size = 0;
    for (std::size_t r = 0; r < workers_.size(); ++r) {
      if (workers_[r].host != w.host) continue;
      if (static_cast<int>(r) < rank) ++local_rank;
      ++local_size;
    }
    std::map<std::string, std::string> e;
    if (!here.host().here) e = environment_to_pass_on();
    e["GOSSAMER_RANK"] = std::to_string(rank);
    e["GOSSAMER_WORLD"] = std::to_string(workers_.size());
    e["GOSSAMER_LOCAL_RANK"] = std::to_string(local_rank);
    e["GOSSAMER_LOCAL_WORLD"] = std::to_string(local_size);
    e["GOSSAMER_TOKEN"] = token_;
    e["GOSSAMER_GRANT"] = dist::new_identity(launcher_, static_cast<std::uint32_t>(rank),
                                             static_cast<std::uint32_t>(w.restarts));
    e["GOSSAMER_RENDEZVOUS"] = address(0);
    e["GOSSAMER_INTERFACE"] = "";
    if (!one_host()) {
      if (!here.interface().empty() && here.interface() != "0.0.0.0")
        e["GOSSAMER_INTERFACE"] = here.interface();
      e["GOSSAMER_HOSTS"] =
          listed(workers_, ",", [&](const Worker& other) { return hosts_[other.host].name; });
    }
    e["GOSSAMER_REJOIN"] = e["GOSSAMER_SEEDS"] = "";
    if (again) {
      std::string seeds;
      for (std::size_t r = 0; r < workers_.size(); ++r)
        if (workers_[r].running) seeds += (seeds.empty() ? "" : ",") + address(static_cast<int>(r));
      e["GOSSAMER_REJOIN"] = "1";
      e["GOSSAMER_SEEDS"] = seeds;
      // worker 0 may be the one that died
      e["GOSSAMER_RENDEZVOUS"] = seeds.substr(0, seeds.find(','));
    }
    w.running = true;
    w.ready = false;
    here.start({rank, launch_.arguments, e});
  }

  const std::string& address(int rank) const {
    return on_host_[workers_[static_cast<std::size_t>(rank)].host]->addresses().at(rank);
  }
  long running() const { return std::ranges::count(workers_, true, &Worker::running); }
  void signal_all(int number) {
    for (std::size_t h = 0; h < on_host_.size(); ++h)
      if (!lost_[h]) on_host_[h]->signal(number);
  }

  // ---- events
  void step() {
    while (const auto number = signals_.next())
      if (*number != SIGCHLD) asked_to_stop(*number);
    bool quiet = true;
    for (std::size_t h = 0; h < on_host_.size(); ++h) {
      std::vector<WorkerEvent> events;
      on_host_[h]->poll(events);
      for (const WorkerEvent& e : events) handle(h, e);
      quiet &= events.empty();
    }
    if (quiet) {
      std::vector<int> readable{signals_.descriptor()}, writable;
      for (const auto& host : on_host_) host->descriptors(readable, writable);
      wait_for(readable, writable, 0.5);
    }
    if (kill_at_ && Clock::now() > *kill_at_) {
      // A worker that is left after SIGKILL is out of reach. Its agent ends it when we are gone.
      if (killed_) over_ = true;
      kill_all();
    }
    if (finished_ > 0 && running() > 0 && !stopping() &&
        std::ranges::none_of(
            workers_, [](const Worker& w) { return w.running && (w.ready || w.restarts == 0); })) {
      note("the other workers have finished; those that were started again are too late");
      stop_all(5);
    }
    for (std::size_t r = 0; r < workers_.size(); ++r) {
      Worker& w = workers_[r];
      if (!w.again || Clock::now() < *w.again) continue;
      w.again.reset();
      if (stopping() || lost_[w.host] || running() == 0) continue;
      ++w.restarts;
      const auto asked = std::ranges::count(launch_.restart_at, static_cast<int>(r),
                                            &std::pair<int, double>::first);
      note(fmt::format("worker {} is started again ({} of {})", r, w.restarts,
                       launch_.restart + asked));
      start(static_cast<int>(r), true);
    }
  }

  void asked_to_stop(int number) {
    if (stopped_by_) {
      // The end of a session sends SIGHUP more than once, and after SIGTERM.
      if (number == SIGHUP || seconds_since(stopped_at_) < kSameStop_s) return;
      cut_short_ = true;
      return kill_all();
    }
    if (running() > 0)
      say(fmt::format("stopping {} workers (a second signal, later than {:g} s, kills them)",
                      running(), kSameStop_s));
    signal_all(number == SIGHUP ? SIGTERM : number);
    stopped_by_ = number;
    stopped_at_ = Clock::now();
  }
  void kill_all() {
    signal_all(SIGKILL);
    killed_ = true;
    kill_at_ = in_seconds(3);
  }
  // Called after an error of one worker that ends the whole run.
  void stop_all(double grace_s) {
    if (!std::exchange(stopping_, true)) signal_all(SIGTERM);
    if (!kill_at_) kill_at_ = in_seconds(grace_s);
  }
  bool stopping() const { return stopped_by_ != 0 || stopping_; }

  void handle(std::size_t h, const WorkerEvent& e) {
    switch (e.kind) {
      case Kind::opened:
        opened_[h] = true;
        break;
      case Kind::started:
        break;
      case Kind::ready: {
        Worker& w = workers_.at(static_cast<std::size_t>(e.rank));
        w.ready = true;
        if (!ready_since_ && std::ranges::all_of(workers_, &Worker::ready))
          ready_since_ = Clock::now();
        if (w.restarts > 0) note(fmt::format("worker {} takes part again", e.rank));
        break;
      }
      case Kind::output:
        pass_on(h, e);
        break;
      case Kind::lost:
        lost_[h] = true;
        check<DistError>(opened_[h], "cannot start workers on ", hosts_[h].name, ": ", e.text);
        if (!stopping()) note(fmt::format("host {} is lost: {}", hosts_[h].name, e.text));
        break;
      case Kind::ended:
        ended(e.rank, e.value);
        break;
    }
  }

  void ended(int rank, int status) {
    Worker& w = workers_.at(static_cast<std::size_t>(rank));
    w.running = false;
    if (cut_short_ && WIFSIGNALED(status)) not_saved_ = true;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (WIFEXITED(status) && code == 0) ++finished_, w.finished = true;
    // Who is ready has met all.
    const bool too_early = w.restarts == 0 && std::ranges::none_of(workers_, &Worker::ready);
    const bool again = !stopping() && !too_early && plan_restart(rank, status);
    // 5: it lost the others, which may well finish. Above 128: this worker alone was asked to stop.
    const bool serious = code != 0 && code != 5 && code < 128;
    if (serious && !again && error_ == 0) error_ = code;
    if (stopping() || w.finished) return;
    note(fmt::format("worker {} {}; {} still running", dist::worker_name(names(), rank),
                     status_text(status), running()));
    if (too_early && workers_.size() > 1) {
      if (error_ == 0) error_ = code ? code : 5;
      if (running() > 0) say("it had not met the other workers yet, so all are stopped");
      return stop_all(5);
    }
    // Bad data stops the run, not one worker.
    if (WIFEXITED(status) && code == 3) stop_all(60);
  }

  // Whether the worker that has just ended like this is started again, and when.
  bool plan_restart(int rank, int status) {
    Worker& w = workers_.at(static_cast<std::size_t>(rank));
    // 4: its device failed. 5: it lost the others.
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    const bool may_recover = WIFSIGNALED(status) || code == 4 || code == 5;
    if (!may_recover || finished_ > 0 || running() == 0) return false;
    const auto asked = std::ranges::find(restart_at_, rank, &std::pair<int, double>::first);
    if (asked != restart_at_.end() && ready_since_) {
      const auto when = *ready_since_ + std::chrono::duration_cast<Clock::duration>(
                                            std::chrono::duration<double>(asked->second));
      w.again = std::max(when, in_seconds(launch_.restart_after_s));
      restart_at_.erase(asked);
    } else if (w.restarts < launch_.restart) {
      w.again = in_seconds(launch_.restart_after_s);
    }
    return w.again.has_value();
  }

  // ---- messages
  dist::LaunchInfo names() const {
    dist::LaunchInfo info;
    if (!one_host())
      for (const Worker& w : workers_) info.hosts.push_back(hosts_[w.host].name);
    return info;
  }
  void note(const std::string& text) {
    say(text);
    events_.emplace_back(seconds_since(begin_), text);
  }
  void pass_on(std::size_t h, const WorkerEvent& e) const {
    std::string from;
    if (e.value != 1 || !launch_.json)
      from = e.rank < 0 ? fmt::format("[{}] ", hosts_[h].name)
                        : fmt::format("[{}:{}] ", hosts_[h].name, e.rank);
    print(e.value == 1 ? stdout : stderr, from + for_terminal(e.text) + "\n");
  }
  // If nobody reads it any more, the run goes on.
  static void print(std::FILE* out, const std::string& text) {
    std::fputs(text.c_str(), out);
    std::fflush(out);
  }
  void print_events() const {
    // Without restarts, each event was printed when it happened, which is enough.
    if ((launch_.restart == 0 && launch_.restart_at.empty()) || events_.empty()) return;
    print(stderr, "gossamer: events of this run\n");
    for (const auto& [time, text] : events_)
      print(stderr, fmt::format("  {:8.2f} s  {}\n", time, for_terminal(text)));
  }

  const Launch& launch_;
  std::vector<Host> hosts_;
  std::string token_;
  const dist::KeyPair launcher_ = dist::new_key_pair();  // signs who is which worker
  const Clock::time_point begin_ = Clock::now();
  std::vector<Worker> workers_;
  SignalInbox signals_;
  // destroyed first: no process outlives them
  std::vector<std::unique_ptr<HostWorkers>> on_host_;
  std::vector<bool> opened_, lost_;
  Clock::time_point late_, notice_;
  std::optional<Clock::time_point> kill_at_;
  std::vector<std::pair<double, std::string>> events_;
  std::vector<std::pair<int, double>> restart_at_ = launch_.restart_at;
  std::optional<Clock::time_point> ready_since_;
  int finished_ = 0, error_ = 0, stopped_by_ = 0;
  Clock::time_point stopped_at_;
  bool stopping_ = false, killed_ = false, over_ = false;
  bool cut_short_ = false, not_saved_ = false;  // by a second signal
};

}  // namespace

int supervise(const Launch& launch) { return Supervisor(launch).run(); }

}  // namespace gossamer::apps
