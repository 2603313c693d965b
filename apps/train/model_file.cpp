// See model_file.h.
#include "gossamer/apps/train/model_file.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "gossamer/apps/json.h"
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

}  // namespace

std::map<std::string, std::string> model_metadata(const Config& c, const Pictures& p,
                                                  const std::vector<std::string>& classes) {
  return {{"format", "pt"},
          {"model", c.model.name},
          {"classes", lines(classes)},
          {"image_size", std::to_string(p.size)},
          {"resize", std::to_string(p.resize)},
          {"filter", c.data.filter},
          {"mean", lines(p.mean)},
          {"std", lines(p.std)}};
}

LoadedModel load_model(const std::string& path, DType dtype) {
  const auto meta = nn::read_metadata(path);
  const auto get = [&](const std::string& key) {
    const auto it = meta.find(key);
    check<IoError>(it != meta.end(), path, ": the header has no \"", key,
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
  LoadedModel m;
  m.name = get("model");
  const auto known = models::list();
  check<IoError>(std::ranges::any_of(known, [&](const auto& info) { return info.name == m.name; }),
                 path, ": the model in the header is \"", m.name,
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
  if (const auto filter = meta.find("filter"); filter != meta.end()) {
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
  m.pictures.dtype = dtype;
  m.net = models::make(m.name, {.classes = static_cast<i64>(m.classes.size())});
  nn::load(path, *m.net);
  if (dtype != DType::f32)
    m.params = std::make_unique<FlatParams>(m.net->parameters(), m.net->buffers(),
                                            FlatOptions{.compute = dtype});
  m.net->eval();
  return m;
}

}  // namespace gossamer::apps
