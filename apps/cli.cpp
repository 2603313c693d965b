// The command line, and the one place where exceptions become a sentence and an exit code. The only
// file that sees CLI11.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/version.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/net/launch.h"

namespace gossamer::apps {
namespace {

// "worker 2: " where several run: eight processes may share this terminal.
std::string speaker() {
  try {
    const dist::LaunchInfo info = dist::launch_info();
    return info.size > 1 ? "worker " + std::to_string(info.rank) + ": " : "";
  } catch (const std::exception&) {
    return "";
  }
}

int report(const std::string& text, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "gossamer: %s%s\n", speaker().c_str(), text.c_str());
  return code;
}

void add_simulate(CLI::App& app, SimulateCommand& c) {
  app.add_option("mode", c.mode,
                 "consensus: how fast workers agree; quadratic, logreg: training; timeline: who "
                 "waits for whom; exchanges: a table")
      ->required();
  const char* group = "Network";
  const auto option = [&](const char* name, auto& value, const char* text) {
    return app.add_option(name, value, text)->group(group)->capture_default_str();
  };
  const auto list = [&](const char* name, auto& value, const char* text) {
    return option(name, value, text)->delimiter(',')->allow_extra_args(false);
  };
  // 0 and -1 stand for "what suits the mode".
  const auto chosen = [&](const char* name, auto& value, const char* text) {
    return app.add_option(name, value, text)->group(group);
  };
  option("--graph", c.options.graph, "see gossamer graph");
  option("--workers", c.options.workers, "2 to 4096");
  option("--method", c.options.method,
         "a2cid2, adpsgd, published; synchronous: dpsgd, dpsgd-atc, allreduce, sgp, local-sgd, "
         "consensus-control");
  option("--pairing", c.options.pairing,
         "ideal: poisson, matching; with latencies: handshake, schedule, rounds");
  chosen("--rounds", c.options.rounds,
         "of synchronous methods and pairing matching: ring-matching, one-peer-exp, aer, ... Not "
         "given: the graph's neighbours");
  option("--rate", c.options.rate, "exchanges per worker and gradient");
  app.add_flag("--rate-is-limit", c.options.rate_is_limit,
               "no worker does more than the rate (the hub of a star)")
      ->group(group);
  option("--period", c.options.period, "local-sgd: steps between averages");
  option("--eta-scale", c.options.eta_scale, "a2cid2: eta times this");
  option("--realised-rate", c.options.realised_rate,
         "exchanges happen at this part of the rate only");
  group = "Run";
  chosen("--time", c.time, "in mean gradient durations; not given: 300 for consensus, else 500");
  chosen("--from", c.from, "the fit, or the mean over time, begins here; not given: after a third");
  chosen("--seeds", c.seeds,
         "runs to average over; not given: 4 of training, else as many as take a second");
  option("--seed", c.options.seed, "the first of them");
  option("--dims", c.options.dims, "parameters of a worker");
  app.add_flag("--json", c.json, "the result as one JSON object")->group(group);
  group = "Training: quadratic, logreg";
  chosen("--learning-rate", c.learning_rate, "not given: 0.05 for quadratic, 0.5 for logreg");
  option("--momentum", c.options.momentum, "of SGD");
  option("--heterogeneity", c.quadratic.heterogeneity, "how different the workers' data are");
  option("--noise", c.quadratic.noise, "quadratic: of gradients");
  option("--curvature", c.quadratic.curvature, "quadratic: 0 leaves the noise only");
  option("--condition", c.quadratic.condition, "quadratic: largest by smallest curvature");
  option("--samples", c.logreg.samples, "logreg: of each worker");
  option("--batch", c.logreg.batch, "logreg: samples of a gradient");
  group = "Consensus control: training with --method consensus-control";
  dist::ConsensusControlOptions& k = c.options.control;
  option("--control-method", k.method,
         "the synchronous method under control: dpsgd, dpsgd-atc, sgp, local-sgd");
  option("--control-target", k.target,
         "plateau: fractions of the distance without control; online: factor * learning rate * "
         "gradient norm");
  list("--control-phases", k.phases,
       "plateau: fractions of the run at which the next phase begins: 0.3,0.6");
  list("--control-fractions", k.fractions,
       "plateau: target of each phase, one more than phases; 0: exact averages; 1: no control");
  option("--control-measure", k.measure,
         "plateau: fraction of the run at the start of a phase in which the distance is measured");
  option("--control-factor", k.factor, "online");
  option("--control-most", k.most,
         "rounds of gossip after one step; who needs more averages exactly");
  group = "Machines: timeline; pairings handshake, schedule, rounds";
  option("--compute-s", c.options.machines.compute_s, "seconds a gradient");
  chosen("--compute", c.compute,
         "its spread: constant, lognormal:SIGMA, exponential; not given: lognormal:0.02");
  chosen("--slow", c.slow, "3:x10 makes worker 3 ten times as slow; may be repeated")
      ->allow_extra_args(false);
  option("--latency-s", c.options.machines.latency_s, "of a message");
  option("--bandwidth", c.options.machines.bandwidth, "bytes a second");
  option("--bytes", c.options.machines.bytes, "of a model");
  chosen("--link", c.link, "spread of latencies and transfers; not given: constant");
  option("--buckets", c.options.machines.buckets,
         "timeline of allreduce: parts that overlap with backward");
  group = "Exchanges: mode exchanges";
  list("--graphs", c.graphs, "star, ring, complete");
  list("--sizes", c.sizes, "numbers of workers");
}

std::vector<std::string> given(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* o : app.get_options())
    if (o->count() > 0) names.push_back(o->get_name());
  return names;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app{
      "Gossamer: decentralized deep learning. Workers train at their own pace and average with one "
      "neighbour at a time.",
      "gossamer"};
  app.set_version_flag("--version", std::string("gossamer ") + version());
  app.require_subcommand(1);
  int code = 0;

  TrainCommand train_options;
  CLI::App* train_app = app.add_subcommand(
      "train", "Train: gossamer train [CONFIG.toml] [key=value ...] [--workers N]");
  train_app->add_option("arguments", train_options.arguments,
                        "one CONFIG.toml, then key=value (train.batch=64)");
  train_app->add_option("--workers", train_options.workers,
                        "worker processes, on this machine or on --hosts");
  train_app
      ->add_option("--hosts", train_options.hosts,
                   "start workers by ssh: FILE with lines `host [slots=N] [address=A]`, or a:2,b:2")
      ->check([](const std::string& given) { return given.empty() ? "no host is given" : ""; });
  train_app->add_option("--ssh", train_options.ssh,
                        "command instead of ssh and its options (also GOSSAMER_SSH)");
  train_app->add_option("--resume", train_options.resume,
                        "go on from a run's folder or one of its checkpoints");
  train_app->add_option(
      "--inject", train_options.inject,
      "faults on purpose: "
      "kill:rank=2@step=300,stop:rank=1:5s,slow:rank=1:x3,drop:edge=0-1:p=0.1,...");
  train_app->add_option("--record", train_options.record,
                        "write the order of all events into this folder (a2cid2, adpsgd)");
  train_app->add_option("--replay", train_options.replay,
                        "repeat a recorded run bit for bit (CPU)");
  train_app->add_flag("--dry-run", train_options.dry_run,
                      "20 steps and one batch of evaluation; writes nothing");
  train_app->add_flag("--strict-images", train_options.strict_images,
                      "a damaged image stops the run");
  train_app->add_flag("--json", train_options.json,
                      "print the summary as JSON on stdout, progress on stderr");
  train_app->add_flag("--worker", train_options.worker, "")->group("");
  train_app->callback([&] { code = train(train_options); });

  EvalCommand eval_options;
  CLI::App* eval_app = app.add_subcommand(
      "eval", "Top-1 and top-5 of a model: gossamer eval MODEL.safetensors data.val=DIR");
  eval_app->add_option("model", eval_options.model, "model.safetensors")->required();
  eval_app->add_option("arguments", eval_options.arguments, "data.val=DIR and other key=value");
  eval_app->add_flag("--json", eval_options.json, "");
  eval_app->callback([&] { code = eval(eval_options); });

  ClassifyCommand classify_options;
  CLI::App* classify_app = app.add_subcommand(
      "classify", "What is in a picture: gossamer classify MODEL.safetensors IMAGE...");
  classify_app->add_option("model", classify_options.model, "model.safetensors")->required();
  classify_app->add_option("images", classify_options.images, "JPEG, PNG ...")->required();
  classify_app->add_option("--top", classify_options.top, "classes shown");
  classify_app->add_flag("--json", classify_options.json, "");
  classify_app->callback([&] { code = classify(classify_options); });

  GraphCommand graph_options;
  CLI::App* graph_app = app.add_subcommand(
      "graph",
      "Constants, spectral gap and exact decay of a graph or rounds: gossamer graph ring 16");
  graph_app
      ->add_option("name", graph_options.name,
                   "ring, chain, complete, star, tree, exponential, hypercube, torus, "
                   "random-regular:4, aer:8 (workers a node), "
                   "file:PATH (lines \"a b [rate]\"); rounds: ring-matching, one-peer-exp, "
                   "one-peer-exp-directed")
      ->required();
  graph_app->add_option("workers", graph_options.workers, "number of workers")->required();
  graph_app
      ->add_option("--rate", graph_options.rate,
                   "exchanges per worker and gradient, on average: the hub of a star does N/2. The "
                   "line `busiest` says "
                   "what is left if no worker can do more than this, one exchange at a time")
      ->capture_default_str();
  graph_app->add_flag("--json", graph_options.json, "");
  graph_app->callback([&] { code = graph(graph_options); });

  SimulateCommand simulate_options;
  CLI::App* simulate_app = app.add_subcommand(
      "simulate",
      "Many workers in simulated time: gossamer simulate consensus --graph ring --workers 64");
  add_simulate(*simulate_app, simulate_options);
  simulate_app->callback([&] {
    simulate_options.given = given(*simulate_app);
    code = simulate(simulate_options);
  });

  TraceMergeCommand trace_options;
  CLI::App* trace_app = app.add_subcommand("trace", "Traces of runs");
  trace_app->require_subcommand(1);
  CLI::App* merge_app = trace_app->add_subcommand(
      "merge",
      "Join the trace-RANK.json of a run's folder into trace.json: gossamer trace merge runs/NAME");
  merge_app->add_option("folder", trace_options.folder, "runs/NAME")->required();
  merge_app->add_flag("--keep", trace_options.keep, "keep trace-RANK.json");
  merge_app->add_flag("--json", trace_options.json, "");
  merge_app->callback([&] { code = trace_merge(trace_options); });

  MakeShapesCommand shapes_options;
  CLI::App* data_app = app.add_subcommand("data", "Data sets");
  data_app->require_subcommand(1);
  CLI::App* shapes_app =
      data_app->add_subcommand("make-shapes", "Draw the default data set into a folder");
  shapes_app->add_option("folder", shapes_options.folder, "DIR/train and DIR/val are made")
      ->required();
  shapes_app->add_option("--train", shapes_options.train, "training images");
  shapes_app->add_option("--val", shapes_options.val, "validation images");
  shapes_app->add_option("--size", shapes_options.size, "side in pixels");
  shapes_app->add_option("--seed", shapes_options.seed, "");
  shapes_app->add_option("--threads", shapes_options.threads, "");
  shapes_app->add_flag("--json", shapes_options.json, "");
  shapes_app->callback([&] { code = make_shapes(shapes_options); });

  DataCheckCommand check_options;
  CLI::App* check_app = data_app->add_subcommand(
      "check",
      "Decode every picture; list damaged and unusual ones (exit code 3 if any is damaged)");
  check_app->add_option("paths", check_options.paths, "what data.train may be")->required();
  check_app->add_option("--threads", check_options.threads, "")->capture_default_str();
  check_app->add_flag("--json", check_options.json, "");
  check_app->callback([&] { code = data_check(check_options); });

  DataIndexCommand index_options;
  CLI::App* index_app = data_app->add_subcommand(
      "index", "Write the index of tars and TFRecords beside them: the next start is instant");
  index_app->add_option("paths", index_options.paths, "archives, or folders with them")->required();
  index_app->add_flag("--json", index_options.json, "");
  index_app->callback([&] { code = data_index(index_options); });

  DataPackCommand pack_options;
  CLI::App* pack_app = data_app->add_subcommand(
      "pack", "Any data set into packed shards: gossamer data pack SRC DST");
  pack_app->add_option("source", pack_options.source, "what data.train may be")->required();
  pack_app
      ->add_option("folder", pack_options.folder,
                   "where the shards go; the same command again goes on where it was stopped")
      ->required();
  pack_app->add_option("--max-side", pack_options.max_side, "larger pictures are shrunk to this")
      ->capture_default_str();
  pack_app->add_option("--quality", pack_options.quality, "of the JPEG files")
      ->capture_default_str();
  pack_app->add_option("--shard-images", pack_options.shard_images, "pictures in a shard")
      ->capture_default_str();
  pack_app->add_option("--threads", pack_options.threads, "")->capture_default_str();
  pack_app
      ->add_option("--label-base", pack_options.label_base,
                   "as data.label_base: labels of TFRecord count from 0 or 1")
      ->check(CLI::IsMember({"auto", "0", "1"}))
      ->capture_default_str();
  pack_app->add_flag("--copy", pack_options.copy, "keep the files as they are");
  pack_app->add_flag("--strict", pack_options.strict,
                     "end at a damaged picture instead of leaving it out");
  pack_app->add_flag("--json", pack_options.json, "");
  pack_app->callback([&] { code = data_pack(pack_options); });

  BenchStepOptions step_options;
  CLI::App* bench_app = app.add_subcommand("bench", "Measurements");
  bench_app->require_subcommand(1);
  CLI::App* step_app = bench_app->add_subcommand(
      "step", "Time of whole training steps, on synthetic images or fed by the loader");
  step_app->add_option("--model", step_options.model, "");
  step_app->add_option("--batch", step_options.batch, "");
  step_app->add_option("--threads", step_options.threads, "");
  step_app->add_option("--dtype", step_options.dtype, "f32, bf16 or f16");
  step_app->add_option("--steps", step_options.steps, "steps measured");
  step_app->add_option("--seconds", step_options.seconds, "measure for this long instead");
  step_app->add_flag("--eval", step_options.eval, "inference instead of training");
  step_app->add_option("--warmup", step_options.warmup, "steps before");
  step_app->add_option("--size", step_options.size, "image side; 0: the model's own");
  step_app->add_option("--data", step_options.data,
                       "pictures, as data.train; not given: synthetic images");
  step_app->add_option("--data-threads", step_options.data_threads, "loader threads");
  step_app->add_option("--backend", step_options.backend, "onednn, reference or passes");
  step_app->add_flag("--json", step_options.json, "");
  step_app->add_option("--device", step_options.device, "cpu, cuda or cuda:N");
  step_app->add_flag("--graph", step_options.graph,
                     "GPU: capture the step once and launch it as a whole");
  step_app->add_flag("--tf32", step_options.tf32, "GPU, f32: products rounded to 10 bits");
  step_app->add_option("--plans", step_options.plans,
                       "GPU: file where measured plans of convolutions are kept");
  step_app->callback([&] { code = bench_step(step_options); });

  BenchDataOptions data_options;
  CLI::App* bench_data_app = bench_app->add_subcommand(
      "data", "Images a second that a core decodes and augments: gossamer bench data PATH");
  bench_data_app->add_option("paths", data_options.paths, "what data.train may be")->required();
  bench_data_app->add_option("--mode", data_options.mode,
                             "train: random resized crop, flip; eval: shorter side, centre crop");
  bench_data_app->add_option(
      "--what", data_options.what,
      "all, or one of coefficients, entropy, decode, prepare, loader, device");
  bench_data_app->add_option("--size", data_options.size, "side of the images that come out");
  bench_data_app->add_option("--threads", data_options.threads, "");
  bench_data_app->add_option("--seconds", data_options.seconds, "for all measurements together");
  bench_data_app->add_option("--images", data_options.images, "held in memory at most");
  bench_data_app->add_option("--cache-gb", data_options.cache_gb,
                             "as data.cache_gb, filled before the loader is measured");
  bench_data_app->add_option("--gpu-rate,--feeds", data_options.gpu_rate,
                             "images/s that a GPU takes: says whether it would starve");
  bench_data_app->add_flag("--json", data_options.json, "");
  bench_data_app->callback([&] { code = bench_data(data_options); });

  app.add_subcommand("agent", "")->group("")->callback([&] { code = agent(); });

  DoctorCommand doctor_options;
  CLI::App* doctor_app =
      app.add_subcommand("doctor", "What this machine and this build can do, and what to fix");
  doctor_app->add_flag("--json", doctor_options.json, "");
  doctor_app->callback([&] { code = doctor(doctor_options); });

  std::vector<std::string> wrapped;
  CLI::App* run_app = app.add_subcommand(
      "run", "For mpirun: gossamer run train ... keeps siblings alive when this worker dies");
  run_app->prefix_command();
  run_app->callback([&] { wrapped = run_app->remaining(); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    const auto commands = app.get_subcommands();
    return report(std::string(e.what()) + " (see gossamer " +
                      (commands.empty() ? "" : commands[0]->get_name() + " ") + "--help)",
                  2);
  }
  if (run_app->parsed()) {
    check<ConfigError>(
        !wrapped.empty(),
        "run: what shall be run? For example: mpirun -np 4 gossamer run train config.toml");
    return run_wrapped(wrapped);
  }
  return code;
}

}  // namespace

int command_line(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const ConfigError& e) {
    return report(e.what(), 2);
  } catch (const DataError& e) {
    return report(e.what(), 3);
  } catch (const DeviceError& e) {
    return report(e.what(), 4);
  } catch (const std::bad_alloc&) {
    return report("out of memory; a smaller train.batch or fewer workers need less", 4);
  } catch (const DistError& e) {
    return report(e.what(), 5);
  } catch (const IoError& e) {
    return report(e.what(), 6);
  } catch (const std::exception& e) {
    return report(e.what(), 1);
  }
}

}  // namespace gossamer::apps
