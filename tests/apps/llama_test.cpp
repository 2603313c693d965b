// LLaMA's kind of model from outside: trained, resumed, evaluated and continued by the program, and
// folders of Hugging Face (tests/golden/llama) read by it.
#include <cmath>

#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/nn/weights.h"
#include "support/gguf_file.h"
#include "support/golden_llama.h"
#include "support/torch_bytes.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class LlamaProgram : public LanguageTest {
 protected:
  static std::vector<std::string> small(std::vector<std::string> more) {
    more.insert(more.begin(), {"model.name=llama", "model.heads=4", "model.kv_heads=2"});
    return LanguageTest::small(std::move(more));
  }
  double loss(std::vector<std::string> command) {
    command.insert(command.begin(), "eval");
    command.insert(command.end(), {"data.val=language", "data.length=16", "--json"});
    const Result r = run(command);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.code == 0 ? Json::parse(r.out)["loss"].get<double>() : NAN;
  }
};

TEST_F(LlamaProgram, FromATextToASentence) {
  const Result trained = run(small({"train.epochs=12", "eval.every=3", "--json"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json s = Json::parse(trained.out);
  EXPECT_LT(s["loss"], 0.5) << "the text repeats itself";
  EXPECT_EQ(s["model"], "llama");
  const Json config = Json::parse(read_text(folder / "runs/t/config.json"));
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["max_position_embeddings"], 16);
  const SafeTensors file = read_safetensors(folder / "runs/t/model.safetensors");
  EXPECT_NE(file.find("model.layers.0.self_attn.k_proj.weight"), nullptr);
  EXPECT_EQ(config["tie_word_embeddings"], true);
  EXPECT_EQ(file.find("lm_head.weight"), nullptr);

  EXPECT_NEAR(loss({"runs/t"}), s["loss"].get<double>(), 1e-4);
  fs::copy(folder / "runs/t/model.safetensors", folder / "lone.safetensors");
  EXPECT_NEAR(loss({"lone.safetensors"}), s["loss"].get<double>(), 1e-4)
      << "its header says how it computes";
  const std::vector<std::string> command{"generate", "runs/t", "--prompt",      "the cat",
                                         "--tokens", "60",     "--temperature", "0"};
  const Result text = run(command);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith("the cat sat on"));
  auto without = command;
  without.push_back("--no-cache");
  EXPECT_EQ(run(without).out, text.out) << "beyond the 16 positions, too";
}

TEST_F(LlamaProgram, EveryMethodTrainsIt) {
  for (const char* method : {"a2cid2", "adpsgd", "allreduce", "dpsgd", "local-sgd", "diloco"})
    EXPECT_LT(loss_of_two(small({}), method), 2.5) << method;
}

// The plateau of a run without a fall is cooled down by one that goes on.
TEST_F(LlamaProgram, AResumedRunBeginsTheDecay) {
  const auto rates = [&] {
    std::vector<double> out;
    for (const Json& step : events("step")) out.push_back(step["learning_rate"]);
    return out;
  };
  ASSERT_EQ(run(small({"optim.schedule=wsd", "optim.decay=0", "train.epochs=20 steps"})).code, 0);
  EXPECT_EQ(rates(), std::vector<double>(20, 0.01));
  const Result r =
      run({"train", "--resume", "runs/t", "train.epochs=30 steps", "optim.decay=5 steps"});
  ASSERT_EQ(r.code, 0) << r.err;
  const std::vector<double> all = rates();
  ASSERT_EQ(all.size(), 30u);
  for (std::size_t i = 0; i < 30; ++i)
    EXPECT_NEAR(all[i], i < 25 ? 0.01 : 0.01 * (30 - static_cast<double>(i)) / 5, 1e-9) << i;
  const Result overlap = run(small({"optim.schedule=wsd", "optim.decay=0.9", "train.epochs=1",
                                    "optim.warmup_epochs=0.4", "run.name=u"}));
  EXPECT_EQ(overlap.code, 2);
  EXPECT_THAT(overlap.err, HasSubstr("in the warm-up of"));
}

TEST_F(LlamaProgram, CheckpointsAreModelsAndAverageToOne) {
  ASSERT_EQ(run(small({"train.epochs=4", "run.checkpoint_every=1", "run.keep=3"})).code, 0);
  ASSERT_EQ(run({"average", "runs/t", "--last", "2"}).code, 0);
  const double last = loss({"runs/t"});
  EXPECT_NEAR(loss({"runs/t/average.safetensors"}), last, 0.5);
  fs::remove(folder / "runs/t/model.safetensors");
  EXPECT_NEAR(loss({"runs/t"}), last, 1e-5) << "the newest checkpoint is the end of the run";
}

TEST_F(LlamaProgram, AModelGoesOnFromAFileWhoseFamilyItTakes) {
  ASSERT_EQ(run(small({})).code, 0);
  const std::vector<std::string> next{"train",
                                      "task=language",
                                      "data.train=language",
                                      "data.length=8",
                                      "train.batch=8",
                                      "run.name=next",
                                      "model.init=runs/t",
                                      "train.epochs=0.2",
                                      "optim.name=adamw",
                                      "optim.learning_rate=1e-6",
                                      "--json"};
  const Result r = run(next);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out)["model"], "llama");
  const Json config = Json::parse(read_text(folder / "runs/next/config.json"));
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["max_position_embeddings"], 16);
  for (const auto& [key, says] :
       {std::pair("model.name=gpt2", "is of the family llama; leave model.name out"),
        std::pair("model.kv_heads=4", "leave model.kv_heads out")}) {
    auto other = next;
    other.insert(other.end() - 1, key);
    const Result refused = run(other);
    EXPECT_EQ(refused.code, 2) << key;
    EXPECT_THAT(refused.err, HasSubstr(says));
  }
}

TEST_F(LlamaProgram, ItsSizesCanBeTimedAndDrawn) {
  const Result timed = run({"bench", "step", "--model", "llama:1x64:8:32", "--batch", "2",
                            "--steps", "1", "--warmup", "1", "--json"});
  EXPECT_EQ(timed.code, 0) << timed.err;
  EXPECT_THAT(run({"tape", "llama:1x64:8:32"}).out, HasSubstr("rope"));
}

TEST_F(LlamaProgram, WhatIsNoLlamaOrLacksItsConfigurationIsRefusedInASentence) {
  ASSERT_EQ(run(small({})).code, 0);
  const nn::Weights file = nn::read_weights(folder / "runs/t/model.safetensors");
  fs::create_directory(folder / "bare");
  write_safetensors(folder / "bare/model.safetensors", file.tensors, {});
  const auto says = [&](const std::string& text) {
    const Result r = run({"eval", "bare", "data.val=language"});
    EXPECT_EQ(r.code, 6) << r.out;
    EXPECT_THAT(r.err, HasSubstr(text));
  };
  says("there is no config.json beside it");
  Json config = Json::parse(read_text(folder / "runs/t/config.json"));
  config["num_hidden_layers"] = 2;
  write_text(folder / "bare/config.json", config.dump());
  says("has not the 2 layers");
  config["hidden_act"] = "gelu";
  write_text(folder / "bare/config.json", config.dump());
  says("hidden_act");
  const Result no_dropout = run(small({"model.dropout=0.1"}));
  EXPECT_EQ(no_dropout.code, 2);
  EXPECT_THAT(no_dropout.err, HasSubstr("model.dropout"));
}

// --- folders of Hugging Face

class GoldenFolder : public ProgramTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(golden_llama(GetParam()), folder / "hf", fs::copy_options::recursive);
  }
  SafeTensors golden() const {
    const std::string numbers = GetParam() == std::string("llama-sharded") ? "llama" : GetParam();
    return read_safetensors(golden_llama(numbers) / "golden.safetensors");
  }
};
INSTANTIATE_TEST_SUITE_P(Families, GoldenFolder, llama_families(), llama_family_name);

TEST_P(GoldenFolder, IsEvaluatedAndContinuedAsHuggingFaceDoes) {
  const SafeTensors values = golden();
  const Tensor ids = *values.find("input_ids"), greedy = *values.find("greedy");
  double sum = 0;
  for (i64 row = 0; row < 2; ++row) {
    std::string bytes;
    for (i64 t = 0; t < ids.shape(1); ++t)
      bytes += {static_cast<char>(ids.as<std::int32_t>()[row * ids.shape(1) + t]), '\0'};
    write_text(folder / "ids.bin", bytes);
    const Result r = run({"eval", "hf", "data.val=ids.bin", "--json",
                          "data.length=" + std::to_string(ids.shape(1) - 1)});
    ASSERT_EQ(r.code, 0) << r.err;
    sum += Json::parse(r.out)["loss"].get<double>();
  }
  EXPECT_NEAR(sum / 2, values.find("loss")->item(), 1e-5);

  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Json characters;
  for (const char each : letters) characters.push_back(std::string(1, each));
  write_text(folder / "hf/characters.json", characters.dump());
  const i64 asked = 8, all = greedy.shape(1);
  std::vector<std::string> command{
      "generate", "hf",           "--temperature", "0",
      "--json",   "--ignore-end", "--tokens",      std::to_string(all - asked)};
  for (i64 row = 0; row < 2; ++row) {
    std::string prompt;
    for (i64 t = 0; t < asked; ++t)
      prompt += letters[static_cast<std::size_t>(greedy.as<std::int32_t>()[row * all + t])];
    command.insert(command.end(), {"--prompt", prompt});
  }
  for (const bool cache : {true, false}) {
    if (!cache) command.push_back("--no-cache");
    const Result r = run(command);
    ASSERT_EQ(r.code, 0) << r.err;
    std::istringstream lines(r.out);
    std::vector<std::int32_t> found;
    for (std::string line; std::getline(lines, line);) {
      const Json text = Json::parse(line);
      for (const std::int32_t id : text["ids"]) found.push_back(id);
    }
    EXPECT_EQ(found, std::vector<std::int32_t>(greedy.span<std::int32_t>().begin(),
                                               greedy.span<std::int32_t>().end()))
        << (cache ? "with" : "without") << " a cache";
  }
}

// Ends are those of generation_config.json, any of a list.
TEST_F(LlamaProgram, ATextEndsAtAnyOfTheIdsThatTheFolderNames) {
  fs::copy(GOSSAMER_SOURCE_DIR "/tests/golden/llama/llama3", folder / "hf",
           fs::copy_options::recursive);
  const SafeTensors values = read_safetensors(folder / "hf/golden.safetensors");
  const Tensor greedy = *values.find("greedy");
  const i64 all = greedy.shape(1), asked = 8, first_end = 11;
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Json characters;
  for (const char each : letters) characters.push_back(std::string(1, each));
  write_text(folder / "hf/characters.json", characters.dump());
  const auto id = [&](i64 at) { return greedy.as<std::int32_t>()[at]; };
  std::string prompt;
  for (i64 t = 0; t < asked; ++t) prompt += letters[static_cast<std::size_t>(id(t))];
  i64 stops = asked;
  while (id(stops) != id(first_end)) ++stops;  // that id may have come before
  write_text(folder / "hf/generation_config.json",
             Json{{"eos_token_id", {63, id(first_end)}}}.dump());
  const Result r = run({"generate", "hf", "--temperature", "0", "--json", "--prompt", prompt,
                        "--tokens", std::to_string(all - asked)});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out)["tokens"], stops - asked);
  // It decides how ids are chosen, too, where no option does.
  const auto text = [&](const char* config, std::vector<std::string> more) {
    write_text(folder / "hf/generation_config.json", config);
    more.insert(more.begin(), {"generate", "hf", "--prompt", prompt, "--tokens", "12"});
    const Result made = run(more);
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(made.err.find("generation_config.json beside it") != made.err.npos,
              std::string_view(config) != "{}" && more.size() == 6)
        << made.err;
    return made.out;
  };
  const std::vector<std::string> greedily{"--temperature", "0"},
      drawn{"--temperature",        "20", "--top-k", "9", "--top-p", "0.9", "--min-p", "0.01",
            "--repetition-penalty", "1.5"};
  const char* said =
      R"({"temperature": 20, "top_k": 9, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.5})";
  EXPECT_EQ(text(R"({"do_sample": false, "temperature": 0.7})", {}), text("{}", greedily));
  EXPECT_EQ(text(said, {}), text("{}", drawn));
  EXPECT_NE(text(said, {}), text("{}", {}));
  EXPECT_EQ(text(R"({"temperature": 3})", greedily), text("{}", greedily)) << "the option decides";
  for (const auto& [config, says] :
       {std::pair{R"({"top_p": 2})", "top-p = 2"}, {R"({"top_k": 1.5})", "top_k is 1.5"}}) {
    write_text(folder / "hf/generation_config.json", config);
    const Result refused = run({"generate", "hf", "--prompt", prompt});
    EXPECT_EQ(refused.code, 6);
    EXPECT_THAT(refused.err, HasSubstr(std::string("generation_config.json: ") + says));
  }
  write_text(folder / "hf/generation_config.json", R"({"eos_token_id": "two"})");
  const Result wrong = run({"generate", "hf", "--prompt", prompt});
  EXPECT_EQ(wrong.code, 6);
  EXPECT_THAT(wrong.err, HasSubstr("generation_config.json: eos_token_id is \"two\""));
}

// --- for other programs

TEST_F(LlamaProgram, IsExportedAsAFolderAndAsGguf) {
  ASSERT_EQ(run(small({})).code, 0);
  const double whole = loss({"runs/t"});
  const auto to = [&](const char* format, std::vector<std::string> more) {
    more.insert(more.begin(), {"export", "runs/t", "--to", format, "--out"});
    return run(more);
  };
  for (const char* bytes : {"0", "9000"}) {
    const std::string out = std::string("hf") + bytes;
    const Result r = to("huggingface", {out, "--shard-bytes", bytes});
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr("a model of the family llama"));
    EXPECT_EQ(fs::exists(folder / out / "model.safetensors.index.json"), *bytes == '9');
    EXPECT_TRUE(fs::exists(folder / out / "characters.json"));
    EXPECT_EQ(read_text(folder / out / "config.json"), read_text(folder / "runs/t/config.json"));
    EXPECT_NEAR(loss({out}), whole, 1e-9);
  }
  ASSERT_EQ(to("huggingface", {"half", "--dtype", "bf16"}).code, 0);
  EXPECT_THAT(read_text(folder / "half/config.json"), HasSubstr("\"bfloat16\""));
  EXPECT_LT(fs::file_size(folder / "half/model.safetensors"),
            fs::file_size(folder / "hf0/model.safetensors") * 6 / 10);
  EXPECT_NEAR(loss({"half"}), whole, 0.02);
  const Result graph = to("onnx", {"t.onnx"});
  ASSERT_EQ(graph.code, 0) << graph.err;
  EXPECT_THAT(graph.out, HasSubstr("a graph from ids to logits, opset 17"));
  EXPECT_THAT(read_text(folder / "t.onnx"), HasSubstr("layers.0.self_attn.q_proj.weight"));
  const Result again = to("huggingface", {"hf0"});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("hf0: is there already; name a new or empty folder"));

  const Result characters = to("gguf", {"t.gguf"});
  EXPECT_EQ(characters.code, 3);
  EXPECT_THAT(characters.err, HasSubstr("the tokenizer is none of byte pairs"));
  fs::remove(folder / "hf0/characters.json");
  const Result ids = run({"export", "hf0", "--to", "gguf", "--dtype", "f16", "--out", "t.gguf"});
  ASSERT_EQ(ids.code, 0) << ids.err;
  EXPECT_THAT(ids.err, HasSubstr("no_vocab"));
  const testing::GgufFile file(read_text(folder / "t.gguf"));
  EXPECT_EQ(file.texts.at("tokenizer.ggml.model"), "no_vocab");
  EXPECT_EQ(file.tensors.at("blk.0.attn_q.weight").type, 1u);

  for (const auto& [arguments, says] :
       {std::pair{std::vector<std::string>{"--to", "gguf", "--dtype", "q4_0"}, "--dtype q4_0"},
        {{"--to", "gguf", "--shard-bytes", "9"}, "--shard-bytes"},
        {{"--to", "huggingface", "--dtype", "q8_0"}, "--dtype q8_0: a folder of Hugging Face has"},
        {{"--to", "onnx", "--dtype", "f16"}, "--to onnx: its numbers are f32"},
        {{"--to", "gguf", "--input", "bytes"}, "models of pictures"},
        {{"--to", "onnx", "--input", "bytes"}, "models of pictures"}}) {
    std::vector<std::string> all{"export", "runs/t", "--out", "none"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Result refused = run(all);
    EXPECT_EQ(refused.code, 2) << says;
    EXPECT_THAT(refused.err, HasSubstr(says));
    EXPECT_FALSE(fs::exists(folder / "none"));
  }
}

TEST_F(LlamaProgram, AGgufSaysItsTokenizer) {
  ASSERT_EQ(run({"data", "tokenize", "text.txt", "--tokenizer", "bpe:280", "--out", "pairs"}).code,
            0);
  ASSERT_EQ(run({"train", "task=language", "data.train=pairs", "data.val=none", "model.name=llama",
                 "model.layers=1", "model.width=32", "model.heads=4", "model.classes=290",
                 "data.length=16", "train.batch=4", "train.epochs=1 steps", "optim.warmup_epochs=0",
                 "run.name=pairs", "run.report=false", "train.threads=1"})
                .code,
            0);
  const Result r = run({"export", "runs/pairs", "--to", "gguf", "--out", "t.gguf"});
  ASSERT_EQ(r.code, 0) << r.err;
  const testing::GgufFile file(read_text(folder / "t.gguf"));
  EXPECT_EQ(file.texts.at("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(file.texts.at("tokenizer.ggml.pre"), "gpt-2");
  const auto& tokens = file.lists.at("tokenizer.ggml.tokens");
  const auto& kinds = file.number_lists.at("tokenizer.ggml.token_type");
  ASSERT_EQ(tokens.size(), 290u);
  EXPECT_EQ(tokens.back(), "[PAD289]");
  EXPECT_EQ(kinds.back(), 5);
  const auto end = static_cast<std::size_t>(file.numbers.at("tokenizer.ggml.eos_token_id"));
  EXPECT_EQ(tokens.at(end), "<|endoftext|>");
  EXPECT_EQ(kinds.at(end), 3);
  const auto unused = static_cast<std::size_t>(std::ranges::count(kinds, 5));
  EXPECT_EQ(file.lists.at("tokenizer.ggml.merges").size(), 290 - unused - 257);
  EXPECT_EQ(file.numbers.at("tokenizer.ggml.add_bos_token"), 0);
}

// --- the forms of Hugging Face's folders, with a GPT-2

TEST_F(LlamaProgram, AGpt2InShardsAndOfTorchIsThatOfOneFile) {
  ASSERT_EQ(run(small({"model.name=gpt2", "model.kv_heads=auto"})).code, 0);
  const std::vector<NamedTensor> all =
      read_safetensors(folder / "runs/t/model.safetensors").tensors;
  const std::string config = read_text(folder / "runs/t/config.json");
  const double whole = loss({"runs/t"});
  const std::size_t half = all.size() / 2;
  const std::vector<NamedTensor> parts[] = {{all.begin(), all.begin() + half},
                                            {all.begin() + half, all.end()}};
  for (const bool torch : {false, true}) {
    const fs::path to = folder / (torch ? "torch" : "shards");
    write_text(to / "config.json", config);
    Json index{{"metadata", Json::object()}, {"weight_map", Json::object()}};
    for (int i = 0; i < 2; ++i) {
      const std::string name = "part" + std::to_string(i) + (torch ? ".bin" : ".safetensors");
      if (torch)
        write_text(to / name, torch_bytes(parts[i]));
      else
        write_safetensors(to / name, parts[i], {});
      for (const NamedTensor& t : parts[i]) index["weight_map"][t.name] = name;
    }
    write_text(to / (torch ? "pytorch_model.bin.index.json" : "model.safetensors.index.json"),
               index.dump());
    EXPECT_EQ(loss({torch ? "torch" : "shards"}), whole);
  }
  write_text(folder / "one/config.json", config);
  write_text(folder / "one/pytorch_model.bin", torch_bytes(all));
  EXPECT_EQ(loss({"one"}), whole);
}

TEST_F(LlamaProgram, AGpt2WithAHeadAndAnInnerWidthOfItsOwnIsTrainedAndResumed) {
  ASSERT_EQ(run(small({"model.name=gpt2", "model.kv_heads=auto"})).code, 0);
  std::vector<NamedTensor> tensors = read_safetensors(folder / "runs/t/model.safetensors").tensors;
  for (NamedTensor& t : std::vector<NamedTensor>(tensors)) {
    const bool up = t.name.ends_with("c_fc.weight"), bias = t.name.ends_with("c_fc.bias"),
               down = t.name.ends_with("mlp.c_proj.weight");
    if (t.name == "transformer.wte.weight")
      tensors.push_back({"lm_head.weight", Tensor::full(t.tensor.shape(), 0.01, DType::f32)});
    for (NamedTensor& other : tensors)
      if (other.name == t.name && (up || bias || down))
        other.tensor = Tensor::full(up     ? Shape{16, 24}
                                    : bias ? Shape{24}
                                           : Shape{24, 16},
                                    0.02, DType::f32);
  }
  Json config = Json::parse(read_text(folder / "runs/t/config.json"));
  config["n_inner"] = 24;
  write_text(folder / "hf/config.json", config.dump());
  write_safetensors(folder / "hf/model.safetensors", tensors, {});
  const std::vector<std::string> next{
      "train",          "task=language",          "data.train=language",
      "data.length=16", "model.init=hf",          "train.batch=8",
      "run.name=u",     "optim.name=adamw",       "train.threads=1",
      "train.epochs=2", "run.checkpoint_every=1", "run.keep=9"};
  const Result refused = run(next);
  EXPECT_EQ(refused.code, 6);
  EXPECT_THAT(refused.err, HasSubstr("unless tie_word_embeddings in config.json is false"));
  config["tie_word_embeddings"] = false;
  write_text(folder / "hf/config.json", config.dump());
  const Result trained = run(next);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json made = Json::parse(read_text(folder / "runs/u/config.json"));
  EXPECT_EQ(made["n_inner"], 24);
  EXPECT_EQ(made["tie_word_embeddings"], false);
  const std::string bytes = read_text(folder / "runs/u/model.safetensors");
  fs::remove(folder / "runs/u/model.safetensors");
  EXPECT_NE(read_safetensors(folder / "hf/model.safetensors").find("lm_head.weight"), nullptr);
  fs::remove_all(folder / "hf");
  std::vector<fs::path> checkpoints;
  for (const auto& each : fs::directory_iterator(folder / "runs/u/checkpoints"))
    checkpoints.push_back(each.path());
  std::ranges::sort(checkpoints);
  ASSERT_GE(checkpoints.size(), 2u);
  fs::remove_all(checkpoints.back());
  const Result resumed = run({"train", "--resume", "runs/u"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(read_text(folder / "runs/u/model.safetensors"), bytes);
}

}  // namespace
}  // namespace gossamer::apps
