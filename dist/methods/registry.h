// The registry: one row for each method. make_method(), the checks before a run, configuration,
// help, the agreement of workers and the simulator ask it; a name of a method stands nowhere else.
// README.md: how to add one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/method_context.h"
#include "gossamer/dist/rounds/step.h"

namespace gossamer::dist {

// How a method without rounds differs from A2CiD2 (gossip/a2cid2.h).
struct GossipFormula {
  bool accelerated = true;  // false: no twin, eta = 0
  bool tracks = false;      // with a tracker of the mean gradient (gossip/tracking.h)
  // Events in the order of the code that was published with it; simulated only.
  bool published_order = false;
};

struct MethodRow {
  MethodTraits traits;
  // The method's own settings, with defaults where nothing is given, in the order of pages.
  std::function<std::vector<NamedSetting>(const Settings& given)> settings = none;
  // The settings that the simulator takes: some of these, and others.
  std::function<std::vector<NamedSetting>(const Settings& given)> simulated_settings = none;
  // ConfigError for settings that it can't take.
  std::function<void(const Settings&)> check = [](const Settings&) {};
  // ConfigError for rounds that it can't take.
  std::function<void(const Rounds&)> check_rounds = [](const Rounds&) {};
  std::function<std::unique_ptr<Method>(const MethodContext&)> make{};  // none: simulated only
  // What a worker does in a step, if the method has rounds.
  std::function<std::unique_ptr<RoundFormula>(const Settings&)> formula{};
  GossipFormula gossip{};

  static std::vector<NamedSetting> none(const Settings&) { return {}; }
};

// A row whose settings are those of Options (core/setting.h). Without make it can't train.
template <class Options>
MethodRow row_with(MethodTraits traits) {
  MethodRow row;
  row.settings = settings_with<Options>;
  row.check = [name = traits.name](const Settings& s) { s.as<Options>(name); };
  row.traits = std::move(traits);
  return row;
}
struct NoSettings {
  template <class Self, class F>
  static void visit(Self&, F&&) {}
};
std::unique_ptr<Method> make_of_formula(const MethodTraits&, const MethodContext&,
                                        std::unique_ptr<RoundFormula>);
// The same for a method that is its formula: make_formula(options) makes it, and the workers of a
// run follow it with all parameters at once (synchronous.h).
template <class Options, class F>
MethodRow row_of_formula(MethodTraits traits, F make_formula) {
  MethodRow row = row_with<Options>(traits);
  row.simulated_settings = row.settings;
  row.formula = [name = traits.name, make_formula](const Settings& s) {
    return make_formula(s.as<Options>(name));
  };
  row.make = [traits, formula = row.formula](const MethodContext& with) {
    return make_of_formula(traits, with, formula(with.options.settings));
  };
  return row;
}
// ConfigError unless all rounds are the same, one; why: what is wrong with others.
void check_same_rounds(const std::string& method, const Rounds&, const std::string& why);
// All rows, in the order in which pages list them.
const std::vector<MethodRow>& method_rows();
// ConfigError lists the names of methods that train.
const MethodRow& method_row(const std::string& name);

}  // namespace gossamer::dist
