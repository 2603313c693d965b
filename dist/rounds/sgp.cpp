// Stochastic gradient push.
#include "gossamer/dist/rounds/sgp.h"

#include <algorithm>

#include "gossamer/core/update.h"
#include "gossamer/dist/rounds/mixing.h"

namespace gossamer::dist {

SgpMethod::SgpMethod(FlatParams& params, Optimizer& optimizer, Group& group, const Graph& graph,
                     const MethodOptions& options)
    : SynchronousMethod("sgp", params, optimizer, group, graph, options, {{0, params.size()}},
                        true),
      send_(Tensor::zeros({params.size() + 1}, DType::f32, params.values().device())),
      weight_(Tensor::full({1}, 1)),
      resumed_(steps_before() == 0) {}

void SgpMethod::update(double learning_rate) {
  // a resumed run begins with the exchange that its checkpoint was waiting for
  if (options_.overlap && !resumed_) {
    set_next_round(steps_before() - 1);
    send();
  }
  resumed_ = true;
  if (pending(0)) receive();
  optimizer_.step(static_cast<float>(learning_rate / static_cast<double>(weight_.item())), nullptr,
                  {.clip = options_.clip_norm});
  if (options_.overlap) return;
  mix_round();
  params_.refresh();
}

void SgpMethod::launch_ahead() {
  if (options_.overlap) send();
}

void SgpMethod::mix_round() {
  send();
  receive();
}

// u and w go back alike, z = u / w by what is left of them: (1 - part) w z + part w' z' over (1 -
// part) w + part w'.
double SgpMethod::part_of_values(double part) {
  const double after = part * static_cast<double>(weight_.item()),
               weight = (1 - part) * weight_before_ + after;
  weight_.fill(static_cast<float>(weight));
  return after / weight;
}

void SgpMethod::send() {
  const i64 size = params_.size();
  send_.slice(0, size).copy_from(params_.values());
  send_.slice(size, size + 1).fill(weight_.item());
  launch(0, next_round(), send_, 1);
}

void SgpMethod::receive() {
  const i64 size = params_.size();
  Tensor values = params_.values();
  std::vector<std::pair<double, Tensor>> others;  // W_ij w_j, z_j
  double incoming = 0, kept = 0;
  const auto use = [&](const RoundExchange::Part& p) {
    if (!p.receives) return;
    const double mass = p.weight * static_cast<double>(p.arrival.notes[0]);
    others.emplace_back(mass, p.received.slice(0, size));
    incoming += mass;
  };
  // what was not taken stays here
  const auto lost = [&](const RoundExchange::Part& p) { kept += p.share; };
  const double own = arrivals(0, use, lost);
  weight_before_ = static_cast<double>(weight_.item());
  const PushSum sum = push_sum((own + kept) * weight_before_, incoming);
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto share = static_cast<float>(sum.share(others[i].first));
    if (i == 0)
      weighted_sum(values, static_cast<float>(sum.own), share, others[i].second);
    else
      axpy(values, share, others[i].second);
  }
  weight_.fill(static_cast<float>(sum.weight));
}

}  // namespace gossamer::dist
