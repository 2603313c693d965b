// See language_text.h.
#include "gossamer/apps/commands/language_text.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "gossamer/core/error.h"

namespace gossamer::apps {

bool is_language_text(const std::string& text) {
  return text.starts_with("gpt2:") || text.starts_with("llama:");
}

models::LanguageOptions language_of_text(const std::string& where, const std::string& text) {
  i64 layers = 0, width = 0, positions = 0, vocabulary = 0;
  int read = 0;
  const std::size_t colon = text.find(':');
  const std::string sizes = colon == text.npos ? "" : text.substr(colon + 1);
  check<ConfigError>(
      is_language_text(text) &&
          std::sscanf(sizes.c_str(), "%" SCNd64 "x%" SCNd64 ":%" SCNd64 ":%" SCNd64 "%n", &layers,
                      &width, &positions, &vocabulary, &read) == 4 &&
          static_cast<std::size_t>(read) == sizes.size(),
      where, " ", text,
      ": a language model is gpt2:LAYERSxWIDTH:LENGTH:VOCABULARY, or llama:…, e.g. "
      "gpt2:4x256:128:8192");
  const i64 heads = models::gpt2_heads(width);
  if (text.starts_with("gpt2:")) {
    models::Gpt2Options o;
    o.layers = layers, o.width = width, o.positions = positions, o.vocabulary = vocabulary;
    o.heads = heads;
    return o;
  }
  models::LlamaOptions o = models::llama_options("llama", {.classes = vocabulary,
                                                           .layers = layers,
                                                           .width = width,
                                                           .heads = heads,
                                                           .positions = positions});
  o.kv_heads = std::max<i64>(1, heads / 2);
  return o;
}

}  // namespace gossamer::apps
