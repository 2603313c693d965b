// The losses of classifiers and language models, and how often a label is among the best guesses.
#include <algorithm>

#include "gossamer/core/backend.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

template <class T>
struct ScaleBy {  // y = g share x, or added to y; g and share are one f32 each
  const float *g, *share;
  const T* x;
  T* y;
  bool adds;
  GOSSAMER_HD void operator()(i64 i) const {
    const float v = load(x, i) * (*g * *share);
    store(y, i, adds ? load(y, i) + v : v);
  }
};

template <class T>
struct InTopK {
  const T* logits;
  const std::int32_t* labels;
  i64 cols;
  int k;
  GOSSAMER_HD float operator()(i64 r) const {
    const T* z = logits + r * cols;
    const i64 label = labels[r];
    if (label < 0 || label >= cols) return 0;  // on a GPU: check_labels() does not look there
    const float own = load(z, label);
    if (own != own) return 0;
    int ahead = 0;
    // ties and NaN are ahead
    for (i64 c = 0; c < cols; ++c) ahead += c != label && !(load(z, c) < own) ? 1 : 0;
    return ahead < k ? 1.0f : 0.0f;
  }
};

struct RowCounts {  // 1 for a row that counts, else 0
  const std::int32_t* labels;
  bool ignores;
  std::int32_t ignore;
  GOSSAMER_HD float operator()(i64 r) const { return ignores && labels[r] == ignore ? 0.0f : 1.0f; }
};
struct MeanOfCounted {
  const double *sum, *count;
  float *loss, *share;
  GOSSAMER_HD void operator()(i64) const {
    const double each = *count > 0 ? 1 / *count : 0;
    *loss = static_cast<float>(*sum * each);
    *share = static_cast<float>(each);
  }
};

struct MeanLoss {
  Tensor loss, share;  // rank 0; share = 1/(rows that count), 0 if none does
};
MeanLoss mean_of(const Tensor& losses, const Tensor& labels, const LossRows& how) {
  const Device device = losses.device();
  MeanLoss mean{Tensor::empty({}, DType::f32, device), Tensor::empty({}, DType::f32, device)};
  const std::shared_ptr<Block> block = allocate(2 * sizeof(double), device);
  auto* sums = static_cast<double*>(block->data);
  sum_to(device, losses.numel(), detail::Read<float>{losses.as<float>()}, 1, sums);
  sum_to(device, losses.numel(), RowCounts{labels.as<std::int32_t>(), how.ignores, how.ignore}, 1,
         sums + 1);
  for_each(device, 1, MeanOfCounted{sums, sums + 1, mean.loss.as<float>(), mean.share.as<float>()});
  return mean;
}

// Labels are read on the CPU only: a look on the GPU would stall it every step.
void check_labels(const char* op, i64 rows, i64 classes, const Tensor& x, const Tensor& labels,
                  const LossRows& how) {
  check<ShapeError>(labels.defined() && labels.dtype() == DType::i32, op,
                    ": labels must be i32 [N], given ",
                    labels.defined() ? name_of(labels.dtype()) : "nothing", " for logits [", rows,
                    ", ", classes, "]");
  check<ShapeError>(labels.rank() == 1 && labels.shape(0) == rows, op, ": labels ", labels.shape(),
                    " do not fit logits [", rows, ", ", classes, "]; wanted [", rows, "]");
  detail::check_device(op, x, labels);
  if (!labels.device().is_cpu()) return;
  const std::int32_t* label = labels.as<std::int32_t>();
  for (i64 r = 0; r < rows; ++r)
    check<ShapeError>(
        (label[r] >= 0 && label[r] < classes) || (how.ignores && label[r] == how.ignore), op,
        ": label ", label[r], " of row ", r, " is outside [0, ", classes, ") of logits [", rows,
        ", ", classes, "]; does the model have as many outputs as the data set has classes?");
}
void check_logits(const char* op, const Tensor& logits, const Tensor& labels, const LossRows& how) {
  detail::check_floating(op, "logits", logits);
  check<ShapeError>(logits.rank() == 2 && logits.shape(1) > 0, op, ": logits are ", logits.shape(),
                    "; wanted [N, K]");
  check_labels(op, logits.shape(0), logits.shape(1), logits, labels, how);
}

LossRows rows_of(const char* op, const CrossEntropyOptions& o, i64 rows) {
  check<ShapeError>(o.label_smoothing >= 0 && o.label_smoothing < 1, op, ": label_smoothing ",
                    o.label_smoothing, " is not in [0, 1)");
  check<ShapeError>(rows > 0, op, ": there are no rows");
  return {o.label_smoothing, o.ignore.has_value(), o.ignore.value_or(0)};
}

// Rows of head_loss whose logits exist at a time. Each part reads the table twice and adds to its
// gradient. On a CPU 16 MB of logits, since the caches like few, but 512 rows at least: a step of 2
// layers of 768 with 50,304 classes and 1,024 rows took 3 % longer in f32 with 256 rows, 5 % in
// bf16. On a GPU, where they are not kept at once (most_logits), about 512 MB, in parts of about
// one size: with 16 parts of 512 rows, an H200 spent a sixth of a step of GPT-2 on the loss and on
// adding up the table's gradient.
i64 rows_at_a_time(Device device, i64 rows, i64 classes) {
  if (device.is_cpu())
    return std::min(rows, std::max<i64>(512, (i64{1} << 22) / classes / 32 * 32));
  const i64 most = std::max<i64>(512, (i64{1} << 27) / classes), parts = (rows + most - 1) / most;
  return std::min(rows, ((rows + parts - 1) / parts + 127) / 128 * 128);
}

// head_loss with all logits at once, in the type of x; backward() replaces them by their gradient,
// so that its products write the gradients of x and of the table where they belong.
Tensor whole_head_loss(const char* op, const Tensor& x, const Tensor& table, const Tensor& labels,
                       const LossRows& how) {
  const Device device = x.device();
  const i64 rows = x.shape(0), classes = table.shape(0);
  Tensor logits = Tensor::empty({rows, classes}, x.dtype(), device),
         losses = Tensor::empty({rows}, DType::f32, device),
         norms = Tensor::empty({rows, 2}, DType::f32, device);
  Backend& engine = backend(device);
  engine.gemm(false, true, x, table, logits, false);
  engine.softmax_norms(logits, labels, how, losses, norms);
  MeanLoss mean = mean_of(losses, labels, how);
  record(op, mean.loss, {x, table}, {x, table, labels, logits, norms, mean.share},
         [=, want_x = detail::wants(x), want_table = detail::wants(table),
          table_type = detail::grad_type(table)](const Tensor& g, const std::vector<Tensor>& saved,
                                                 const Places& places) {
           Backend& back = backend(g.device());
           Tensor dz = saved[3];  // nobody reads the logits again
           back.softmax_back(dz, saved[2], how, saved[4], g, saved[5]);
           Grads grads(2);
           if (want_x) {
             grads[0] = Tensor::empty(saved[0].shape(), saved[0].dtype(), g.device());
             back.gemm(false, false, dz, saved[1], grads[0], false);
           }
           if (want_table) {
             const Place& place = places[1];
             const bool here = place.at.defined() && place.at.dtype() == DType::f32;
             Tensor to = here ? place.at : Tensor::empty(saved[1].shape(), DType::f32, g.device());
             back.gemm(true, false, dz, saved[0], to, here && place.holds_sum);
             grads[1] = detail::as_type(to, table_type);
           }
           return grads;
         });
  return mean.loss;
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyOptions options) {
  const char* op = "cross_entropy";
  detail::check_floating(op, "logits", logits);
  const LossRows how = rows_of(op, options, logits.rank() > 0 ? logits.shape(0) : 0);
  check_logits(op, logits, labels, how);
  const Device device = logits.device();
  Tensor losses = Tensor::empty({logits.shape(0)}, DType::f32, device);
  const Tensor dz =
      wants_grad({logits}) ? Tensor::empty(logits.shape(), logits.dtype(), device) : Tensor();
  backend(device).softmax_loss(logits, labels, how, losses, dz);
  MeanLoss mean = mean_of(losses, labels, how);
  record(op, mean.loss, {logits}, {dz, mean.share},
         [op](const Tensor& g, const std::vector<Tensor>& saved) {
           const Tensor& dx = saved[0];  // nobody reads p - q again
           with_floating(dx.dtype(), op, [&]<class T>() {
             for_each(
                 dx.device(), dx.numel(),
                 ScaleBy<T>{g.as<float>(), saved[1].as<float>(), dx.as<T>(), dx.as<T>(), false});
           });
           return Grads{dx};
         });
  return mean.loss;
}

Tensor head_loss(const Tensor& x, const Tensor& table, const Tensor& labels,
                 CrossEntropyOptions options) {
  const char* op = "head_loss";
  detail::check_floating(op, "input", x);
  detail::check_floating(op, "table", table);
  detail::check_device(op, x, table);
  check<ShapeError>(
      x.rank() == 2 && table.rank() == 2 && x.shape(1) == table.shape(1) && table.numel() > 0, op,
      ": input ", x.shape(), " and table ", table.shape(), " do not fit; wanted [N, C] and [V, C]");
  check<ShapeError>(x.dtype() == table.dtype(), op, ": input is ", x.dtype(), ", table ",
                    table.dtype(), "; cast one of them");
  const i64 rows = x.shape(0), classes = table.shape(0);
  const LossRows how = rows_of(op, options, rows);
  check_labels(op, rows, classes, x, labels, how);

  const Device device = x.device();
  const DType type = x.dtype();
  const bool back = wants_grad({x, table}), want_x = back && detail::wants(x),
             want_table = back && detail::wants(table);
  Backend& engine = backend(device);
  // In f16 the gradient of a mean over many rows has parts below the smallest number.
  if (back && type != DType::f16 &&
      rows * classes * static_cast<i64>(size_of(type)) <= engine.most_logits())
    return whole_head_loss(op, x, table, labels, how);
  const i64 most = rows_at_a_time(device, rows, classes);
  const Tensor logits = Tensor::empty({most, classes}, DType::f32, device),
               halves = back && type != DType::f32 ? Tensor::empty({most, classes}, type, device)
                                                   : Tensor();
  Tensor losses = Tensor::empty({rows}, DType::f32, device),
         dx = want_x ? Tensor::empty(x.shape(), type, device) : Tensor(),
         d_table = want_table ? Tensor::empty(table.shape(), DType::f32, device) : Tensor();
  for (i64 begin = 0; begin < rows; begin += most) {
    const i64 end = std::min(rows, begin + most);
    const Tensor part = x.detach().slice(begin, end);
    Tensor z = logits.slice(0, end - begin), some = losses.slice(begin, end);
    engine.gemm(false, true, part, table, z, false);
    const Tensor dz = !back ? Tensor() : halves.defined() ? halves.slice(0, end - begin) : z;
    engine.softmax_loss(z, labels.slice(begin, end), how, some, dz);
    if (!back) continue;
    if (want_x) {
      Tensor to = dx.slice(begin, end);
      engine.gemm(false, false, dz, table, to, false);
    }
    if (want_table) engine.gemm(true, false, dz, part, d_table, begin > 0);
  }
  MeanLoss mean = mean_of(losses, labels, how);
  record(op, mean.loss, {x, table}, {dx, d_table, mean.share},
         [op, table_type = detail::grad_type(table)](
             const Tensor& g, const std::vector<Tensor>& saved, const Places& places) {
           const auto scale = [&](const Tensor& from, const Tensor& to, bool adds) {
             with_floating(from.dtype(), op, [&]<class T>() {
               for_each(
                   from.device(), from.numel(),
                   ScaleBy<T>{g.as<float>(), saved[2].as<float>(), from.as<T>(), to.as<T>(), adds});
             });
             return to;
           };
           Grads grads(2);
           if (saved[0].defined()) grads[0] = scale(saved[0], saved[0], false);
           if (saved[1].defined()) {
             const Place& place = places[1];
             const bool here = place.at.defined() && place.at.dtype() == DType::f32;
             grads[1] = detail::as_type(
                 scale(saved[1], here ? place.at : saved[1], here && place.holds_sum), table_type);
           }
           return grads;
         });
  return mean.loss;
}

Tensor count_top_k(const Tensor& logits, const Tensor& labels, int k) {
  check_logits("count_top_k", logits, labels, {});
  check<ShapeError>(k >= 1, "count_top_k: k is ", k, "; wanted 1 or more");
  Tensor count = Tensor::empty({}, DType::f32, logits.device());
  with_floating(logits.dtype(), "count_top_k", [&]<class T>() {
    sum_to(logits.device(), logits.shape(0),
           InTopK<T>{logits.as<T>(), labels.as<std::int32_t>(), logits.shape(1), k}, 1.0,
           count.as<float>());
  });
  return count;
}

}  // namespace gossamer
