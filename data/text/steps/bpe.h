// The model of byte pairs: a piece's characters, or bytes, are ids, and neighbours are merged
// (Sennrich, Haddow, Birch, ACL 2016).
// Threads: any for functions; one at a time for a Bpe until it is whole, then any.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>

#include "gossamer/data/text/merges.h"
#include "gossamer/data/text/steps/piece_model.h"

namespace gossamer::data {

struct BpeOptions {
  bool byte_level = false;     // pieces are bytes; tokens write them as byte_names.h says
  bool byte_fallback = false;  // a character without a token is its bytes' tokens, <0x00> to <0xFF>
  bool ignore_merges = false;  // a whole piece that is a token is its id, whatever the merges say
  bool fuse_unk = false;       // one unknown id for a run of unknown characters
  // For a character without a token; none: it is left out.
  std::optional<std::int32_t> unk{};
};

class Bpe final : public PieceModel {
 public:
  using Vocabulary = std::unordered_map<std::string, std::int32_t>;
  // merges: of tokens that are in the vocabulary.
  Bpe(const Vocabulary&, Merges merges, const BpeOptions&);
  void encode(std::string_view piece, PieceInHand&, std::vector<std::int32_t>&) const override;
  bool takes_any_bytes() const override { return options_.byte_level; }

 private:
  struct Symbol {
    std::array<std::int32_t, 4> ids{};
    int count = 0;
    bool unknown = false;
  };
  Symbol symbol_of(const Vocabulary&, const std::string& character) const;
  void add(const Symbol&, bool& unknown, std::vector<std::int32_t>& ids) const;
  void merge(std::string_view piece, PieceInHand&, std::vector<std::int32_t>&) const;

  BpeOptions options_;
  Merges merges_;
  std::array<Symbol, 256> bytes_{};  // of bytes, or of the characters of ASCII
  std::unordered_map<char32_t, std::int32_t> characters_;  // the others that are tokens
  std::array<std::int32_t, 256> fallback_{};               // -1: none
  WholeWords words_;                                       // tokens that a whole piece becomes
  // Longer pieces are merged; it is longer than any token if merges are to be ignored.
  std::size_t longest_word_ = 255;
  // A piece may be cut in front of this character where another one precedes it; empty: it may not.
  std::string cut_before_;
};

}  // namespace gossamer::data
