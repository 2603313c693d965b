// Keeps a worker's appointments (schedule.h) in order. The partner is known. The two only have to
// agree whether both are there or the appointment is off, on both sides alike. The lower id
// decides:
//
//     higher -> lower   AVAIL(event)     I am at this event
//     lower  -> higher  COMMIT(event)    so am I: go
//                       DECLINE(event)   I have passed it, or did not wait any longer
//     higher -> lower   CANCEL(event)    I do not want to wait any longer; the answer is DECLINE,
//                                        unless COMMIT is on its way already
//
// The higher id leaves an event only with the lower's answer, or when the lower is dead. Waiting
// has a deadline (patience); a partner that was late once gets little time until it is there again.
// Messages carry the sender's time: a worker that was left behind (a straggler, or a process that
// was stopped) skips to where the others are, instead of finding every event passed for ever.
#pragma once

#include "gossamer/dist/gossip/policy.h"
#include "gossamer/dist/gossip/schedule.h"

namespace gossamer::dist {

class AppointmentPolicy : public PartnerPolicy {
 public:
  AppointmentPolicy(int self, int workers, std::unique_ptr<Agenda>);

  void adopt(const Graph&, const std::vector<bool>& gone) override;
  void receive(int peer, const Message&) override;
  void gone(int peer) override;
  void joined(int peer) override;
  void stopped(int peer) override;
  void advance(const Now&) override;
  void drop_due(double) override {}  // the own deadlines do that, on both sides
  void stop() override;
  void begun() override {}
  void ended() override;
  std::optional<Meeting> meeting() const override;
  bool resting() const override { return state_ == State::waiting; }
  Wake wake() const override;
  Hold hold() const override;
  std::vector<std::pair<int, Message>> take_messages() override {
    return std::exchange(outbox_, {});
  }

  double time() const { return now_.t + offset_; }  // on the common list
  i64 missed() const { return missed_; }            // appointments that were off

 private:
  // waiting: for the time of the next event; ready: at head_, for the partner; withdrawing: for the
  // answer to CANCEL
  enum class State : std::uint8_t { waiting, ready, withdrawing, exchanging };
  struct Peer {
    bool here = true;  // alive, and trains
    bool late = false;
    // ready: of a higher peer; off: this event and all before it
    std::optional<EventKey> ready, off;
  };

  void send(int peer, MessageType, EventKey);
  void draw();
  void act();
  void give_up();
  void resolve();  // head_ is done with
  void catch_up(double their_time);
  void decline_stale();
  bool is_off(const Appointment&) const;
  bool leads() const { return head_.peer > self_; }  // the lower id decides
  double patience(int peer) const;
  Peer& peer(int id) { return peers_[static_cast<std::size_t>(id)]; }
  const Peer& peer(int id) const { return peers_[static_cast<std::size_t>(id)]; }

  const int self_;
  std::unique_ptr<Agenda> agenda_;
  std::vector<Peer> peers_;
  State state_ = State::waiting;
  Appointment head_, next_;  // head_: unless waiting
  Now now_;
  double offset_ = 0, skip_before_ = 0;
  // ready: when the time of head_ had come, infinite before; else when the state began
  double due_wall_ = 0;
  bool adopted_ = false, stopped_ = false;
  i64 missed_ = 0;
  std::vector<std::pair<int, Message>> outbox_;
};

}  // namespace gossamer::dist
