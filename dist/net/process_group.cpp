// Puts control link, payload and collectives together, and carries deaths from the first to the
// other two.
#include "gossamer/dist/net/process_group.h"

#include <mutex>

#include "gossamer/core/error.h"
#include "gossamer/dist/net/asio_link.h"
#include "gossamer/dist/net/event_queue.h"
#include "gossamer/dist/net/gloo_collectives.h"
#include "gossamer/dist/net/process_payload.h"

namespace gossamer::dist {
namespace {

struct SoloLink final : ControlLink {
  EventQueue events;
  void send(int peer, const Message&) override {
    fail<DistError>("a worker alone cannot send to worker ", peer);
  }
  Event next(Seconds timeout) override { return events.pop(timeout); }
  void post(Event e) override { events.push(std::move(e)); }
  bool alive(int peer) const override { return peer == 0; }
};

struct SoloPayload final : Payload {
  void exchange(int peer, std::uint64_t, const Tensor&, const Tensor&, std::span<const char>,
                Seconds) override {
    fail<DistError>("a worker alone cannot exchange with worker ", peer);
  }
  void abort(int, std::uint64_t) override {}
  void drain(Seconds) override {}
};

struct SoloCollectives final : Collectives {
  void all_reduce_sum(const Tensor&) override {}
  void all_reduce_sum(std::span<double>, Seconds) override {}
  void broadcast(const Tensor&, int root) override {
    check<DistError>(root == 0, "broadcast from worker ", root, " in a group of one");
  }
  void all_gather(const Tensor& own, const Tensor& all) override { copy(own, all); }
  void all_to_all(const Tensor& from, const Tensor& to) override { copy(from, to); }
  void barrier() override {}
  int members() const override { return 1; }

 private:
  static void copy(const Tensor& from, Tensor to) { to.copy_from(from.reshape(to.shape())); }
};

struct SoloGroup final : Group {
  SoloLink link;
  SoloPayload bulk;
  SoloCollectives together;
  int rank() const override { return 0; }
  int size() const override { return 1; }
  ControlLink& control() override { return link; }
  Payload& payload() override { return bulk; }
  Collectives& collectives() override { return together; }
  void rebuild(const std::vector<int>&, std::uint32_t, Seconds) override {}
  Seconds collective_limit() const override { return Seconds(0); }
  std::vector<int> alive() const override { return {0}; }
};

#ifdef GOSSAMER_HAS_GLOO
// Messages ride on the control connections.
class LinkSideChannel final : public SideChannel {
 public:
  explicit LinkSideChannel(AsioLink& link) : link_(link) {}
  void send(int peer, std::span<const char> message) override {
    link_.put(peer, AsioLink::kSideMessage, {message.begin(), message.end()});
  }
  void on_events(Handlers handlers) override {
    std::lock_guard lock(mutex_);
    handlers_ = std::move(handlers);
  }
  void message(int peer, std::span<const char> bytes) {
    std::lock_guard lock(mutex_);
    if (handlers_.message) handlers_.message(peer, bytes);
  }
  void dead(int peer) {
    std::lock_guard lock(mutex_);
    if (handlers_.dead) handlers_.dead(peer);
  }

 private:
  AsioLink& link_;
  std::mutex mutex_;
  Handlers handlers_;
};

class ProcessGroup final : public Group {
 public:
  ProcessGroup(const LaunchInfo& info, const JoinOptions& options)
      : limit_(options.collective_timeout_s),
        link_(info, options),
        payload_(link_, options.read_memory),
        side_channel_(link_),
        collectives_(link_, limit_) {
    link_.on_events(
        {.dead =
             [this](int rank, const std::string& why) {
               if (rank == link_.rank())
                 payload_.abort(rank);
               else
                 payload_.forget(rank);
               side_channel_.dead(rank);
               collectives_.died(rank, why == "left");
             },
         .joined = [this](int rank) { collectives_.joined(rank); },
         .reset = [this](int rank, std::uint64_t session,
                         std::uint64_t opened) { payload_.peer_failed(rank, session, opened); },
         .collectives_ended = [this](int rank, std::uint64_t key,
                                     bool late) { collectives_.ended(rank, key, late); },
         .message = [this](int rank,
                           std::span<const char> bytes) { side_channel_.message(rank, bytes); }});
    if (info.rejoin) return;  // the others are at work: rebuild() when all agree
    try {
      // What is left of the time, but at least 5 s, for workers that met at the last moment.
      const Seconds whole(options.connect_timeout_s), gone = SteadyClock::now() - began_;
      collectives_.rebuild(link_.alive(), 0, std::max(whole - gone, std::min(whole, Seconds(5))));
      collectives_.barrier();  // nobody starts to work, and nobody leaves, before all are ready
      check<DistError>(collectives_.members() == info.size, "only ", collectives_.members(), " of ",
                       info.size, " workers came through the start");
    } catch (const DistError&) {
      // Who came and is gone again has died as one that dies later: the others go on by rebuild().
      if (static_cast<int>(link_.alive().size()) < info.size && link_.given_up().empty()) return;
      link_.on_events({});  // its thread still runs
      throw;
    } catch (...) {
      link_.on_events({});
      throw;
    }
  }
  ~ProcessGroup() override { link_.on_events({}); }

  int rank() const override { return link_.rank(); }
  int size() const override { return link_.size(); }
  int started() const override { return link_.started(); }
  ControlLink& control() override { return link_; }
  Payload& payload() override { return payload_; }
  SideChannel* side_channel() override { return &side_channel_; }
  Collectives& collectives() override { return collectives_; }
  void rebuild(const std::vector<int>& members, std::uint32_t epoch, Seconds limit) override {
    collectives_.rebuild(members, epoch, limit > Seconds(0) ? limit : limit_);
  }
  Seconds collective_limit() const override { return limit_; }
  std::vector<int> alive() const override { return link_.alive(); }
  std::string given_up_by(int peer) const override { return link_.given_up_by(peer); }
  std::uint64_t arrivals(int peer) const override { return link_.arrivals(peer); }

 private:
  using SteadyClock = std::chrono::steady_clock;
  const SteadyClock::time_point began_ = SteadyClock::now();
  const Seconds limit_;
  AsioLink link_;  // destroyed last: takes leave when nothing is under way any more
  ProcessPayload payload_;
  LinkSideChannel side_channel_;
  GlooCollectives collectives_;
};
#endif

}  // namespace

std::unique_ptr<Group> solo_group() { return std::make_unique<SoloGroup>(); }

std::unique_ptr<Group> process_group(const LaunchInfo& info, const JoinOptions& options) {
#ifdef GOSSAMER_HAS_GLOO
  return std::make_unique<ProcessGroup>(info, options);
#else
  (void)options;
  fail<DistError>(
      "this build cannot run ", info.size,
      " workers: Gloo was not found when it was configured. Install libgloo-dev and build again");
#endif
}

}  // namespace gossamer::dist
