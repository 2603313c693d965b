// Synchronous methods: means and sums over all living workers.
#include <algorithm>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

void SynchronousMethod::count_sum(const Tensor& t) {
  stats_.bytes_sent += 2.0 * (alive() - 1) / alive() * static_cast<double>(t.bytes());
}

void SynchronousMethod::heed(const FiniteSum& sum) {
  check<Error>(sum.ruined.empty(), name(), ", step ", steps_ + 1, ": ", sum.ruined);
  left_out_.now(sum.left_out, options_.on_fault);
  if (!sum.leaves_out(group_.rank())) return;
  std::vector<Tensor> kept{error_};
  for (const NamedTensor& state : optimizer_.state()) kept.push_back(state.tensor);
  for (Tensor& t : kept)
    if (t.defined() && t.dtype() == DType::f32 && !all_finite(t)) t.zero();
}

bool SynchronousMethod::average_exactly() {
  if (alone()) return true;
  Tensor mean = Tensor::empty(params_.values().shape(), DType::f32, params_.values().device());
  FiniteSum finite;
  const bool done = meet(Purpose::average, [&](Collectives& all) {
    finite = finite_sum(
        "models", group_, [&] { return all_finite(params_.values()); },
        [&](const FiniteSum& so_far) {
          std::vector<double> weight = {weight_in_mean().value_or(1)};
          mean.copy_from(params_.values());
          if (weight_in_mean()) scale(mean, static_cast<float>(weight[0]));
          if (so_far.leaves_out(group_.rank())) mean.zero(), weight[0] = 0;
          all.all_reduce_sum(mean);
          all.all_reduce_sum(weight);
          scale(mean, static_cast<float>(1 / weight[0]));
          return all_finite(mean);
        });
  });
  heed(finite);
  count_sum(mean);
  if (done) Tensor(params_.values()).copy_from(mean);
  return done;
}

bool SynchronousMethod::average_parts(const std::vector<Tensor>& parts, int tag) {
  if (alone()) return true;
  std::vector<Tensor> means;
  FiniteSum finite;
  const auto all_are_finite = [](const std::vector<Tensor>& of) {
    return std::ranges::all_of(of, [](const Tensor& t) { return all_finite(t); });
  };
  const bool done = meet(
      Purpose::average,
      [&](Collectives& all) {
        finite = finite_sum(
            "models", group_, [&] { return all_are_finite(parts); },
            [&](const FiniteSum& so_far) {
              const auto workers = all.members() - std::ssize(so_far.left_out);
              means.clear();
              for (const Tensor& part : parts) {
                Tensor& mean = means.emplace_back(part.clone());
                if (so_far.leaves_out(group_.rank())) mean.zero();
                all.all_reduce_sum(mean);
                scale(mean, 1 / static_cast<float>(workers));
                count_sum(mean);
              }
              return all_are_finite(means);
            });
      },
      tag);
  heed(finite);
  for (std::size_t i = 0; done && i < parts.size(); ++i) Tensor(parts[i]).copy_from(means[i]);
  return done;
}

bool SynchronousMethod::average_coded(const Coded& own, Tensor values, int tag) {
  return average_coded(
      own.bytes(), [&] { return all_finite(values); },
      [&](const Tensor& code, const Tensor& to) { Coded::decode(own.coding(), code, to); },
      MeanOver::all, values, tag);
}

// Every worker gets the codes of all and adds them in the same order.
bool SynchronousMethod::average_coded(const Tensor& own, FunctionRef<bool()> own_is_finite,
                                      FunctionRef<void(const Tensor&, const Tensor&)> decode,
                                      MeanOver over, Tensor values, int tag) {
  if (alone()) return true;
  Tensor sum = Tensor::empty({values.numel()}), code = own.clone(), senders;
  if (over == MeanOver::senders) senders = Tensor::empty({values.numel()});
  const Tensor one = Tensor::zeros({values.numel()});  // 0 between parameters
  FiniteSum finite;
  const bool done = meet(
      Purpose::average,
      [&](Collectives& all) {
        finite = finite_sum("models", group_, own_is_finite, [&](const FiniteSum& so_far) {
          sum.zero();
          if (senders.defined()) senders.zero();
          for (const int root : membership_.members()) {
            if (so_far.leaves_out(root)) continue;
            if (root == group_.rank()) code.copy_from(own);
            all.broadcast(code, root);
            decode(code, one);
            axpy(sum, 1, one);
            for (i64 k = 0; senders.defined() && k < one.numel(); ++k)
              senders.as<float>()[k] += one.as<float>()[k] != 0 ? 1.f : 0.f;
          }
          if (senders.defined())
            for (i64 k = 0; k < sum.numel(); ++k)
              sum.as<float>()[k] /= std::max(1.f, senders.as<float>()[k]);
          else
            scale(sum, 1 / static_cast<float>(all.members() - std::ssize(so_far.left_out)));
          return all_finite(sum);
        });
      },
      tag);
  heed(finite);
  stats_.bytes_sent += (alive() - 1) * static_cast<double>(code.bytes());
  if (done) values.copy_from(sum);
  return done;
}

std::optional<std::vector<double>> SynchronousMethod::sum_over_workers(std::vector<double> own) {
  if (alone()) return own;
  std::vector<double> sum;
  const bool done = meet(Purpose::sum, [&](Collectives& all) {
    sum = own;
    all.all_reduce_sum(sum);
  });
  return done ? std::optional(sum) : std::nullopt;
}

}  // namespace gossamer::dist
