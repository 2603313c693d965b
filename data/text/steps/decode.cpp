// Every step changes the text of all tokens at once, as they stand in the vocabulary.
#include "gossamer/data/text/steps/decode.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <string_view>
#include <utility>

#include "gossamer/core/text/utf8.h"
#include "gossamer/data/text/byte_names.h"
#include "gossamer/data/text/steps/fields.h"

namespace gossamer::data {
namespace {

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found = text.find(from); found != std::string::npos;
       found = text.find(from, at)) {
    out.append(text, at, found - at);
    out += to;
    at = found + from.size();
  }
  return out.append(text, at);
}

// The byte that <0xE9> stands for; -1: it is another token.
int byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
  int byte = -1;
  const char* const end = token.data() + 5;
  const auto [at, error] = std::from_chars(token.data() + 3, end, byte, 16);
  return error == std::errc() && at == end ? byte : -1;
}

std::string stripped(std::string_view text, std::string_view what, i64 front, i64 back) {
  for (; front > 0 && text.starts_with(what); --front) text.remove_prefix(what.size());
  for (; back > 0 && text.ends_with(what); --back) text.remove_suffix(what.size());
  return std::string(text);
}

class Decoding {
 public:
  explicit Decoding(std::vector<std::string> tokens) { out_.text = std::move(tokens); }

  void read(const Fields& step) {
    const std::string type = step.type();
    if (type == "Sequence") {
      step.know({"decoders"});
      for (const Fields& each : step.list("decoders")) read(each);
    } else if (type == "Fuse") {
      step.know({});
      state_ = State::fused;
    } else if (type == "ByteLevel") {
      step.know({"add_prefix_space", "trim_offsets", "use_regex"});
      of_tokens(step, State::bytes);
      change([](const std::string& token) { return from_byte_names(token).value_or(token); });
    } else if (type == "ByteFallback") {
      step.know({});
      of_tokens(step, State::bytes);
      change([](const std::string& token) {
        const int byte = byte_of(token);
        return byte < 0 ? token : std::string(1, static_cast<char>(byte));
      });
    } else if (type == "Replace") {
      step.know({"pattern", "content"});
      of_tokens(step, State::tokens);
      const Fields pattern = step.object("pattern");
      pattern.know({"String"});
      const std::string from = pattern.text("String"), to = step.text("content");
      if (from.empty()) step.refuse("replaces a text of no characters");
      change([&](const std::string& token) { return replaced(token, from, to); });
    } else if (type == "Metaspace") {
      metaspace(step);
    } else if (type == "Strip") {
      strip(step);
    } else {
      step.refuse("is of the type " + type + ", which is not supported");
    }
  }

  void joined_by_spaces() {
    out_.first = out_.text;
    for (std::string& token : out_.text) token.insert(0, " ");
  }

  DecodedTokens result() && { return std::move(out_); }

 private:
  // What the steps so far have made: tokens, tokens of which some are bytes, or one text.
  enum class State { tokens, bytes, fused };

  void of_tokens(const Fields& step, State after) {
    if (state_ != State::tokens)
      step.refuse("is of the type " + step.type() + ", which is supported in front of " +
                  (state_ == State::bytes ? "ByteFallback and ByteLevel" : "Fuse") + " only");
    state_ = after;
  }
  void change(const std::function<std::string(const std::string&)>& how) {
    for (auto* tokens : {&out_.text, &out_.first})
      for (std::string& token : *tokens) token = how(token);
  }

  void metaspace(const Fields& step) {
    step.know({"replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    of_tokens(step, State::tokens);
    const std::string mark = step.text_or("replacement", "\u2581");
    if (mark.empty()) step.refuse("replaces a text of no characters");
    const std::string scheme =
        step.text_or("prepend_scheme", step.flag_or("add_prefix_space", true) ? "always" : "never");
    if (out_.first.empty()) out_.first = out_.text;
    for (std::string& token : out_.text) token = replaced(token, mark, " ");
    for (std::string& token : out_.first)
      token = replaced(token, mark, scheme == "never" ? " " : "");
  }

  void strip(const Fields& step) {
    step.know({"content", "start", "stop"});
    const std::string what = step.text("content");
    const i64 front = step.number("start"), back = step.number("stop");
    if (what.empty() || utf8_length(what) != what.size())
      step.refuse("has a content that is not one character");
    if (front > 1000 || back > 1000) step.refuse("strips more than 1000 characters");
    if (state_ != State::fused) {
      of_tokens(step, State::tokens);
      change([&](const std::string& token) { return stripped(token, what, front, back); });
      return;
    }
    if (back > 0) step.refuse("strips the end of the whole text, which is not supported");
    if (out_.strip_most > 0) step.refuse("strips the whole text again, which is not supported");
    out_.strip = what;
    out_.strip_most = static_cast<int>(front);
  }

  DecodedTokens out_;
  State state_ = State::tokens;
};

}  // namespace

DecodedTokens decode_tokens(std::vector<std::string> tokens, const Fields* decoder) {
  Decoding decoding(std::move(tokens));
  if (decoder)
    decoding.read(*decoder);
  else
    decoding.joined_by_spaces();
  return std::move(decoding).result();
}

}  // namespace gossamer::data
