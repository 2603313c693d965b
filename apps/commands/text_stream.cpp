// See text_stream.h.
#include "gossamer/apps/commands/text_stream.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/text/utf8.h"

namespace gossamer::apps {

TextStream::TextStream(bool silent, std::vector<std::string> stops)
    : silent_(silent), stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    check<ConfigError>(!stop.empty(),
                       "generate: --stop \"\"; a text that ends others is not empty");
}

void TextStream::begin(const std::string& prompt) {
  text_ = prompt;
  made_ = text_.size();
  show(certain());
}

void TextStream::add(const std::string& bytes) {
  if (!stop_.empty()) return;
  const std::size_t before = text_.size();
  text_ += bytes;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    // it may have begun in front of these bytes
    const std::size_t from = before - std::min(before - made_, stop.size() - 1);
    if (const std::size_t at = text_.find(stop, from); at < first) {
      first = at;
      stop_ = stop;
    }
  }
  if (first != std::string::npos) text_.resize(first);
  show(certain());
}

const std::string& TextStream::end() {
  show(text_.size());
  if (!silent_) std::fputs("\n", stdout);
  return text_;
}

// How much of the text stays as it is, whatever comes behind it.
std::size_t TextStream::certain() const {
  std::size_t until = text_.size();
  if (stop_.empty())
    for (const std::string& stop : stops_)
      for (std::size_t n = std::min(stop.size() - 1, text_.size() - made_); n > 0; --n)
        if (text_.ends_with(std::string_view(stop).substr(0, n))) {
          until = std::min(until, text_.size() - n);
          break;
        }
  if (until <= shown_) return shown_;
  const std::string_view left = std::string_view(text_).substr(shown_, until - shown_);
  const std::size_t whole = valid_utf8(left);
  constexpr std::size_t kLongestCharacter = 4;
  // of so many bytes no character will come
  return left.size() - whole >= kLongestCharacter ? until : shown_ + whole;
}

void TextStream::show(std::size_t until) {
  if (!silent_) {
    std::fwrite(text_.data() + shown_, 1, until - shown_, stdout);
    std::fflush(stdout);
  }
  shown_ = until;
}

}  // namespace gossamer::apps
