// The format of configuration files: every key with its field and a line about it. Reader, writer,
// checks, error texts, the comparison between workers, `gossamer config`, completion and man page
// walk this one list. A new key is a field in config.h, which is its type and default, and a row
// here. Keys of models and methods are declared there, and walked.
//
// The options in cli.cpp are a list of their own. They fill other structs, most of which are not a
// Config, with other defaults and other ways to write a value. The options of `train`
// that stand for a key say which.
#pragma once

#include <string>
#include <string_view>

#include "gossamer/apps/config.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/net/launch_sources.h"

namespace gossamer::apps {

// What a row may say beside name and meaning: a Range, its Choices, and these.
struct Own {};  // workers of one run may differ in it: it belongs to a machine, or says how a
                // worker reports or how long it waits. All other keys are compared at the start.
struct Only {   // it is read only by some runs; in others it must stay as it is by default
  bool used;
  const char* with;
};
using Choices = std::vector<std::string>;

inline void add(Setting& s, const Range& range) { s.range = range; }
inline void add(Setting& s, const Choices& choices) { s.choices = choices; }
inline void add(Setting& s, Own) { s.agree = false; }
inline void add(Setting& s, Only only) { s.used = only.used, s.used_with = only.with; }

// "a2cid2, adpsgd": the methods that have this trait.
inline std::string methods_with(bool dist::MethodTraits::*trait) {
  return dist::methods_that([&](const dist::MethodTraits& m) { return m.*trait; }, ",");
}

// Calls f(Setting, field) for each key; the setting's name is the key.
template <class C, class F>
void each_key(C& c, F&& f) {
  const auto key = [&](const char* name, auto& field, std::string about, const auto&... facts) {
    Setting setting{.name = name, .about = std::move(about)};
    (add(setting, facts), ...);
    f(setting, field);
  };
  // a setting that a library declares
  const auto with = [&](const std::string& section, Setting setting, auto& field) {
    const auto key_of = [&](const std::string& name) { return section + name; };
    setting.about = with_setting_names(setting.about, key_of);
    setting.name = key_of(setting.name);
    f(setting, field);
  };
  const Only of_pictures{c.task == "pictures", "pictures"},
      of_text{c.task != "pictures", "language or translation"};
  key("task", c.task,
      "pictures: images of classes | language: text, of which the model predicts the next piece | "
      "translation: pairs of sentences",
      Choices(models::tasks()));
  key("model.name", c.model.name,
      "pictures: resnet8-cifar, resnet20-cifar, resnet50 … | language: gpt2 unless said, "
      "gpt2-medium … | translation: transformer unless said, transformer-big; `gossamer doctor` "
      "lists all",
      Choices(models::names()));
  models::ModelOptions::visit(c.model, [&](auto& field, const Setting& setting) {
    // positions are data.length; models start as they are published
    if (setting.name != "positions" && setting.name != "zero_init_residual")
      with("model.", setting, field);
  });
  key("model.init", c.model.init,
      "model to start from: a file of weights (.safetensors, torch's .pth), a run or a checkpoint. "
      "pictures: what fits is taken, and without model.name its tensors say which model it is | "
      "text: every tensor must fit",
      Own{});
  key("model.init_key", c.model.init_key,
      "of a .pth with several state dicts, as model.init or as MODEL of a command: the one to "
      "take, e.g. model_ema");
  key("model.init_rename", c.model.init_rename,
      "of such weights of others: names of layers to change, e.g. logits=fc; backbone= drops a "
      "prefix");
  key("model.init_other_tokenizer", c.model.init_other_tokenizer,
      "text: train on ids of another tokenizer than lies beside model.init", of_text);
  key("model.freeze", c.model.freeze,
      "parameters that are not trained: \"conv1, bn1, layer1\", \"all but fc\"; frozen batch norm "
      "keeps its statistics");
  key("model.lora_rank", c.model.lora_rank,
      "language, llama: train only an adapter of this rank for model.init (LoRA), which alone is "
      "exchanged; 0: the model itself",
      Range::from_to(0, 65536), of_text);
  key("model.lora_alpha", c.model.lora_alpha,
      "what the adapter adds is multiplied by it, divided by model.lora_rank", Range::above_zero(),
      of_text);
  key("model.lora_targets", c.model.lora_targets,
      "layers that get adapters, of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj",
      of_text);
  key("data.train", c.data.train,
      "training set; pictures: folder of class folders; tar, TFRecord or packed shards; files of "
      "CIFAR, ImageNet-32 and MNIST; a list is joined | text: folder of `gossamer data tokenize`; "
      "language: .bin files of nanoGPT and llm.c, too",
      Own{});
  key("data.val", c.data.val,
      "validation set, in the same forms; auto: what lies beside the training set (train/ and val/ "
      "in one folder); none: no validation",
      Own{});
  key("data.val_split", c.data.val_split,
      "share of each class of data.train, drawn from train.seed, that validates and does not "
      "train, e.g. 0.1; 0: none",
      Range::from_below(0, 1));
  key("data.label_base", c.data.label_base,
      "the smallest image/class/label in TFRecords: 0 | 1 (ImageNet) | auto: 0 if a 0 occurs, else "
      "1",
      Choices{"auto", "0", "1"}, of_pictures);
  key("data.size", c.data.size, "side of the training images; auto: the model's usual size",
      Range::from_to(1, 4096), of_pictures);
  key("data.sizes", c.data.sizes,
      "progressive resolution: smaller sides before data.size, one for each of size_milestones, "
      "e.g. [128, 160]",
      Range::from_to(1, 4096).said("sides of 1 pixel to data.size"), of_pictures);
  key("data.size_milestones", c.data.size_milestones,
      "fractions of the run at which the next size begins, e.g. [0.35, 0.7], or amounts",
      of_pictures);
  key("data.eval_size", c.data.eval_size, "side for evaluation and classify; auto: data.size",
      Range::from_to(1, 4096), of_pictures);
  key("data.resize", c.data.resize,
      "evaluation: shorter side before the centre crop; auto: eval_size, above 64 eval_size * "
      "256/224",
      Range::from_to(1, 8192), of_pictures);
  key("data.filter", c.data.filter,
      "how pictures are shrunk: bilinear (antialiased, as Pillow) | area (mean of the covered "
      "pixels, as OpenCV)",
      Choices{"bilinear", "area"}, of_pictures);
  key("data.augment", c.data.augment,
      "the crop (auto | none | pad-crop-flip:PIXELS:reflect:alternating | "
      "resized-crop-flip:alternating; the options may be left out), then steps in order: "
      "colour-jitter:B:C:S:H, rand-augment:OPS:MAGNITUDE, trivial-augment-wide, random-erasing:P",
      of_pictures);
  key("data.shard", c.data.shard,
      "true: the workers divide each epoch; false: each worker draws from the whole set; auto: "
      "true for allreduce; dirichlet:0.3: each worker has other shares of the classes (non-IID)",
      Choices{"auto", "true", "false", "dirichlet:ALPHA", "documents"});
  key("data.mean", c.data.mean,
      "mean of each channel, 0 to 1; empty: CIFAR's up to 64 pixels, ImageNet's above",
      of_pictures);
  key("data.std", c.data.std, "standard deviation of each channel; empty: as for data.mean",
      Range::above_zero().said("three positive numbers, or an empty list"), of_pictures);
  key("data.threads", c.data.threads,
      "decoding threads of each worker; auto: a quarter of its cores; with a GPU all but two",
      Range::from_to(1, 256), Own{});
  key("data.cpus", c.data.cpus,
      "CPUs for the data threads of each worker: 0-3,8 or node:0 (NUMA); empty: any", Own{});
  key("data.resize_on", c.data.resize_on,
      "where training pictures are cropped, resized and flipped: host | device (of the model) | "
      "auto: on a GPU if possible",
      Choices{"auto", "host", "device"}, Own{}, of_pictures);
  key("data.length", c.data.length,
      "language: ids that the model sees at once; translation: most ids of a sentence",
      Range::from_to(1, 1 << 20), of_text);
  key("data.weights", c.data.weights,
      "language: parts that the texts of data.train have in an epoch, e.g. [0.7, 0.3]; each is "
      "read to its end before it is read again; empty: every window of each, once",
      Range::above_zero().said("a number above 0 for each of data.train, or an empty list"),
      of_text);
  key("data.documents", c.data.documents,
      "language: what a window in training may hold: joined: all that follows each other | "
      "separate: documents that do not see each other (llama)",
      Choices{"joined", "separate"}, of_text);
  key("data.cache_gb", c.data.cache_gb,
      "GB (10^9 bytes) of encoded files that each worker keeps in memory after reading them; 0: "
      "none",
      Range::from_to(0, 1e6), Own{});
  key("data.strict_images", c.data.strict_images,
      "true: a damaged image stops the run; false: it is replaced and listed", Own{}, of_pictures);
  key("train.method", c.train.method,
      dist::methods_that([](const dist::MethodTraits&) { return true; }, "|"),
      Choices(dist::method_names()));
  key("train.graph", c.train.graph,
      "which workers exchange: ring, complete, exponential, star, hypercube, torus, chain, tree, "
      "random-regular:4, aer:8 (workers a node; aer: those of a machine), file:PATH",
      Choices(dist::rounds_names()));
  dist::GossipOptions::visit(
      c.train, [&](auto& field, const Setting& setting) { with("train.", setting, field); });
  key("train.batch", c.train.batch,
      "images that one worker computes on at once; language: windows; translation: ids of a side",
      Range::from_to(1, 65536));
  key("train.accumulate", c.train.accumulate,
      "batches of one gradient: their gradients are added up before the update, as if they were "
      "one batch; batch norm still sees one at a time",
      Range::from_to(1, 65536));
  key("train.global_batch", c.train.global_batch,
      "samples of a step of all workers together, as train.batch counts them, of which it is a "
      "multiple: each worker accumulates its share, also when workers come or go; unless the "
      "method is gossip, they read one common order, each image once an epoch; 0: each worker "
      "adds train.batch x train.accumulate",
      Range::from_to(0, 1 << 24));
  key("train.ema", c.train.ema,
      "decay of an exponential moving average of the model after every gradient, e.g. 0.9999, with "
      "timm's warm-up; it is evaluated beside the model, and written as model-ema.safetensors; 0: "
      "none",
      Range::from_below(0, 1).said("0 to below 1, e.g. 0.9999"));
  key("train.epochs", c.train.epochs,
      "passes over the training set by all workers together; or an amount, as for all keys of this "
      "kind: \"2000 steps\" of each worker, \"20M samples\" of all (images, tokens)",
      Range::above_zero());
  key("train.patience", c.train.patience,
      "with eval.every: so many evaluations without a better one (see run.best_by) end the run; "
      "several workers: with eval.of=mean, and until one is lost; 0: none does",
      Range::at_least(0));
  key("train.mixup", c.train.mixup,
      "alpha of mixup, e.g. 0.2; 0: off. With cutmix, each batch gets one of the two",
      Range::from_to(0, 100), of_pictures);
  key("train.cutmix", c.train.cutmix, "alpha of CutMix, e.g. 1; 0: off", Range::from_to(0, 100),
      of_pictures);
  key("train.seed", c.train.seed, "seed of initial values, image order and augmentation",
      Range::at_least(0));
  key("train.dtype", c.train.dtype,
      "type in which the layers compute: f32 | bf16 | f16 (GPUs) | auto: bf16 on GPUs and on CPUs "
      "with instructions for it, else f32; the master copy is f32",
      Choices{"f32", "bf16", "f16", "auto"});
  key("train.isa", c.train.isa,
      "most that code for the CPU may use: avx512 | avx2 | neon | auto: all that the CPU has",
      Choices{"auto", "avx512", "avx2", "neon"}, Own{});
  key("train.loss_scale", c.train.loss_scale,
      "factor of the loss before backward, a power of two, divided out before the update; auto: "
      "1024 for f16, else 1",
      Range::from_to(1, 1 << 24)
          .said("a power of two, 1 to 16777216, so that scaling rounds nothing"));
  key("train.tf32", c.train.tf32,
      "GPU with f32: factors of products have 10 bits, which is several times faster");
  key("train.deterministic", c.train.deterministic,
      "two runs, and a run that was stopped and resumed, give the same bits on the same machine "
      "(slower on a GPU); gossip must then be recorded (run.record) or repeated (run.replay)");
  key("train.device", c.train.device,
      "cpu | cuda: a GPU for each worker of a machine | cuda:N | auto: cuda if there is a GPU, "
      "else cpu",
      Choices{"auto", "cpu", "cuda", "cuda:N"}, Own{});
  key("train.cuda_graph", c.train.cuda_graph,
      "forward and backward as one CUDA graph: auto | on (an error if that is impossible) | off",
      Choices{"auto", "on", "off"}, Own{});
  key("train.plans", c.train.plans,
      "file that keeps what was chosen by measuring on a GPU (how each convolution, product of "
      "matrices and gradient of attention is computed), so that the next start measures nothing; "
      "auto: gossamer/plans.json in the user's cache folder; none: no file. With "
      "train.deterministic nothing is measured: the file keeps the first plan of each convolution "
      "that is right and adds in a fixed order, apart from measured ones",
      Own{});
  key("train.threads", c.train.threads,
      "compute threads of each worker; auto: cores of this machine / its workers",
      Range::from_to(1, 1024), Own{});
  key("train.bn_batches", c.train.bn_batches,
      "batches per worker that re-estimate batch norm at the end; 0: merge the workers' statistics",
      Range::from_to(0, 1e6));
  for (auto& each : c.of_methods) {
    Setting setting{.name = each.key,
                    .about = each.about,
                    .choices = each.setting.choices,
                    .agree = each.setting.agree};
    const auto visit = [&](auto& value) { f(setting, value); };
    if (auto* value = std::get_if<SettingValue>(&each.value)) {
      // One that depends on another {setting} is checked by the library only.
      if (each.setting.range.wanted.find('{') == std::string::npos)
        setting.range = each.setting.range;
      std::visit(visit, *value);
    } else {
      visit(std::get<std::vector<Amount>>(each.value));
    }
  }
  key("optim.name", c.optim.name,
      "sgd | adam | adamw | accum-adam | accum-adamw | muon (as first published: hidden matrices "
      "take orthogonal steps, the rest AdamW) | muon-rms (with AdamW's learning rate) | auto: the "
      "optimizer in the method's name, else sgd",
      Choices{"auto", "sgd", "adam", "adamw", "accum-adam", "accum-adamw", "muon", "muon-rms"});
  key("optim.learning_rate", c.optim.learning_rate,
      "for 256 images a step (see optim.scaling); auto: 0.1 with sgd, 0.02 with muon, else 0.001",
      Range::above_zero());
  key("optim.factors", c.optim.factors,
      "factors of the learning rate: PATTERN=FACTOR, e.g. [\"layer1 layer2=0.1\", \"fc=10\"]; the "
      "last that fits counts");
  key("optim.scaling", c.optim.scaling,
      "linear: learning_rate * workers * batch / 256 | none | auto: linear with sgd, else none",
      Choices{"auto", "linear", "none"});
  nn::visit_optimizer(c.optim,
                      [&](auto& field, const Setting& setting) { with("optim.", setting, field); });
  key("optim.accumulate", c.optim.accumulate,
      "accum-adam: steps over which the gradient of the moments is averaged; auto: half the "
      "workers, at least 2",
      nn::accumulated_steps());
  key("optim.label_smoothing", c.optim.label_smoothing,
      "share of the target that is spread over all classes, 0 to 1", Range::from_below(0, 1));
  key("optim.clip_norm", c.optim.clip_norm, "largest norm of a gradient; 0: no clipping",
      Range::at_least(0));
  key("optim.schedule", c.optim.schedule,
      "learning rate over the samples seen by all workers: constant | step | cosine | linear | "
      "one-cycle | wsd (stays at the peak until optim.decay) | inverse-sqrt",
      Choices{nn::schedule_kinds()});
  key("optim.warmup_epochs", c.optim.warmup_epochs,
      "linear rise to the peak, in epochs or as an amount (\"500 steps\"); it is part of "
      "train.epochs, at most half of it; 0 with one-cycle: 30 % of it",
      Range::at_least(0));
  key("optim.warmup_from", c.optim.warmup_from, "learning rate at the start of the rise",
      Range::at_least(0));
  key("optim.final", c.optim.final, "cosine, linear, one-cycle, wsd: learning rate at the end",
      Range::at_least(0));
  key("optim.decay", c.optim.decay,
      "wsd: the fall to optim.final at the end, as a fraction of the run, or an amount (\"2000 "
      "steps\"); a resumed run with a longer train.epochs begins it later",
      Range::at_least(0));
  key("optim.milestones", c.optim.milestones,
      "step: fractions of the run, or amounts: [\"30 epochs\", \"60 epochs\"]");
  key("optim.gamma", c.optim.gamma, "step: factor at each milestone", Range::above_zero());
  key("eval.every", c.eval.every,
      "epochs between evaluations on the way, or an amount (\"2000 steps\"); 0: only at the end; "
      "text: 0 unless given",
      Range::at_least(0));
  key("eval.of", c.eval.of,
      "several workers: own: each evaluates its own model on its share of the images, without "
      "waiting | mean: all wait for each other and evaluate the average of their models",
      Choices{"own", "mean"});
  key("eval.consensus_every", c.eval.consensus_every,
      "epochs, or an amount, between exact measurements of the consensus distance, at which all "
      "workers wait for each other; 0: never",
      Range::at_least(0));
  key("eval.batch", c.eval.batch, "images of a batch in evaluation", Range::from_to(1, 65536),
      Own{});
  key("run.name", c.run.name, "name of the run's folder; auto: MODEL-METHOD", Own{});
  key("run.dir", c.run.dir, "results are written to DIR/NAME", Own{});
  key("run.log_every", c.run.log_every, "steps of a worker between two lines of log.jsonl",
      Range::at_least(1), Own{});
  key("run.checkpoint_every", c.run.checkpoint_every,
      "time between checkpoints, or epochs, or an amount (\"2000 steps\", \"20M samples\"); they "
      "are written beside the training; 0: none on the way",
      Range::at_least(0));
  key("run.final_checkpoint", c.run.final_checkpoint,
      "a checkpoint at the end, so that `--resume RUN train.epochs=MORE` goes on from there");
  key("run.keep", c.run.keep, "number of checkpoints to keep", Range::at_least(1), Own{});
  key("run.keep_best", c.run.keep_best,
      "with eval.every: number of the best models to keep, in best/; the best of all is "
      "best.safetensors; several workers: with eval.of=mean; 0: none",
      Range::from_to(0, 1000));
  key("run.best_by", c.run.best_by,
      "which model is the best: top1: of the highest top-1 (pictures, unless said) | loss: of the "
      "lowest validation loss (text always); where that is equal, the other decides",
      Choices{"top1", "loss"});
  key("run.trace", c.run.trace, "write trace.json for chrome://tracing and ui.perfetto.dev", Own{});
  key("run.record", c.run.record,
      "folder for the order of all events (" + methods_with(&dist::MethodTraits::records) +
          "), one file a worker; empty: none",
      Own{});
  key("run.replay", c.run.replay,
      "folder of such a record: the run is repeated bit for bit; on GPUs both need "
      "train.deterministic=true",
      Own{});
  key("run.trace_steps", c.run.trace_steps,
      "[first, last]: trace only these steps of each worker; empty: all, as many of the newest as "
      "fit",
      Own{});
  key("run.log_exchanges", c.run.log_exchanges,
      "true: a line of log.jsonl for every exchange; false: one for each interval", Own{});
  key("run.tensorboard", c.run.tensorboard,
      "write events.out.tfevents…: curves and the first images for TensorBoard", Own{});
  key("run.report", c.run.report, "write report.html", Own{});
  key("dist.connect_timeout_s", c.dist.connect_timeout_s, "seconds until all workers must have met",
      Range::above_zero(), Own{});
  key("dist.heartbeat_s", c.dist.heartbeat_s, "seconds between two signs of life of a worker",
      Range::above_zero(), Own{});
  key("dist.dead_after_s", c.dist.dead_after_s,
      "seconds of silence after which a worker counts as dead", Range::above_zero(), Own{});
  key("dist.exchange_timeout_s", c.dist.exchange_timeout_s,
      "longest time of an exchange in seconds; shorter limits follow from earlier exchanges",
      Range::above_zero(), Own{});
  key("dist.collective_timeout_s", c.dist.collective_timeout_s,
      "longest wait for the other workers in a collective, in seconds", Range::above_zero(), Own{});
  key("dist.min_workers", c.dist.min_workers, "stop the run if fewer workers are alive",
      Range::at_least(1), Own{});
  key("dist.places", c.dist.places,
      "for how many workers there are places, those that join the run later included (" +
          methods_with(&dist::MethodTraits::joins) + "); 0: for those that begin it",
      Range::from_to(0, dist::kMaxWorkers));
  key("dist.restart", c.dist.restart,
      "how often a worker that died is started again (" +
          methods_with(&dist::MethodTraits::restarts) + "); it takes its state from a neighbour",
      Range::from_to(0, 1000), Own{});
  key("dist.restart_after_s", c.dist.restart_after_s, "seconds between the death and the restart",
      Range::from_to(0, 86400), Own{});
  key("dist.transport", c.dist.transport,
      "between GPUs: auto (peercopy if the peer's memory can be reached, else nccl; allreduce: "
      "nccl; in rounds: host) | peercopy (one machine) | nccl | host",
      Choices{"auto", "peercopy", "nccl", "host"});
  key("dist.wire", c.dist.wire,
      "type in which exchanges between GPUs are sent: f32 | f16; allreduce: f32",
      Choices{"f32", "f16"});
  key("dist.payload", c.dist.payload,
      "type in which parameters travel between CPUs: f32 | bf16 | int8 (with error feedback); "
      "not for " +
          dist::methods_that([](const dist::MethodTraits& m) { return !m.coded; }),
      Choices{"f32", "bf16", "int8"});
  key("dist.read_memory", c.dist.read_memory,
      "workers of one machine exchange by reading each other's memory, where the system allows it; "
      "false: over TCP, as between machines",
      Own{});
  key("dist.tls", c.dist.tls,
      "whether workers encrypt what they say to each other (TLS 1.3): on | off | auto (on, unless "
      "all run on one machine)",
      Choices{"auto", "on", "off"}, Own{});
  key("dist.trust_network", c.dist.trust_network,
      "true: nobody else can read or change what goes over the network between the machines, so "
      "GPUs may exchange by NCCL, which does not encrypt",
      Own{});
  key("dist.open", c.dist.open,
      "true: workers for which nobody gave a token do without a secret, so anybody who reaches a "
      "port can join and ruin the model",
      Own{});
  key("dist.nccl_ctas", c.dist.nccl_ctas,
      "multiprocessors for NCCL: 2 for a network, 4 or 8 for NVLink; 0: NCCL decides",
      Range::from_to(0, 32), Own{});
  key("dist.inject", c.dist.inject,
      "deliberate faults: kill:rank=2@step=300,stop:rank=1:5s,slow:rank=1:x3,… "
      "(dist/faults/inject.h)",
      Own{});
}

// A key of an older version. It is still accepted, with any value, because the config.toml of an
// old run lists all keys of its time; Config::notes then says that it has no effect. A key that
// leaves the list above gets a line here.
struct RetiredKey {
  std::string_view key, why;
};
inline constexpr RetiredKey kRetiredKeys[] = {
    {"data.decoder", "JPEG files are always decoded on the CPU"},
};

// What other programs call a key: timm, torchvision's references and PyTorch's examples.
struct OtherName {
  std::string_view name, key;
};
inline constexpr OtherName kOtherNames[] = {
    {"arch", "model.name"},
    {"model", "model.name"},
    {"num_classes", "model.classes"},
    {"data", "data.train"},
    {"data_dir", "data.train"},
    {"data_path", "data.train"},
    {"train_dir", "data.train"},
    {"val_dir", "data.val"},
    {"img_size", "data.size"},
    {"input_size", "data.size"},
    {"aa", "data.augment"},
    {"auto_augment", "data.augment"},
    {"color_jitter", "data.augment"},
    {"random_erase", "data.augment"},
    {"reprob", "data.augment"},
    {"j", "data.threads"},
    {"num_workers", "data.threads"},
    {"b", "train.batch"},
    {"batch_size", "train.batch"},
    {"topology", "train.graph"},
    {"amp", "train.dtype"},
    {"precision", "train.dtype"},
    {"opt", "optim.name"},
    {"optimizer", "optim.name"},
    {"lr", "optim.learning_rate"},
    {"min_lr", "optim.final"},
    {"wd", "optim.weight_decay"},
    {"smoothing", "optim.label_smoothing"},
    {"clip_grad", "optim.clip_norm"},
    {"lr_scheduler", "optim.schedule"},
    {"sched", "optim.schedule"},
    {"scheduler", "optim.schedule"},
    {"warmup", "optim.warmup_epochs"},
    {"warmup_steps", "optim.warmup_epochs"},
    {"steps", "train.epochs"},
    {"max_steps", "train.epochs"},
    {"max_iters", "train.epochs"},
    {"checkpoint_hist", "run.keep_best"},
    {"eval_metric", "run.best_by"},
    {"experiment", "run.name"},
    {"log_interval", "run.log_every"},
    {"print_freq", "run.log_every"},
    {"output", "run.dir"},
    {"output_dir", "run.dir"},
    {"workers", "--workers N"},
};

// The value of a key as TOML.
std::string value_text(const Config&, const std::string& key);

}  // namespace gossamer::apps
