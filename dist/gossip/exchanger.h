// The communication thread of one worker: lets the policy find partners (policy.h), exchanges with
// them (transfer.h), and follows who takes part (roster.h).
#pragma once

#include <atomic>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "gossamer/dist/gossip/policy.h"
#include "gossamer/dist/gossip/transfer.h"
#include "gossamer/dist/membership.h"
#include "gossamer/dist/quarantine.h"

namespace gossamer::dist {

class Exchanger {
 public:
  // early: events that came while this worker took over its state (rejoin.h); they are handled
  // first
  Exchanger(GossipState&, Group&, Membership&, const Graph&, const MethodOptions&,
            std::unique_ptr<PartnerPolicy>, std::vector<Event> early);
  // without finish(): says `bye`; the others go on without this worker
  ~Exchanger();
  void wake();  // the training thread did a gradient
  // Starts no more exchanges, answers those of others until all living workers have stopped too,
  // and ends the thread.
  void finish();

 private:
  void run();
  void loop();
  void turn();  // does what is due
  bool finished();
  void handle(const Event&);
  // a message for the roster or the sender of states; under the mutex
  void handle(int from, const Message&, double now);
  void follow(const Roster::Change&);
  void tell_all(const Message&);
  void judge();        // who is broken
  void adopt_graph();  // rates and constants of the graph without those that are gone
  void stop();
  void end_transfer();
  void flush();
  Now now();
  Seconds pause();  // until something is due by the clock
  void drain_sender();
  void send_sketch();
  void send_step_time(int peer);

  GossipState& state_;
  Group& group_;
  Membership& membership_;
  const Graph base_;
  Graph graph_;  // of those that are left
  const MethodOptions options_;
  ControlLink& link_;
  std::unique_ptr<PartnerPolicy> policy_;
  Transfer transfer_;
  Quarantine quarantine_;
  std::deque<Event> early_;
  std::optional<Event> arrived_;  // the payload has ended
  std::atomic<bool> stopping_ = false, abandoned_ = false;
  std::thread thread_;
};

}  // namespace gossamer::dist
