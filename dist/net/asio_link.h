// ControlLink between processes: one TCP connection to every other worker, one thread that reads,
// writes, sends heartbeats, notices deaths and mends what was lost. Private to dist/.
//
// Two kinds of death: the kernel closes the connection of a process that ended (noticed within
// milliseconds); a process that is frozen, or whose host or cable is gone, is given up after
// `dead_after_s` without a heartbeat. Of the two sides of a lost connection the higher rank dials
// the other's door until it answers, and after a while the lower rank, too, since maybe only one of
// them can reach the other; then both post Event{joined}, and nothing is left of the old
// connection: what was still under way there is dropped. A process that was started again asks any
// worker for the table of addresses and dials all.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/dist/net/launch.h"
#include "gossamer/dist/net/stream.h"
#include "gossamer/dist/net/tls.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class AsioLink final : public ControlLink {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::uint64_t kSideMessage = 0x6c657474657221ull;

  // Returns when all workers have met; with LaunchInfo::rejoin, when one of those that go on has
  // answered and all it knows of were dialed. DistError names the missing workers.
  AsioLink(const LaunchInfo&, const JoinOptions&);
  // takes leave: the others get Event{dead, why = "left"}
  ~AsioLink() override;

  void send(int peer, const Message&) override;
  Event next(Seconds timeout) override;
  void post(Event) override;
  bool alive(int peer) const override;
  std::optional<double> notice(Notice, int peer) const override;
  // from the stamps on heartbeats
  std::optional<ClockEstimate> clock_offset(int peer, double at_us) const override;

  int rank() const;
  int size() const;                         // places
  int started() const;                      // workers that began together
  std::vector<int> alive() const;           // this worker included
  std::string why_dead(int peer) const;     // empty while it lives
  std::string given_up_by(int peer) const;  // as Group::given_up_by()
  std::string given_up() const;             // why this worker is out; empty while it is a member
  Seconds dead_after() const;               // a silent worker is given up
  std::string local_address() const;
  int refused() const;                     // strangers turned away
  std::uint64_t arrivals(int peer) const;  // how often it has come
  // For payload connections among these workers, which may include this one: how they encrypt.
  MemberKeys keys(const std::vector<int>& ranks) const;
  // a number that both ends know and nobody else; another one for each connection
  std::uint64_t connection(int peer) const;
  // Of this worker in that connection. The caller calls for payload, too: the other way round a
  // firewall may stand, or NAT.
  Side side(int peer) const;

  // Small bytes for one peer, e.g. addresses of payload connections. arrival: dropped unless the
  // peer is still there since then; 0: any.
  void put(int peer, std::uint64_t key, const std::vector<char>& value, std::uint64_t arrival = 0);
  // Waits for what `peer` put under `key`. nullopt: time is up, the peer is dead, or `stop` became
  // true (followed by interrupt()).
  std::optional<std::vector<char>> take(int peer, std::uint64_t key, TimePoint until,
                                        const std::atomic<bool>& stop);
  // The same of whichever of these peers put something first: its rank, and what. nullopt also when
  // one of them is dead.
  std::optional<std::pair<int, std::vector<char>>> take_any(const std::vector<int>& peers,
                                                            std::uint64_t key, TimePoint until,
                                                            const std::atomic<bool>& stop);
  void interrupt();

  // Tells a peer: "The exchange `session` failed on my side, and I closed the payload edge that was
  // opened in session `opened`."
  void reset_edge(int peer, std::uint64_t session, std::uint64_t opened, std::uint64_t arrival);

  // Tells a peer: "An operation of the collectives `key` failed on my side." late: others did not
  // come in time.
  void end_collectives(int peer, std::uint64_t key, bool late);

  // Which collective operation this worker has entered; rides on heartbeats, so that a time-out can
  // name the workers that did not come.
  void set_mark(std::uint64_t);
  std::uint64_t mark(int peer) const;

  // Called on the link's thread; must be quick. Empty functions: nobody is called any more.
  struct Hooks {
    std::function<void(int peer, const std::string& why)> dead;  // our own rank: this worker is out
    // somebody has come (-1), or it is said that this worker was admitted
    std::function<void(int rank)> joined;
    // reset_edge() of a peer
    std::function<void(int peer, std::uint64_t session, std::uint64_t opened)> reset;
    // end_collectives() of a peer
    std::function<void(int peer, std::uint64_t key, bool late)> collectives_ended;
    // put() of a peer under kSideMessage: every one of them, in order
    std::function<void(int peer, std::span<const char>)> message;
  };
  void on_events(Hooks);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::dist
