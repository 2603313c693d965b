// tokenizer_config.json, which lies beside the tokenizers of Hugging Face.
// Threads: any.
#pragma once

#include <functional>
#include <string>

#include "gossamer/data/text/steps_tokenizer.h"

namespace gossamer::data {

// Adds to the steps what the file says: which tokens are the marks (eos_token, bos_token,
// pad_token), and whether marks stand around a text (add_bos_token, add_eos_token), which decides
// where it is written. mark: the id of a mark's name, or -1; owner: the file that has the tokens.
// DataError: a mark is none of them.
void use_tokenizer_config(const Tokenizer::StoredFile& config, const std::string& owner,
                          const std::function<std::int32_t(const std::string&)>& mark,
                          TokenizerSteps&);

}  // namespace gossamer::data
