// The thread that watches the copies, and what the training thread asks of it.
#include "gossamer/dist/gpu/staged_rounds.h"

#include <algorithm>

#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {
// between two looks at the device, while something is expected of it
constexpr auto kLook = std::chrono::microseconds(50);
// seconds for copies to end, when all is over
constexpr double kCopyLimit = 30;
}  // namespace

StagedRounds::StagedRounds(Group& group, DevicePort& port, int slots, std::shared_ptr<void> keep)
    : keep_(std::move(keep)), group_(group), port_(port), slots_(static_cast<std::size_t>(slots)) {
  for (Slot& s : slots_) s.written = port_.make_event(), s.copied = port_.make_event();
  thread_ = std::thread([this] { run(); });
}

StagedRounds::~StagedRounds() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
  try {
    const DevicePort::Event end = port_.make_event();
    port_.record(end, Lane::exchange);
    for (const double limit = wall_seconds() + kCopyLimit;
         !port_.done(end) && wall_seconds() < limit;)
      std::this_thread::sleep_for(kLook);
  } catch (const Error&) {  // the device is lost, and its memory with it
  }
}

void StagedRounds::check_device() const {
  check<DistError>(lost_.empty(), "worker ", group_.rank(),
                   ": no more exchanges of pieces on the GPU: ", lost_);
}

// --- the training thread
// -------------------------------------------------------------------------------------------------

void StagedRounds::offer(int slot, const Tensor& piece, i64 notes) {
  const std::scoped_lock lock(mutex_);
  check_device();
  Slot& s = slot_at(slot);
  if (!s.host || s.piece.bytes() != piece.bytes()) {
    s.host = cuda::allocate_pinned(piece.bytes());
    s.distances = Tensor::empty({group_.size()}, DType::f32, piece.device());
  }
  s.piece = piece;
  s.notes = notes;
  s.at = Slot::At::device;
  port_.record(s.written, Lane::compute);
  changed_.notify_all();
}

void StagedRounds::exchange(int slot, int peer, std::uint64_t session, bool sends,
                            const Tensor& receive, Seconds deadline) {
  const std::scoped_lock lock(mutex_);
  check_device();
  const auto [found, fresh] = legs_.try_emplace({slot, peer});
  Leg& leg = found->second;
  check<DistError>(leg.at == Leg::At::idle || leg.at == Leg::At::travelling,
                   "exchange with worker ", peer, ": the last one of this piece is not finished");
  if (fresh) leg.landed = port_.make_event();
  const std::size_t wanted = receive.defined() ? receive.bytes() + sizeof(float) : 0;
  if (wanted > 0 && (!leg.host || leg.host->bytes < wanted))
    leg.host = cuda::allocate_pinned(wanted);
  leg.at = Leg::At::waiting;
  leg.session = session;
  leg.sends = sends;
  leg.given_up = false;
  leg.receive = receive;
  leg.until = wall_seconds() + deadline.count();
  changed_.notify_all();
}

// What the compute lane has been given since the slot was offered uses neither `receive` nor the
// piece.
bool StagedRounds::land(int slot, int peer) {
  const std::scoped_lock lock(mutex_);
  check_device();
  Slot& s = slot_at(slot);
  Leg& leg = legs_.at({slot, peer});
  auto* host = static_cast<char*>(leg.host->data);
  port_.wait(Lane::exchange, s.written);
  port_.copy(Lane::exchange, leg.receive.data(), host, leg.receive.bytes());
  const i64 values = s.piece.numel() - s.notes;
  const Tensor distance = s.distances.slice(peer, peer + 1);
  port_.run(Lane::exchange, [own = s.piece.slice(0, values), theirs = leg.receive.slice(0, values),
                             distance] { squared_distance_to(own, theirs, distance); });
  port_.copy(Lane::exchange, host + leg.receive.bytes(), distance.data(), sizeof(float));
  port_.record(leg.landed, Lane::exchange);
  leg.at = Leg::At::landing;
  changed_.notify_all();
  return false;
}

RoundCarrier::Arrival StagedRounds::arrival(int slot, int peer) {
  const std::scoped_lock lock(mutex_);
  const Slot& s = slot_at(slot);
  const Leg& leg = legs_.at({slot, peer});
  const auto* came = static_cast<const float*>(leg.host->data);
  const i64 n = leg.receive.numel();
  return {.squared_distance = static_cast<double>(came[n]),
          .notes = {came + (n - s.notes), static_cast<std::size_t>(s.notes)}};
}

// A copy out that nobody waits for any more.
void StagedRounds::withdraw(int slot, Seconds limit) {
  std::unique_lock lock(mutex_);
  Slot& s = slot_at(slot);
  if (s.at == Slot::At::device) s.at = Slot::At::nowhere;
  check<DistError>(
      changed_.wait_for(lock, limit, [&] { return s.at != Slot::At::moving || !lost_.empty(); }),
      "worker ", group_.rank(), ": the copy of a piece out of the GPU did not end within ",
      limit.count(), " s");
}

void StagedRounds::abort(int peer) {
  const std::scoped_lock lock(mutex_);
  for (auto& [key, leg] : legs_)
    if (key.second == peer && leg.at == Leg::At::waiting) leg.given_up = true;
  changed_.notify_all();
  group_.payload().abort(peer);
}

void StagedRounds::settle(Seconds limit) {
  {
    std::unique_lock lock(mutex_);
    const auto waits = [](const auto& l) {
      return l.second.at == Leg::At::waiting && l.second.given_up;
    };
    check<DistError>(
        changed_.wait_for(lock, limit, [&] { return std::ranges::none_of(legs_, waits); }),
        "worker ", group_.rank(), ": an exchange of a piece did not end within ", limit.count(),
        " s");
  }
  group_.payload().drain(limit);
}

// --- its own thread
// -------------------------------------------------------------------------------------------------

void StagedRounds::run() {
  trace::name_thread("gpu rounds");
  std::unique_lock lock(mutex_);
  while (!closing_) {
    bool soon = false;
    try {
      soon = look();
    } catch (const std::exception& e) {
      // the device failed: its copies are not trusted any more
      lost_ = e.what();
      for (auto& [key, leg] : legs_)
        if (leg.at == Leg::At::waiting || leg.at == Leg::At::landing) post(key, leg, lost_);
      return changed_.notify_all();
    }
    if (soon)
      changed_.wait_for(lock, kLook);
    else
      changed_.wait(lock);
  }
}

bool StagedRounds::look() {
  bool soon = false;
  for (Slot& s : slots_) soon = look(s) || soon;
  for (auto& [key, leg] : legs_) soon = look(key, leg) || soon;
  return soon;
}

bool StagedRounds::look(Slot& s) {
  if (s.at == Slot::At::device && port_.done(s.written)) {
    port_.copy(Lane::exchange, s.host->data, s.piece.data(), s.piece.bytes());
    port_.record(s.copied, Lane::exchange);
    s.at = Slot::At::moving;
  }
  if (s.at == Slot::At::moving && port_.done(s.copied)) {
    s.at = Slot::At::host;
    changed_.notify_all();
  }
  return s.at == Slot::At::device || s.at == Slot::At::moving;
}

bool StagedRounds::look(LegKey key, Leg& leg) {
  if (leg.at == Leg::At::waiting) {
    if (leg.given_up)
      post(key, leg, "given up");
    else if (wall_seconds() >= leg.until)
      post(key, leg, "the GPU had not written the piece in time");
    else if (!leg.sends || slot_at(key.first).at == Slot::At::host)
      start(key, leg);
  } else if (leg.at == Leg::At::landing && port_.done(leg.landed)) {
    post(key, leg, {});
  }
  return leg.at == Leg::At::waiting || leg.at == Leg::At::landing;
}

void StagedRounds::start(LegKey key, Leg& leg) {
  const auto bytes = [](const std::shared_ptr<Block>& block, const Tensor& of) {
    return Tensor::wrap(block->data, {static_cast<i64>(of.bytes())}, DType::u8, [block] {});
  };
  const Slot& s = slot_at(key.first);
  leg.at = Leg::At::travelling;
  try {
    group_.payload().exchange(key.second, leg.session,
                              leg.sends ? bytes(s.host, s.piece) : Tensor(),
                              leg.receive.defined() ? bytes(leg.host, leg.receive) : Tensor(), {},
                              Seconds(std::max(1e-3, leg.until - wall_seconds())));
  } catch (const DistError& e) {
    post(key, leg, e.what());
  }
}

void StagedRounds::post(LegKey key, Leg& leg, const std::string& why) {
  leg.at = Leg::At::idle;
  changed_.notify_all();
  Event end;
  end.kind = Event::Kind::exchanged;
  end.peer = key.second;
  end.session = leg.session;
  end.ok = why.empty();
  end.why = why;
  group_.control().post(end);
}

}  // namespace gossamer::dist
