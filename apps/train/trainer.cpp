// Sets a trainer up: model, group, method, loader, and with --resume the state of its checkpoint.
#include "gossamer/apps/train/trainer.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>

#include "gossamer/apps/train/checkpoint.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/dist/gpu/group.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/layers.h"

namespace gossamer::apps {
namespace {

// Runs before this worker meets another one, which may write a record then.
void keep_older_record(const Plan& plan, Journal& journal) {
  const std::filesystem::path record = plan.config.run.record;
  if (record.empty() || plan.place.rank != 0 || plan.place.rejoin || plan.options.dry_run) return;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(record, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("events-") || !name.ends_with(".jsonl")) continue;
    journal.progress.warn("an older record is now " + move_aside(record).string());
    return;
  }
}

}  // namespace

Trainer::Trainer(const Plan& plan, Journal& journal, Task opened,
                 const std::optional<ResumePoint>& resume)
    : task(std::move(opened)), patience(plan.config.train.patience, plan.config.run.best_by) {
  make_model(plan, journal, resume);
  join_group(plan, journal);
  make_method(plan, journal, resume);
  for (const std::string& line : task.data->open_loader())
    journal.progress.note("data     " + line);
  data::Dealt left;
  if (plan.place.rejoin) {
    const double seen = method->samples_seen();
    at = {seen, static_cast<i64>(seen / task.data->epoch()) + 1, 0};
    if (ema) ema->restart(*params);
  } else if (resume) {
    data::SampleOrder order = task.data->order();
    if (deals_one_order(plan.config)) order.common = data::CommonOrder();
    const Continuation from = continue_from(at, saved_order_, order);
    at = from.at;
    left.again = from.again;
    if (epoch_is_left_)
      journal.progress.note(
          fmt::format("resumed  at the beginning of epoch {}: another number of "
                      "workers does not read the rest of the one before",
                      at.epoch + 1));
    if (!from.note.empty()) journal.progress.note("resumed  " + from.note);
  }
  if (task.data->steps() > 0 && at.step >= task.data->steps()) at = {at.samples, at.epoch + 1, 0};
  if (!deals_one_order(plan.config)) {
    task.data->seek(at, plan.part(method->samples_seen()));
    return;
  }
  const i64 of_step = plan.config.train.global_batch / plan.config.train.batch;
  check<DataError>(of_step <= task.data->steps(), "a step of all workers takes ", of_step,
                   " batches (train.global_batch = ", plan.config.train.global_batch,
                   "), an epoch has ", task.data->steps(), "; use a smaller one");
  left.next = {at.epoch, at.step};
  if (plan.place.rejoin) left = dealt_from(told_);
  dealing = std::make_unique<Dealing>(
      Dealing::Options{.rank = plan.place.rank,
                       .batches_of_epoch = task.data->steps(),
                       .batches_of_step = of_step,
                       .from = std::move(left),
                       .deal =
                           [this, &plan](const data::Deal& deal) {
                             task.data->deal(deal, plan.part(method->samples_seen()));
                           }},
      *method);
}

void Trainer::make_model(const Plan& plan, Journal& journal,
                         const std::optional<ResumePoint>& resume) {
  // Every worker reads the same file and draws the rest alike.
  std::vector<std::string> notes;
  net = task.model->make(!resume, notes);
  for (const std::string& line : notes) journal.progress.note(line);
  nn::draw_for(*net, plan.place.rank);
  net->to(plan.device);
  nn::Module::Parts parts = net->parts();
  params = std::make_unique<FlatParams>(
      std::move(parts.parameters), std::move(parts.buffers),
      FlatOptions{.compute = task.model->compute(), .loss_scale = plan.config.loss_scale()},
      std::move(parts.frozen));
  // It gets the rest from a worker, which asks first whether what is frozen is the same.
  if (plan.place.rejoin && resume) load_frozen(*resume, *params);
  optimizer = run_optimizer(plan.config, *params, plan.place.size);
  if (plan.config.train.ema > 0) ema = std::make_unique<nn::Ema>(*params, plan.config.train.ema);
}

void Trainer::join_group(const Plan& plan, Journal& journal) {
  keep_older_record(plan, journal);
  const auto refused = [&journal](const std::string& text) {
    journal.folder.log("refused", JsonObject().add("what", text));
    journal.progress.note("refused  " + text);
  };
  // Yama, where it guards processes of one user against each other, is told that workers may read
  // this one.
  if (plan.several() && plan.config.dist.read_memory) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  group = dist::join(
      plan.place, {.connect_timeout_s = plan.config.dist.connect_timeout_s,
                   .heartbeat_s = plan.config.dist.heartbeat_s,
                   .dead_after_s = plan.config.dist.dead_after_s,
                   .collective_timeout_s = plan.config.dist.collective_timeout_s,
                   .read_memory = plan.config.dist.read_memory,
                   .tls = plan.config.dist.tls,
                   .open = plan.config.dist.open,
                   .about = plan.place.all_places() > plan.place.size ? to_toml(plan.config) : "",
                   .on_wait = [&journal](const std::string& text) { journal.progress.note(text); },
                   .on_refused = refused});
  inject(plan, journal);
  if (plan.several() && !plan.device.is_cpu()) use_gpu_group(plan, journal);
}

void Trainer::inject(const Plan& plan, Journal& journal) {
  if (plan.config.dist.inject.empty()) return;
  const auto say = [&plan, &journal](const std::string& what) {
    journal.folder.log("inject", JsonObject().add("what", what));
    journal.progress.note("inject   worker " + std::to_string(plan.place.rank) + ": " + what);
  };
  injector = std::make_unique<dist::Injector>(dist::parse_injections(plan.config.dist.inject),
                                              plan.place.rank, dist::process_actions(say),
                                              plan.place.rejoin);
  if (!plan.several() || !injector->disturbs_links()) return;
  undisturbed = std::move(group);
  group =
      dist::disturbed(*undisturbed, *injector, static_cast<std::uint64_t>(plan.config.train.seed),
                      dist::Seconds(plan.config.dist.dead_after_s));
}

void Trainer::use_gpu_group(const Plan& plan, Journal& journal) {
  const char* hostid = std::getenv("NCCL_HOSTID");
  on_host = std::move(group);
  group = dist::gpu_group(
      *on_host, plan.device,
      {.traffic = plan.method().sums_gradients ? dist::GpuTraffic::all_reduce
                  : plan.method().synchronous  ? dist::GpuTraffic::rounds
                                               : dist::GpuTraffic::gossip,
       .transport = plan.config.dist.transport,
       .nccl_hostid = hostid ? hostid : "",
       .nccl_ctas = static_cast<int>(plan.config.dist.nccl_ctas),
       .encrypted = plan.encrypted() && !plan.place.local && !plan.config.dist.trust_network,
       .deterministic = plan.config.train.deterministic,
       .collective_timeout_s = plan.config.dist.collective_timeout_s,
       .log = [&journal](const std::string& line) { journal.progress.note("gpu      " + line); }});
}

void Trainer::make_method(const Plan& plan, Journal& journal,
                          const std::optional<ResumePoint>& resume) {
  // Rounds that no graph has (one-peer-exp …) may pair any two workers.
  const std::string graph_name =
      dist::known_graph(plan.config.train.graph) ? plan.config.train.graph : "complete";
  if (plan.several())
    graph = dist::make_graph(graph_name, plan.place.all_places(),
                             plan.config.train.rate > 0 ? plan.config.train.rate : 1,
                             plan.place.local_size);
  dist::MethodOptions options =
      method_options(plan.config, plan.place.local_size, plan.place.size, task.data->epoch());
  options.total_samples = plan.total_samples;
  options.start_samples = plan.start_samples;
  options.rejoin = plan.place.rejoin;
  options.agree = common_values(plan.config);
  options.agree.emplace_back("the classes or ids of the data", task.data->outputs());
  if (deals_one_order(plan.config)) {
    std::string place;
    if (const auto common = resume && !plan.place.rejoin ? common_place(*resume) : std::nullopt)
      place = fmt::format("{} {} {}", common->at.epoch, common->at.step,
                          fmt::join(data::to_metadata(common->order), " "));
    options.agree.emplace_back("the place in the data, as the files of the checkpoint say it",
                               place);
  }
  if (!plan.device.is_cpu() && plan.config.dist.wire == "f16") options.wire = DType::f16;
  if (plan.joined()) founders = std::make_unique<Founders>(*group, plan.place.size);
  options.on_fault = [this, &journal](const std::string& what, int peer) {
    if (founders) founders->heard(what, peer);
    journal.fault(what, peer);
  };
  options.tell = [this] { return to_numbers(dealing->begin()); };
  options.told = [this](const std::vector<double>& note) { told_ = note; };
  if (plan.config.run.log_exchanges)
    options.on_exchange = [&journal](const dist::ExchangeRecord& e) { journal.exchange(e); };
  if (resume && !plan.place.rejoin)
    options.restore = [&](const std::vector<NamedTensor>& of_method) {
      resume_from(plan, journal, *resume, of_method);
    };
  method = dist::make_method(plan.config.train.method, *params, *optimizer, *group, graph, options);
}

void Trainer::resume_from(const Plan& plan, Journal& journal, const ResumePoint& resume,
                          const std::vector<NamedTensor>& of_method) {
  const Loaded loaded =
      load_checkpoint(resume, plan.place.rank, plan.place.size, state(), plan.method(), of_method);
  at = loaded.at, saved_order_ = loaded.order, epoch_is_left_ = loaded.epoch_is_left;
  if (resume.own_state(plan.place.size) && !resume.file_of(plan.place.rank)) {
    const bool damaged =
        std::ranges::find(resume.damaged_ranks, plan.place.rank) != resume.damaged_ranks.end();
    journal.warn(
        fmt::format("its file of the checkpoint is {}, so it goes on from {}{}",
                    damaged ? "damaged" : "missing",
                    plan.method().sums_gradients
                        ? fmt::format("worker {}'s", resume.ranks[0])
                        : fmt::format("the mean of the other {} and worker {}'s momentum",
                                      counted(resume.files.size(), "model"), resume.ranks[0]),
                    damaged ? ": " + resume.defect : ""));
  }
  // all from one file, so that they stop together
  const auto metadata = nn::read_metadata(resume.files[0]);
  if (const auto found = metadata.find("patience"); found != metadata.end())
    patience.restore(found->second);
}

dist::Graph Trainer::graph_of(const std::vector<int>& alive, const Plan& plan) const {
  if (plan.place.all_places() == plan.place.size) return graph;
  std::vector<bool> gone(static_cast<std::size_t>(graph.n), true);
  for (const int rank : alive) gone[static_cast<std::size_t>(rank)] = false;
  return dist::graph_of_living(graph, gone, plan.place.local_size);
}

i64 Trainer::parameter_count() const {
  i64 n = 0;
  for (const NamedTensor& p : net->parameters()) n += p.tensor.numel();
  return n;
}

RunFigures Trainer::leg(const Plan& plan) const {
  const dist::MethodStats s = method->stats();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return {.legs = 1,
          .samples = std::max(0.0, method->samples_seen() - plan.start_samples),
          .dealt_again = dealt_again,
          .wall_s = seconds,
          .worker_s = seconds,
          .gradients = static_cast<double>(s.gradients),
          .skipped_steps = static_cast<double>(params->skipped_steps()),
          .exchanges = static_cast<double>(s.exchanges),
          .failed = static_cast<double>(s.failed),
          .refused = static_cast<double>(s.refused),
          .exposed_s = s.exposed_s,
          .transfer_s = s.transfer_s,
          .bytes_sent = s.bytes_sent,
          .data_wait_s = task.data->stats().wait_s};
}

}  // namespace gossamer::apps
