// Methods, graphs, numbers of workers and options drawn at random: each run ends, or is refused
// with one sentence before it starts.
#include <cstdlib>

#include <gtest/gtest.h>

#include "dist/rounds/synchronous.h"
#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

template <class T>
const T& one_of(const std::vector<T>& all, Rng& draw) {
  return all[draw.below(static_cast<std::uint32_t>(all.size()))];
}

// A small one of those that are possible.
double number(const Range& range, bool whole, Rng& draw) {
  const double least = std::max(range.least, -2.), most = std::min(range.most, least + 8);
  if (whole) return least + draw.below(static_cast<std::uint32_t>(most - least) + 1);
  return least + (most - least) * (.01 + .98 * static_cast<double>(draw.uniform()));
}

// Texts and lists without choices stay as they are.
void set(const NamedSetting& each, Settings& all, Rng& draw) {
  const std::string& name = each.setting.name;
  const Range& range = each.setting.range;
  if (std::holds_alternative<bool>(each.value)) all.set(name, draw.below(2) == 0);
  if (std::holds_alternative<i64>(each.value))
    all.set(name, static_cast<i64>(number(range, true, draw)));
  if (std::holds_alternative<double>(each.value)) all.set(name, number(range, false, draw));
  if (std::holds_alternative<std::optional<i64>>(each.value))
    all.set(name, static_cast<i64>(number(range, true, draw)));
  if (std::holds_alternative<std::optional<double>>(each.value))
    all.set(name, number(range, false, draw));
  if (!each.setting.choices.empty()) all.set(name, one_of(each.setting.choices, draw));
}

enum class End { ran, refused };

End run(std::uint64_t number_of_run) {
  Rng draw(number_of_run, 45);
  const int n = 1 + static_cast<int>(draw.below(9));
  const std::string method = one_of(method_names(), draw);
  std::vector<std::string> graphs = graph_names(), rounds = rounds_names();
  rounds.insert(rounds.end(), {"", "", "", "", "base:2", "epidemic:3", "aer:2"});
  MethodOptions options = options_of("", n, 6);
  options.settings = {};
  for (const NamedSetting& each : method_settings(method))
    if (draw.below(2) == 0) set(each, options.settings, draw);
  options.rounds = method_traits(method).synchronous ? one_of(rounds, draw) : "";
  options.payload = one_of<std::string>({"f32", "f32", "bf16", "int8"}, draw);
  options.clip_norm = draw.below(2);
  options.rate = draw.below(3);
  options.pairing = one_of<std::string>({"handshake", "schedule", "rounds"}, draw);
  options.quota = one_of<std::string>({"poisson", "exact"}, draw);
  const std::string graph_name = one_of(graphs, draw);
  SCOPED_TRACE(testing::Message() << "run " << number_of_run << ": " << method << " of " << n
                                  << " on " << graph_name << ", rounds " << options.rounds
                                  << ", payload " << options.payload);
  const std::string optimizer = method_traits(method).usual_optimizer();
  LocalCluster cluster(n);
  Graph graph;
  try {
    graph = make_graph(graph_name, n);
    check_method(method, optimizer, cluster.group(0), graph, options);
  } catch (const ConfigError& e) {
    const std::string why = e.what();
    EXPECT_GT(why.size(), 10u);
    EXPECT_EQ(why.find('\n'), std::string::npos) << why;
    return End::refused;
  }
  try {
    on_workers(cluster, n, [&](int rank, Group& group) {
      Quadratic q(rank, 12);
      const auto by = nn::make_optimizer(optimizer, q.params, {});
      const auto m = make_method(method, q.params, *by, group, graph, options);
      while (!m->done()) {
        m->prepare(.01);
        q.gradient();
        m->step(.01);
      }
      m->finish();
    });
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
  return End::ran;
}

// GOSSAMER_RANDOM_SETTINGS: how many instead of these.
TEST(RandomSettings, RunOrAreRefusedBeforeTheStart) {
  const char* given = std::getenv("GOSSAMER_RANDOM_SETTINGS");
  const int runs = given ? std::atoi(given) : 2000;
  int ran = 0, refused = 0;
  for (int i = 0; i < runs; ++i) ++(run(static_cast<std::uint64_t>(i)) == End::ran ? ran : refused);
  EXPECT_GT(ran, runs / 5);
  EXPECT_GT(refused, runs / 20);
  RecordProperty("ran", ran);
  RecordProperty("refused", refused);
}

}  // namespace
}  // namespace gossamer::dist
