// The communication thread of one worker: lets the policy find partners, exchanges with them, notices deaths, stops with the others.
#pragma once

#include <atomic>
#include <thread>

#include "gossamer/dist/gossip_transfer.h"
#include "gossamer/dist/membership.h"

namespace gossamer::dist {

class Exchanger {
 public:
  Exchanger(GossipState&, Group&, Membership&, const Graph&, const MethodOptions&);
  ~Exchanger();                          // without finish(): says goodbye to the others, who then go on without this worker
  void wake();                           // the training thread did a gradient
  // Starts no more exchanges, answers those of others until all living workers have stopped too, and ends the thread.
  void finish();

 private:
  void run();
  void loop();
  bool finished() const;
  void turn();                           // does what is due
  void stop();
  Now now();
  Seconds pause();                       // until something is due by the clock
  void flush();
  void handle(const Event&);
  void end_transfer();
  void bury(int peer, const std::string& why);
  void adopt_graph();                    // rates and constants of the graph without the dead

  GossipState& state_;
  Group& group_;
  Membership& membership_;
  const Graph base_;
  const MethodOptions options_;
  ControlLink& link_;
  std::unique_ptr<PartnerPolicy> policy_;
  Transfer transfer_;
  std::vector<bool> dead_, stopped_;
  std::optional<bool> arrived_;          // the payload has ended: whether it came whole
  bool said_stop_ = false;
  double stop_since_ = 0;

  std::atomic<bool> stopping_ = false, abandoned_ = false;
  std::thread thread_;
};

}  // namespace gossamer::dist
