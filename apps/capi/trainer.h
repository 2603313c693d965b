// A model in training as a handle of gossamer.h: pictures, or ids of a language model or of
// translations.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gossamer/apps/capi/method_state.h"
#include "gossamer/apps/capi/objects.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/tensor.h"
#include "gossamer/core/update.h"
#include "gossamer/models/language_file.h"
#include "gossamer/models/model_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/train/ema.h"
#include "gossamer/nn/train/gradient_step.h"
#include "gossamer/nn/train/train_state.h"

namespace gossamer::capi {

class Training;

// What an entry of the list of parameters is.
struct Parameter {
  std::string name;
  Shape shape;
  gsm_parameter_kind kind;
  i64 offset = 0;  // in the block of FlatParams; below 0: in none, since it is frozen
};

class Trainer final : public Object {
 public:
  // model: NULL: that of the initial weights
  static std::shared_ptr<Trainer> make(const char* model, i64 classes, const gsm_trainer_options&);
  // Which model is trained, and with which weights it begins.
  struct Start {
    std::string model{};
    models::ModelOptions options{};
    std::optional<models::LanguageOptions> language{};  // of a file, in place of these
    std::optional<nn::Weights> weights{};               // as the family has them
    std::optional<models::Preprocessing> pictures{};    // as their file says
  };
  Trainer(Start, const gsm_trainer_options&);
  ~Trainer() override;

  i64 outputs() const { return options_.classes.value_or(0); }
  i64 channels() const { return options_.channels; }
  const std::string& task() const { return family_.task; }
  void check_task(const char* task) const;  // ConfigError: the model is for another one
  FlatParams& params() { return *params_; }
  Optimizer& optimizer() { return *optimizer_; }
  double clip_norm() const { return clip_norm_; }
  i64 steps() const { return steps_; }
  // Of the initial weights: what fits, and a line for each tensor that does not.
  const nn::Fit& fit() const { return fit_; }
  const std::vector<std::string>& left() const { return left_; }

  // The gradient of the mean loss of a batch: {images, labels}, {ids, labels} or {source, lengths,
  // inputs, labels}, on the CPU. Returns the loss.
  float gradient(nn::StepBatch);
  // Records a tape, which lasts until backward(). input: as the network takes it, on the CPU.
  Tensor forward(const Tensor& input);
  void backward(const float* gradient);
  // ConfigError: there is no gradient for this step. ArgumentError: it would end the model, and
  // that of other workers.
  void take_gradient();
  void step(double learning_rate);
  void stepped();          // after a step, by step() or a method: EMA and count
  double gradient_norm();  // of the gradient that no step has taken
  // The mean loss of a batch in eval mode, and of pictures how many are right. average: the EMA's.
  struct Score {
    float loss = 0;
    i64 right = 0;
  };
  Score evaluate(const nn::StepBatch&, bool average);

  // What a file of the model holds.
  struct File {
    std::vector<NamedTensor> tensors;
    std::map<std::string, std::string> metadata;
  };
  File file(const char* const* class_names) const;
  // The bytes of its ONNX file.
  std::string onnx(const char* const* class_names, const gsm_onnx_options&) const;
  void load(const nn::Weights&);
  // As Hugging Face's PEFT has it. base: NULL: the initial weights.
  void save_adapter(const std::string& folder, const char* base) const;

  const std::vector<Parameter>& parameters() const { return parameters_; }
  // A window on what the library computes with: values, the gradient or the EMA, which of what is
  // frozen is its value, for reading. ConfigError: there is none.
  Tensor window(const Parameter&, gsm_part, bool to_write);
  void wrote(gsm_part);  // after a window was written to

  nn::TrainSnapshot state();
  // The method's part of the state that was restored last; none after a step.
  const std::optional<MethodState>& method_state() const { return method_state_; }
  // Error: it is of another trainer; then nothing has changed.
  void restore(const SafeTensors&, const std::string& name);

  // While a method exchanges the parameters, they are not the caller's.
  void check_own() const;
  // method: null when it has ended. Dropout draws masks of this worker's own from now on.
  void exchanging(Training* method);
  // Runs f while no exchange is under way; while nothing writes the values.
  void quiet(const std::function<void()>& f);
  void read(const std::function<void()>& f);

  // Holds the exchanges of a method, if there is one, until unlock().
  void lock();
  void unlock();
  bool locked() const { return locked_; }
  void check_unlocked() const;  // BusyError

 private:
  Tensor loss(const nn::StepBatch&) const;
  void load_initial(nn::Weights, bool new_head);
  void adapt(const gsm_trainer_options&);         // a model of LLaMA's kind, if that is asked for
  void put_together(const gsm_trainer_options&);  // what works on the parameters of net_
  std::vector<std::string> class_names(const char* const* names) const;
  void forget_gradient();
  void check_gradient() const;  // ConfigError: there is no whole one

  const models::Family& family_;
  std::string name_;
  models::ModelOptions options_;
  Device device_;
  DType type_ = DType::f32;
  float smoothing_ = 0;
  double clip_norm_ = 0;
  int accumulate_ = 1;
  models::Preprocessing pictures_;
  std::unique_ptr<nn::Module> net_;
  nn::Fit fit_;
  std::vector<std::string> left_;
  std::string base_;  // where the model of an adapter is
  std::unique_ptr<FlatParams> params_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<nn::Ema> ema_;
  std::unique_ptr<nn::GradientStep> step_;
  std::vector<Parameter> parameters_;
  Tensor outputs_;
  i64 steps_ = 0;
  int batches_ = 0;     // of the gradient that is begun, by backward()
  bool fresh_ = false;  // a gradient that no step has taken
  Training* method_ = nullptr;
  std::optional<MethodState> method_state_;

  // A thread that keeps the method quiet while the caller holds pointers.
  bool locked_ = false;
  std::thread keeper_;
  std::mutex keeping_;
  std::condition_variable changed_;
  bool quiet_ = false, release_ = false;
  std::exception_ptr refused_;
};

// A trainer for the time of a call. BusyError: the caller holds pointers to its numbers.
class Unlocked : public Exclusive<Trainer> {
 public:
  explicit Unlocked(const void* handle) : Exclusive<Trainer>(handle) { object()->check_unlocked(); }
};

}  // namespace gossamer::capi
