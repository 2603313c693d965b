// See step_graph.h.
#include "gossamer/apps/train/step_graph.h"

#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/core/memory.h"

namespace gossamer::apps {
namespace {

class CudaRecording final : public Recording {
 public:
  CudaRecording(Device device, const Work& work) : device_(device) {
    // what steps as they stand have used: the recording has memory of its own
    release_cached(device);
    graph_ = cuda::Graph::capture(device, work);
  }
  void launch() override { graph_.launch(cuda::current_stream(device_)); }

 private:
  Device device_;
  cuda::Graph graph_;
};

}  // namespace

Recorder cuda_recorder(Device device) {
  return [device](const Work& work) -> std::unique_ptr<Recording> {
    return std::make_unique<CudaRecording>(device, work);
  };
}

StepGraph::Mode StepGraph::mode_of(const std::string& name) {
  if (name == "auto") return Mode::automatic;
  check<ConfigError>(name == "on" || name == "off", "train.cuda_graph = \"", name,
                     "\"; it must be one of auto, on, off");
  return name == "on" ? Mode::on : Mode::off;
}

void StepGraph::run(const Key& key, const Work& work) {
  if (options_.mode == Mode::off) return work();
  if (recording_ && key == good_for_) return launch();
  if (seen_ != key) seen_ = key, times_ = 0;
  if (++times_ > kEager) record(key, work);
  if (recording_ && key == good_for_)
    launch();
  else
    work();
}

void StepGraph::record(const Key& key, const Work& work) {
  recording_.reset();  // its memory, before the next one's
  std::vector<i64> before;
  for (const Tensor& c : options_.counters) before.push_back(*c.as<i64>());
  std::string why;
  try {
    recording_ = options_.record(work);
  } catch (const DeviceError& e) {
    why = e.what();
  }
  counts_.clear();
  for (std::size_t i = 0; i < before.size(); ++i) {  // nothing was computed
    i64& now = *options_.counters[i].as<i64>();
    counts_.push_back(now - before[i]);
    now = before[i];
  }
  good_for_ = key;
  if (!recording_) refuse(why);
}

void StepGraph::launch() {
  for (std::size_t i = 0; i < counts_.size(); ++i) *options_.counters[i].as<i64>() += counts_[i];
  recording_->launch();
}

void StepGraph::refuse(const std::string& why) {
  if (options_.mode == Mode::off) return;
  check<ConfigError>(options_.mode != Mode::on,
                     "train.cuda_graph=on: a step can't be recorded: ", why, "; use auto or off");
  options_.mode = Mode::off;
  recording_.reset();
  if (options_.log) options_.log("steps are not recorded as a graph: " + why);
}

}  // namespace gossamer::apps
