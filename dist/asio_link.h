// ControlLink between processes: one TCP connection to every other worker, one thread that reads, writes, sends heartbeats and
// notices deaths. Private to dist/.
//
// Two kinds of death: the kernel closes the connection of a process that ended (noticed within milliseconds); a process that is
// frozen, or whose host or cable is gone, is given up after `dead_after_s` without a heartbeat and told so. A worker that finds
// out that it was given up, e.g. when it is continued after SIGSTOP, is no member any more: next() and the collectives throw
// DistError.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/dist/launch.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class AsioLink final : public ControlLink {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  AsioLink(const LaunchInfo&, const JoinOptions&);  // returns when all workers have met; DistError names who is missing
  ~AsioLink() override;                             // takes leave: the others get Event{dead, why = "left"}

  void send(int peer, const Message&) override;
  Event next(Seconds timeout) override;
  void post(Event) override;
  bool alive(int peer) const override;
  std::optional<ClockEstimate> clock_offset(int peer, double at_us) const override;      // from the stamps on heartbeats
  void connect(const std::vector<int>& peers, Seconds deadline) override;  // all are connected: throws for those that are dead

  int rank() const;
  int size() const;
  std::vector<int> alive() const;        // this worker included
  std::string why_dead(int peer) const;  // empty while it lives
  std::string given_up() const;          // why the others dropped this worker; empty while it is a member
  std::string local_address() const;
  int refused() const;  // strangers turned away while workers met

  // Small bytes for one peer, e.g. addresses of payload connections.
  void put(int peer, std::uint64_t key, const std::vector<char>& value);
  // Waits for what `peer` put under `key`. nullopt: time is up, the peer is dead, or `stop` became true (followed by
  // interrupt()).
  std::optional<std::vector<char>> take(int peer, std::uint64_t key, TimePoint until, const std::atomic<bool>& stop);
  void interrupt();

  // Tells a peer: "The exchange `session` failed on my side, and I closed the payload edge that was opened in session `opened`."
  void reset_edge(int peer, std::uint64_t session, std::uint64_t opened);

  // Which collective operation this worker has entered; rides on heartbeats, so that a time-out can name who did not come.
  void set_mark(std::uint64_t);
  std::uint64_t mark(int peer) const;

  // Called on the link's thread; must be quick. on_reset: reset_edge() of a peer. Empty functions: nobody is called any more.
  void on_events(std::function<void(int peer, const std::string& why)> on_dead,
                 std::function<void(int peer, std::uint64_t session, std::uint64_t opened)> on_reset);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::dist
