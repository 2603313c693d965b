// The communication thread of one worker: pairs (pairing.h), exchanges snapshots, applies the jumps, notices deaths.
#pragma once

#include <atomic>
#include <thread>

#include "gossamer/dist/gossip_state.h"
#include "gossamer/dist/membership.h"
#include "gossamer/dist/pairing.h"

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
  void follow_clock();                   // what is due is passed on to the pairing
  Seconds pause() const;                 // until something is due by the clock
  void flush();
  void handle(const Event&);
  void begin_exchange();
  void end_exchange(bool arrived);
  void bury(int peer, const std::string& why);
  void adopt_graph();                    // rates, constants and the Poisson clock of the graph without the dead

  GossipState& state_;
  Group& group_;
  Membership& membership_;
  const Graph base_;
  const MethodOptions options_;
  ControlLink& link_;
  Rng random_;
  Pairing pairing_;
  std::vector<bool> dead_, stopped_;
  bool exchanging_ = false, said_stop_ = false;
  double proposed_at_ = -1, stop_since_ = 0;
  std::uint32_t proposal_ = 0;

  Tensor send_, receive_;                // [size + 2]: a snapshot of x, then the progress (one double)
  Tensor own_, theirs_;                  // their first `size` elements
  double mark_ = 0, own_progress_ = 0, began_us_ = 0, began_ = 0;

  std::atomic<bool> stopping_ = false, abandoned_ = false;
  std::thread thread_;
};

}  // namespace gossamer::dist
