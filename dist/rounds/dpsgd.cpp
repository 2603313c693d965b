// D-PSGD: what is exchanged is the parameters; when, is the difference between AWC and ATC.
#include "gossamer/dist/rounds/dpsgd.h"

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

std::vector<FlatRange> pieces_of(const FlatParams& params, const Group& group,
                                 const MethodOptions& options) {
  if (!options.overlap || group.size() < 2 || params.size() == 0) return {{0, params.size()}};
  return params.buckets(options.bucket_bytes);
}

}  // namespace

DpsgdMethod::DpsgdMethod(const std::string& name, FlatParams& params, Optimizer& optimizer,
                         Group& group, const Graph& graph, const MethodOptions& options)
    : SynchronousMethod(name, params, optimizer, group, graph, options,
                        pieces_of(params, group, options), false),
      resumed_(steps_before() == 0) {
  if (!options.overlap) return;
  std::vector<FlatRange> ranges;
  for (int slot = 0; slot < slots(); ++slot) ranges.push_back(piece(slot));
  params_.on_ready(ranges, [this](std::size_t piece) { ready(piece); });
}

DpsgdMethod::~DpsgdMethod() {
  if (options_.overlap) params_.on_ready({}, nullptr);
}

void DpsgdMethod::prepare(double learning_rate) {
  if (!options_.overlap || options_.clip_norm > 0 || params_.overflow().defined() || controlled() ||
      alone())
    return;
  check<Error>(!prepared_ || done_ == 0, name(),
               ": prepare() again after backward, without step()");
  if (!prepared_) optimizer_.begin_step();
  resume();
  learning_rate_ = learning_rate;
  prepared_ = true;
  done_ = 0;
  ready_.assign(static_cast<std::size_t>(slots()), false);
  params_.arm_ready();
}

// Pieces are sent in one order by all workers, whatever order backward has.
void DpsgdMethod::ready(std::size_t piece) {
  if (!prepared_) return;
  ready_[piece] = true;
  while (done_ < slots() && ready_[static_cast<std::size_t>(done_)]) {
    if (done_ == 0) round_ = next_round();
    advance(done_);
    launch(done_, round_, values_of(done_));
    ++done_;
  }
}

void DpsgdMethod::advance(int slot) {
  if (pending(slot)) mix(slot);
  optimizer_.update(piece(slot), static_cast<float>(learning_rate_));
}

void DpsgdMethod::update(double learning_rate) {
  if (prepared_) {
    check<Error>(learning_rate == learning_rate_, name(), ": step with learning rate ",
                 learning_rate, " after prepare with ", learning_rate_,
                 ": some parameters have been updated with the other already");
    // whose gradients did not all come
    for (int slot = done_; slot < slots(); ++slot) ready(static_cast<std::size_t>(slot));
    prepared_ = false;
    return;
  }
  learning_rate_ = learning_rate;
  if (options_.overlap) resume();
  optimizer_.begin_step({.clip = options_.clip_norm});
  for (int slot = 0; slot < slots(); ++slot) advance(slot);
  if (options_.overlap) return;
  mix_round();
  params_.refresh();
}

void DpsgdMethod::launch_ahead() {
  if (options_.overlap && !pending(0)) launch_all(next_round());
}

void DpsgdMethod::resume() {
  if (resumed_) return;
  resumed_ = true;
  set_next_round(steps_before() - 1);
  launch_all(next_round());
}

}  // namespace gossamer::dist
