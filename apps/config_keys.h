// The format of configuration files: every key with its field and a line about it. Reader, writer,
// checks, error texts, `gossamer config`, completion and man page walk this one list. A new key is
// a field in config.h, which is its type and default, and a line here.
//
// The options in cli.cpp are a list of their own. They fill other structs, most of which are not a
// Config, with other defaults and other ways to write a value. The four that stand for a key say
// so.
#pragma once

#include <string>
#include <string_view>

#include "gossamer/apps/config.h"

namespace gossamer::apps {

template <class C, class F>
void each_key(C& c, F&& f) {
  static const std::string methods =
      dist::methods_that([](const dist::MethodTraits&) { return true; }, "|");
  static const std::vector<NamedSetting> about_gossip = settings_of(dist::GossipOptions{});
  f("task", c.task,
    "pictures: images of classes | language: text, of which the model predicts the next piece | "
    "translation: pairs of sentences");
  f("model.name", c.model.name,
    "pictures: resnet8-cifar, resnet20-cifar, resnet50 … | language: gpt2 unless said, gpt2-medium "
    "… | translation: transformer unless said, transformer-big; `gossamer doctor` lists all");
  f("model.classes", c.model.classes,
    "outputs of the model; auto: the number of classes in the data, or of ids in its vocabulary");
  f("model.layers", c.model.layers, "text: number of blocks; auto: as model.name says");
  f("model.width", c.model.width, "text: width of the embedding; auto: as model.name says");
  f("model.heads", c.model.heads, "text: heads of the attention; auto: as model.name says");
  f("model.ff", c.model.ff, "translation: width inside the blocks; auto: as model.name says");
  f("model.norm_first", c.model.norm_first,
    "translation: the layer norms in front of the branches; false: behind them, as published");
  f("model.bias", c.model.bias, "language: linear layers and layer norms have biases");
  f("model.gelu", c.model.gelu, "language: form of the GELU: tanh (GPT-2) | erf (nanoGPT)");
  f("model.dropout", c.model.dropout, "text: probability, 0 to below 1");
  f("model.init", c.model.init,
    "model to start from: a file of weights (.safetensors, torch's .pth), a run or a checkpoint. "
    "pictures: what fits is taken, and without model.name its tensors say which model it is | "
    "text: "
    "every tensor must fit");
  f("model.init_key", c.model.init_key,
    "of a .pth with several state dicts, as model.init or as MODEL of a command: the one to take, "
    "e.g. model_ema");
  f("model.init_rename", c.model.init_rename,
    "of such weights of others: names of layers to change, e.g. logits=fc; backbone= drops a "
    "prefix");
  f("model.init_other_tokenizer", c.model.init_other_tokenizer,
    "text: train on ids of another tokenizer than lies beside model.init");
  f("model.freeze", c.model.freeze,
    "parameters that are not trained: \"conv1, bn1, layer1\", \"all but fc\"; frozen batch norm "
    "keeps its statistics");
  f("data.train", c.data.train,
    "training set; pictures: folder of class folders; tar, TFRecord or packed shards; files of "
    "CIFAR "
    "and ImageNet-32; a list is joined | text: folder of `gossamer data tokenize`; language: .bin "
    "files of nanoGPT and llm.c, too");
  f("data.val", c.data.val,
    "validation set, in the same forms; auto: what lies beside the training set (train/ and val/ "
    "in one folder); none: no validation");
  f("data.val_split", c.data.val_split,
    "share of each class of data.train, drawn from train.seed, that validates and does not train, "
    "e.g. 0.1; 0: none");
  f("data.label_base", c.data.label_base,
    "the smallest image/class/label in TFRecords: 0 | 1 (ImageNet) | auto: 0 if a 0 occurs, else "
    "1");
  f("data.size", c.data.size, "side of the training images; auto: the model's usual size");
  f("data.sizes", c.data.sizes,
    "progressive resolution: smaller sides before data.size, one for each of size_milestones, e.g. "
    "[128, 160]");
  f("data.size_milestones", c.data.size_milestones,
    "fractions of the run at which the next size begins, e.g. [0.35, 0.7], or amounts");
  f("data.eval_size", c.data.eval_size, "side for evaluation and classify; auto: data.size");
  f("data.resize", c.data.resize,
    "evaluation: shorter side before the centre crop; auto: eval_size, above 64 eval_size * "
    "256/224");
  f("data.filter", c.data.filter,
    "how pictures are shrunk: bilinear (antialiased, as Pillow) | area (mean of the covered "
    "pixels, as OpenCV)");
  f("data.augment", c.data.augment,
    "the crop (auto | none | pad-crop-flip | resized-crop-flip), then steps in order: "
    "colour-jitter:B:C:S:H, rand-augment:OPS:MAGNITUDE, trivial-augment-wide, random-erasing:P");
  f("data.shard", c.data.shard,
    "true: the workers divide each epoch; false: each worker draws from the whole set; auto: true "
    "for allreduce; dirichlet:0.3: each worker has other shares of the classes (non-IID)");
  f("data.mean", c.data.mean,
    "mean of each channel, 0 to 1; empty: CIFAR's up to 64 pixels, ImageNet's above");
  f("data.std", c.data.std, "standard deviation of each channel; empty: as for data.mean");
  f("data.threads", c.data.threads,
    "decoding threads of each worker; auto: a quarter of its cores; with a GPU all but two");
  f("data.cpus", c.data.cpus,
    "CPUs for the data threads of each worker: 0-3,8 or node:0 (NUMA); empty: any");
  f("data.resize_on", c.data.resize_on,
    "where training pictures are cropped, resized and flipped: host | device (of the model) | "
    "auto: on a GPU if possible");
  f("data.length", c.data.length,
    "language: ids that the model sees at once; translation: most ids of a sentence");
  f("data.cache_gb", c.data.cache_gb,
    "GB (10^9 bytes) of encoded files that each worker keeps in memory after reading them; 0: "
    "none");
  f("data.strict_images", c.data.strict_images,
    "true: a damaged image stops the run; false: it is replaced and listed");
  f("train.method", c.train.method, methods.c_str());
  f("train.graph", c.train.graph,
    "which workers exchange: ring, complete, exponential, star, hypercube, torus, chain, tree, "
    "random-regular:4, aer:8 (workers a node; aer: those of a machine), file:PATH");
  f("train.rate", c.train.rate, about_gossip[0].setting.about.c_str());
  f("train.pairing", c.train.pairing, about_gossip[1].setting.about.c_str());
  f("train.quota", c.train.quota, about_gossip[2].setting.about.c_str());
  f("train.batch", c.train.batch,
    "images that one worker computes on at once; language: windows; translation: ids of a side");
  f("train.accumulate", c.train.accumulate,
    "batches of one gradient: their gradients are added up before the update, as if they were one "
    "batch; batch norm still sees one at a time");
  f("train.ema", c.train.ema,
    "decay of an exponential moving average of the model after every gradient, e.g. 0.9999, with "
    "timm's warm-up; it is evaluated beside the model, and written as model-ema.safetensors; "
    "0: none");
  f("train.epochs", c.train.epochs,
    "passes over the training set by all workers together; or an amount, as for all keys of this "
    "kind: \"2000 steps\" of each worker, \"20M samples\" of all (images, tokens)");
  f("train.patience", c.train.patience,
    "with eval.every: so many evaluations without a better one (see run.best_by) end the run; "
    "several workers: with eval.of=mean, and until one is lost; 0: none does");
  f("train.mixup", c.train.mixup,
    "alpha of mixup, e.g. 0.2; 0: off. With cutmix, each batch gets one of the two");
  f("train.cutmix", c.train.cutmix, "alpha of CutMix, e.g. 1; 0: off");
  f("train.seed", c.train.seed, "seed of initial values, image order and augmentation");
  f("train.dtype", c.train.dtype,
    "type in which the layers compute: f32 | bf16 | f16 (GPUs) | auto: bf16 on GPUs and on CPUs "
    "with instructions for it, else f32; the master copy is f32");
  f("train.isa", c.train.isa,
    "most that code for the CPU may use: avx512 | avx2 | neon | auto: all that the CPU has");
  f("train.loss_scale", c.train.loss_scale,
    "factor of the loss before backward, a power of two, divided out before the update; auto: 1024 "
    "for f16, else 1");
  f("train.tf32", c.train.tf32,
    "GPU with f32: factors of products have 10 bits, which is several times faster");
  f("train.device", c.train.device,
    "cpu | cuda: a GPU for each worker of a machine | cuda:N | auto: cuda if there is a GPU, else "
    "cpu");
  f("train.cuda_graph", c.train.cuda_graph,
    "forward and backward as one CUDA graph: auto | on (an error if that is impossible) | off");
  f("train.plans", c.train.plans,
    "file of measured convolution plans of a GPU; auto: gossamer/plans.json in the user's cache "
    "folder; none: no file");
  f("train.threads", c.train.threads,
    "compute threads of each worker; auto: cores of this machine / its workers");
  f("train.bn_batches", c.train.bn_batches,
    "batches per worker that re-estimate batch norm at the end; 0: merge the workers' statistics");
  for (auto& each : c.of_methods) {
    const auto visit = [&](auto& value) { f(each.key.c_str(), value, each.about.c_str()); };
    if (auto* value = std::get_if<SettingValue>(&each.value))
      std::visit(visit, *value);
    else
      visit(std::get<std::vector<Amount>>(each.value));
  }
  f("optim.name", c.optim.name,
    "sgd | adam | adamw | accum-adam | accum-adamw | auto: the optimizer in the method's name, "
    "else sgd");
  f("optim.learning_rate", c.optim.learning_rate,
    "for 256 images a step (see optim.scaling); auto: 0.1, with Adam 0.001");
  f("optim.factors", c.optim.factors,
    "factors of the learning rate: PATTERN=FACTOR, e.g. [\"layer1 layer2=0.1\", \"fc=10\"]; the "
    "last that fits counts");
  f("optim.scaling", c.optim.scaling,
    "linear: learning_rate * workers * batch / 256 | none | auto: linear, with Adam none");
  f("optim.momentum", c.optim.momentum, "SGD: momentum");
  f("optim.nesterov", c.optim.nesterov, "SGD: Nesterov momentum; no effect if optim.momentum is 0");
  f("optim.weight_decay", c.optim.weight_decay,
    "not applied to biases and batch norm; adamw, accum-adamw: decoupled from the gradient");
  f("optim.beta1", c.optim.beta1, "Adam: decay of the first moment");
  f("optim.beta2", c.optim.beta2, "Adam: decay of the second moment");
  f("optim.epsilon", c.optim.epsilon, "Adam: added to the root of the second moment");
  f("optim.accumulate", c.optim.accumulate,
    "accum-adam: steps over which the gradient of the moments is averaged; auto: half the workers, "
    "at least 2");
  f("optim.label_smoothing", c.optim.label_smoothing,
    "share of the target that is spread over all classes, 0 to 1");
  f("optim.clip_norm", c.optim.clip_norm, "largest norm of a gradient; 0: no clipping");
  f("optim.schedule", c.optim.schedule,
    "learning rate over the samples seen by all workers: constant | step | cosine | one-cycle | "
    "inverse-sqrt");
  f("optim.warmup_epochs", c.optim.warmup_epochs,
    "linear rise to the peak, in epochs or as an amount (\"500 steps\"); it is part of "
    "train.epochs, at most half of it; 0 with one-cycle: 30 % of it");
  f("optim.warmup_from", c.optim.warmup_from, "learning rate at the start of the rise");
  f("optim.final", c.optim.final, "cosine, one-cycle: learning rate at the end");
  f("optim.milestones", c.optim.milestones,
    "step: fractions of the run, or amounts: [\"30 epochs\", \"60 epochs\"]");
  f("optim.gamma", c.optim.gamma, "step: factor at each milestone");
  f("eval.every", c.eval.every,
    "epochs between evaluations on the way, or an amount (\"2000 steps\"); 0: only at the end; "
    "text: 0 unless given");
  f("eval.of", c.eval.of,
    "several workers: own: each evaluates its own model on its share of the images, without "
    "waiting | mean: all wait for each other and evaluate the average of their models");
  f("eval.consensus_every", c.eval.consensus_every,
    "epochs, or an amount, between exact measurements of the consensus distance, at which all "
    "workers wait for each other; 0: never");
  f("eval.batch", c.eval.batch, "images of a batch in evaluation");
  f("run.name", c.run.name, "name of the run's folder; auto: MODEL-METHOD");
  f("run.dir", c.run.dir, "results are written to DIR/NAME");
  f("run.log_every", c.run.log_every, "steps of a worker between two lines of log.jsonl");
  f("run.checkpoint_every", c.run.checkpoint_every,
    "time between checkpoints, or epochs, or an amount (\"2000 steps\", \"20M samples\"); they are "
    "written beside the training; 0: none on the way");
  f("run.final_checkpoint", c.run.final_checkpoint,
    "a checkpoint at the end, so that `--resume RUN train.epochs=MORE` goes on from there");
  f("run.keep", c.run.keep, "number of checkpoints to keep");
  f("run.keep_best", c.run.keep_best,
    "with eval.every: number of the best models to keep, in best/; the best of all is "
    "best.safetensors; several workers: with eval.of=mean; 0: none");
  f("run.best_by", c.run.best_by,
    "which model is the best: top1: of the highest top-1 (pictures, unless said) | loss: of the "
    "lowest validation loss (text always); where that is equal, the other decides");
  f("run.trace", c.run.trace, "write trace.json for chrome://tracing and ui.perfetto.dev");
  f("run.record", c.run.record,
    "folder for the order of all events (a2cid2, adpsgd), one file a worker; empty: none");
  f("run.replay", c.run.replay, "folder of such a record: the run is repeated bit for bit (CPU)");
  f("run.trace_steps", c.run.trace_steps,
    "[first, last]: trace only these steps of each worker; empty: all, as many of the newest as "
    "fit");
  f("run.log_exchanges", c.run.log_exchanges,
    "true: a line of log.jsonl for every exchange; false: one for each interval");
  f("run.tensorboard", c.run.tensorboard,
    "write events.out.tfevents…: curves and the first images for TensorBoard");
  f("run.report", c.run.report, "write report.html");
  f("dist.connect_timeout_s", c.dist.connect_timeout_s, "seconds until all workers must have met");
  f("dist.heartbeat_s", c.dist.heartbeat_s, "seconds between two signs of life of a worker");
  f("dist.dead_after_s", c.dist.dead_after_s,
    "seconds of silence after which a worker counts as dead");
  f("dist.exchange_timeout_s", c.dist.exchange_timeout_s,
    "longest time of an exchange in seconds; shorter limits follow from earlier exchanges");
  f("dist.collective_timeout_s", c.dist.collective_timeout_s,
    "longest wait for the other workers in a collective, in seconds");
  f("dist.min_workers", c.dist.min_workers, "stop the run if fewer workers are alive");
  f("dist.restart", c.dist.restart,
    "how often a worker that died is started again (a2cid2, adpsgd); it takes its state from a "
    "neighbour");
  f("dist.restart_after_s", c.dist.restart_after_s, "seconds between the death and the restart");
  f("dist.transport", c.dist.transport,
    "between GPUs: auto (peercopy if the peer's memory can be reached, else nccl; allreduce: nccl; "
    "in rounds: host) | peercopy (one machine) | nccl | host");
  f("dist.wire", c.dist.wire,
    "type in which exchanges between GPUs are sent: f32 | f16; allreduce: f32");
  f("dist.payload", c.dist.payload,
    "type in which parameters travel between CPUs: f32 | bf16 | int8 (with error feedback); not "
    "for allreduce and local-sgd");
  f("dist.read_memory", c.dist.read_memory,
    "workers of one machine exchange by reading each other's memory, where the system allows it; "
    "false: over TCP, as between machines");
  f("dist.nccl_ctas", c.dist.nccl_ctas,
    "multiprocessors for NCCL: 2 for a network, 4 or 8 for NVLink; 0: NCCL decides");
  f("dist.inject", c.dist.inject,
    "deliberate faults: kill:rank=2@step=300,stop:rank=1:5s,slow:rank=1:x3,… "
    "(dist/faults/inject.h)");
}

// Keys in which the workers of a run may differ: what belongs to a machine, what only says how a
// worker reports, and limits of its patience. All others are compared at the start.
inline constexpr std::string_view kOwnKeys[] = {
    "model.init",  // a path; of the weights the mean is taken
    "data.train",
    "data.val",
    "data.threads",
    "data.cpus",
    "data.resize_on",
    "data.cache_gb",
    "data.strict_images",
    "train.device",
    "train.cuda_graph",
    "train.plans",
    "train.isa",
    "train.threads",
    "eval.batch",
    "run.name",
    "run.dir",
    "run.log_every",
    "run.keep",
    "run.trace",
    "run.trace_steps",
    "run.record",
    "run.replay",
    "run.log_exchanges",
    "run.tensorboard",
    "run.report",
    "dist.connect_timeout_s",
    "dist.heartbeat_s",
    "dist.dead_after_s",
    "dist.exchange_timeout_s",
    "dist.collective_timeout_s",
    "dist.min_workers",
    "dist.restart",
    "dist.restart_after_s",
    "dist.read_memory",
    "dist.nccl_ctas",
    "dist.inject",
};

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
