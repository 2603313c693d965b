// A newcomer's path: the commands of READMEs, run as they stand there; and every command of every
// page exists with its options.
#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "data/formats.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

// The commands of a page by the heading above them: lines of code blocks that call the program.
// "gossamer simulate MODE" and "gossamer train … --workers 4" show a form and are none.
std::map<std::string, std::vector<std::string>> commands_of(const fs::path& page) {
  static const std::regex call("(^|\\| )gossamer [a-z]"), quoted("\"[^\"]*\""),
      form("…|\\[|\\b[A-Z]{3,}\\b|\\| (?!gossamer)");
  std::map<std::string, std::vector<std::string>> found;
  std::istringstream in(read_text(page));
  std::string heading;
  bool fenced = false, code = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      fenced = !fenced;
      code = fenced && line != "```";  // of another language
      continue;
    }
    if (line.starts_with("#") && !fenced) heading = line;
    if (code || (!fenced && !line.starts_with("    "))) continue;
    std::string command = line;
    while (command.ends_with('\\') && std::getline(in, line))
      command.replace(command.size() - 1, 1, line);
    command.erase(0, command.find_first_not_of(' '));
    command.resize(std::min(command.size(), command.find(" #")));
    if (std::regex_search(command, call) &&
        !std::regex_search(std::regex_replace(command, quoted, ""), form))
      found[heading].push_back(command);
  }
  return found;
}

// The commands below one heading, between lines of the shell that make what they read and check
// what they wrote.
struct Section {
  std::string name, page, heading, before;
  std::vector<std::string> faster;  // a part of a command, and the words to put behind it
  std::string after;
  friend void PrintTo(const Section& s, std::ostream* out) { *out << s.page << ", " << s.heading; }
};

const std::vector<Section>& sections() {
  const std::string
      input = "(echo 'ROMEO: what?'; cat text.txt) > input.txt\n",
      pairs = "cp val.en test.en; cp val.de test.de\n",
      base = " data.train=s/train data.val=s/val train.epochs=1 data.size=32 train.bn_batches=1\n",
      brief = "train.epochs=1 data.size=32 train.bn_batches=1";
  static const std::vector<Section> all{
      {"FirstText",
       "README.md",
       "## Start",
       input,
       {},
       "test -s runs/shakespeare-char/report.html"},
      {"FirstPage", "README.md", "## Use it", "", {}, "grep -q '<!doctype html>' lesson.html"},
      {"Pictures",
       "apps/README.md",
       "## Your own pictures",
       "ln -s s/train my\n",
       {},
       "grep -q 'top-1 <b>' runs/mine/report.html\n"
       "grep -q data.val_split=0.2 runs/mine/report.html\n"
       "test $(stat -c %s mine.onnx) -gt 40000000"},
      {"FineTuning",
       "apps/README.md",
       "## Fine-tuning",
       "mkdir my; ln -s ../s/train ../s/val my\n"
       "gossamer train model.name=resnet18 run.name=base" +
           base + "gossamer export runs/base/model.safetensors --to torch --out resnet18.pth\n",
       {"freeze", brief, "factors", brief},
       "test $(ls runs | wc -l) = 3"},
      {"Export",
       "apps/README.md",
       "## Export",
       "gossamer train model.name=resnet8-cifar run.name=t" + base,
       {},
       "test -s model.onnx -a -s model.pth"},
      {"Comparing",
       "apps/compare/README.md",
       "# Comparing methods",
       "source=$(readlink apps); rm apps; mkdir -p apps/compare\n"
       "sed 's/^seeds.*/seeds = 2/; s/^learning_rates.*/learning_rates = [0.1, 0.2]/\n"
       "  s/^time.*/time = 40/; s/^from.*/from = 30/' $source/compare/attacks.toml \\\n"
       "  > apps/compare/attacks.toml\n",
       {},
       "grep -q clipped-gossip-fixed runs/compare/attacks/comparison.html"},
      {"Liars",
       "dist/methods/attacks.md",
       "# Workers that lie",
       "",
       {"gossamer train", "data.train=s/train data.val=s/val train.epochs=1 run.name=liars"},
       "test -s runs/liars/model.safetensors"},
      {"OuterSteps", "dist/methods/outer_steps.md", "# Own steps, then an outer one", "", {}, ""},
      {"Shakespeare",
       "apps/text/README.md",
       "# Text: language models and translation",
       input,
       {},
       "grep -q perplexity runs/shakespeare-char/report.html"},
      {"Tuning",
       "apps/text/tuning.md",
       "# Fine-tuning: examples and adapters",
       "gossamer train task=language model.name=llama model.layers=1 model.width=16 "
       "model.heads=2 data.train=language train.batch=2 train.epochs=1 run.name=base\n"
       "mv runs/base SmolLM2-135M\n"
       "for i in $(seq 60); do\n"
       "  echo '{\"prompt\": \"the cat\", \"completion\": \" sat on the mat.\"}'\n"
       "done > own.jsonl\n",
       {"lora_rank", "train.batch=2 train.epochs=1"},
       "gossamer eval runs/own/model-adapter data.val=own"},
      {"Translating",
       "apps/text/README.md",
       "## Translating",
       pairs,
       {},
       "test $(wc -l < test.out) = 24"},
      {"Average",
       "apps/text/README.md",
       "## Files",
       "gossamer train task=translation data.train=translation model.layers=1 model.width=16 "
       "model.ff=16 model.heads=2 train.batch=64 train.epochs=1 run.name=en-de "
       "eval.every=0.5 run.keep_best=3\n",
       {},
       "test -s runs/en-de/average.safetensors"},
      {"Overfit",
       "data/README.md",
       "## A check of the whole pipeline",
       "tar cf photos.tar -C s/train .\n",
       {"resnet50", "model.name=resnet18 data.size=32 train.epochs=1 optim.warmup_epochs=0"},
       ""},
      {"ImageNetAsItIs",
       "data/imagenet.md",
       "## The archives as they are",
       "",
       {"resnet50",
        "model.name=resnet18 data.size=32 train.epochs=1 train.batch=8 train.bn_batches=1"},
       "test -s imagenet/ILSVRC2012_img_train.tar.gossamer-index\n"
       "grep -q '\"val_images\": 8' runs/imagenet/summary.json"},
      {"ImageNetAsFolders",
       "data/imagenet.md",
       "## Folders",
       "mkdir folders folders/train folders/val\n"
       "tar xf imagenet/ILSVRC2012_img_train.tar -C folders/train\n"
       "for class in folders/train/*.tar; do\n"
       "  mkdir ${class%.tar}; tar xf $class -C ${class%.tar}; rm $class; done\n"
       "tar xf imagenet/ILSVRC2012_img_val.tar -C folders/val\n"
       "cp imagenet/ILSVRC2012_devkit_t12.tar.gz folders\n",
       {},
       "gossamer data check folders | grep -q 'val: 8 of 8 images in 4 classes'"},
      {"ImageNetPacked",
       "data/imagenet.md",
       "## Packed shards",
       "",
       {},
       "test $(ls packed/train/*.pack packed/val/*.pack | wc -l) = 2"},
      {"GoingOn",
       "apps/train/files.md",
       "## Going on",
       "",
       {},
       "test -s runs/trial/earlier/1/model.safetensors -a -s runs/trial/model.safetensors\n"
       "test $(ls runs/trial/checkpoints | tail -1) = samples-000000010240"},
      {"Tokenize",
       "data/text/README.md",
       "# Text: from files to ids to batches",
       input + "mkdir books more; cp text.txt books; cp input.txt more; gzip *.en *.de\n"
               "for i in $(seq 20000); do echo '{\"content\": \"page '$i'\"}'; done |\n"
               "  zstd -q > web.jsonl.zst\n",
       {},
       "test -s shakespeare/index.json -a -s books8k/index.json -a -s en-de/index.json\n"
       "test -s web/index.json"},
      {"UnlikeSpeeds", "dist/README.md", "## The algorithm", "", {}, ""},
      {"AsyncTracking",
       "dist/methods/async_tracking.md",
       "# Asynchronous gradient tracking",
       "",
       {"async-tracking", "--json > end.json"},
       "grep -qE '\"final_loss\": ?[0-9.]+e-2[0-9]' end.json"},
  };
  return all;
}

// imagenet/ with the three files of ILSVRC 2012, of four classes.
void make_imagenet(const fs::path& folder) {
  using namespace data;
  const std::vector<KitClass> kit{
      {1, "n02119789"}, {2, "n02100735"}, {3, "n01440764"}, {4, "n03000684"}};
  const auto picture = [](int i) {
    const Bytes bytes = encode_jpeg(pattern(40 + i, 36));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  std::string train, val, truth;
  for (const KitClass& of : kit) {
    std::string inner;
    for (int i = 0; i < 8; ++i)
      inner += tar_member(of.wnid + "_" + std::to_string(i) + ".JPEG", picture(i + of.id));
    train += tar_member(of.wnid + ".tar", inner + tar_end());
  }
  for (int i = 0; i < 8; ++i) {
    val += tar_member("ILSVRC2012_val_0000000" + std::to_string(i + 1) + ".JPEG", picture(i));
    truth += std::to_string(i % 4 + 1) + "\n";
  }
  const std::string inside = "ILSVRC2012_devkit_t12/data/";
  write_text(folder / "imagenet/ILSVRC2012_img_train.tar", train + tar_end());
  write_text(folder / "imagenet/ILSVRC2012_img_val.tar", val + tar_end());
  write_text(
      folder / "imagenet/ILSVRC2012_devkit_t12.tar.gz",
      gzip(tar_member(inside + "meta.mat", make_meta_mat(kit, true)) +
           tar_member(inside + "ILSVRC2012_validation_ground_truth.txt", truth) + tar_end()));
}

class ReadmeSection : public TextTest, public ::testing::WithParamInterface<Section> {};

TEST_P(ReadmeSection, ItsCommandsRun) {
  const Section& section = GetParam();
  fs::create_symlink(GOSSAMER_SOURCE_DIR "/apps", folder / "apps");
  if (section.page == "data/imagenet.md") make_imagenet(folder);
  fs::create_symlink(GOSSAMER_PROGRAM, folder / "gossamer");
  std::string script = "set -e\nPATH=.:$PATH\n" + section.before;
  std::size_t shortened = 0;
  const auto commands = commands_of(fs::path(GOSSAMER_SOURCE_DIR) / section.page);
  for (std::string command : commands.at(section.heading)) {
    for (std::size_t i = 0; i + 1 < section.faster.size(); i += 2)
      if (command.find(section.faster[i]) != std::string::npos)
        command += " " + section.faster[i + 1], shortened += 2;
    script += command + "\n";
  }
  EXPECT_EQ(shortened, section.faster.size()) << script;
  program = "/bin/sh";
  const Result r = run({"-c", script + section.after});
  EXPECT_EQ(r.code, 0) << script << section.after << "\n" << r.out << r.err;
}

INSTANTIATE_TEST_SUITE_P(Pages, ReadmeSection, ::testing::ValuesIn(sections()),
                         [](const auto& of) { return of.param.name; });

std::vector<fs::path> markdown_files() {
  const fs::path root = GOSSAMER_SOURCE_DIR;
  std::vector<fs::path> files{root / "README.md"};
  for (const char* at : {"core", "nn", "models", "data", "dist", "apps", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(root / at))
      if (entry.path().extension() == ".md") files.push_back(entry.path());
  return files;
}

using ReadmeRun = ProgramTest;

// Those that other tests run, with the numbers that they print.
bool is_run_elsewhere(const std::string& page) {
  return page.starts_with("apps/course/units/") || page == "apps/paper/README.md" ||
         page == "dist/simulation/README.md";
}

TEST_F(ReadmeRun, EveryCommandOfEveryPageIsRun) {
  std::set<std::string> listed, said;
  for (const Section& each : sections()) listed.insert(each.page + ", " + each.heading);
  for (const fs::path& file : markdown_files()) {
    const std::string page = fs::relative(file, GOSSAMER_SOURCE_DIR);
    // The pages of results name what their tables were measured with.
    if (is_run_elsewhere(page) || file.filename().string().starts_with("RESULTS-")) continue;
    for (const auto& [heading, commands] : commands_of(file)) said.insert(page + ", " + heading);
  }
  EXPECT_EQ(listed, said);
}

TEST_F(ReadmeRun, EveryCommandOfEveryPageExistsWithItsOptions) {
  std::map<std::string, std::string> helps;
  const auto help = [&](const std::string& command) -> const std::string& {
    auto [found, fresh] = helps.try_emplace(command);
    if (fresh) {
      std::istringstream words(command + " --help");
      std::vector<std::string> arguments;
      for (std::string word; words >> word;) arguments.push_back(word);
      const Result r = run(arguments);
      EXPECT_EQ(r.code, 0) << command << "\n" << r.err;
      found->second = r.out;
    }
    return found->second;
  };
  // in a block or between backticks; a line that ends with a backslash goes on
  const std::regex said("(?:^|\n *|\\$ |`|build/)gossamer((?: (?:[^\n`\\\\]|\\\\\n)+)*)"),
      option("(^|\\s)(--[a-z][a-z0-9-]*)");
  const std::set<std::string> with_parts{"simulate", "data", "bench", "trace", "course"};
  int commands = 0, options = 0;
  for (const fs::path& file : markdown_files()) {
    const std::string text = read_text(file);
    for (std::sregex_iterator it(text.begin(), text.end(), said), end; it != end; ++it) {
      std::string rest = (*it)[1];
      rest.resize(std::min(rest.size(), rest.find(" #")));
      std::istringstream words(rest);
      std::string command, part;
      words >> command;
      if (command == "run") words >> command;  // the options are those of the command that it runs
      static const std::regex word("[a-z][a-z-]*");
      if (!std::regex_match(command, word)) continue;  // of a sentence: gossamer's
      if (with_parts.contains(command) && words >> part && std::regex_match(part, word))
        command += " " + part;
      ++commands;
      const std::string& known = help(command);
      for (std::sregex_iterator o(rest.begin(), rest.end(), option); o != end; ++o) {
        ++options;
        EXPECT_TRUE(std::regex_search(known, std::regex((*o)[2].str() + "\\b")))
            << file << ": gossamer " << command << " has no " << (*o)[2];
      }
    }
  }
  EXPECT_GT(commands, 100);
  EXPECT_GT(options, 100);
}

}  // namespace
}  // namespace gossamer::apps
