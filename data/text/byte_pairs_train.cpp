// Words are counted once; then each merge goes to the places where its pair is, so that all merges
// together take as long as there are places, in a word of megabytes too. Counts of pairs in the
// heap may be old: the first one is put right and goes back, until one is right.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "gossamer/core/error.h"
#include "gossamer/data/mix.h"
#include "gossamer/data/text/byte_names.h"
#include "gossamer/data/text/byte_pairs.h"
#include "gossamer/data/text/split_words.h"
#include "gossamer/data/text/tiktoken.h"
#include "gossamer/data/text/tokenizer_json.h"

namespace gossamer::data {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    return mix(static_cast<std::uint32_t>(pair.first), static_cast<std::uint32_t>(pair.second));
  }
};

struct Candidate {
  i64 count;
  Pair pair;
  // The most frequent is last, and of equals the one with smaller ids.
  bool operator<(const Candidate& other) const {
    return std::tie(count, other.pair) < std::tie(other.count, pair);
  }
};

// Tokens as the files write them, and the merges that made them.
class Vocabulary {
 public:
  explicit Vocabulary(const std::vector<std::string>& marks) : marks_(marks) {
    for (const std::string& mark : marks) add(mark);
    std::vector<int> bytes(256);
    for (int byte = 0; byte < 256; ++byte) bytes[static_cast<std::size_t>(byte)] = byte;
    // by code point, which is the order of UTF-8
    std::ranges::sort(bytes, {}, [](int byte) -> const std::string& {
      return byte_names()[static_cast<std::size_t>(byte)];
    });
    for (const int byte : bytes)
      of_byte_[static_cast<std::size_t>(byte)] = add(byte_names()[static_cast<std::size_t>(byte)]);
  }
  i64 size() const { return static_cast<i64>(tokens_.size()); }
  std::int32_t of_byte(unsigned char byte) const { return of_byte_[byte]; }
  // The id of the merged pair; -1: it would be the name of a mark.
  std::int32_t merge(const Pair& pair) {
    const std::string& left = tokens_[static_cast<std::size_t>(pair.first)];
    const std::string& right = tokens_[static_cast<std::size_t>(pair.second)];
    const std::string token = left + right;
    if (std::ranges::find(marks_, token) != marks_.end()) return -1;
    merges_.push_back(pair);
    return add(token);
  }
  std::shared_ptr<const Tokenizer> tokenizer(const std::string& split) const {
    if (split != "gpt2") return with_split(split);
    std::string merges = "#version: 0.2\n";
    for (const auto& [left, right] : merges_)
      merges += tokens_[static_cast<std::size_t>(left)] + " " +
                tokens_[static_cast<std::size_t>(right)] + "\n";
    std::string json = "{";
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      json += (id ? ", " : "") + nlohmann::json(tokens_[id]).dump() + ": " + std::to_string(id);
    return read_byte_pairs({"vocab.json", json + "}\n"}, {"merges.txt", merges});
  }

 private:
  std::shared_ptr<const Tokenizer> with_split(const std::string& split) const {
    ByteLevelVocabulary out;
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      const bool is_mark = id < marks_.size();
      if (is_mark) out.marks.emplace_back(tokens_[id], static_cast<std::int32_t>(id));
      out.tokens.push_back(is_mark ? "" : from_byte_names(tokens_[id]).value());
    }
    out.merges = merges_;
    return read_tokenizer_json({"tokenizer.json", byte_level_json(out, split)});
  }
  // Two ways may lead to one token.
  std::int32_t add(const std::string& token) {
    const auto [at, fresh] = ids_.emplace(token, static_cast<std::int32_t>(tokens_.size()));
    if (fresh) tokens_.push_back(token);
    return at->second;
  }

  std::vector<std::string> marks_, tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::array<std::int32_t, 256> of_byte_{};
  std::vector<Pair> merges_;
};

// The ids of all words, each word once, and where their pairs are.
class Counts {
 public:
  void add_word(const std::vector<std::int32_t>& ids, i64 count) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Place at = static_cast<Place>(places_.size());
      check(at != kNone, "byte pairs: the words have 4294967295 bytes or more; give less text");
      places_.push_back({ids[i], i == 0 ? kNone : at - 1, i + 1 == ids.size() ? kNone : at + 1});
      word_of_.push_back(static_cast<std::uint32_t>(counts_.size()));
    }
    counts_.push_back(count);
  }
  void find_pairs() {
    for (std::size_t at = 0; at < places_.size(); ++at) change(static_cast<Place>(at), 1);
    offer_raised();
  }
  // The most frequent pair; count 0: there is none.
  Candidate take() {
    while (!heap_.empty()) {
      Candidate first = heap_.top();
      heap_.pop();
      const i64 now = pairs_.at(first.pair).count;
      if (first.count == now) return first;
      first.count = now;
      if (now > 0) heap_.push(first);
    }
    return {0, {}};
  }
  void merge(const Pair& pair, std::int32_t result) {
    std::vector<Place> places = std::move(pairs_.at(pair).places);
    // of overlapping places, as in "aaa", the first counts
    std::ranges::sort(places);
    for (const Place at : places) {
      if (pair_at(at) != pair) continue;
      Part& left = places_[at];
      const Part right = places_[left.next];
      change(left.previous, -1), change(at, -1), change(left.next, -1);
      places_[left.next].id = kMerged;
      left.id = result;
      left.next = right.next;
      if (right.next != kNone) places_[right.next].previous = at;
      change(left.previous, 1), change(at, 1);
    }
    offer_raised();
  }

 private:
  using Place = std::uint32_t;
  static constexpr Place kNone = ~Place{0};
  static constexpr std::int32_t kMerged = -1;
  struct Part {
    std::int32_t id;       // kMerged: it belongs to the one in front of it
    Place previous, next;  // in its word
  };
  struct Occurrences {
    i64 count = 0;
    std::vector<Place> places;  // of the left one; some may be of other pairs by now
  };
  // The one that begins at a place; ids kMerged: none does.
  Pair pair_at(Place at) const {
    const Part& left = places_[at];
    if (left.id == kMerged || left.next == kNone) return {kMerged, kMerged};
    return {left.id, places_[left.next].id};
  }
  // Counts the pair that begins here, if there is one, or takes it away.
  void change(Place at, int sign) {
    if (at == kNone) return;
    const Pair pair = pair_at(at);
    if (pair.first == kMerged) return;
    Occurrences& here = pairs_[pair];
    here.count += sign * counts_[word_of_[at]];
    if (sign < 0) return;
    here.places.push_back(at);
    raised_.push_back(pair);
  }
  void offer_raised() {
    std::ranges::sort(raised_);
    raised_.erase(std::unique(raised_.begin(), raised_.end()), raised_.end());
    for (const Pair& pair : raised_) heap_.push({pairs_.at(pair).count, pair});
    raised_.clear();
  }

  std::vector<Part> places_;
  std::vector<std::uint32_t> word_of_;  // by place
  std::vector<i64> counts_;             // of words
  std::unordered_map<Pair, Occurrences, PairHash> pairs_;
  std::vector<Pair> raised_;  // pairs that occur more often than before
  std::priority_queue<Candidate> heap_;
};

}  // namespace

struct BytePairTrainer::Impl {
  explicit Impl(const std::string& name) : split(name), splitter(name) {}
  std::string split;
  WordSplitter splitter;
  std::unordered_map<std::string, i64> words;
};

BytePairTrainer::BytePairTrainer(const std::string& split) : impl_(std::make_unique<Impl>(split)) {}
BytePairTrainer::~BytePairTrainer() = default;

i64 BytePairTrainer::longest_word() const {
  std::size_t longest = 0;
  for (const auto& [text, count] : impl_->words) longest = std::max(longest, text.size());
  return static_cast<i64>(longest);
}

void BytePairTrainer::add(std::string_view text) {
  std::string word;
  impl_->splitter.split(text, [&](std::string_view piece) {
    word.assign(piece);
    ++impl_->words[word];
  });
}

std::shared_ptr<const Tokenizer> BytePairTrainer::train(
    i64 size, const std::vector<std::string>& marks) const {
  Vocabulary vocabulary(marks);
  check<ConfigError>(size >= vocabulary.size() && size <= i64{1} << 20, "byte pairs: a vocabulary ",
                     "of ", size, "; it has ", vocabulary.size(),
                     " marks and bytes, and 1048576 tokens at most");
  Counts counts;
  std::vector<std::int32_t> ids;
  for (const auto& [text, count] : impl_->words) {
    ids.clear();
    for (const char c : text) ids.push_back(vocabulary.of_byte(static_cast<unsigned char>(c)));
    counts.add_word(ids, count);
  }
  counts.find_pairs();
  while (vocabulary.size() < size) {
    const Candidate best = counts.take();
    if (best.count < 2) break;
    if (const std::int32_t result = vocabulary.merge(best.pair); result >= 0)
      counts.merge(best.pair, result);
  }
  return vocabulary.tokenizer(impl_->split);
}

}  // namespace gossamer::data
