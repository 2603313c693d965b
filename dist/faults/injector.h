// Carries out what inject.h describes, for one worker: it kills, stops and slows this one, and
// knows which of its edges are disturbed now.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/dist/faults/inject.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class Injector {
 public:
  struct Actions {
    // must not return, or this worker must stop by itself
    std::function<void()> kill;
    std::function<void(double seconds)> stop;          // returns when the worker goes on
    std::function<void(const std::string& what)> say;  // just before each; may be empty
  };
  // again: this worker was started again, after a death that may have been one of these: what has a
  // beginning (@) is left out.
  Injector(const std::vector<Injection>&, int rank, Actions, bool again = false);
  ~Injector();

  void start();  // time 0; until then nothing happens
  // The training thread has computed gradient `step` (0, 1 …): may kill, stop or sleep. Time spent
  // in here or between after_step() and the next gradient's begin is not the worker's own, so slow
  // does not stretch it. stopping: asked while it sleeps; true wakes it.
  void before_step(
      i64 step, FunctionRef<bool()> stopping = [] { return false; });
  void after_step();  // the method has taken the gradient: the next one begins

  // Of the edge to `peer`, now. Any thread.
  bool cut(int peer) const;
  double delay(int peer) const;        // seconds; 0: none
  double drop(int peer) const;         // probability
  double next_change(double t) const;  // when a cut begins or ends next, after t; infinity: never
  double now() const;                  // seconds since start(); below 0 before
  // The lie that this worker tells now.
  std::optional<Attack> lie() const;
  bool disturbs_links() const;

 private:
  bool running(std::size_t k, double t) const;
  void act(const Injection&);
  void watch();  // the timer thread: kill and stop at a time

  const std::vector<Injection> all_;
  const int rank_;
  const Actions actions_;
  // seconds since start(); infinity: its step was not reached yet
  std::vector<std::atomic<double>> begins_;
  std::atomic<double> origin_;
  double step_began_ = 0;  // training thread

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread timer_;
};

// For a worker that is a process of its own: SIGKILL; SIGSTOP, and SIGCONT from a helper process
// (all threads of this one stand still).
Injector::Actions process_actions(std::function<void(const std::string&)> say);

// `inner` as it looks from this worker when its edges are disturbed: messages and exchanges are
// lost, late or cut off. A cut holds them back; if it lasts for `dead_after`, they are lost, the
// other counts as dead, and has joined again shortly after the end. An exchange under way comes
// through. Collectives pass: a cut shows in alive(). Both must outlive it.
// A worker that lies sends something else than it is given: what attack.h says, of the models that
// it was sent last and its own. ConfigError where they do not travel in f32.
std::unique_ptr<Group> disturbed(Group& inner, const Injector&, std::uint64_t seed,
                                 Seconds dead_after);

}  // namespace gossamer::dist
