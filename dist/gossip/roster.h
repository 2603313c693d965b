// The workers of a run as one of them knows them: who is alive, lost, coming back or done, how much
// all have done together, and when the run ends for everybody. A pure state machine, as Pairing is:
// events in; messages and changes out. It owns no clock, socket, thread or lock, so a test can walk
// through every order of events of a small network.
//
// Members. The link reports every loss of a worker and every new connection. A worker that is
// connected again is a member from its message `back` on. There are two kinds. One was started
// again with a neighbour's state (rejoin.h), or came so into a place that was free. The other was
// frozen or cut off and goes on with its own state: for it, the others were lost and come back.
// Both sides send `back` until they have heard the other's.
//
// Progress. Each worker has a number q: +1 with each own gradient (of a constant batch of all: with
// each batch of it), averaged with the partner's at each exchange. The sum of all q is the number
// of gradients done, so (members) * q estimates it anywhere. A lost worker takes its q with it,
// about as large as ours at that moment. That share is kept in `beyond`, because the gradients have
// been used, and comes off it when the worker is back. `beyond` is averaged as q is; between two
// workers that count different members neither is.
//
// The end. A worker that trains no more sends `stopped` with the name of its set of members, again
// when the set changes. The run has ended when all members have sent it with one and the same set,
// and nobody is coming back: then all of them meet in the same collectives. A member that has left
// already says nothing more; a loss after that is a matter of the collectives (membership.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/dist/transport.h"

namespace gossamer::dist {

// What travels with a snapshot. progress: the sender's q, NaN when it is complete; members: the
// name of its set of members.
struct Progress {
  double progress = 0, beyond = 0, members = 0;
};

// What one worker knows of the progress of another that is no sign of gradients.
struct Account {
  // the q that it is thought to have taken along when it was lost; -1: it is a member
  double share = -1;
  // it was started again with another's q: how much larger that was than its own had been, over
  // all its lives
  double taken_over = 0;
};

// How much all have done, as one worker counts it.
struct Count {
  double progress = 0;  // its q
  double gradients_of_all = 0;
  std::vector<Account> accounts;  // by rank; its own holds what it took over
};

class Roster {
 public:
  // progress: the q of a resumed run; stop_limit: seconds that others may go on training after this
  // worker has stopped; started: the ranks below it are members, the other places are free (-1: all
  // are members)
  Roster(int self, int workers, double progress = 0, double stop_limit = 600, int started = -1);
  // This worker was started again, or joins, with the state of a neighbour that counted `count`.
  // The members are those that the link reaches.
  void start_again(const Count& count, const std::vector<bool>& reached, double now);

  // --- progress
  void gradient(i64 batches = 1) { progress_ += static_cast<double>(batches); }
  // Training is over: q stays as it is from now on, or a partner would stop too early because of
  // it.
  void complete() { complete_ = true; }
  bool is_complete() const { return complete_; }
  Progress progress() const;
  // An exchange was applied. own, theirs: progress() of both sides when the snapshots were taken.
  void average(const Progress& own, const Progress& theirs);
  double gradients_of_all() const { return beyond_ + alive_ * progress_; }
  Count count() const;

  // --- events; now: seconds, from any origin
  void lost(int peer, const std::string& why);
  void joined(int peer, double now);                   // connected again
  void receive(int peer, const Message&, double now);  // back, stopped, bye; others change nothing
  void stop(double now);                               // this worker starts no more exchanges
  void advance(double now);                            // time has passed

  // --- results
  struct Change {
    // lost: a member no more. returned: a member again. reset: it lost us, we did not lose it; both
    // forget what was under way between them. stopped: it starts no more exchanges. left: the run
    // has ended for it, as planned.
    enum class Kind : std::uint8_t { lost, returned, reset, stopped, left } kind;
    int peer;
    std::string why{};  // lost: "dead" or "left"
  };
  std::vector<Change> take_changes() { return std::exchange(changes_, {}); }
  std::vector<std::pair<int, Message>> take_messages() { return std::exchange(outbox_, {}); }
  bool member(int worker) const { return !gone_[static_cast<std::size_t>(worker)]; }
  const std::vector<bool>& gone() const { return gone_; }  // by rank
  int alive() const { return alive_; }                     // members, this worker included
  bool stopping() const { return stop_since_.has_value(); }
  // All members have stopped and count the same members; or they still differ after a while.
  // DistError: some train on long after this worker is done.
  bool ended(double now);
  std::vector<std::uint32_t> fingerprint() const;  // of members and the end, for the checker

 private:
  struct Peer {
    bool returning = false;  // connected again; its `back` has not come yet
    double said_back_at = 0;
    std::optional<std::uint32_t> stopped;  // the set that it said
    bool left = false;                     // the run has ended for it, with that set
    Account account;
  };
  Peer& peer(int rank) { return peers_.at(static_cast<std::size_t>(rank)); }
  void say_back(int to, double now, bool fresh = false);
  void say_stopped(double now);
  void heard_back(int from, const Message&, double now);
  void set_member(int rank, bool member, double gradients_of_all);
  std::vector<int> training() const;  // the members that have not stopped

  int self_;
  double stop_limit_;
  std::vector<Peer> peers_;
  std::vector<bool> gone_;
  int alive_;
  std::uint32_t members_ = 0;  // the name of the set
  double progress_, beyond_ = 0;
  bool complete_ = false;
  // the end: since when this worker has stopped; what it said last; since when the sets differ
  std::optional<double> stop_since_, differ_since_;
  std::uint32_t said_members_ = 0;
  double said_stopped_at_ = 0;
  std::vector<std::pair<int, Message>> outbox_;
  std::vector<Change> changes_;
};

}  // namespace gossamer::dist
