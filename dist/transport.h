// What a worker needs of the outside: messages (ControlLink), bulk exchanges (Payload) and
// collectives, together a Group. A program only takes a Group from join() (net/launch.h) or a
// LocalCluster and hands it to make_method(); the rest is for those who implement one. There are
// two implementations: between processes (Asio, Gloo, and memory that one reads of the other), and
// between threads of one process (tests, teaching).
// Threads: one calls ControlLink::next(), any its other functions and SideChannel::send(); one at a
// time for a Payload, for Collectives and for a Group.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/core/tensor.h"

namespace gossamer::dist {

using Seconds = std::chrono::duration<double>;

// Other workers did not come in time.
struct DistTimeout : DistError {
  using DistError::DistError;
};
// Somebody has come while the collectives were being built; all try again.
struct MembersChanged : DistError {
  using DistError::DistError;
};
// The others have given this worker up and go on without it.
struct GivenUp : DistError {
  using DistError::DistError;
};

// What a worker says to all others beside its method, in a message `notice`: at which number of
// samples all save a checkpoint; where it is asked to stop, the number before which it can't; that
// it has done so many, stops, and needs nobody any more.
enum class Notice : std::uint8_t { save, stop, stopped };
constexpr std::size_t kNotices = 3;

// The pairing protocol's messages and the progress that rides on them. 64 bytes on the wire.
// Coming back (rejoin.h): ask_state, a restarted worker wants a neighbour's state as a one-way
// exchange of session `nonce`; no_state, the answer of a neighbour that cannot give it; back, the
// sender takes part again; between workers that step together, which side of a lost connection is
// the larger one (membership.h).
enum class MessageType : std::uint8_t {
  avail,
  propose,
  accept,
  commit,
  cancel,
  decline,
  step_time,  // how long a step of the sender takes, in seconds, as value (gossip/equal_weight.h)
  stopped,
  ask_state,
  no_state,
  back,
  bye,
  sketch,    // of the sender's model, see consensus_estimate.h
  doubt,     // of the worker `value` (epoch 1), or no more (0), see quarantine.h
  admitted,  // who takes part in rounds from now on, see rounds/joining.cpp
  notice     // of the kind `epoch`; taken by the link itself, see ControlLink::notice()
};
struct Message {
  MessageType type = MessageType::avail;
  std::uint32_t epoch = 0;  // availability of the addressee or sender, see pairing.h
  std::uint32_t nonce = 0;
  double progress = 0;   // the sender's q: its estimate of gradients per worker (roster.h)
  double gradients = 0;  // own gradient events so far
  double value = 0;      // free for the method (e.g. event time)
};

struct Event {
  // joined: the peer takes part (again): it was restarted, or is back after its link was cut. This
  // follows a `dead` of the same peer, or its first coming.
  enum class Kind : std::uint8_t {
    message,
    dead,
    joined,
    woken,
    exchanged,
    none
  } kind = Kind::none;
  int peer = -1;
  Message message;
  bool ok = false;  // exchanged: the payload arrived whole on this side
  // exchanged: which; joined: which of its Group::arrivals() this is, 0: not known
  std::uint64_t session = 0;
  std::vector<char> note{};  // exchanged, ok: what the peer's host sent along with its tensor
  // exchanged, ok: |send - receive|^2 where both are floats of one length; else 0
  double squared_distance = 0;
  // dead: "connection closed", "no heartbeat for 2.1 s", "left" (a clean end); exchanged: what went
  // wrong
  std::string why;
};

// How far a peer's clock is ahead of ours: its clock shows ours + offset, give or take the error.
struct ClockEstimate {
  double offset_us = 0, error_us = 0;
};

// Messages to and from neighbours, deaths included. One consumer thread calls next(); send, wake
// and post may be called by any. Heartbeats and death detection run inside, on a thread of the
// link. A death is posted once. A worker that the others gave up (it was frozen for too long) is no
// member any more: next() throws DistError then, and so do the collectives.
class ControlLink {
 public:
  virtual ~ControlLink() = default;
  // never blocks; to a dead peer: dropped
  virtual void send(int peer, const Message&) = 0;
  virtual Event next(Seconds timeout) = 0;  // Kind::none when nothing came
  // queues an event for next() (completion of a payload, wake)
  virtual void post(Event) = 0;
  virtual bool alive(int peer) const = 0;
  // The largest value of the notices of this kind that have come from `peer` since its last
  // arrival, from any thread; nullopt: none has.
  virtual std::optional<double> notice(Notice, int /*peer*/) const { return std::nullopt; }
  // How far the peer's trace::now_us() is ahead of ours at our time `at_us`; nullopt: not known
  // (yet), or one clock for both.
  virtual std::optional<ClockEstimate> clock_offset(int /*peer*/, double /*at_us*/) const {
    return std::nullopt;
  }
};

constexpr std::size_t kLongestNote = 64;  // bytes

// Full-duplex exchange of tensors with one neighbour: ours goes there, theirs comes here. With
// several peers at once; with one peer one after the other, in the order in which both sides ask.
class Payload {
 public:
  virtual ~Payload() = default;
  // Starts it and returns; later posts Event{exchanged, peer, ok, session} to the ControlLink. The
  // payload holds both tensors until then; nobody may write to them. What one side sends has the
  // type and size of what the other receives. An undefined or empty tensor: nothing goes that way
  // (push-sum, state transfer); one of the two must go. note: up to kLongestNote bytes for the
  // peer's host, which travel with `send`. session: agreed by both sides (pairing nonce), guards
  // against mixing up two exchanges. It fails `deadline` after its turn has come.
  // On a GPU `send` is read when the work is done that its stream has been given so far (which
  // stream: gpu/group.h); once the event has come, any stream may read `receive`.
  virtual void exchange(int peer, std::uint64_t session, const Tensor& send, const Tensor& receive,
                        std::span<const char> note, Seconds deadline) = 0;
  // The peer is dead: exchanges with it that are under way, of this session and above, end soon
  // with ok = false.
  virtual void abort(int peer, std::uint64_t from_session = 0) = 0;
  // After abort(): returns when no exchange uses its tensors any more. DistError after `limit`.
  virtual void drain(Seconds limit) = 0;
};
// For implementations. Whether a tensor of an exchange is defined and not empty, so that it
// travels.
bool goes(const Tensor&);
// DistError if neither tensor travels, the note is too long, or there is a note but nothing to
// send.
void check_exchange(int peer, const Tensor& send, const Tensor& receive,
                    std::span<const char> note);
// ShapeError unless `all` holds so many bytes: of a collective that gathers.
void check_gathered(std::size_t bytes, const Tensor& all);
// Event::squared_distance of two tensors on a CPU: |send - receive|^2, or 0 if they do not compare.
double distance_of_exchange(const Tensor& send, const Tensor& receive);

// Small messages between the payloads of two workers, beside the tensors (gpu/payload.h). They come
// in order, and none of a lost connection comes after `dead`.
class SideChannel {
 public:
  virtual ~SideChannel() = default;
  // from any thread; dropped if the connection is lost
  virtual void send(int peer, std::span<const char>) = 0;
  struct Handlers {
    std::function<void(int peer, std::span<const char>)> message;
    std::function<void(int peer)> dead;
  };
  // Called by a thread of the link; must be quick. Empty functions: nobody is called any more when
  // this returns.
  virtual void on_events(Handlers) = 0;
};

// Operations of all living workers. Every call has the deadline given at construction; then it is a
// DistTimeout that names the missing workers.
class Collectives {
 public:
  virtual ~Collectives() = default;
  // f32, in place; the sum has the same bits on all members
  virtual void all_reduce_sum(const Tensor&) = 0;
  // The same for numbers on the host. patience: the wait for the others, if longer than the
  // deadline.
  virtual void all_reduce_sum(std::span<double>, Seconds patience = Seconds(0)) = 0;
  virtual void broadcast(const Tensor&, int root) = 0;  // of any type
  // all [members, …] <- the `own` […] of each, in the order of ranks. Of any type, of one size on
  // all members, on the host.
  virtual void all_gather(const Tensor& own, const Tensor& all) = 0;
  // to [members, …] <- what each has for this one; from [members, …]: what this one has for each,
  // in the order of ranks. As above.
  virtual void all_to_all(const Tensor& from, const Tensor& to) = 0;
  virtual void barrier() = 0;
  virtual int members() const = 0;  // how many take part now
  // Any thread: the operation that is under way fails soon, here and on all members; so do later
  // ones until Group::rebuild().
  virtual void interrupt() {}
};

class DevicePort;
class Reducer;

// This process's (or thread's) place among the workers.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  // How many places there are: ranks are below it.
  virtual int size() const = 0;
  // How many workers begin together: those of ranks below it. The other places are free until
  // workers come that join later (MethodOptions::rejoin).
  virtual int started() const { return size(); }
  virtual ControlLink& control() = 0;
  virtual Payload& payload() = 0;
  // null: there is none, so GPUs exchange over the host
  virtual SideChannel* side_channel() { return nullptr; }
  virtual const char* why_no_side_channel() const { return "these workers share a process"; }
  // Collectives over the workers in `alive` (all must call with the same set and epoch); rebuilt
  // when the set changes. A set, and an epoch, may come again: a rebuild never meets leftovers of
  // an earlier one.
  virtual Collectives& collectives() = 0;
  // limit: how long it waits for them; 0: collective_limit().
  virtual void rebuild(const std::vector<int>& alive, std::uint32_t epoch,
                       Seconds limit = Seconds(0)) = 0;
  virtual Seconds collective_limit() const = 0;
  // ranks this worker believes to be alive, itself included
  virtual std::vector<int> alive() const = 0;
  // Why `peer` has once given this worker up and gone on without it ("no heartbeat for 2.1 s");
  // empty: it never has.
  virtual std::string given_up_by(int /*peer*/) const { return {}; }
  // How often `peer` has come: 1 from the start on, one more with each Event{joined}. For a worker
  // that joined later: counted from its start.
  virtual std::uint64_t arrivals(int /*peer*/) const { return 1; }
  // The device on which this group's tensors lie (device_port.h); null: the CPU.
  virtual DevicePort* device_port() { return nullptr; }
  // Sums gradients of this many buckets beside the computation (reducer.h).
  virtual std::unique_ptr<Reducer> reducer(std::size_t buckets);
};

// Tells all others. Any thread.
void announce(Group&, Notice, double value);

}  // namespace gossamer::dist
