// For tests that stand between a method and the outside: a Group around another one that passes
// everything on. What a test wants to see or to spoil it overrides.
#pragma once

#include "gossamer/dist/reducer.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class Around : public Group, protected ControlLink, protected Payload, protected Collectives {
 public:
  explicit Around(Group& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  int started() const override { return inner_.started(); }
  ControlLink& control() override { return *this; }
  Payload& payload() override { return *this; }
  Collectives& collectives() override { return *this; }
  void rebuild(const std::vector<int>& alive, std::uint32_t epoch, Seconds limit) override {
    inner_.rebuild(alive, epoch, limit);
  }
  Seconds collective_limit() const override { return inner_.collective_limit(); }
  std::vector<int> alive() const override { return inner_.alive(); }
  std::string given_up_by(int peer) const override { return inner_.given_up_by(peer); }
  std::uint64_t arrivals(int peer) const override { return inner_.arrivals(peer); }
  DevicePort* device_port() override { return inner_.device_port(); }
  std::unique_ptr<Reducer> reducer(std::size_t buckets) override { return inner_.reducer(buckets); }

 protected:
  void send(int peer, const Message& m) override { inner_.control().send(peer, m); }
  Event next(Seconds timeout) override { return inner_.control().next(timeout); }
  void post(Event e) override { inner_.control().post(std::move(e)); }
  bool alive(int peer) const override { return inner_.control().alive(peer); }
  std::optional<ClockEstimate> clock_offset(int peer, double at_us) const override {
    return inner_.control().clock_offset(peer, at_us);
  }

  void exchange(int peer, std::uint64_t session, const Tensor& out, const Tensor& in,
                std::span<const char> note, Seconds deadline) override {
    inner_.payload().exchange(peer, session, out, in, note, deadline);
  }
  void abort(int peer, std::uint64_t from_session) override {
    inner_.payload().abort(peer, from_session);
  }
  void drain(Seconds limit) override { inner_.payload().drain(limit); }

  void all_reduce_sum(const Tensor& x) override { inner_.collectives().all_reduce_sum(x); }
  void all_reduce_sum(std::span<double> x, Seconds patience) override {
    inner_.collectives().all_reduce_sum(x, patience);
  }
  void broadcast(const Tensor& x, int root) override { inner_.collectives().broadcast(x, root); }
  void all_gather(const Tensor& own, const Tensor& all) override {
    inner_.collectives().all_gather(own, all);
  }
  void all_to_all(const Tensor& from, const Tensor& to) override {
    inner_.collectives().all_to_all(from, to);
  }
  void barrier() override { inner_.collectives().barrier(); }
  int members() const override { return inner_.collectives().members(); }
  void interrupt() override { inner_.collectives().interrupt(); }

  Group& inner_;
};

}  // namespace gossamer::dist
