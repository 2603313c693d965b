// Module: named parameters and buffers in a tree, torchvision's names ("layer1.0.conv1.weight").
// Threads: one at a time for a Module; in eval mode several may call forward at once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/core/tensor.h"

namespace gossamer::nn {

class FoldedSteps;

// Movable, not copyable. A child is a reference member that add() initialises, so no layer can be
// left out of the tree.
class Module {
 public:
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  virtual Tensor forward(const Tensor& x) = 0;
  Tensor operator()(const Tensor& x) { return forward(x); }
  // forward in eval mode as steps for inference (nn/inference.h): appends those from the value x
  // and returns the value of the result. Unless a module says otherwise, one step that calls
  // forward.
  virtual int fold(FoldedSteps&, int x);
  // on: running statistics start again, as the plain mean over the batches from here to `off`. See
  // estimate_batch_norm() in layers.h.
  virtual void estimate_statistics(bool /*on*/) {}

  std::vector<NamedTensor> parameters() const;  // in order of registration
  std::vector<NamedTensor> buffers() const;     // running statistics, counters
  // Those of the buffers that the host's code counts (counter() below).
  std::vector<Tensor> counters() const;
  // both, in torch's state_dict order (a module's parameters, then its buffers, then children)
  std::vector<NamedTensor> state() const;
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  // Parameters whose name `which` accepts get no gradient from here on. A layer of which all
  // parameters are frozen computes as in eval mode, whatever train() says: its running statistics
  // belong to its weights. Call it before a FlatParams or an optimizer holds the tensors.
  void freeze(const std::function<bool(const std::string& name)>& which);
  bool frozen() const { return frozen_; }  // all parameters of this layer are, and it has some
  // state(), divided: what training changes, and frozen parameters with the buffers of frozen
  // layers.
  struct Parts {
    std::vector<NamedTensor> parameters, buffers, frozen;
  };
  Parts parts() const;
  // Moves all but counters(), which stay on the host. Call it before a FlatParams or an optimizer
  // holds the tensors.
  void to(Device);
  std::vector<Module*> modules();  // this and all below, depth first

 protected:
  // Error if the module already has a part of this name.
  template <class M>
  M& add(std::string name, M child) {
    check_name(name);
    auto owned = std::make_unique<M>(std::move(child));
    M& reference = *owned;
    children_.emplace_back(std::move(name), std::move(owned));
    return reference;
  }
  Tensor param(std::string name, Tensor init);   // trained
  Tensor buffer(std::string name, Tensor init);  // kept, not trained
  // A buffer i64 [] that begins with 0 and that forward() counts on the host: no work of the device
  // reads it.
  Tensor counter(std::string name);

 private:
  void check_name(const std::string& name) const;
  void collect(const std::string& prefix, bool params, bool buffers,
               std::vector<NamedTensor>& out) const;
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> children_;
  std::vector<NamedTensor> params_, buffers_;
  std::vector<Tensor> counters_;  // of buffers_
  void freeze(const std::string& prefix, const std::function<bool(const std::string&)>& which);
  void divide(const std::string& prefix, Parts& out) const;
  bool training_ = true, frozen_ = false;
};

// Runs its children in order; they are named "0", "1", … Empty: the identity.
class Sequential : public Module {
 public:
  template <class M>
  Sequential& push(M child) {
    list_.push_back(&add(std::to_string(list_.size()), std::move(child)));
    return *this;
  }
  Tensor forward(const Tensor& x) override;
  int fold(FoldedSteps&, int x) override;
  std::size_t size() const { return list_.size(); }
  Module& operator[](std::size_t i) { return *list_[i]; }

 private:
  std::vector<Module*> list_;
};

}  // namespace gossamer::nn
