// See gpt2_text.h.
#include "gossamer/apps/commands/gpt2_text.h"

#include <cinttypes>
#include <cstdio>

#include "gossamer/core/error.h"

namespace gossamer::apps {

models::Gpt2Options gpt2_of_text(const std::string& where, const std::string& text) {
  models::Gpt2Options o;
  int read = 0;
  check<ConfigError>(
      std::sscanf(text.c_str(), "gpt2:%" SCNd64 "x%" SCNd64 ":%" SCNd64 ":%" SCNd64 "%n", &o.layers,
                  &o.width, &o.positions, &o.vocabulary, &read) == 4 &&
          static_cast<std::size_t>(read) == text.size(),
      where, " ", text,
      ": a language model is gpt2:LAYERSxWIDTH:LENGTH:VOCABULARY, e.g. "
      "gpt2:4x256:128:8192");
  o.heads = models::gpt2_heads(o.width);
  return o;
}

}  // namespace gossamer::apps
