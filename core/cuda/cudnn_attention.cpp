// The plans of attention on one GPU: made when a problem is first met, measured where there are two
// ways, then run.
#include "gossamer/core/cuda/cudnn_attention.h"

#include <sstream>

#include "gossamer/core/cuda.h"
#ifdef GOSSAMER_HAS_CUDA
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "gossamer/core/blocks.h"
#include "gossamer/core/cuda/cuda_check.h"
#include "gossamer/core/cuda/cudnn_graph.h"
#include "gossamer/core/cuda/plan_file.h"
#include "gossamer/core/cuda/rank_launches.h"
#include "gossamer/core/ops.h"
#endif

namespace gossamer::cudnn {

std::string AttentionProblem::key() const {
  std::ostringstream text;
  text << "attention" << (backward ? " backward " : " ") << name_of(type) << " b" << batch << " h"
       << heads << " q" << queries << " k" << keys << " d" << size << (causal ? " causal" : "")
       << " rows " << q_row << ',' << kv_row << (log_sums ? " sums" : "")
       << (any_order ? " any order" : "");
  return text.str();
}

bool fits(const Attention& a) {
  const DType type = a.q.t.dtype();
  return (type == DType::bf16 || type == DType::f16) && a.size % 8 == 0 && a.size <= 128 &&
         a.queries > 1 && a.keys > 1 && a.batch > 0 && a.dropout == 0 && !a.lengths.defined() &&
         a.heads == a.kv_heads && a.window == 0 && !a.begins.defined() &&
         (!a.causal || (a.first == 0 && a.queries == a.keys)) && a.k.row == a.v.row;
}

AttentionProblem problem_of(const Attention& a, bool backward, bool log_sums) {
  return {backward, a.q.t.dtype(), a.batch, a.heads, a.queries, a.keys,
          a.size,   a.causal,      a.q.row, a.k.row, log_sums,  false};
}

#ifdef GOSSAMER_HAS_CUDA
namespace {
void* start_of(const PackedRows& rows) {
  return static_cast<std::byte*>(rows.t.data()) +
         static_cast<std::size_t>(rows.first) * size_of(rows.t.dtype());
}
}  // namespace

struct AttentionEngine::Impl {
  struct Way {
    Plan plan;  // undefined: cuDNN has none
    AttentionProblem problem;
  };
  struct Entry {
    Way way, rival;  // rival: not yet measured against it
    std::string from = "heuristic";
    double microseconds = 0, other = 0;
  };
  Device device;
  EngineOptions options;
  PlanFile file;
  cudnnHandle_t handle = nullptr;  // opened with the first call
  mutable std::mutex mutex;
  std::map<std::string, Entry> entries;

  Impl(Device d, const EngineOptions& o) : device(d), options(o), file(o.plan_file) {}

  Way first_way(const Planner& planner, AttentionProblem problem, bool any_order) const {
    problem.any_order = any_order;
    const std::size_t cap =
        options.deterministic ? std::numeric_limits<std::size_t>::max() : kWorkspaceCap;
    const std::vector<Plan> plans = planner.plans(problem, 1, cap);
    return {plans.empty() ? Plan() : plans[0], problem};
  }
  // In backward the sums of dq are taken in any order where the slopes of all scores need more than
  // the cap; and, if that was measured, where it is faster. Never in a deterministic run.
  Entry& entry(const AttentionProblem& wanted) {
    const std::string key = wanted.key();
    if (const auto known = entries.find(key); known != entries.end()) return known->second;
    if (!handle) ok(api().create(&handle), "cudnnCreate");
    const Planner planner = Planner::for_handle(handle, options.deterministic);
    Entry made{first_way(planner, wanted, false), {}};
    const bool two_ways = wanted.backward && !options.deterministic;
    if (two_ways && !made.way.plan.defined()) {
      made.way = first_way(planner, wanted, true);
    } else if (two_ways && options.autotune) {
      const std::string known = file.find(plan_key(wanted.key(), cuda::properties(device)));
      if (!known.empty()) made.from = "file";
      if (known != kInOrder) made.rival = first_way(planner, wanted, true);
      if (known == kAnyOrder && made.rival.plan.defined()) made.way = std::exchange(made.rival, {});
    }
    return entries.emplace(key, std::move(made)).first->second;
  }
  // Keeps the faster way; the rival only if both agree on the gradient.
  template <class Launch>
  void measure(Entry& e, const AttentionProblem& wanted, const Tensor& dq, const Launch& launch) {
    const Way rival = std::exchange(e.rival, {});
    const std::vector<Ranked> order =
        rank_launches(device, 2, [&](std::size_t i) { launch(i == 0 ? e.way : rival); });
    e.microseconds = order[0].microseconds;
    e.other = order.size() > 1 ? order[1].microseconds : 0;
    e.from = "measured";
    if (order[0].candidate == 1) {
      launch(e.way);
      const Tensor want = dq.to(DType::f32);
      launch(rival);
      if (!(squared_distance(want, dq.to(DType::f32)) <=
            kTolerance * kTolerance * squared_norm(want))) {
        std::swap(e.microseconds, e.other);
        e.from = "heuristic, since the faster way is wrong";  // NaN in a step of f16 says so, too
        return;
      }
      e.way = rival;
    }
    file.store(plan_key(wanted.key(), cuda::properties(device)),
               order[0].candidate == 1 ? kAnyOrder : kInOrder);
  }
  static constexpr const char *kInOrder = "in order", *kAnyOrder = "any order";
  static constexpr double kTolerance = 2e-2;  // each rounds slopes and dq to 16 bits
};

AttentionEngine::AttentionEngine(Device device, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(device, options)) {}
AttentionEngine::~AttentionEngine() {
  impl_->entries.clear();
  if (impl_->handle) api().destroy(impl_->handle);
}

bool AttentionEngine::forward(const Attention& a, const Tensor& y, const Tensor& log_sums) {
  const cuda::UseDevice use(impl_->device);
  const std::scoped_lock lock(impl_->mutex);
  const Plan& plan = impl_->entry(problem_of(a, false, log_sums.defined())).way.plan;
  if (!plan.defined()) return false;
  float scale = 1 / std::sqrt(static_cast<float>(a.size)),
        minus_infinity = -std::numeric_limits<float>::infinity();
  execute(impl_->handle, plan, impl_->device, cuda::current_stream(impl_->device),
          {{kQ, start_of(a.q)},
           {kK, start_of(a.k)},
           {kV, start_of(a.v)},
           {kOut, y.data()},
           {kLogSums, log_sums.defined() ? log_sums.data() : nullptr},
           {kScale, &scale},
           {kMinusInfinity, a.causal ? &minus_infinity : nullptr}});
  return true;
}

bool AttentionEngine::backward(const Attention& a, const Tensor& y, const Tensor& log_sums,
                               const Tensor& dy, const PackedRows& dq, const PackedRows& dk,
                               const PackedRows& dv) {
  const cuda::UseDevice use(impl_->device);
  const std::scoped_lock lock(impl_->mutex);
  const AttentionProblem problem = problem_of(a, true);
  Impl::Entry& entry = impl_->entry(problem);
  if (!entry.way.plan.defined()) return false;
  float scale = 1 / std::sqrt(static_cast<float>(a.size)),
        minus_infinity = -std::numeric_limits<float>::infinity(), one = 1;
  const i64 rows = a.batch * a.heads * a.queries;
  const cuda::Stream& stream = cuda::current_stream(impl_->device);
  const auto launch = [&](const Impl::Way& way) {
    const Tensor through = Tensor::empty({rows}, DType::f32, impl_->device),
                 sums = way.problem.any_order  // blocks add to it
                            ? Tensor::zeros({rows, a.size}, DType::f32, impl_->device)
                            : Tensor();
    execute(impl_->handle, way.plan, impl_->device, stream,
            {{kQ, start_of(a.q)},
             {kK, start_of(a.k)},
             {kV, start_of(a.v)},
             {kOut, y.data()},
             {kLogSums, log_sums.data()},
             {kDQ, start_of(dq)},
             {kDK, start_of(dk)},
             {kDV, start_of(dv)},
             {kDOut, dy.data()},
             {kThrough, through.data()},
             {kDQSums, sums.defined() ? sums.data() : nullptr},
             {kScale, &scale},
             {kMinusInfinity, a.causal ? &minus_infinity : nullptr},
             {kOne, &one}});
  };
  if (entry.rival.plan.defined() && !stream.recording())
    impl_->measure(entry, problem, dq.t, launch);
  launch(entry.way);
  return true;
}

std::vector<AttentionEngine::Choice> AttentionEngine::choices() const {
  const std::scoped_lock lock(impl_->mutex);
  std::vector<Choice> all;
  for (const auto& [key, entry] : impl_->entries)
    if (entry.way.plan.defined())
      all.push_back({entry.way.problem, entry.way.plan.describe(), entry.from, entry.microseconds,
                     entry.other});
  return all;
}

#else
struct AttentionEngine::Impl {};
AttentionEngine::AttentionEngine(Device device, const EngineOptions&) {
  fail<DeviceError>("cuDNN on ", device, ": ", cuda::why_none());
}
AttentionEngine::~AttentionEngine() = default;
bool AttentionEngine::forward(const Attention&, const Tensor&, const Tensor&) { return false; }
bool AttentionEngine::backward(const Attention&, const Tensor&, const Tensor&, const Tensor&,
                               const PackedRows&, const PackedRows&, const PackedRows&) {
  return false;
}
std::vector<AttentionEngine::Choice> AttentionEngine::choices() const { return {}; }
#endif

}  // namespace gossamer::cudnn
