// Language models from outside: from a text to a model that goes on with it, by several methods,
// evaluated, and what is said of wrong input.
#include <cmath>

#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/json.h"
#include "gossamer/nn/checkpoint.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Language = LanguageTest;

TEST_F(Language, FromATextToASentence) {
  const Result trained = run(small({"train.epochs=12", "eval.every=3", "--json"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json s = Json::parse(trained.out);
  EXPECT_LT(s["loss"], 0.5) << "the text repeats itself";
  EXPECT_NEAR(s["perplexity"], std::exp(s["loss"].get<double>()), 1e-3);
  EXPECT_NEAR(s["bits_per_byte"], s["loss"].get<double>() / std::log(2.0), 1e-2)
      << "a character is a byte";
  EXPECT_GT(s["tokens_per_s"], 0);
  EXPECT_EQ(s["model"], "gpt2");
  EXPECT_FALSE(events("eval").empty());
  EXPECT_TRUE(s.contains("best"));
  for (const char* name : {"model.safetensors", "config.json", "characters.json", "report.html"})
    EXPECT_TRUE(fs::exists(folder / "runs/t" / name)) << name;
  const Json config = Json::parse(read_text(folder / "runs/t/config.json"));
  EXPECT_EQ(config["n_layer"], 1);
  EXPECT_EQ(config["model_type"], "gpt2");

  const Result eval = run({"eval", "runs/t", "data.val=language", "data.length=16", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_NEAR(Json::parse(eval.out)["loss"], s["loss"].get<double>(), 1e-4);
  const Json sliding = Json::parse(
      run({"eval", "runs/t", "data.val=language", "--stride", "4", "eval.batch=7", "--json"}).out);
  EXPECT_EQ(sliding["tokens"], Json::parse(eval.out)["tokens"]);
  EXPECT_LT(sliding["loss"], s["loss"].get<double>()) << "each id has seen more";

  const std::vector<std::string> command{"generate", "runs/t", "--prompt",      "the cat",
                                         "--tokens", "60",     "--temperature", "0"};
  const Result text = run(command);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith("the cat sat on"));
  auto without = command;
  without.push_back("--no-cache");
  EXPECT_EQ(run(without).out, text.out) << "beyond the 16 positions, too";
  const std::vector<std::string> drawn{"generate", "runs/t/model.safetensors",
                                       "--tokens", "30",
                                       "--seed",   "3",
                                       "--top-k",  "5",
                                       "--top-p",  "0.9",
                                       "--json"};
  const Json once = Json::parse(run(drawn).out), again = Json::parse(run(drawn).out);
  EXPECT_EQ(once["ids"], again["ids"]);
  EXPECT_EQ(once["ids"].size(), 30u);
  write_text(folder / "prompt.txt", "the dog");
  EXPECT_THAT(run({"generate", "runs/t", "--file", "prompt.txt", "--tokens", "5"}).out,
              StartsWith("the dog"));
}

TEST_F(Language, SeveralTextsAreThoseThatEachWouldBe) {
  ASSERT_EQ(run(small({"train.epochs=12"})).code, 0);
  const auto text = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "runs/t", "--tokens", "40"});
    const Result r = run(more);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  const auto alone = [&](const std::string& prompt) {
    return text({"--prompt", prompt, "--temperature", "0"});
  };
  // Of other lengths, and beyond the 16 positions.
  const std::string cat = alone("the cat"), dog = alone("and the dog ran.\nthe"),
                    mat = alone("on the m");
  EXPECT_EQ(text({"--prompt", "the cat", "--prompt", "and the dog ran.\nthe", "--prompt",
                  "on the m", "--temperature", "0"}),
            cat + "---\n" + dog + "---\n" + mat);
  write_text(folder / "prompts.txt", "the cat\non the m\n");
  EXPECT_EQ(text({"--file", "prompts.txt", "--lines", "--temperature", "0"}), cat + "---\n" + mat);
  EXPECT_EQ(
      text({"--prompt", "the cat", "--prompt", "on the m", "--no-cache", "--temperature", "0"}),
      cat + "---\n" + mat);
  // Two samples are what two seeds give.
  const std::string drawn = text({"--prompt", "the", "--samples", "2", "--seed", "5", "--json"});
  const auto line = drawn.find('\n');
  const Json first = Json::parse(drawn.substr(0, line)),
             second = Json::parse(drawn.substr(line + 1));
  const auto with_seed = [&](const char* seed) {
    return Json::parse(text({"--prompt", "the", "--seed", seed, "--json"}));
  };
  EXPECT_EQ(first["ids"], with_seed("5")["ids"]);
  EXPECT_EQ(second["ids"], with_seed("6")["ids"]);
  EXPECT_NE(first["ids"], second["ids"]);
}

TEST_F(Language, TheMeanOfCheckpointsIsAModel) {
  ASSERT_EQ(run(small({"--workers", "2", "train.method=dpsgd", "train.epochs=4",
                       "run.checkpoint_every=1", "run.keep=3"}))
                .code,
            0);
  const Result made = run({"average", "runs/t", "--last", "2", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  const Json json = Json::parse(made.out);
  EXPECT_EQ(json["out"], "runs/t/average.safetensors");
  ASSERT_EQ(json["of"].size(), 2u);
  const auto file = [&](const fs::path& path) { return read_safetensors(folder / path); };
  const SafeTensors mean = file("runs/t/average.safetensors"),
                    last = file("runs/t/model.safetensors");
  EXPECT_EQ(mean.metadata, last.metadata);
  EXPECT_EQ(mean.tensors.size(), last.tensors.size());
  // c_proj.weight is [in, out] in a model's file and [out, in] in a checkpoint.
  const std::string name = "h.0.mlp.c_proj.weight";
  std::vector<Tensor> workers;
  for (const auto& label : json["of"])
    for (const char* rank : {"rank-0.safetensors", "rank-1.safetensors"})
      workers.push_back(
          file("runs/t/checkpoints/" + label.get<std::string>() + "/" + rank).find(name)->clone());
  const Tensor& stored = *mean.find("transformer." + name);
  const i64 in = stored.shape(0), out = stored.shape(1);
  ASSERT_EQ(workers[0].shape(), Shape({out, in}));
  EXPECT_NE(workers[0].span<float>()[1], workers[3].span<float>()[1]);
  for (i64 i = 0; i < in; ++i)
    for (i64 o = 0; o < out; ++o) {
      double sum = 0;
      for (const Tensor& w : workers) sum += w.as<float>()[o * in + i];
      ASSERT_NEAR(stored.as<float>()[i * out + o], sum / 4, 1e-6);
    }
  const Result eval = run({"eval", "runs/t/average.safetensors", "data.val=language", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_LT(Json::parse(eval.out)["loss"], 2.5);

  // Of files, or a run's own: the mean of two models is between them.
  ASSERT_EQ(
      run({"average", "runs/t", "runs/t/average.safetensors", "--out", "runs/t/both.safetensors"})
          .code,
      0);
  EXPECT_NEAR(file("runs/t/both.safetensors").find("transformer." + name)->as<float>()[3],
              (stored.as<float>()[3] + last.find("transformer." + name)->as<float>()[3]) / 2, 1e-6);

  const auto expect = [&](const std::vector<std::string>& arguments, int code,
                          const std::string& says) {
    const Result r = run(arguments);
    EXPECT_EQ(r.code, code) << r.out << r.err;
    EXPECT_THAT(r.err, HasSubstr(says));
    EXPECT_EQ(std::ranges::count(r.err, '\n'), 1) << r.err;
  };
  expect({"average", "runs/t"}, 2, "--last N");
  expect({"average", "runs/t", "--last", "9"}, 6,
         "--last 9 is more than the whole checkpoints there (");
  expect({"average", "runs/t/model.safetensors"}, 2, "--out");
  expect({"average", "runs/t/model.safetensors", "--last", "2", "--out", "x"}, 2, "one run");
  expect({"average", "runs/t/model.safetensors", "--out", "runs/t/model.safetensors"}, 2,
         "name another file");
  expect({"average", "runs/t", "runs/t/average.safetensors", "--out", "runs/t/model.safetensors"},
         2, "name another file");
  expect({"average", "runs", "runs/t", "--out", "x"}, 6, "runs: has no model.safetensors");
  expect({"average", "none.safetensors", "--out", "x"}, 6, "none.safetensors");
  ASSERT_EQ(run(small({"model.heads=1", "train.epochs=0.2", "run.name=u"})).code, 0);
  expect({"average", "runs/t", "runs/u", "--out", "x"}, 6, "\"heads\" in their headers differs");
}

TEST_F(Language, EveryMethodTrainsIt) {
  for (const char* method : {"a2cid2", "allreduce", "dpsgd"})
    EXPECT_LT(loss_of_two(small({}), method), 2.3) << method;
}

TEST_F(Language, AModelGoesOnFromAFile) {
  ASSERT_EQ(run(small({})).code, 0);
  const Result r = run({"train", "task=language", "data.train=language", "data.length=8",
                        "model.init=runs/t", "train.batch=8", "run.name=next", "optim.name=adamw",
                        "optim.learning_rate=1e-6", "train.epochs=0.2", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_LT(Json::parse(r.out)["loss"], 2.5);
  EXPECT_EQ(Json::parse(read_text(folder / "runs/next/config.json"))["n_positions"], 16);
}

TEST_F(Language, HeadsThatNobodySaysAreGuessedAloud) {
  ASSERT_EQ(run(small({})).code, 0);
  nn::Weights file = nn::read_weights(folder / "runs/t/model.safetensors");
  fs::create_directories(folder / "bare");
  write_safetensors(folder / "bare/model.safetensors", file.tensors, {});
  const auto loss = [&](const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", model, "data.val=language", "--json"});
    const Result r = run(more);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err.find("does not say how many heads") != std::string::npos,
              model == "bare" && more.size() == 4)
        << r.err;
    return Json::parse(r.out)["loss"].get<double>();
  };
  const double right = loss("runs/t", {});
  EXPECT_EQ(loss("bare", {"model.heads=2"}), right);
  EXPECT_NE(loss("bare", {}), right);
}

// A model that is moved without the rest of its run still knows what its tensors do not show.
TEST_F(Language, TheEpsilonOfAnotherProgramsModelStaysInItsFile) {
  ASSERT_EQ(run(small({})).code, 0);
  const nn::Weights file = nn::read_weights(folder / "runs/t/model.safetensors");
  fs::create_directory(folder / "hf");
  write_safetensors(folder / "hf/model.safetensors", file.tensors, {});
  write_text(folder / "hf/config.json",
             R"({"model_type": "gpt2", "n_head": 2, "layer_norm_epsilon": 0.5})");
  const auto loss = [&](const std::string& model) {
    const Result r = run({"eval", model, "data.val=language", "--json"});
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out)["loss"].get<double>();
  };
  const Result trained = run(small({"model.init=hf", "run.name=u", "optim.learning_rate=1e-9",
                                    "train.epochs=1", "model.init_other_tokenizer=true"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string lone = read_text(folder / "runs/u/model.safetensors");
  write_text(folder / "lone.safetensors", lone);
  EXPECT_NEAR(loss("lone.safetensors"), loss("hf"), 1e-4);
  EXPECT_GT(std::abs(loss("hf") - loss("runs/t")), 1e-3);
}

TEST_F(Language, WindowsThatOverlapAreThoseOfHuggingFace) {
  const std::string golden = GOSSAMER_SOURCE_DIR "/tests/golden/";
  const SafeTensors file = read_safetensors(golden + "gpt2-tiny.safetensors");
  std::vector<NamedTensor> weights;
  for (const NamedTensor& t : file.tensors)
    if (t.name.starts_with("transformer.")) weights.push_back(t);
  write_text(folder / "hf/config.json", R"({"model_type": "gpt2", "n_head": 4})");
  write_safetensors(folder / "hf/model.safetensors", weights, {});
  std::string ids;
  const Tensor* text = file.find("ids");
  for (i64 i = 0; i < text->numel(); ++i) ids += {char(text->as<std::int32_t>()[i]), '\0'};
  write_text(folder / "ids.bin", ids);
  for (const Json& wanted : Json::parse(read_text(golden + "perplexity.json"))) {
    const Result r = run({"eval", "hf", "data.val=ids.bin", "--json", "eval.batch=3", "--stride",
                          wanted["stride"].dump(), "data.length=" + wanted["length"].dump()});
    ASSERT_EQ(r.code, 0) << r.err;
    const Json found = Json::parse(r.out);
    EXPECT_EQ(found["tokens"], wanted["tokens"]);
    EXPECT_EQ(found["recipe"],
              wanted["stride"] == wanted["length"] ? "disjoint windows" : "sliding windows");
    EXPECT_NEAR(found["loss"], wanted["loss"].get<double>(), 2e-5) << wanted;
  }
}

TEST_F(Language, ARunWhoseModelIsWorseThanAGuessSaysSo) {
  const auto fine = run(small({}));
  ASSERT_EQ(fine.code, 0) << fine.err;
  EXPECT_THAT(fine.err, Not(HasSubstr("guess")));
  const Result r =
      run(small({"optim.name=sgd", "optim.learning_rate=100", "optim.clip_norm=1",
                 "optim.schedule=constant", "optim.warmup_epochs=0", "run.name=wild"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("is more than twice that of a guess"));
  EXPECT_THAT(r.out, testing::ContainsRegex("perplexity [0-9.]+e[+][0-9]+"));
  const Json summary = Json::parse(read_text(folder / "runs/wild/summary.json"));
  EXPECT_THAT(summary["warnings"].dump(), HasSubstr("of a guess"));
}

TEST_F(Language, AFinishedRunSaysThatItGoesBackToAnOlderCheckpoint) {
  ASSERT_EQ(run(small({"run.checkpoint_every=1"})).code, 0);
  const auto resume = [&](const char* epochs) {
    const Result r = run({"train", "--resume", "runs/t", epochs, "run.checkpoint_every=0"});
    EXPECT_EQ(r.code, 0) << r.err;
    return r.err;
  };
  EXPECT_THAT(resume("train.epochs=3"), Not(HasSubstr("had finished")));
  fs::path newest;
  for (const auto& e : fs::directory_iterator(folder / "runs/t/checkpoints"))
    newest = std::max(newest, e.path());
  fs::remove_all(newest);
  EXPECT_THAT(resume("train.epochs=4"), HasSubstr("this run had finished after 3."));
  EXPECT_THAT(resume("train.epochs=4"), HasSubstr("is finished"));
  for (const char* other : {"model.heads=1", "model.gelu=erf", "data.length=8", "optim.name=sgd"}) {
    const Result r = run({"train", "--resume", "runs/t", "run.name=u", "train.epochs=5", other});
    EXPECT_EQ(r.code, 2) << other;
    EXPECT_THAT(r.err, HasSubstr("--resume goes on with that; leave"));
  }
}

TEST_F(Language, TheBestModelOfARunThatWasStoppedNeedsNoData) {
  start(small({"train.epochs=400", "eval.every=1", slowed(1, 3)}));
  ASSERT_TRUE(wait_for("eval", 1));
  kill(running, SIGTERM);
  ASSERT_EQ(wait().code, 143);
  fs::rename(folder / "language", folder / "away");
  const Result mean = run({"average", "runs/t", "--last", "1"});
  EXPECT_EQ(mean.code, 0) << mean.err;
  EXPECT_EQ(run({"eval", "runs/t/average.safetensors", "data.val=away"}).code, 0);
  const auto generate = [&](const char* model) {
    return run({"generate", model, "--prompt", "the", "--tokens", "3"});
  };
  EXPECT_THAT(generate("runs/t").err,
              HasSubstr("taken is its best model, runs/t/best.safetensors"));
  const Result text = generate("runs/t/best.safetensors");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith("the"));
}

TEST_F(Language, AnotherTokenizerIsRefused) {
  ASSERT_EQ(run(small({"run.checkpoint_every=1"})).code, 0);
  write_text(folder / "upper.txt", std::string(3000, 'A') + std::string(3000, 'B'));
  ASSERT_EQ(run({"data", "tokenize", "upper.txt", "--tokenizer", "characters", "--val-fraction",
                 "0.1", "--out", "upper"})
                .code,
            0);
  const Result r = run({"train", "--resume", "runs/t", "data.train=upper", "train.epochs=4"});
  EXPECT_EQ(r.code, 2) << r.out << r.err;
  EXPECT_THAT(r.err, HasSubstr("upper: was made with another tokenizer than what runs/t"));
  const Result text = run({"generate", "runs/t", "--tokenizer", "upper", "--prompt", "A"});
  EXPECT_EQ(text.code, 2) << text.out << text.err;
  EXPECT_THAT(text.err, HasSubstr("the model has another tokenizer"));
  const auto init = [&](const std::string& data, const char* other) {
    return run(small({"data.train=" + data, "model.init=runs/t", "run.name=next",
                      std::string("model.init_other_tokenizer=") + other}));
  };
  const Result refused = init("upper", "false");
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("upper: was made with another tokenizer than lies beside "
                                     "runs/t, so its ids are other text"));
  EXPECT_FALSE(fs::exists(folder / "runs/next"));
  const Result asked = init("upper", "true");
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_THAT(asked.out, HasSubstr("with another tokenizer than lies beside runs/t"));
  const Result mean = run({"average", "runs/t", "runs/next", "--out", "mean.safetensors"});
  EXPECT_EQ(mean.code, 2) << mean.out;
  EXPECT_THAT(mean.err, HasSubstr("runs/next has another tokenizer beside it"));

  // A file that is written otherwise says the same ids.
  const fs::path file = folder / "runs/t/characters.json";
  write_text(file, Json::parse(read_text(file)).dump(2));
  const Result same = init("language", "false");
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(run({"eval", "runs/t", "data.val=language"}).code, 0);
  fs::remove(file);
  EXPECT_THAT(init("language", "false").out, HasSubstr("no tokenizer lies beside runs/t"));
}

TEST_F(Language, ConfigTomlSaysWhichModelItWentOnFrom) {
  ASSERT_EQ(run(small({"model.gelu=erf", "model.bias=false"})).code, 0);
  const auto next = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"train", "task=language", "data.train=language", "data.length=8", "train.batch=8",
                 "model.init=runs/t", "train.epochs=0.2", "run.name=next"});
    return run(more);
  };
  const Result r = next({});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(
      read_text(folder / "runs/next/config.toml"),
      AllOf(HasSubstr("\nlayers = 1\n"), HasSubstr("\nwidth = 16\n"), HasSubstr("\nheads = 2\n"),
            HasSubstr("\ngelu = \"erf\"\n"), HasSubstr("\nbias = false\n")));
  for (const char* other :
       {"model.gelu=tanh", "model.bias=true", "model.name=gpt2-medium", "model.layers=2"}) {
    const Result refused = next({other});
    EXPECT_EQ(refused.code, 2) << other;
    const std::string key = std::string(other).substr(0, std::string(other).find('='));
    EXPECT_THAT(refused.err, HasSubstr("leave " + key + " out"));
  }
}

TEST_F(Language, ModelsOfOtherTypesAreRefusedByName) {
  ASSERT_EQ(run(small({})).code, 0);
  write_text(folder / "runs/t/config.json", R"({"model_type": "llama"})");
  // What the file says of itself is no other type's; without it nobody knows.
  const nn::Weights file = nn::read_weights(folder / "runs/t/model.safetensors");
  write_safetensors(folder / "runs/t/model.safetensors", file.tensors, {});
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"generate", "runs/t", "--prompt", "the"},
        {"eval", "runs/t", "data.val=language"},
        small({"model.init=runs/t", "run.name=next"})}) {
    const Result r = run(command);
    EXPECT_EQ(r.code, 6) << command[0] << r.out;
    EXPECT_THAT(r.err, HasSubstr("runs/t/config.json: model_type is \"llama\""));
  }
}

// What is no text becomes a mark of it, and so stays JSON.
TEST_F(Language, PromptsOfAFile) {
  ASSERT_EQ(run(small({})).code, 0);
  write_text(folder / "prompts.txt", "the cat\r\nthe dog\r\n");
  const Result r =
      run({"generate", "runs/t", "--file", "prompts.txt", "--lines", "--tokens", "2", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("\"the cat"), Not(HasSubstr("\\u000d"))));
  EXPECT_EQ(json_text("a\xff\xc3\xa9\"\n"), "\"a\xEF\xBF\xBD\xc3\xa9\\\"\\u000a\"");
}

TEST_F(Language, EachPromptOfStandardInputIsAnsweredBeforeTheNextIsRead) {
  ASSERT_EQ(run(small({})).code, 0);
  expect_an_answer_to_each_line(
      {"generate", "runs/t", "--file", "-", "--lines", "--tokens", "2", "--json"}, "the\n");
}

TEST_F(Language, APromptThatIsWrongKeepsNoOtherFromBeingAnswered) {
  ASSERT_EQ(run(small({})).code, 0);
  write_text(folder / "prompts.txt", "the cat\nZ\nthe dog\n");
  const std::vector<std::string> command{"generate", "runs/t", "--file",   "prompts.txt",
                                         "--lines",  "--json", "--tokens", "2"};
  const Result r = run(command);
  EXPECT_EQ(r.code, 3) << r.err;
  EXPECT_THAT(r.err, HasSubstr("prompts.txt:2: "));
  std::istringstream lines(r.out);
  std::vector<Json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(Json::parse(line));
  ASSERT_EQ(answers.size(), 3u) << r.out;
  EXPECT_THAT(answers[0]["text"].get<std::string>(), StartsWith("the cat"));
  EXPECT_THAT(answers[1]["error"].get<std::string>(), HasSubstr("prompts.txt:2: "));
  EXPECT_THAT(answers[2]["text"].get<std::string>(), StartsWith("the dog"));

  const Result lost =
      run({"generate", "runs/t", "--prompt", "the cat sat on the mat", "--tokens", "2"});
  EXPECT_EQ(lost.code, 0);
  EXPECT_THAT(lost.err, HasSubstr("the prompt has 22 ids, the model sees 16 at once"));
}

TEST_F(Language, AnInterruptedTextEndsWithItsLine) {
  ASSERT_EQ(run(small({})).code, 0);
  fs::remove(folder / "out");
  start({"generate", "runs/t", "--tokens", "100000000", "--ignore-end"});
  for (int i = 0; i < static_cast<int>(kLimit * 50) && read_text(folder / "out").size() < 50; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(running, SIGINT);
  const Result r = wait();
  EXPECT_EQ(r.code, 130);
  EXPECT_TRUE(r.out.size() > 50 && r.out.ends_with('\n'));
}

TEST_F(Language, WrongInputIsOneSentence) {
  const auto expect = [&](const std::vector<std::string>& arguments, int code,
                          const std::string& says) {
    const Result r = run(arguments);
    EXPECT_EQ(r.code, code) << r.out << r.err;
    EXPECT_THAT(r.err, HasSubstr(says));
    EXPECT_EQ(std::ranges::count(r.err, '\n'), 1) << r.err;
  };
  expect(small({"model.name=resnet20-cifar"}), 2, "with task=language");
  expect({"train", "model.name=gpt2"}, 2, "task=language must be said");
  expect(small({"model.heads=3"}), 2, "no multiple of its 3 heads");
  expect(small({"data.shard=dirichlet:0.3"}), 2, "use documents");
  expect(small({"model.classes=3"}), 2, "model.classes");
  expect(small({"data.train=none-there"}), 3, "none-there");
  expect(small({"data.length=100000"}), 3, "ids");
  expect(small({"train.mixup=0.2"}), 2, "train.mixup");
  expect(small({"data.val_split=0.1"}), 2, "--val-fraction");
  expect(small({"model.ff=32"}), 2, "model.ff = 32");
  expect(small({"data.augment=none"}), 2, "only runs of pictures read it");
  expect(small({"data.eval_size=48"}), 2, "it must be left at \"auto\" with task=language");
  expect({"train", "data.length=64"}, 2, "only runs of language or translation read it");
  write_text(folder / "ids.bin", std::string("\1\0\2\0\1\0\xff\xff", 8));
  expect(small({"data.val=ids.bin"}), 3, "ids.bin: id 3 is 65535; the vocabulary has");
  write_text(folder / "one.bin", std::string("\1\0", 2));
  expect(small({"data.val=one.bin"}), 3, "one.bin: its validation text is a single id");
  expect({"generate", "runs", "--prompt", "a", "--dtype", "foo"}, 2, "dtype foo");
  expect({"generate", "runs", "--file", "runs"}, 6, "runs");
  expect({"eval", "language", "data.val=language"}, 6, "model.safetensors");
  expect({"generate", "language", "--prompt", "a"}, 6, "model.safetensors");
  expect({"generate", "runs", "--prompt", "a", "--top-p", "2"}, 2, "top-p = 2");
  expect({"generate", "runs", "--seed", "99999999999999999999"}, 2, "--seed");
}

}  // namespace
}  // namespace gossamer::apps
