// The thread that watches the copies, and what others ask of it.
#include "gossamer/dist/gpu/staged.h"

#include <algorithm>
#include <cstring>

#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/core/host_signals.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/gpu/distance.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {
// between two looks at the device, while something is expected of it
constexpr auto kLook = std::chrono::microseconds(50);
// seconds for copies to end, when all is over
constexpr double kCopyLimit = 30;

// The first bytes of pinned memory, whatever they mean: the host payload only carries them.
Tensor bytes_of(const std::shared_ptr<Block>& block, const Tensor& like) {
  return Tensor::wrap(block->data, {static_cast<i64>(like.bytes())}, DType::u8, [block] {});
}

}  // namespace

Staged::Staged(Group& host, DevicePort& port, DevicePort::Stream stream)
    : group_(host), port_(port), stream_(stream), thread_(start_thread([this] { run(); })) {}

Staged::~Staged() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
  try {
    const DevicePort::Event end = port_.make_event();
    port_.record(end, DevicePort::Stream::exchange);
    for (const double limit = wall_seconds() + kCopyLimit;
         !port_.done(end) && wall_seconds() < limit;)
      std::this_thread::sleep_for(kLook);
  } catch (const Error&) {  // the device is lost, and its memory with it
  }
}

// --- any thread

void Staged::exchange(int peer, std::uint64_t session, const Tensor& send, const Tensor& receive,
                      std::span<const char> note, Seconds deadline) {
  check_exchange(peer, send, receive, note);
  const std::scoped_lock lock(mutex_);
  check<DistError>(lost_.empty(), "worker ", group_.rank(),
                   ": no more exchanges of tensors on the GPU: ", lost_);
  Exchange e;
  e.peer = peer;
  e.session = session;
  e.asked = event();
  e.landed = event();
  port_.record(e.asked, stream_);
  e.out = goes(send) ? outgoing(send) : outgoing_.end();
  if (goes(receive)) {
    e.receive = receive;
    e.host = pinned(receive.bytes() + sizeof(float));
    const bool comparable =
        goes(send) && send.numel() == receive.numel() && send.dtype() == receive.dtype();
    if (comparable) e.distance = Tensor::empty({1}, DType::f32, receive.device());
  }
  e.note.assign(note.begin(), note.end());
  e.until = wall_seconds() + deadline.count();
  exchanges_.push_back(std::move(e));
  changed_.notify_all();
}

void Staged::abort(int peer, std::uint64_t from_session) {
  {
    const std::scoped_lock lock(mutex_);
    for (Exchange& e : exchanges_)
      if (e.peer == peer && e.session >= from_session && e.at == Exchange::At::waiting)
        e.given_up = true;
  }
  changed_.notify_all();
  group_.payload().abort(peer, from_session);
}

void Staged::drain(Seconds limit) {
  {
    std::unique_lock lock(mutex_);
    const auto drained = [&] {
      return !lost_.empty() || std::ranges::none_of(exchanges_, [](const Exchange& e) {
        return e.given_up || e.at == Exchange::At::landing;
      });
    };
    check<DistError>(changed_.wait_for(lock, limit, drained), "worker ", group_.rank(),
                     ": a staged exchange did not end within ", limit.count(), " s");
  }
  group_.payload().drain(limit);
}

std::optional<Event> Staged::pass(Event event) {
  if (event.kind != Event::Kind::exchanged) return event;
  const std::scoped_lock lock(mutex_);
  const auto e = std::ranges::find_if(exchanges_, [&](const Exchange& each) {
    return each.at == Exchange::At::travelling && each.peer == event.peer &&
           each.session == event.session;
  });
  if (e == exchanges_.end()) return event;
  if (event.ok && goes(e->receive) && lost_.empty()) {
    e->end = std::move(event);
    land(*e);
    changed_.notify_all();
    return std::nullopt;
  }
  if (event.ok && !lost_.empty()) event.ok = false, event.why = lost_;
  release(e->out);
  spare_events_.insert(spare_events_.end(), {e->asked, e->landed});
  give_back(std::move(e->host));
  exchanges_.erase(e);
  changed_.notify_all();
  return event;
}

// What the stream had been given when the exchange was asked for may have used `receive`; nothing
// that it has been given since does.
void Staged::land(Exchange& e) {
  auto* host = static_cast<char*>(e.host->data);
  port_.wait(DevicePort::Stream::exchange, e.asked);
  port_.copy(DevicePort::Stream::exchange, e.receive.data(), host, e.receive.bytes());
  if (e.distance.defined()) {
    port_.run(DevicePort::Stream::exchange, [own = e.out->tensor, theirs = e.receive,
                                             out = e.distance] { distance_to(own, theirs, out); });
    port_.copy(DevicePort::Stream::exchange, host + e.receive.bytes(), e.distance.data(),
               sizeof(float));
  }
  port_.record(e.landed, DevicePort::Stream::exchange);
  e.at = Exchange::At::landing;
}

// --- under the mutex

DevicePort::Event Staged::event() {
  if (spare_events_.empty()) return port_.make_event();
  const DevicePort::Event e = spare_events_.back();
  spare_events_.pop_back();
  return e;
}

std::shared_ptr<Block> Staged::pinned(std::size_t bytes) {
  const auto fits = std::ranges::find_if(
      spare_blocks_, [&](const auto& b) { return b->bytes >= bytes && b->bytes < 2 * bytes; });
  if (fits == spare_blocks_.end()) return cuda::allocate_pinned(bytes);
  std::shared_ptr<Block> out = std::move(*fits);
  spare_blocks_.erase(fits);
  return out;
}

void Staged::give_back(std::shared_ptr<Block> block) {
  if (block) spare_blocks_.push_back(std::move(block));
}

// While one exchange sends a tensor nobody may write to it: the next that sends it needs no copy of
// its own.
std::list<Staged::Outgoing>::iterator Staged::outgoing(const Tensor& send) {
  auto out = std::ranges::find_if(outgoing_, [&](const Outgoing& o) {
    return o.tensor.data() == send.data() && o.tensor.bytes() == send.bytes();
  });
  if (out == outgoing_.end()) {
    out = outgoing_.emplace(outgoing_.end());
    out->tensor = send;
    out->host = pinned(send.bytes());
    out->written = event();
    out->copied = event();
    port_.record(out->written, stream_);
  }
  ++out->users;
  return out;
}

void Staged::release(std::list<Outgoing>::iterator out) {
  if (out == outgoing_.end() || --out->users > 0) return;
  spare_events_.insert(spare_events_.end(), {out->written, out->copied});
  give_back(std::move(out->host));
  outgoing_.erase(out);
}

// --- its own thread

void Staged::run() {
  trace::name_thread("gpu staging");
  const PreciseSleep precise;
  std::unique_lock lock(mutex_);
  while (!closing_) {
    bool soon = false;
    try {
      soon = look();
    } catch (const std::exception& e) {
      // the device failed: its copies are not trusted any more
      lost_ = e.what();
      for (auto it = exchanges_.begin(); it != exchanges_.end();) {
        const auto now = it++;
        if (now->at != Exchange::At::travelling) fail(now, lost_);
      }
      return changed_.notify_all();
    }
    if (soon)
      changed_.wait_for(lock, kLook);
    else
      changed_.wait(lock);
  }
}

bool Staged::look() {
  bool soon = false;
  for (Outgoing& out : outgoing_) soon = look(out) || soon;
  for (auto it = exchanges_.begin(); it != exchanges_.end();) {
    const auto now = it++;
    soon = look(now) || soon;
  }
  return soon;
}

bool Staged::look(Outgoing& out) {
  if (out.at == Outgoing::At::device && port_.done(out.written)) {
    port_.copy(DevicePort::Stream::exchange, out.host->data, out.tensor.data(), out.tensor.bytes());
    port_.record(out.copied, DevicePort::Stream::exchange);
    out.at = Outgoing::At::moving;
  }
  if (out.at == Outgoing::At::moving && port_.done(out.copied)) out.at = Outgoing::At::host;
  return out.at != Outgoing::At::host;
}

// No other with this peer, asked for before, is still to be handed to the host's payload.
bool Staged::is_next(Exchanges::iterator e) const {
  return std::ranges::none_of(exchanges_.cbegin(), Exchanges::const_iterator(e),
                              [&](const Exchange& other) {
                                return other.peer == e->peer && other.at == Exchange::At::waiting;
                              });
}

bool Staged::look(Exchanges::iterator e) {
  if (e->at == Exchange::At::travelling) return false;
  if (e->at == Exchange::At::landing) {
    if (!port_.done(e->landed)) return true;
    if (e->distance.defined()) {
      float distance = 0;
      std::memcpy(&distance, static_cast<const char*>(e->host->data) + e->receive.bytes(),
                  sizeof distance);
      e->end.squared_distance = static_cast<double>(distance);
    }
    end(e, std::move(e->end));
    return false;
  }
  const bool sends = e->out != outgoing_.end();
  // the copy reads the tensor, also of an exchange that was given up
  if (sends && e->out->at == Outgoing::At::moving) return true;
  if (e->given_up)
    fail(e, "given up");
  else if (wall_seconds() >= e->until)
    fail(e, "the GPU had not written the tensor in time");
  else if (is_next(e) && (!sends || e->out->at == Outgoing::At::host))
    start(e);
  else
    return true;
  return false;
}

void Staged::start(Exchanges::iterator e) {
  e->at = Exchange::At::travelling;
  try {
    group_.payload().exchange(
        e->peer, e->session,
        e->out != outgoing_.end() ? bytes_of(e->out->host, e->out->tensor) : Tensor(),
        goes(e->receive) ? bytes_of(e->host, e->receive) : Tensor(), e->note,
        Seconds(std::max(1e-3, e->until - wall_seconds())));
  } catch (const DistError& error) {
    fail(e, error.what());
  }
}

void Staged::fail(Exchanges::iterator e, const std::string& why) {
  Event end;
  end.kind = Event::Kind::exchanged;
  end.peer = e->peer;
  end.session = e->session;
  end.why = why;
  this->end(e, std::move(end));
}

void Staged::end(Exchanges::iterator e, Event event) {
  release(e->out);
  spare_events_.insert(spare_events_.end(), {e->asked, e->landed});
  give_back(std::move(e->host));
  exchanges_.erase(e);
  changed_.notify_all();
  group_.control().post(std::move(event));
}

}  // namespace gossamer::dist
