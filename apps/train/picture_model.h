// Models of pictures in files (models/model_file.h) and the configuration: the keys that a file
// implies, the model that it holds, and the one that a run begins with.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/pictures.h"
#include "gossamer/core/flat.h"
#include "gossamer/models/model_file.h"
#include "gossamer/nn/module.h"
#include "gossamer/nn/weights.h"

namespace gossamer::apps {

models::ModelHeader header_of(const std::string& model, const Pictures&,
                              const std::vector<std::string>& classes);
std::map<std::string, std::string> model_metadata(const std::string& model, const Pictures&,
                                                  const std::vector<std::string>& classes);

// What a file of weights says about the configuration, as key=value, without the keys that `given`
// sets: model.name (by the header if `gossamer train` wrote it, else by names and shapes), and how
// pictures are normalized (by the header, else as torchvision does for this model). IoError if the
// model is none of ours; then model.name must say it.
std::vector<std::string> keys_of(const nn::Weights&, const Config& given);

struct LoadedModel {
  std::string name;
  std::unique_ptr<nn::Module> net;     // in eval mode
  std::unique_ptr<FlatParams> params;  // set if it computes in 16 bits
  Pictures pictures;
  std::vector<std::string> classes;  // their numbers, if the file has no names
  bool has_class_names = true;
  std::vector<std::string> notes;  // what the user should know: what was assumed
};
// Reads a model. Where a file has no header, its tensors say which model it is and how many classes
// it has, and pictures are prepared as torchvision does for this model, unless the model_keys() of
// `given` say otherwise. Those of the command line win over a header, too. IoError names the file
// and the key if it is damaged; Error: values that are not finite.
LoadedModel load_model(const ModelSource&, DType dtype, const Config& given, Device = {});

std::vector<std::string> model_keys();

// Names from a file, one a line, instead of the model's. IoError if their number differs.
void name_classes(LoadedModel&, const std::string& path);

// The weights of model.init. IoError names the key and the file.
nn::Weights initial_weights(const Config&);

// ConfigError: the network does not take pictures of a side that the configuration names. It is
// asked, for a run must not end at its first evaluation. In training mode afterwards.
void check_sides(const Config&, nn::Module&);

// Applies model.freeze. notes: what was frozen. ConfigError if it, or optim.factors, have patterns
// of no parameter.
void freeze_and_check(const Config&, nn::Module&, std::vector<std::string>& notes);

// The model that a run trains, drawn from train.seed. from_start: with what fits of model.init
// (otherwise a checkpoint holds it); the last layer of a file with other names of classes does not
// fit, and its rows follow the names where these stand in another order. With model.freeze. notes:
// what was taken and frozen. IoError if nothing fits, ConfigError if model.freeze or optim.factors
// have patterns of no parameter.
std::unique_ptr<nn::Module> model_to_train(const Config&, const std::vector<std::string>& classes,
                                           bool from_start, std::vector<std::string>& notes);

}  // namespace gossamer::apps
