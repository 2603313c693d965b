// `gossamer data tokenize TEXT... --out DIR`: text into ids on disk.
#include <filesystem>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/language_source.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/plural.h"

namespace gossamer::apps {
namespace {

JsonObject to_json(const data::TextIndex::Part& part, bool pairs) {
  JsonObject out;
  out.add("tokens", part.tokens);
  if (pairs) out.add("target_tokens", part.target_tokens);
  if (!part.learnt_files.empty()) out.add("learnt", part.learnt);
  return out.add(pairs ? "pairs" : "documents", part.items).add("text_bytes", part.text_bytes);
}

void print_part(const char* name, const data::TextIndex::Part& part, bool pairs) {
  if (part.files.empty()) return;
  print(fmt::format("{}: {} tokens", name, part.tokens));
  if (pairs) print(fmt::format(" and {}", part.target_tokens));
  const bool examples = !part.learnt_files.empty();
  print(fmt::format(" of {}", counted(part.items, pairs      ? "pair"
                                                  : examples ? "example"
                                                             : "document")));
  if (examples)
    print(fmt::format(", of which {} are learnt", part.learnt));
  else if (!pairs && part.tokens > 0)
    print(fmt::format(", {:.2f} bytes a token",
                      static_cast<double>(part.text_bytes) / static_cast<double>(part.tokens)));
  print("\n");
}

// Words of prose have a few dozen bytes, sentences of languages without spaces some thousand.
constexpr i64 kLongWord = 10'000;

// What a user may not expect of the text that was given.
void print_notices(const data::TokenizeReport& r) {
  const auto left_out = [](const std::vector<std::string>& files, const char* why) {
    if (!files.empty())
      print(fmt::format("left out, {}: {} ({})\n", why,
                        counted(static_cast<i64>(files.size()), "file"), first_of(files)));
  };
  left_out(r.empty_files, "because there is no text in them");
  left_out(r.other_files, "because they end with none of .txt, .text, .md and .jsonl");
  if (r.empty) print(fmt::format("left out, because a side is empty: {}\n", r.empty));
  if (r.too_long)
    print(fmt::format("left out, because longer than --max-length: {}\n", r.too_long));
  if (!r.spelled_mark.empty())
    print(fmt::format(
        "the tokenizer has no mark {}, so the marks of this chat template are spelled in letters; "
        "--chat-template llama2, mistral or zephyr ends answers with the tokenizer's own end "
        "mark\n",
        r.spelled_mark));
  if (r.longest_word > kLongWord)
    print(fmt::format("the longest word has {} bytes: is this text in a language?\n",
                      r.longest_word));
  if (r.ids_asked > r.index.vocabulary)
    print(fmt::format("{} ids were asked for; no more pairs of ids occur twice in a word\n",
                      r.ids_asked));
}

// The library speaks of what it is given, and users gave options: those that its words stand for.
std::string with_options(const std::string& text) {
  const std::pair<const char*, const char*> options[] = {
      {"tokenize: tokenizer", "--tokenizer"},
      {"a split is for", "--split"},
      {"there is no split", "--split"},
      {"name its split", "--split"},
      {"maximal length", "--max-length"},
      {"validation fraction", "--val-fraction"},
      {"a fraction", "--val-fraction"},
      {"hashes choose", "--val-by, --val-fraction"},
      {"validation text", "--val"},
      {"validation sources", "--val, --val-target"},
      {"files of sources", "--target"},
      {" threads;", "--threads"},
      {"examples are", "--examples"},
      {"no chat template", "--chat-template"},
      {"take any bytes as they are", "--any-bytes"}};
  std::string names;
  for (const auto& [words, option] : options)
    if (text.find(words) != text.npos) names += (names.empty() ? "" : ", ") + std::string(option);
  // the others are of files, and only names of options could be in them
  const bool own =
      text.find("tokenize: ") != text.npos || names == "--any-bytes" || names == "--chat-template";
  return own && !names.empty() ? text + " (" + names + ")" : text;
}

template <class F>
auto naming_options(F&& work) {
  try {
    return work();
  } catch (const ConfigError& error) {
    fail<ConfigError>(with_options(error.what()));
  } catch (const DataError& error) {
    fail<DataError>(with_options(error.what()));
  }
}

}  // namespace

int data_tokenize(const DataTokenizeCommand& command) {
  data::TokenizeOptions options = command.options;
  options.format = data::parse_token_format(command.format);
  options.val_by = data::parse_held_out(command.val_by);
  DataProgress progress("tokenize, KiB",
                        naming_options([&] { return data::tokenize_kibibytes(options); }),
                        command.json);
  const data::TokenizeReport report =
      naming_options([&] { return data::tokenize(options, progress); });
  if (report.whole) {  // so that Hugging Face's library reads the folder, too
    const std::string config = hugging_face_tokenizer_config(*data::open_tokenizer(options.folder));
    if (!config.empty())
      write_file(std::filesystem::path(options.folder) / "tokenizer_config.json", config);
  }
  const double seconds = progress.seconds();
  const data::TextIndex& index = report.index;
  if (command.json) {
    JsonObject out;
    out.add("vocabulary", index.vocabulary)
        .raw("train", to_json(index.train, index.pairs).str())
        .raw("val", to_json(index.val, index.pairs).str());
    if (index.pairs) out.add("empty", report.empty).add("too_long", report.too_long);
    out.add("empty_files", report.empty_files).add("other_files", report.other_files);
    if (report.ids_asked)
      out.add("ids_asked", report.ids_asked).add("longest_word", report.longest_word);
    print(fmt::format("{}\n", out.add("seconds", seconds).add("whole", report.whole).str()));
  } else if (!report.whole) {
    print("stopped; nothing was written\n");
  } else {
    print_part("train", index.train, index.pairs);
    print_part("val", index.val, index.pairs);
    print_notices(report);
    print(fmt::format("vocabulary of {}, in {} ({:.1f} s)\n", index.vocabulary, options.folder,
                      seconds));
  }
  return report.whole ? 0 : stopped_code();
}

}  // namespace gossamer::apps
