// The configuration of a run: one struct, one list of keys (each_key), read from TOML and
// key=value, written back as TOML. The defaults are the quickstart's recipe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::apps {

struct Auto {
  i64 value = 0;
};  // written "auto" when 0

// Gradients of a mean over a batch are mostly 1e-8 to 1e-2; f16 loses digits below 6e-5 and has
// nothing above 65504. Times 2^10 they lie inside, with a factor of a thousand and more to spare
// above.
inline constexpr float kLossScaleOfF16 = 1024;

struct Config {
  struct {
    std::string name = "resnet8-cifar";
    Auto classes;
  } model;
  struct {
    std::vector<std::string> train{"data-cache/shapes10/train"}, val{"data-cache/shapes10/val"};
    Auto size, eval_size, threads, resize;
    std::vector<std::string> augment{"auto"};
    std::string shard = "auto", cpus, resize_on = "auto", filter = "bilinear", label_base = "auto";
    std::vector<i64> sizes;
    std::vector<double> mean, std, size_milestones;
    double cache_gb = 0;
    bool strict_images = false;
  } data;
  struct {
    std::string method = "a2cid2", graph = "ring", dtype = "f32", pairing = "handshake",
                quota = "poisson";
    double rate = 1, epochs = 12;
    i64 batch = 32, seed = 0, bn_batches = 20;
    std::string device = "auto", cuda_graph = "auto", plans = "auto";
    Auto threads, loss_scale;
    bool overlap = true, tf32 = false;
    double consensus_factor = 1, bucket_mb = 25, mixup = 0, cutmix = 0;
    i64 period = 8;
  } train;
  struct {
    std::string method = "dpsgd", target = "plateau";
    std::vector<double> phases, fractions{0.25};
    double measure = 0.02, factor = 1;
    i64 most = 100;
  } control;
  struct {
    std::string name = "auto";
    double learning_rate = 0.1, momentum = 0.9, weight_decay = 5e-4, label_smoothing = 0,
           clip_norm = 0;
    bool nesterov = true;
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    Auto accumulate;
    std::string schedule = "cosine", scaling = "linear";
    double warmup_epochs = 1, warmup_from = 0, final = 0, gamma = 0.1;
    std::vector<double> milestones{0.5, 0.75};
  } optim;
  struct {
    double every = 0, consensus_every = 0;
    i64 batch = 64;
  } eval;
  struct {
    std::string name = "auto", dir = "runs", record, replay;
    bool trace = false, report = true, tensorboard = true, log_exchanges = false;
    std::vector<i64> trace_steps;
    i64 log_every = 10, keep = 2;
    double checkpoint_every = 0;
  } run;
  struct {
    double connect_timeout_s = 60, heartbeat_s = 0.25, dead_after_s = 2, collective_timeout_s = 120,
           exchange_timeout_s = 20;
    i64 min_workers = 1, restart = 0;
    double restart_after_s = 1;
    std::string inject, transport = "auto", wire = "f32";
    i64 nccl_ctas = 4;
  } dist;

  // key -> "train.toml:3:9" or "command line", for messages
  std::map<std::string, std::string> origin;

  int classes_or(i64 of_data) const {
    return static_cast<int>(model.classes.value ? model.classes.value : of_data);
  }
  float loss_scale() const {
    return train.loss_scale.value ? static_cast<float>(train.loss_scale.value)
           : train.dtype == "f16" ? kLossScaleOfF16
                                  : 1.0f;
  }
  std::string run_folder() const;  // dir/name; "auto" becomes model-method
};

// Every key with its place and one line about it. This list is the file format: reader, writer and
// messages walk it.
template <class C, class F>
void each_key(C& c, F&& f) {
  f("model.name", c.model.name,
    "resnet8-cifar, resnet20-cifar, resnet50 …: `gossamer doctor` lists them");
  f("model.classes", c.model.classes, "outputs; auto: as many as the data has");
  f("data.train", c.data.train,
    "folder of class folders, tar shards, or CIFAR binary files; a list is joined");
  f("data.val", c.data.val, "the same for validation");
  f("data.label_base", c.data.label_base,
    "image/class/label of TFRecord counts from: 0 | 1 (ImageNet's) | auto: 0 if a 0 occurs, else "
    "1");
  f("data.size", c.data.size,
    "side of the images the model is trained with; auto: the model's own");
  f("data.sizes", c.data.sizes,
    "progressive resolution: smaller sides before data.size, one for each of size_milestones, e.g. "
    "[128, 160]");
  f("data.size_milestones", c.data.size_milestones,
    "fractions of the run at which the next size begins, e.g. [0.35, 0.7]");
  f("data.eval_size", c.data.eval_size, "side for evaluation and classify; auto: data.size");
  f("data.resize", c.data.resize,
    "evaluation: shorter side before the centre crop; auto: eval_size, or eval_size * 256/224 "
    "above 64");
  f("data.filter", c.data.filter,
    "how pictures shrink: bilinear (antialiased, Pillow's) | area (the mean of what a pixel "
    "covers, OpenCV's)");
  f("data.augment", c.data.augment,
    "the crop (auto | none | pad-crop-flip | resized-crop-flip), then steps in order: "
    "colour-jitter:B:C:S:H, "
    "rand-augment:OPS:MAGNITUDE, trivial-augment-wide, random-erasing:P");
  f("data.shard", c.data.shard,
    "true: workers share each epoch; false: each draws the whole set; auto: true for allreduce; "
    "dirichlet:0.3: "
    "each has other shares of the classes (non-IID)");
  f("data.mean", c.data.mean,
    "of the channels, 0 to 1; empty: CIFAR's up to 64 pixels, ImageNet's above");
  f("data.std", c.data.std, "of the channels");
  f("data.threads", c.data.threads,
    "decoding threads of each worker; auto: a quarter of its cores, with a GPU all but two");
  f("data.cpus", c.data.cpus,
    "the data threads of each worker run on these only: 0-3,8 or node:0 (NUMA); empty: anywhere");
  f("data.resize_on", c.data.resize_on,
    "who crops, resizes and flips pictures to train on: host | device (of the network) | auto: a "
    "GPU if it can");
  f("data.cache_gb", c.data.cache_gb,
    "GB (10^9 bytes) of encoded files that each worker keeps in memory once it has read them; 0: "
    "none");
  f("data.strict_images", c.data.strict_images,
    "a damaged image stops the run instead of being replaced and listed");
  f("train.method", c.train.method,
    "a2cid2 | adpsgd | allreduce | dpsgd | sgp | local-sgd | consensus-control | dadam | "
    "accum-adam");
  f("train.graph", c.train.graph,
    "who may exchange with whom: ring, complete, exponential, star, hypercube, torus, chain, tree, "
    "random-regular:4, "
    "aer:8 (workers a node; aer: those on a machine), file:PATH");
  f("train.rate", c.train.rate, "exchanges of each worker per gradient of its own");
  f("train.pairing", c.train.pairing,
    "a2cid2, adpsgd: handshake | schedule (drawn from the seed) | rounds (fixed matchings)");
  f("train.quota", c.train.quota, "of the handshake: poisson | exact (evenly spaced exchanges)");
  f("train.batch", c.train.batch, "images of one gradient, per worker");
  f("train.epochs", c.train.epochs, "passes over the training set, all workers together");
  f("train.mixup", c.train.mixup,
    "alpha of mixup, e.g. 0.2; 0: off. With cutmix: each batch one of the two");
  f("train.cutmix", c.train.cutmix, "alpha of CutMix, e.g. 1; 0: off");
  f("train.seed", c.train.seed, "of initial values, order and augmentation");
  f("train.dtype", c.train.dtype,
    "f32 | bf16 | f16 (for GPUs): type in which layers compute; the master copy is f32");
  f("train.loss_scale", c.train.loss_scale,
    "the loss's gradient, a power of two, divided out again before the update; auto: 1024 for f16, "
    "else 1");
  f("train.tf32", c.train.tf32, "a GPU, f32: products rounded to 10 bits, several times faster");
  f("train.device", c.train.device,
    "auto | cpu | cuda | cuda:N; cuda: a GPU for each worker of a machine; auto: that, where there "
    "is a GPU");
  f("train.cuda_graph", c.train.cuda_graph,
    "forward and backward as one recorded CUDA graph: auto | on (an error where that is not "
    "possible) | off");
  f("train.plans", c.train.plans,
    "file of measured convolution plans of a GPU; auto: gossamer/plans.json in the user's cache "
    "folder; none: no file");
  f("train.threads", c.train.threads,
    "compute threads of each worker; auto: cores / workers on this machine");
  f("train.bn_batches", c.train.bn_batches,
    "batches per worker over which batch norm is re-estimated at the end; 0: merge the workers' "
    "statistics");
  f("train.overlap", c.train.overlap,
    "dpsgd, sgp: hide an exchange behind the next step (AWC); false: wait for it (ATC). allreduce: "
    "sum during backward");
  f("train.bucket_mb", c.train.bucket_mb,
    "dpsgd with overlap, allreduce: parameters, gradients are exchanged in pieces of this size "
    "during backward");
  f("train.consensus_factor", c.train.consensus_factor,
    "dpsgd: part of the way to the neighbours' mean that is gone, 0 to 1");
  f("train.period", c.train.period, "local-sgd: steps between two averages");
  f("control.method", c.control.method, "consensus-control: the synchronous method under control");
  f("control.target", c.control.target,
    "plateau: fractions of the distance measured without control; online: factor * learning rate * "
    "gradient norm");
  f("control.phases", c.control.phases,
    "plateau: fractions of the run at which the next phase begins");
  f("control.fractions", c.control.fractions,
    "plateau: target of each phase, one more than phases; 0: exact averages; 1: no control");
  f("control.measure", c.control.measure,
    "plateau: fraction of the run at the start of a phase in which the distance is measured");
  f("control.factor", c.control.factor, "online");
  f("control.most", c.control.most,
    "gossip steps after one local step; who needs more averages exactly");
  f("optim.name", c.optim.name,
    "auto: what the method is named after, else sgd | adam | adamw | accum-adam | accum-adamw");
  f("optim.learning_rate", c.optim.learning_rate,
    "for 256 images a step (see scaling); Adam, if not given: 0.001 and no scaling");
  f("optim.scaling", c.optim.scaling, "linear: learning_rate * workers * batch / 256; none");
  f("optim.momentum", c.optim.momentum, "of SGD");
  f("optim.nesterov", c.optim.nesterov, "no effect without momentum");
  f("optim.weight_decay", c.optim.weight_decay,
    "spares biases and batch norm; adamw, accum-adamw: decoupled from the gradient");
  f("optim.beta1", c.optim.beta1, "of Adam");
  f("optim.beta2", c.optim.beta2, "of Adam");
  f("optim.epsilon", c.optim.epsilon, "of Adam");
  f("optim.accumulate", c.optim.accumulate,
    "accum-adam: steps over which the moments' gradient is averaged; auto: half the workers");
  f("optim.label_smoothing", c.optim.label_smoothing, "");
  f("optim.clip_norm", c.optim.clip_norm, "largest norm of a gradient; 0: no clipping");
  f("optim.schedule", c.optim.schedule,
    "constant | step | cosine | one-cycle, over the samples seen by all workers");
  f("optim.warmup_epochs", c.optim.warmup_epochs,
    "linear rise to the peak; train.epochs counts it");
  f("optim.warmup_from", c.optim.warmup_from, "learning rate at its start");
  f("optim.final", c.optim.final, "learning rate at the end (cosine, one-cycle)");
  f("optim.milestones", c.optim.milestones, "step: fractions of the run");
  f("optim.gamma", c.optim.gamma, "step: factor at each milestone");
  f("eval.every", c.eval.every,
    "epochs between evaluations of the workers' own models; 0: only the average at the end");
  f("eval.consensus_every", c.eval.consensus_every,
    "epochs between exact measurements of the consensus distance: all workers wait for each other "
    "then; 0: never");
  f("eval.batch", c.eval.batch, "");
  f("run.name", c.run.name, "auto: MODEL-METHOD");
  f("run.dir", c.run.dir, "results go to DIR/NAME");
  f("run.log_every", c.run.log_every, "steps of a worker between two lines of log.jsonl");
  f("run.checkpoint_every", c.run.checkpoint_every,
    "epochs between checkpoints; 0: only when interrupted");
  f("run.keep", c.run.keep, "checkpoints kept");
  f("run.trace", c.run.trace, "write trace.json for chrome://tracing and ui.perfetto.dev");
  f("run.record", c.run.record,
    "folder for the order of all events (a2cid2, adpsgd), one file a worker; empty: none");
  f("run.replay", c.run.replay, "folder of such a record: the run is repeated bit for bit (CPU)");
  f("run.trace_steps", c.run.trace_steps,
    "[first, last]: trace only these steps of each worker; empty: all, as far as the newest fit");
  f("run.log_exchanges", c.run.log_exchanges,
    "a line of log.jsonl for every exchange, instead of one for each interval");
  f("run.tensorboard", c.run.tensorboard, "write events.out.tfevents…: scalars for TensorBoard");
  f("run.report", c.run.report, "write report.html");
  f("dist.connect_timeout_s", c.dist.connect_timeout_s, "until all workers have met");
  f("dist.heartbeat_s", c.dist.heartbeat_s, "");
  f("dist.dead_after_s", c.dist.dead_after_s, "a silent worker counts as dead after this");
  f("dist.exchange_timeout_s", c.dist.exchange_timeout_s,
    "the longest; otherwise it follows the transfers so far");
  f("dist.collective_timeout_s", c.dist.collective_timeout_s, "");
  f("dist.min_workers", c.dist.min_workers, "stop when fewer are alive");
  f("dist.restart", c.dist.restart,
    "how often a worker that died is started again (a2cid2, adpsgd); it takes its state from a "
    "neighbour");
  f("dist.restart_after_s", c.dist.restart_after_s, "so long after its death");
  f("dist.transport", c.dist.transport,
    "between GPUs: auto (peercopy where the peer's memory can be reached, else nccl; allreduce: "
    "nccl; in rounds: host) | peercopy (one machine) | nccl | host");
  f("dist.wire", c.dist.wire, "f32 | f16: what exchanges between GPUs send; allreduce: f32");
  f("dist.nccl_ctas", c.dist.nccl_ctas,
    "multiprocessors that NCCL may take: 2 for a network, 4 or 8 for NVLink; 0: as many as it "
    "likes");
  f("dist.inject", c.dist.inject,
    "faults on purpose: kill:rank=2@step=300,stop:rank=1:5s,slow:rank=1:x3,… "
    "(dist/faults/inject.h)");
}

// At most one *.toml among the arguments, first; then key=value. ConfigError with file, line and
// column; the nearest key is proposed.
Config load_config(const std::vector<std::string>& arguments);
// TOML text; `file` is for messages
Config parse_config(const std::string& text, const std::string& file);
void set_key(Config&, const std::string& assignment);  // "train.batch=64"
// Names and ranges, before anything is started. per_machine: workers on each machine, the nodes of
// graph aer; 0: only the workers will know.
void validate(const Config&, int workers, int per_machine = 0);
std::string to_toml(const Config&);

}  // namespace gossamer::apps
