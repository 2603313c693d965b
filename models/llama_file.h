// LLaMA's kind of model as Hugging Face's files have it: names with "model." in front of all but
// the head's, matrices [out, in], and config.json, in both spellings of its rotary keys.
// Errors: IoError names the file, and in config.json the key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/models/llama.h"
#include "gossamer/nn/weights.h"

namespace gossamer::models {

// Whether config.json with this model_type is read here.
bool is_llama_type(std::string_view model_type);
// Whether a model's tensors are of this kind, by their names, with or without "model.".
bool is_llama(const nn::Weights&);

// The options that the text of config.json says; `file` stands in errors. A key that changes what a
// model computes, in a way that is not built, is refused by its name.
LlamaOptions read_llama_config(std::string_view json, const std::string& file);
// A type as config.json names it: "float32", "bfloat16" or "float16".
const char* torch_name(DType);
// The text of config.json, in the old spelling, which all versions of Hugging Face's library read.
// end, begin: the marks, or -1; without a begin mark the end mark is both. ConfigError: no
// model_type of theirs has these options.
std::string llama_config(const LlamaOptions&, std::int32_t end, std::int32_t begin = -1,
                         DType = DType::f32);

// The weights of a file with the names of our modules: without "model.", without tables of rotary
// positions (inv_freq), which old files have, and with what its header's "lora_scale" says of A and
// B of a training that goes on (nn/lora.h) added to the weights.
nn::Weights llama_weights(nn::Weights file);
// Loads what llama_weights() gives. IoError lists missing names, extra names and other shapes; or
// the head of a tied model is not the embedding.
void load_llama(const nn::Weights&, Llama&);
// What of them load_llama() loads.
nn::Weights llama_without_tied_head(nn::Weights, const LlamaOptions&);
// IoError: the embedding has other extents than the options say, so they are those of another
// model. It allocates nothing.
void check_llama_fits(const nn::Weights&, const LlamaOptions&);

// What the header of a file of `gossamer train` says: the name of the model, and config.json.
std::map<std::string, std::string> metadata_of(const std::string& name, const LlamaOptions&);
// The options in such a header; nullopt: it has none.
std::optional<LlamaOptions> llama_in_header(const std::map<std::string, std::string>& header,
                                            const std::string& file);

// All parameters of a model so, from its tensors or from the values of params. What adapters learnt
// is added to the weights.
std::vector<NamedTensor> llama_tensors(const Llama&, const FlatParams* params);
// A model's parameters as Hugging Face's files have them: names with "model.", f32 on the CPU.
std::vector<NamedTensor> llama_in_file(const std::vector<NamedTensor>& parameters);

}  // namespace gossamer::models
