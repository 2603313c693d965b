// A piece that is one token is found in a table of whole words; the others are merged.
#include "gossamer/data/text/steps/bpe.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "gossamer/data/text/byte_names.h"
#include "gossamer/data/text/steps/characters_utf8.h"

namespace gossamer::data {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

// Whether no token has the mark behind another character, so that no merge reaches across the front
// of a word: true of the vocabularies of SentencePiece.
bool has_words(const Bpe::Vocabulary& vocabulary) {
  if (!vocabulary.contains(std::string(kSpaceMark))) return false;
  return std::ranges::none_of(vocabulary, [](const auto& each) {
    const std::string_view token = each.first;
    std::size_t marks = 0;
    while (token.substr(marks).starts_with(kSpaceMark)) marks += kSpaceMark.size();
    return token.find(kSpaceMark, marks) != std::string_view::npos;
  });
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, Merges merges, const BpeOptions& options)
    : options_(options), merges_(std::move(merges)) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto found = vocabulary.find(fmt::format("<0x{:02X}>", byte));
    fallback_[byte] = found == vocabulary.end() ? -1 : found->second;
  }
  for (std::size_t byte = 0; byte < (options.byte_level ? 256u : 128u); ++byte)
    bytes_[byte] =
        symbol_of(vocabulary, options.byte_level ? byte_names()[byte]
                                                 : std::string(1, static_cast<char>(byte)));
  if (!options.byte_level) {
    for (const auto& [token, id] : vocabulary)
      if (!token.empty() && utf8_length(token) == token.size())
        characters_.emplace(code_point(token), id);
    if (!options.ignore_merges && has_words(vocabulary)) cut_before_ = kSpaceMark;
  }
  PieceInHand hand;
  std::vector<std::int32_t> ids;
  for (const auto& [token, id] : vocabulary) {
    std::string piece = token;
    if (options.byte_level) {
      std::optional<std::string> bytes = from_byte_names(token);
      if (!bytes) continue;  // no piece is written so
      piece = *std::move(bytes);
    }
    if (piece.empty()) continue;
    if (options.ignore_merges) {
      longest_word_ = std::max(longest_word_, piece.size());
      words_.add(piece, id);
      continue;
    }
    if (piece.size() > longest_word_ || valid_utf8(token) != token.size()) continue;
    ids.clear();
    merge(piece, hand, ids);
    if (ids.size() == 1) words_.add(piece, ids[0]);
  }
}

Bpe::Symbol Bpe::symbol_of(const Vocabulary& vocabulary, const std::string& character) const {
  if (const auto found = vocabulary.find(character); found != vocabulary.end())
    return {{found->second}, 1, false};
  Symbol out;
  for (const char c : character) {
    const std::int32_t id = fallback_[static_cast<unsigned char>(c)];
    if (!options_.byte_fallback || id < 0)
      return {{options_.unk.value_or(-1)}, options_.unk ? 1 : 0, true};
    out.ids[static_cast<std::size_t>(out.count++)] = id;
  }
  return out;
}

void Bpe::add(const Symbol& symbol, bool& unknown, std::vector<std::int32_t>& ids) const {
  if (!symbol.unknown || !unknown || !options_.fuse_unk)
    for (int i = 0; i < symbol.count; ++i) ids.push_back(symbol.ids[static_cast<std::size_t>(i)]);
  unknown = symbol.unknown;
}

void Bpe::merge(std::string_view piece, PieceInHand& hand, std::vector<std::int32_t>& ids) const {
  std::vector<std::int32_t>& symbols = hand.symbols();
  symbols.clear();
  bool unknown = false;
  if (options_.byte_level) {
    for (const char c : piece) add(bytes_[static_cast<unsigned char>(c)], unknown, symbols);
  } else {
    for (std::size_t at = 0; at < piece.size();) {
      if (static_cast<unsigned char>(piece[at]) < 0x80) {
        add(bytes_[static_cast<unsigned char>(piece[at++])], unknown, symbols);
        continue;
      }
      const std::size_t length = utf8_length(piece.substr(at, 4));
      const std::string_view character = piece.substr(at, length);
      at += length;
      if (const auto found = characters_.find(code_point(character)); found != characters_.end())
        add({{found->second}, 1, false}, unknown, symbols);
      else
        add(symbol_of({}, std::string(character)), unknown, symbols);
    }
  }
  merges_.merge(hand, ids);
}

void Bpe::encode(std::string_view piece, PieceInHand& hand, std::vector<std::int32_t>& ids) const {
  while (!piece.empty()) {
    std::size_t end = piece.size();
    if (!cut_before_.empty()) {
      end = 0;
      while (piece.substr(end).starts_with(cut_before_)) end += cut_before_.size();
      end = std::min(piece.find(cut_before_, end), piece.size());
    }
    const std::string_view word = piece.substr(0, end);
    piece.remove_prefix(end);
    const std::int32_t id = word.size() <= longest_word_ ? words_.find(word) : -1;
    if (id >= 0)
      ids.push_back(id);
    else
      merge(word, hand, ids);
  }
}

}  // namespace gossamer::data
