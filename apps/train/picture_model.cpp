// See picture_model.h.
#include "gossamer/apps/train/picture_model.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/data/class_difference.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/inference.h"
#include "gossamer/nn/train/freezing.h"

namespace gossamer::apps {
namespace {

// What the command line says wins; a CONFIG.toml may be that of another run.
void override_header(const Config& given, const std::string& file, LoadedModel& m) {
  const auto said = [&](const char* key) { return said_by_hand(given, key); };
  check<ConfigError>(!said("model.name") || given.model.name == m.name,
                     "model.name=", given.model.name, ": ", file, " says in its header that it is ",
                     m.name);
  Config c;
  c.model.name = m.name;
  c.data.eval_size = said("data.eval_size") ? given.data.eval_size
                     : said("data.size")    ? given.data.size
                                            : m.pictures.size;
  c.data.resize = said("data.resize")
                      ? given.data.resize
                      : resize_for(m.pictures, static_cast<int>(c.data.eval_size.value_or(0)));
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
  for (i64 i = 0; i < models::head_of(file).shape(0); ++i) m.classes.push_back(std::to_string(i));
  m.has_class_names = false;
  m.pictures = pictures(c);
  m.notes.push_back(
      fmt::format("{}: taken for {} with {} classes; pictures: shorter side {}, centre {}, mean "
                  "{:g} {:g} {:g}, std {:g} {:g} {:g}",
                  file.file, m.name, m.classes.size(), m.pictures.resize, m.pictures.size,
                  m.pictures.mean[0], m.pictures.mean[1], m.pictures.mean[2], m.pictures.std[0],
                  m.pictures.std[1], m.pictures.std[2]));
}

std::string name_of(const nn::Weights& file, const Config& given) {
  if (given.origin.contains("model.name")) return given.model.name;
  try {
    return models::model_of(file);
  } catch (const IoError& e) {
    fail<IoError>(
        e.what(),
        "; if it is one of them, say model.name=NAME, or model.init_rename=OLD=NEW where its "
        "names are others");
  }
}

}  // namespace

models::ModelHeader header_of(const std::string& model, const Pictures& p,
                              const std::vector<std::string>& classes) {
  return {model,
          classes,
          {p.size,
           p.resize,
           p.filter == data::Shrink::area ? "area" : "bilinear",
           {p.mean.begin(), p.mean.end()},
           {p.std.begin(), p.std.end()}}};
}

std::map<std::string, std::string> model_metadata(const std::string& model, const Pictures& p,
                                                  const std::vector<std::string>& classes) {
  return models::metadata_of(header_of(model, p, classes));
}

std::vector<std::string> keys_of(const nn::Weights& file, const Config& given) {
  std::vector<std::string> keys;
  const auto add = [&](const std::string& key, const std::string& value) {
    if (!given.origin.contains(key)) keys.push_back(key + "=" + value);
  };
  const auto add_channels = [&](const models::Preprocessing& channels) {
    const auto list = [](const std::vector<float>& v) {
      const std::array<float, 3> rgb = of_rgb(v);
      return fmt::format("{},{},{}", rgb[0], rgb[1], rgb[2]);
    };
    // an empty list in a file of all keys says as little as none
    if (given.data.mean.empty()) keys.push_back("data.mean=" + list(channels.mean));
    if (given.data.std.empty()) keys.push_back("data.std=" + list(channels.std));
  };
  const std::string name = name_of(file, given);
  add("model.name", name);
  if (const auto header = models::header_of(file)) {
    add_channels(header->pictures);
    add("data.filter", header->pictures.filter);
  } else if (models::info(name).image_size > 64) {
    add_channels(models::usual_preprocessing(name));
  }
  return keys;
}

std::vector<std::string> model_keys() {
  return {"model.name",  "data.size", "data.eval_size", "data.resize",
          "data.filter", "data.mean", "data.std"};
}

LoadedModel load_model(const ModelSource& source, DType dtype, const Config& given, Device device) {
  const nn::Weights file = models::picture_weights(read_model(source));
  LoadedModel m;
  m.notes = file.notes;
  if (const auto header = models::header_of(file)) {
    m.name = header->model;
    m.classes = header->classes;
    const models::Preprocessing& p = header->pictures;
    m.pictures.size = p.size;
    m.pictures.resize = p.resize;
    m.pictures.filter = shrink_of(p.filter);
    m.pictures.mean = of_rgb(p.mean);
    m.pictures.std = of_rgb(p.std);
    override_header(given, source.name, m);
  } else {
    assume(file, given, m);
  }
  m.pictures.dtype = dtype;
  m.pictures.device = device;
  m.net = models::make_loaded(m.name, m.classes.size(), file);
  check_finite(*m.net, file.file);
  m.params = nn::put_on(*m.net, device, dtype);
  return m;
}

void name_classes(LoadedModel& m, const std::string& path) {
  std::ifstream in(path);
  check<IoError>(in.good(), path, ": cannot open this file of class names");
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    names.push_back(printable(line));
  }
  check<IoError>(names.size() == m.classes.size(), path, " has ", names.size(),
                 " names of classes, the model has ", m.classes.size(), "; wanted one a line");
  m.classes = std::move(names);
  m.has_class_names = true;
}

nn::Weights initial_weights(const Config& c) {
  try {
    nn::Weights file = read_model(find_model(c.model.init, weights_options(c)));
    nn::check_finite(file);
    return models::family_of(c.model.name).weights(std::move(file));
  } catch (const IoError& e) {
    fail<IoError>("model.init: ", e.what());
  }
}

namespace {

constexpr const char* kHead = "fc.";  // models::picture_weights()

bool only_numbers(const std::vector<std::string>& classes) {
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const std::string& name = classes[i];
    const std::string number = std::to_string(i);
    if (name.find_first_not_of("0123456789") != std::string::npos || !name.ends_with(number) ||
        name.find_first_not_of('0') < name.size() - number.size())
      return false;
  }
  return true;
}

// A row of the last layer belongs to a class by its name. Rows that belong to no class of the data
// leave the file, with all others of that layer. Returns what was done: "; …", or nothing.
std::string match_head(nn::Weights& file, const std::vector<std::string>& classes) {
  const auto header = models::header_of(file);
  if (!header || header->classes == classes || header->classes.size() != classes.size()) return {};
  const std::vector<std::string>& known = header->classes;
  if (only_numbers(known) || only_numbers(classes))
    return "; its classes are taken in their order, since one of the two has only numbers for them";
  const auto of_head = [](const NamedTensor& t) { return t.name.starts_with(kHead); };
  if (!std::ranges::is_permutation(known, classes)) {
    std::erase_if(file.tensors, of_head);
    return "; the last layer is drawn, since the classes differ" +
           data::class_difference(known, "the file", classes, "the data");
  }
  for (NamedTensor& t : file.tensors) {
    if (!of_head(t)) continue;
    Tensor rows = t.tensor.clone();
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const auto to = static_cast<i64>(i),
                 from = std::ranges::find(known, classes[i]) - known.begin();
      rows.slice(to, to + 1).copy_from(t.tensor.slice(from, from + 1));
    }
    t.tensor = rows;
  }
  return "; the rows of the last layer follow the names of the classes, which stand in another "
         "order";
}

// Loads into the module what fits, and returns a line that says what does not.
std::string load_initial(const Config& c, const std::vector<std::string>& classes,
                         nn::Module& net) {
  nn::Weights file = initial_weights(c);
  const std::string head = match_head(file, classes);
  nn::Fit fit = nn::load_what_fits(file, net);
  if (!head.empty())
    std::erase_if(fit.missing, [](const std::string& name) { return name.starts_with(kHead); });
  std::string line = fmt::format("{}: {} of {} tensors of the model", file.file, fit.fitting.size(),
                                 net.state().size()) +
                     head;
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

std::unique_ptr<nn::Module> model_to_train(const Config& c, const std::vector<std::string>& classes,
                                           bool from_start, std::vector<std::string>& notes) {
  models::ModelOptions options = model_options(c);
  if (!options.classes) options.classes = static_cast<i64>(classes.size());
  auto net = models::make(c.model.name, options);
  check_sides(c, *net);
  if (!c.model.init.empty() && from_start)
    notes.push_back("init     " + load_initial(c, classes, *net));
  freeze_and_check(c, *net, notes);
  return net;
}

void check_sides(const Config& c, nn::Module& net) {
  const NoGrad no_grad;
  const Pictures p = pictures(c);
  const i64 usual = models::info(c.model.name).image_size;
  const auto check_side = [&](const char* key, i64 side) {
    if (side == usual) return;
    try {
      net(Tensor::zeros({1, side, side, 3}));
    } catch (const ShapeError& e) {
      fail<ConfigError>(key, " = ", side, ": ", e.what());
    }
  };
  net.eval();
  check_side("data.size", p.train_size);
  for (const i64 side : c.data.sizes) check_side("data.sizes", side);
  if (p.size != p.train_size) check_side("data.eval_size", p.size);
  net.train();
}

void freeze_and_check(const Config& c, nn::Module& net, std::vector<std::string>& notes) {
  const std::vector<NamedTensor> all = net.parameters();
  if (!c.model.freeze.empty()) naming("model.freeze", [&] { nn::freeze(net, c.model.freeze); });
  const std::vector<NamedTensor> trained = net.parts().parameters;
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
