// The two kinds of lists: seeded and rounds.
#include "gossamer/dist/gossip/schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

constexpr std::uint64_t kStream = 0x7363686564ull;

double unit53(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>(((static_cast<std::uint64_t>(high) << 32) | low) >> 11) * 0x1p-53;
}

class SeededAgenda : public Agenda {
 public:
  SeededAgenda(int self, double rate, std::uint64_t seed) : self_(self), rate_(rate), seed_(seed) {}
  bool adopt(const Graph& graph, const std::vector<bool>& gone) override {
    if (list_ && list_->list() == name_of_set(gone)) return false;
    list_ = std::make_unique<EventList>(graph, gone, rate_, seed_);
    alone_ = graph.neighbours(self_).empty();
    return true;
  }
  Appointment next() override {
    if (alone_ || rate_ <= 0) return {};
    for (;;) {
      const ScheduledEvent e = list_->next();
      if (!std::isfinite(e.t)) return {};
      if (e.a == self_ || e.b == self_) return {e.key, e.t, e.a == self_ ? e.b : e.a};
    }
  }
  std::uint32_t list() const override { return list_ ? list_->list() : 0; }
  double early() const override { return 0.5; }

 private:
  int self_;
  double rate_;
  std::uint64_t seed_;
  std::unique_ptr<EventList> list_;
  bool alone_ = true;
};

// A worker drops its appointments with the dead; matchings are not mended.
class RoundsAgenda : public Agenda {
 public:
  RoundsAgenda(int self, double rate, std::shared_ptr<const Rounds> rounds)
      : self_(self), rate_(rate), rounds_(std::move(rounds)) {}
  bool adopt(const Graph&, const std::vector<bool>&) override {
    return !std::exchange(begun_, true);
  }
  Appointment next() override {
    for (i64 tried = 0; tried < rounds_->period(); ++tried) {
      const i64 k = round_++;
      const Round round = rounds_->round(self_, k);
      if (!round.in.empty())
        return {{0, static_cast<std::uint32_t>(k)},
                static_cast<double>(k + 1) / rate_,
                round.in.front().worker};
    }
    return {};
  }
  std::uint32_t list() const override { return 0; }
  double early() const override { return 0; }

 private:
  int self_;
  double rate_;
  std::shared_ptr<const Rounds> rounds_;
  i64 round_ = 0;
  bool begun_ = false;
};

}  // namespace

EventList::EventList(const Graph& graph, const std::vector<bool>& gone, double rate,
                     std::uint64_t seed)
    : edges_(graph.edges), philox_(seed), list_(name_of_set(gone)) {
  double total = 0;
  for (const Edge& e : edges_) cumulative_.push_back(total += e.rate);
  per_unit_ = edges_.empty() ? 0 : rate * static_cast<double>(std::ranges::count(gone, false)) / 2;
}

ScheduledEvent EventList::next() {
  if (per_unit_ <= 0) return {{list_, number_}, INFINITY, 0, 0};
  const Philox::Four words = philox_(number_, kStream ^ static_cast<std::uint64_t>(list_) << 32);
  t_ += -std::log(1.0 - unit53(words.v[0], words.v[1])) / per_unit_;
  const double ticket = unit53(words.v[2], words.v[3]) * cumulative_.back();
  const auto at = std::min<std::ptrdiff_t>(
      std::ranges::upper_bound(cumulative_, ticket) - cumulative_.begin(), std::ssize(edges_) - 1);
  const Edge& e = edges_[static_cast<std::size_t>(at)];
  return {{list_, number_++}, t_, e.a, e.b};
}

std::unique_ptr<Agenda> make_seeded_agenda(int self, double rate, std::uint64_t seed) {
  return std::make_unique<SeededAgenda>(self, rate, seed);
}

std::unique_ptr<Agenda> make_rounds_agenda(int self, double rate, const Graph& graph) {
  const std::string& g = graph.name;
  const char* name = g == "ring"                                                 ? "ring-matching"
                     : g == "complete" || g == "hypercube" || g == "exponential" ? "one-peer-exp"
                                                                                 : nullptr;
  check<ConfigError>(name != nullptr, "pairing \"rounds\" has no matchings for the graph \"", g,
                     "\"; it has for ring, complete, hypercube, exponential");
  check<ConfigError>(rate > 0, "pairing \"rounds\": rate ", rate, "; it must be above 0");
  return std::make_unique<RoundsAgenda>(self, rate, make_rounds(name, graph.n));
}

}  // namespace gossamer::dist
