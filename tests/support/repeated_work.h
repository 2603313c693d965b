// Graphs of a CPU: capturing computes nothing, and a launch repeats the work on the same memory,
// with the host's code. fake_graphs.h has those of a whole training step.
#pragma once

#include <memory>
#include <string>

#include "gossamer/core/captured_step.h"
#include "gossamer/core/error.h"

namespace gossamer {

struct RepeatedWork {
  int captured = 0, launched = 0;
  std::string fails{};  // why nothing can be captured

  GraphCapture capture() {
    return [this](const StepWork& work) -> std::unique_ptr<CapturedGraph> {
      if (!fails.empty()) fail<DeviceError>(fails);
      ++captured;
      return std::make_unique<Repeated>(*this, work);
    };
  }

 private:
  struct Repeated final : CapturedGraph {
    RepeatedWork& all;
    const StepWork work;
    Repeated(RepeatedWork& of, const StepWork& repeated) : all(of), work(repeated) {}
    void launch() override { ++all.launched, work(); }
  };
};

}  // namespace gossamer
