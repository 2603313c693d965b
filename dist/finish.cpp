// Averaging models at the end, and with them the running statistics of batch norm.
#include "gossamer/dist/finish.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gossamer/core/error.h"
#include "gossamer/core/update.h"

namespace gossamer::dist {
namespace {

// Statistics of all workers' activations together. Each saw N(m_i, v_i), so
// mean = E m_i and var = E(v_i + m_i^2) - mean^2. The mean of the variances alone would lose the
// spread of the means.
std::vector<double> merged(const FlatParams& params, Collectives& all) {
  const Tensor host =
      params.buffers().device().is_cpu() ? params.buffers() : params.buffers().to(Device::cpu());
  const auto flat = host.span<float>();
  std::vector<double> sum(flat.begin(), flat.end());
  const auto& entries = params.buffer_entries();
  const auto ends_with = [](const std::string& name, const std::string& end) {
    return name.size() >= end.size() && name.ends_with(end);
  };
  const auto for_variances = [&](auto f) {
    for (const auto& var : entries) {
      if (!ends_with(var.name, "running_var")) continue;
      const std::string wanted = var.name.substr(0, var.name.size() - 3) + "mean";
      for (const auto& mean : entries)
        if (mean.name == wanted)
          for (i64 k = 0; k < var.shape.numel(); ++k)
            f(sum[static_cast<std::size_t>(var.offset + k)],
              sum[static_cast<std::size_t>(mean.offset + k)]);
    }
  };
  for_variances([](double& var, double mean) { var += mean * mean; });
  all.all_reduce_sum(sum);
  for (double& x : sum) x /= all.members();
  for_variances([](double& var, double mean) { var = std::max(0.0, var - mean * mean); });
  return sum;
}

void store(const std::vector<double>& from, FlatParams& params) {
  const Tensor host =
      params.buffers().device().is_cpu() ? params.buffers() : params.buffers().to(Device::cpu());
  const auto to = host.span<float>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i]);
  if (!params.buffers().device().is_cpu()) Tensor(params.buffers()).copy_from(host);
}

}  // namespace

void merge_batch_norm(FlatParams& params, Collectives& all) { store(merged(params, all), params); }

AveragedModel average_of_models(const FlatParams& params, Collectives& all,
                                std::optional<double> weight) {
  AveragedModel out;
  out.values = params.values().clone();
  if (weight) {
    std::vector<double> sum = {*weight};
    all.all_reduce_sum(sum);
    scale(out.values, static_cast<float>(*weight * all.members() / sum[0]));
  }
  all.all_reduce_sum(out.values);
  scale(out.values, 1.0f / static_cast<float>(all.members()));
  std::vector<double> square = {squared_distance(params.values(), out.values)};
  all.all_reduce_sum(square);
  out.distance = std::sqrt(square[0] / all.members());
  out.buffers = merged(params, all);
  all.barrier();
  return out;
}

void adopt(FlatParams& params, const AveragedModel& model) {
  Tensor(params.values()).copy_from(model.values);
  store(model.buffers, params);
  params.refresh();
}

std::string unfinished(int self, const std::vector<int>& late, double limit) {
  return fmt::format(
      "worker {}: done, but worker(s) {} did not stop within {} s (finish_timeout_s); do all "
      "workers "
      "have the same total (total_samples; in C: total_steps)?",
      self, fmt::join(late, ", "), limit);
}

double average_models(FlatParams& params, Membership& membership) {
  AveragedModel model;
  membership.run([&](Collectives& all) { model = average_of_models(params, all); });
  adopt(params, model);
  return model.distance;
}

double exact_consensus_distance(Tensor copy, Collectives& all) {
  Tensor mean = copy.clone();
  all.all_reduce_sum(mean);
  scale(mean, 1.0f / static_cast<float>(all.members()));
  double square[] = {squared_distance(copy, mean)};
  all.all_reduce_sum(std::span<double>(square));
  return std::sqrt(square[0] / all.members());
}

}  // namespace gossamer::dist
