// The command line, and the one place where exceptions become a sentence and an exit code. Only the
// files named cli* include CLI11.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>

#include <fmt/core.h>

#include "gossamer/apps/cli_help.h"
#include "gossamer/apps/cli_options.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/launch/agent.h"
#include "gossamer/apps/launch/worker_process.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/file_of_run.h"
#include "gossamer/apps/version.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/net/launch.h"

namespace gossamer::apps {
namespace {

// "worker 2: " if there are several workers, which may share this terminal; otherwise "".
std::string speaker() {
  try {
    const dist::LaunchInfo info = dist::launch_info();
    return info.size > 1 ? "worker " + std::to_string(info.rank) + ": " : "";
  } catch (const std::exception&) {
    return "";
  }
}

int report(const std::string& text, int code) {
  say(speaker() + text);
  return code;
}

// The exit code tells of the command's result. That of these is in files, and they only print what
// they have written; what the others print is their result.
int printed(const std::string& command, int code) {
  const std::string why = lost_output();
  if (why.empty()) return code;
  constexpr std::array kWriteFiles{"train",      "run",       "agent",        "average",
                                   "export",     "report",    "trace merge",  "data make-shapes",
                                   "data index", "data pack", "data tokenize"};
  const bool in_files = std::ranges::find(kWriteFiles, command) != kWriteFiles.end();
  return report("what was printed could not be written whole: " + why +
                    (in_files && code == 0 ? "; the files are written" : ""),
                code == 0 && !in_files ? 6 : code);
}

const char* const kSet = "a data set: folder of class folders, tar shards, ... as in data.train";

const char* const kModel =
    "a run's folder, a checkpoint's, or a file of weights (.safetensors, .pth)";

void add_train(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "train", "Train: gossamer train [CONFIG.toml] [key=value ...] [--workers N]");
  TrainCommand& c = run_on(a, train, code);
  a.add_option("arguments", c.arguments, "one CONFIG.toml, then key=value (train.batch=64)");
  a.footer(
      "Keys: `gossamer config` lists them all with defaults and meaning, as a CONFIG.toml;\n"
      "`gossamer config train.batch` explains one.");
  a.add_option("--workers", c.workers, "worker processes, on this machine or on --hosts");
  a.add_option("--hosts", c.hosts,
               "start workers by ssh: FILE with lines `host [slots=N] [address=A]`, or a:2,b:2")
      ->check([](const std::string& given) { return given.empty() ? "no host is given" : ""; });
  a.add_option("--ssh", c.ssh, "a command with options instead of ssh (also GOSSAMER_SSH)");
  a.add_option("--resume", c.resume,
               "continue a run: its folder or one of its checkpoints; auto: the run that this "
               "command describes, if it is there, else begin it");
  a.add_option("--join", c.join,
               "take part in a run that goes on, as one more worker, until it ends or a signal "
               "comes: HOST:PORT of one of its workers (dist.places=N makes room for N)");
  a.add_option("--inject", c.inject,
               "same as dist.inject=...: deliberate faults, such as kill:rank=2@step=300,"
               "stop:rank=1:5s,slow:rank=1:x3,drop:edge=0-1:p=0.1");
  a.add_option("--record", c.record,
               "same as run.record=DIR: write the order of all events into this folder (" +
                   dist::methods_that([](const dist::MethodTraits& m) { return m.records; }, ",") +
                   ")");
  a.add_option("--replay", c.replay,
               "same as run.replay=DIR: repeat a recorded run bit for bit (CPU)");
  a.add_flag("--find-lr", c.find_rate,
             "instead of training: 150 gradients with a rising learning rate, a curve of the loss, "
             "and a suggestion; one worker, no model is written");
  a.add_flag("--dry-run", c.dry_run, "20 steps and one batch of evaluation; writes nothing");
  a.add_flag("--strict-images", c.strict_images,
             "same as data.strict_images=true: a damaged image stops the run");
  a.add_flag("--json", c.json, "print the summary as JSON on stdout, progress on stderr");
  a.add_flag("--as-worker", c.worker, "")->group("");
}

void add_config(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand("config", "Every key, its default and meaning, as TOML");
  ConfigCommand& c = run_on(a, config, code);
  a.add_option("names", c.names, "keys (train.batch) or sections (train); none: all");
  add_json(a, c.json);
}

// Instead of what the header of the file says, see load_model().
void add_assumptions(CLI::App& app, std::vector<std::string>& arguments) {
  const auto key = [&](const char* option, const std::string& name, const char* text) {
    const auto set = [&arguments, name](const std::string& v) {
      arguments.push_back(name + "=" + v);
    };
    app.add_option_function<std::string>(option, set, text)->group("Instead of what the file says");
  };
  key("--name", "model.name", "model.name=…: default: by the names and shapes of the tensors");
  key("--size", "data.eval_size", "data.eval_size=…: side of the pictures; resized in ratio");
  key("--resize", "data.resize", "data.resize=…: shorter side before the centre crop");
  key("--mean", "data.mean", "data.mean=…: of each channel, e.g. 0.485,0.456,0.406");
  key("--std", "data.std", "data.std=…: standard deviation of each channel");
}

void add_class_names(CLI::App& app, std::string& classes) {
  app.add_option("--classes", classes, "file of the names of the classes, one a line")
      ->group("Instead of what the file says");
}

void add_eval(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "eval",
      "Top-1 and top-5 of a model, perplexity and BLEU of one for text: gossamer eval MODEL "
      "data.val=DIR");
  EvalCommand& c = run_on(a, eval, code);
  a.add_option("model", c.model, kModel)->required();
  a.add_option("arguments", c.arguments,
               model_keys_help("more models for pictures, to average their probabilities; "
                               "data.val=DIR and other key=value, as model.name, data.eval_size, "
                               "data.resize, data.mean, data.std"));
  a.add_flag("--per-class", c.per_class, "recall and precision of each class");
  a.add_flag("--confusion", c.confusion, "which classes are taken for which");
  a.add_option("--csv", c.csv, "write both into this folder: per_class.csv and confusion.csv");
  a.add_option("--html", c.html, "write both and the most confident mistakes into this page");
  a.add_flag("--flip", c.flip, "average the logits of each picture and its mirror image");
  a.add_option("--stride", c.stride,
               "text: windows overlap, each begins so many ids further on (Hugging Face's recipe); "
               "default: windows that follow each other");
  a.add_option(
      "--choices", c.choices,
      "text: a file of JSON lines with ctx, endings and label (HellaSwag's form): how often "
      "the right ending is the likeliest");
  a.add_option("--beam", c.beam,
               fmt::format("translation: hypotheses that are followed; default: {}; 1: greedy",
                           models::BeamOptions().beam));
  a.add_option("--length-penalty", c.length_penalty,
               fmt::format("translation: default {}", models::BeamOptions().length_penalty));
  add_assumptions(a, c.arguments);
  add_device(a, c.arguments);
  add_json(a, c.json);
}

void add_isa(CLI::App& app) {
  app.add_option_function<std::string>("--isa", cpu::limit_cpu,
                                       "most that code for the CPU may use: avx512, avx2 ...");
}

void add_classify(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "classify", "The likely classes of pictures: gossamer classify MODEL IMAGE...");
  ClassifyCommand& c = run_on(a, classify, code);
  a.add_option("model", c.model, kModel)->required();
  a.add_option("images", c.images, model_keys_help("JPEG, PNG ..., or folders of them; key=value"))
      ->required();
  a.add_option("--top", c.top, "number of classes to show");
  add_assumptions(a, c.arguments);
  add_class_names(a, c.classes);
  add_device(a, c.arguments);
  add_json(a, c.json, "print one JSON object for each picture, a line each");
}

void add_export(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "export", "A model for other programs: gossamer export MODEL --to onnx --out FILE");
  ExportCommand& c = run_on(a, export_model, code);
  a.add_option("model", c.model, kModel)->required();
  a.add_option("arguments", c.arguments, model_keys_help("key=value, as data.eval_size=224"));
  a.add_option("--to", c.to,
               "of pictures: onnx | safetensors | torch (a state dict, .pth); of language: "
               "huggingface (a folder with its tokenizer) | gguf (for llama.cpp) | onnx")
      ->required();
  a.add_option("--out", c.out, "the file to write; of huggingface the new or empty folder")
      ->required();
  a.add_option(
      "--dtype", c.dtype,
      "huggingface: f32 (the default) | bf16 | f16; gguf: its matrices: f32 | f16 | bf16 | q8_0");
  a.add_option("--shard-bytes", c.shard_bytes,
               "huggingface: cut the weights into files of about so many bytes; 0: one file")
      ->capture_default_str();
  a.add_option("--input", c.input,
               "onnx: what the graph takes, [N, 3, S, S]: normalized (f32, as in training, the "
               "default) | unit (f32, 0 to 1) | bytes (u8)");
  a.add_flag("--keep-batch-norm", c.keep_batch_norm,
             "onnx: BatchNormalization nodes instead of folding them into convolutions");
  add_assumptions(a, c.arguments);
  add_class_names(a, c.classes);
  add_json(a, c.json);
}

void add_graph(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "graph",
      "Constants, spectral gap and exact decay of a graph or rounds: gossamer graph ring 16");
  GraphCommand& c = run_on(a, graph, code);
  a.add_option("name", c.name,
               "ring, chain, complete, star, tree, exponential, hypercube, torus, "
               "random-regular:4, aer:8 (workers a node), file:PATH (lines \"a b [rate]\"); "
               "rounds: base:2 (at most 2 others), epidemic:4 (4 random others), ring-matching, "
               "one-peer-exp, one-peer-exp-directed")
      ->required();
  a.add_option("workers", c.workers, "number of workers")->required();
  a.add_option("--rate", c.rate,
               "exchanges of each worker per gradient, on average: the hub of a star has N/2. The "
               "line `busiest` shows what is left if no worker can exceed this rate, one exchange "
               "at a time")
      ->capture_default_str();
  a.add_option("--html", c.html, "write pictures into this page");
  add_json(a, c.json);
}

void add_trace(CLI::App& app, int& code) {
  CLI::App& trace = *app.add_subcommand("trace", "Traces of runs");
  trace.require_subcommand(1);
  CLI::App& a = *trace.add_subcommand(
      "merge",
      "Join the trace-RANK.json of a run's folder into trace.json: gossamer trace merge runs/NAME");
  TraceMergeCommand& c = run_on(a, trace_merge, code);
  a.add_option("folder", c.folder, "runs/NAME")->required();
  a.add_flag("--keep", c.keep, "keep the trace-RANK.json files");
  add_json(a, c.json);
}

void add_report(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "report", "Write a run's report.html, whether it ended or not; compare several runs");
  ReportCommand& c = run_on(a, report_runs, code);
  a.add_option("run", c.runs, "runs/NAME, and others to compare it with")->required();
  a.add_option("--out", c.out, "the page [RUN/report.html; of several runs comparison.html]");
  add_json(a, c.json);
}

void add_watch(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "watch", "Show runs in a browser while they go on, and to Prometheus; nobody can steer them");
  WatchCommand& c = run_on(a, watch, code);
  a.add_option("run", c.runs, "runs/NAME, and others to see beside it")->required();
  a.add_option("--port", c.port, "port on 127.0.0.1 [one that is free]")
      ->check(CLI::Range(1, 65535));
  a.add_option("--path", c.path, "path of the page in place of a secret one");
  add_json(a, c.json);
}

void add_data(CLI::App& app, int& code) {
  CLI::App& data = *app.add_subcommand("data", "Data sets");
  data.require_subcommand(1);
  {
    CLI::App& a = *data.add_subcommand("make-shapes", "Draw the default data set into a folder");
    MakeShapesCommand& c = run_on(a, make_shapes, code);
    a.add_option("folder", c.folder, "where DIR/train and DIR/val are written")->required();
    a.add_option("--train", c.options.train, "number of training images")->capture_default_str();
    a.add_option("--val", c.options.val, "number of validation images")->capture_default_str();
    a.add_option("--size", c.options.size, "side of the images in pixels")->capture_default_str();
    a.add_option("--seed", c.options.seed, "seed of the drawings")->capture_default_str();
    a.add_option("--threads", c.options.threads, "threads that draw")->capture_default_str();
    add_json(a, c.json);
  }
  {
    CLI::App& a = *data.add_subcommand(
        "check",
        "Decode every picture; list damaged and unusual ones (exit code 3 if any is damaged)");
    DataCheckCommand& c = run_on(a, data_check, code);
    a.add_option("paths", c.paths, kSet)->required();
    a.add_flag("--quick", c.quick,
               "decode only 1,000 pictures, spread evenly; names, classes and labels are all read");
    a.add_option("--threads", c.threads, "threads that decode")->capture_default_str();
    add_json(a, c.json);
  }
  {
    CLI::App& a = *data.add_subcommand(
        "index",
        "Write the index of tars and TFRecords beside them, so that the next start is instant");
    DataIndexCommand& c = run_on(a, data_index, code);
    a.add_option("paths", c.paths, "archives, or folders with archives")->required();
    add_json(a, c.json);
  }
  {
    CLI::App& a = *data.add_subcommand(
        "pack", "Write a data set as packed shards: gossamer data pack SRC DST");
    DataPackCommand& c = run_on(a, data_pack, code);
    a.add_option("source", c.source, kSet)->required();
    a.add_option("folder", c.folder,
                 "where the shards are written; after an interruption, the same command continues")
        ->required();
    a.add_option("--max-side", c.options.max_side, "larger pictures are shrunk to this side")
        ->capture_default_str();
    a.add_option("--quality", c.options.quality, "quality of the JPEG files")
        ->capture_default_str();
    a.add_option("--shard-images", c.options.shard_images, "pictures in a shard")
        ->capture_default_str();
    a.add_option("--threads", c.options.threads, "threads that decode and encode")
        ->capture_default_str();
    a.add_option("--label-base", c.label_base,
                 "as data.label_base: labels of TFRecord count from 0 or 1")
        ->check(CLI::IsMember(choices_of("data.label_base")))
        ->capture_default_str();
    a.add_flag("--copy", c.options.copy, "copy the files unchanged");
    a.add_flag("--strict", c.options.strict, "end at a damaged picture instead of leaving it out");
    add_json(a, c.json);
  }
  add_tokenize(data, code);
}

void add_bench(CLI::App& app, int& code) {
  CLI::App& bench = *app.add_subcommand("bench", "Measurements");
  bench.require_subcommand(1);
  {
    CLI::App& a = *bench.add_subcommand(
        "step", "Time of whole training steps, on synthetic images or fed by the loader");
    BenchStepOptions& c = run_on(a, bench_step, code);
    a.add_option("--model", c.model,
                 "`gossamer doctor` lists the models; gpt2:4x256:128:8192 is a language model of 4 "
                 "layers, 256 wide, 128 ids at once, 8,192 ids")
        ->capture_default_str();
    a.add_option("--batch", c.batch, "images or texts of a step")->capture_default_str();
    a.add_option("--threads", c.threads, "compute threads")->capture_default_str();
    a.add_option("--dtype", c.dtype, "f32, bf16, f16 or auto")->capture_default_str();
    a.add_option("--steps", c.steps, "steps to measure")->capture_default_str();
    a.add_option("--seconds", c.seconds, "measure for this long instead");
    a.add_flag("--eval", c.eval, "inference instead of training");
    a.add_option("--warmup", c.warmup, "steps before the measurement")->capture_default_str();
    a.add_option("--size", c.size, "side of the images; 0: the model's own")->capture_default_str();
    a.add_option("--data", c.data, "pictures, as data.train; default: synthetic images");
    a.add_option("--data-threads", c.data_threads, "threads of the loader")->capture_default_str();
    a.add_option("--backend", c.backend,
                 "backend of the CPU: cpu, cpu_own (without oneDNN), reference ...");
    add_json(a, c.json);
    a.add_option("--device", c.device, "cpu, cuda or cuda:N")->capture_default_str();
    add_isa(a);
    a.add_flag("--graph", c.graph, "GPU: capture the step once and launch it as a graph");
    a.add_flag("--tf32", c.tf32, "GPU, f32: factors of products have 10 bits");
    a.add_option("--plans", c.plans, "GPU: file of measured convolution plans");
    a.add_flag("--deterministic", c.deterministic, "GPU: as train.deterministic=true computes");
  }
  {
    CLI::App& a = *bench.add_subcommand(
        "inference",
        "Images a second and latency of a model folded for inference: of pixels that lie ready on "
        "the device, then from bytes on the host, which the device prepares, as in eval");
    BenchInferenceOptions& c = run_on(a, bench_inference, code);
    a.add_option("--model", c.model, "of those that `gossamer doctor` lists; or a run, a file ...")
        ->capture_default_str();
    a.add_option("arguments", c.arguments, model_keys_help("key=value, as data.eval_size=224"));
    a.add_option("--batch", c.batch, "images at a time")->capture_default_str();
    a.add_option("--threads", c.threads, "compute threads")->capture_default_str();
    a.add_option("--dtype", c.dtype, "f32 or bf16")->capture_default_str();
    a.add_option("--seconds", c.seconds, "measure for this long")->capture_default_str();
    a.add_option("--size", c.size, "side of the images; 0: the model's own")->capture_default_str();
    add_device(a, c.arguments);
    add_isa(a);
    add_json(a, c.json);
  }
  {
    CLI::App& a = *bench.add_subcommand(
        "data", "Images a second that a core decodes and augments: gossamer bench data PATH");
    BenchDataOptions& c = run_on(a, bench_data, code);
    a.add_option("paths", c.paths, kSet)->required();
    a.add_option("--mode", c.mode,
                 "train: random resized crop, flip; eval: shorter side, centre crop")
        ->capture_default_str();
    a.add_option("--what", c.what,
                 "all, or one of coefficients, entropy, decode, prepare, loader, device")
        ->capture_default_str();
    a.add_option("--size", c.size, "side of the prepared images")->capture_default_str();
    a.add_option("--threads", c.threads, "threads that decode")->capture_default_str();
    add_isa(a);
    a.add_option("--seconds", c.seconds, "for all measurements together")->capture_default_str();
    a.add_option("--images", c.images, "most images that are held in memory")
        ->capture_default_str();
    a.add_option("--cache-gb", c.cache_gb,
                 "as data.cache_gb, filled before the loader is measured");
    a.add_option("--gpu-rate,--feeds", c.gpu_rate,
                 "images/s of a GPU: shows whether the loader can feed it");
    add_json(a, c.json);
  }
}

void add_shell(CLI::App& app) {
  CLI::App& completion = *app.add_subcommand(
      "completion", "Completion for a shell: source <(gossamer completion bash)");
  const auto shell = std::make_shared<std::string>();
  completion.add_option("shell", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  completion.callback([&app, shell] {
    const CommandHelp all = describe(app);
    std::fputs((*shell == "bash" ? bash_completion(all) : zsh_completion(all)).c_str(), stdout);
  });
  app.add_subcommand("man", "The manual as a man page: gossamer man | man -l -")->callback([&app] {
    std::fputs(man_page(describe(app)).c_str(), stdout);
  });
}

// What `run` wraps is no option of the parser, which would take options out of it.
class UsageOfRun : public CLI::Formatter {
  std::string make_usage(const CLI::App*, std::string name) const override {
    return "Usage: " + name + " COMMAND [ARGUMENTS]...\n\nCOMMAND is one of gossamer's: " + name +
           " train config.toml\n";
  }
};

// CLI11 takes a whole number that is too large for the largest one that there is.
void refuse_too_large_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (const std::string type = option->get_type_name();
        type.starts_with("INT") || type.starts_with("UINT"))
      option->check([](const std::string& text) {
        i64 number = 0;
        const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
        return read.ec == std::errc::result_out_of_range ? text + " is too large" : std::string();
      });
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    refuse_too_large_numbers(*command);
}

// What a command writes must not take the place of what a run has written.
void refuse_files_of_runs(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    for (const char* name : {"--out", "--html", "--svg"})
      if (option->get_name() == name)
        option->check([](const std::string& file) {
          return is_file_of_run(file) ? file +
                                            " is a file of a run, which only the run writes; name "
                                            "another file"
                                      : std::string();
        });
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    refuse_files_of_runs(*command);
}

// command: what is run, as "data pack".
int parse_and_run(int argc, char** argv, std::string& command) {
  CLI::App app{
      "Gossamer: decentralized deep learning. Workers train at their own pace and average with one "
      "neighbour at a time.",
      "gossamer"};
  app.set_version_flag("--version", std::string("gossamer ") + version());
  app.require_subcommand(1);
  if (const char* kernels = std::getenv("GOSSAMER_KERNELS")) try {
      cpu::limit_cpu(kernels);
    } catch (const ConfigError& e) {
      fail<ConfigError>("GOSSAMER_KERNELS: ", e.what());
    }
  int code = 0;
  add_train(app, code);
  add_config(app, code);
  add_eval(app, code);
  add_classify(app, code);
  add_text_commands(app, code);
  add_export(app, code);
  add_graph(app, code);
  add_simulate(app, code);
  add_teaching(app, code);
  add_paper(app, code);
  add_compare(app, code);
  add_trace(app, code);
  add_report(app, code);
  add_watch(app, code);
  add_data(app, code);
  add_bench(app, code);
  CLI::App& doctor_app =
      *app.add_subcommand("doctor", "What this machine and this build can do, and what to fix");
  add_json(doctor_app, run_on(doctor_app, doctor, code).json);
  add_isa(doctor_app);
  add_shell(app);
  app.add_subcommand("agent", "")->group("")->callback([&] { code = agent(); });

  CLI::App& run_app = *app.add_subcommand(
      "run",
      "For mpirun: with gossamer run train ..., the death of this worker does not end the others");
  run_app.prefix_command();
  run_app.formatter(std::make_shared<UsageOfRun>());

  refuse_too_large_numbers(app);
  refuse_files_of_runs(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return report(mistake(app, {argv + 1, argv + argc}, e), 2);
  }
  command = chosen_command(app);
  if (!run_app.parsed()) return code;
  const std::vector<std::string> wrapped = run_app.remaining();
  check<ConfigError>(!wrapped.empty(),
                     "run: no command is given. For example: mpirun -np 4 gossamer run train "
                     "config.toml");
  return run_wrapped(wrapped);
}

}  // namespace

int command_line(int argc, char** argv) {
  std::string command;
  try {
    return printed(command, parse_and_run(argc, argv, command));
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
  } catch (const std::filesystem::filesystem_error& e) {
    return report(e.path1().string() + ": " + e.code().message() +
                      "; choose a place where this program may write",
                  6);
  } catch (const std::exception& e) {
    // as fmt::print() does
    if (std::string(e.what()).starts_with("cannot write to file")) return printed(command, 6);
    return report(e.what(), 1);
  }
}

}  // namespace gossamer::apps
