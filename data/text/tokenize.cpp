// The text is read once for the vocabulary, if one is to be made, and once for the ids. Threads
// encode a few megabytes of it at a time, which are written in order.
#include "gossamer/data/text/tokenize.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/core/text/shortest.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/inner_error.h"
#include "gossamer/data/text/byte_pairs.h"
#include "gossamer/data/text/characters.h"
#include "gossamer/data/text/examples.h"
#include "gossamer/data/text/marks.h"
#include "gossamer/data/text/split_words.h"
#include "gossamer/data/text/text_reader.h"
#include "gossamer/data/work.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = std::size_t{1} << 18;    // bytes that a thread encodes at once
constexpr std::size_t kAtOnce = std::size_t{16} << 20;  // bytes in memory for all threads

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\v\f\r") == std::string::npos;
}

// The N of bpe:N; none: the vocabulary is another one.
std::optional<i64> size_to_make(const std::string& tokenizer) {
  if (!tokenizer.starts_with("bpe:")) return std::nullopt;
  i64 size = 0;
  const char* const end = tokenizer.data() + tokenizer.size();
  const auto [at, error] = std::from_chars(tokenizer.data() + 4, end, size);
  check<ConfigError>(error == std::errc() && at == end, "tokenize: tokenizer ", tokenizer,
                     ": bpe: wants the number of ids, as in bpe:8192");
  return size;
}

// For the vocabulary, and for the ids.
bool reads_twice(const TokenizeOptions& o) {
  return o.tokenizer == "characters" || size_to_make(o.tokenizer);
}

// What index.json says of the command: all that the ids depend on.
TextIndex::Made made_of(const TokenizeOptions& o) {
  TextIndex::Made made{o.tokenizer, o.split, o.sources, o.val_sources, {}};
  made.text.insert(made.text.end(), o.targets.begin(), o.targets.end());
  made.val_text.insert(made.val_text.end(), o.val_targets.begin(), o.val_targets.end());
  const TokenizeOptions unsaid;
  const auto say = [&](const char* name, const std::string& value) { made.options[name] = value; };
  if (o.val_fraction > 0) {
    say("val_fraction", shortest(o.val_fraction));
    say("val_by", o.val_by == HeldOut::hash ? "hash" : "order");
  }
  if (o.separator != unsaid.separator) say("separator", o.separator);
  if (!o.field.empty()) say("field", o.field);
  if (o.max_length > 0) say("max_length", std::to_string(o.max_length));
  if (o.examples) say("examples", o.chat.empty() ? "true" : o.chat);
  if (o.marks) say("marks", "true");
  if (o.any_bytes) say("any_bytes", "true");
  return made;
}

std::shared_ptr<const Tokenizer> tokenizer_of(const TokenizeOptions& o, TextReader& reader,
                                              TokenizeReport& report) {
  const bool pairs = !o.targets.empty();
  if (o.tokenizer == "characters") {
    CharacterSet characters;
    check<ConfigError>(!pairs, "tokenize: characters have no marks for pairs; use bpe:N");
    reader.each_document(
        [&](TextReader::Document&& document) { characters.add(document.text, document.place); });
    return characters.tokenizer();
  }
  const std::optional<i64> size = size_to_make(o.tokenizer);
  if (!size) return open_tokenizer(o.tokenizer, o.split);
  BytePairTrainer trainer(o.split.empty() ? "gpt2" : o.split);
  if (pairs)
    reader.each_pair([&](TextReader::Pair&& pair) {
      if (pair.val) return;
      trainer.add(pair.source);
      trainer.add(pair.target);
    });
  else
    reader.each_document([&](TextReader::Document&& document) {
      if (!document.val) trainer.add(document.text);
    });
  const std::vector<std::string> marks =
      pairs ? std::vector<std::string>{std::string(kPadding), std::string(kBeginOfSentence),
                                       std::string(kEndOfSentence)}
            : std::vector<std::string>{std::string(kEndOfText)};
  report.ids_asked = *size;
  report.longest_word = trainer.longest_word();
  return trainer.train(*size, marks);
}

class Tokenizing {
 public:
  Tokenizing(const TokenizeOptions& o, FunctionRef<bool(i64)> tick)
      : options_(o), tick_(tick), pairs_(!o.targets.empty()), reader_(o, tick) {}

  TokenizeReport run() {
    tokenizer_ = tokenizer_of(options_, reader_, report_);
    marks_ = tokenizer_->marks();
    check<ConfigError>(!pairs_ || (marks_.end >= 0 && marks_.begin >= 0 && marks_.pad >= 0),
                       "tokenize: the vocabulary lacks one of the marks <s>, </s> and <pad>, "
                       "which pairs need; use bpe:N");
    find_marks_around();
    if (options_.examples) find_chat();
    for (Part* part : {&train_, &val_}) {
      const std::string name = part == &val_ ? "val" : "train";
      const auto open = [&](std::optional<TokenWriter>& writer, const std::string& prefix) {
        writer.emplace(path(prefix), options_.format, tokenizer_->size(), options_.shard_tokens);
      };
      open(part->source, pairs_ ? name + "-source" : name);
      if (pairs_) open(part->target, name + "-target");
      if (options_.examples)
        part->learnt.emplace(path(name + "-learnt"), options_.format, kLearntValues,
                             options_.shard_tokens);
    }
    if (pairs_)
      reader_.each_pair([this](TextReader::Pair&& pair) { add(std::move(pair)); });
    else
      reader_.each_document([this](TextReader::Document&& document) { add(std::move(document)); });
    flush();
    check<DataError>(
        train_.index.items > 0, code::nothing, "tokenize: there is no text to train on",
        options_.max_length > 0 ? "; every pair is longer than the maximal length" : "");
    check<DataError>(options_.val_fraction == 0 || val_.index.items > 0, code::nothing,
                     "tokenize: the validation fraction ", options_.val_fraction, " of ",
                     train_.index.items, pairs_ ? " pairs" : " documents",
                     " is none of them; take a larger one, or name files of validation text");
    store();
    report_.empty_files = reader_.empty_files();
    report_.other_files = reader_.other_files();
    return std::move(report_);
  }

 private:
  struct Part {
    TextIndex::Part index;
    std::optional<TokenWriter> source, target, learnt;
  };
  // A piece of a document, an example, or both sides of a pair.
  struct Work {
    std::string source, target, place;
    bool val, begins, ends;  // a document, so that marks belong around it
    std::vector<std::int32_t> ids, target_ids;
    ExampleIds example{};
  };

  // A document stands in its tokenizer's frame, and ends with the end mark in any case; so does a
  // sentence of a pair, which has no frame.
  void find_marks_around() {
    if (!pairs_) {
      const Tokenizer::Frame frame = tokenizer_->frame();
      before_ = frame.before;
      after_ = frame.after;
    }
    if (marks_.end >= 0 && (after_.empty() || after_.back() != marks_.end))
      after_.push_back(marks_.end);
  }
  // Which template writes conversations; without one an example with messages is an error.
  void find_chat() {
    chat_ = options_.chat;
    try {
      if (chat_.empty()) chat_ = chat_of(*tokenizer_);
    } catch (const DataError& error) {  // whose code gives way to that of the line
      no_chat_ = without_code(error.what());
    }
    if (chat_.empty()) return;
    const std::string end = chat_end(chat_, *tokenizer_);
    std::vector<std::int32_t> ids;
    tokenizer_->encode_with_marks(end, ids);
    if (ids.size() > 1) report_.spelled_mark = end;
  }
  std::string path(const std::string& name) const {
    return (fs::path(options_.folder) / name).string();
  }
  void add(TextReader::Document&& document) {
    const std::string_view text = document.text;
    for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
      end = text.size() - at <= kPiece || !tokenizer_->can_cut_at_words() || options_.examples
                ? text.size()
                : word_boundary(text, at + kPiece);
      add(Work{std::string(text.substr(at, end - at)),
               {},
               document.place,
               document.val,
               at == 0,
               end == text.size(),
               {},
               {}});
    }
  }

  void add(TextReader::Pair&& pair) {
    if (is_blank(pair.source) || is_blank(pair.target)) {
      ++report_.empty;
      return;
    }
    add(Work{std::move(pair.source),
             std::move(pair.target),
             std::move(pair.place),
             pair.val,
             true,
             true,
             {},
             {}});
  }

  void add(Work&& work) {
    held_ += work.source.size() + work.target.size() + sizeof(Work);
    works_.push_back(std::move(work));
    if (held_ >= kAtOnce) flush();
  }

  // Encodes what is held and writes it.
  void flush() {
    // several lines at once, or threads would meet at their counter
    constexpr i64 kLines = 64;
    const i64 all = static_cast<i64>(works_.size()), step = pairs_ ? kLines : 1;
    const bool whole = for_each_sample(
        0, (all + step - 1) / step, options_.threads,
        [&](i64 n, std::vector<std::byte>&) {
          for (i64 i = n * step; i < std::min(all, (n + 1) * step); ++i)
            encode(works_[static_cast<std::size_t>(i)]);
        },
        [this](i64) { return tick_(reader_.kibibytes()); });
    if (!whole) throw TextReader::Stopped();
    for (Work& work : works_) write(work);
    works_.clear();
    held_ = 0;
  }

  void encode(Work& work) const {
    if (options_.examples) return encode_example_of(work);
    try {
      const auto encode = options_.marks ? &Tokenizer::encode_with_marks : &Tokenizer::encode;
      (*tokenizer_.*encode)(work.source, work.ids);
      (*tokenizer_.*encode)(work.target, work.target_ids);
    } catch (const DataError& error) {
      fail<DataError>(code::damaged, work.place, ": ", without_code(error.what()));
    }
  }

  void encode_example_of(Work& work) const {
    const Example example = example_in_json(work.source, work.place);
    check<DataError>(example.messages.empty() || !chat_.empty(), code::not_understood, work.place,
                     ": ", no_chat_);
    try {
      work.example = encode_example(example, *tokenizer_, chat_);
    } catch (const ConfigError& error) {  // roles that the template does not take
      fail<DataError>(code::not_understood, work.place, ": ", error.what());
    }
  }

  void write(Work& work) {
    Part& part = work.val ? val_ : train_;
    if (options_.examples) return write_example(part, work.example);
    if (work.begins) work.ids.insert(work.ids.begin(), before_.begin(), before_.end());
    if (work.ends) work.ids.insert(work.ids.end(), after_.begin(), after_.end());
    if (pairs_) {
      work.target_ids.push_back(marks_.end);
      if (options_.max_length > 0 &&
          static_cast<i64>(std::max(work.ids.size(), work.target_ids.size())) >
              options_.max_length) {
        ++report_.too_long;
        return;
      }
      part.target->add(work.target_ids);
    }
    part.source->add(work.ids);
    part.index.items += work.ends;
    part.index.text_bytes += static_cast<i64>(pairs_ ? work.target.size() : work.source.size());
  }

  static void write_example(Part& part, const ExampleIds& example) {
    part.source->add(example.ids);
    part.learnt->add(example.learnt);
    part.index.learnt += example.labels;
    part.index.items += 1;
    part.index.text_bytes += example.text_bytes;
  }

  void store() {
    for (const auto& file : tokenizer_->files()) write_file(path(file.name), file.bytes);
    for (Part* part : {&train_, &val_}) {
      part->index.tokens = part->source->size();
      part->index.files = part->source->close();
      if (part->learnt) part->index.learnt_files = part->learnt->close();
      if (!pairs_) continue;
      part->index.target_tokens = part->target->size();
      part->index.target_files = part->target->close();
    }
    TextIndex& index = report_.index;
    index.pairs = pairs_;
    index.vocabulary = tokenizer_->size();
    index.tokenizer = tokenizer_->hash();
    index.made = made_of(options_);
    index.marks = marks_;
    index.train = train_.index;
    index.val = val_.index;
    write_file(path("index.json"), encode_text_index(index));  // last: the folder is whole
  }

  const TokenizeOptions& options_;
  FunctionRef<bool(i64)> tick_;
  bool pairs_;
  TextReader reader_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  Marks marks_;
  std::vector<std::int32_t> before_, after_;  // around a document or a sentence
  std::string chat_, no_chat_;                // the template of examples; why there is none
  Part train_, val_;
  std::vector<Work> works_;
  std::size_t held_ = 0;  // bytes in works_
  TokenizeReport report_;
};

// One process has one standard input, and it can be read once.
void check_standard_input(const TokenizeOptions& o) {
  i64 times = 0;
  for (const auto* paths : {&o.sources, &o.targets, &o.val_sources, &o.val_targets})
    times += std::ranges::count(*paths, "-");
  check<ConfigError>(times <= 1, "tokenize: standard input (-) is named ", times,
                     " times; it can be read once");
  check<ConfigError>(times == 0 || !reads_twice(o), "tokenize: tokenizer ", o.tokenizer,
                     " reads all text twice, and standard input (-) can be read once; store the "
                     "text in a file, or name a tokenizer that there is");
}

void check_options(const TokenizeOptions& o) {
  check<ConfigError>(!o.tokenizer.empty(),
                     "tokenize: no tokenizer is given: a folder with tokenizer.json, or with "
                     "vocab.json and merges.txt, or bpe:8192, or characters");
  check<ConfigError>(
      o.split.empty() || size_to_make(o.tokenizer) || has_ending(o.tokenizer, {".tiktoken"}),
      "tokenize: the tokenizer ", o.tokenizer,
      " has its split in it; a split is for bpe:N and .tiktoken files");
  if (!o.split.empty()) named_pattern(o.split);
  check<ConfigError>(!o.examples || !reads_twice(o), "tokenize: tokenizer ", o.tokenizer,
                     ": examples are for a model that was trained, so name its tokenizer");
  check<ConfigError>(
      !o.examples || (o.targets.empty() && o.field.empty() && !o.marks && o.max_length == 0),
      "tokenize: examples are JSON lines of a known form; leave targets, fields, marks and a limit "
      "of their length out");
  check<ConfigError>(o.chat.empty() || o.examples,
                     "tokenize: a chat template is for examples with messages");
  if (!o.chat.empty()) check_chat(o.chat);
  check<ConfigError>(o.val_fraction >= 0 && o.val_fraction < 1, "tokenize: validation fraction ",
                     o.val_fraction, "; from 0 to below 1 is possible");
  check<ConfigError>(o.val_fraction == 0 || o.val_sources.empty(),
                     "tokenize: files of validation text are named; a fraction would take more "
                     "from the training text. Give one of them");
  check<ConfigError>(o.val_by == HeldOut::order || o.val_fraction > 0,
                     "tokenize: hashes choose validation text, and the validation fraction is 0; "
                     "give one");
  check<ConfigError>(o.targets.empty() || o.targets.size() == o.sources.size(),
                     "tokenize: ", o.sources.size(), " files of sources and ", o.targets.size(),
                     " of targets; each needs the other");
  check<ConfigError>(o.val_targets.size() == (o.targets.empty() ? 0 : o.val_sources.size()),
                     "tokenize: ", o.val_sources.size(), " files of validation sources and ",
                     o.val_targets.size(), " of targets",
                     o.targets.empty() ? ", which pairs alone have" : "; each needs the other");
  check<ConfigError>(o.max_length >= 0, "tokenize: maximal length ", o.max_length,
                     "; use 0 for no limit, or more");
  check<ConfigError>(o.max_length == 0 || !o.targets.empty(),
                     "tokenize: a maximal length is for pairs; documents may have any length");
  check<ConfigError>(o.threads >= 1 && o.threads <= 1024, "tokenize: ", o.threads,
                     " threads; it must be 1 to 1024");
  check_standard_input(o);
}

// New or empty, so that nothing else is taken for a part of it.
void prepare_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  check<IoError>(!error, printable(folder), ": the folder can't be made: ", error.message());
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error))
    check<ConfigError>(is_hidden(it->path().filename().string()), printable(folder),
                       ": holds other things (", printable(it->path().filename().string()),
                       "); name a new or empty folder");
}

}  // namespace

i64 tokenize_kibibytes(const TokenizeOptions& o) {
  i64 bytes = 0;
  for (const auto* paths : {&o.sources, &o.targets, &o.val_sources, &o.val_targets})
    if (!paths->empty())
      for (const std::string& file : find_text_files(*paths)) {
        std::error_code none;
        const auto size = fs::file_size(file, none);
        if (!none) bytes += static_cast<i64>(size);
      }
  return (reads_twice(o) ? 2 * bytes : bytes) >> 10;
}

HeldOut parse_held_out(const std::string& name) {
  if (name == "order") return HeldOut::order;
  check<ConfigError>(name == "hash", "\"", name,
                     "\" is no way to hold text back; use order or hash");
  return HeldOut::hash;
}

TokenizeReport tokenize(const TokenizeOptions& o, FunctionRef<bool(i64)> tick) {
  check_options(o);
  prepare_folder(o.folder);
  try {
    return Tokenizing(o, tick).run();
  } catch (const TextReader::Stopped&) {
    TokenizeReport report;
    report.whole = false;
    return report;
  }
}

}  // namespace gossamer::data
