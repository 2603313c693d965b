// Appointments, one function an event. See appointments.h for the rules.
#include "gossamer/dist/gossip/appointments.h"

#include <algorithm>

namespace gossamer::dist {
namespace {

// gradients that training may be ahead of an event that has not happened
constexpr double kAhead = 1;
// a partner is waited for: gradients; seconds
constexpr double kPatienceGradients = 3, kLeastPatience = 0.25;
constexpr double kImpatientGradients = 0.5;  // the same, if it was late the last time
// seconds until CANCEL is said again: a message must have been lost
constexpr double kAnswerLimit = 1;

}  // namespace

AppointmentPolicy::AppointmentPolicy(int self, int workers, std::unique_ptr<Agenda> agenda)
    : self_(self), agenda_(std::move(agenda)), peers_(static_cast<std::size_t>(workers)) {}

void AppointmentPolicy::send(int to, MessageType type, EventKey key) {
  Message message;
  message.type = type;
  message.epoch = key.list;
  message.nonce = key.number;
  message.value = time();
  outbox_.emplace_back(to, message);
}

double AppointmentPolicy::patience(int id) const {
  return peer(id).late ? kImpatientGradients * now_.gradient_s
                       : std::max(kLeastPatience, kPatienceGradients * now_.gradient_s);
}

bool AppointmentPolicy::is_off(const Appointment& a) const {
  const Peer& p = peer(a.peer);
  return !p.here || (p.off && p.off->list == a.key.list && a.key.number <= p.off->number);
}

void AppointmentPolicy::draw() {
  do next_ = agenda_->next();
  while (next_.t < skip_before_);
  decline_stale();
}

// A peer that waits at an event which is not before us any more gets its answer.
void AppointmentPolicy::decline_stale() {
  for (int id = self_ + 1; id < static_cast<int>(peers_.size()); ++id) {
    Peer& p = peer(id);
    if (!p.ready || (state_ == State::ready && head_.peer == id && *p.ready == head_.key)) continue;
    if (!stopped_ && p.ready->list == agenda_->list() && p.ready->number >= next_.key.number &&
        next_.peer >= 0)
      continue;
    send(id, MessageType::decline, *p.ready);
    p.ready.reset();
  }
}

void AppointmentPolicy::act() {
  for (;;) {
    if (state_ == State::waiting) {
      if (stopped_ || !(next_.t - agenda_->early() <= time())) return;
      head_ = next_;
      state_ = State::ready;
      due_wall_ = INFINITY;
      draw();
      if (is_off(head_)) {
        ++missed_;
        resolve();
        continue;
      }
      if (!leads()) send(head_.peer, MessageType::avail, head_.key);
    }
    if (state_ == State::withdrawing && now_.wall - due_wall_ >= kAnswerLimit) {
      send(head_.peer, MessageType::cancel, head_.key);
      due_wall_ = now_.wall;
    }
    if (state_ != State::ready) return;
    Peer& p = peer(head_.peer);
    if (leads() && p.ready == head_.key) {
      p.ready.reset();
      p.late = false;
      send(head_.peer, MessageType::commit, head_.key);
      state_ = State::exchanging;
      due_wall_ = now_.wall;
      return;
    }
    if (time() >= head_.t) due_wall_ = std::min(due_wall_, now_.wall);
    if (now_.wall - due_wall_ < patience(head_.peer)) return;
    p.late = true;
    give_up();
  }
}

// The lower id decides alone; the higher one asks to be let go.
void AppointmentPolicy::give_up() {
  if (state_ != State::ready) return;
  if (!leads()) {
    send(head_.peer, MessageType::cancel, head_.key);
    state_ = State::withdrawing;
    due_wall_ = now_.wall;
    return;
  }
  send(head_.peer, MessageType::decline, head_.key);
  ++missed_;
  resolve();
}

void AppointmentPolicy::resolve() {
  state_ = State::waiting;
  decline_stale();
}

void AppointmentPolicy::catch_up(double their_time) {
  if (!std::isfinite(their_time) || their_time <= time() + kAhead) return;
  offset_ += their_time - time();
  skip_before_ = std::max(skip_before_, their_time - agenda_->early());
  if (next_.t < skip_before_) draw();
  // It waits for the others at its next event, rather than to reach that at its own pace: by then
  // they would have passed again.
  offset_ += std::clamp(next_.t - agenda_->early() - time(), 0.0, kAhead);
  if (state_ == State::ready && head_.t < skip_before_) give_up();
}

void AppointmentPolicy::receive(int id, const Message& m) {
  if (id < 0 || id >= static_cast<int>(peers_.size()) || id == self_) return;
  Peer& p = peer(id);
  const EventKey key{m.epoch, m.nonce};
  const bool about_head = state_ != State::waiting && head_.peer == id && head_.key == key;
  switch (m.type) {
    case MessageType::avail:
      if (id < self_) return;
      p.ready = key;
      decline_stale();
      break;
    case MessageType::cancel:
      // it has our COMMIT by now
      if (id < self_ || (about_head && state_ == State::exchanging)) return;
      p.ready.reset();
      p.off = key;
      send(id, MessageType::decline, key);
      if (about_head && state_ == State::ready) ++missed_, resolve();
      catch_up(m.value);
      break;
    case MessageType::commit:
      if (id > self_ || !about_head || state_ == State::exchanging) return;
      p.late = false;
      state_ = State::exchanging;
      due_wall_ = now_.wall;
      return;
    case MessageType::decline:
      if (!p.off || p.off->list != key.list || p.off->number < key.number) p.off = key;
      if (about_head && !leads() && state_ != State::exchanging) ++missed_, resolve();
      catch_up(m.value);
      break;
    default:
      return;
  }
  act();
}

void AppointmentPolicy::adopt(const Graph& graph, const std::vector<bool>& gone) {
  if (!agenda_->adopt(graph, gone)) return;
  if (adopted_) skip_before_ = std::max(skip_before_, time());
  adopted_ = true;
  give_up();
  draw();
  act();
}

void AppointmentPolicy::gone(int id) {
  peer(id) = {};
  peer(id).here = false;
  if ((state_ == State::ready || state_ == State::withdrawing) && head_.peer == id)
    ++missed_, resolve();
  act();
}

void AppointmentPolicy::joined(int id) { peer(id) = {}; }

// A higher peer has asked to be let go before it said so; a lower one still answers.
void AppointmentPolicy::stopped(int id) {
  peer(id).here = false;
  if (state_ == State::ready && head_.peer == id && leads()) ++missed_, resolve();
  act();
}

void AppointmentPolicy::advance(const Now& now) {
  now_ = now;
  act();
}

void AppointmentPolicy::stop() {
  stopped_ = true;
  give_up();
  decline_stale();
}

void AppointmentPolicy::ended() {
  if (state_ == State::exchanging) resolve();
  act();
}

std::optional<Meeting> AppointmentPolicy::meeting() const {
  if (state_ != State::exchanging) return std::nullopt;
  return Meeting{head_.peer, static_cast<std::uint64_t>(head_.key.list) << 32 | head_.key.number,
                 std::nullopt};
}

Wake AppointmentPolicy::wake() const {
  if (state_ == State::waiting)
    return stopped_ ? Wake{} : Wake{INFINITY, next_.t - agenda_->early() - offset_};
  if (state_ == State::withdrawing) return {due_wall_ + kAnswerLimit, INFINITY};
  if (state_ == State::exchanging && now_.wall - due_wall_ > patience(head_.peer)) return {};
  return {due_wall_ + patience(head_.peer),
          std::isfinite(due_wall_) ? INFINITY : head_.t - offset_};
}

// A transfer that hangs must not stop training; the payload has its own deadline.
Hold AppointmentPolicy::hold() const {
  if (stopped_) return {};
  if (state_ == State::exchanging && now_.wall - due_wall_ > patience(head_.peer)) return {};
  return {(state_ == State::waiting ? next_.t : head_.t) + kAhead - offset_,
          2 * std::max(kLeastPatience, kPatienceGradients * now_.gradient_s)};
}

}  // namespace gossamer::dist
