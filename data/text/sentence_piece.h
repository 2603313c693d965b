// SentencePiece's .model files, of byte pairs and of unigrams (Kudo, ACL 2018).
// Threads: any.
#pragma once

#include <memory>
#include <optional>

#include "gossamer/data/text/token_tables.h"
#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

// config: tokenizer_config.json beside the file, as read_tokenizer_json() takes it; none: no mark
// stands around a text, as in SentencePiece. The ids are those of its encode(). DataError: the file
// is none, or is of a kind that is named.
std::shared_ptr<const Tokenizer> read_sentence_piece(
    const Tokenizer::StoredFile& file, const std::optional<Tokenizer::StoredFile>& config = {});

// What token_tables() gives of a file that was read.
TokenTables sentence_piece_tables(const Tokenizer::StoredFile& file);

}  // namespace gossamer::data
