// Exchanges that need no word beforehand: every worker works out the same list alone, and follows
// the part of it that is its own.
//
// Seeded schedule: the network's exchanges are one Poisson process; event e comes after a gap
// Exp(total rate) and falls on an edge with probability ~ its rate, both drawn from Philox(seed) at
// counter e. Rounds: in round k worker i meets the partner that a matching (rounds.h) gives it, at
// time (k + 1)/rate. Times are in gradients. Nothing can deadlock: of the events not yet done, both
// ends of the first one are free.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "gossamer/core/random.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/graph/rounds.h"

namespace gossamer::dist {

// list: which list the number belongs to; when workers die or come back, all draw a new one, named
// by name_of_set() of those that are gone.
struct EventKey {
  std::uint32_t list = 0, number = 0;
  bool operator==(const EventKey&) const = default;
};
struct ScheduledEvent {
  EventKey key;
  double t = 0;
  int a = 0, b = 0;  // a < b
};

class EventList {
 public:
  // rate: exchanges per worker and unit of time, on average over those that are there; the graph
  // says how they spread over the edges.
  EventList(const Graph&, const std::vector<bool>& gone, double rate, std::uint64_t seed);
  // of the whole network, ascending in time; t is infinite if there are no edges
  ScheduledEvent next();
  std::uint32_t list() const { return list_; }

 private:
  std::vector<Edge> edges_;
  std::vector<double> cumulative_;  // of the edges' rates
  double per_unit_ = 0, t_ = 0;
  Philox philox_;
  std::uint32_t list_ = 0, number_ = 0;
};

struct Appointment {
  EventKey key;
  double t = INFINITY;
  int peer = -1;
};

// What one worker has to do, in order.
class Agenda {
 public:
  virtual ~Agenda() = default;
  // true: a new list begins, from its first event
  virtual bool adopt(const Graph&, const std::vector<bool>& gone) = 0;
  // t infinite: there is none any more
  virtual Appointment next() = 0;
  virtual std::uint32_t list() const = 0;
  // how long before its time an event may happen
  virtual double early() const = 0;
};

std::unique_ptr<Agenda> make_seeded_agenda(int self, double rate, std::uint64_t seed);
// ring: odd/even; complete, hypercube, exponential: one peer at distance 2^k. ConfigError: other
// graphs, or a rate of 0.
std::unique_ptr<Agenda> make_rounds_agenda(int self, double rate, const Graph&);

}  // namespace gossamer::dist
