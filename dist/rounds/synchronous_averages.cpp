// Synchronous methods: means and sums over all living workers.
#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/finish.h"
#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

void SynchronousMethod::count_sum(const Tensor& t) {
  stats_.bytes_sent += 2.0 * (alive() - 1) / alive() * static_cast<double>(t.bytes());
}

void SynchronousMethod::check_average(const std::string& ruined) const {
  check<Error>(ruined.empty(), name(), ", step ", steps_ + 1, ": ", ruined);
}

bool SynchronousMethod::average_exactly() {
  if (alone()) return true;
  Tensor mean = Tensor::empty(params_.values().shape(), DType::f32, params_.values().device());
  std::string ruined;
  const bool done = meet(Purpose::average, [&](Collectives& all) {
    mean.copy_from(params_.values());
    std::vector<double> weight = {weight_in_mean().value_or(1)};
    if (weight_in_mean()) scale(mean, static_cast<float>(weight[0]));
    all.all_reduce_sum(mean);
    all.all_reduce_sum(weight);
    scale(mean, static_cast<float>(1 / weight[0]));
    ruined = not_finite("models", params_.values(), mean, group_);
  });
  check_average(ruined);
  count_sum(mean);
  if (done) Tensor(params_.values()).copy_from(mean);
  return done;
}

bool SynchronousMethod::average_parts(const std::vector<Tensor>& parts, int tag) {
  if (alone()) return true;
  std::vector<Tensor> means;
  std::string ruined;
  const bool done = meet(
      Purpose::average,
      [&](Collectives& all) {
        means.clear();
        ruined.clear();
        for (const Tensor& part : parts) {
          Tensor& mean = means.emplace_back(part.clone());
          all.all_reduce_sum(mean);
          scale(mean, 1 / static_cast<float>(all.members()));
          count_sum(mean);
          if (ruined.empty()) ruined = not_finite("models", part, mean, group_);
        }
      },
      tag);
  check_average(ruined);
  for (std::size_t i = 0; done && i < parts.size(); ++i) Tensor(parts[i]).copy_from(means[i]);
  return done;
}

// Every worker gets the codes of all and adds them in the same order.
bool SynchronousMethod::average_coded(const Coded& own, Tensor values, int tag) {
  if (alone()) return true;
  Tensor sum = Tensor::empty({values.numel()}), codes = own.bytes().clone();
  const Tensor one = Tensor::empty({values.numel()});
  std::string ruined;
  const bool done = meet(
      Purpose::average,
      [&](Collectives& all) {
        sum.zero();
        for (const int root : membership_.members()) {
          if (root == group_.rank()) codes.copy_from(own.bytes());
          all.broadcast(codes, root);
          Coded::decode(own.coding(), codes, one);
          axpy(sum, 1, one);
        }
        scale(sum, 1 / static_cast<float>(all.members()));
        ruined = not_finite("models", values, sum, group_);
      },
      tag);
  check_average(ruined);
  stats_.bytes_sent += (alive() - 1) * static_cast<double>(codes.bytes());
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
