// Every method, with faults drawn at random: lost, late and held back messages, a slow worker, and
// deaths. Whoever lives trains to the end, and then all hold the same model.
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>

#include <gmock/gmock.h>

#include "dist/rounds/synchronous.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/faults/injector.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {

constexpr int kSteps = 30;

struct Faults {
  std::string links;            // as inject.h has them
  std::map<int, int> deaths{};  // rank, step
};

Faults draw_faults(const Graph& graph, int n, Rng& draw) {
  Faults out;
  const auto add = [&](const auto&... parts) {
    std::ostringstream item;
    (item << ... << parts);
    out.links += (out.links.empty() ? "" : ",") + item.str();
  };
  for (const auto& [a, b, rate] : graph.edges) {
    if (draw.below(3) == 0)
      add("drop:edge=", a, "-", b, ":p=", .02 + .2 * static_cast<double>(draw.uniform()));
    if (draw.below(4) == 0) add("delay:edge=", a, "-", b, ":", 1 + draw.below(3), "ms");
  }
  if (draw.below(2) == 0) add("slow:rank=", draw.below(static_cast<std::uint32_t>(n)), ":x3");
  if (draw.below(3) == 0) add("partition:0|1:50ms@t=0.01");
  const std::uint32_t deaths = draw.below(3);
  for (std::uint32_t i = 0; i < deaths && std::ssize(out.deaths) < n - 2; ++i)
    out.deaths[static_cast<int>(draw.below(static_cast<std::uint32_t>(n)))] =
        static_cast<int>(draw.below(kSteps));
  return out;
}

void run(const std::string& method, std::uint64_t number_of_run) {
  Rng draw(number_of_run, 46);
  const int n = 3 + static_cast<int>(draw.below(4));
  MethodOptions options = options_of("", n, kSteps, draw.below(2) == 0);
  options.settings.set("period", 4);
  options.settings.set("control.most", 5);
  options.settings = options.settings.only(method_settings(method));
  // On a loaded machine who waits for a core is not late.
  options.exchange_least_s = options.exchange_timeout_s;
  const std::vector<std::string> payloads = {"f32", "bf16", "int8"};
  options.payload = payloads[draw.below(3)];
  const std::string optimizer = method_traits(method).usual_optimizer();
  LocalCluster cluster(n);
  // Some methods take no coded payload, or no ring of four.
  const auto takes = [&](const Graph& graph) {
    try {
      check_method(method, optimizer, cluster.group(0), graph, options);
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  };
  Graph graph = make_graph(graph_for(method), n);
  if (!takes(graph)) options.payload = "f32";
  if (!takes(graph)) graph = make_graph("chain", n);
  ASSERT_TRUE(takes(graph)) << method;
  const Faults faults = draw_faults(graph, n, draw);
  SCOPED_TRACE(testing::Message() << method << ", run " << number_of_run << ": " << n
                                  << " workers, payload " << options.payload << ", " << faults.links
                                  << ", " << faults.deaths.size() << " deaths");
  std::vector<std::vector<float>> x(static_cast<std::size_t>(n));
  try {
    on_workers(cluster, n, [&](int rank, Group& inner) {
      Injector injector(parse_injections(faults.links), rank, {});
      const auto group = disturbed(inner, injector, number_of_run, Seconds(5));
      Quadratic q(rank, 40);
      const auto by = nn::make_optimizer(optimizer, q.params, {});
      const auto m = make_method(method, q.params, *by, *group, graph, options);
      injector.start();
      const auto dies = faults.deaths.find(rank);
      for (int step = 0; !m->done(); ++step) {
        if (dies != faults.deaths.end() && step == dies->second) return cluster.kill(rank);
        m->prepare(.05);
        q.gradient(.01f);
        injector.before_step(step);
        m->step(.05);
        injector.after_step();
      }
      m->finish();
      x[static_cast<std::size_t>(rank)] = copy(q.params.values());
    });
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
  const std::vector<float>* first = nullptr;
  for (int rank = 0; rank < n; ++rank) {
    const auto& mine = x[static_cast<std::size_t>(rank)];
    if (mine.empty()) {  // it died, or has ended before its step
      EXPECT_TRUE(faults.deaths.contains(rank)) << rank;
      continue;
    }
    for (const float value : mine) ASSERT_LT(std::abs(value), 20 * n) << rank;
    if (!first) first = &mine;
    EXPECT_EQ(mine, *first) << rank;
  }
}

// GOSSAMER_STRESS_SECONDS: again, with other faults, until so much time is over.
TEST(EveryMethod, TrainsToItsEndThroughFaults) {
  const char* given = std::getenv("GOSSAMER_STRESS_SECONDS");
  const double until = wall_seconds() + (given ? std::atof(given) : 0);
  std::uint64_t runs = 0;
  do {
    for (int i = 0; i < 3; ++i, ++runs)
      for (const std::string& method : method_names()) run(method, runs);
  } while (wall_seconds() < until && !HasFailure());
  RecordProperty("runs_of_each", std::to_string(runs));
  if (given)
    std::printf("    %zu methods, %llu runs of each\n", method_names().size(),
                static_cast<unsigned long long>(runs));
}

}  // namespace
}  // namespace gossamer::dist
