// The model of unigrams: of all ways to cut a piece of text into tokens the one with the best sum
// of scores (Kudo, "Subword regularization", ACL 2018; Viterbi's algorithm).
// Threads: any, also for one Unigram.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "gossamer/data/text/steps/piece_model.h"

namespace gossamer::data {

class Unigram final : public PieceModel {
 public:
  struct Token {
    std::string text;
    std::int32_t id;
    float score;
  };
  // unknown_score: of a character that no token is. Its ids are those of its bytes, if each byte
  // has one (bytes, -1: none), or `unk`, once for a run of such characters.
  Unigram(std::vector<Token> tokens, float unknown_score,
          const std::array<std::int32_t, 256>& bytes, std::int32_t unk);
  void encode(std::string_view piece, PieceInHand&, std::vector<std::int32_t>&) const override;
  bool takes_any_bytes() const override { return false; }

 private:
  std::vector<Token> tokens_;  // by text
  float unknown_score_;
  std::array<std::int32_t, 256> bytes_;
  bool has_bytes_;
  std::int32_t unk_;
};

}  // namespace gossamer::data
