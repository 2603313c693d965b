// The tokens that begin a text are found as added tokens are: each byte narrows a sorted range.
#include "gossamer/data/text/steps/unigram.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "gossamer/core/text/utf8.h"

namespace gossamer::data {

Unigram::Unigram(std::vector<Token> tokens, float unknown_score,
                 const std::array<std::int32_t, 256>& bytes, std::int32_t unk)
    : tokens_(std::move(tokens)),
      unknown_score_(unknown_score),
      bytes_(bytes),
      has_bytes_(std::ranges::none_of(bytes, [](std::int32_t id) { return id < 0; })),
      unk_(unk) {
  std::ranges::sort(tokens_, {}, &Token::text);
}

void Unigram::encode(std::string_view piece, PieceInHand&, std::vector<std::int32_t>& ids) const {
  constexpr std::int32_t kUnknown = -1, kNone = -2;
  // The best way to get to a position: by which token, from where.
  struct Best {
    float score = 0;
    std::size_t from = 0;
    std::int32_t id = kNone;
  };
  std::vector<Best> best(piece.size() + 1);
  best[0].id = kUnknown;
  const auto offer = [&](std::size_t from, std::size_t to, float score, std::int32_t id) {
    const float sum = best[from].score + score;
    if (best[to].id == kNone || sum > best[to].score) best[to] = {sum, from, id};
  };
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t length = utf8_length(piece.substr(at, 4));
    bool single = false;
    const Token *first = tokens_.data(), *last = first + tokens_.size();
    for (std::size_t depth = 0; first != last && at + depth < piece.size(); ++depth) {
      const auto byte = [depth](const Token& each) {
        return static_cast<unsigned char>(each.text[depth]);
      };
      const auto next = static_cast<unsigned char>(piece[at + depth]);
      first = std::ranges::lower_bound(first, last, next, {}, byte);
      last = std::ranges::upper_bound(first, last, next, {}, byte);
      if (first == last || first->text.size() != depth + 1) continue;
      single = single || depth + 1 == length;
      offer(at, at + depth + 1, first->score, first->id);
      ++first;
    }
    if (!single) offer(at, at + length, unknown_score_, kUnknown);
    at += length;
  }
  std::vector<Best> path;
  for (std::size_t at = piece.size(); at > 0; at = best[at].from) path.push_back(best[at]);
  std::size_t at = 0;
  bool unknown = false;
  for (std::size_t i = path.size(); i-- > 0;) {
    const std::size_t end = i > 0 ? path[i - 1].from : piece.size();
    if (path[i].id != kUnknown)
      ids.push_back(path[i].id);
    else if (has_bytes_)
      for (const char c : piece.substr(at, end - at))
        ids.push_back(bytes_[static_cast<unsigned char>(c)]);
    else if (!unknown)
      ids.push_back(unk_);
    unknown = path[i].id == kUnknown;
    at = end;
  }
}

}  // namespace gossamer::data
