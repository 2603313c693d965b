// The program from outside: bad input ends with one clear sentence and the right exit code; small
// commands print what they promise.
#include <set>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/apps/config.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/tensor.h"
#include "gossamer/dist/graph/rounds.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Cli : public ProgramTest {
 protected:
  // One sentence on stderr that starts with the program's name; no trace of the inside.
  void expect_error(const std::vector<std::string>& arguments, int code,
                    const std::vector<std::string>& says) {
    const Result r = run(arguments);
    EXPECT_EQ(r.code, code) << r.out << r.err;
    EXPECT_EQ(std::ranges::count(r.err, '\n'), 1) << r.err;
    EXPECT_THAT(r.err, AllOf(StartsWith("gossamer: "), Not(HasSubstr("what()")),
                             Not(HasSubstr("terminate")), Not(HasSubstr(".cpp"))));
    for (const std::string& text : says) EXPECT_THAT(r.err, HasSubstr(text));
  }
  // A copy of the shapes that may be damaged.
  void copy_shapes() { fs::copy(shapes(), folder / "c", fs::copy_options::recursive); }
  fs::path first_image(const fs::path& root) {
    std::vector<fs::path> all;
    for (const auto& e : fs::recursive_directory_iterator(root))
      if (e.path().extension() == ".jpg") all.push_back(e.path());
    std::ranges::sort(all);
    return all.at(0);
  }
};

TEST_F(Cli, UnknownKeyInTheFile) {
  write_text(folder / "train.toml", "[train]\n# batch\n        btach = 32\n");
  expect_error({"train", "train.toml"}, 2,
               {"train.toml:3:9: unknown key \"train.btach\"; did you mean \"train.batch\"?"});
}

TEST_F(Cli, UsageErrors) {
  expect_error({"train", "--workers", "0"}, 2, {"--workers 0", "number of workers"});
  expect_error({"train", "--workers", "many"}, 2, {"--workers"});
  // an empty variable of a script: not one worker here instead
  expect_error({"train", "--hosts", ""}, 2, {"--hosts", "no host is given"});
  expect_error({"train", "train.btach=1"}, 2, {"did you mean \"train.batch\"?"});
  expect_error({"train", "missing.toml"}, 2, {"missing.toml"});
  expect_error({"frobnicate"}, 2, {"--help"});
  expect_error({}, 2, {"--help"});
  expect_error({"graph", "ring", "1"}, 2, {"2 workers"});
  expect_error({"graph", "rong", "4"}, 2, {"ring"});
  expect_error({"graph", "ring", "100000"}, 2, {"4096"});
  expect_error({"bench", "step", "--model", "nonsense"}, 2, {"nonsense"});
  expect_error({"bench", "step", "--dtype", "f64"}, 2, {"f64", "f32, bf16, f16 or auto"});
  for (const char* flag : {"--tf32", "--deterministic"})
    expect_error({"bench", "step", "--device", "cpu", flag}, 2, {flag, "for a GPU"});
  expect_error({"bench", "step", "--device", "cpu", "--plans", "p.json"}, 2, {"--plans"});
}

TEST_F(Cli, AnUnknownCommandIsNamedWithTheNearestOne) {
  expect_error({"trian", "x"}, 2, {"no command \"trian\"; did you mean train?", "gossamer --help"});
  expect_error({"frobnicate"}, 2, {"no command \"frobnicate\"; known are train, config, eval"});
  expect_error({"data", "foo"}, 2,
               {"gossamer: data: there is no command \"foo\"; known are make-shapes, check",
                "(see gossamer data --help)"});
  expect_error({"data", "chekc"}, 2, {"did you mean check?"});
  expect_error({"data"}, 2, {"gossamer: data: a command is missing: make-shapes, check"});
  expect_error({"simulate", "consenus"}, 2, {"did you mean consensus?"});
  expect_error({"bench", "step", "--thread", "2"}, 2, {"no option --thread", "--threads"});
}

TEST_F(Cli, OptionsOfOtherProgramsLeadToTheKey) {
  expect_error({"train", "--epochs", "3"}, 2,
               {"there is no option --epochs", "key=value: train.epochs=3 (`gossamer config`"});
  expect_error({"train", "--lr=0.2", "--epochs", "3"}, 2, {"optim.learning_rate=0.2"});
  expect_error({"train", "--batch-size", "64", "x.toml"}, 2, {"train.batch=64"});
  expect_error({"train", "-b", "64"}, 2, {"train.batch=64"});
  expect_error({"train", "--momentum"}, 2, {"optim.momentum=VALUE"});
  expect_error({"train", "--resum", "runs/x"}, 2, {"did you mean --resume?"});
  expect_error({"train", "--frobnicate"}, 2, {"no option --frobnicate", "`gossamer config`"});
  expect_error({"eval", "m.safetensors", "--batch-size", "8"}, 2, {"train.batch=8"});
}

TEST_F(Cli, TheHelpLeadsToTheKeysAndToTheCommandOfRun) {
  EXPECT_THAT(run({"train", "--help"}).out, HasSubstr("`gossamer config` lists them all"));
  EXPECT_THAT(run({"run", "--help"}).out, HasSubstr("gossamer run COMMAND [ARGUMENTS]"));
}

TEST_F(Cli, ConfigPrintsAFileThatGivesTheDefaults) {
  const Result r = run({"config"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Config read = parse_config(r.out, "config.toml");
  EXPECT_EQ(to_toml(read), to_toml(Config()));
  std::set<std::string> given;
  for (const auto& [key, place] : read.origin) given.insert(key);
  for (const KeyText& key : key_texts()) {
    EXPECT_TRUE(given.contains(key.name)) << key.name;
    EXPECT_FALSE(key.about.empty()) << key.name;
  }
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  // train takes it
  write_text(folder / "all.toml", r.out);
  auto arguments = tiny({"run.report=false"});
  arguments.insert(arguments.begin() + 1, "all.toml");
  arguments.push_back("--dry-run");
  EXPECT_EQ(run(arguments).code, 0) << read_text(folder / "err");
}

TEST_F(Cli, ConfigExplainsAKeyAndASection) {
  const Result key = run({"config", "train.pairing"});
  EXPECT_EQ(key.code, 0) << key.err;
  EXPECT_THAT(key.out, AllOf(HasSubstr("drawn from the seed"), HasSubstr("a string"),
                             HasSubstr("handshake, schedule, rounds"),
                             HasSubstr("gossamer train train.pairing=handshake"),
                             HasSubstr("pairing = \"handshake\"")));
  EXPECT_THAT(run({"config", "data.augment"}).out, HasSubstr("train 'data.augment=[\"auto\"]'"));
  const Result section = run({"config", "eval"});
  EXPECT_THAT(section.out,
              AllOf(StartsWith("[eval]\n"), HasSubstr("batch = 64"), Not(HasSubstr("[run]"))));
  const Json all = Json::parse(run({"config", "optim.name", "--json"}).out);
  EXPECT_EQ(all["keys"].size(), 1u);
  EXPECT_EQ(all["keys"][0]["values"][0], "auto");
  // of text, too
  for (const char* name : {"model.name", "model.init", "data.train", "run.best_by"})
    EXPECT_THAT(run({"config", name}).out, AnyOf(HasSubstr("text"), HasSubstr("language"))) << name;
  expect_error({"config", "train.btach"}, 2, {"did you mean \"train.batch\"?"});
  expect_error({"config", "nonsense"}, 2, {"unknown key \"nonsense\""});
}

TEST_F(Cli, TheHelpOfGraphNamesThemAll) {
  const Result r = run({"graph", "--help"});
  for (const std::string& name : dist::rounds_names()) EXPECT_THAT(r.out, HasSubstr(name));
}

TEST_F(Cli, MissingFolder) {
  expect_error(tiny({"data.train=nowhere/train"}), 3, {"nowhere/train", "no such file or folder"});
}

TEST_F(Cli, TheDefaultDataSetIsExplainedWhenItIsMissing) {
  expect_error({"train"}, 3, {"gossamer data make-shapes data-cache/shapes10"});
}

TEST_F(Cli, FlatFolder) {
  fs::create_directories(folder / "flat");
  fs::copy_file(first_image(shapes()), folder / "flat/a.jpg");
  expect_error(tiny({"data.train=flat"}), 3, {"flat"});
}

TEST_F(Cli, NoImages) {
  fs::create_directories(folder / "empty/a");
  fs::create_directories(folder / "empty/b");
  expect_error(tiny({"data.train=empty"}), 3, {"empty", "no image"});
}

TEST_F(Cli, DifferentClassesInTrainAndVal) {
  copy_shapes();
  const std::string gone = first_image(folder / "c/val").parent_path().filename().string();
  fs::remove_all(folder / "c/val" / gone);
  expect_error(tiny({"data.train=c/train", "data.val=c/val"}), 3,
               {"10 classes in train and 9 in val", gone});
}

TEST_F(Cli, FewerImagesThanOneBatch) {
  expect_error(tiny({"train.batch=4096"}), 3, {"train.batch"});
}

TEST_F(Cli, AShareSmallerThanOneBatch) {
  auto arguments = tiny({"train.method=allreduce", "train.batch=50"});
  arguments.insert(arguments.end(), {"--workers", "2"});
  expect_error(arguments, 3, {"share", "48 images", "train.batch = 50"});
}

// Two workers, 96 images: one of them has at most 48, whatever the shares.
TEST_F(Cli, AnUnequalShareSmallerThanOneBatch) {
  auto arguments = tiny({"data.shard=dirichlet:0.3", "train.batch=50"});
  arguments.insert(arguments.end(), {"--workers", "2"});
  expect_error(arguments, 3,
               {"data.shard = dirichlet:0.3 gives worker", "of 96 images", "train.batch = 50",
                "larger alpha"});
}

TEST_F(Cli, FolderThatCannotBeWritten) {
  write_text(folder / "file", "not a folder");
  expect_error({"data", "make-shapes", "file/shapes", "--train", "10", "--val", "10"}, 6,
               {"file/shapes"});
  expect_error(tiny({"run.dir=file"}), 6, {"file/t", "run.dir="});
}

TEST_F(Cli, WhatCannotBeWrittenIsSaid) {
  expect_error({"paper", "ring64", "--out", "/dev/null/x"}, 6, {"/dev/null/x", "may write"});
}

TEST_F(Cli, ErrorsAreFoundBeforeWorkersAreStarted) {
  auto arguments = tiny({"data.train=nowhere"});
  arguments.insert(arguments.end(), {"--workers", "4"});
  expect_error(arguments, 3, {"nowhere"});
}

TEST_F(Cli, ATruncatedImageIsCountedNamedAndReplacedOrStopsTheRunWhenStrict) {
  copy_shapes();
  const fs::path bad = first_image(folder / "c/train");
  fs::resize_file(bad, fs::file_size(bad) / 2);
  const Result r = run(tiny({"data.train=c/train"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(summary()["damaged_images"], 1);
  EXPECT_THAT(read_text(folder / "runs/t/bad_images.txt"), HasSubstr(bad.filename().string()));
  EXPECT_THAT(r.out, HasSubstr("damaged"));
  const std::string named = "a damaged image, replaced by the next: ";
  const auto at = (r.out + r.err).find(named);
  EXPECT_NE(at, std::string::npos) << r.out << r.err;
  EXPECT_EQ((r.out + r.err).find(named, at + 1), std::string::npos) << "it is named once";
  auto strict = tiny({"data.train=c/train", "run.name=u"});
  strict.push_back("--strict-images");
  expect_error(strict, 3, {bad.filename().string()});
  // also of a run that ended by it
  EXPECT_THAT(read_text(folder / "runs/u/bad_images.txt"), HasSubstr(bad.filename().string()));
}

TEST_F(Cli, AFlagThatIsNearlyWorkersIsNamed) {
  expect_error({"train", "--worker", "2"}, 2, {"--worker", "did you mean --workers?"});
}

TEST_F(Cli, APngNamedJpgIsReadByItsContent) {
  copy_shapes();
  // The smallest PNG there is: one pixel.
  static const unsigned char png[] = {
      0x89, 0x50, 0x4e, 0x47, 0xd,  0xa,  0x1a, 0xa,  0x0,  0x0,  0x0,  0xd,  0x49, 0x48,
      0x44, 0x52, 0x0,  0x0,  0x0,  0x1,  0x0,  0x0,  0x0,  0x1,  0x8,  0x2,  0x0,  0x0,
      0x0,  0x90, 0x77, 0x53, 0xde, 0x0,  0x0,  0x0,  0xc,  0x49, 0x44, 0x41, 0x54, 0x78,
      0x9c, 0x63, 0x38, 0x91, 0x62, 0x4,  0x0,  0x3,  0x56, 0x1,  0x5f, 0xe8, 0x17, 0x84,
      0x52, 0x0,  0x0,  0x0,  0x0,  0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
  std::ofstream(first_image(folder / "c/train"), std::ios::binary)
      .write(reinterpret_cast<const char*>(png), sizeof png);
  const Result r = run(tiny({"data.train=c/train", "data.augment=none"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(summary()["damaged_images"], 0) << read_text(folder / "runs/t/bad_images.txt");
}

TEST_F(Cli, AModelFileCutInHalf) {
  ASSERT_EQ(run(tiny({})).code, 0);
  const fs::path model = folder / "runs/t/model.safetensors";
  fs::resize_file(model, fs::file_size(model) / 2);
  expect_error({"eval", model.string(), "data.val=s/val"}, 6, {"model.safetensors"});
  expect_error({"classify", model.string(), first_image(shapes()).string()}, 6,
               {"model.safetensors"});
  expect_error({"eval", "nothing.safetensors", "data.val=s/val"}, 6, {"nothing.safetensors"});
}

TEST_F(Cli, AModelFileWithAHeaderThatMakesNoSense) {
  ASSERT_EQ(run(tiny({"run.report=false"})).code, 0);
  const SafeTensors good = read_safetensors(folder / "runs/t/model.safetensors");
  const auto expect_refused = [&](const std::string& key, const std::string& value,
                                  const std::string& says) {
    SCOPED_TRACE(key + " = " + value);
    auto metadata = good.metadata;
    metadata[key] = value;
    write_safetensors(folder / "bad.safetensors", good.tensors, metadata);
    expect_error({"eval", "bad.safetensors", "data.val=s/val"}, 6, {"bad.safetensors", says});
  };
  expect_refused("classes", "", "classes");
  expect_refused("classes", "one\ntwo", "fc");
  expect_refused("model", "nonsense", "nonsense");
  expect_refused("image_size", "1e30", "image_size");
  expect_refused("image_size", "nan", "image_size");
  expect_refused("resize", "-inf", "resize");
  expect_refused("mean", "0.5\ninf\n0.5", "mean");
  expect_refused("std", "0\n1\n1", "std");
}

TEST_F(Cli, ADamagedImageIsCountedOnceHoweverManyWorkersMeetIt) {
  copy_shapes();
  const fs::path bad = first_image(folder / "c/train");
  fs::resize_file(bad, fs::file_size(bad) / 2);
  auto arguments = tiny({"data.train=c/train", "train.epochs=8"});
  arguments.insert(arguments.end(), {"--workers", "2"});
  const Result r = run(arguments);
  ASSERT_EQ(r.code, 0) << r.err;
  // a range-for over summary()["…"] would outlive its temporary
  const Json all = summary();
  for (const Json& row : all["each_worker"]) EXPECT_EQ(row["damaged_images"], 1);
  EXPECT_EQ(all["damaged_images"], 1);
  EXPECT_EQ(std::ranges::count(read_text(folder / "runs/t/bad_images.txt"), '\n'), 1);
}

TEST_F(Cli, ResumeWithoutACheckpointSaysSo) {
  auto arguments = tiny({});
  arguments.insert(arguments.end(), {"--resume", "nowhere"});
  expect_error(arguments, 6, {"nowhere", "this folder does not exist"});
}

TEST_F(Cli, GraphPrintsTheConstants) {
  const Result r = run({"graph", "ring", "16", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json g = Json::parse(r.out);
  EXPECT_NEAR(g["chi1"].get<double>(), 13.13707, 1e-5);
  EXPECT_NEAR(g["chi2"].get<double>(), 0.93750, 1e-5);
  EXPECT_NEAR(g["eta"].get<double>(), 0.142474, 1e-5);
  EXPECT_NEAR(g["alpha_tilde"].get<double>(), 1.87169, 1e-5);
  EXPECT_NEAR(g["rho"].get<double>(), 0.94925, 1e-5);
  EXPECT_EQ(g["rounds"].get<int>(), 266);
  EXPECT_NEAR(g["decay_plain"].get<double>(), 0.07535, 1e-5);
  EXPECT_NEAR(g["decay_a2cid2"].get<double>(), 0.19855, 1e-5);
  const Json star = Json::parse(run({"graph", "star", "64", "--json"}).out);
  EXPECT_NEAR(star["chi1_one_at_a_time"].get<double>(), 63, 1e-6);
  EXPECT_TRUE(star["decay_plain"].is_null());
  const Json rounds = Json::parse(run({"graph", "one-peer-exp", "16", "--json"}).out);
  EXPECT_EQ(rounds["rounds"].get<int>(), 4);
  EXPECT_FALSE(rounds.contains("chi1"));
  const Json twice = Json::parse(run({"graph", "ring", "16", "--rate", "2", "--json"}).out);
  EXPECT_NEAR(twice["eta"].get<double>(), 2 * 0.142474, 2e-5);
}

TEST_F(Cli, DoctorGivesAVerdictForEverySubject) {
  const Result r = run({"doctor", "--json"});
  const Json d = Json::parse(r.out);
  EXPECT_EQ(r.code, d["problems"] == 0 ? 0 : 4) << r.out;
  EXPECT_GE(d["findings"].size(), 8u);
  for (const Json& f : d["findings"]) {
    EXPECT_FALSE(f["text"].get<std::string>().empty());
    if (f["subject"] == "models")
      EXPECT_THAT(f["text"],
                  AllOf(HasSubstr("resnet50"), HasSubstr("gpt2"), HasSubstr("transformer")));
    if (f["verdict"] == "problem") EXPECT_FALSE(f["fix"].get<std::string>().empty());
  }
}

TEST_F(Cli, DoctorListsTheLaunchersThatAreThere) {
  write_text(folder / "bin/srun", "#!/bin/sh\n");
  fs::permissions(folder / "bin/srun", fs::perms::owner_all);
  write_text(folder / "bin/torchrun", "not executable");
  const std::string path = "PATH=" + (folder / "bin").string();
  const Json d = Json::parse(run({"doctor", "--json"}, {path}).out);
  const auto f = std::ranges::find_if(
      d["findings"], [](const Json& one) { return one["subject"] == "launchers"; });
  ASSERT_NE(f, d["findings"].end());
  EXPECT_EQ((*f)["text"], "--workers, srun");
}

TEST_F(Cli, DryRunTrainsEvaluatesAndWritesNothing) {
  auto arguments = tiny({});
  arguments.push_back("--dry-run");
  const Result r = run(arguments);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("dry run"), HasSubstr("top-1")));
  EXPECT_FALSE(fs::exists(folder / "runs"));
  // The whole process is larger than its tensors.
  const std::string memory = r.out.substr(std::min(r.out.find("memory   "), r.out.size()));
  int resident = 0, tensors = 0;
  ASSERT_EQ(
      std::sscanf(memory.c_str(), "memory   at most %d MiB for a worker, %d MiB of it tensors",
                  &resident, &tensors),
      2)
      << r.out;
  EXPECT_GT(resident, tensors);
  EXPECT_GT(tensors, 0);
}

// A line of progress: "  8.3%  epoch ...".
int progress_lines(const std::string& out) {
  std::istringstream lines(out);
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find("%  epoch ") <= 5;
  return count;
}

TEST_F(Cli, TheFirstStepIsShownWhateverRunLogEvery) {
  const Result r = run(tiny({"run.log_every=1000"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("  8.3%  epoch 0.08/1"));  // one step of twelve
  EXPECT_THAT(r.out, Not(HasSubstr("loss 0.000")));
  EXPECT_GE(progress_lines(r.out), 2);
  EXPECT_EQ(events("step").size(), 1u) << "log.jsonl keeps its own rule";
}

TEST_F(Cli, ARunWithoutExchangesSaysNothingOfThem) {
  const auto quiet = AllOf(HasSubstr("done "), Not(HasSubstr("xchanges")), Not(HasSubstr("chi1")),
                           Not(HasSubstr("consensus")));
  EXPECT_THAT(run(tiny({})).out, quiet);
  auto arguments = tiny({"train.method=allreduce", "run.name=u"});
  arguments.insert(arguments.end(), {"--workers", "2"});
  EXPECT_THAT(run(arguments).out, quiet);
  arguments = tiny({"run.name=v"});
  arguments.insert(arguments.end(), {"--workers", "2"});
  EXPECT_THAT(run(arguments).out, AllOf(HasSubstr("exchanges per gradient"), HasSubstr("chi1")));
}

TEST_F(Cli, TraceMergeSaysThatTheTraceIsThereAlready) {
  write_text(folder / "run/trace.json", "{}");
  expect_error({"trace", "merge", "run"}, 6, {"run holds trace.json already"});
  fs::remove(folder / "run/trace.json");
  expect_error({"trace", "merge", "run"}, 6, {"run.trace=true"});
}

}  // namespace
}  // namespace gossamer::apps
