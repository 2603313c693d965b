// The commands of `gossamer`, one file each. cli.cpp parses their options. A command returns the
// exit code and throws the errors of core/error.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gossamer/data/formats/shapes.h"
#include "gossamer/data/pack.h"
#include "gossamer/data/text/tokenize.h"
#include "gossamer/dist/simulation/problems.h"
#include "gossamer/models/beam_search.h"
#include "gossamer/models/sampling.h"

namespace gossamer::apps {

struct TrainCommand {
  std::vector<std::string> arguments;  // at most one CONFIG.toml, then key=value
  // none: 1; with --resume as many as wrote the checkpoint; with --hosts all slots
  std::optional<int> workers;
  std::string hosts;           // where to start them: a file or a list (hosts.h); empty: here
  std::string ssh;             // instead of ssh; empty: GOSSAMER_SSH, else ssh
  std::string resume;          // a run's folder or one of its checkpoints
  std::string join;            // host:port of workers of a run to take part in, with commas
  std::string record, replay;  // the same as run.record=…, run.replay=…
  std::string inject;          // deliberate faults, the same as dist.inject=…
  bool find_rate = false;      // instead: a sweep of learning rates (train/find_rate.h)
  bool dry_run = false, strict_images = false, json = false;
  // started by supervise(): the folder of the run and its configuration are ready
  bool worker = false;
};
int train(const TrainCommand&);

struct ConfigCommand {
  std::vector<std::string> names;  // keys or sections; empty: all
  bool json = false;
};
int config(const ConfigCommand&);

struct EvalCommand {
  std::string model;  // here and below: as of find_model() (train/model_source.h)
  // more models, whose probabilities are averaged; [CONFIG.toml] key=value
  std::vector<std::string> arguments;
  std::optional<i64> stride;  // language: windows overlap (eval_text.cpp)
  std::string choices;        // language: a file of questions (eval_choices.cpp); empty: none
  std::optional<i64> beam;    // translation: see models::BeamOptions, whose defaults hold
  std::optional<double> length_penalty;
  bool flip = false;  // the mean of each picture's logits and its mirror image's
  bool per_class = false, confusion = false;
  std::string csv;   // folder for both as CSV; empty: none
  std::string html;  // page with both and the most confident mistakes; empty: none
  bool json = false;
};
int eval(const EvalCommand&);

// The mean of models, weight by weight.
struct AverageCommand {
  // models; or one run's folder: its checkpoints. [CONFIG.toml] key=value: training pictures
  std::vector<std::string> models;
  i64 last = 0;     // of a run: the newest so many
  std::string out;  // a file; empty: average.safetensors in the run's folder
  bool json = false;
};
int average(const AverageCommand&);

// How ids are drawn, where the command says it (core/ops/choice.h).
struct SamplingOptions {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<i64> top_k;
  Choice over(Choice usual) const {
    usual.temperature = temperature.value_or(usual.temperature);
    usual.top_k = top_k.value_or(usual.top_k);
    usual.top_p = top_p.value_or(usual.top_p);
    usual.min_p = min_p.value_or(usual.min_p);
    usual.repetition_penalty = repetition_penalty.value_or(usual.repetition_penalty);
    return usual;
  }
};

// A language model goes on with a text, which is printed as it grows; or with several at once.
struct GenerateCommand {
  std::string model;
  std::vector<std::string> arguments;  // key=value
  std::vector<std::string> prompts;    // none: the beginning of a document
  std::string file;                    // with the prompt; "-": standard input
  bool lines = false;                  // each line of the file is a prompt
  std::string field;                   // … or a JSON object with the prompt in this field
  std::string tokenizer;               // folder; empty: beside the model
  bool marks = false;                  // names of marks in a prompt are marks
  bool chat = false;                   // a prompt is what a user says, the text the answer
  std::string chat_template;           // empty: the tokenizer's
  std::string system;                  // said before the user does; empty: nothing
  i64 tokens = 200;                    // of each text, at most
  std::vector<std::string> stops;      // a text ends in front of the first of these
  i64 samples = 1;                     // texts of each prompt, drawn from seed, seed + 1 …
  SamplingOptions sampling;            // over what generation_config.json says
  i64 seed = 0;
  int threads = 0;            // 0: all cores
  std::string dtype = "f32";  // f32 | bf16 | auto
  bool no_cache = false;      // computes the whole text anew for each token
  bool ignore_end = false;    // goes on behind the end of a document
  bool json = false;
  // In JSON: log p of each id that is made, and the likeliest ids there, so many.
  std::optional<i64> logprobs;
};
int generate(const GenerateCommand&);

// Lines in, their translations out.
struct TranslateCommand {
  std::string model;
  std::vector<std::string> arguments;   // key=value
  std::string file = "-";               // of lines; -: standard input
  std::vector<std::string> references;  // files of right translations, for BLEU and chrF
  i64 beam = models::BeamOptions().beam;
  double length_penalty = models::BeamOptions().length_penalty;
  std::optional<i64> n_best;  // so many translations of each line, the best first; none: one
  bool scores = false;        // in front of each
  bool sample = false;        // drawn ones, in the order of the seeds, instead of a search
  SamplingOptions sampling;
  i64 seed = 0;        // of the first of a line's translations; the next is that of others
  int batch = 32;      // lines at once
  bool lines = false;  // answers each line before it reads the next
  std::string on_long = "skip";  // a line longer than the model reads: cut | skip | stop
  int threads = 0;               // 0: all cores
  std::string dtype = "f32";     // f32 | bf16 | auto
  bool json = false;
};
// 3: lines were left out, each with a warning, and an empty line in its place.
int translate(const TranslateCommand&);

struct ClassifyCommand {
  std::string model;
  std::vector<std::string> images;  // and key=value
  // key=value instead of what the file's header says: see load_model()
  std::vector<std::string> arguments;
  std::string classes;  // file of their names, one a line; empty: those of the model
  int top = 5;
  bool json = false;
};
int classify(const ClassifyCommand&);

struct ExportCommand {
  // to: of pictures onnx | safetensors | torch; of language huggingface (a folder) | gguf
  std::string model, to, out;
  std::string input;                   // onnx: normalized | unit | bytes; empty: normalized
  bool keep_batch_norm = false;        // onnx: not folded
  std::vector<std::string> arguments;  // as of classify
  std::string classes;
  std::string dtype;    // gguf: f32 | f16 | bf16 | q8_0; empty: f32
  i64 shard_bytes = 0;  // huggingface: most of a file of weights, about; 0: all in one
  bool json = false;
};
int export_model(const ExportCommand&);

struct GraphCommand {
  std::string name;
  int workers = 0;
  double rate = 1;
  std::string html;  // page for pictures; empty: none
  bool json = false;
};
int graph(const GraphCommand&);

// Many workers in simulated time (dist/simulation/simulator.h). mode: consensus, quadratic, logreg,
// timeline, exchanges.
struct SimulateCommand {
  std::string mode;
  dist::SimulationOptions options;
  std::vector<NamedSetting> of_methods = dist::simulated_settings();  // those given are taken
  dist::QuadraticOptions quadratic;
  dist::LogisticOptions logreg;
  double time = 0;  // in mean gradient durations; 0: depends on the mode
  // start of the fit (consensus) or of the mean over time (quadratic, logreg); -1: after a third
  double from = -1;
  int seeds = 0;                        // 0: depends on the mode
  std::optional<double> learning_rate;  // none: .05 for quadratic, .5 for logreg
  // spreads of times, see make_spread(); empty: the default
  std::string compute, link;
  std::vector<std::string> slow;  // "3:x10": worker 3 needs ten times as long
  std::vector<std::string> graphs = {"star", "ring", "complete"};  // exchanges
  std::vector<int> sizes = {16, 32, 64, 128, 256, 512, 1024};
  std::string events;  // file for the events of the first seed (simulate_events.h); empty: none
  std::string html;    // page for pictures (simulate_page.h); empty: none
  bool json = false;
  // The options that were given. One that has no effect in this mode is an error.
  std::vector<std::string> given;
};
int simulate(const SimulateCommand&);
// The option of `simulate` for a setting of methods: "--control-method".
std::string simulate_option(const std::string& setting);

struct LessonCommand {
  std::string section;            // only this one, as a page of its own; empty: all
  std::vector<std::string> runs;  // folders that the section `run` shows; empty: recorded ones
  std::string words;              // file of its words in another language; empty: English
};
// Prints the page of apps/lesson. ConfigError: there is no such section (names those that are); a
// run with one worker, too few evaluations or no consensus distance; words that lack a text.
// IoError: a folder is no run, a file cannot be read.
int lesson(const LessonCommand&);

// The units of apps/course. 1: what was checked is not right.
struct CourseCommand {
  std::string what;  // start | check | solution | grade; empty: lists the units
  int unit = 0;
  std::string file;    // to check; empty: where `start` wrote it
  std::string folder;  // to grade: holds a folder for each student
  bool lecturer = false, csv = false;
  double timeout = 300;  // seconds that its test may take
  bool json = false;
};
int course(const CourseCommand&);

// What the forward pass of a model records (core/tape.h).
struct TapeCommand {
  std::string model;  // as of bench step
  i64 batch = 1, size = 0;
  std::string dtype = "f32";  // f32 | bf16
  std::string svg;            // file for a drawing; empty: none
  bool json = false;
};
int tape_of_model(const TapeCommand&);

// A table or figure of the papers (apps/paper); no name: the list of them.
struct PaperCommand {
  std::string name, html, out, data;   // html: file, out: folder for all forms; empty: none
  std::vector<std::string> arguments;  // of runs: as of TrainCommand
  std::optional<int> workers;          // of runs
  std::string device;                  // of runs: train.device; empty: that of their recipe
  int seeds = 0;                       // these two: as in PaperOptions
  double images = 0;
  bool json = false;
};
int paper(const PaperCommand&);

struct TraceMergeCommand {
  std::string folder;  // of a run that wrote trace-RANK.json
  bool keep = false;   // the parts too
  bool json = false;
};
int trace_merge(const TraceMergeCommand&);

// One run: its report.html. Several: a page that compares them.
struct ReportCommand {
  std::vector<std::string> runs;  // folders
  std::string out;                // the page; empty: RUN/report.html, or comparison.html
  bool json = false;
};
int report_runs(const ReportCommand&);

// Serves their pages on this machine until it is stopped.
struct WatchCommand {
  std::vector<std::string> runs;  // folders; a run may begin later
  int port = 0;                   // 0: one that is free
  std::string path;               // empty: a secret one
  bool json = false;
};
int watch(const WatchCommand&);

struct MakeShapesCommand {
  std::string folder;
  data::ShapesOptions options;
  bool json = false;
};
int make_shapes(const MakeShapesCommand&);

struct DataCheckCommand {
  std::vector<std::string> paths;
  int threads = 2;
  bool quick = false;  // only 1,000 pictures of each part are decoded
  bool json = false;
};
int data_check(const DataCheckCommand&);  // 3: there are damaged pictures

struct DataIndexCommand {
  std::vector<std::string> paths;
  bool json = false;
};
int data_index(const DataIndexCommand&);

struct DataPackCommand {
  std::string source, folder;
  data::PackOptions options;
  std::string label_base = "auto";  // as data.label_base
  bool json = false;
};
int data_pack(const DataPackCommand&);

// Text into ids on disk, see data/text/tokenize.h.
struct DataTokenizeCommand {
  data::TokenizeOptions options;
  std::string format = "llm.c";  // see data::parse_token_format()
  std::string val_by = "order";  // see data::parse_held_out()
  bool json = false;
};
int data_tokenize(const DataTokenizeCommand&);

// Times whole training steps (forward, backward, optimizer) on synthetic images, or on pictures
// that the loader feeds, or on synthetic text. --json prints images_per_s or tokens_per_s,
// ms_median, peak_bytes, data_wait_fraction.
struct BenchStepOptions {
  std::string model = "resnet20-cifar";  // or gpt2:LAYERSxWIDTH:LENGTH:VOCABULARY
  int batch = 128;
  int threads = 1;
  std::string dtype = "f32";  // f32 | bf16 | f16 | auto
  int steps = 30, warmup = 5;
  // above 0: as many steps as fit this time, instead of `steps`
  double seconds = 0;
  bool eval = false;  // inference
  int size = 0;       // image side; 0: the model's own
  std::string data;   // pictures to train on, as data.train; empty: synthetic
  int data_threads = 1;
  std::string backend;         // of the CPU; empty: the default one
  std::string device = "cpu";  // cpu | cuda | cuda:N
  bool graph = false;          // a GPU: the step is captured once and launched as a whole
  bool tf32 = false;           // a GPU, f32: products rounded to 10 bits
  std::string plans;           // a GPU: file of measured plans; empty: measured anew
  bool deterministic = false;  // a GPU: the same bits in every run
  bool json = false;
};
int bench_step(const BenchStepOptions&);

// Times a model folded for inference (nn/inference.h) on synthetic images. --json
// prints images_per_s, ms_median, ms_p90, ms_p99, prepare_ms, peak_bytes.
struct BenchInferenceOptions {
  std::string model = "resnet50";      // of the table; or as of find_model()
  std::vector<std::string> arguments;  // as of classify
  int batch = 1;
  int threads = 1;
  std::string dtype = "f32";  // f32 | bf16
  double seconds = 5;
  int size = 0;  // image side; 0: the model's own
  bool json = false;
};
int bench_inference(const BenchInferenceOptions&);

// Times what one core does with the images of a data set: entropy decoding alone, decoding,
// decoding and augmenting, the loader, the loader and the copy to a GPU.
struct BenchDataOptions {
  std::vector<std::string> paths;
  // train (random resized crop, flip) | eval (shorter side, centre crop)
  std::string mode = "train";
  // all, or one of coefficients, entropy, decode, prepare, loader, device (a GPU)
  std::string what = "all";
  int size = 224, threads = 1;
  double seconds = 8;  // for all measurements together
  int images = 2000;   // at most so many are held in memory
  // of encoded files that `loader` and `device` keep in memory
  double cache_gb = 0;
  // images/s that a GPU takes; above 0: says whether it would starve
  double gpu_rate = 0;
  bool json = false;
};
int bench_data(const BenchDataOptions&);

struct DoctorCommand {
  bool json = false;
};
int doctor(const DoctorCommand&);

// Parses the command line, runs the command, turns exceptions into one sentence and an exit code.
// Called by main().
int command_line(int argc, char** argv);

}  // namespace gossamer::apps
