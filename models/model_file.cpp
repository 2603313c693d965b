// See model_file.h.
#include "gossamer/models/model_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "gossamer/core/error.h"
#include "gossamer/core/input_pass.h"
#include "gossamer/core/ops/normalize.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/core/text/shortest.h"
#include "gossamer/core/text/spelling.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/inference.h"
#include "gossamer/nn/init.h"

namespace gossamer::models {
namespace {

// Lists in a header have one entry a line.
std::string lines(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& item : list) (out += out.empty() ? "" : "\n") += item;
  return out;
}

// The shortest text that is read as the same numbers.
std::string lines(const std::vector<float>& list) {
  std::vector<std::string> texts;
  for (const float number : list) texts.push_back(shortest(number));
  return lines(texts);
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

constexpr const char* kTask = "pictures";

bool is_known(const std::string& name) {
  const std::vector<std::string> known = names(kTask);
  return std::ranges::find(known, name) != known.end();
}

std::string known_models() { return alternatives(names(kTask)); }

class HeaderReader {
 public:
  explicit HeaderReader(const nn::Weights& file) : file_(file) {}

  std::string text(const std::string& key) const {
    const auto it = file_.metadata.find(key);
    check<IoError>(it != file_.metadata.end(), file_.file, ": the header has no \"", key,
                   "\"; was it written by another program?");
    return it->second;
  }
  int whole(const std::string& key) const { return static_cast<int>(number(key, text(key))); }
  std::vector<float> of_each_channel(const std::string& key) const {
    const std::vector<std::string> list = split_lines(text(key));
    check<IoError>(!list.empty() && list.size() <= kMostChannels, file_.file, ": \"", key,
                   "\" in the header has ", list.size(),
                   " numbers, wanted one of each channel, 1 to ", kMostChannels);
    std::vector<float> numbers;
    for (const std::string& each : list) numbers.push_back(number(key, each));
    return numbers;
  }

 private:
  float number(const std::string& key, const std::string& text) const {
    float value = std::numeric_limits<float>::quiet_NaN();
    try {
      value = std::stof(text);
    } catch (const std::exception&) {  // stays no number
    }
    check<IoError>(std::abs(value) <= 1e6f, file_.file, ": \"", key, "\" in the header is \"", text,
                   "\", not a number");
    return value;
  }

  const nn::Weights& file_;
};

}  // namespace

Tensor Preprocessing::operator()(const Tensor& images, DType type) const {
  return normalize(images, mean, std, type);
}

Preprocessing usual_preprocessing(const std::string& model) {
  const int size = info(model, kTask).image_size;
  if (size <= 64)
    return {.size = size,
            .resize = usual_resize(size),
            .mean = {0.4914f, 0.4822f, 0.4465f},
            .std = {0.2023f, 0.1994f, 0.2010f}};
  return {.size = size,
          .resize = usual_resize(size),
          .mean = {0.485f, 0.456f, 0.406f},
          .std = {0.229f, 0.224f, 0.225f}};
}

std::map<std::string, std::string> metadata_of(const ModelHeader& h) {
  for (std::size_t i = 0; i < h.classes.size(); ++i) {
    check<ConfigError>(!h.classes[i].empty(), "the name of class ", i,
                       " is empty; a model file has a name for each class");
    check<ConfigError>(h.classes[i].find('\n') == std::string::npos, "the name of class ", i,
                       " has a line break; a model file has one name a line");
    check<ConfigError>(valid_utf8(h.classes[i]) == h.classes[i].size(), "the name of class ", i,
                       ", ", printable(h.classes[i]), ", is no UTF-8");
  }
  return {{"format", "pt"},
          {"model", h.model},
          {"classes", lines(h.classes)},
          {"image_size", std::to_string(h.pictures.size)},
          {"resize", std::to_string(h.pictures.resize)},
          {"filter", h.pictures.filter},
          {"mean", lines(h.pictures.mean)},
          {"std", lines(h.pictures.std)}};
}

std::optional<ModelHeader> header_of(const nn::Weights& file) {
  if (!file.metadata.contains("model")) return std::nullopt;
  const HeaderReader read(file);
  ModelHeader h;
  h.model = read.text("model");
  if (const auto task = file.metadata.find("task"); task != file.metadata.end())
    fail<IoError>(file.file, ": is a model for task=", task->second, ", not for pictures");
  check<IoError>(is_known(h.model), file.file, ": the model in the header is \"", h.model,
                 "\"; known are: ", known_models());
  h.classes = split_lines(read.text("classes"));
  check<IoError>(!h.classes.empty(), file.file,
                 ": \"classes\" in the header is empty, wanted one name a line");
  Preprocessing& p = h.pictures;
  p.size = read.whole("image_size");
  p.resize = read.whole("resize");
  check<IoError>(p.size >= 1 && p.size <= 4096 && p.resize >= p.size && p.resize <= 8192, file.file,
                 ": image_size ", p.size, " and resize ", p.resize,
                 " in the header are impossible; is the file damaged?");
  if (file.metadata.contains("filter")) p.filter = read.text("filter");  // older files have none
  check<IoError>(p.filter == "bilinear" || p.filter == "area", file.file,
                 ": \"filter\" in the header is \"", p.filter, "\", wanted bilinear or area");
  p.mean = read.of_each_channel("mean");
  p.std = read.of_each_channel("std");
  check<IoError>(p.mean.size() == p.std.size(), file.file, ": \"mean\" in the header has ",
                 p.mean.size(), " numbers and \"std\" ", p.std.size(), "; wanted as many of both");
  check<IoError>(std::ranges::all_of(p.std, [](float s) { return s > 0; }), file.file,
                 ": \"std\" in the header must be above 0");
  return h;
}

std::string model_of(const nn::Weights& file) {
  if (const auto named = file.metadata.find("model");
      named != file.metadata.end() && is_known(named->second))
    return named->second;
  const auto known = recognise(file.tensors);
  std::vector<std::string> names;
  for (const UnreadTensor& t : file.unread) names.push_back(t.name + " of type " + t.kind);
  for (const NamedTensor& t : file.tensors) names.push_back(t.name + t.tensor.shape().str());
  check<IoError>(known.has_value(), file.file, ": its tensors (", nn::first_three(names),
                 ") fit none of the known models: ", known_models());
  return known->name;
}

nn::Weights picture_weights(nn::Weights file) {
  const auto has = [&](const std::string& layer) {
    const auto is = [&](const auto& t) { return t.name == layer + ".weight"; };
    return std::ranges::any_of(file.tensors, is) || std::ranges::any_of(file.unread, is);
  };
  if (has("fc")) return file;
  for (const char* layer : {"linear", "classifier", "head.fc", "head", "last_linear"}) {
    if (!has(layer)) continue;
    nn::rename(file, {{layer, "fc"}});
    file.notes.push_back(file.file + ": its last layer is called " + layer + "; taken for fc");
    break;
  }
  return file;
}

const Tensor& head_of(const nn::Weights& file) {
  file.check_read("fc.weight");
  const Tensor* head = file.find("fc.weight");
  check<IoError>(head && head->rank() == 2 && head->shape(0) >= 1, file.file,
                 ": has no fc.weight [classes, features], so a training can begin with it (init), "
                 "but it does not classify; if its last layer has another name, say "
                 "init_rename=NAME=fc");
  return *head;
}

std::unique_ptr<nn::Module> make_loaded(const std::string& name, std::size_t classes,
                                        const nn::Weights& file) {
  const nn::NoInitialValues none;
  const Tensor* const stem = file.find("conv1.weight");
  auto net = make(name, {.classes = static_cast<i64>(classes),
                         .channels = stem && stem->rank() == 4 ? stem->shape(1) : 3});
  nn::load(file, *net);
  return net;
}

OpenedModel open(const std::filesystem::path& path, const nn::WeightsOptions& options,
                 Device device, DType type) {
  return open(nn::read_weights(path, options), device, type);
}

OpenedModel open(const nn::Weights& weights, Device device, DType type) {
  const nn::Weights file = picture_weights(weights);
  OpenedModel m;
  m.notes = file.notes;
  if (const auto header = header_of(file)) {
    m.name = header->model;
    m.classes = header->classes;
    m.pictures = header->pictures;
  } else {
    m.name = model_of(file);
    for (i64 i = 0; i < head_of(file).shape(0); ++i) m.classes.push_back(std::to_string(i));
    m.pictures = usual_preprocessing(m.name);
    m.notes.push_back(file.file + ": taken for " + m.name + " with " +
                      std::to_string(m.classes.size()) +
                      " classes; pictures are prepared as it is usual for this model");
  }
  m.net = make_loaded(m.name, m.classes.size(), file);
  const Tensor stem = m.net->parameters().front().tensor;  // [out, h, w, channels]
  check<IoError>(stem.rank() != 4 || stem.shape(3) == m.pictures.channels(), file.file,
                 ": the model reads images of ", stem.shape(3), " channels, and the mean of ",
                 m.pictures.channels(), " is known",
                 header_of(file) ? "" : "; train it with a mean and std of your own");
  m.params = nn::put_on(*m.net, device, type);
  return m;
}

}  // namespace gossamer::models
