// The communication thread of one worker: lets the policy find partners, exchanges with them
// (exchanger.cpp), notices deaths and returns, stops with the others (gossip_members.cpp).
#pragma once

#include <atomic>
#include <deque>
#include <thread>

#include "gossamer/dist/gossip/transfer.h"
#include "gossamer/dist/membership.h"

namespace gossamer::dist {

class Exchanger {
 public:
  // early: events that came while this worker took over its state (rejoin.h); nullptr: it was there
  // from the beginning.
  Exchanger(GossipState&, Group&, Membership&, const Graph&, const MethodOptions&,
            const std::vector<Event>* early = nullptr);
  // without finish(): says goodbye to the others, who then go on without this worker
  ~Exchanger();
  void wake();  // the training thread did a gradient
  // Starts no more exchanges, answers those of others until all living workers have stopped too,
  // and ends the thread.
  void finish();

 private:
  void run();
  void loop();
  bool finished();
  void turn();  // does what is due
  Now now();
  Seconds pause();  // until something is due by the clock
  void flush();
  void handle(const Event&);
  void handle(int peer, const Message&);
  void end_transfer();
  void settle_giver();

  // What this worker knows of another.
  struct Peer {
    bool dead = false;
    bool returning = false;   // connected again; its `back` has not come yet
    double said_back_at = 0;  // ours
    // trains no more; the set of workers that it counts as alive then
    std::optional<std::uint32_t> stopped;
    std::optional<Message> waiting;  // its `back`, until our state has been sent to it
  };
  Peer& peer(int rank) { return peers_.at(static_cast<std::size_t>(rank)); }
  // under the mutex
  Account& account(int rank) { return state_.accounts.at(static_cast<std::size_t>(rank)); }
  void come_back(const std::vector<Event>& early);
  void bury(int peer, const std::string& why);
  // says that this worker takes part; fresh: started again
  void greet(int peer, bool fresh = false);
  void returned(int peer, const Message& back);
  void welcome(int peer, const Message& back);
  void meet_again(int peer);  // both forget what was under way between them
  void say_stopped();
  void adopt_graph();  // rates and constants of the graph without the dead
  std::vector<bool> dead() const;
  std::string missing() const;  // who trains on; empty: nobody
  // all that are alive have stopped, and count the same workers as alive
  bool agreed();

  GossipState& state_;
  Group& group_;
  Membership& membership_;
  const Graph base_;
  const MethodOptions options_;
  ControlLink& link_;
  std::unique_ptr<PartnerPolicy> policy_;
  Transfer transfer_;
  std::vector<Peer> peers_;
  // names the set of those alive; as said at the stop
  std::uint32_t members_ = 0, said_members_ = 0;
  std::deque<Event> early_;
  std::optional<bool> arrived_;  // the payload has ended: whether it came whole
  bool said_stop_ = false, came_back_ = false;
  double stop_since_ = 0, said_stop_at_ = 0, differ_since_ = -1;

  std::atomic<bool> stopping_ = false, abandoned_ = false;
  std::thread thread_;
};

}  // namespace gossamer::dist
