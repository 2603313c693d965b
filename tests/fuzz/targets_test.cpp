// The targets of tests/fuzz, which clang's libFuzzer runs for hours, on two thousand inputs each:
// they build, and no finding lies at the surface. A finding ends the process.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/random.h"
#include "gossamer/data/text/text_set.h"
#include "support/torch_bytes.h"

extern "C" {
int fuzz_agent(const std::uint8_t*, std::size_t);
int fuzz_class_report(const std::uint8_t*, std::size_t);
int fuzz_compressor(const std::uint8_t*, std::size_t);
int fuzz_devkit(const std::uint8_t*, std::size_t);
int fuzz_graph(const std::uint8_t*, std::size_t);
int fuzz_idx(const std::uint8_t*, std::size_t);
int fuzz_index(const std::uint8_t*, std::size_t);
int fuzz_jpeg(const std::uint8_t*, std::size_t);
int fuzz_layer_text(const std::uint8_t*, std::size_t);
int fuzz_llama_config(const std::uint8_t*, std::size_t);
int fuzz_pickle(const std::uint8_t*, std::size_t);
int fuzz_pickled(const std::uint8_t*, std::size_t);
int fuzz_picture(const std::uint8_t*, std::size_t);
int fuzz_safetensors(const std::uint8_t*, std::size_t);
int fuzz_tar(const std::uint8_t*, std::size_t);
int fuzz_tfrecord(const std::uint8_t*, std::size_t);
int fuzz_text_file(const std::uint8_t*, std::size_t);
int fuzz_tls(const std::uint8_t*, std::size_t);
int fuzz_toml(const std::uint8_t*, std::size_t);
int fuzz_token_files(const std::uint8_t*, std::size_t);
int fuzz_tokenizer(const std::uint8_t*, std::size_t);
int fuzz_tokenizer_files(const std::uint8_t*, std::size_t);
int fuzz_tokenizer_json(const std::uint8_t*, std::size_t);
int fuzz_torch_archive(const std::uint8_t*, std::size_t);
int fuzz_trace_parts(const std::uint8_t*, std::size_t);
int fuzz_trace_times(const std::uint8_t*, std::size_t);
int fuzz_wire(const std::uint8_t*, std::size_t);
int fuzz_zip(const std::uint8_t*, std::size_t);
}

namespace gossamer {
namespace {

struct Target {
  const char* name;
  int (*run)(const std::uint8_t*, std::size_t);
};

std::vector<std::uint8_t> seed_of(std::string_view target, Rng& rng) {
  data::Bytes file;
  if (target == "jpeg")
    file = data::encode_jpeg(
        data::pattern(70, 50),
        {.quality = 80, .h = 2, .v = 2, .restart = static_cast<int>(rng.below(4))});
  if (target == "picture") {
    const SafeTensors golden =
        read_safetensors(GOSSAMER_SOURCE_DIR "/tests/golden/gif_bmp.safetensors");
    const auto count = static_cast<std::uint32_t>(golden.tensors.size());
    const NamedTensor& t = golden.tensors[rng.below(count)];
    const auto bytes = std::as_bytes(t.tensor.span<std::uint8_t>());
    file = t.name.ends_with(".file") ? data::Bytes(bytes.begin(), bytes.end())
                                     : data::make_png(data::pattern(30, 20));
  }
  const auto bytes_of = [](const std::string& text) {
    return std::vector<std::uint8_t>(text.begin(), text.end());
  };
  if (target == "zip") return bytes_of(torch_bytes({{"w", Tensor::zeros({3, 2})}}));
  if (target == "pickle")
    return bytes_of(pickled::whole(pickled::dict(
        pickled::text("w") + pickled::tensor({"0", "Float", 12, 0, {3, 2}, {1, 3}}))));
  if (target == "pickled") {
    std::ifstream in(GOSSAMER_SOURCE_DIR "/tests/golden/imagenet32.pickle4", std::ios::binary);
    return bytes_of({std::istreambuf_iterator<char>(in), {}});
  }
  if (target == "torch_archive") {
    std::ifstream in(GOSSAMER_SOURCE_DIR "/tests/golden/torch_legacy.pth", std::ios::binary);
    in.ignore(15);  // its first pickle
    return bytes_of({std::istreambuf_iterator<char>(in), {}});
  }
  if (target == "agent")
    return bytes_of(R"({"event": "opened", "interface": "eth0", "addresses": [)"
                    R"({"rank": 1, "address": "a:1"}, {"rank": 2, "address": "[::1]:2"}]}
{"event": "started", "rank": 1, "pid": 7, "address": "a:3"}
{"event": "ended", "rank": 1, "status": 9})");
  if (target == "toml")
    return bytes_of("[train]\nbatch = 64\nmethod = \"a2cid2\" # b.c\n[data]\nmean = [0.5, 1.5]\n");
  if (target == "class_report")
    return bytes_of(R"({"classes": ["a", "b"], "label_predicted_images": [[0, 0, 3], [0, 1, 2]],
"mistakes": [{"name": "a/1.jpg", "label": 0, "predicted": 1, "probability": 0.75,
"picture": "data:image/jpeg;base64,AAAA"}]})");
  if (target == "trace_times" || target == "trace_parts") {
    std::string events;
    for (int k = 0; k < 8; ++k)
      events += (k ? "," : "") + std::string(R"({"ph":"X","pid":0,"name":"step","dur":9,"ts":)") +
                std::to_string(1795540938491152 + 10 * k) + "}";
    return bytes_of(R"({"traceEvents": [)" + events + R"(,
{"ph":"X","pid":0,"name":"meet","dur":2,"ts":1795540938491193},
{"ph":"X","pid":0,"name":"transfer","dur":5,"ts":1795540938491194}],
"otherData": {"workers": [{"machine": "a"}]}})");
  }
  if (target == "llama_config" && rng.below(4) == 0)
    return bytes_of(R"({"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}})");
  if (target == "llama_config")
    return bytes_of(R"({"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2,
"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100,
"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4},
"use_sliding_window": true, "sliding_window": 16, "max_window_layers": 1})");
  if (target == "tokenizer")
    return bytes_of(std::string("x") + R"({"a": 0})" + '\0' + "a b\nab c\n" + '\0' + "ab abc <s>");
  if (target == "tokenizer_json")
    return bytes_of(std::string("\1\2") + R"({"type": "NFKC"})" + '\0' +
                    R"({"type": "Split", "pattern": {"Regex": "\\s+|[a-c]{2,3}"},)"
                    R"( "behavior": "MergedWithNext", "invert": false})" +
                    '\0' + R"({"type": "Metaspace", "replacement": "_"})" + '\0' + "<s>" + '\0' +
                    "ab <s> abab\n");
  if (target == "tokenizer_files") {
    std::ifstream in(GOSSAMER_SOURCE_DIR "/tests/golden/sentencepiece/unigram.model",
                     std::ios::binary);
    if (rng.below(2)) return bytes_of("\1YWI= 256\nYWJj 257\nabc ab");
    return bytes_of("\2" + std::string(std::istreambuf_iterator<char>(in), {}));
  }
  if (target == "token_files" && rng.below(2))
    return bytes_of(data::encode_text_index(
        {.vocabulary = 300, .train = {.files = {"a.bin"}, .learnt_files = {"b.bin"}}}));
  if (target == "text_file" && rng.below(3) == 0)
    return bytes_of(R"({"messages": [{"role": "user", "content": "a"},)"
                    R"( {"role": "assistant", "content": "b"}]})");
  if (target == "text_file" && rng.below(2))  // zstd of "a\nb"
    return {40, 181, 47, 253, 4, 88, 25, 0, 0, 97, 10, 98, 142, 78, 108, 119};
  if (target == "text_file")  // gzip of "a\nb"
    return {31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 75, 228, 74, 2, 0, 251, 144, 7, 239, 3, 0, 0, 0};
  if (target == "idx")  // 28 bytes of two pictures, then their labels
    return {188, 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3,
            4,   5, 6, 7, 8, 9, 0, 1, 2, 0, 0, 8, 1, 0, 0, 0, 2, 7, 9};
  if (target == "layer_text") {
    const std::string_view text = "residual { a: conv in=3 out=4 } { relu }; dropout p=0.5\n";
    return {text.begin(), text.end()};
  }
  if (target == "tls") {  // passes on two flights, then changes one
    std::vector<std::uint8_t> plan{2, 0, 0, 0, 0, 0, 0, 0, 0};
    for (int i = 0; i < 4; ++i) plan.push_back(static_cast<std::uint8_t>(rng.below(256)));
    plan[0] = static_cast<std::uint8_t>(rng.below(4));
    return plan;
  }
  if (target == "graph") return {3, '0', ' ', '1', '\n', '1', ' ', '2', ' ', '0', '.', '5', '\n'};
  std::vector<std::uint8_t> bytes(file.empty() ? rng.below(2000) : file.size());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] =
        file.empty() ? static_cast<std::uint8_t>(rng.word()) : static_cast<std::uint8_t>(file[i]);
  return bytes;
}

class FuzzTarget : public testing::TestWithParam<Target> {};

TEST_P(FuzzTarget, TakesAnyBytes) {
  Rng rng(17);
  GetParam().run(nullptr, 0);
  for (int n = 0; n < 2000; ++n) {
    auto bytes = seed_of(GetParam().name, rng);
    const auto size = static_cast<std::uint32_t>(bytes.size());
    for (std::uint32_t changes = size ? rng.below(8) : 0; changes > 0; --changes)
      bytes[rng.below(size)] ^= static_cast<std::uint8_t>(1u << rng.below(8));
    if (rng.below(4) == 0) bytes.resize(rng.below(size + 1));
    EXPECT_EQ(GetParam().run(bytes.data(), bytes.size()), 0) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FuzzTarget,
    testing::Values(
        Target{"agent", fuzz_agent}, Target{"class_report", fuzz_class_report},
        Target{"compressor", fuzz_compressor}, Target{"devkit", fuzz_devkit},
        Target{"graph", fuzz_graph}, Target{"idx", fuzz_idx}, Target{"index", fuzz_index},
        Target{"jpeg", fuzz_jpeg}, Target{"layer_text", fuzz_layer_text},
        Target{"llama_config", fuzz_llama_config}, Target{"pickle", fuzz_pickle},
        Target{"pickled", fuzz_pickled}, Target{"picture", fuzz_picture},
        Target{"safetensors", fuzz_safetensors}, Target{"tar", fuzz_tar},
        Target{"tfrecord", fuzz_tfrecord}, Target{"text_file", fuzz_text_file},
        Target{"token_files", fuzz_token_files}, Target{"tls", fuzz_tls}, Target{"toml", fuzz_toml},
        Target{"tokenizer", fuzz_tokenizer}, Target{"tokenizer_files", fuzz_tokenizer_files},
        Target{"tokenizer_json", fuzz_tokenizer_json}, Target{"torch_archive", fuzz_torch_archive},
        Target{"trace_parts", fuzz_trace_parts}, Target{"trace_times", fuzz_trace_times},
        Target{"wire", fuzz_wire}, Target{"zip", fuzz_zip}),
    [](const auto& p) { return p.param.name; });

// Files move, and nothing but tests/fuzz/run reads these lists.
TEST(FuzzTargets, NameSourcesThatAreOneFileEach) {
  const std::filesystem::path root = GOSSAMER_SOURCE_DIR;
  std::vector<std::string> files;
  for (const char* folder : {"core", "nn", "models", "data", "dist", "apps", "tests/fuzz/stubs"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder))
      files.push_back("/" + entry.path().lexically_relative(root).string());
  for (const auto& target : std::filesystem::directory_iterator(root / "tests/fuzz")) {
    std::ifstream in(target.path());
    for (std::string line; std::getline(in, line);) {
      if (!line.starts_with("// sources: ")) continue;
      std::istringstream names(line.substr(12));
      for (std::string name; names >> name;)
        EXPECT_EQ(std::ranges::count_if(
                      files,
                      [&](const std::string& file) { return file.ends_with("/" + name + ".cpp"); }),
                  1)
            << target.path().filename() << ": " << name;
    }
  }
}

}  // namespace
}  // namespace gossamer
