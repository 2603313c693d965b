// The file is a message of Protocol Buffers, of which few fields are read
// (sentencepiece_model.proto of google/sentencepiece).
#include "gossamer/data/text/sentence_piece.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/io/xxh3.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/text/steps/bpe.h"
#include "gossamer/data/text/steps/unigram.h"
#include "gossamer/data/text/steps_tokenizer.h"
#include "gossamer/data/text/tokenizer_config.h"

namespace gossamer::data {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";
constexpr std::size_t kMostPieces = std::size_t{1} << 21, kLongestPiece = 128;

// The fields of a message, by number.
class Message {
 public:
  Message(std::string_view bytes, const std::string& name) : name_(name) {
    while (at_ < bytes.size()) {
      const std::uint64_t key = varint(bytes);
      Value value;
      switch (key & 7) {
        case 0:
          value.number = varint(bytes);
          break;
        case 1:
          value.bytes = take(bytes, 8);
          break;
        case 2:
          value.bytes = take(bytes, varint(bytes));
          break;
        case 5:
          value.bytes = take(bytes, 4);
          break;
        default:
          refuse();
      }
      fields_[key >> 3].push_back(value);
    }
  }
  std::string_view bytes(std::uint64_t field) const {
    const Value* const value = last(field);
    return value ? value->bytes : std::string_view();
  }
  std::uint64_t number(std::uint64_t field, std::uint64_t otherwise) const {
    const Value* const value = last(field);
    return value ? value->number : otherwise;
  }
  float score(std::uint64_t field) const {
    const std::string_view raw = bytes(field);
    if (raw.empty()) return 0;
    if (raw.size() != 4) refuse();
    std::uint32_t bits = 0;
    std::memcpy(&bits, raw.data(), 4);
    return std::bit_cast<float>(bits);
  }
  std::vector<std::string_view> all(std::uint64_t field) const {
    std::vector<std::string_view> out;
    if (const auto found = fields_.find(field); found != fields_.end())
      for (const Value& each : found->second) out.push_back(each.bytes);
    return out;
  }

 private:
  struct Value {
    std::uint64_t number = 0;
    std::string_view bytes{};
  };
  [[noreturn]] void refuse() const {
    fail<DataError>(code::damaged, name_, ": is no model of SentencePiece, or is damaged at byte ",
                    at_);
  }
  const Value* last(std::uint64_t field) const {
    const auto found = fields_.find(field);
    return found == fields_.end() ? nullptr : &found->second.back();
  }
  std::uint64_t varint(std::string_view bytes) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ < bytes.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes[at_++]);
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    refuse();
  }
  std::string_view take(std::string_view bytes, std::uint64_t size) {
    if (size > bytes.size() - at_) refuse();
    const std::string_view out = bytes.substr(at_, size);
    at_ += size;
    return out;
  }

  const std::string& name_;
  std::size_t at_ = 0;
  std::map<std::uint64_t, std::vector<Value>> fields_;
};

// Replaces the longest beginnings that it knows: a double array of Darts-clone, whose values are
// positions of the texts behind it.
class Charsmap {
 public:
  Charsmap(std::string_view blob, const std::string& name) {
    if (blob.empty()) return;
    std::uint32_t size = 0;
    if (blob.size() >= 4) std::memcpy(&size, blob.data(), 4);
    check<DataError>(blob.size() > 4 && size >= 4 && size <= blob.size() - 4 && size % 4 == 0,
                     code::damaged, name, ": its table of characters is damaged");
    units_.resize(size / 4);
    std::memcpy(units_.data(), blob.data() + 4, size);
    texts_ = blob.substr(4 + size);
    check<DataError>(texts_.ends_with('\0') || texts_.empty(), code::damaged, name,
                     ": its table of characters has no end");
  }
  struct Hit {
    std::size_t length = 0;  // 0: none
    std::string_view text{};
  };
  Hit longest(std::string_view in) const {
    Hit hit;
    if (units_.empty()) return hit;
    std::size_t at = offset(units_[0]);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto byte = static_cast<unsigned char>(in[i]);
      at ^= byte;
      if (at >= units_.size()) return hit;
      const std::uint32_t unit = units_[at];
      if ((unit & (1u << 31 | 0xFF)) != byte) return hit;
      at ^= offset(unit);
      if (!(unit >> 8 & 1)) continue;
      if (at >= units_.size()) return hit;
      const std::size_t value = units_[at] & ~(1u << 31);
      if (value >= texts_.size()) return hit;
      const std::string_view text = std::string_view(texts_).substr(value);
      hit = {i + 1, text.substr(0, text.find('\0'))};
    }
    return hit;
  }

 private:
  static std::size_t offset(std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10) << ((unit & (1u << 9)) >> 6);
  }
  std::vector<std::uint32_t> units_;
  std::string texts_;
};

struct NormalizerRules {
  Charsmap map;
  AddedTokens untouched;  // user-defined pieces
  bool prefix, no_extra_spaces, escape;

  std::string run(std::string_view text) const {
    std::string out = prefix ? " " : "";
    bool begun = false;
    const auto add = [&](std::string_view part) {
      if (no_extra_spaces) {
        if (!begun && part == " ") return;
        if (out.ends_with(' '))
          part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
      }
      begun = true;
      out += part;
    };
    untouched.split(
        text, true,
        [&](std::string_view rest) {
          while (!rest.empty()) {
            const Charsmap::Hit hit = map.longest(rest);
            const std::size_t length = hit.length ? hit.length : utf8_length(rest.substr(0, 4));
            add(hit.length ? hit.text : rest.substr(0, length));
            rest.remove_prefix(length);
          }
        },
        [&](std::int32_t piece) { add((*pieces)[static_cast<std::size_t>(piece)]); });
    if (!begun) return "";
    if (no_extra_spaces)
      while (out.ends_with(' ')) out.pop_back();
    if (!escape) return out;
    std::string marked;
    for (const char c : out)
      if (c == ' ')
        marked += kSpaceMark;
      else
        marked += c;
    return marked;
  }
  std::shared_ptr<const std::vector<std::string>> pieces;
};

enum Kind : std::uint64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

class Reading {
 public:
  explicit Reading(const Tokenizer::StoredFile& file) : name_(printable(file.name)), file_(file) {}

  TokenTables tables() {
    const Message model(file_.bytes, name_);
    const Message trainer(model.bytes(2), name_), normalizer(model.bytes(3), name_);
    read_pieces(model);
    if (trainer.number(3, 1) != 2) refuse("is a model of unigrams");
    if (!normalizer.bytes(2).empty() || normalizer.number(4, 1) != 0)
      refuse("changes characters or leaves out spaces before it cuts text");
    TokenTables out{.tokens = *pieces_, .scores = scores_};
    for (const std::uint64_t kind : kinds_) out.kinds.push_back(static_cast<TokenKind>(kind));
    out.space_in_front = normalizer.number(3, 1) != 0;
    return out;
  }

  std::shared_ptr<const Tokenizer> run(const std::optional<Tokenizer::StoredFile>& config) {
    const Message model(file_.bytes, name_);
    const Message trainer(model.bytes(2), name_), normalizer(model.bytes(3), name_);
    read_pieces(model);
    const std::uint64_t kind = trainer.number(3, 1);
    if (kind != 1 && kind != 2) refuse("is a model of words or characters");
    if (trainer.number(24, 0)) refuse("has white space behind words");
    const std::uint64_t unk = trainer.number(40, 0);
    if (unk >= pieces_->size() || kinds_[unk] != kUnknown)
      refuse("has no piece for unknown characters");
    const bool fallback = trainer.number(35, 0) != 0;
    for (const std::int32_t id : bytes_)
      if (fallback && id < 0) refuse("lacks the piece of a byte");
    if (!fallback) bytes_.fill(-1);
    steps_.model = kind == 2 ? byte_pairs(static_cast<std::int32_t>(unk), fallback)
                             : unigrams(static_cast<std::int32_t>(unk));
    read_normalizer(normalizer);
    find_marks(trainer);
    decode(static_cast<std::size_t>(unk), normalizer.number(3, 1) != 0,
           normalizer.number(4, 1) != 0);
    steps_.rules = xxh3(std::as_bytes(std::span(file_.bytes)), 0);
    steps_.files = {{"tokenizer.model", file_.bytes}};
    const auto mark_of_name = [this](const std::string& name) { return mark(name); };
    if (config) use_tokenizer_config(*config, name_, mark_of_name, steps_);
    return make_tokenizer(std::move(steps_));
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail<DataError>(code::not_understood, name_, ": ", what, "; that is not supported");
  }

  void read_pieces(const Message& model) {
    const auto all = model.all(1);
    check<DataError>(!all.empty() && all.size() <= kMostPieces, code::damaged, name_,
                     ": is no model of SentencePiece: it has ", all.size(), " pieces");
    auto texts = std::make_shared<std::vector<std::string>>();
    bytes_.fill(-1);
    for (const std::string_view bytes : all) {
      const Message piece(bytes, name_);
      const std::string text(piece.bytes(1));
      const std::uint64_t kind = piece.number(3, kNormal);
      const auto id = static_cast<std::int32_t>(texts->size());
      check<DataError>(!text.empty() && text.size() <= kLongestPiece &&
                           valid_utf8(text) == text.size() && std::isfinite(piece.score(2)),
                       code::damaged, name_, ": piece ", id, " is damaged");
      if (kind == kUnused) refuse("has the unused piece \"" + printable(text) + "\"");
      if (kind < kNormal || kind > kByte) refuse("has a piece of an unknown kind");
      check<DataError>(ids_.emplace(text, id).second, code::damaged, name_, ": the piece \"",
                       printable(text), "\" is there twice");
      if (kind == kByte) {
        unsigned byte = 0;
        check<DataError>(text.size() == 6 && std::sscanf(text.c_str(), "<0x%2X>", &byte) == 1,
                         code::damaged, name_, ": the piece \"", printable(text),
                         "\" is that of no byte");
        bytes_[byte] = id;
      }
      texts->push_back(text);
      kinds_.push_back(kind);
      scores_.push_back(piece.score(2));
    }
    pieces_ = std::move(texts);
  }

  bool is(std::size_t id, Kind kind) const { return kinds_[id] == kind; }

  // Neighbours whose concatenation is a piece are merged, that with the highest score first: so
  // every way to cut a piece in two is a merge, in the order of scores.
  std::unique_ptr<PieceModel> byte_pairs(std::int32_t unk, bool fallback) {
    Bpe::Vocabulary vocabulary;
    std::vector<std::size_t> order;
    for (std::size_t id = 0; id < pieces_->size(); ++id) {
      if (is(id, kNormal)) order.push_back(id);
      if (is(id, kNormal) || is(id, kByte))
        vocabulary.emplace((*pieces_)[id], static_cast<std::int32_t>(id));
    }
    std::ranges::stable_sort(
        order, [this](std::size_t a, std::size_t b) { return scores_[a] > scores_[b]; });
    Merges merges;
    for (const std::size_t id : order) {
      const std::string& piece = (*pieces_)[id];
      for (std::size_t at = 0; at < piece.size();) {
        const std::size_t length = utf8_length(std::string_view(piece).substr(at, 4));
        if (length < piece.size() && !vocabulary.contains(piece.substr(at, length)))
          refuse("has the piece \"" + printable(piece) + "\", of which a character is no piece");
        if (at > 0) {
          const auto left = vocabulary.find(piece.substr(0, at)),
                     right = vocabulary.find(piece.substr(at));
          if (left != vocabulary.end() && right != vocabulary.end() &&
              is(static_cast<std::size_t>(left->second), kNormal) &&
              is(static_cast<std::size_t>(right->second), kNormal))
            merges.add(left->second, right->second, static_cast<std::int32_t>(id));
        }
        at += length;
      }
    }
    // a user-defined piece is merged with nothing
    for (std::size_t id = 0; id < pieces_->size(); ++id)
      if (is(id, kUserDefined))
        steps_.added.push_back(
            {.id = static_cast<std::int32_t>(id), .content = (*pieces_)[id], .normalized = true});
    return std::make_unique<Bpe>(
        vocabulary, std::move(merges),
        BpeOptions{.byte_fallback = fallback, .fuse_unk = true, .unk = unk});
  }

  std::unique_ptr<PieceModel> unigrams(std::int32_t unk) const {
    std::vector<Unigram::Token> tokens;
    float least = 0;
    bool any = false;
    for (std::size_t id = 0; id < pieces_->size(); ++id) {
      if (is(id, kNormal)) {
        least = any ? std::min(least, scores_[id]) : scores_[id];
        any = true;
      }
      // what their "largest score" comes to, which begins at the smallest number above 0
      if (is(id, kNormal) || is(id, kUserDefined))
        tokens.push_back({(*pieces_)[id], static_cast<std::int32_t>(id),
                          is(id, kUserDefined) ? -0.1f : scores_[id]});
    }
    return std::make_unique<Unigram>(std::move(tokens), least - 10, bytes_, unk);
  }

  void read_normalizer(const Message& normalizer) {
    std::vector<AddedToken> untouched;
    for (std::size_t id = 0; id < pieces_->size(); ++id)
      if (is(id, kUserDefined))
        untouched.push_back(
            {.id = static_cast<std::int32_t>(id), .content = (*pieces_)[id], .special = true});
    auto rules = std::make_shared<const NormalizerRules>(
        NormalizerRules{Charsmap(normalizer.bytes(2), name_), AddedTokens(std::move(untouched)),
                        normalizer.number(3, 1) != 0, normalizer.number(4, 1) != 0,
                        normalizer.number(5, 1) != 0, pieces_});
    steps_.normalizer = [rules](std::string_view text) { return rules->run(text); };
    steps_.normalizer_is_local = false;
  }

  // The id of a control piece; -1: there is none of this name.
  std::int32_t mark(const std::string& name) const {
    const auto found = ids_.find(name);
    return found != ids_.end() && is(static_cast<std::size_t>(found->second), kControl)
               ? found->second
               : -1;
  }

  void find_marks(const Message& trainer) {
    const auto mark_at = [&](std::uint64_t field, std::uint64_t otherwise) {
      const std::uint64_t id = trainer.number(field, otherwise);
      return id < kinds_.size() && is(id, kControl) ? static_cast<std::int32_t>(id) : -1;
    };
    steps_.marks = {mark_at(42, 2), mark_at(41, 1), mark_at(43, ~std::uint64_t{0})};
    for (std::size_t id = 0; id < pieces_->size(); ++id)
      if (is(id, kControl))
        steps_.added.push_back(
            {.id = static_cast<std::int32_t>(id), .content = (*pieces_)[id], .special = true});
  }

  void decode(std::size_t unk, bool prefix, bool no_extra_spaces) {
    steps_.decoded.text = *pieces_;
    for (std::size_t id = 0; id < pieces_->size(); ++id) {
      std::string& text = steps_.decoded.text[id];
      if (is(id, kControl)) continue;
      for (std::size_t at = text.find(kSpaceMark); at != std::string::npos;
           at = text.find(kSpaceMark, at + 1))
        text.replace(at, kSpaceMark.size(), " ");
    }
    steps_.decoded.text[unk] = " \u2047 ";
    for (std::size_t byte = 0; byte < 256; ++byte)
      if (bytes_[byte] >= 0)
        steps_.decoded.text[static_cast<std::size_t>(bytes_[byte])] =
            std::string(1, static_cast<char>(byte));
    steps_.decoded.strip = " ";
    steps_.decoded.strip_most = no_extra_spaces ? std::numeric_limits<int>::max() : prefix;
  }

  std::string name_;
  const Tokenizer::StoredFile& file_;
  std::shared_ptr<const std::vector<std::string>> pieces_;
  std::vector<std::uint64_t> kinds_;
  std::vector<float> scores_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::array<std::int32_t, 256> bytes_{};
  TokenizerSteps steps_;
};

}  // namespace

std::shared_ptr<const Tokenizer> read_sentence_piece(
    const Tokenizer::StoredFile& file, const std::optional<Tokenizer::StoredFile>& config) {
  return Reading(file).run(config);
}

TokenTables sentence_piece_tables(const Tokenizer::StoredFile& file) {
  return Reading(file).tables();
}

}  // namespace gossamer::data
