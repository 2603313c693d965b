// What is behind AsioLink: its peers and its thread. Private to asio_link*.cpp.
#pragma once

#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/steady_timer.hpp>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "gossamer/dist/clock_offset.h"
#include "gossamer/dist/net/asio_link.h"
#include "gossamer/dist/net/dial.h"
#include "gossamer/dist/net/event_queue.h"
#include "gossamer/dist/net/rendezvous.h"

namespace gossamer::dist {

// How long a worker that comes to a running job waits for all that live: for those, too, who can
// only call it.
constexpr auto kMeetTime = 3 * kTurn;

struct AsioLink::Impl {
  using Clock = std::chrono::steady_clock;
  struct Peer {
    explicit Peer(asio::io_context& io) : retry(io) {}
    // Used on the link's thread only.
    std::shared_ptr<Connection> link;  // null: there never was one
    wire::Address address;             // of its door; port 0: not known
    std::uint64_t life = 0;            // of its process; 0: not known
    Clock::time_point heard, connected;
    // silence counts from the first heartbeat on: until then it may still be joining
    bool beats = false;
    bool lost = false;  // dead, but maybe only for us: silent, or it gave us up
    // this worker was started again: it dials, whatever the ranks, until it is let in
    bool seek = false;
    bool untried = false;  // not dialed to an end since
    // rejoin: a worker of the table that lives, and was not met yet
    bool unmet = false;
    bool newcomer = false;  // it came while the job was running
    std::shared_ptr<Dial> dial;
    asio::steady_timer retry;
    Clock::duration patience{};  // until the next dial
    // Any thread.
    std::atomic<bool> alive{false};
    std::atomic<std::uint64_t> mark{0}, arrivals{0}, id{0};
    std::atomic<Side> side{Side::caller};  // ours
    struct Largest {
      std::atomic<double> value{-INFINITY};
    };
    std::array<Largest, kNotices> notices;
    ClockOffset clock;
    std::optional<Grant> grant;
    std::string why;         // guarded by mutex, as the next three
    PublicKey key{};         // of its process; all zero: not known
    std::string gave_us_up;  // why; empty: it never has
    std::map<std::uint64_t, std::vector<char>> kept;
  };

  const LaunchInfo info;
  const JoinOptions options;
  const Seconds dead_after, heartbeat;
  const std::uint64_t life;
  const std::optional<Identity> granted;  // by our launcher
  const Credentials credentials;
  asio::ip::address bind;  // of ours; unspecified: the kernel's choice
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  asio::steady_timer timer{io};
  std::vector<std::unique_ptr<Peer>> peers;
  std::shared_ptr<Door> door;
  EventQueue events;
  std::atomic<std::uint64_t> own_mark{0};
  std::atomic<bool> dropped{false}, begun{false};  // begun: there was an operation of all

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::string dropped_why, local_address;
  std::string seek_error;  // rejoin: why nobody has answered yet
  // rejoin: how many of the table have not been dialed to an end yet
  int untried = 0;
  bool have_table = false;
  std::vector<int> unmet;  // rejoin: those of the table that live, and that it has not met
  bool taken = false;      // rejoin: another process has our place
  std::atomic<bool> takes_part{false};  // rejoin: it has found the others

  std::mutex hooks_mutex;
  Hooks hooks;

  Clock::time_point last_tick = Clock::now();  // link's thread, as the rest
  // the end of the last time when this process stood still for longer than dead_after
  std::optional<Clock::time_point> thawed;
  std::optional<Clock::time_point> alone_since;
  std::vector<asio::ip::tcp::endpoint> seeds;
  std::size_t next_seed = 0;
  std::shared_ptr<Dial> seeking;
  bool leaving = false;
  std::thread thread;

  Impl(const LaunchInfo&, const JoinOptions&);
  Peer& peer(int rank) const;  // DistError when there is no such one
  wire::Frame frame(wire::Kind, std::uint64_t key = 0) const;
  int size() const { return static_cast<int>(peers.size()); }  // places
  // Whether this rank is a place for a worker that joins later.
  bool is_spare(int rank) const { return rank >= info.size; }
  template <class F>
  void for_peers(F f) const {
    for (int r = 0; r < size(); ++r)
      if (r != info.rank) f(r, *peers[static_cast<std::size_t>(r)]);
  }
  bool nobody_alive() const;

  // asio_link_thread.cpp: frames, heartbeats, deaths.
  void start();
  void listen(int rank);
  bool receive(int rank, Peer&, const wire::Frame&, const wire::Bytes& payload);
  void closed(int rank, const std::string& why);
  void mark_dead(int rank, const std::string& why, bool lost);
  void mark_given_up(int rank, const std::string& why);
  // To who waits in collectives that are being built; rank: who takes part now, -1: not known yet.
  void say_joined(int rank);
  void mark_dead_gently(int rank, const std::string& why);
  void give_up(const std::string& why);
  void end(const std::string& why);
  void schedule();
  void tick();
  void note_stop(Clock::time_point now);
  void leave();

  // asio_link_heal.cpp: workers that come, and come back.
  void meet_all();
  void rejoin();
  void ask_a_seed();
  void learn(const wire::Bytes& table);
  void learn_of_newcomers(const std::vector<wire::Address>&);
  void note_unmet();
  void arrived(const wire::Frame& hello, const std::shared_ptr<Connection>&, std::uint64_t id);
  std::string objection(const wire::Frame& hello, const Connection&) const;
  bool may_follow(int rank, const Connection&) const;
  bool is_replaced(const wire::Bytes& proof) const;
  void tell_replaced(int rank, Connection&) const;
  void tell_about(Connection&) const;
  void say_taken();
  bool belongs_to_the_next_job(const wire::Frame& hello) const;
  void adopt(int rank, const std::shared_ptr<Connection>&, std::uint64_t id,
             std::uint64_t life_of_peer, Side);
  void dial_later(int rank, Clock::duration);
  void dial(int rank);
  void answered(int rank, const Answer&);
  void tried(int rank);
  wire::Bytes table() const;
};

}  // namespace gossamer::dist
