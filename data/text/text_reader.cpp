// See text_reader.h.
#include "gossamer/data/text/text_reader.h"

#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/io/xxh3.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/text/json_lines.h"

namespace gossamer::data {
namespace {

constexpr std::size_t kLongestDocument = std::size_t{4} << 30;

// Which documents or pairs become validation data: evenly spread ones, or those of small hashes.
class Held {
 public:
  explicit Held(const TokenizeOptions& o) : fraction_(o.val_fraction), by_(o.val_by) {}
  bool next(std::string_view text) {
    if (by_ == HeldOut::hash) {
      constexpr double kHashes = 18446744073709551616.0;  // 2^64
      return static_cast<double>(xxh3(std::as_bytes(std::span(text)))) < fraction_ * kHashes;
    }
    const double before = std::floor(static_cast<double>(count_) * fraction_);
    return std::floor(static_cast<double>(++count_) * fraction_) > before;
  }

 private:
  double fraction_;
  HeldOut by_;
  i64 count_ = 0;
};

bool only_ends_a_line(const std::string& line, std::size_t from) {
  return line.find_first_not_of("\r\n", from) == std::string::npos;
}

}  // namespace

void TextReader::tick() {
  if (!tick_(kibibytes())) throw Stopped();
}

void TextReader::close(const TextFile& file) {
  read_ += file.bytes_read();
  open_ = nullptr;
}

// --- documents

void TextReader::each_document(FunctionRef<void(Document&&)> visit) {
  empty_.clear(), others_.clear();
  Held held(options_);
  std::optional<Document> first;  // until it is known whether it is the only one
  i64 count = 0;
  each_document_of(options_.sources, false, [&](Document&& document) {
    if (++count == 1 && options_.val_by == HeldOut::order && !options_.examples) {
      first = std::move(document);
      return;
    }
    if (first) {
      first->val = held.next(first->text);
      visit(std::move(*first));
      first.reset();
    }
    document.val = held.next(document.text);
    visit(std::move(document));
  });
  if (first) visit_alone(std::move(*first), visit);
  each_document_of(options_.val_sources, true, visit);
}

void TextReader::each_document_of(const std::vector<std::string>& paths, bool val,
                                  FunctionRef<void(Document&&)> visit) {
  if (paths.empty()) return;
  for (const std::string& path : find_text_files(paths, &others_)) {
    TextFile file(path, [this] { tick(); });
    open_ = &file;
    bool has_text = false;
    each_document_in(file, val, [&](Document&& document) {
      has_text = true;
      visit(std::move(document));
    });
    if (!has_text) empty_.push_back(path);
    tick();
    close(file);
  }
}

void TextReader::each_document_in(TextFile& file, bool val, FunctionRef<void(Document&&)> visit) {
  Document document{{}, {}, val};
  const auto end = [&] {
    if (!document.text.empty()) visit(std::exchange(document, {{}, {}, val}));
    tick();
  };
  const bool json = holds_json(file);
  for (std::string line; file.next(line);) {
    if (!options_.any_bytes) file.check_utf8(line);
    if (json && only_ends_a_line(line, 0)) continue;
    if (!json && !options_.separator.empty() && line.starts_with(options_.separator) &&
        only_ends_a_line(line, options_.separator.size())) {
      end();
      continue;
    }
    if (document.text.empty()) document.place = file.place();
    if (json) {
      document.text = options_.examples ? line : text_of_line(file, line);
      end();
      continue;
    }
    check<DataError>(line.size() <= kLongestDocument - document.text.size(), code::damaged,
                     document.place,
                     ": begins a document of more than 4 GiB; end documents by "
                     "lines that hold the separator");
    document.text += line;
  }
  end();
}

// Visits a single document in two parts: its end is validation data.
void TextReader::visit_alone(Document&& document, FunctionRef<void(Document&&)> visit) {
  std::size_t cut = static_cast<std::size_t>(
      std::floor(static_cast<double>(document.text.size()) * (1 - options_.val_fraction)));
  while (cut < document.text.size() && cut > 0 &&
         (static_cast<unsigned char>(document.text[cut]) & 0xC0) == 0x80)
    --cut;
  Document tail{document.text.substr(cut), document.place, true};
  document.text.resize(cut);
  document.val = false;
  if (!document.text.empty()) visit(std::move(document));
  if (!tail.text.empty()) visit(std::move(tail));
}

// --- pairs

void TextReader::each_pair(FunctionRef<void(Pair&&)> visit) {
  empty_.clear(), others_.clear();
  Held held(options_);
  each_pair_of(options_.sources, options_.targets, [&](Pair&& pair) {
    pair.val = held.next(pair.source);
    visit(std::move(pair));
  });
  each_pair_of(options_.val_sources, options_.val_targets, [&](Pair&& pair) {
    pair.val = true;
    visit(std::move(pair));
  });
}

void TextReader::each_pair_of(const std::vector<std::string>& sources,
                              const std::vector<std::string>& targets,
                              FunctionRef<void(Pair&&)> visit) {
  for (std::size_t f = 0; f < sources.size(); ++f) {
    TextFile source(sources[f], [this] { tick(); }), target(targets[f], [this] { tick(); });
    open_ = &source;
    i64 pairs = 0;
    for (;; ++pairs) {
      Pair pair{};
      const bool more = read(source, pair.source), more_target = read(target, pair.target);
      const TextFile& shorter = more ? target : source;
      const TextFile& longer = more ? source : target;
      check<DataError>(more == more_target, code::damaged, printable(shorter.path()), ": has ",
                       counted(shorter.number() - 1, "line"), ", but ", longer.place(),
                       " goes on; line i of both has to be one pair");
      if (!more) break;
      pair.place = target.place();
      if (source.number() % 1024 == 0) tick();
      visit(std::move(pair));
    }
    if (pairs == 0) empty_.push_back(sources[f]);
    close(source);
    read_ += target.bytes_read();
  }
}

bool TextReader::holds_json(const TextFile& file) const {
  if (options_.examples) return true;
  return file.is_standard_input() ? !options_.field.empty() : is_json_lines(file.path());
}

std::string TextReader::text_of_line(const TextFile& file, const std::string& line) const {
  return text_in_json(line, options_.field.empty() ? "text" : options_.field, file.place());
}

bool TextReader::read(TextFile& file, std::string& line) const {
  if (!file.next(line)) return false;
  if (!options_.any_bytes) file.check_utf8(line);
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  if (holds_json(file) && !line.empty()) line = text_of_line(file, line);
  return true;
}

}  // namespace gossamer::data
