// The configuration of a run: a struct, read from TOML and key=value, checked, written back as
// TOML. config_keys.h lists the keys. The defaults are the quickstart's recipe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gossamer/apps/amount.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/dtype.h"
#include "gossamer/core/setting.h"
#include "gossamer/dist/gpu/group.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/lora.h"
#include "gossamer/nn/optim.h"
#include "gossamer/nn/schedule.h"

namespace gossamer::apps {

using Auto = std::optional<i64>;  // a number, or "auto", which is its empty value

// Gradients of a mean over a batch are mostly 1e-8 to 1e-2. f16 loses digits below 6e-5 and ends at
// 65504. Multiplied by 2^10 the gradients fit, with a factor of more than a thousand left above.
inline constexpr float kLossScaleOfF16 = 1024;

// The key of a setting of methods (dist::method_settings()).
struct MethodKey {
  Setting setting;
  std::string key, about;
  std::variant<SettingValue, std::vector<Amount>> value;  // amounts: of a setting of the run
};
std::string method_key(const std::string& setting);  // "train.period"
std::vector<MethodKey> method_keys();

struct Config {
  std::string task = "pictures";
  struct Model : models::ModelOptions {
    std::string name = "resnet8-cifar", init, init_key, freeze;
    std::vector<std::string> init_rename;
    bool init_other_tokenizer = false;
    i64 lora_rank = 0;
    double lora_alpha = nn::LoraOptions().alpha;
    std::vector<std::string> lora_targets = nn::LoraOptions().targets;
  } model;
  struct {
    std::vector<std::string> train{"data-cache/shapes10/train"}, val{"auto"};
    Auto size, eval_size, threads, resize;
    std::vector<std::string> augment{"auto"};
    std::string shard = "auto", cpus, resize_on = "auto", filter = "bilinear", label_base = "auto";
    std::vector<i64> sizes;
    i64 length = 256;  // of text, in ids
    std::vector<double> mean, std, weights;
    std::string documents = "joined";
    std::vector<Amount> size_milestones;
    double cache_gb = 0, val_split = 0;
    bool strict_images = false;
  } data;
  struct Train : dist::GossipOptions {
    std::string method = dist::default_method(), graph = "ring", dtype = "f32", isa = "auto";
    double ema = 0;
    Amount epochs{12};
    i64 batch = 32, accumulate = 1, global_batch = 0, seed = 0, bn_batches = 20, patience = 0;
    std::string device = "auto", cuda_graph = "auto", plans = "auto";
    Auto threads, loss_scale;
    bool tf32 = CudaOptions().tf32, deterministic = CudaOptions().deterministic;
    double mixup = 0, cutmix = 0;
  } train;
  std::vector<MethodKey> of_methods = method_keys();  // one for each of dist::method_settings()
  struct {
    std::string name = "auto";
    std::optional<double> learning_rate;
    double momentum = nn::OptimizerOptions().momentum, weight_decay = 5e-4, label_smoothing = 0,
           clip_norm = dist::MethodOptions().clip_norm;
    bool nesterov = true;
    double beta1 = nn::OptimizerOptions().beta1, beta2 = nn::OptimizerOptions().beta2,
           epsilon = nn::OptimizerOptions().epsilon;
    double muon_momentum = nn::OptimizerOptions().muon_momentum,
           adam_factor = nn::OptimizerOptions().adam_factor;
    std::string adam_for = nn::OptimizerOptions().adam_for;
    Auto accumulate;
    std::string schedule = nn::ScheduleOptions().kind, scaling = "auto";
    Amount warmup_epochs{1}, decay{nn::ScheduleOptions().decay};
    double warmup_from = nn::ScheduleOptions().warmup_from, final = nn::ScheduleOptions().final,
           gamma = nn::ScheduleOptions().gamma;
    std::vector<Amount> milestones{{0.5}, {0.75}};
    std::vector<std::string> factors;
  } optim;
  struct {
    Amount every{1}, consensus_every;
    i64 batch = 64;
    std::string of = "own";
  } eval;
  struct {
    std::string name = "auto", dir = "runs", record, replay, best_by = "top1";
    bool trace = false, report = true, tensorboard = true, log_exchanges = false;
    std::vector<i64> trace_steps;
    i64 log_every = 10, keep = 2, keep_best = 1;
    Amount checkpoint_every{10, Amount::Unit::minutes};
    bool final_checkpoint = true;
  } run;
  struct {
    double connect_timeout_s = dist::JoinOptions().connect_timeout_s,
           heartbeat_s = dist::JoinOptions().heartbeat_s,
           dead_after_s = dist::JoinOptions().dead_after_s, collective_timeout_s = 120,
           exchange_timeout_s = dist::MethodOptions().exchange_timeout_s;
    i64 min_workers = dist::MethodOptions().min_workers, places = 0, restart = 0;
    double restart_after_s = 1;
    std::string inject, transport = dist::GpuOptions().transport, wire = "f32",
                        payload = dist::MethodOptions().payload, tls = dist::JoinOptions().tls;
    bool read_memory = dist::JoinOptions().read_memory, open = dist::JoinOptions().open,
         trust_network = false;
    i64 nccl_ctas = dist::GpuOptions().nccl_ctas;
  } dist;

  // key -> "train.toml:3:9" or "command line", for messages
  std::map<std::string, std::string> origin;
  // What the user should know about the keys that were read, one line each, for the command to
  // print: those that no longer have an effect, or have none with this method.
  std::vector<std::string> notes;
  // A file of the checkpoint that --resume goes on from, where the model is read instead of at
  // model.init: see find_initial_model(). No key.
  std::string resumed_from;

  // What of_methods says: of all methods, or of the run's. part_of: an amount as a fraction of the
  // run; amounts of 1 and more are left out, since they never come.
  Settings all_settings(const std::function<double(const Amount&)>& part_of) const;
  Settings method_settings(const std::function<double(const Amount&)>& part_of) const;
  std::string stepping_method() const;  // dist::stepping_method() of the run's method
  // Samples of a batch, of one gradient of one worker, and of a step of so many workers: images, or
  // ids; of pairs the most ids of a side.
  i64 batch_samples() const { return train.batch * (task == "language" ? data.length : 1); }
  i64 gradient_samples() const { return batch_samples() * train.accumulate; }
  i64 step_samples(int workers) const {
    return train.global_batch > 0 ? train.global_batch / train.batch * batch_samples()
                                  : gradient_samples() * workers;
  }
  float loss_scale() const {
    return train.loss_scale       ? static_cast<float>(*train.loss_scale)
           : train.dtype == "f16" ? kLossScaleOfF16
                                  : 1.0f;
  }
  std::string run_folder() const;  // dir/name; "auto" becomes model-method
};

// Sets the defaults that depend on the task, where no value was given: model.name, run.best_by,
// eval.every, train.batch.
void fit_to_task(Config&);
// arguments: at most one *.toml, first; then key=value. ConfigError with file, line and column; for
// an unknown key it proposes the nearest one.
Config load_config(const std::vector<std::string>& arguments);
// text: TOML; file: its name, for messages.
Config parse_config(const std::string& text, const std::string& file);
void set_key(Config&, const std::string& assignment);  // "train.batch=64"
// Whether the amount of this key may be a time. Only that of checkpoints may: what workers do
// together, and what a run computes, must not depend on their speed.
bool takes_time(const std::string& key);
// All keys, each below a comment with its meaning. only: the keys of this section; empty: all.
std::string to_toml(const Config&, const std::string& only = "");

// A key as text, for help, completion and the man page.
struct KeyText {
  std::string name, type, value, about;  // value: as TOML
  std::vector<std::string> choices;      // of train.graph and data.shard those without a number
  std::string range;                     // empty: any, or one that depends on other keys
};
std::vector<KeyText> key_texts(const Config& = Config());
KeyText key_text(const std::string& key);  // of a known key
// Keys and values that all workers of a run must share (those without Own in config_keys.h).
std::vector<std::pair<std::string, std::string>> common_values(const Config&);
// The keys that were probably meant, by the names of other programs ("lr"), then by spelling; empty
// if none is near.
std::vector<std::string> nearest_keys(const std::string& wrong);
[[noreturn]] void unknown_key(const std::string& where, const std::string& key);

}  // namespace gossamer::apps
