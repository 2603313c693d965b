// cuBLASLt computes column by column, our matrices lie row by row: c = a b is asked for as c' = b'
// a'. One plan a shape is kept: cuBLASLt's first proposal, or the fastest of several, measured when
// the shape is first met.
#include "gossamer/core/cuda/cublas_gemm.h"

#include "gossamer/core/cuda.h"

#ifdef GOSSAMER_HAS_CUDA
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <tuple>

#include <cublasLt.h>

#include "gossamer/core/cuda/cuda_check.h"
#include "gossamer/core/cuda/gemm_check.h"
#include "gossamer/core/cuda/plan_file.h"
#include "gossamer/core/cuda/rank_launches.h"
#include "gossamer/core/dynamic_library.h"
#endif

namespace gossamer::cublas {

#ifdef GOSSAMER_HAS_CUDA
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // what NVIDIA recommends for Hopper
constexpr int kProposals = 8;                              // that are measured

struct Api {
  decltype(&::cublasLtGetVersion) version = nullptr;
  decltype(&::cublasLtGetStatusString) status_string = nullptr;
  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtDestroy) destroy = nullptr;
  decltype(&::cublasLtMatmulDescCreate) operation_create = nullptr;
  decltype(&::cublasLtMatmulDescDestroy) operation_destroy = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) operation_set = nullptr;
  decltype(&::cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;
};

Api load() {
  DynamicLibrary library{"libcublasLt.so.13", "libcublasLt.so.12"};
  check<DeviceError>(library.found(), "cuBLASLt: libcublasLt.so.13 is not found (", library.why(),
                     "); install the CUDA toolkit's libraries (pip install nvidia-cublas) and put "
                     "their folder into LD_LIBRARY_PATH");
  Api api;
  library.need(api.version, "cublasLtGetVersion");
  library.need(api.status_string, "cublasLtGetStatusString");
  library.need(api.create, "cublasLtCreate");
  library.need(api.destroy, "cublasLtDestroy");
  library.need(api.operation_create, "cublasLtMatmulDescCreate");
  library.need(api.operation_destroy, "cublasLtMatmulDescDestroy");
  library.need(api.operation_set, "cublasLtMatmulDescSetAttribute");
  library.need(api.layout_create, "cublasLtMatrixLayoutCreate");
  library.need(api.layout_destroy, "cublasLtMatrixLayoutDestroy");
  library.need(api.preference_create, "cublasLtMatmulPreferenceCreate");
  library.need(api.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  library.need(api.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  library.need(api.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.need(api.matmul, "cublasLtMatmul");
  check<DeviceError>(library.missing().empty(), "cuBLASLt: ", library.path(), " has no ",
                     library.missing(), "; that of CUDA 12 or newer is needed");
  return api;
}
const Api& api() {
  static const Api loaded = load();
  return loaded;
}

void ok(cublasStatus_t status, const char* call) {
  check<DeviceError>(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt ", api().version(), ": ", call,
                     ": ", api().status_string(status));
}

cudaDataType_t vendor_type(DType type) {
  switch (type) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      fail<DeviceError>("gemm: no products of type ", name_of(type),
                        " on a GPU; use f32, bf16 or f16");
  }
}

// Everything cuBLASLt wants to know of one shape.
struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  // the best guess first; empty: cuBLASLt has none
  std::vector<cublasLtMatmulAlgo_t> proposals;
  std::size_t chosen = 0;
  bool measured = false;  // or need not be
  Gemm::Choice choice;
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (operation) api().operation_destroy(operation);
    for (const cublasLtMatrixLayout_t layout : {a, b, c})
      if (layout) api().layout_destroy(layout);
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t name, const T& value) {
    ok(api().operation_set(operation, name, &value, sizeof value),
       "cublasLtMatmulDescSetAttribute");
  }
};

// m, n, k, ta, tb, type of a, type of c, epilogue, tf32, all pointers on 16 bytes
using Key = std::tuple<i64, i64, i64, bool, bool, DType, DType, cublasLtEpilogue_t, bool, bool>;

cublasLtEpilogue_t vendor_epilogue(const Epilogue& e) {
  if (!e.bias.defined()) return CUBLASLT_EPILOGUE_DEFAULT;
  if (e.activation != Activation::gelu_tanh) return CUBLASLT_EPILOGUE_BIAS;
  return e.z.defined() ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS;
}

std::string text_of(const Key& key) {
  const auto& [m, n, k, ta, tb, type, result, epilogue, tf32, on_16_bytes] = key;
  std::ostringstream text;
  text << "gemm " << name_of(type) << " to " << name_of(result) << ' ' << m << 'x' << n << 'x' << k
       << ' ' << (ta ? 't' : 'n') << (tb ? 't' : 'n');
  if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) text << " epilogue " << static_cast<int>(epilogue);
  text << (tf32 ? " tf32" : "") << (on_16_bytes ? "" : " unaligned");
  return text.str();
}
// An algorithm is plain numbers, which NVIDIA allows to be kept for the same version.
std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::array<std::uint64_t, sizeof algorithm / sizeof(std::uint64_t)> words{};
  std::memcpy(words.data(), &algorithm, sizeof algorithm);
  std::ostringstream text;
  text << std::hex;
  for (const std::uint64_t word : words) text << word << ' ';
  return text.str();
}

// Rounding of the result over a sum in f32, relative to a typical element. The vendor's tanh has
// digits as TF32 has.
double tolerance(const Tensor& a, const Tensor& c, bool gelu, bool tf32) {
  if (c.dtype() == DType::bf16) return 3e-2;
  return c.dtype() == DType::f16 || gelu || (tf32 && a.dtype() == DType::f32) ? 5e-3 : 1e-3;
}

bool aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

}  // namespace

struct Gemm::Impl {
  Device device;
  GemmOptions options;
  PlanFile file;
  cublasLtHandle_t handle = nullptr;
  std::mutex mutex;
  std::map<Key, std::unique_ptr<Plan>> plans;
  // work of one stream is in order: one each
  std::map<cudaStream_t, std::shared_ptr<Block>> workspaces;
  Impl(Device d, const GemmOptions& o) : device(d), options(o), file(o.plan_file) {}
  ~Impl() {
    plans.clear();
    if (handle) api().destroy(handle);
  }
  Plan& plan_of(const Key& key);
  std::string file_key(const Key& key) const {
    const cuda::Properties& gpu = cuda::properties(device);
    return "cublas" + library_version() + " " + gpu.name + " x" +
           std::to_string(gpu.multiprocessors) + " " + text_of(key);
  }
  bool capturing(cudaStream_t stream) const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cuda::check_call(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing", device);
    return status != cudaStreamCaptureStatusNone;
  }
  // One product: c = op(a) op(b), then what the plan has as epilogue, + beta c.
  void launch(const Plan& plan, std::size_t proposal, const Tensor& a, const Tensor& b,
              const Tensor& c, float beta, Block& workspace, cudaStream_t stream) const;
  struct Operands {
    bool ta, tb;
    const Tensor &a, &b, &c;
    const Epilogue& epilogue;
    bool tf32;
  };
  // Chooses the fastest proposal whose result is right.
  void measure(const Key& key, Plan& plan, const Operands& o, Block& workspace,
               cudaStream_t stream);
  std::shared_ptr<Block> workspace_of(cudaStream_t stream);
};

// A graph that is captured must bring its own, since it is launched on any stream: allocate() gives
// it memory of the graph.
std::shared_ptr<Block> Gemm::Impl::workspace_of(cudaStream_t stream) {
  if (capturing(stream)) return allocate(kWorkspace, device);
  std::shared_ptr<Block>& kept = workspaces[stream];
  if (!kept) kept = allocate(kWorkspace, device);
  return kept;
}

Plan& Gemm::Impl::plan_of(const Key& key) {
  std::unique_ptr<Plan>& kept = plans[key];
  if (kept) return *kept;
  const auto& [m, n, k, ta, tb, type, result, epilogue, tf32, on_16_bytes] = key;
  auto plan = std::make_unique<Plan>();
  ok(api().operation_create(&plan->operation,
                            tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
     "cublasLtMatmulDescCreate");
  // the vendor's first operand is our second
  plan->set(CUBLASLT_MATMUL_DESC_TRANSA, tb ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan->set(CUBLASLT_MATMUL_DESC_TRANSB, ta ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    plan->set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    // The choice below looks at the addresses, for how they are aligned, and reads nothing there.
    const auto* const somewhere =
        reinterpret_cast<const void*>(on_16_bytes ? std::size_t{16} : size_of(result));
    plan->set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
    if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
      plan->set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere);
      plan->set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, n);
    }
  }
  const auto layout = [](cublasLtMatrixLayout_t& made, DType t, i64 fast, i64 slow) {
    ok(api().layout_create(&made, vendor_type(t), static_cast<std::uint64_t>(fast),
                           static_cast<std::uint64_t>(slow), fast),
       "cublasLtMatrixLayoutCreate");
  };
  layout(plan->a, type, tb ? k : n, tb ? n : k);
  layout(plan->b, type, ta ? m : k, ta ? k : m);
  layout(plan->c, result, n, m);
  cublasLtMatmulPreference_t preference = nullptr;
  ok(api().preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const std::uint64_t bytes = kWorkspace;
  // the vendor's own guess is 256
  const std::uint32_t alignment = on_16_bytes ? 16 : static_cast<std::uint32_t>(size_of(type));
  api().preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
  for (const auto name :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    api().preference_set(preference, name, &alignment, sizeof alignment);
  // Of sums that are cut in pieces: in 16 bits the other schemes round every piece.
  const std::uint32_t schemes = result == DType::f32 ? CUBLASLT_REDUCTION_SCHEME_MASK
                                                     : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  api().preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                       sizeof schemes);
  std::array<cublasLtMatmulHeuristicResult_t, kProposals> found{};
  int count = 0;
  const cublasStatus_t status =
      api().heuristic(handle, plan->operation, plan->a, plan->b, plan->c, plan->c, preference,
                      options.measure ? kProposals : 1, found.data(), &count);
  api().preference_destroy(preference);
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i)
    if (found[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
      plan->proposals.push_back(found[static_cast<std::size_t>(i)].algo);
  plan->choice.product = text_of(key);
  plan->choice.from = "heuristic";
  plan->choice.proposals = static_cast<int>(plan->proposals.size());
  plan->measured = !options.measure || plan->proposals.size() < 2;
  if (!plan->measured) {
    const std::string known = file.find(file_key(key));
    for (std::size_t i = 0; i < plan->proposals.size() && !plan->measured; ++i)
      if (text_of(plan->proposals[i]) == known) {
        plan->chosen = i;
        plan->choice.from = "file";
        plan->measured = true;
      }
  }
  kept = std::move(plan);
  return *kept;
}

void Gemm::Impl::launch(const Plan& plan, std::size_t proposal, const Tensor& a, const Tensor& b,
                        const Tensor& c, float beta, Block& workspace, cudaStream_t stream) const {
  const float alpha = 1;
  void* const to = const_cast<void*>(c.data());
  ok(api().matmul(handle, plan.operation, &alpha, b.data(), plan.a, a.data(), plan.b, &beta, to,
                  plan.c, to, plan.c, &plan.proposals[proposal], workspace.data, workspace.bytes,
                  stream),
     "cublasLtMatmul");
}

void Gemm::Impl::measure(const Key& key, Plan& plan, const Operands& o, Block& workspace,
                         cudaStream_t stream) {
  // Without a sum c may be written as often as one likes.
  const Tensor c = o.epilogue.add ? Tensor::empty(o.c.shape(), o.c.dtype(), device) : o.c;
  const float beta = o.epilogue.add ? 1 : 0;
  const std::vector<Ranked> order =
      rank_launches(device, plan.proposals.size(),
                    [&](std::size_t i) { launch(plan, i, o.a, o.b, c, beta, workspace, stream); });
  for (const Ranked& r : order)
    if (r.candidate == 0) plan.choice.first_guess = r.microseconds;
  const bool gelu = o.epilogue.activation == Activation::gelu_tanh;
  double nearest = 1e300;
  for (const auto& [i, microseconds] : order) {
    launch(plan, i, o.a, o.b, c, 0, workspace, stream);
    const double error = gemm_error(o.ta, o.tb, o.a, o.b, c, o.epilogue.bias, gelu);
    if (error < tolerance(o.a, c, gelu, o.tf32)) {
      plan.chosen = i;
      plan.measured = true;
      plan.choice.from = "measured";
      plan.choice.microseconds = microseconds;
      file.store(file_key(key), text_of(plan.proposals[i]));
      return;
    }
    ++plan.choice.rejected;
    nearest = std::min(nearest, error);
  }
  fail<DeviceError>("cuBLASLt ", api().version(), ": none of ", order.size(), " ways computes ",
                    text_of(key), " correctly on ", device, "; the nearest is off by ", nearest,
                    " of a typical element");
}

Gemm::Gemm(Device device, const GemmOptions& options)
    : impl_(std::make_unique<Impl>(device, options)) {}
Gemm::~Gemm() = default;

void Gemm::run(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, const Epilogue& e,
               bool tf32) {
  if (try_run(ta, tb, a, b, c, e, tf32)) return;
  fail<DeviceError>("cuBLASLt ", api().version(), ": no way to multiply ", a.shape(),
                    ta ? "' x " : " x ", b.shape(), tb ? "' of " : " of ", name_of(a.dtype()),
                    " into ", name_of(c.dtype()), " on ", impl_->device);
}

bool Gemm::try_run(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, const Epilogue& e,
                   bool tf32) {
  const i64 m = c.shape(0), n = c.shape(1), k = a.shape(ta ? 0 : 1);
  check<ShapeError>(!e.bias.defined() || (e.bias.dtype() == c.dtype() && e.bias.numel() == n),
                    "gemm: bias must be [", n, "] of the result's type ", c.dtype());
  const auto stream = static_cast<cudaStream_t>(cuda::launch_stream(impl_->device));
  const bool on_16_bytes = aligned(a.data()) && aligned(b.data()) && aligned(c.data()) &&
                           (!e.bias.defined() || aligned(e.bias.data()));
  const std::scoped_lock lock(impl_->mutex);
  // With the first product, so that what needs no cuBLASLt runs without it.
  if (!impl_->handle) ok(api().create(&impl_->handle), "cublasLtCreate");
  const std::shared_ptr<Block> workspace = impl_->workspace_of(stream);
  const Key key{m,
                n,
                k,
                ta,
                tb,
                a.dtype(),
                c.dtype(),
                vendor_epilogue(e),
                tf32 && a.dtype() == DType::f32,
                on_16_bytes};
  Plan& plan = impl_->plan_of(key);
  if (plan.proposals.empty()) return false;
  const auto point = [&](cublasLtMatmulDescAttributes_t name, const Tensor& t) {
    if (t.defined()) plan.set(name, static_cast<const void*>(t.data()));
  };
  point(CUBLASLT_MATMUL_DESC_BIAS_POINTER, e.bias);
  point(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, e.z);
  if (!plan.measured && !impl_->capturing(stream))
    impl_->measure(key, plan, {ta, tb, a, b, c, e, tf32}, *workspace, stream);
  impl_->launch(plan, plan.chosen, a, b, c, e.add ? 1.0f : 0.0f, *workspace, stream);
  return true;
}

std::vector<Gemm::Choice> Gemm::choices() const {
  const std::scoped_lock lock(impl_->mutex);
  std::vector<Choice> all;
  for (const auto& [key, plan] : impl_->plans)
    if (!plan->proposals.empty()) all.push_back(plan->choice);
  return all;
}

std::string library_version() {
  return version_text([] { return api().version(); });
}
#else
struct Gemm::Impl {};
Gemm::Gemm(Device device, const GemmOptions&) {
  fail<DeviceError>("cuBLASLt on ", device, ": ", cuda::why_none());
}
Gemm::~Gemm() = default;
void Gemm::run(bool, bool, const Tensor&, const Tensor&, Tensor&, const Epilogue&, bool) {}
bool Gemm::try_run(bool, bool, const Tensor&, const Tensor&, Tensor&, const Epilogue&, bool) {
  return false;
}
std::vector<Gemm::Choice> Gemm::choices() const { return {}; }
std::string library_version() {
  return "not found: this build has no CUDA; configure with -DGOSSAMER_CUDA=ON";
}
#endif

}  // namespace gossamer::cublas
