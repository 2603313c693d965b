// Settings: what a struct says of its members holds for reading, checking and printing any of them.
#include "gossamer/core/setting.h"

#include <gtest/gtest.h>

namespace gossamer {
namespace {

struct Basis {
  i64 period = 8;
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.period, Setting{.name = "period",
                           .about = "steps between two averages",
                           .range = Range::from_to(1, 1000000),
                           .unit = "steps"});
  }
};

struct Example : Basis {
  i64 pieces = 1;
  double rate = .7;
  bool overlap = true;
  std::string target = "plateau";
  std::optional<double> momentum;
  std::vector<double> fractions{.25};
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    Basis::visit(self, f);
    const auto most = static_cast<double>(self.period);
    f(self.pieces, Setting{.name = "pieces", .range = Range::from_to(1, most)});
    f(self.rate, Setting{.name = "rate", .range = Range::above_zero_to(10)});
    f(self.overlap, Setting{.name = "overlap", .agree = false});
    f(self.target, Setting{.name = "target", .choices = {"plateau", "online"}});
    f(self.momentum, Setting{.name = "momentum", .range = Range::from_below(0, 1)});
    f(self.fractions,
      Setting{.name = "fractions", .range = Range::at_least(0).said("numbers of 0 or more")});
  }
};

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Setting, AStructListsItsMembersAndThoseOfItsBase) {
  std::string all;
  for (const auto& [setting, value] : settings_of(Example{}))
    all += setting.name + "=" + setting_text(value) + " ";
  EXPECT_EQ(all,
            "period=8 pieces=1 rate=0.7 overlap=true target=plateau momentum=auto "
            "fractions=[0.25] ");
}

TEST(Setting, WhatIsPrintedReadsBackAsTheSameValue) {
  const SettingValue values[] = {true,
                                 i64{-12},
                                 .1,
                                 1e-300,
                                 std::string("a b"),
                                 std::optional<i64>(),
                                 std::optional<i64>(3),
                                 std::optional<double>(.25),
                                 std::vector<double>{},
                                 std::vector<double>{.1, 2},
                                 std::vector<std::string>{"a", "b"}};
  for (const SettingValue& value : values) {
    const auto again = read_setting(setting_text(value), value);
    ASSERT_TRUE(again) << setting_text(value);
    EXPECT_EQ(*again, value) << setting_text(value);
  }
}

TEST(Setting, TextOfAnotherTypeIsNoValue) {
  for (const auto& [text, like] :
       std::vector<std::pair<const char*, SettingValue>>{{"yes", false},
                                                         {"1.5", i64{}},
                                                         {"", i64{}},
                                                         {"1x", 0.},
                                                         {"automatic", std::optional<double>()},
                                                         {"[1, x]", std::vector<double>()},
                                                         {"1,", std::vector<double>()}})
    EXPECT_FALSE(read_setting(text, like)) << text;
}

TEST(Setting, RangesSayWhatTheyHold) {
  const auto at = [](const Range& range, double v) {
    const auto wanted = setting_wanted({.name = "x", .range = range}, v);
    return wanted.value_or("");
  };
  EXPECT_EQ(at(Range::from_to(1, 1000000), 0), "1 to 1000000");
  EXPECT_EQ(at(Range::from_to(1, 1000000), 1000000), "");
  EXPECT_EQ(at(Range::from_below(0, 1), 1), "0 to below 1");
  EXPECT_EQ(at(Range::from_below(0, 1), 0), "");
  EXPECT_EQ(at(Range::above_zero(), 0), "above 0");
  EXPECT_EQ(at(Range::above_zero_to(10), 10.5), "above 0, at most 10");
  EXPECT_EQ(at(Range::above_zero_to(10), 10), "");
  EXPECT_EQ(at(Range::between(0, 1), 1), "above 0 and below 1");
  EXPECT_EQ(at(Range::at_least(0).said("not negative"), -1), "not negative");
  EXPECT_EQ(at({}, NAN), "a finite number");
  EXPECT_EQ(at(Range::at_least(0), INFINITY), "0 or more");
}

TEST(Setting, SentencesNameOtherSettingsAsTheReaderKnowsThem) {
  const auto key = [](const std::string& name) { return "train." + name; };
  EXPECT_EQ(with_setting_names("1 to {period}, 8; see {pieces}", key),
            "1 to train.period, 8; see train.pieces");
  EXPECT_EQ(with_setting_names("none", key), "none");
  EXPECT_EQ(with_setting_names("open { only", key), "open { only");
}

TEST(Setting, AListMayHaveANumberOfEntriesAndAnOrder) {
  const Setting setting{.name = "phases",
                        .range = Range::between(0, 1).said("two ascending fractions"),
                        .entries = 2,
                        .ascending = true};
  const auto wanted = [&](std::vector<double> v) {
    return setting_wanted(setting, std::move(v)).value_or("");
  };
  EXPECT_EQ(wanted({.25, .5}), "");
  for (const auto& wrong : std::vector<std::vector<double>>{{.5}, {.5, .25}, {.5, 1}})
    EXPECT_EQ(wanted(wrong), "two ascending fractions");
}

TEST(Setting, GivenValuesMoveTheRangesThatDependOnThem) {
  const auto pieces = settings_with<Example>(Settings().set("period", 3).set("rate", "much")).at(1);
  EXPECT_EQ(pieces.setting.range.most, 3);
}

TEST(Setting, ValuesByNameFillAStruct) {
  const auto made = Settings()
                        .set("period", 4)
                        .set("rate", 1)
                        .set("momentum", "0.5")
                        .set("target", "online")
                        .set("fractions", std::vector<double>{.5, 1})
                        .as<Example>("diloco");
  EXPECT_EQ(made.period, 4);
  EXPECT_EQ(made.rate, 1);
  EXPECT_EQ(made.momentum, .5);
  EXPECT_EQ(made.target, "online");
  EXPECT_EQ(made.fractions, (std::vector<double>{.5, 1}));
  EXPECT_TRUE(made.overlap);
  EXPECT_EQ(settings_of(Settings().set_all(made).as<Example>("again")).at(2).value,
            SettingValue(1.));
}

TEST(Setting, ValuesThatAStructCannotTakeAreNamed) {
  const auto with = [](const std::string& name, const auto& value) {
    return error_of([&] { Settings().set(name, value).template as<Example>("diloco"); });
  };
  EXPECT_EQ(with("period", 0), "diloco: period 0; it must be 1 to 1000000");
  EXPECT_EQ(with("pieces", 9), "diloco: pieces 9; it must be 1 to 8");
  EXPECT_EQ(with("momentum", 1), "diloco: momentum 1; it must be \"auto\" or 0 to below 1");
  EXPECT_EQ(with("target", "onlin"),
            "diloco: target onlin; it must be one of plateau, online; did you mean \"online\"?");
  EXPECT_EQ(with("period", 1.5), "diloco: period wants a whole number, not 1.5");
  EXPECT_EQ(with("overlap", 1), "diloco: overlap wants true or false, not 1");
  EXPECT_EQ(with("fractions", std::vector<double>{1, -1}),
            "diloco: fractions [1, -1]; it must be numbers of 0 or more");
  EXPECT_EQ(with("perod", 1),
            "diloco has no setting perod; it has: period, pieces, rate, overlap, target, momentum, "
            "fractions");
}

}  // namespace
}  // namespace gossamer
