// Averaging models at the end, and with them the running statistics of batch norm.
#include "gossamer/dist/finish.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

constexpr double kMostNorms = 1000;  // of a model in the mean, in median norms

// Every worker's number, by rank; 0 for workers that are gone.
std::vector<double> gathered(Group& group, double own) {
  std::vector<double> all(static_cast<std::size_t>(group.size()));
  all[static_cast<std::size_t>(group.rank())] = own;
  group.collectives().all_reduce_sum(all);
  return all;
}

// The ranks whose models would ruin the mean. All workers find the same ones.
std::vector<int> unfit_for_mean(const FlatParams& params, Group& group) {
  const double norm = std::sqrt(squared_norm(params.values()));
  // what is not finite would spread through the sum
  const std::vector<double> all = gathered(group, std::isfinite(norm) ? 1 + norm : -1);
  std::vector<double> finite;
  for (const double each : all)
    if (each > 0) finite.push_back(each - 1);
  if (finite.empty()) return {};
  const auto median = finite.begin() + static_cast<std::ptrdiff_t>((finite.size() - 1) / 2);
  std::ranges::nth_element(finite, median);
  std::vector<int> out;
  for (int rank = 0; rank < group.size(); ++rank) {
    const double each = all[static_cast<std::size_t>(rank)];
    if (each < 0 || (*median > 0 && each - 1 > kMostNorms * *median)) out.push_back(rank);
  }
  return out;
}

// A sentence: what of the workers `broken` is not finite, and whether the others' is too large.
std::string ruined_sum(const char* what, const std::vector<int>& broken, bool others_too) {
  const std::string why =
      broken.empty() ? ", although each of them is: they are too large"
                     : fmt::format(": those of worker(s) {} are not{}", fmt::join(broken, ", "),
                                   others_too ? ", and those of the others are too large" : "");
  return fmt::format(
      "the sum of all workers' {} is not finite{}; all stop here, since each has the same sum. A "
      "smaller learning rate, a longer warm-up or clipping of the gradient may help",
      what, why);
}

// Statistics of all workers' activations together. Each saw N(m_i, v_i), so
// mean = E m_i and var = E(v_i + m_i^2) - mean^2. The mean of the variances alone would lose the
// spread of the means. fit: whether this worker's statistics may count: they do if they are finite.
std::vector<double> merged(const FlatParams& params, Collectives& all, bool fit) {
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
  const bool counts = fit && std::ranges::all_of(flat, [](float x) { return std::isfinite(x); });
  if (!counts) std::ranges::fill(sum, 0.0);
  sum.push_back(counts ? 1 : 0);
  all.all_reduce_sum(sum);
  const double workers = sum.back();
  sum.pop_back();
  if (workers == 0) return {flat.begin(), flat.end()};
  for (double& x : sum) x /= workers;
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

void merge_batch_norm(FlatParams& params, Collectives& all) {
  store(merged(params, all, true), params);
}

AveragedModel average_of_models(const FlatParams& params, Group& group,
                                std::optional<double> weight) {
  Collectives& all = group.collectives();
  AveragedModel out;
  out.left_out = unfit_for_mean(params, group);
  const bool fit = std::ranges::find(out.left_out, group.rank()) == out.left_out.end();
  const int members = all.members() - static_cast<int>(out.left_out.size());
  out.values = params.values().clone();
  if (weight) {
    std::vector<double> sum = {fit ? *weight : 0};
    all.all_reduce_sum(sum);
    scale(out.values, static_cast<float>(*weight * members / sum[0]));
  }
  if (!fit) out.values.zero();
  all.all_reduce_sum(out.values);
  scale(out.values, 1.0f / static_cast<float>(members));
  std::vector<double> square = {fit ? squared_distance(params.values(), out.values) : 0};
  all.all_reduce_sum(square);
  out.distance = std::sqrt(square[0] / members);
  out.buffers = merged(params, all, fit);
  all.barrier();
  // A worker that ends as soon as it has the average looks like one that died, and would be left
  // out by others that still wait. So there are two barriers: who is through the first has the
  // average whatever happens, and who is through the second knows that all are through the first.
  try {
    all.barrier();
  } catch (const DistError&) {
  }
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
      "workers have the same total (total_samples; in C: total_steps)?",
      self, fmt::join(late, ", "), limit);
}

AveragedModel average_models(FlatParams& params, Group& group, Membership& membership) {
  AveragedModel model;
  membership.run([&](Collectives&) { model = average_of_models(params, group); });
  adopt(params, model);
  return model;
}

FiniteSum finite_sum(const char* what, Group& group, FunctionRef<bool()> own_is_finite,
                     FunctionRef<bool(const FiniteSum&)> sum) {
  FiniteSum out;
  if (sum(out)) return out;
  const std::vector<double> broken = gathered(group, own_is_finite() ? 0 : 1);
  for (int rank = 0; rank < group.size(); ++rank)
    if (broken[static_cast<std::size_t>(rank)] > 0) out.left_out.push_back(rank);
  const bool some =
      !out.left_out.empty() && std::ssize(out.left_out) < group.collectives().members();
  if (some && sum(out)) return out;
  out.ruined = ruined_sum(what, out.left_out, some);
  return out;
}

void LeftOut::now(const std::vector<int>& ranks,
                  const std::function<void(const std::string&, int)>& on_fault) {
  for (const int rank : ranks)
    if (on_fault && std::ranges::find(before_, rank) == before_.end()) on_fault("left out", rank);
  before_ = ranks;
}

double exact_consensus_distance(const Tensor& copy, Collectives& all) {
  Tensor mean = copy.clone();
  all.all_reduce_sum(mean);
  scale(mean, 1.0f / static_cast<float>(all.members()));
  double square[] = {squared_distance(copy, mean)};
  all.all_reduce_sum(std::span<double>(square));
  return std::sqrt(square[0] / all.members());
}

}  // namespace gossamer::dist
