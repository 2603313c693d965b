// Asking cuDNN for plans: heuristics, engines, their properties, and plans as text.
#include "gossamer/core/cuda/cudnn_plan.h"

#include <sstream>

#include "gossamer/core/cuda.h"
#ifdef GOSSAMER_HAS_CUDA
#include "gossamer/core/cuda/cudnn_graph.h"
#include "gossamer/core/dynamic_library.h"
#endif

namespace gossamer::cudnn {

std::string ConvProblem::key() const {
  const char* const names[] = {"fprop", "dgrad", "wgrad"};
  std::ostringstream text;
  text << names[static_cast<int>(op)] << ' ' << name_of(type) << " n" << n << ' ' << h << 'x' << w
       << 'x' << c << " k" << k << ' ' << r << 'x' << s << " s" << stride << " p" << pad_before
       << ',' << pad_after << " d" << dilation << " g" << groups << (accumulate ? " +=" : "")
       << (tf32 ? " tf32" : "") << (bias ? " +bias" : "") << (add ? " +y" : "")
       << (relu ? " relu" : "");
  return text.str();
}

ConvProblem problem_of(ConvOp op, DType type, const ConvGeometry& g, bool accumulate, bool tf32) {
  ConvProblem p{.op = op,
                .type = type,
                .n = g.n,
                .h = g.h,
                .w = g.w,
                .c = g.c,
                .k = g.k,
                .r = g.r,
                .s = g.s,
                .stride = g.stride,
                .pad_before = g.padding,
                .pad_after = g.padding,
                .dilation = g.dilation,
                .groups = g.groups,
                .accumulate = accumulate,
                .tf32 = tf32};
  // as much as the last output needs; both directions alike
  p.pad_after += (g.ho - p.ho()) * g.stride;
  return p;
}

#ifdef GOSSAMER_HAS_CUDA
namespace {

// With fewer plans than this cuDNN's fallbacks are asked for, too: its first list ends after some
// 40 configurations, and in f32 all of them may round products.
constexpr std::size_t kFew = 4;

// Names of the knobs that tell kernels apart; others are shown by number.
std::string knob_name(std::int64_t type) {
  switch (type) {
    case CUDNN_KNOB_TYPE_TILE_SIZE:
      return "TILE_SIZE";
    case CUDNN_KNOB_TYPE_TILE_CGA_M:
      return "TILE_CGA_M";
    case CUDNN_KNOB_TYPE_TILE_CGA_N:
      return "TILE_CGA_N";
    case CUDNN_KNOB_TYPE_STAGES:
      return "STAGES";
    case CUDNN_KNOB_TYPE_KERNEL_CFG:
      return "KERNEL_CFG";
    case CUDNN_KNOB_TYPE_SPLIT_K_SLC:
      return "SPLIT_K_SLC";
    default:
      return "knob" + std::to_string(type);
  }
}

template <class T>
std::vector<T> notes_of(const Descriptor& engine, cudnnBackendAttributeName_t name,
                        cudnnBackendAttributeType_t type) {
  T notes[32];
  std::int64_t count = 0;
  ok(api().get_attribute(engine.raw(), name, type, 32, &count, notes), "notes of an engine");
  return {notes, notes + (count < 32 ? count : 32)};
}

void read_engine(Plan::Impl& plan) {
  const std::vector<Descriptor> engines =
      plan.config.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  check<DeviceError>(!engines.empty(), "cuDNN: a configuration without an engine");
  plan.engine = static_cast<int>(engines[0].get_int(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  for (const auto note : notes_of<cudnnBackendNumericalNote_t>(
           engines[0], CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE)) {
    plan.tensor_cores |= note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    plan.down_converts |= note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    plan.reduced_sums |= note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    plan.any_order |= note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
  }
  for (const auto note : notes_of<cudnnBackendBehaviorNote_t>(
           engines[0], CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE))
    plan.compiles |= note == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
  for (const Descriptor& choice :
       plan.config.get_descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                   CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
    std::int64_t count = 0;
    ok(api().get_attribute(choice.raw(), CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                           &count, &type),
       "type of a knob");
    plan.clusters |= type == CUDNN_KNOB_TYPE_TILE_CGA_M || type == CUDNN_KNOB_TYPE_TILE_CGA_N;
    plan.knobs += ' ' + knob_name(type) + '=' +
                  std::to_string(choice.get_int(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
}

void set_target(Descriptor& d, const Planner::Target& target,
                cudnnBackendAttributeName_t properties) {
  if (!target.handle) d.set(properties, target.properties);
}
void set_plan_target(Descriptor& plan, const Planner::Target& target) {
  // …_PLAN_HANDLE
  if (target.handle)
    plan.set(static_cast<cudnnBackendAttributeName_t>(400), CUDNN_TYPE_HANDLE, 1, &target.handle);
  else
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target.properties);
}

// The configurations that cuDNN proposes, best guess first.
std::vector<Descriptor> configurations(const Descriptor& graph, const Planner::Target& target,
                                       cudnnBackendHeurMode_t mode, const std::string& key) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  set_target(heuristics, target, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  if (mode == CUDNN_HEUR_MODE_A)
    heuristics.finalize("heuristics for " + key);
  else if (!heuristics.try_finalize())
    return {};
  std::int64_t count = 0;
  ok(api().get_attribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
     "number of heuristic results");
  return heuristics.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count);
}

// bf16 and f16 take any engine that sums in f32; f32 only those that keep its digits, unless TF32
// is wanted.
bool precise(const Plan::Impl& plan, const ConvProblem& p) {
  if (plan.reduced_sums) return false;
  return p.type != DType::f32 || p.tf32 || !(plan.tensor_cores || plan.down_converts);
}

bool repeatable_enough(const Plan::Impl& plan) {
  return !(plan.target->deterministic && plan.any_order);
}

// The plans of a graph that `accept` takes.
template <class Accept>
std::vector<Plan> search(const std::shared_ptr<const Planner::Target>& target,
                         std::vector<Descriptor> descriptors, const std::string& key,
                         std::size_t limit, std::size_t cap, Accept accept) {
  const auto graph = std::make_shared<const std::vector<Descriptor>>(std::move(descriptors));
  std::vector<Plan> found;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (mode == CUDNN_HEUR_MODE_FALLBACK && found.size() >= kFew) break;
    for (Descriptor& config : configurations(graph->back(), *target, mode, key)) {
      if (found.size() == limit) break;
      auto impl = std::make_shared<Plan::Impl>();
      impl->target = target;
      impl->graph = graph;
      impl->config = std::move(config);
      read_engine(*impl);
      if (!accept(*impl) || !repeatable_enough(*impl)) continue;
      impl->plan = Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      set_plan_target(impl->plan, *target);
      impl->plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, impl->config);
      if (!impl->plan.try_finalize()) continue;
      impl->workspace =
          static_cast<std::size_t>(impl->plan.get_int(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
      if (impl->workspace <= cap) found.emplace_back(std::move(impl));
    }
  }
  return found;
}

}  // namespace

int Plan::engine() const { return impl_->engine; }
std::size_t Plan::workspace() const { return impl_->workspace; }
bool Plan::tensor_cores() const { return impl_->tensor_cores; }
bool Plan::clusters() const { return impl_->clusters; }
bool Plan::compiles() const { return impl_->compiles; }
bool Plan::any_order() const { return impl_->any_order; }
std::string Plan::json() const {
  return impl_->plan.get_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
}
std::string Plan::describe() const {
  std::ostringstream text;
  text.precision(1);
  text << std::fixed << "eng" << impl_->engine << (impl_->compiles ? " (compiled now)" : "")
       << impl_->knobs << ", " << static_cast<double>(impl_->workspace) / 1e6 << " MB";
  return text.str();
}

Planner Planner::for_properties(const std::string& json, bool deterministic) {
  auto target = std::make_shared<Target>();
  target->deterministic = deterministic;
  target->properties = Descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  target->properties.set_text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json);
  target->properties.finalize("properties of a device");
  return Planner(std::move(target));
}

Planner Planner::for_handle(void* handle, bool deterministic) {
  auto target = std::make_shared<Target>();
  target->deterministic = deterministic;
  target->handle = static_cast<cudnnHandle_t>(handle);
  return Planner(std::move(target));
}

std::vector<Plan> Planner::plans(const ConvProblem& problem, std::size_t limit,
                                 std::size_t cap) const {
  return search(target_, conv_graph(problem, *target_), problem.key(), limit, cap,
                [&](const Plan::Impl& plan) { return !plan.compiles && precise(plan, problem); });
}

std::vector<Plan> Planner::plans(const AttentionProblem& problem, std::size_t limit,
                                 std::size_t cap) const {
  return search(target_, attention_graph(problem, *target_), problem.key(), limit, cap,
                [](const Plan::Impl& plan) { return !plan.reduced_sums; });
}

std::size_t Planner::proposals(const AttentionProblem& problem) const {
  const std::vector<Descriptor> graph = attention_graph(problem, *target_);
  return configurations(graph.back(), *target_, CUDNN_HEUR_MODE_A, problem.key()).size();
}

Plan Planner::from_json(const std::string& json, const ConvProblem& problem,
                        std::size_t cap) const {
  auto impl = std::make_shared<Plan::Impl>();
  impl->target = target_;
  impl->plan = Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set_plan_target(impl->plan, *target_);
  if (api().set_attribute(impl->plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                          CUDNN_TYPE_CHAR, static_cast<std::int64_t>(json.size()),
                          json.c_str()) != CUDNN_STATUS_SUCCESS ||
      !impl->plan.try_finalize())
    return {};
  impl->workspace =
      static_cast<std::size_t>(impl->plan.get_int(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  std::vector<Descriptor> configs = impl->plan.get_descriptors(
      CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 1);
  if (configs.empty()) return {};
  impl->config = std::move(configs[0]);
  read_engine(*impl);
  const bool allowed =
      precise(*impl, problem) && repeatable_enough(*impl) && impl->workspace <= cap;
  return allowed ? Plan(std::move(impl)) : Plan();
}

void execute(cudnnHandle_t handle, const Plan& plan, Device device, const cuda::Stream& stream,
             std::initializer_list<Operand> operands) {
  ok(api().set_stream(handle, static_cast<cudaStream_t>(stream.handle())), "cudnnSetStream");
  const std::shared_ptr<Block> workspace =
      plan.workspace() ? allocate(plan.workspace(), device) : nullptr;
  void* const scratch = workspace ? workspace->data : nullptr;
  std::vector<void*> pointers;
  std::vector<std::int64_t> ids;
  for (const Operand& operand : operands) {
    if (!operand.data) continue;
    pointers.push_back(operand.data);
    ids.push_back(operand.id);
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
  pack.finalize("variant pack");
  ok(api().execute(handle, plan.impl().plan.raw(), pack.raw()),
     "cudnnBackendExecute of " + plan.describe());
}

void execute(cudnnHandle_t handle, const Plan& plan, Device device, const cuda::Stream& stream,
             const ConvMemory& m) {
  execute(handle, plan, device, stream,
          {{kX, m.x}, {kW, m.w}, {kY, m.y}, {kBias, m.bias}, {kAdd, m.add}});
}

std::string library_version() {
  return version_text([] { return api().version(); });
}
#else
// Without CUDA no planner can be made, so these members are never called.
namespace {
[[noreturn]] void none() { fail<DeviceError>("cuDNN: ", cuda::why_none()); }
}  // namespace
struct Plan::Impl {};
struct Planner::Target {};
int Plan::engine() const { none(); }
std::size_t Plan::workspace() const { none(); }
bool Plan::tensor_cores() const { none(); }
bool Plan::clusters() const { none(); }
bool Plan::compiles() const { none(); }
bool Plan::any_order() const { none(); }
std::string Plan::json() const { none(); }
std::string Plan::describe() const { none(); }
Planner Planner::for_properties(const std::string&, bool) { none(); }
Planner Planner::for_handle(void*, bool) { none(); }
std::vector<Plan> Planner::plans(const ConvProblem&, std::size_t, std::size_t) const { none(); }
std::vector<Plan> Planner::plans(const AttentionProblem&, std::size_t, std::size_t) const {
  none();
}
std::size_t Planner::proposals(const AttentionProblem&) const { none(); }
Plan Planner::from_json(const std::string&, const ConvProblem&, std::size_t) const { none(); }
std::string library_version() {
  return "not found: this build has no CUDA; configure with -DGOSSAMER_CUDA=ON";
}
#endif

}  // namespace gossamer::cudnn
