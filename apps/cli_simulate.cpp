// The options of `gossamer simulate`.
#include "gossamer/apps/cli_options.h"
#include "gossamer/apps/commands.h"

namespace gossamer::apps {
namespace {

class HelpOfParent : public CLI::Formatter {
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode mode) const override {
    return app->get_parent()->get_formatter()->make_help(app->get_parent(), "gossamer simulate",
                                                         mode);
  }
};

// The modes and options of `gossamer simulate`.
void add_simulate_options(CLI::App& app, SimulateCommand& c) {
  for (const auto& [mode, about] : {std::pair{"consensus", "how fast workers agree"},
                                    {"quadratic", "training on a quadratic function"},
                                    {"logreg", "training by logistic regression"},
                                    {"timeline", "how long workers compute and wait"},
                                    {"exchanges", "a table: exchanges until workers agree"}}) {
    CLI::App& a = *app.add_subcommand(mode, about)->fallthrough();  // all take the options below
    a.set_help_flag();
    a.formatter(std::make_shared<HelpOfParent>());
  }
  app.require_subcommand(1);
  const char* group = "Network";
  const auto option = [&](const char* name, auto& value, const char* text) {
    return app.add_option(name, value, text)->group(group)->capture_default_str();
  };
  const auto list = [&](const char* name, auto& value, const char* text) {
    return option(name, value, text)->delimiter(',');
  };
  // Adds an option whose default depends on the mode, so that none is printed.
  const auto chosen = [&](const char* name, auto& value, const char* text) {
    return app.add_option(name, value, text)->group(group);
  };
  // Adds the settings of methods: those with a dot in their names, or those without.
  const auto settings = [&](bool dotted) {
    for (auto& [setting, value] : c.of_methods) {
      if ((setting.name.find('.') != setting.name.npos) != dotted) continue;
      std::visit(
          [&, name = simulate_option(setting.name),
           about = with_setting_names(setting.about, simulate_option)](auto& v) {
            CLI::Option* const made = option(name.c_str(), v, about.c_str());
            if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::vector<double>>)
              made->delimiter(',');
          },
          value);
    }
  };
  option("--graph", c.options.graph, "a graph that `gossamer graph --help` lists");
  option("--workers", c.options.workers, "number of workers, 2 to 4096");
  std::string methods;
  for (const std::string& name : dist::simulated_methods()) {
    const bool synchronous = dist::method_traits(name).synchronous,
               first = synchronous && methods.find("synchronous") == methods.npos;
    methods += (methods.empty() ? "" : first ? "; synchronous: " : ", ") + name;
  }
  option("--method", c.options.method, methods.c_str());
  option("--pairing", c.options.pairing,
         "ideal: poisson, matching; with latencies: handshake, schedule, rounds");
  chosen("--rounds", c.options.rounds,
         "for synchronous methods and pairing matching: ring-matching, one-peer-exp, aer, ...; "
         "default: all neighbours of the graph");
  option("--rate", c.options.rate, "exchanges of each worker per gradient");
  app.add_flag("--rate-is-limit", c.options.rate_is_limit,
               "no worker does more than the rate (the hub of a star)")
      ->group(group);
  settings(false);
  option("--eta-scale", c.options.eta_scale, "a2cid2: factor of eta");
  option("--realised-rate", c.options.realised_rate, "fraction of exchanges that really happen");
  chosen("--staleness", c.options.staleness, "published: most age of what is sent; default: any");
  group = "Run";
  chosen("--time", c.time,
         "length in mean gradient durations; default: 300 for consensus, or less if the workers "
         "agree long before; else 500");
  chosen("--from", c.from, "time at which the fit or the mean begins; default: after a third");
  chosen("--seeds", c.seeds,
         "runs to average over; default: 4 for training, else as many as take a second or two");
  option("--seed", c.options.seed, "seed of the first run");
  option("--dims", c.options.dims, "parameters of a worker");
  app.add_flag("--json", c.json, "print the result as one JSON object")->group(group);
  chosen("--html", c.html, "write pictures into this page");
  chosen("--events", c.events,
         "a2cid2, adpsgd, async-tracking, published: file for every event, as JSON lines");
  group = "Training: quadratic, logreg";
  chosen("--learning-rate", c.learning_rate,
         "learning rate; default: 0.05 for quadratic, 0.5 for logreg");
  option("--momentum", c.options.momentum, "momentum of SGD");
  option("--heterogeneity", c.quadratic.heterogeneity, "how much the workers' data differ");
  chosen("--inject", c.options.inject,
         "workers that lie: attack:3:alie; also dissensus, sign-flip, ipm, label-flip");
  option("--noise", c.quadratic.noise, "quadratic: standard deviation of the gradients' noise");
  option("--curvature", c.quadratic.curvature, "quadratic: factor of the curvature; 0: noise only");
  option("--condition", c.quadratic.condition,
         "quadratic: largest curvature divided by the smallest");
  option("--samples", c.logreg.samples, "logreg: samples of each worker");
  option("--batch", c.logreg.batch, "logreg: samples of a gradient");
  group = "Settings of methods that control others: training";
  settings(true);
  group = "Machines: timeline; pairings handshake, schedule, rounds";
  option("--compute-s", c.options.machines.compute_s, "seconds of a gradient");
  chosen("--compute", c.compute,
         "spread of --compute-s: constant, lognormal:SIGMA, exponential; default: lognormal:0.02");
  chosen("--slow", c.slow, "3:x10, or 3:0.1, makes worker 3 ten times as slow; may be repeated");
  dist::Machines& m = c.options.machines;
  option("--node-size", m.node_size, "workers of a node, which share its link to other nodes");
  option("--latency-s", m.latency_s, "seconds until a message arrives");
  option("--bandwidth", m.bandwidth, "bytes per second of a node's link, each way");
  option("--node-latency-s", m.node_latency_s, "the same between workers of a node");
  option("--node-bandwidth", m.node_bandwidth, "the same between workers of a node");
  chosen("--flow-bandwidth", m.flow_bandwidth, "most that one transfer between nodes gets");
  option("--bytes", c.options.machines.bytes, "bytes of a model");
  chosen("--link", c.link, "spread of latencies and transfer times; default: constant");
  option("--buckets", c.options.machines.buckets,
         "timeline of allreduce: parts in which gradients are summed during backward");
  group = "Exchanges: mode exchanges";
  list("--graphs", c.graphs, "graphs to compare, of star, ring, complete");
  list("--sizes", c.sizes, "numbers of workers to compare");
}

}  // namespace

void add_simulate(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "simulate",
      "Many workers in simulated time: gossamer simulate consensus --graph ring --workers 64");
  const auto c = std::make_shared<SimulateCommand>();
  add_simulate_options(a, *c);
  a.callback([&a, c, &code] {
    c->mode = a.get_subcommands()[0]->get_name();
    for (const CLI::Option* option : a.get_options())
      if (option->count() > 0) c->given.push_back(option->get_name());
    code = simulate(*c);
  });
}

}  // namespace gossamer::apps
