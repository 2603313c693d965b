// The transitions of an edge.
#include "gossamer/dist/gpu/edge.h"

#include <cstring>
#include <utility>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {
// messages of one session before it begins here: open, ready, abort
constexpr std::size_t kMostEarly = 8;
}  // namespace

using Kind = EdgeMessage::Kind;

GpuEdge::GpuEdge(int self, int peer, DevicePort& port, GpuChannelMaker& maker, const Limits& limits)
    : self_(self),
      peer_(peer),
      port_(port),
      maker_(maker),
      limits_(limits),
      inspected_(port.make_event()) {
  check<DistError>(self != peer, "worker ", self, " has no GPU edge to itself");
}

// A channel that never let go, or whose device has failed, is left to the process's end: to free it
// would wait for ever.
GpuEdge::~GpuEdge() {
  const auto gone = [](GpuChannel& channel) {
    try {
      return channel.gone();
    } catch (const Error&) {
      return false;
    }
  };
  for (auto* channel : {&channel_, &retiring_})
    if (*channel && !gone(**channel)) (void)channel->release();
  port_.free_event(inspected_);
}

// --- events

void GpuEdge::begin(Request request, double now) {
  now_ = now;
  check<DistError>(phase_ == Phase::idle && !result_, "exchange with worker ", peer_,
                   ": the one of session ", request_.session, " is not finished");
  request_ = std::move(request);
  peer_open_.reset();
  peer_ready_.reset();
  launched_ = peer_moved_ = withdrew_ = false;
  ending_.reset();
  if (wedged_) {
    result_ = failure("an earlier exchange never let go of the GPU");
    return;
  }
  if (channel_ && channel_->sends_from(request_.send))
    phase_ = Phase::arming;
  else
    reopen();
  for (const EdgeMessage& message : std::exchange(early_, {}))
    if (message.session == request_.session) receive(message, now);
}

void GpuEdge::receive(const EdgeMessage& message, double now) {
  now_ = now;
  const bool current = phase_ != Phase::idle && message.session == request_.session;
  if (!current) {
    if (!early_.empty() && early_.front().session != message.session) early_.clear();
    if (early_.size() < kMostEarly) early_.push_back(message);
    return;
  }
  // it has failed here, and the other side knows or has said so itself
  if (ending_) return;
  const bool transferred =
      phase_ == Phase::moving || phase_ == Phase::inspecting || phase_ == Phase::confirming;
  switch (message.kind) {
    case Kind::open:
      return on_open(message);
    case Kind::offer:
      if (phase_ == Phase::opening && !lower()) join(message.bytes);
      return;
    case Kind::ready:
      return on_ready(message);
    case Kind::moved:
      if (!transferred) return;  // nobody can have what we did not send
      peer_moved_ = true;
      if (phase_ == Phase::confirming) confirm();
      return;
    case Kind::withdraw:
      if (phase_ != Phase::confirming)
        fail("worker " + std::to_string(peer_) + " could not wait any longer", true);
      // confirming: our `moved` is on its way, and is the answer
      return;
    case Kind::abort:
      return fail("worker " + std::to_string(peer_) + " gave the exchange up", false);
  }
}

void GpuEdge::give_up(double now) {
  now_ = now;
  if (phase_ == Phase::idle || ending_) return;
  if (phase_ == Phase::confirming)
    request_.until = std::min(request_.until, now);
  else
    fail("given up", true);
}

void GpuEdge::peer_dead(double now) {
  now_ = now;
  early_.clear();
  messages_.clear();
  if (phase_ == Phase::idle || ending_) return retire();
  Result result = failure(in_doubt("worker " + std::to_string(peer_) + " is gone"));
  retire();
  end(std::move(result));
}

void GpuEdge::poll(double now) {
  now_ = now;
  drop_retired();
  while (advance()) {
  }
}

// --- transitions

// One step, if the device or the clock allows one.
bool GpuEdge::advance() {
  const Phase before = phase_;
  const bool late_now = now_ > request_.until;
  switch (phase_) {
    case Phase::idle:
      return false;
    case Phase::clearing:
      if (!retiring_) {
        if (ending_)
          end(*std::exchange(ending_, std::nullopt));
        else
          say_open();
      } else if (now_ > clear_until_) {
        wedged_ = true;
        phase_ = Phase::idle;
        result_ = failure((ending_ ? ending_->why + "; " : std::string()) +
                          "the GPU did not let go of an aborted exchange with worker " +
                          std::to_string(peer_) + " within " +
                          std::to_string(static_cast<int>(limits_.abort_s)) + " s");
        ending_.reset();
      } else if (late_now && !ending_) {
        fail(late(), true);
      }
      return phase_ != before;
    case Phase::confirming:
      if (late_now && !std::exchange(withdrew_, true)) say(Kind::withdraw);
      if (now_ > request_.until + limits_.grace_s)
        fail("worker " + std::to_string(peer_) + " says neither yes nor no", true);
      return phase_ != before;
    case Phase::opening:
    case Phase::ready:
      break;
    case Phase::joining:
      if (const Stage s = channel_->opened(); s == Stage::done)
        phase_ = Phase::arming;
      else if (s == Stage::failed)
        fail("the channel to worker " + std::to_string(peer_) + " did not open: " + channel_->why(),
             true);
      break;
    case Phase::arming:
      if (port_.done(request_.snapshot)) arm();
      break;
    case Phase::moving:
      if (const Stage s = channel_->moved(); s == Stage::done)
        arrived();
      else if (s == Stage::failed)
        fail("the transfer to and from worker " + std::to_string(peer_) +
                 " failed: " + channel_->why(),
             true);
      break;
    case Phase::inspecting:
      if (!port_.done(inspected_)) break;
      if (request_.sound && !request_.sound())
        fail("worker " + std::to_string(peer_) + "'s values, or ours, are not finite", true);
      else
        say(Kind::moved), phase_ = Phase::confirming;
      if (phase_ == Phase::confirming && peer_moved_) confirm();
      return true;
  }
  if (phase_ == before && late_now) fail(late(), true);
  return phase_ != before;
}

void GpuEdge::reopen() {
  peer_ready_.reset();
  retire();
  phase_ = Phase::clearing;
  clear_until_ = now_ + limits_.abort_s;
  if (!retiring_) say_open();
}

void GpuEdge::say_open() {
  phase_ = Phase::opening;
  if (lower() && peer_open_) return join(*peer_open_);
  if (!lower()) own_offer_ = maker_.offer(peer_, sent());
  say(Kind::open, lower() ? ChannelBytes{} : own_offer_);
}

// The higher side is about to open its end, or has the offer that it waited for.
void GpuEdge::join(const ChannelBytes& theirs) {
  try {
    if (lower()) {
      own_offer_ = maker_.answer(peer_, sent(), theirs);
      say(Kind::offer, own_offer_);
    }
    channel_ = maker_.open(peer_, lower(), sent(), own_offer_, theirs);
  } catch (const DistError& e) {
    return fail(e.what(), true);
  }
  generation_ = request_.session;
  phase_ = Phase::joining;
}

// The other side has no channel. Of the higher one it also means: tell me your offer.
void GpuEdge::on_open(const EdgeMessage& message) {
  if (lower()) peer_open_ = message.bytes;
  switch (phase_) {
    case Phase::opening:
      if (lower()) join(*peer_open_);
      return;
    case Phase::arming:
    case Phase::ready:
      return reopen();
    case Phase::idle:
    case Phase::clearing:
    case Phase::joining:
      return;
    default:
      return fail("worker " + std::to_string(peer_) + " opens a channel in mid-exchange", true);
  }
}

// Messages come in the order in which they were sent: a `ready` for another channel is old if ours
// is being opened, and means that the two sides hold different ones if ours is open.
void GpuEdge::on_ready(const EdgeMessage& message) {
  const std::string wrong = unlike(message);
  if (!wrong.empty()) return fail(wrong, true);
  const bool same = channel_ && message.generation == generation_;
  const bool open = phase_ == Phase::arming || phase_ == Phase::ready;
  if (open && !same) return reopen();
  if (!same || !(open || phase_ == Phase::joining)) return;
  peer_ready_ = message;
  if (phase_ == Phase::ready) launch();
}

// Behind the size of what will be sent, the note.
void GpuEdge::arm() {
  std::vector<char> bytes(sizeof(std::uint64_t));
  const std::uint64_t size = request_.bytes;
  std::memcpy(bytes.data(), &size, sizeof size);
  bytes.insert(bytes.end(), request_.note.begin(), request_.note.end());
  say(Kind::ready, std::move(bytes), generation_);
  phase_ = Phase::ready;
  if (peer_ready_) launch();
}

std::string GpuEdge::unlike(const EdgeMessage& ready) const {
  std::uint64_t size = 0;
  if (ready.bytes.size() < sizeof size)
    return "worker " + std::to_string(peer_) + " sent half a message";
  std::memcpy(&size, ready.bytes.data(), sizeof size);
  if (size == request_.bytes) return {};
  return "worker " + std::to_string(peer_) + " sends " + std::to_string(size) + " bytes, wanted " +
         std::to_string(request_.bytes) + "; do all workers have the same wire?";
}

void GpuEdge::launch() {
  launched_ = true;
  phase_ = Phase::moving;
  try {
    channel_->launch(request_.send, request_.receive, request_.bytes);
  } catch (const DistError& e) {
    fail(e.what(), true);
  }
}

void GpuEdge::arrived() {
  if (request_.inspect) request_.inspect();
  port_.record(inspected_, DevicePort::Stream::exchange);
  phase_ = Phase::inspecting;
}

void GpuEdge::confirm() {
  end({.session = request_.session,
       .ok = true,
       .why = {},
       .note = {peer_ready_->bytes.begin() + sizeof(std::uint64_t), peer_ready_->bytes.end()}});
}

GpuEdge::Result GpuEdge::failure(const std::string& why) const {
  return {.session = request_.session, .ok = false, .why = why, .note = {}};
}

// Our `moved` is on its way, and no answer came.
std::string GpuEdge::in_doubt(const std::string& why) const {
  return phase_ == Phase::confirming ? why + "; it may have applied this exchange" : why;
}

// tell: the other side does not know yet.
void GpuEdge::fail(const std::string& why, bool tell) {
  if (tell) say(Kind::abort);
  Result result = failure(tell ? in_doubt(why) : why);
  if (launched_ || phase_ == Phase::joining) retire();
  end(std::move(result));
}

// The result, as soon as the device has let go of the buffers.
void GpuEdge::end(Result result) {
  if (retiring_) {
    if (phase_ != Phase::clearing) clear_until_ = now_ + limits_.abort_s;
    phase_ = Phase::clearing;
    ending_ = std::move(result);
    return;
  }
  phase_ = Phase::idle;
  result_ = std::move(result);
}

void GpuEdge::retire() {
  if (!channel_) return;
  // at most one: a new channel is opened only after the old one is gone
  retiring_ = std::move(channel_);
  retiring_->abort();
  drop_retired();
}

void GpuEdge::drop_retired() {
  if (retiring_ && retiring_->gone()) retiring_.reset();
}

void GpuEdge::say(Kind kind, std::vector<char> bytes, std::uint64_t generation) {
  messages_.push_back({.kind = kind,
                       .session = request_.session,
                       .generation = generation,
                       .bytes = std::move(bytes)});
}

std::string GpuEdge::late() const {
  const std::string who = "worker " + std::to_string(peer_);
  switch (phase_) {
    case Phase::opening:
      return who + " did not answer in time while the channel was opened";
    case Phase::joining:
      return "the channel to " + who + " did not open in time";
    case Phase::arming:
      return "our own snapshot was not taken in time";
    case Phase::ready:
      return who + " was not ready in time";
    case Phase::clearing:
      return "an old channel to " + who + " was not closed in time";
    default:
      return "the transfer to and from " + who + " did not end in time";
  }
}

// --- for the thread that drives it

bool GpuEdge::watches_device() const {
  return retiring_ || phase_ == Phase::joining || phase_ == Phase::arming ||
         phase_ == Phase::moving || phase_ == Phase::inspecting;
}

double GpuEdge::deadline() const {
  if (phase_ == Phase::idle) return 1e300;
  if (phase_ == Phase::clearing) return clear_until_;
  return phase_ == Phase::confirming && withdrew_ ? request_.until + limits_.grace_s
                                                  : request_.until;
}

}  // namespace gossamer::dist
