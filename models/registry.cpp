// See registry.h.
#include "gossamer/models/registry.h"

#include <algorithm>

#include "gossamer/core/ops/normalize.h"
#include "gossamer/core/text/spelling.h"
#include "gossamer/nn/init.h"

namespace gossamer::models {

// The table: each family is defined in its own file.
Family resnet_family();
Family vgg_family();
Family gpt2_family();
Family llama_family();
Family transformer_family();

const std::vector<Family>& families() {
  static const auto& rows = *new std::vector<Family>{resnet_family(), vgg_family(), gpt2_family(),
                                                     llama_family(), transformer_family()};
  return rows;
}

namespace {

const ModelInfo* find(const Family& family, const std::string& model) {
  const auto at = std::ranges::find(family.models, model, &ModelInfo::name);
  return at == family.models.end() ? nullptr : &*at;
}

}  // namespace

std::vector<std::string> given_options(const ModelOptions& options) {
  const auto usual = settings_of(ModelOptions()), given = settings_of(options);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i].value != usual[i].value) out.push_back(given[i].setting.name);
  return out;
}

bool Family::takes(const std::string& option) const {
  return option == "classes" || std::ranges::find(options, option) != options.end();
}

std::vector<std::string> tasks() {
  std::vector<std::string> out;
  for (const Family& family : families())
    if (std::ranges::find(out, family.task) == out.end()) out.push_back(family.task);
  return out;
}

std::vector<ModelInfo> list(const std::string& task) {
  std::vector<ModelInfo> out;
  for (const Family& family : families())
    if (task.empty() || family.task == task)
      out.insert(out.end(), family.models.begin(), family.models.end());
  return out;
}

std::vector<std::string> names(const std::string& task) {
  std::vector<std::string> out;
  for (const ModelInfo& model : list(task)) out.push_back(model.name);
  return out;
}

const Family& family_of(const std::string& model, const std::string& task) {
  const std::vector<std::string> known = names(task);
  for (const Family& family : families()) {
    if (!find(family, model)) continue;
    check<ConfigError>(task.empty() || family.task == task, "model \"", model,
                       "\" is for task=", family.task, "; known for ", task, " are ",
                       alternatives(known));
    return family;
  }
  const std::vector<std::string> near = nearest(model, known);
  fail<ConfigError>("unknown model \"", model, "\"; ",
                    near.empty() ? "" : "did you mean " + alternatives(near, "\"") + "? ",
                    "known are ", alternatives(known));
}

const ModelInfo& info(const std::string& model, const std::string& task) {
  return *find(family_of(model, task), model);
}

std::unique_ptr<nn::Module> make(const std::string& model, const ModelOptions& options) {
  const Family& family = family_of(model);
  check_settings(options, "model " + model);
  for (const std::string& given : given_options(options))
    check<ConfigError>(
        family.takes(given), "model ", model, " takes no ", given, "; its family, ", family.name,
        ", takes ",
        family.options.empty() ? "only the number of classes" : alternatives(family.options));
  check<ConfigError>(options.channels >= 1 && options.channels <= kMostChannels, "model ", model,
                     ": images of ", options.channels, " channels; wanted 1 to ", kMostChannels);
  check<ConfigError>(options.channels == 3 || family.task == "pictures", "model ", model,
                     " reads ids, so it takes no number of channels");
  nn::seed_initialisation(options.seed);
  return family.make(model, options);
}

std::optional<KnownState> recognise(const std::vector<NamedTensor>& state) {
  for (const Family& family : families())
    if (family.recognise)
      if (auto known = family.recognise(state)) return known;
  return std::nullopt;
}

}  // namespace gossamer::models
