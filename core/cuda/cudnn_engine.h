// Running convolutions by cuDNN on one GPU: a plan for each problem, chosen once, by cuDNN's guess
// or by measurement.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/cudnn_plan.h"

namespace gossamer::cudnn {

struct EngineOptions {
  // measure the plans of a problem when it is first met; false: cuDNN's first guess
  bool autotune = true;
  std::string plan_file{};  // where chosen plans are kept between runs; "": nowhere
  // of the plans that give the same bits in every run, cuDNN's first guess whose result is right
  bool deterministic = false;
};

class ConvEngine {
 public:
  explicit ConvEngine(Device, const EngineOptions& = {});
  ~ConvEngine();
  ConvEngine(const ConvEngine&) = delete;
  ConvEngine& operator=(const ConvEngine&) = delete;

  // Computes y (forward), x (backward_data) or w (backward_filter) from the others, on the
  // current stream. y and what is added to it lie apart. Pointers start on 16 bytes. The plans of a
  // problem that is met for the first time are tried, which waits for the device; never while a
  // graph is captured: then the first guess is taken. Thread-safe. DeviceError names the problem.
  void run(const ConvProblem&, const ConvMemory&);
  // The same; false, and nothing done, where cuDNN has no plan for the problem.
  bool try_run(const ConvProblem&, const ConvMemory&);

  // What was chosen so far: problem, plan, microseconds (0: not measured), where from.
  struct Choice {
    ConvProblem problem;
    // plan: "none" where cuDNN has none, so that it runs in other ways, as several passes; from:
    // "heuristic", "measured", "first right", "file", or "cuDNN" for "none"
    std::string plan, from;
    double microseconds = 0;
    int rejected = 0;  // faster plans whose result was wrong
  };
  std::vector<Choice> choices() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The key of the plan file: plans fit one version of cuDNN and one model of GPU only, and what was
// measured is no choice for deterministic runs.
std::string plan_key(const std::string& problem, const cuda::Properties&,
                     bool deterministic = false);
std::string plan_key(const ConvProblem&, const cuda::Properties&, bool deterministic = false);

}  // namespace gossamer::cudnn
