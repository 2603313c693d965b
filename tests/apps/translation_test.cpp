// Translation from outside: from pairs of sentences to a model that translates, by several methods,
// evaluated by BLEU, and what is said of wrong input.
#include <cmath>

#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/data/text/bleu.h"
#include "gossamer/data/text/text_set.h"
#include "gossamer/nn/weights.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Translation : public TextTest {
 protected:
  static std::vector<std::string> small(std::vector<std::string> more) {
    std::vector<std::string> all{"train",
                                 "task=translation",
                                 "data.train=translation",
                                 "data.length=32",
                                 "model.layers=1",
                                 "model.width=32",
                                 "model.ff=64",
                                 "model.heads=2",
                                 "model.norm_first=true",
                                 "train.batch=128",
                                 "train.epochs=1",
                                 "train.threads=1",
                                 "optim.name=adam",
                                 "optim.learning_rate=0.005",
                                 "optim.weight_decay=0",
                                 "optim.warmup_epochs=0",
                                 "run.log_every=1",
                                 "run.name=t"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void expect_error(const std::vector<std::string>& arguments, int code, const std::string& says) {
    const Result r = run(arguments);
    EXPECT_EQ(r.code, code) << r.out << r.err;
    EXPECT_THAT(r.err, HasSubstr(says));
    EXPECT_EQ(std::ranges::count(r.err, '\n'), 1) << r.err;
  }
  // Runs the program with a file as its standard input.
  Result translate_file(const std::string& file, std::vector<std::string> more = {}) {
    in_child = [path = (folder / file).string()] {
      const int in = open(path.c_str(), O_RDONLY);
      dup2(in, 0);
    };
    std::vector<std::string> all{"translate", "runs/t"};
    all.insert(all.end(), more.begin(), more.end());
    const Result r = run(all);
    in_child = nullptr;
    return r;
  }
};

TEST_F(Translation, FromPairsToASentence) {
  const Result trained =
      run(small({"train.epochs=25", "eval.every=5", "optim.label_smoothing=0.05", "--json"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json s = Json::parse(trained.out);
  EXPECT_GT(s["bleu"], 90) << "there are 24 sentences only";
  EXPECT_NEAR(s["perplexity"], std::exp(s["loss"].get<double>()), 1e-3);
  EXPECT_GT(s["tokens_per_s"], 0);
  EXPECT_EQ(s["model"], "transformer");
  const data::TextSet set = data::open_text((folder / "translation").string());
  EXPECT_EQ(s["val_tokens"], set.val.targets->size());
  ASSERT_EQ(events("eval").size(), 5u);
  EXPECT_LT(events("eval").front()["bleu"], events("eval").back()["bleu"]);
  EXPECT_GT(s["best"]["bleu"], 90);
  for (const char* name : {"model.safetensors", "vocab.json", "merges.txt", "report.html"})
    EXPECT_TRUE(fs::exists(folder / "runs/t" / name)) << name;

  // The file is a whole model: greedy, it scores as at the end of training.
  const auto eval = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "runs/t", "data.val=translation", "--json"});
    const Result r = run(more);
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out);
  };
  const Json greedy = eval({"--beam", "1"}), one_by_one = eval({"--beam", "1", "eval.batch=1"});
  EXPECT_NEAR(greedy["loss"], s["loss"].get<double>(), 1e-5);
  EXPECT_NEAR(greedy["bleu"], s["bleu"].get<double>(), 1e-9);
  EXPECT_NEAR(one_by_one["loss"], s["loss"].get<double>(), 1e-5) << "padding changes nothing";
  EXPECT_NEAR(one_by_one["bleu"], s["bleu"].get<double>(), 1e-9);
  EXPECT_GT(eval({})["bleu"], 90) << "beam 4";

  // Lines in, lines out, in their order; a line without text has none.
  write_text(folder / "in.txt",
             "the dog sees music.\n\na girl likes the sea.\r\na boy hears music.");
  const Result text = translate_file("in.txt");
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out, "der Hund sieht Musik.\n\nein Kind mag das Meer.\nein Junge hört Musik.\n");
  EXPECT_EQ(translate_file("in.txt", {"--beam", "1", "--batch", "1"}).out, text.out);
  EXPECT_EQ(run({"translate", "runs/t/model.safetensors", "--file", "in.txt"}).out, text.out);
  const Result scored = run({"translate", "runs/t", "--file", "val.en", "--reference", "val.de"});
  const Json json = Json::parse(
      run({"translate", "runs/t", "--file", "val.en", "--reference", "val.de", "--json"}).out);
  EXPECT_EQ(std::ranges::count(scored.out, '\n'), 24);
  EXPECT_THAT(scored.err, AllOf(HasSubstr("BLEU = "), HasSubstr("tok:13a")));
  EXPECT_THAT(scored.err, HasSubstr("chrF2 = "));
  EXPECT_GT(json["chrf"].get<double>(), json["bleu"].get<double>() / 2);
  // One of several right translations suffices.
  std::string other;
  for (int i = 0; i < 24; ++i) other += "etwas ganz anderes\n";
  write_text(folder / "other.de", other);
  const Json two = Json::parse(run({"translate", "runs/t", "--file", "val.en", "--reference",
                                    "other.de", "--reference", "val.de", "--json"})
                                   .out);
  EXPECT_NEAR(two["chrf"].get<double>(), json["chrf"].get<double>(), 1e-9);
  EXPECT_GE(two["bleu"].get<double>(), json["bleu"].get<double>());
  EXPECT_THAT(two["bleu_signature"].get<std::string>(), HasSubstr("nrefs:2"));
  EXPECT_EQ(json["translations"].size(), 24u);
  const Json beam = eval({});
  EXPECT_NEAR(json["bleu"], beam["bleu"].get<double>(), 1e-9);
  EXPECT_NEAR(json["chrf"], beam["chrf"].get<double>(), 1e-9);
  EXPECT_EQ(json["chrf_signature"], beam["chrf_signature"]);
  // Several translations of each line, with their scores; the first is what is written without.
  const auto translated = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"translate", "runs/t", "--file", "in.txt"});
    const Result r = run(more);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  const std::string three = translated({"--n-best", "3"});
  EXPECT_EQ(std::ranges::count(three, '\n'), 12) << "the line without text has three, too";
  EXPECT_THAT(three, ::testing::StartsWith("der Hund sieht Musik.\n"));
  const Json listed = Json::parse(translated({"--n-best", "3", "--scores", "--json"}));
  ASSERT_EQ(listed["n_best"].size(), 4u);
  EXPECT_EQ(listed["n_best"][1], Json::array());
  EXPECT_TRUE(listed["scores"][1].is_null());
  std::string same, plain;
  for (const Json& line : listed["n_best"]) {
    double before = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      same += k < line.size() ? line[k]["translation"].get<std::string>() + "\n" : "\n";
      if (line.empty()) continue;
      EXPECT_LE(line[k]["score"].get<double>(), before) << "the best first";
      before = line[k]["score"];
    }
    plain += line.empty() ? "\n" : line[0]["translation"].get<std::string>() + "\n";
  }
  EXPECT_EQ(same, three);
  EXPECT_EQ(plain, text.out);
  const std::string scores = translated({"--scores"});
  EXPECT_NEAR(std::stod(scores), listed["scores"][0].get<double>(), 1e-4);
  EXPECT_EQ(scores.substr(scores.find('\t') + 1, 21), "der Hund sieht Musik.");
  std::istringstream each(translated({"--lines", "--json", "--n-best", "2", "--scores"}));
  std::string first, second;
  std::getline(each, first), std::getline(each, second);
  EXPECT_EQ(Json::parse(first)["translation"], "der Hund sieht Musik.");
  EXPECT_EQ(Json::parse(first)["n_best"].size(), 2u);
  EXPECT_NEAR(Json::parse(first)["score"], listed["scores"][0].get<double>(), 1e-5);
  EXPECT_EQ(Json::parse(second)["translation"], "");

  // Drawn instead: at temperature 0 the greedy ones, else those of the seed.
  EXPECT_EQ(translated({"--sample", "--temperature", "0"}), translated({"--beam", "1"}));
  const std::vector<std::string> hot{"--sample", "--temperature", "3", "--n-best", "2"};
  const auto seeded = [&](const char* seed) {
    auto arguments = hot;
    arguments.insert(arguments.end(), {"--seed", seed});
    return translated(arguments);
  };
  EXPECT_EQ(seeded("5"), seeded("5"));
  EXPECT_NE(seeded("5"), seeded("6"));
  auto one_line = hot;
  one_line.insert(one_line.end(), {"--batch", "1", "--seed", "5"});
  EXPECT_EQ(translated(one_line), seeded("5")) << "whatever stands beside it";

  write_text(folder / "empty.txt", "");
  EXPECT_EQ(translate_file("empty.txt").out, "");
  EXPECT_EQ(translate_file("empty.txt").code, 0);
}

TEST_F(Translation, TheMeanOfCheckpointsTranslates) {
  const Result trained = run(small(
      {"train.epochs=25", "run.checkpoint_every=1", "run.keep=3", "optim.label_smoothing=0.05"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  ASSERT_EQ(run({"average", "runs/t", "--last", "3"}).code, 0);
  const auto text = [&](const std::string& model) {
    const Result r = run({"translate", model, "--file", "val.en"});
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  EXPECT_EQ(text("runs/t/average.safetensors"), text("runs/t"));
  EXPECT_NE(read_text(folder / "runs/t/average.safetensors"),
            read_text(folder / "runs/t/model.safetensors"));
}

TEST_F(Translation, EveryMethodTrainsIt) {
  for (const char* method : {"a2cid2", "allreduce", "dadam", "accum-adam", "diloco"}) {
    SCOPED_TRACE(method);
    const Result r =
        run(small({"--workers", "2", std::string("train.method=") + method, "optim.name=auto",
                   "train.epochs=6", "eval.every=3", "eval.of=mean", "--json"}));
    ASSERT_EQ(r.code, 0) << r.err;
    const Json s = Json::parse(r.out);
    EXPECT_TRUE(s["bleu"].is_number());
    EXPECT_EQ(s["workers_at_end"], 2);
    // Each pair once, whoever translated it: the model's file says the same.
    const Json e =
        Json::parse(run({"eval", "runs/t", "data.val=translation", "--beam", "1", "--json"}).out);
    EXPECT_EQ(s["val_tokens"], e["tokens"]);
    EXPECT_NEAR(s["loss"], e["loss"].get<double>(), 1e-5);
    EXPECT_NEAR(s["bleu"], e["bleu"].get<double>(), 1e-9);
    EXPECT_NEAR(s["chrf"], e["chrf"].get<double>(), 1e-9);
    fs::remove_all(folder / "runs");
  }
}

TEST_F(Translation, AGraphIsNamedWhereTheMethodHasOne) {
  const auto line = [&](const std::string& method, const std::string& more = "train.seed=0") {
    const Result r = run(small({"--workers", "2", "train.method=" + method, "optim.name=auto",
                                "train.graph=complete", more, "--dry-run"}));
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  EXPECT_THAT(line("a2cid2"), HasSubstr("a2cid2 on complete at rate 1: chi1"));
  EXPECT_THAT(line("noloco"), HasSubstr("noloco on complete, 1 compute"));
  EXPECT_THAT(line("diloco"), HasSubstr("diloco, 1 compute"));
  const std::string control = "consensus-control";
  EXPECT_THAT(line(control, "control.method=dpsgd"), HasSubstr(control + " on complete, 1"));
  EXPECT_THAT(line(control, "control.method=local-sgd"), HasSubstr(control + ", 1 compute"));
}

TEST_F(Translation, AModelGoesOnFromAFile) {
  ASSERT_EQ(run(small({"train.epochs=10"})).code, 0);
  const double before = summary()["loss"];
  const Result r = run({"train", "task=translation", "data.train=translation", "data.length=20",
                        "model.init=runs/t", "train.batch=128", "run.name=next", "optim.name=adam",
                        "optim.learning_rate=1e-6", "train.epochs=0.5"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NEAR(summary("next")["loss"], before, 0.05);
  EXPECT_THAT(read_text(folder / "runs/next/config.toml"),
              AllOf(HasSubstr("\nff = 64\n"), HasSubstr("\nnorm_first = true\n")));
}

TEST_F(Translation, WhatAFileOfBeforeDoesNotSayIsAsByDefault) {
  ASSERT_EQ(run(small({})).code, 0);
  const fs::path model = folder / "runs/t/model.safetensors";
  const nn::Weights file = nn::read_weights(model);
  const auto with = [&](const std::string& key, const char* value) {
    auto header = file.metadata;
    header.erase(key);
    if (value) header[key] = value;
    write_safetensors(model, file.tensors, header);
    return run({"train", "task=translation", "data.train=translation", "data.length=20",
                "model.init=runs/t", "train.batch=128", "run.name=next", "train.epochs=0.1"});
  };
  EXPECT_EQ(with("norm_first", nullptr).code, 0);
  EXPECT_THAT(read_text(folder / "runs/next/config.toml"), HasSubstr("\nnorm_first = false\n"));
  EXPECT_THAT(with("heads", nullptr).err, HasSubstr("the header has no \"heads\""));
  EXPECT_THAT(with("heads", "0").err,
              HasSubstr("\"heads\" in the header is \"0\"; it must be 1 to"));
  EXPECT_THAT(with("norm_first", "yes").err, HasSubstr("it must be true or false"));
}

TEST_F(Translation, TheMovingAverageIsScoredToo) {
  ASSERT_EQ(run(small({"train.epochs=4", "eval.every=2", "train.ema=0.9"})).code, 0);
  EXPECT_TRUE(summary()["ema_bleu"].is_number());
  EXPECT_EQ(run({"eval", "runs/t/model-ema.safetensors", "data.val=translation"}).code, 0);

  // Its counters of dropout are whole numbers, which have no mean.
  const std::string mean = "runs/t/mean.safetensors";
  ASSERT_EQ(run({"average", "runs/t", "runs/t/model-ema.safetensors", "--out", mean}).code, 0);
  EXPECT_EQ(run({"eval", mean, "data.val=translation"}).code, 0);
  expect_error({"eval", "runs/t", mean, "data.val=translation"}, 2,
               "is evaluated alone; leave runs/t/mean.safetensors out");
}

TEST_F(Translation, WrongInputIsOneSentence) {
  ASSERT_EQ(run(small({})).code, 0);
  expect_error(small({"model.name=gpt2"}), 2, "with task=translation");
  expect_error({"train", "model.name=transformer"}, 2, "task=translation must be said");
  expect_error(small({"model.heads=3"}), 2, "3 heads");
  expect_error(small({"data.shard=dirichlet:0.3"}), 2, "pairs have no classes");
  expect_error(small({"model.classes=20"}), 2, "the data has 310 ids, the model 20");
  expect_error(small({"data.train=language"}), 3, "language: has no pairs of sentences");
  expect_error(small({"task=language", "model.ff=auto", "model.norm_first=false"}), 3,
               "holds pairs of sentences");
  expect_error(
      small({"model.bias=false"}), 2,
      "left at true with model.name = transformer: only models of the family gpt2 take it");
  expect_error(small({"model.init=runs/t", "model.ff=32"}), 2,
               "model.ff = 32: the model of runs/t");
  expect_error(small({"model.init=runs/t", "model.norm_first=false"}), 2,
               "model.norm_first = false: the model of runs/t");
  expect_error({"train", "task=translation", "data.train=translation", "model.init=runs/t",
                "model.name=transformer-big"},
               2, "model.name = transformer-big has model.layers = 6");
  expect_error(small({"data.train=none-there"}), 3, "none-there");
  expect_error(small({"data.val=language"}), 3, "language: holds no pairs of sentences");
  expect_error(small({"data.length=4"}), 3, "ids with their marks; the limit is 4");
  expect_error(small({"train.batch=4"}), 3, "more than a batch of 4");
  expect_error({"translate", "language"}, 6, "model.safetensors");
  expect_error({"translate", "runs/t", "--file", "none.txt"}, 6, "none.txt");
  expect_error({"translate", "runs/t", "--file", "val.en", "--beam", "0"}, 2, "--beam 0");
  expect_error({"generate", "runs/t"}, 2, "`gossamer translate` translates with it");
  const std::string model = "runs/t/model.safetensors";
  expect_error({"export", model, "--to", "torch", "--out", "x"}, 2,
               "export: " + model + " is a translation model");
  expect_error({"eval", "runs/t", "data.val=language"}, 3, "holds no pairs of sentences");
  fs::copy(folder / "runs/t", folder / "lone", fs::copy_options::recursive);
  fs::remove(folder / "lone/log.jsonl");  // what is no run has no data of its own
  expect_error({"eval", "lone"}, 2, "give the pairs");
  expect_error({"eval", "runs/t", "data.val=translation", "--stride", "4"}, 2, "--stride");
  expect_error({"eval", "runs/t", "data.val=translation", "--flip"}, 2, "--flip");
  expect_error({"eval", "runs/t", "data.val=translation", "data.length=4"}, 3, "the limit is 4");
  expect_error({"eval", "runs/t", "data.val=translation", "data.length=64"}, 2, "reads 32 ids");
  expect_error({"translate", "runs/t", "--file", "language"}, 6, "cannot open");
  expect_error({"translate", "runs/t", "--file", "val.en", "--n-best", "5"}, 2,
               "--n-best 5; wanted 1 to 4, as many as --beam follows");
  expect_error({"translate", "runs/t", "--file", "val.en", "--sample", "--top-p", "0"}, 2,
               "top-p = 0");
  expect_error({"translate", "runs/t", "--file", "val.en", "--top-k", "3"}, 2, "--sample");
  expect_error({"translate", "runs/t", "--file", "val.en", "--sample", "--beam", "2"}, 2, "--beam");
  write_text(folder / "short.de", "die Katze\n");
  for (const std::string reference : {"short.de", "none.de"})
    EXPECT_EQ(run({"translate", "runs/t", "--file", "val.en", "--reference", reference}).out, "")
        << "nothing is translated before the reference is read";
  expect_error({"translate", "runs/t", "--file", "val.en", "--reference", "short.de"}, 3,
               "short.de: has 1 lines, and 24 are to be translated");
  // Of another task than the run.
  expect_error(
      {"train", "task=language", "data.train=language", "model.init=runs/t"}, 2,
      "model.init: runs/t is a model for task=translation, and this run has task=language");
  expect_error({"train", "data.train=translation", "data.val=none"}, 3,
               "translation: holds ids of text, and this run is on pictures; say task=language");
}

TEST_F(Translation, ALineThatIsWrongKeepsNoOtherFromBeingTranslated) {
  ASSERT_EQ(run(small({})).code, 0);
  const std::string cat = "the cat sees music.\n", dog = "the dog likes the sea.\n", z(400, 'z');
  write_text(folder / "bad.txt", cat + "the \xfc\xdf\n" + z + "\n" + dog);
  write_text(folder / "good.txt", cat + "\n\n" + dog);
  const std::string good = translate_file("good.txt").out;
  EXPECT_EQ(std::ranges::count(good, '\n'), 4);

  const Result skipped = run({"translate", "runs/t", "--file", "bad.txt"});
  EXPECT_EQ(skipped.code, 3) << skipped.err;
  EXPECT_EQ(skipped.out, good);
  EXPECT_THAT(skipped.err, AllOf(HasSubstr("bad.txt:2: byte 5 of the line is no UTF-8"),
                                 HasSubstr("bad.txt:3: the line has 401 ids, the model reads 32")));

  // Cut, it is what its first 31 ids are with the end mark.
  write_text(folder / "long.txt", cat + z + "\n" + dog);
  write_text(folder / "cut.txt", cat + z.substr(0, 31) + "\n" + dog);
  const Result cut = run({"translate", "runs/t", "--file", "long.txt", "--on-long", "cut"});
  EXPECT_EQ(cut.code, 0) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("it is cut"));
  EXPECT_EQ(cut.out, run({"translate", "runs/t", "--file", "cut.txt"}).out);

  const Result stopped = run({"translate", "runs/t", "--file", "long.txt", "--on-long", "stop"});
  EXPECT_EQ(stopped.code, 3);
  EXPECT_EQ(stopped.out, good.substr(0, good.find('\n') + 1)) << "no work is lost";
  EXPECT_THAT(stopped.err, HasSubstr("long.txt:2: the line has 401 ids, the model reads 32"));
}

TEST_F(Translation, EachLineIsAnsweredBeforeTheNextIsRead) {
  ASSERT_EQ(run(small({})).code, 0);
  expect_an_answer_to_each_line({"translate", "runs/t", "--lines"}, "the cat\n");
}

// Of the data: a file cut in half, an empty one, a vocabulary of another size; and a model cut in
// half, or without its tokenizer.
TEST_F(Translation, DamagedFilesAreNamed) {
  ASSERT_EQ(run(small({})).code, 0);
  const auto damaged = [&](const char* name, auto&& damage, const std::string& says) {
    SCOPED_TRACE(name);
    fs::remove_all(folder / "d");
    fs::copy(folder / "translation", folder / "d");
    damage(folder / "d" / name);
    expect_error(small({"data.train=d"}), 3, says);
  };
  const auto half = [](const fs::path& f) { fs::resize_file(f, fs::file_size(f) / 2); };
  const auto empty = [](const fs::path& f) { fs::resize_file(f, 0); };
  for (const char* file : {"train-source-00000.bin", "train-target-00000.bin",
                           "val-source-00000.bin", "val-target-00000.bin"}) {
    damaged(file, half, file);
    damaged(file, empty, file);
  }
  damaged("index.json", half, "index.json");
  damaged("index.json", empty, "index.json");
  damaged("merges.txt", half, "");
  damaged(
      "train-target-00000.bin", [](const fs::path& f) { fs::remove(f); }, "train-target-00000.bin");
  // Of another vocabulary.
  ASSERT_EQ(run({"data", "tokenize", "val.en", "--target", "val.de", "--tokenizer", "bpe:280",
                 "--out", "other"})
                .code,
            0);
  expect_error(small({"data.val=other"}), 3, "other: was made with another tokenizer");
  expect_error({"eval", "runs/t", "data.val=other"}, 3, "was made with another tokenizer");
  ASSERT_EQ(run(small({"run.name=u", "data.train=other", "data.val=none"})).code, 0);
  expect_error(small({"run.name=v", "data.train=other", "data.val=none", "model.init=runs/t"}), 2,
               "model.init_other_tokenizer=true");
  for (const char* name : {"vocab.json", "merges.txt"})
    fs::copy_file(folder / "runs/t" / name, folder / "runs/u" / name,
                  fs::copy_options::overwrite_existing);
  expect_error({"translate", "runs/u", "--file", "val.en"}, 6,
               "has 280 ids, the tokenizer beside it 310");
  fs::remove(folder / "runs/u/vocab.json");
  expect_error({"translate", "runs/u", "--file", "val.en"}, 3, "runs/u");
  half(folder / "runs/t/model.safetensors");
  expect_error({"translate", "runs/t", "--file", "val.en"}, 6, "model.safetensors");
}

}  // namespace
}  // namespace gossamer::apps
