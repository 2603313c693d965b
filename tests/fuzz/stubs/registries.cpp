// A configuration without the methods and models that exist: the fuzz target of its reader would
// else need all of dist and models. One setting of each type stands for those of methods.
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/method.h"
#include "gossamer/models/registry.h"

namespace gossamer {

namespace dist {
const std::string& default_method() {
  static const std::string name = "a2cid2";
  return name;
}
std::vector<std::string> method_names() { return {default_method()}; }
std::string methods_that(const std::function<bool(const MethodTraits&)>&, const std::string&) {
  return default_method();
}
std::vector<NamedSetting> method_settings(const Settings&) {
  const std::vector<SettingValue> values{i64{1},
                                         0.5,
                                         std::string("ring"),
                                         false,
                                         std::optional<i64>(),
                                         std::optional<double>(),
                                         std::vector<double>{0.5}};
  std::vector<NamedSetting> all;
  for (const SettingValue& value : values)
    all.push_back({Setting{.name = "setting" + std::to_string(all.size())}, value});
  all.push_back({Setting{.name = "control.phases", .of_run = true}, std::vector<double>()});
  return all;
}
std::vector<NamedSetting> method_settings(const std::string&, const Settings& given) {
  return method_settings(given);
}
std::string stepping_method(const std::string& name, const Settings&) { return name; }
std::vector<std::string> rounds_names() { return {"ring"}; }
}  // namespace dist

namespace models {
std::vector<std::string> names(const std::string&) { return {"resnet8-cifar"}; }
std::vector<std::string> tasks() { return {"pictures", "language", "translation"}; }
}  // namespace models

}  // namespace gossamer
