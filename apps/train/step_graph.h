// Work that is the same in every step, as one recorded graph: done as it stands at first (plans are
// measured then, memory found), then recorded, then launched. What changes from step to step is
// read from memory that stays where it is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/tensor.h"

namespace gossamer::apps {

class Recording {
 public:
  virtual ~Recording() = default;
  virtual void launch() = 0;
};
// Takes the work down without computing anything. DeviceError says why it can't be.
using Work = std::function<void()>;
using Recorder = std::function<std::unique_ptr<Recording>(const Work&)>;
// a CUDA graph; launched on the stream that is current then
Recorder cuda_recorder(Device);

class StepGraph {
 public:
  enum class Mode { automatic, on, off };
  static Mode mode_of(const std::string& name);  // auto | on | off
  struct Options {
    Mode mode = Mode::off;
    Recorder record;
    // i64 on the host, counted by the work's own code: counted on for each launch
    std::vector<Tensor> counters;
    std::function<void(const std::string&)> log;
  };
  explicit StepGraph(Options o) : options_(std::move(o)) {}

  // What a recording is good for: shape and place of what the work reads.
  struct Key {
    Shape shape;
    const void* at = nullptr;
    bool operator==(const Key&) const = default;
  };
  // Another key than the recording's is done as it stands (the last, smaller batch of an epoch);
  // when it stays, it is recorded instead.
  void run(const Key&, const Work&);
  // The work can't be recorded: ConfigError if it must be (Mode::on), otherwise logged, and all is
  // done as it stands from here on.
  void refuse(const std::string& why);
  bool recorded() const { return recording_ != nullptr; }

  static constexpr int kEager = 3;  // steps of a key before it is recorded

 private:
  void record(const Key&, const Work&);
  void launch();

  Options options_;
  Key seen_, good_for_;
  int times_ = 0;  // of seen_, one after the other
  std::unique_ptr<Recording> recording_;
  std::vector<i64> counts_;  // what one launch adds to the counters
};

}  // namespace gossamer::apps
