// Models by name. A family of models is one file, which says what its models are called, which
// options they take and how one is made, and one row in registry.cpp.
// Threads: any.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/core/setting.h"
#include "gossamer/nn/module.h"
#include "gossamer/nn/weights.h"

namespace gossamer::models {

// What a caller may say of a model beside its name. The options in visit() are keys of a
// configuration, too.
struct ModelOptions {
  std::optional<i64> classes{};  // outputs: classes, or ids; empty: the model's default
  std::uint64_t seed = 0;        // of the initial values
  i64 channels = 3;              // of the images, 1 to 64

  // Only some families take these (Family::options). Empty: as the name of the model says.
  std::optional<i64> layers{}, width{}, heads{}, kv_heads{}, ff{}, positions{};
  bool zero_init_residual = false;  // see ResNetOptions
  std::string gelu = "tanh";
  bool bias = true, norm_first = false;
  double dropout = 0;

  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.classes, Setting{.name = "classes",
                            .about = "outputs of the model; auto: the number of classes in the "
                                     "data, or of ids in its vocabulary",
                            .range = Range::from_to(1, 10000000)});
    f(self.zero_init_residual,
      Setting{.name = "zero_init_residual",
              .about = "pictures: the last batch norm of each block starts at 0"});
    f(self.layers, Setting{.name = "layers",
                           .about = "text: number of blocks; auto: as {name} says",
                           .range = Range::from_to(1, 1024)});
    f(self.width, Setting{.name = "width",
                          .about = "text: width of the embedding; auto: as {name} says",
                          .range = Range::from_to(1, 65536)});
    f(self.heads, Setting{.name = "heads",
                          .about = "text: heads of the attention; auto: as {name} says",
                          .range = Range::from_to(1, 1024)});
    f(self.kv_heads, Setting{.name = "kv_heads",
                             .about = "language, llama: heads of keys, which those of {heads} "
                                      "share; auto: as {name} says",
                             .range = Range::from_to(1, 1024)});
    f(self.ff, Setting{.name = "ff",
                       .about = "translation, llama: width inside the blocks; auto: as {name} says",
                       .range = Range::from_to(1, 65536)});
    f(self.positions,
      Setting{.name = "positions",
              .about = "text: most ids that it can read at once; auto: as {name} says",
              .range = Range::from_to(1, 1 << 20)});
    f(self.norm_first, Setting{.name = "norm_first",
                               .about = "translation: the layer norms in front of the branches; "
                                        "false: behind them, as published"});
    f(self.bias,
      Setting{.name = "bias", .about = "language: linear layers and layer norms have biases"});
    f(self.gelu, Setting{.name = "gelu",
                         .about = "language: form of the GELU: tanh (GPT-2) | erf (nanoGPT)",
                         .choices = {"tanh", "erf"}});
    f(self.dropout, Setting{.name = "dropout",
                            .about = "text: probability, 0 to below 1",
                            .range = Range::from_below(0, 1)});
  }
};
// The names of the options in visit() that differ from their defaults.
std::vector<std::string> given_options(const ModelOptions&);

struct ModelInfo {
  std::string name, about;
  i64 classes;         // default
  int image_size = 0;  // side of the images that it is usually trained with; 0: it reads ids
};

// The model that a state dict was recognised as.
struct KnownState {
  std::string name;
  i64 classes;  // of its head; 0: it has none
};

// One row of the table in registry.cpp: the models that one file makes.
struct Family {
  std::string name;
  std::string task;                  // "pictures", "language" or "translation"
  std::vector<std::string> options;  // those of ModelOptions::visit() that it takes
  std::vector<ModelInfo> models;
  // Makes one of the models, with values drawn from nn::init_rng().
  std::unique_ptr<nn::Module> (*make)(const std::string& model, const ModelOptions&);
  // Weights as others store them, with the names and layouts of our modules.
  nn::Weights (*weights)(nn::Weights file);
  // The model whose state dict this is, by names and shapes (torch's layouts); nullopt: of none.
  // Null: its files say in the header what they are.
  std::optional<KnownState> (*recognise)(const std::vector<NamedTensor>& state) = nullptr;

  bool takes(const std::string& option) const;
};
const std::vector<Family>& families();
// The tasks that there are models for, each once.
std::vector<std::string> tasks();
// The models of a task, or all. A text task without model.name takes the first.
std::vector<ModelInfo> list(const std::string& task = "");
std::vector<std::string> names(const std::string& task = "");

// ConfigError on an unknown name, or one of another task than the one that is given, lists the
// known names and the nearest one.
const Family& family_of(const std::string& model, const std::string& task = "");
const ModelInfo& info(const std::string& model, const std::string& task = "");
// ConfigError also names an option that the family does not take, or that is out of range.
std::unique_ptr<nn::Module> make(const std::string& model, const ModelOptions& = {});

// The model of pictures whose state dict this is, by names and shapes; nullopt: of none.
std::optional<KnownState> recognise(const std::vector<NamedTensor>& state);

}  // namespace gossamer::models
