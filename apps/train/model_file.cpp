// See model_file.h.
#include "gossamer/apps/train/model_file.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "gossamer/apps/json.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/error.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"

namespace gossamer::apps {
namespace {

// Lists in the metadata of a model file have one entry a line. Class names are folder names, which
// have no line breaks.
template <class List>
std::string lines(const List& list) {
  std::string out;
  for (const auto& item : list) {
    if (!out.empty()) out += "\n";
    if constexpr (std::is_convertible_v<decltype(item), std::string>)
      out += item;
    else
      out += json_text(item);
  }
  return out;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

bool is_known(const std::string& name) {
  return std::ranges::any_of(models::list(), [&](const auto& info) { return info.name == name; });
}

// The fields that a header of `gossamer train` holds.
void read_header(const nn::Weights& file, LoadedModel& m) {
  const std::string& path = file.file;
  const auto get = [&](const std::string& key) {
    const auto it = file.metadata.find(key);
    check<IoError>(it != file.metadata.end(), path, ": the header has no \"", key,
                   "\"; was this file written by gossamer train?");
    return it->second;
  };
  const auto number = [&](const std::string& key, const std::string& text) {
    float value = NAN;
    try {
      value = std::stof(text);
    } catch (const std::exception&) {  // stays no number
    }
    check<IoError>(std::abs(value) <= 1e6f, path, ": \"", key, "\" in the header is \"", text,
                   "\", not a number");
    return value;
  };
  m.name = get("model");
  check<IoError>(is_known(m.name), path, ": the model in the header is \"", m.name,
                 "\", which this program does not know; `gossamer doctor` lists its models");
  m.classes = split_lines(get("classes"));
  check<IoError>(!m.classes.empty(), path,
                 ": \"classes\" in the header is empty, wanted one name a line");
  m.pictures.size = static_cast<int>(number("image_size", get("image_size")));
  m.pictures.resize = static_cast<int>(number("resize", get("resize")));
  check<IoError>(m.pictures.size >= 1 && m.pictures.size <= 4096 &&
                     m.pictures.resize >= m.pictures.size && m.pictures.resize <= 8192,
                 path, ": image_size ", m.pictures.size, " and resize ", m.pictures.resize,
                 " in the header are impossible; is the file damaged?");
  // older files have no filter
  if (const auto filter = file.metadata.find("filter"); filter != file.metadata.end()) {
    check<IoError>(filter->second == "bilinear" || filter->second == "area", path,
                   ": \"filter\" in the header is \"", filter->second,
                   "\", wanted bilinear or area");
    m.pictures.filter = shrink_of(filter->second);
  }
  for (const char* key : {"mean", "std"}) {
    const auto list = split_lines(get(key));
    check<IoError>(list.size() == 3, path, ": \"", key, "\" in the header has ", list.size(),
                   " numbers, wanted 3");
    for (std::size_t i = 0; i < 3; ++i)
      (key[0] == 'm' ? m.pictures.mean : m.pictures.std)[i] = number(key, list[i]);
    check<IoError>(
        key[0] == 'm' || std::ranges::all_of(m.pictures.std, [](float s) { return s > 0; }), path,
        ": \"std\" in the header must be above 0");
  }
}

std::string model_name_of(const nn::Weights& file) {
  if (const auto named = file.metadata.find("model");
      named != file.metadata.end() && is_known(named->second))
    return named->second;
  const auto known = models::recognise(file.tensors);
  std::vector<std::string> names;
  for (const NamedTensor& t : file.tensors) names.push_back(t.name + t.tensor.shape().str());
  check<IoError>(known.has_value(), file.file, ": its tensors (", nn::first_three(names),
                 ") are those of no model that `gossamer doctor` lists; if it is one of them, say "
                 "model.name=NAME");
  return known->name;
}

// What the command line says wins; a CONFIG.toml may be that of another run.
void override_header(const Config& given, const std::string& file, LoadedModel& m) {
  const auto said = [&](const char* key) {
    const auto from = given.origin.find(key);
    return from != given.origin.end() && from->second == "command line";
  };
  check<ConfigError>(!said("model.name") || given.model.name == m.name,
                     "model.name=", given.model.name, ": ", file, " says in its header that it is ",
                     m.name);
  Config c;
  c.model.name = m.name;
  c.data.eval_size.value = said("data.eval_size") ? given.data.eval_size.value : m.pictures.size;
  c.data.resize.value = said("data.resize")
                            ? given.data.resize.value
                            : resize_for(m.pictures, static_cast<int>(c.data.eval_size.value));
  if (said("data.mean")) c.data.mean = given.data.mean;
  if (said("data.std")) c.data.std = given.data.std;
  const Pictures p = pictures(c);
  m.pictures.size = p.size;
  m.pictures.resize = p.resize;
  if (!c.data.mean.empty()) m.pictures.mean = p.mean;
  if (!c.data.std.empty()) m.pictures.std = p.std;
  if (said("data.filter")) m.pictures.filter = shrink_of(given.data.filter);
}

// A file that says nothing about itself.
void assume(const nn::Weights& file, const Config& given, LoadedModel& m) {
  Config c = given;
  for (const std::string& key : keys_of(file, given)) set_key(c, key);
  m.name = c.model.name;
  const Tensor* head = file.find("fc.weight");
  check<IoError>(head && head->rank() == 2 && head->shape(0) >= 1, file.file,
                 ": has no fc.weight [classes, features], so it can start a training "
                 "(model.init) but not classify");
  for (i64 i = 0; i < head->shape(0); ++i) m.classes.push_back(std::to_string(i));
  m.has_class_names = false;
  m.pictures = pictures(c);
  m.notes.push_back(
      fmt::format("{}: taken for {} with {} classes; pictures: shorter side {}, centre {}, mean "
                  "{:g} {:g} {:g}, std {:g} {:g} {:g}",
                  file.file, m.name, m.classes.size(), m.pictures.resize, m.pictures.size,
                  m.pictures.mean[0], m.pictures.mean[1], m.pictures.mean[2], m.pictures.std[0],
                  m.pictures.std[1], m.pictures.std[2]));
}

}  // namespace

std::map<std::string, std::string> model_metadata(const std::string& model, const Pictures& p,
                                                  const std::vector<std::string>& classes) {
  return {{"format", "pt"},
          {"model", model},
          {"classes", lines(classes)},
          {"image_size", std::to_string(p.size)},
          {"resize", std::to_string(p.resize)},
          {"filter", p.filter == data::Shrink::area ? "area" : "bilinear"},
          {"mean", lines(p.mean)},
          {"std", lines(p.std)}};
}

std::vector<std::string> keys_of(const nn::Weights& file, const Config& given) {
  std::vector<std::string> keys;
  const auto add = [&](const std::string& key, const std::string& value) {
    if (!given.origin.contains(key)) keys.push_back(key + "=" + value);
  };
  const auto add_channels = [&](const Channels& channels) {
    const auto list = [](const std::array<float, 3>& v) {
      return fmt::format("{},{},{}", v[0], v[1], v[2]);
    };
    // an empty list in a file of all keys says as little as none
    if (given.data.mean.empty()) keys.push_back("data.mean=" + list(channels.mean));
    if (given.data.std.empty()) keys.push_back("data.std=" + list(channels.std));
  };
  const std::string name =
      given.origin.contains("model.name") ? given.model.name : model_name_of(file);
  add("model.name", name);
  if (file.metadata.contains("model")) {
    LoadedModel m;
    read_header(file, m);
    add_channels({m.pictures.mean, m.pictures.std});
    add("data.filter", m.pictures.filter == data::Shrink::area ? "area" : "bilinear");
  } else if (models::info(name).image_size > 64) {
    add_channels(kImageNet);
  }
  return keys;
}

LoadedModel load_model(const std::string& path, DType dtype, const Config& given) {
  const nn::Weights file = nn::read_weights(path);
  check<IoError>(!file.metadata.contains("layout"), path,
                 ": a checkpoint of one worker, for train --resume; the model of a finished run is "
                 "its model.safetensors");
  LoadedModel m;
  m.notes = file.notes;
  if (file.metadata.contains("model")) {
    read_header(file, m);
    override_header(given, path, m);
  } else {
    assume(file, given, m);
  }
  m.pictures.dtype = dtype;
  m.net = models::make(m.name, {.classes = static_cast<i64>(m.classes.size())});
  nn::load(file, *m.net);
  if (dtype != DType::f32)
    m.params = std::make_unique<FlatParams>(m.net->parameters(), m.net->buffers(),
                                            FlatOptions{.compute = dtype});
  m.net->eval();
  return m;
}

void name_classes(LoadedModel& m, const std::string& path) {
  std::ifstream in(path);
  check<IoError>(in.good(), path, ": cannot open this file of class names");
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    names.push_back(line);
  }
  check<IoError>(names.size() == m.classes.size(), path, " has ", names.size(),
                 " names of classes, the model has ", m.classes.size(), "; wanted one a line");
  m.classes = std::move(names);
  m.has_class_names = true;
}

nn::Weights initial_weights(const Config& c) {
  try {
    return nn::read_weights(c.model.init);
  } catch (const IoError& e) {
    fail<IoError>("model.init: ", e.what());
  }
}

namespace {

// Loads into the module what fits, and returns a line that says what does not.
std::string load_initial(const Config& c, nn::Module& net) {
  const nn::Weights file = initial_weights(c);
  const nn::Fit fit = nn::load_what_fits(file, net);
  std::string line = fmt::format("{}: {} of {} tensors of the model", file.file, fit.fitting.size(),
                                 net.state().size());
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) line += fmt::format("; {}: {}", what, nn::first_three(names));
  };
  add("drawn, since their shapes differ", fit.misshapen);
  add("drawn, since the file lacks them", fit.missing);
  add("not in the model", fit.extra);
  for (const std::string& note : file.notes) line += "; " + note;
  return line;
}

template <class F>
void naming(const char* key, F&& f) {
  try {
    f();
  } catch (const ConfigError& e) {
    fail<ConfigError>(key, ": ", e.what());
  }
}

}  // namespace

std::unique_ptr<nn::Module> model_to_train(const Config& c, i64 classes, bool from_start,
                                           std::vector<std::string>& notes) {
  auto net = models::make(c.model.name, {.classes = c.classes_or(classes),
                                         .seed = static_cast<std::uint64_t>(c.train.seed)});
  if (!c.model.init.empty() && from_start) notes.push_back("init     " + load_initial(c, *net));
  freeze_and_check(c, *net, notes);
  return net;
}

void freeze_and_check(const Config& c, nn::Module& net, std::vector<std::string>& notes) {
  const std::vector<NamedTensor> all = net.parameters();
  if (!c.model.freeze.empty()) {
    const nn::Selection frozen(c.model.freeze);
    naming("model.freeze", [&] { frozen.check_used(nn::names_of(all)); });
    net.freeze(frozen);
  }
  const std::vector<NamedTensor> trained = net.parts().parameters;
  check<ConfigError>(!trained.empty(), "model.freeze = \"", c.model.freeze,
                     "\" leaves no parameter to train");
  if (trained.size() < all.size())
    notes.push_back(fmt::format("frozen   {} of {} parameter tensors; trained: {}",
                                all.size() - trained.size(), all.size(),
                                nn::first_three(nn::names_of(trained))));
  naming("optim.factors", [&] {
    for (const nn::RateFactor& f : rate_factors(c))
      f.which.check_used(nn::names_of(trained), nn::names_of(all));
  });
}

}  // namespace gossamer::apps
