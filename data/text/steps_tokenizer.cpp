// Text goes from step to step as views of it, without lists of pieces.
#include "gossamer/data/text/steps_tokenizer.h"

#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/io/xxh3.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/mix.h"
#include "gossamer/data/text/merges.h"
#include "gossamer/data/text/split_words.h"

namespace gossamer::data {
namespace {

class StepsTokenizer final : public Tokenizer {
 public:
  explicit StepsTokenizer(TokenizerSteps steps) : s_(std::move(steps)) {
    std::vector<AddedToken> raw, normalized;
    for (const AddedToken& each : s_.added) {
      hash(each);
      (each.normalized ? normalized : raw).push_back(each);
    }
    raw_ = AddedTokens(std::move(raw));
    normalized_ = AddedTokens(std::move(normalized));
    for (const std::int32_t id : s_.frame.before) rules_ = mix(rules_, 2u * to_u64(id));
    for (const std::int32_t id : s_.frame.after) rules_ = mix(rules_, 2u * to_u64(id) + 1);
    rules_ = mix(rules_, s_.rules);
  }

  i64 size() const override { return static_cast<i64>(s_.decoded.text.size()); }
  Marks marks() const override { return s_.marks; }
  Frame frame() const override { return s_.frame; }
  std::vector<StoredFile> files() const override { return s_.files; }
  bool can_cut_at_words() const override { return s_.pre.cuts_at_words && s_.normalizer_is_local; }

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    encode(text, false, ids);
  }
  void encode_with_marks(std::string_view text, std::vector<std::int32_t>& ids) const override {
    encode(text, true, ids);
  }

 private:
  static std::uint64_t to_u64(std::int32_t id) { return static_cast<std::uint32_t>(id); }

  void hash(const AddedToken& token) {
    const bool flags[] = {token.special, token.single_word, token.strips_left, token.strips_right,
                          token.normalized};
    std::uint64_t bits = 0;
    for (const bool flag : flags) bits = bits << 1 | (flag ? 1u : 0u);
    rules_ =
        xxh3(std::as_bytes(std::span(token.content)), mix(rules_, to_u64(token.id) << 8 | bits));
  }

  std::string_view text_of(std::int32_t id, bool first) const override {
    const auto& texts = first && !s_.decoded.first.empty() ? s_.decoded.first : s_.decoded.text;
    return texts[static_cast<std::size_t>(id)];
  }
  Strip strip() const override { return {s_.decoded.strip, s_.decoded.strip_most}; }
  std::uint64_t rules() const override { return rules_; }

  void encode(std::string_view text, bool marks, std::vector<std::int32_t>& ids) const {
    if (!s_.model->takes_any_bytes())
      if (const std::size_t valid = valid_utf8(text); valid != text.size())
        fail<DataError>("encode: byte ", valid + 1,
                        " of the text begins no character of UTF-8, and this tokenizer knows "
                        "characters only");
    PieceInHand hand;
    bool first = true;
    const auto token = [&](std::int32_t id) {
      ids.push_back(id);
      first = false;
    };
    const auto pieces = [&](std::string_view part) {
      s_.pre.run({part, first},
                 [&](std::string_view piece) { s_.model->encode(piece, hand, ids); });
      first = false;
    };
    const auto valid = [&](std::string_view part) {
      const std::string made = s_.normalizer ? s_.normalizer(part) : "";
      normalized_.split(s_.normalizer ? made : part, marks, pieces, token);
      first = false;
    };
    raw_.split(
        text, marks,
        [&](std::string_view part) {
          each_valid_part(part, valid, [&](std::string_view bytes) {
            s_.model->encode(bytes, hand, ids);
            first = false;
          });
        },
        token);
  }

  TokenizerSteps s_;
  AddedTokens raw_, normalized_;
  std::uint64_t rules_ = 0;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerSteps steps) {
  return std::make_shared<StepsTokenizer>(std::move(steps));
}

}  // namespace gossamer::data
