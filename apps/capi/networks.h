// Own networks as handles of gossamer.h: layers, sets of parameters, and their optimizers.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/apps/capi/method_state.h"
#include "gossamer/apps/capi/tensor.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/update.h"
#include "gossamer/nn/module.h"
#include "gossamer/nn/train/train_state.h"
#include "gossamer/nn/weights.h"

namespace gossamer::capi {

class Training;

// Layers that a text describes.
class Net final : public Object {
 public:
  Net(const std::string& layers, std::uint64_t seed);
  Tensor forward(const Tensor& x, bool training);
  // ConfigError: a pattern fits nothing, or the layers belong to a set.
  void freeze(const std::string& patterns);
  nn::Module& module() { return *module_; }
  std::weak_ptr<Object> set;  // as Held::set

 private:
  std::unique_ptr<nn::Module> module_;
};

// Parameters by name, from layers and tensors of one's own. The first call that needs it lays all
// of them into one block; then none can be added.
class Params final : public Object {
 public:
  void add(std::string name, std::shared_ptr<Held>);
  void add(const std::string& prefix, std::shared_ptr<Net>);

  FlatParams& flat();
  std::size_t size() const { return all_.size(); }
  const NamedTensor& at(std::int64_t index) const;  // ArgumentError
  // Nobody else finds gradients of these parameters meanwhile.
  Gradients gradients() const;
  // The gradients are complete and finite afterwards. ConfigError: there are none. ArgumentError.
  void settle_gradients();
  double clip(double most);  // the norm before
  void zero_grad();
  void save(const char* path);
  void load(const nn::Weights&);
  void write(const Tensor& parameter, const void* data);
  // While a method exchanges the parameters, they are not the caller's.
  void check_own() const;
  // method: null when it has ended. Dropout draws masks of this worker's own from now on.
  void exchanging(Training* method);

  // With what this optimizer keeps.
  nn::TrainSnapshot training_state(Optimizer&);
  // Error: it does not fit, and nothing has changed.
  void restore(Optimizer&, const SafeTensors&, const std::string& name);
  // As Trainer::method_state().
  const std::optional<MethodState>& method_state() const { return method_state_; }
  void stepped() { method_state_.reset(); }

 private:
  void check_open() const;
  void check_name(const std::string& name);
  nn::TrainState train_state(Optimizer&);
  std::vector<NamedTensor> state();  // what a file holds, as windows on the master copy

  std::vector<std::pair<std::string, std::shared_ptr<Held>>> held_;
  std::vector<std::pair<std::string, std::shared_ptr<Net>>> nets_;
  std::vector<NamedTensor> all_;  // in the order in which they were added
  std::set<std::string> names_;
  std::unique_ptr<FlatParams> flat_;
  Training* method_ = nullptr;
  std::optional<MethodState> method_state_;
};

class OwnOptimizer final : public Object {
 public:
  OwnOptimizer(std::shared_ptr<Params>, const char* name, const char* settings);
  const std::shared_ptr<Params>& params() const { return params_; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  std::shared_ptr<Params> params_;
  std::unique_ptr<Optimizer> optimizer_;
};

// For a tensor that belongs to this set: writes where optimizers and methods look.
void write_parameter(const std::shared_ptr<Object>& set, const Tensor& parameter, const void* data);

}  // namespace gossamer::capi
