// The tokens are sorted, so those that begin with the same bytes are neighbours, and each further
// byte narrows the range.
#include "gossamer/data/text/steps/added_tokens.h"

#include <algorithm>
#include <utility>

#include "gossamer/data/text/steps/characters_utf8.h"
#include "gossamer/data/text/steps/pattern.h"

namespace gossamer::data {
namespace {

bool is_of_a_word(std::string_view character) {
  bool is = false;
  word_character().each(character, [&](std::size_t, std::size_t) { is = true; });
  return is;
}

// Whether a character of a word stands in front of or behind the part.
bool is_in_a_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0) {
    const std::size_t length = last_length(text.substr(0, begin));
    const std::string_view before = text.substr(begin - length, length);
    if (utf8_length(before) == length && is_of_a_word(before)) return true;
  }
  const std::size_t length = utf8_length(text.substr(end, 4));
  return length > 0 && is_of_a_word(text.substr(end, length));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  // Normalized, some may be nothing, or equal; of equal ones the last counts.
  std::erase_if(tokens_, [](const AddedToken& each) { return each.content.empty(); });
  std::reverse(tokens_.begin(), tokens_.end());
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  const auto same = [](const AddedToken& a, const AddedToken& b) { return a.content == b.content; };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same), tokens_.end());
  for (const AddedToken& each : tokens_)
    begins_[static_cast<unsigned char>(each.content[0])] = true;
}

const AddedToken* AddedTokens::at(std::string_view text) const {
  const AddedToken *first = tokens_.data(), *last = first + tokens_.size(), *found = nullptr;
  for (std::size_t depth = 0; first != last && depth < text.size(); ++depth) {
    const auto byte = [depth](const AddedToken& each) {
      return static_cast<unsigned char>(each.content[depth]);
    };
    const auto next = static_cast<unsigned char>(text[depth]);
    first = std::ranges::lower_bound(first, last, next, {}, byte);
    last = std::ranges::upper_bound(first, last, next, {}, byte);
    // the shortest of a range is its first; the others have more bytes
    if (first != last && first->content.size() == depth + 1) found = first++;
  }
  return found;
}

void AddedTokens::split(std::string_view text, bool specials,
                        FunctionRef<void(std::string_view)> other,
                        FunctionRef<void(std::int32_t)> token) const {
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.size() && !empty();) {
    const AddedToken* const found =
        begins_[static_cast<unsigned char>(text[i])] ? at(text.substr(i)) : nullptr;
    if (!found) {
      ++i;
      continue;
    }
    std::size_t begin = i, end = i + found->content.size();
    i = end;
    if ((found->special && !specials) || (found->single_word && is_in_a_word(text, begin, end)))
      continue;
    if (found->strips_left && begin > done)
      begin -= trailing_space(text.substr(done, begin - done));
    if (found->strips_right) end += leading_space(text.substr(end));
    if (begin > done) other(text.substr(done, begin - done));
    token(found->id);
    done = end;
  }
  if (done < text.size()) other(text.substr(done));
}

}  // namespace gossamer::data
