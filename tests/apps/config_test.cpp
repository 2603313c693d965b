// The configuration: reading, places in error texts, proposals, writing back.
#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/apps/config_check.h"
#include "gossamer/apps/config_keys.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/method.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}
std::string error_of_text(const std::string& text) {
  return error_of([&] { parse_config(text, "file.toml"); });
}

TEST(Config, ReadsEveryKindOfValue) {
  const Config c = parse_config(
      "[model]\nclasses = 7\n[data]\ntrain = [\"a.tar\", \"b.tar\"]\nval = \"v\"\n[train]\nrate = "
      "2\nbatch = 64\n[optim]\nnesterov = false\n",
      "f.toml");
  EXPECT_EQ(c.model.classes, 7);
  EXPECT_EQ(c.data.train, (std::vector<std::string>{"a.tar", "b.tar"}));
  EXPECT_EQ(c.data.val, std::vector<std::string>{"v"});
  EXPECT_EQ(c.train.rate, 2);
  EXPECT_EQ(c.train.batch, 64);
  EXPECT_FALSE(c.optim.nesterov);
}

TEST(Config, BytesThatAreNoTextComeBack) {
  Config c;
  const std::string path = "/data/caf\xE9/\xEE\xBF\xA9 \"\x7F\n\\";
  c.data.train = {path, "plain"};
  c.run.name = c.model.init = path;
  const std::string toml = to_toml(c);
  EXPECT_THAT(toml, HasSubstr("caf\xEE\xBF\xA9/"));
  const Config back = parse_config(toml, "config.toml");
  EXPECT_EQ(back.data.train, c.data.train);
  EXPECT_EQ(back.run.name, path);
  EXPECT_EQ(back.model.init, path);
  set_key(c, "data.val=[\"/caf\xE9\"]");
  EXPECT_EQ(c.data.val, std::vector<std::string>{"/caf\xE9"});
}

TEST(Config, NamesAnUnknownKeyWithItsPlaceAndTheNearestKey) {
  EXPECT_EQ(error_of_text("[train]\n\n        btach = 32\n"),
            "file.toml:3:9: unknown key \"train.btach\"; did you mean \"train.batch\"?");
  EXPECT_EQ(error_of_text("[trian]\nbatch = 32\n"),
            "file.toml:2:1: unknown key \"trian.batch\"; did you mean \"train.batch\"?");
  EXPECT_THAT(error_of_text("[optim]\nlr = 0.1\n"), HasSubstr("optim.learning_rate"));
  EXPECT_THAT(error_of_text("xyzzy = 1\n"), HasSubstr("file.toml:1:1: unknown key \"xyzzy\""));
  EXPECT_THAT(error_of_text("[train.deep]\nx = 1\n"), HasSubstr("unknown key \"train.deep\""));
}

TEST(Config, NotesSettingsThatTheMethodDoesNotHave) {
  const Config c = load_config({"train.method=dpsgd", "train.equal_weight=true", "train.period=3",
                                "train.damp=1", "optim.momentum=0.5", "train.rate=2"});
  ASSERT_EQ(c.notes.size(), 3u) << "one is as usual anyway, one is of no method";
  EXPECT_THAT(c.notes, Contains("command line: train.equal_weight has no effect with train.method "
                                "= dpsgd; it is for a2cid2, adpsgd"));
  EXPECT_THAT(c.notes, Contains(AllOf(HasSubstr("train.period has no effect"), HasSubstr("diloco"),
                                      HasSubstr("local-sgd"))));
  EXPECT_THAT(c.notes, Contains("command line: train.rate has no effect with train.method = dpsgd; "
                                "it is for a2cid2, adpsgd, async-tracking"));
  for (const char* method : {"a2cid2", "adpsgd"})
    EXPECT_EQ(load_config({std::string("train.method=") + method, "train.equal_weight=true",
                           "train.rate=2"})
                  .notes,
              std::vector<std::string>());
  // consensus control hands on the settings of the method that it controls
  EXPECT_EQ(load_config({"train.method=consensus-control", "train.period=3"}).notes,
            std::vector<std::string>());
}

TEST(Config, AcceptsRetiredKeysAndNotesThatTheyHaveNoEffect) {
  Config c = parse_config("[data]\ndecoder = \"nvjpeg\"\nval = \"v\"\n", "old.toml");
  set_key(c, "data.decoder=cpu");
  EXPECT_EQ(c.data.val, std::vector<std::string>{"v"});
  const std::string note =
      "data.decoder no longer has an effect: JPEG files are always decoded on the CPU";
  EXPECT_EQ(c.notes, (std::vector<std::string>{"old.toml:2:1: " + note, "command line: " + note}));
  EXPECT_EQ(to_toml(c).find("decoder"), std::string::npos);
  for (const KeyText& key : key_texts(c))
    for (const RetiredKey& retired : kRetiredKeys) EXPECT_NE(key.name, retired.key);
}

TEST(Config, WorkersMustHaveAllKeysAlikeButThoseOfOneMachine) {
  std::vector<std::string> common;
  Config c;
  set_key(c, "optim.learning_rate=100");
  for (const auto& [key, value] : common_values(c)) {
    common.push_back(key);
    if (key == "optim.learning_rate") {
      EXPECT_EQ(value, "100");
    }
  }
  for (const char* key : {"optim.learning_rate", "optim.schedule", "train.seed", "model.name",
                          "data.augment", "train.ema", "eval.of", "dist.payload"})
    EXPECT_THAT(common, ::testing::Contains(key));
  for (const char* key : {"data.threads", "data.cpus", "train.device", "train.threads", "run.dir"})
    EXPECT_THAT(common, ::testing::Not(::testing::Contains(key)));
}

TEST(Config, NamesAWrongTypeWithItsPlace) {
  EXPECT_EQ(error_of_text("[train]\nbatch = \"many\"\n"),
            "file.toml:2:9: train.batch wants a whole number, not the string 'many'");
  EXPECT_THAT(error_of_text("[train]\nbatch = 1.5\n"),
              HasSubstr("file.toml:2:9: train.batch wants a whole number"));
  EXPECT_THAT(error_of_text("[optim]\nnesterov = 1\n"),
              HasSubstr("file.toml:2:12: optim.nesterov wants true or false"));
  EXPECT_THAT(error_of_text("[model]\nname = [1]\n"),
              HasSubstr("model.name wants a string, not the array"));
  EXPECT_THAT(error_of_text("[data]\ntrain = [\"a\", 3]\n"),
              HasSubstr("data.train wants a string"));
}

TEST(Config, ReportsBrokenTomlWithItsPlace) {
  EXPECT_THAT(error_of_text("[run]\nname = über\n"),
              HasSubstr("file.toml:2:8: a character that is not ASCII; text stands in quotes"));
  for (const char* number : {"-ü", "1=ü", "1['ü'", "[1,-['ü'", "1.'ü'", "'a' ü"})
    EXPECT_THAT(error_of_text("[run]\nname = " + std::string(number) + "\n"),
                HasSubstr("file.toml:2:"))
        << number;
  EXPECT_THAT(error_of_text("[run]\nname = \"\\ü\"\n"), HasSubstr("file.toml:2:"));
  EXPECT_THAT(error_of_text("[run]\nname = 'a\xFF'\n"),
              HasSubstr("file.toml:2: the line is no UTF-8"));
  EXPECT_THAT(error_of_text("[train]\nbatch = \n"), HasSubstr("file.toml:2:"));
  EXPECT_THAT(error_of_text("[train\n"), HasSubstr("file.toml:1:"));
}

// toml++ 3.3 has no end at a letter beyond ASCII behind a line that ends with a backslash.
TEST(Config, LettersBeyondAsciiStandInAnyText) {
  const auto name = [](const std::string& text) {
    return parse_config("[run]\nname = " + text + "\n", "file.toml").run.name;
  };
  EXPECT_EQ(name("'über' # ü"), "über");
  EXPECT_EQ(name("\"~7e\\u00fcü\""), "~7eüü");
  EXPECT_EQ(name("\"\\u007ec3^ü\""), "~c3^ü");
  EXPECT_EQ(name("\"\"\"\na\\\n  ü\"\"\""), "aü");
  EXPECT_EQ(name("'''\nü'''"), "ü");
  EXPECT_EQ(parse_config("\xEF\xBB\xBF[data]\ntrain = ['ü', \"é\"]", "file.toml").data.train,
            (std::vector<std::string>{"ü", "é"}));
  EXPECT_THAT(error_of_text("[run]\n\"über\" = 1\n"),
              HasSubstr("file.toml:2:1: unknown key \"run.über\""));
  EXPECT_THAT(error_of_text("train = {method = 'üü', batch = 'é'}"),
              HasSubstr("file.toml:1:33: train.batch wants a whole number, not the string 'é'"));
  EXPECT_THAT(error_of_text("[run]\nname = 'ü~^`|!$%&*/;<>?@()'"),
              HasSubstr("every sign of ASCII is in this file"));
}

TEST(Config, OverridesWinAndAreChecked) {
  Config c;
  set_key(c, "train.batch=64");
  set_key(c, "data.train=a.tar,b.tar");
  set_key(c, "optim.milestones=0.3,0.6");
  set_key(c, "data.size=auto");
  set_key(c, "run.name=a=b");
  EXPECT_EQ(c.train.batch, 64);
  EXPECT_EQ(c.data.train.size(), 2u);
  EXPECT_EQ(c.optim.milestones, (std::vector<Amount>{{0.3}, {0.6}}));
  EXPECT_EQ(c.run.name, "a=b");
  EXPECT_EQ(error_of([&] { set_key(c, "train.btach=1"); }),
            "command line: unknown key \"train.btach\"; did you mean \"train.batch\"?");
  EXPECT_EQ(error_of([&] { set_key(c, "train.batch=abc"); }),
            "command line: train.batch wants a whole number, not \"abc\"");
  EXPECT_EQ(error_of([&] { set_key(c, "train.batch=3x"); }),
            "command line: train.batch wants a whole number, not \"3x\"");
  EXPECT_THAT(error_of([&] { set_key(c, "train.batch"); }),
              HasSubstr("neither a .toml file nor key=value"));
}

TEST(Config, ListsOnTheCommandLineTakeBothForms) {
  Config c;
  set_key(c, "data.sizes=[24]");
  EXPECT_EQ(c.data.sizes, std::vector<i64>{24});
  set_key(c, "data.sizes=[16, 24]");
  EXPECT_EQ(c.data.sizes, (std::vector<i64>{16, 24}));
  set_key(c, "data.sizes=16,24,28");
  EXPECT_EQ(c.data.sizes, (std::vector<i64>{16, 24, 28}));
  set_key(c, "data.sizes=[]");
  EXPECT_TRUE(c.data.sizes.empty());
  set_key(c, R"(data.augment=["auto","random-erasing:0.2"])");
  EXPECT_EQ(c.data.augment, (std::vector<std::string>{"auto", "random-erasing:0.2"}));
  set_key(c, R"(data.train=['a, b', "c"])");
  EXPECT_EQ(c.data.train, (std::vector<std::string>{"a, b", "c"}));
  set_key(c, "data.mean=[1, 0.5, 25e-2]");
  EXPECT_EQ(c.data.mean, (std::vector<double>{1, 0.5, 0.25}));
  EXPECT_EQ(error_of([&] { set_key(c, "data.sizes=16,x"); }),
            "command line: data.sizes wants a list of whole numbers, 1,2,3 or '[1, 2, 3]', not "
            "\"16,x\"");
  EXPECT_EQ(error_of([&] { set_key(c, "data.sizes=[16,"); }),
            "command line: data.sizes wants a list of whole numbers, 1,2,3 or '[1, 2, 3]', not "
            "\"[16,\"");
  // what is left of the list if the shell took its quotes
  EXPECT_EQ(error_of([&] { set_key(c, "data.augment=[auto,random-erasing:0.2]"); }),
            "command line: data.augment wants a list of strings, a,b,c or, in quotes, "
            "'[\"a\", \"b\", \"c\"]', not \"[auto,random-erasing:0.2]\"");
  EXPECT_THAT(error_of([&] { set_key(c, "data.sizes=[1]\n[train]\nbatch=2"); }),
              HasSubstr("data.sizes wants a list"));
}

// The other name is one that nobody would guess wrongly; a far one is not proposed.
TEST(Config, ProposesOnlyKeysThatAreNear) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(nearest_keys("epochs"), ElementsAre("train.epochs"));
  EXPECT_THAT(nearest_keys("data.epochs"), ElementsAre("train.epochs"));
  EXPECT_THAT(nearest_keys("optim.lr"), ElementsAre("optim.learning_rate"));
  EXPECT_THAT(nearest_keys("batch_size"), ElementsAre("train.batch"));
  EXPECT_THAT(nearest_keys("train.batchsize"), ElementsAre("train.batch"));
  EXPECT_THAT(nearest_keys("optim.lable_smoothing"), ElementsAre("optim.label_smoothing"));
  EXPECT_THAT(nearest_keys("batch"), ElementsAre("train.batch", "eval.batch"));
  // once run.dir, train.rate, run.keep and dist.wire
  for (const char* far : {"run.foo", "train.xx", "train.deep", "run.fire", "pictures", "data.x"})
    EXPECT_THAT(nearest_keys(far), IsEmpty()) << far;
  EXPECT_EQ(error_of_text("[run]\nfoo = 1\n"),
            "file.toml:2:1: unknown key \"run.foo\"; `gossamer config` lists all keys");
}

TEST(Config, WhatOtherProgramsCallAKeyLeadsToAKey) {
  std::set<std::string> names{"--workers N"};
  for (const KeyText& key : key_texts()) names.insert(key.name);
  for (const OtherName& other : kOtherNames)
    EXPECT_TRUE(names.contains(std::string(other.key))) << other.name;
}

TEST(Config, AutoIsANumberAboveZeroOrAuto) {
  const auto invalid = [](const std::string& assignment) {
    Config c;
    set_key(c, assignment);
    return error_of([&] { validate(c, 4); });
  };
  for (const char* value : {"0", "-1", "9999"})
    EXPECT_EQ(invalid(std::string("train.threads=") + value),
              std::string("command line: train.threads = ") + value +
                  "; it must be \"auto\" or 1 to 1024");
  EXPECT_EQ(invalid("train.threads=auto"), "no error");
  EXPECT_EQ(invalid("run.keep_best=-1"), "command line: run.keep_best = -1; it must be 0 to 1000");
  EXPECT_THAT(error_of([] {
                validate(parse_config("[train]\npatience = 3\n[eval]\nevery = 0\n", "f.toml"), 1);
              }),
              HasSubstr("give eval.every=EPOCHS and a data.val"));
  EXPECT_THAT(error_of([] {
                Config c = parse_config("[train]\npatience = 3\n[eval]\nevery = 1\n", "f.toml");
                validate(c, 1);
                validate(c, 4);
              }),
              HasSubstr("0 unless eval.of=mean"));
  EXPECT_EQ(invalid("run.best_by=top5"),
            "command line: run.best_by = \"top5\"; it must be one of top1, loss; did you mean "
            "\"top1\"?");
  EXPECT_EQ(invalid("train.seed=-1"), "command line: train.seed = -1; it must be 0 or more");
  EXPECT_THAT(
      error_of([] {
        Config config;
        set_key(config, "train.seed=18446744073709551615");
      }),
      HasSubstr("train.seed wants a whole number that fits 64 bits, not 18446744073709551615"));
  EXPECT_EQ(invalid("train.threads=1024"), "no error");
  EXPECT_EQ(invalid("optim.learning_rate=0"),
            "command line: optim.learning_rate = 0; it must be \"auto\" or above 0");
  const Config c = parse_config("[train]\nthreads = 0\n", "f.toml");
  EXPECT_EQ(error_of([&] { validate(c, 1); }),
            "f.toml:2:11: train.threads = 0; it must be \"auto\" or 1 to 1024");
}

// Also if all keys stand in the file, as in the config.toml of a run.
TEST(Config, LearningRateAndScalingFollowTheOptimizerUnlessTheyAreGiven) {
  const auto peak = [](const std::vector<std::string>& assignments) {
    Config c = parse_config(to_toml(Config()), "all.toml");
    set_key(c, "optim.schedule=constant");
    set_key(c, "optim.warmup_epochs=0");
    for (const std::string& each : assignments) set_key(c, each);
    set_key(c, "train.epochs=10");
    std::vector<std::string> notes;
    return run_schedule(c, 4, 100, notes)(500);
  };
  EXPECT_DOUBLE_EQ(peak({}), 0.1 * 4 * 32 / 256);
  EXPECT_DOUBLE_EQ(peak({"optim.scaling=none"}), 0.1);
  EXPECT_DOUBLE_EQ(peak({"train.method=dadam"}), 0.001);
  EXPECT_DOUBLE_EQ(peak({"optim.name=adamw"}), 0.001);
  EXPECT_DOUBLE_EQ(peak({"optim.name=adam", "optim.learning_rate=0.01"}), 0.01);
  EXPECT_DOUBLE_EQ(peak({"optim.name=adam", "optim.scaling=linear"}), 0.001 * 4 * 32 / 256);
}

TEST(Config, RangesAreCheckedAndTheTextSaysWhereTheValueCameFrom) {
  const auto invalid = [](const std::string& assignment, int workers = 4) {
    Config c;
    set_key(c, assignment);
    return error_of([&] { validate(c, workers); });
  };
  EXPECT_EQ(invalid("train.batch=0"), "command line: train.batch = 0; it must be 1 to 65536");
  EXPECT_THAT(invalid("train.method=magic"),
              HasSubstr("one of a2cid2, accum-adam, adpsgd, allreduce"));
  EXPECT_THAT(invalid("train.graph=rong"), HasSubstr("ring"));
  EXPECT_THAT(invalid("model.name=resnet8"), HasSubstr("resnet8-cifar"));
  EXPECT_THAT(invalid("train.epochs=0"), HasSubstr("above 0"));
  EXPECT_THAT(invalid("optim.momentum=1"), HasSubstr("0 to below 1"));
  EXPECT_THAT(invalid("run.name=a/b"), HasSubstr("plain folder name"));
  EXPECT_THAT(invalid("train.graph=hypercube", 3), HasSubstr("hypercube"));
  EXPECT_THAT(invalid("data.std=1,2"), HasSubstr("three"));
  EXPECT_THAT(invalid("optim.milestones=0.7,0.5"),
              HasSubstr("command line: optim.milestones = [0.7, 0.5]; it must be ascending"));
  EXPECT_THAT(invalid("optim.milestones=0.5,1"), HasSubstr("optim.milestones"));
  EXPECT_THAT(invalid("optim.final=-0.1"), HasSubstr("command line: optim.final"));
  // above 32 bits, where a cast would make small numbers of them
  EXPECT_THAT(invalid("train.period=4294967297"), HasSubstr("train.period"));
  EXPECT_THAT(invalid("dist.nccl_ctas=4294967300"), HasSubstr("dist.nccl_ctas"));
  EXPECT_THAT(invalid("optim.gamma=0"), HasSubstr("optim.gamma"));
  EXPECT_THAT(
      invalid("dist.dead_after_s=0.4"),
      HasSubstr(
          "command line: dist.dead_after_s = 0.4; it must be at least twice dist.heartbeat_s"));
  EXPECT_THAT(invalid("dist.heartbeat_s=0"), HasSubstr("dist.heartbeat_s"));
  EXPECT_THAT(
      invalid("train.device=gpu"),
      HasSubstr(
          "command line: train.device: device \"gpu\" is unknown; use auto, cpu, cuda or cuda:N"));
  EXPECT_EQ(invalid("train.device=cuda:3"), "no error");
  EXPECT_THAT(invalid("train.cuda_graph=yes"), HasSubstr("one of auto, on, off"));
  EXPECT_THAT(invalid("train.method=a2cid"), HasSubstr("did you mean \"a2cid2\"?"));
  EXPECT_THAT(invalid("train.plans="), HasSubstr("train.plans"));
  EXPECT_THAT(invalid("data.shard=half"), HasSubstr("one of auto, true, false, dirichlet:ALPHA"));
  EXPECT_THAT(invalid("data.shard=dirichlet:0"),
              HasSubstr("command line: data.shard: \"dirichlet:0\" is not dirichlet:ALPHA"));
  EXPECT_EQ(invalid("data.shard=dirichlet:0.3"), "no error");
  EXPECT_EQ(invalid("optim.momentum=0"), "no error");
  const Config c = parse_config("[train]\nepochs = -1\n", "f.toml");
  EXPECT_THAT(error_of([&] { validate(c, 1); }), HasSubstr("f.toml:2:10: train.epochs = -1"));
  EXPECT_NO_THROW(validate(Config(), 4));
}

TEST(Config, AmountsHaveOneGrammarInFilesAndOnTheCommandLine) {
  Config c = parse_config(
      "[train]\nepochs = \"20M samples\"\n[optim]\nwarmup_epochs = \"500 steps\"\nmilestones = "
      "[\"30 epochs\", \"1 epoch\"]\n[eval]\nevery = 0.5\n",
      "f.toml");
  EXPECT_EQ(c.train.epochs, (Amount{20e6, Amount::Unit::samples}));
  EXPECT_EQ(c.optim.warmup_epochs, (Amount{500, Amount::Unit::steps}));
  EXPECT_EQ(c.optim.milestones[1], (Amount{1, Amount::Unit::epochs}));
  EXPECT_EQ(c.eval.every, Amount{0.5});
  for (const auto& [text, written] : {std::pair{"3", "3"},
                                      {"3epochs", "\"3 epochs\""},
                                      {"2k steps", "\"2000 steps\""},
                                      {"1.5M tokens", "\"1500k samples\""},
                                      {"9036M images", "\"9036M samples\""}}) {
    set_key(c, std::string("train.epochs=") + text);
    EXPECT_EQ(value_text(c, "train.epochs"), written);
    EXPECT_EQ(parse_config(to_toml(c), "again").train.epochs, c.train.epochs) << text;
  }
  for (const char* text : {"", "many", "3 ages", "20M", "1e999 steps", "3 epochs more", "nan"})
    EXPECT_THAT(error_of([&] { set_key(c, std::string("train.epochs=") + text); }),
                HasSubstr("command line: train.epochs wants a number or an amount such as"))
        << text;
  EXPECT_THAT(error_of([&] { set_key(c, "train.epochs=many"); }), ::testing::Not(HasSubstr("min")));
  EXPECT_THAT(error_of([&] { set_key(c, "run.checkpoint_every=many"); }), HasSubstr("10 min"));
}

TEST(Config, AmountsInUnitsThatAreRealSamplesAreCounted) {
  const RunUnits run{.epoch = 1000, .step = 64};
  EXPECT_EQ(samples_of({3}, run), 3000);
  EXPECT_EQ(samples_of({3, Amount::Unit::epochs}, run), 3000);
  EXPECT_EQ(samples_of({3, Amount::Unit::steps}, run), 192);
  EXPECT_EQ(samples_of({3, Amount::Unit::samples}, run), 3);
  EXPECT_EQ(part_of({0.25}, 4000, run), 0.25);
  EXPECT_EQ(part_of({1, Amount::Unit::epochs}, 4000, run), 0.25);
  EXPECT_EQ((Amount{1.5, Amount::Unit::minutes}).seconds(), 90);
}

TEST(Config, AmountsThatMakeNoSenseAreRefusedWithTheReason) {
  const auto invalid = [](const std::string& assignment) {
    Config c;
    set_key(c, assignment);
    return error_of([&] { validate(c, 4); });
  };
  for (const char* key : {"train.epochs", "optim.warmup_epochs", "optim.milestones", "eval.every",
                          "eval.consensus_every", "control.phases"})
    EXPECT_THAT(invalid(std::string(key) + "=10 min"),
                HasSubstr("in epochs, steps or samples: it must not depend on how fast"))
        << key;
  EXPECT_THAT(invalid("eval.every=-1 steps"), HasSubstr("0 or more"));
  EXPECT_THAT(invalid("optim.milestones=30 epochs,20 epochs"), HasSubstr("ascending"));
  EXPECT_THAT(invalid("optim.milestones=0.5,20 epochs"), HasSubstr("amounts of one unit"));
  EXPECT_EQ(invalid("optim.milestones=20 epochs,30 epochs"), "no error");
}

TEST(Config, SynchronousMethodsRefuseRestartsBeforeTheStart) {
  for (const char* wish : {"dist.restart=1", "dist.inject=kill:rank=1@step=5,restart:rank=1@t=2"})
    for (const std::string& method : dist::method_names()) {
      if (!dist::method_traits(method).synchronous) continue;
      Config c;
      set_key(c, wish);
      EXPECT_EQ(error_of([&] { validate(c, 4); }), "no error") << "the default method can";
      set_key(c, "train.method=" + method);
      EXPECT_THAT(error_of([&] { validate(c, 4); }),
                  ::testing::AllOf(HasSubstr(method), HasSubstr("a2cid2, adpsgd or async-tracking"),
                                   HasSubstr("step together")))
          << wish;
    }
}

// What the workers' libraries would refuse, each for itself, is refused once and before anything
// starts.
TEST(Config, WhatAMethodCannotDoIsRefusedBeforeTheStart) {
  const auto invalid = [](const std::vector<std::string>& assignments) {
    Config c;
    for (const std::string& each : assignments) set_key(c, each);
    return error_of([&] { validate(c, 4); });
  };
  for (const char* key : {"run.record", "run.replay"}) {
    EXPECT_THAT(invalid({"train.method=allreduce", std::string(key) + "=folder"}),
                HasSubstr(std::string("command line: ") + key + " = \"folder\""));
    EXPECT_EQ(invalid({"train.method=adpsgd", std::string(key) + "=folder"}), "no error");
  }
  EXPECT_THAT(invalid({"train.method=dadam", "optim.name=sgd"}), HasSubstr("auto, adam or adamw"));
  EXPECT_THAT(invalid({"train.method=accum-adam", "optim.name=adam"}),
              HasSubstr("auto, accum-adam or accum-adamw"));
  EXPECT_EQ(invalid({"train.method=accum-adam", "optim.name=accum-adamw"}), "no error");
  EXPECT_EQ(invalid({"train.method=dpsgd", "optim.name=adam"}), "no error");
  for (const std::string method :
       {"dpsgd", "local-sgd", "consensus-control", "dadam", "accum-adam"})
    EXPECT_THAT(invalid({"train.method=" + method, "train.graph=one-peer-exp-directed"}),
                HasSubstr("only sgp keeps the mean"))
        << method;
  EXPECT_EQ(invalid({"train.method=sgp", "train.graph=one-peer-exp-directed"}), "no error");
  EXPECT_EQ(invalid({"train.method=consensus-control", "control.method=sgp",
                     "train.graph=one-peer-exp-directed"}),
            "no error");
}

// aer without a number: nodes are machines.
TEST(Config, TheNodesOfAerAreTheMachinesUnlessANumberIsGiven) {
  const auto invalid = [](const std::string& graph, const std::string& method, int workers,
                          int per_machine) {
    Config c;
    set_key(c, "train.graph=" + graph);
    set_key(c, "train.method=" + method);
    return error_of([&] { validate(c, workers, per_machine); });
  };
  for (const char* method : {"a2cid2", "dpsgd"}) {
    EXPECT_EQ(invalid("aer", method, 6, 3), "no error");
    EXPECT_EQ(invalid("aer", method, 6, 6), "no error") << "one node";
    EXPECT_THAT(invalid("aer", method, 6, 1),
                HasSubstr("the number of nodes must be a power of two"));
    EXPECT_THAT(invalid("aer", method, 6, 4), HasSubstr("6 workers can't fill nodes of 4"));
    EXPECT_EQ(invalid("aer", method, 6, 0), "no error") << "not known yet: each worker checks";
    EXPECT_EQ(invalid("aer:3", method, 6, 6), "no error");
    EXPECT_THAT(invalid("aer:4", method, 6, 0), HasSubstr("6 workers can't fill nodes of 4"));
  }
}

TEST(Config, TheLinesOfMethodAndGraphNameThemAll) {
  std::map<std::string, std::string> about;
  for (const KeyText& key : key_texts()) about[key.name] = key.about;
  for (const std::string& name : dist::method_names())
    EXPECT_THAT(about["train.method"], ContainsRegex("(^| )" + name + "( |$)"));
  for (const std::string& name : dist::graph_names())
    EXPECT_THAT(about["train.graph"], HasSubstr(name));
}

TEST(Config, KeysOfMethodsSayTheirRangeUnlessItDependsOnAnotherKey) {
  EXPECT_EQ(key_text("train.period").range, "1 to 1000000");
  EXPECT_EQ(key_text("train.outer_rate").range, "above 0, at most 10");
  EXPECT_EQ(key_text("train.fragments").range, "");
  EXPECT_EQ(key_text("control.phases").range, "") << "takes amounts, too";
}

// So that no setting of a method takes the name of another key.
TEST(Config, EveryKeyIsThereOnce) {
  std::set<std::string> seen;
  for (const KeyText& key : key_texts()) EXPECT_TRUE(seen.insert(key.name).second) << key.name;
}

// Whatever order the methods are listed in: a table that comes twice is no TOML.
TEST(Config, EverySectionIsWrittenOnce) {
  const std::string text = to_toml(Config());
  std::set<std::string> seen;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with('[')) EXPECT_TRUE(seen.insert(line).second) << line;
  EXPECT_TRUE(seen.contains("[train]") && seen.contains("[control]"));
}

TEST(Config, WhatTakesLessMemoryIsNamedWithItsKeys) {
  Config c;
  c.train.batch = 64;
  c.train.accumulate = 2;
  EXPECT_THAT(less_memory(c), HasSubstr("train.batch=32 train.accumulate=4"));
  EXPECT_THAT(less_memory(c), HasSubstr("train.dtype=bf16"));
  c.train.batch = 33;
  EXPECT_THAT(less_memory(c), HasSubstr("a smaller train.batch than 33"));
}

TEST(Config, WhatIsWrittenReadsBackTheSame) {
  Config c;
  set_key(c, "optim.learning_rate=0.123456789012345");
  set_key(c, "run.name=quo\"te\\");
  set_key(c, "data.train=a,b");
  set_key(c, "train.threads=3");
  const std::string text = to_toml(c);
  const Config again = parse_config(text, "again.toml");
  EXPECT_EQ(to_toml(again), text);
  EXPECT_EQ(again.optim.learning_rate, 0.123456789012345);
  EXPECT_EQ(again.run.name, "quo\"te\\");
}

TEST(Config, AKeyOfManyNamesAndAnEndlessFileAreRefusedBeforeTheyAreParsed) {
  std::string names = "a";
  for (int i = 0; i < 40'000; ++i) names += ".a";
  for (const std::string& text : {"[" + names + "]\nx = 1\n", names + " = 1\n",
                                  "x = {" + names + " = 1}\n", std::string(2 << 20, '#')})
    EXPECT_THROW(parse_config(text, "x.toml"), ConfigError);
  Config config;
  EXPECT_THROW(set_key(config, "data.augment=[{" + names + " = 1}]"), ConfigError);
}

}  // namespace
}  // namespace gossamer::apps
