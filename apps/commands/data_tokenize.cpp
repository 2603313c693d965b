// `gossamer data tokenize TEXT... --out DIR`: text into ids on disk.
#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/json.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/plural.h"
#include "gossamer/data/text/tokenize.h"

namespace gossamer::apps {
namespace {

JsonObject to_json(const data::TextIndex::Part& part, bool pairs) {
  JsonObject out;
  out.add("tokens", part.tokens);
  if (pairs) out.add("target_tokens", part.target_tokens);
  return out.add(pairs ? "pairs" : "documents", part.items).add("text_bytes", part.text_bytes);
}

void print_part(const char* name, const data::TextIndex::Part& part, bool pairs) {
  if (part.files.empty()) return;
  print(fmt::format("{}: {} tokens", name, part.tokens));
  if (pairs) print(fmt::format(" and {}", part.target_tokens));
  print(fmt::format(" of {}", counted(part.items, pairs ? "pair" : "document")));
  if (!pairs && part.tokens > 0)
    print(fmt::format(", {:.2f} bytes a token",
                      static_cast<double>(part.text_bytes) / static_cast<double>(part.tokens)));
  print("\n");
}

}  // namespace

int data_tokenize(const DataTokenizeCommand& command) {
  const data::TokenizeOptions options{.sources = command.sources,
                                      .targets = command.targets,
                                      .val_sources = command.val_sources,
                                      .val_targets = command.val_targets,
                                      .folder = command.out,
                                      .tokenizer = command.tokenizer,
                                      .val_fraction = command.val_fraction,
                                      .separator = command.separator,
                                      .max_length = command.max_length,
                                      .format = data::parse_token_format(command.format),
                                      .shard_tokens = command.shard_tokens,
                                      .any_bytes = command.any_bytes,
                                      .threads = command.threads};
  DataProgress progress("tokenize, KiB", data::tokenize_kibibytes(options), command.json);
  const data::TokenizeReport report = data::tokenize(options, progress);
  const double seconds = progress.seconds();
  const data::TextIndex& index = report.index;
  if (command.json) {
    JsonObject out;
    out.add("vocabulary", index.vocabulary)
        .raw("train", to_json(index.train, index.pairs).str())
        .raw("val", to_json(index.val, index.pairs).str());
    if (index.pairs) out.add("empty", report.empty).add("too_long", report.too_long);
    print(fmt::format("{}\n", out.add("seconds", seconds).add("whole", report.whole).str()));
  } else if (!report.whole) {
    print("stopped; nothing was written\n");
  } else {
    print_part("train", index.train, index.pairs);
    print_part("val", index.val, index.pairs);
    if (report.empty) print(fmt::format("left out, because a side is empty: {}\n", report.empty));
    if (report.too_long)
      print(fmt::format("left out, because longer than --max-length: {}\n", report.too_long));
    print(fmt::format("vocabulary of {}, in {} ({:.1f} s)\n", index.vocabulary, command.out,
                      seconds));
  }
  return report.whole ? 0 : stopped_code();
}

}  // namespace gossamer::apps
