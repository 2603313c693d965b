// Sets of parameters, and the optimizers and methods that change them.
#include <algorithm>
#include <cmath>
#include <map>

#include "gossamer/apps/capi/bytes.h"
#include "gossamer/apps/capi/cancel.h"
#include "gossamer/apps/capi/groups.h"
#include "gossamer/apps/capi/networks.h"
#include "gossamer/apps/capi/workers.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/layers.h"
#include "gossamer/nn/optim.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace gossamer::capi {
namespace {

// As the options of accum-adam and accum-adamw.
struct AccumulatedOptions : nn::AdamOptions {
  AccumulatedOptions() { period = nn::OptimizerOptions().period; }
  static void visit(auto& self, auto&& f) {
    nn::AdamOptions::visit(self, f);
    Setting steps;  // dist has another "period"
    steps.name = "period";
    steps.range = nn::accumulated_steps();
    f(self.period, steps);
  }
};

std::unique_ptr<Optimizer> optimizer_of(FlatParams& params, const std::string& name,
                                        const Settings& given) {
  nn::OptimizerOptions options;
  if (name == "sgd") {
    const auto o = given.as<nn::SgdOptions>(name);
    options.momentum = o.momentum;
    options.weight_decay = o.weight_decay;
    options.nesterov = o.nesterov;
  } else if (name.starts_with("muon")) {
    const auto o = given.as<nn::MuonOptions>(name);
    options.muon_momentum = o.muon_momentum;
    options.adam_for = o.adam_for;
    options.adam_factor = o.adam_factor;
    options.beta1 = o.beta1;
    options.beta2 = o.beta2;
    options.epsilon = o.epsilon;
    options.weight_decay = o.weight_decay;
  } else {
    const bool accumulates = name.starts_with("accum-");
    const auto o = accumulates ? given.as<AccumulatedOptions>(name) : [&] {
      AccumulatedOptions plain;
      static_cast<nn::AdamOptions&>(plain) = given.as<nn::AdamOptions>(name);
      return plain;
    }();
    options.beta1 = o.beta1;
    options.beta2 = o.beta2;
    options.epsilon = o.epsilon;
    options.weight_decay = o.weight_decay;
    options.period = o.period;
  }
  return nn::make_optimizer(name, params, options);
}

}  // namespace

void Params::check_open() const {
  check<ConfigError>(!flat_,
                     "these parameters are in one block, since an optimizer or another call used "
                     "them; add all of them before");
}

void Params::check_name(const std::string& name) {
  check<ArgumentError>(!name.empty() && printable(name) == name, "a parameter can't be called \"",
                       printable(name), "\"; give it a name of printable characters");
  check<ArgumentError>(!names_.contains(name), "two parameters are called ", name,
                       "; name them apart");
}

void Params::add(std::string name, std::shared_ptr<Held> held) {
  check_open();
  check_name(name);
  Tensor t = held->tensor;
  check<ArgumentError>(t.dtype() == DType::f32, "the parameter ", name, " is ", t.dtype(),
                       "; wanted f32");
  check<ArgumentError>(held->set.expired() && !(t.slot() && t.slot()->flat), "the tensor for ",
                       name, " belongs to a set of parameters already");
  check<ArgumentError>(!t.slot() || t.slot()->leaf, "the tensor for ", name,
                       " is computed from others; gsm_detach gives one that is not");
  t.requires_grad();
  all_.push_back({name, t});
  names_.insert(name);
  held_.emplace_back(std::move(name), std::move(held));
}

void Params::add(const std::string& prefix, std::shared_ptr<Net> net) {
  check_open();
  check<ArgumentError>(net->set.expired(), "the layers belong to a set of parameters already");
  const std::string before = prefix.empty() ? "" : prefix + ".";
  const std::vector<NamedTensor> theirs = net->module().parameters();
  for (const NamedTensor& p : theirs) check_name(before + p.name);
  for (const NamedTensor& p : theirs) {
    names_.insert(before + p.name);
    all_.push_back({before + p.name, p.tensor});
  }
  nets_.emplace_back(before, std::move(net));
}

FlatParams& Params::flat() {
  if (flat_) return *flat_;
  std::vector<NamedTensor> trained, buffers, frozen;
  for (const NamedTensor& p : all_)
    if (std::as_const(p.tensor).requires_grad()) trained.push_back(p);
  check<ConfigError>(!trained.empty(),
                     "there is no parameter that is trained; gsm_params_add or "
                     "gsm_params_add_module gives some");
  for (const auto& [before, net] : nets_) {
    const nn::Module::Parts parts = net->module().parts();
    for (const auto& [name, tensor] : parts.buffers) buffers.push_back({before + name, tensor});
    for (const auto& [name, tensor] : parts.frozen) frozen.push_back({before + name, tensor});
  }
  // The tensors get other memory: no call may read them meanwhile.
  std::vector<std::unique_lock<std::shared_mutex>> locks;
  const auto lock = [&](Object& object) {
    locks.emplace_back(object.use, std::try_to_lock);
    check<BusyError>(locks.back().owns_lock(), "another thread uses a tensor or layers of the set");
  };
  for (const auto& [name, held] : held_) lock(*held);
  for (const auto& [before, net] : nets_) lock(*net);
  flat_ = std::make_unique<FlatParams>(trained, buffers, FlatOptions(), frozen);
  return *flat_;
}

const NamedTensor& Params::at(std::int64_t index) const {
  check_index("parameter", index, all_.size());
  return all_[static_cast<std::size_t>(index)];
}

Gradients Params::gradients() const {
  std::vector<const void*> slots;
  for (const NamedTensor& p : all_)
    if (p.tensor.slot()) slots.push_back(p.tensor.slot().get());
  return Gradients(std::move(slots));
}

void Params::settle_gradients() {
  check<ConfigError>(
      std::ranges::any_of(
          all_, [](const NamedTensor& p) { return p.tensor.slot() && !p.tensor.slot()->stale; }),
      "there is no gradient: call gsm_backward with a loss that is computed from "
      "these parameters");
  flat().settle_grads();
  check_gradients(flat());
}

double Params::clip(double most) {
  settle_gradients();
  Tensor grads = flat().grads();
  const double norm = std::sqrt(squared_norm(grads));
  if (norm > most) scale(grads, static_cast<float>(most / norm));
  return norm;
}

void Params::zero_grad() { flat().zero_grad(); }

std::vector<NamedTensor> Params::state() {
  FlatParams& params = flat();
  std::map<std::string, Tensor> master;
  for (NamedTensor& w : params.windows(params.values())) master.emplace(w.name, w.tensor);
  const auto of_master = [&](const std::string& name, const Tensor& tensor) {
    const auto at = master.find(name);
    return NamedTensor{name, at == master.end() ? tensor : at->second};
  };
  std::vector<NamedTensor> state;
  for (const auto& [name, held] : held_) state.push_back(of_master(name, held->tensor));
  for (const auto& [before, net] : nets_)
    for (const NamedTensor& t : net->module().state())
      state.push_back(of_master(before + t.name, t.tensor));
  return state;
}

void Params::save(const char* path) {
  write_safetensors(path, nn::in_file_layout(state()), {{"format", "pt"}});
}

void Params::load(const nn::Weights& weights) {
  nn::load(weights, state());
  flat().refresh();
  method_state_.reset();
}

nn::TrainState Params::train_state(Optimizer& optimizer) {
  nn::TrainState state{{}, flat(), optimizer};
  for (const auto& [before, net] : nets_)
    for (const NamedTensor& t : net->module().buffers())
      state.buffers.push_back({before + t.name, t.tensor});
  return state;
}

nn::TrainSnapshot Params::training_state(Optimizer& optimizer) {
  return snapshot(train_state(optimizer), 0, {}, {}, method_);
}

void Params::restore(Optimizer& optimizer, const SafeTensors& file, const std::string& name) {
  std::optional<MethodState> of_method = method_in(file, name);
  capi::restore(train_state(optimizer), file, name);
  method_state_ = std::move(of_method);
}

void Params::write(const Tensor& parameter, const void* data) {
  if (!flat_) {
    std::memcpy(parameter.data(), data, parameter.bytes());
    return;
  }
  for (const NamedTensor& p : all_) {
    if (p.tensor.slot() != parameter.slot() || !parameter.slot()) continue;
    for (const NamedTensor& w : flat_->windows(flat_->values()))
      if (w.name == p.name) std::memcpy(w.tensor.data(), data, w.tensor.bytes());
    flat_->refresh();
    return;
  }
  std::memcpy(parameter.data(), data, parameter.bytes());  // a frozen one
}

void Params::exchanging(Training* method) {
  method_ = method;
  if (!method) return;
  for (const auto& [before, net] : nets_) nn::draw_for(net->module(), method->rank());
}

void Params::check_own() const {
  check<ConfigError>(!method_,
                     "a method exchanges these parameters; call gsm_method_step, and the rest "
                     "after gsm_method_finish, or gsm_method_free if that has failed");
}

OwnOptimizer::OwnOptimizer(std::shared_ptr<Params> params, const char* name, const char* settings)
    : params_(std::move(params)),
      optimizer_(optimizer_of(params_->flat(), name,
                              read_settings(settings, "the settings of an optimizer"))) {}

namespace {

// Own parameters, exchanged by a method.
class OwnMethod final : public AnyMethod {
 public:
  OwnMethod(std::shared_ptr<OwnOptimizer> optimizer, const std::shared_ptr<Workers>& workers,
            TrainingPlan plan)
      : optimizer_(std::move(optimizer)),
        training_(workers, params().flat(), optimizer_->optimizer(), std::move(plan)) {
    params().exchanging(&training_);
  }
  ~OwnMethod() override { params().exchanging(nullptr); }
  void step(double learning_rate) override {
    const auto lock = alone();
    training_.check_on();
    const Gradients mine = params().gradients();
    params().settle_gradients();
    training_.step(learning_rate);
    params().stepped();
  }
  void finish() override {
    const auto lock = alone();
    training_.finish();
    params().exchanging(nullptr);
  }
  Training& training() override { return training_; }

 private:
  Params& params() const { return *optimizer_->params(); }
  std::unique_lock<std::shared_mutex> alone() const {
    std::unique_lock lock(params().use, std::try_to_lock);
    check<BusyError>(lock.owns_lock(), "another thread uses the parameters");
    return lock;
  }

  std::shared_ptr<OwnOptimizer> optimizer_;
  Training training_;
};

}  // namespace

void write_parameter(const std::shared_ptr<Object>& set, const Tensor& parameter,
                     const void* data) {
  const std::unique_lock lock(set->use, std::try_to_lock);
  check<BusyError>(lock.owns_lock(), "another thread uses the parameters");
  auto& params = static_cast<Params&>(*set);
  params.check_own();
  params.write(parameter, data);
}

}  // namespace gossamer::capi

gsm_status gsm_params_new(gsm_params** params) {
  return guarded([&] {
    check_given("params", params);
    *params = static_cast<gsm_params*>(add_object(std::make_shared<Params>()));
  });
}

gsm_status gsm_params_add(gsm_params* params, const char* name, gsm_tensor* tensor) {
  return guarded([&] {
    const Exclusive<Params> set(params);
    const Exclusive<Held> held(tensor);
    check_given("name", name);
    set->add(name, held.object());
    held->set = set.object();
  });
}

gsm_status gsm_params_add_module(gsm_params* params, const char* prefix, gsm_module* module) {
  return guarded([&] {
    const Exclusive<Params> set(params);
    const Exclusive<Net> net(module);
    set->add(prefix ? prefix : "", net.object());
    net->set = set.object();
  });
}

gsm_status gsm_params_count(gsm_params* params, int64_t* parameters, int64_t* numbers) {
  return guarded([&] {
    const Exclusive<Params> set(params);
    check_given("parameters or numbers", parameters, numbers);
    *parameters = static_cast<int64_t>(set->size());
    *numbers = 0;
    for (std::size_t i = 0; i < set->size(); ++i)
      *numbers += set->at(static_cast<int64_t>(i)).tensor.numel();
  });
}

gsm_status gsm_params_name(gsm_params* params, int64_t index, const char** name) {
  return guarded([&] {
    const Exclusive<Params> set(params);
    check_given("name", name);
    set->flat();  // from now on no name moves
    *name = set->at(index).name.c_str();
  });
}

gsm_status gsm_params_tensor(gsm_params* params, int64_t index, gsm_tensor** tensor) {
  return guarded([&] {
    const Exclusive<Params> set(params);
    check_given("tensor", tensor);
    set->flat();
    gsm_tensor* const made = hold(set->at(index).tensor);
    Exclusive<Held>(made)->set = set.object();
    *tensor = made;
  });
}

gsm_status gsm_params_zero_grad(gsm_params* params) {
  return guarded([&] {
    const Exclusive<Params> set(params);
    set->flat();
    const Gradients mine = set->gradients();
    set->zero_grad();
  });
}

gsm_status gsm_params_clip_grad(gsm_params* params, double most, double* norm) {
  return guarded([&] {
    const Exclusive<Params> set(params);
    check<ArgumentError>(most > 0 && std::isfinite(most), "the largest norm is ", most,
                         "; wanted a finite number above 0");
    set->flat();
    const Gradients mine = set->gradients();
    const double before = set->clip(most);
    if (norm) *norm = before;
  });
}

gsm_status gsm_params_save(gsm_params* params, const char* path) {
  return guarded([&] {
    const Exclusive<Params> set(params);
    check_path(path);
    set->check_own();
    set->save(path);
  });
}

gsm_status gsm_params_load(gsm_params* params, const char* path) {
  return guarded([&] {
    const Exclusive<Params> set(params);
    check_path(path);
    set->check_own();
    set->load(nn::read_weights(path));
  });
}

gsm_status gsm_params_free(gsm_params* params) {
  return guarded([&] { free_object<Params>(params); });
}

gsm_status gsm_optimizer_new(gsm_params* params, const char* name, const char* settings,
                             gsm_optimizer** optimizer) {
  return guarded([&] {
    const Exclusive<Params> set(params);
    check_given("name or optimizer", name, optimizer);
    set->check_own();
    *optimizer = static_cast<gsm_optimizer*>(
        add_object(std::make_shared<OwnOptimizer>(set.object(), name, settings)));
  });
}

gsm_status gsm_method_new_for(gsm_optimizer* optimizer, gsm_group* group, const char* method,
                              const char* graph, const gsm_gossip_options* options,
                              gsm_method** made) {
  return guarded([&] {
    check_given("method, graph or made", method, graph, made);
    TrainingPlan plan = plan_of(method, graph, options_of(options, "gsm_gossip_options"));
    *made = static_cast<gsm_method*>(
        add_object(waiting<std::shared_ptr<OwnMethod>>([optimizer, group, plan = std::move(plan)] {
          const Exclusive<OwnOptimizer> o(optimizer);
          const Exclusive<Workers> workers(group);
          const std::unique_lock lock(o->params()->use, std::try_to_lock);
          check<BusyError>(lock.owns_lock(), "another thread uses the parameters");
          o->params()->check_own();
          TrainingPlan own = plan;
          own.from = o->params()->method_state();
          return std::make_shared<OwnMethod>(o.object(), workers.object(), std::move(own));
        })));
  });
}

namespace {

// f: gets the parameters and the optimizer.
template <class F>
gsm_status with_optimizer(gsm_optimizer* optimizer, F&& f) {
  return guarded([&] {
    const Exclusive<OwnOptimizer> o(optimizer);
    Params& set = *o->params();
    const std::unique_lock lock(set.use, std::try_to_lock);
    check<BusyError>(lock.owns_lock(), "another thread uses the parameters");
    f(set, o->optimizer());
  });
}

}  // namespace

gsm_status gsm_optimizer_step(gsm_optimizer* optimizer, double learning_rate) {
  return with_optimizer(optimizer, [&](Params& set, Optimizer& o) {
    check_rate(learning_rate);
    set.check_own();
    const Gradients mine = set.gradients();
    set.settle_gradients();
    o.step(static_cast<float>(learning_rate));
    set.stepped();
  });
}

gsm_status gsm_optimizer_groups(gsm_optimizer* optimizer, const char* rates, const char* decays) {
  return with_optimizer(optimizer, [&](Params& set, Optimizer& o) {
    set.check_own();
    dynamic_cast<nn::FlatOptimizer&>(o).set_groups(read_rates(rates), read_decays(decays));
  });
}

gsm_status gsm_optimizer_state_save(gsm_optimizer* optimizer, const char* path) {
  return with_optimizer(optimizer, [&](Params& set, Optimizer& o) {
    check_path(path);
    const nn::TrainSnapshot state = set.training_state(o);
    write_safetensors(path, state.tensors, state.header);
  });
}

gsm_status gsm_optimizer_state_memory(gsm_optimizer* optimizer, gsm_bytes** bytes) {
  return with_optimizer(optimizer, [&](Params& set, Optimizer& o) {
    check_given("bytes", bytes);
    const nn::TrainSnapshot state = set.training_state(o);
    *bytes =
        give_bytes(safetensors_bytes(state.tensors, state.header, "gsm_optimizer_state_memory"));
  });
}

gsm_status gsm_optimizer_state_load(gsm_optimizer* optimizer, const char* path) {
  return with_optimizer(optimizer, [&](Params& set, Optimizer& o) {
    check_path(path);
    set.check_own();
    set.restore(o, read_safetensors(path), path);
  });
}

gsm_status gsm_optimizer_state_restore(gsm_optimizer* optimizer, const void* bytes, size_t size) {
  return with_optimizer(optimizer, [&](Params& set, Optimizer& o) {
    const auto given = given_bytes(bytes, size);
    set.check_own();
    set.restore(o, parse_safetensors(given, kGivenBytes), kGivenBytes);
  });
}

gsm_status gsm_optimizer_free(gsm_optimizer* optimizer) {
  return guarded([&] { free_object<OwnOptimizer>(optimizer); });
}
