// The plans of one GPU: found, measured, kept.
#include "gossamer/core/cuda/cudnn_engine.h"

#ifdef GOSSAMER_HAS_CUDA
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "gossamer/core/cuda/cuda_check.h"
#include "gossamer/core/cuda/cudnn_autotune.h"
#include "gossamer/core/cuda/plan_file.h"
#endif

namespace gossamer::cudnn {

std::string plan_key(const std::string& problem, const cuda::Properties& gpu, bool deterministic) {
  return "cudnn" + library_version() + " " + gpu.name + " x" + std::to_string(gpu.multiprocessors) +
         " " + problem + (deterministic ? " deterministic" : "");
}
std::string plan_key(const ConvProblem& problem, const cuda::Properties& gpu, bool deterministic) {
  return plan_key(problem.key(), gpu, deterministic);
}

#ifdef GOSSAMER_HAS_CUDA
namespace {
// As a rule all that cuDNN proposes, 27 to 40. It puts likely ones first
// (tests/core/cuda/plan_test.cpp), so that a slow one ends after one timed run.
constexpr std::size_t kCandidates = 40;
// How long the GPU runs before plans are timed: the first time its clocks rise from idle, later
// they are at most a little lower after the host's search for plans.
constexpr std::chrono::milliseconds kFirstWarmUp{200}, kWarmUp{20};
}  // namespace

struct ConvEngine::Impl {
  Device device;
  EngineOptions options;
  PlanFile file;
  // opened with the first convolution, so that what needs no cuDNN runs without it
  cudnnHandle_t handle = nullptr;
  std::unique_ptr<Planner> planner;
  struct Entry {
    Plan plan;  // undefined: cuDNN has none
    Choice choice;
  };
  mutable std::mutex mutex;
  std::map<std::string, Entry> entries;
  std::chrono::milliseconds warm_up = kFirstWarmUp;

  Impl(Device d, const EngineOptions& o) : device(d), options(o), file(o.plan_file) {}
  void open();
  Entry choose(const ConvProblem& problem);
  Entry guess(const ConvProblem& problem, const std::vector<Plan>& plans) {
    return {plans[0], {problem, plans[0].describe(), "heuristic", 0, 0}};
  }
};

ConvEngine::ConvEngine(Device device, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(device, options)) {}
ConvEngine::~ConvEngine() {
  impl_->entries.clear();
  if (impl_->handle) api().destroy(impl_->handle);
}

void ConvEngine::Impl::open() {
  if (planner) return;
  if (!handle) ok(api().create(&handle), "cudnnCreate");
  planner = std::make_unique<Planner>(Planner::for_handle(handle, options.deterministic));
}

ConvEngine::Impl::Entry ConvEngine::Impl::choose(const ConvProblem& problem) {
  const std::string key = plan_key(problem, cuda::properties(device), options.deterministic);
  if (const std::string json = file.find(key); !json.empty())
    if (const Plan plan = planner->from_json(json, problem); plan.defined())
      return {plan, {problem, plan.describe(), "file", 0, 0}};
  const std::vector<Plan> plans = planner->plans(problem, kCandidates);
  if (plans.empty()) return {{}, {problem, "none", "cuDNN", 0, 0}};
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cuda::check_call(
      cudaStreamIsCapturing(static_cast<cudaStream_t>(cuda::launch_stream(device)), &capturing),
      "cudaStreamIsCapturing", device);
  if (!options.autotune || capturing != cudaStreamCaptureStatusNone) return guess(problem, plans);
  const Measured best = options.deterministic ? first_right(handle, plans, problem, device)
                                              : measure(handle, plans, problem, device,
                                                        std::exchange(warm_up, kWarmUp));
  file.store(key, best.plan.json());
  return {best.plan,
          {problem, best.plan.describe(), options.deterministic ? "first right" : "measured",
           best.microseconds, best.rejected}};
}

void ConvEngine::run(const ConvProblem& problem, const ConvMemory& m) {
  if (try_run(problem, m)) return;
  fail<DeviceError>("cuDNN ", library_version(), ": no plan for ", problem.key(), " on ",
                    impl_->device, "; 16 bits want channels in multiples of 8");
}

bool ConvEngine::try_run(const ConvProblem& problem, const ConvMemory& m) {
  const cuda::UseDevice use(impl_->device);
  const std::scoped_lock lock(impl_->mutex);
  impl_->open();
  const std::string key = problem.key();
  auto it = impl_->entries.find(key);
  if (it == impl_->entries.end()) it = impl_->entries.emplace(key, impl_->choose(problem)).first;
  if (!it->second.plan.defined()) return false;
  execute(impl_->handle, it->second.plan, impl_->device, cuda::current_stream(impl_->device), m);
  return true;
}

std::vector<ConvEngine::Choice> ConvEngine::choices() const {
  const std::scoped_lock lock(impl_->mutex);
  std::vector<Choice> all;
  for (const auto& [key, entry] : impl_->entries) all.push_back(entry.choice);
  return all;
}

#else
struct ConvEngine::Impl {};
ConvEngine::ConvEngine(Device device, const EngineOptions&) {
  fail<DeviceError>("cuDNN on ", device, ": ", cuda::why_none());
}
ConvEngine::~ConvEngine() = default;
void ConvEngine::run(const ConvProblem&, const ConvMemory&) {}
bool ConvEngine::try_run(const ConvProblem&, const ConvMemory&) { return false; }
std::vector<ConvEngine::Choice> ConvEngine::choices() const { return {}; }
#endif

}  // namespace gossamer::cudnn
