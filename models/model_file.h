// Model files of classifiers: those of `gossamer train`, which hold the weights and in the header
// all that it takes to use them, and those of others, which hold weights only.
// Threads: any; the network that is opened is a Module (nn/module.h).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/nn/module.h"
#include "gossamer/nn/weights.h"

namespace gossamer::models {

// How a picture becomes the input of a model in evaluation: its shorter side is resized to
// `resize`, and of that the centre, size x size, is taken and normalized.
struct Preprocessing {
  int size = 224, resize = 256;
  std::string filter = "bilinear";   // of the resize: bilinear | area, as data::Shrink
  std::vector<float> mean{}, std{};  // of each channel
  i64 channels() const { return static_cast<i64>(mean.size()); }
  // u8 [N, h, w, channels] on any device -> (u/255 - mean)/std of this type
  Tensor operator()(const Tensor& images, DType type = DType::f32) const;
};
// The preprocessing that a model of the table is usually trained with: torchvision's for ImageNet,
// everyone's for CIFAR.
// ConfigError lists the known models.
Preprocessing usual_preprocessing(const std::string& model);

// What the header of a model file says.
struct ModelHeader {
  std::string model;  // a name of the table
  std::vector<std::string> classes;
  Preprocessing pictures;
};
// The header as nn::save() takes it, and back. nullopt: a file of others, which has none. IoError
// names the file and the key if it is damaged; ConfigError a class whose name is empty or has a
// line break.
std::map<std::string, std::string> metadata_of(const ModelHeader&);
std::optional<ModelHeader> header_of(const nn::Weights&);
// The model of a file, by its header, else by its names and shapes. IoError if it is none of ours.
std::string model_of(const nn::Weights&);

struct OpenedModel {
  std::string name;
  std::unique_ptr<nn::Module> net;     // in eval mode
  std::unique_ptr<FlatParams> params;  // set if it computes in 16 bits
  std::vector<std::string> classes;    // their numbers, if the file has no names
  Preprocessing pictures;
  std::vector<std::string> notes;  // what the user should know: what was assumed
};
// Where a file has no header, its tensors say which model it is and how many classes it has, and
// pictures are prepared as it is usual for this model; see picture_weights(). IoError names the
// file, and what is wrong. The network computes on the device in this type, and so are its input
// (pictures(images.to(device), type)) and what it gives.
OpenedModel open(const std::filesystem::path&, const nn::WeightsOptions& = {}, Device = {},
                 DType = DType::f32);
OpenedModel open(const nn::Weights&, Device = {}, DType = DType::f32);
// The known model `name` with as many classes and with these weights, for images of as many
// channels as they read. IoError as nn::load.
std::unique_ptr<nn::Module> make_loaded(const std::string& name, std::size_t classes,
                                        const nn::Weights&);
// Gives the last layer torchvision's name, fc, where others call it linear, classifier, head,
// head.fc or last_linear; a note says so.
nn::Weights picture_weights(nn::Weights);
// [classes, features]: the weight of the last layer. IoError: it has none, so it can't classify.
const Tensor& head_of(const nn::Weights&);

}  // namespace gossamer::models
