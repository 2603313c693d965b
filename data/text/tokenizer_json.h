// Hugging Face's tokenizer.json with byte pairs, and tokenizer_config.json beside it.
// Threads: any.
#pragma once

#include <memory>
#include <optional>

#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

// config: tokenizer_config.json; none: the marks are found by their names. Of it the names of the
// marks are read, add_bos_token and add_eos_token. others: files that belong to the tokenizer and
// are kept with it. The ids are those of the library tokenizers 0.23; DataError names the step, its
// type or its key that would give others.
std::shared_ptr<const Tokenizer> read_tokenizer_json(
    const Tokenizer::StoredFile& file, const std::optional<Tokenizer::StoredFile>& config = {},
    const std::vector<Tokenizer::StoredFile>& others = {});

}  // namespace gossamer::data
