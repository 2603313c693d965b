// GPT-2's weights as Hugging Face's files have them: names with "transformer." in front of all but
// the head's, matrices of linear layers as [in, out] (its Conv1D), the head only if it is not the
// embedding.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/models/gpt2.h"
#include "gossamer/nn/weights.h"

namespace gossamer::models {

// The weights of a file as our modules have them: without "transformer.", [out, in]; without masks
// (attn.bias, attn.masked_bias) and lm_head.weight, if that equals the embedding.
nn::Weights gpt2_weights(nn::Weights file);

// The options of the GPT-2 whose weights gpt2_weights() gave, by names and shapes; nullopt: of
// none. Heads are 64 wide, since no tensor says it, and the form of GELU is tanh. Untied if there
// is a head.
std::optional<Gpt2Options> gpt2_of(const std::vector<NamedTensor>& tensors);

// What the header of a file of `gossamer train` says: the name of the model, and what no tensor
// says. gpt2_header_of: these options with what the header says in place of theirs; that of a file
// of others says nothing. IoError names the file and the key if it is damaged.
std::map<std::string, std::string> metadata_of(const std::string& name, const Gpt2Options&);
Gpt2Options gpt2_header_of(const nn::Weights&, Gpt2Options by_tensors);

// Loads what gpt2_weights() gives. IoError lists missing names, extra names and other shapes. A
// model without biases takes those of the file that are zero.
void load_gpt2(const nn::Weights&, Gpt2&);
// What of them load_gpt2() loads: without those biases.
nn::Weights gpt2_without_zero_biases(nn::Weights, const Gpt2&);

// A model's parameters as Hugging Face's files have them: names with "transformer.", [in, out], f32
// on the CPU. bias: whether the model has biases; those that it lacks are zero.
std::vector<NamedTensor> gpt2_in_file(const std::vector<NamedTensor>& parameters, bool bias);

// All parameters so, from the model's tensors or from the values of params.
std::vector<NamedTensor> gpt2_tensors(const Gpt2&, const FlatParams* params);

}  // namespace gossamer::models
