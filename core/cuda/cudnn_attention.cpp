// The plans of attention on one GPU: made when a problem is first met, then run.
#include "gossamer/core/cuda/cudnn_attention.h"

#include <sstream>

#include "gossamer/core/cuda.h"
#ifdef GOSSAMER_HAS_CUDA
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "gossamer/core/cuda/cuda_check.h"
#include "gossamer/core/cuda/cudnn_graph.h"
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
  Device device;
  cudnnHandle_t handle = nullptr;  // opened with the first call
  struct Entry {
    Plan plan;  // undefined: cuDNN has none
    AttentionProblem problem;
  };
  mutable std::mutex mutex;
  std::map<std::string, Entry> entries;

  explicit Impl(Device d) : device(d) {}

  // Where the slopes of all scores need more than the cap, the sums of dq are taken in any order.
  const Entry& entry(const AttentionProblem& wanted) {
    const std::string key = wanted.key();
    if (const auto known = entries.find(key); known != entries.end()) return known->second;
    if (!handle) ok(api().create(&handle), "cudnnCreate");
    const Planner planner = Planner::for_handle(handle);
    AttentionProblem problem = wanted;
    std::vector<Plan> plans = planner.plans(problem, 1);
    if (plans.empty() && wanted.backward) {
      problem.any_order = true;
      plans = planner.plans(problem, 1);
    }
    return entries.emplace(key, Entry{plans.empty() ? Plan() : plans[0], problem}).first->second;
  }
};

AttentionEngine::AttentionEngine(Device device) : impl_(std::make_unique<Impl>(device)) {}
AttentionEngine::~AttentionEngine() {
  impl_->entries.clear();
  if (impl_->handle) api().destroy(impl_->handle);
}

bool AttentionEngine::forward(const Attention& a, const Tensor& y, const Tensor& log_sums) {
  const cuda::UseDevice use(impl_->device);
  const std::scoped_lock lock(impl_->mutex);
  const Impl::Entry& entry = impl_->entry(problem_of(a, false, log_sums.defined()));
  if (!entry.plan.defined()) return false;
  float scale = 1 / std::sqrt(static_cast<float>(a.size)),
        minus_infinity = -std::numeric_limits<float>::infinity();
  execute(impl_->handle, entry.plan, impl_->device, cuda::current_stream(impl_->device),
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
  const Impl::Entry& entry = impl_->entry(problem_of(a, true));
  if (!entry.plan.defined()) return false;
  float scale = 1 / std::sqrt(static_cast<float>(a.size)),
        minus_infinity = -std::numeric_limits<float>::infinity(), one = 1;
  const i64 rows = a.batch * a.heads * a.queries;
  const Tensor through = Tensor::empty({rows}, DType::f32, impl_->device),
               sums = entry.problem.any_order
                          ? Tensor::empty({rows, a.size}, DType::f32, impl_->device)
                          : Tensor();
  execute(impl_->handle, entry.plan, impl_->device, cuda::current_stream(impl_->device),
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
  return true;
}

std::vector<AttentionEngine::Choice> AttentionEngine::choices() const {
  const std::scoped_lock lock(impl_->mutex);
  std::vector<Choice> all;
  for (const auto& [key, entry] : impl_->entries)
    if (entry.plan.defined()) all.push_back({entry.problem, entry.plan.describe()});
  return all;
}

#else
struct AttentionEngine::Impl {};
AttentionEngine::AttentionEngine(Device device) {
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
