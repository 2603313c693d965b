// See coordinator.h.
#include "gossamer/dist/simulation/coordinator.h"

#include <algorithm>

#include "gossamer/core/error.h"
#include "gossamer/dist/simulation/queue.h"

namespace gossamer::dist {
namespace {

class Coordinated {
 public:
  Coordinated(const SimulationPlan& plan, bool even)
      : plan_(plan),
        m_(plan.options.machines),
        even_(even),
        random_(plan.options.seed, 1),
        workers_(static_cast<std::size_t>(plan.options.workers)),
        crossing_(workers_.size()) {
    for (const Edge& e : plan.graph.edges) {
      at(e.a).neighbours.push_back(e.b);
      at(e.b).neighbours.push_back(e.a);
    }
    for (int i = 0; i < plan.options.workers; ++i) {
      begin_gradient(i);
      report_free(i);
    }
  }

  CoordinatedRun run(i64 gradients) {
    while (done_ < gradients) {
      now_ = queue_.next_time();
      handle(queue_.pop());
    }
    CoordinatedRun out;
    out.seconds = now_;
    for (const Worker& w : workers_) {
      out.gradients.push_back(w.gradients);
      out.exchanges.push_back(w.exchanges);
      out.waited_s.push_back(w.waited_s);
    }
    return out;
  }

 private:
  enum class What : std::uint8_t { gradient_done, heard_free, exchange_done };
  struct Due {
    What what;
    int who, other;
  };
  struct Worker {
    std::vector<int> neighbours;
    bool known_free = false;                              // to worker 0
    bool gradients_wait = false, exchanges_wait = false;  // at the barrier
    i64 gradients = 0, exchanges = 0;
    double wanted = 1;  // exchanges until they wait for the next gradient
    double wait_began_s = 0, waited_s = 0;
  };
  Worker& at(int i) { return workers_[static_cast<std::size_t>(i)]; }

  void handle(const Due& h) {
    switch (h.what) {
      case What::gradient_done:
        ++done_;
        ++at(h.who).gradients;
        at(h.who).gradients_wait = true;
        at(h.who).wait_began_s = now_;
        return meet(h.who);
      case What::heard_free:
        return pair(h.who);
      case What::exchange_done:
        share(h.who, h.other, -1);
        end_exchange(h.who);
        return end_exchange(h.other);
    }
  }

  void begin_gradient(int i) {
    const double took = m_.compute_s * m_.slowness(i) * m_.compute.draw(random_);
    queue_.push(now_ + took, {What::gradient_done, i, -1});
  }
  void report_free(int i) { queue_.push(now_ + m_.message_s(i, 0), {What::heard_free, i, -1}); }

  // Worker 0: the first of i's neighbours, in random order, that is free.
  void pair(int i) {
    std::vector<int> order = at(i).neighbours;
    for (std::size_t k = order.size(); k > 1; --k)
      std::swap(order[k - 1], order[random_.below(static_cast<std::uint32_t>(k))]);
    for (const int j : order) {
      if (!at(j).known_free) continue;
      at(j).known_free = false;
      // at any time half of the transfers on a link go each way
      const double one_way = m_.transfer_s(i, j, (share(i, j, 1) + 1) / 2) * m_.link.draw(random_);
      const double told = std::max(m_.message_s(0, i), m_.message_s(0, j));
      queue_.push(now_ + told + 2 * one_way, {What::exchange_done, i, j});
      return;
    }
    at(i).known_free = true;
  }
  int share(int i, int j, int change) {
    if (m_.together(i, j)) return 1;
    int& a = crossing_[static_cast<std::size_t>(m_.node_of(i))];
    int& b = crossing_[static_cast<std::size_t>(m_.node_of(j))];
    return std::max(a += change, b += change);
  }

  void end_exchange(int i) {
    Worker& w = at(i);
    ++w.exchanges;
    if (static_cast<double>(w.exchanges) < w.wanted) return report_free(i);
    w.exchanges_wait = true;
    meet(i);
  }

  void meet(int i) {
    Worker& w = at(i);
    if (!w.gradients_wait || !w.exchanges_wait) return;
    w.gradients_wait = w.exchanges_wait = false;
    w.waited_s += now_ - w.wait_began_s;
    const double rate = plan_.options.rate;
    w.wanted += even_ ? rate : static_cast<double>(random_.poisson(rate));
    begin_gradient(i);
    report_free(i);
  }

  const SimulationPlan& plan_;
  const Machines& m_;
  const bool even_;
  Rng random_;
  std::vector<Worker> workers_;
  std::vector<int> crossing_;  // transfers under way between each node and others
  SimulationQueue<Due> queue_;
  double now_ = 0;
  i64 done_ = 0;
};

}  // namespace

CoordinatedRun coordinated_run(const SimulationPlan& plan, i64 gradients, bool even) {
  check<ConfigError>(plan.options.rate >= 1, "simulate: the published pairing at rate ",
                     plan.options.rate, "; it is there for rates of 1 or more");
  return Coordinated(plan, even).run(gradients);
}

}  // namespace gossamer::dist
