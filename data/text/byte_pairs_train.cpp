// Words are counted once; then each merge changes only the words that have its pair. Counts of
// pairs in the heap may be old: the first one is put right and goes back, until one is right.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "gossamer/core/error.h"
#include "gossamer/data/mix.h"
#include "gossamer/data/text/byte_names.h"
#include "gossamer/data/text/byte_pairs.h"
#include "gossamer/data/text/split_words.h"

namespace gossamer::data {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    return mix(static_cast<std::uint32_t>(pair.first), static_cast<std::uint32_t>(pair.second));
  }
};

struct Word {
  std::vector<std::int32_t> ids;
  i64 count;
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
    merges_ += left + " " + right + "\n";
    return add(token);
  }
  std::shared_ptr<const Tokenizer> tokenizer() const {
    std::string json = "{";
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      json += (id ? ", " : "") + nlohmann::json(tokens_[id]).dump() + ": " + std::to_string(id);
    return read_byte_pairs({"vocab.json", json + "}\n"}, {"merges.txt", merges_});
  }

 private:
  // Two ways may lead to one token.
  std::int32_t add(const std::string& token) {
    const auto [at, fresh] = ids_.emplace(token, static_cast<std::int32_t>(tokens_.size()));
    if (fresh) tokens_.push_back(token);
    return at->second;
  }

  std::vector<std::string> marks_, tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::array<std::int32_t, 256> of_byte_{};
  std::string merges_ = "#version: 0.2\n";
};

class Counts {
 public:
  explicit Counts(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t w = 0; w < words_.size(); ++w) count(w, 1);
    for (const auto& [pair, at] : pairs_) heap_.push({at.count, pair});
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
    const std::unordered_set<std::size_t> words = std::move(pairs_.at(pair).words);
    fresh_.clear();
    for (const std::size_t w : words) {
      count(w, -1);
      auto& ids = words_[w].ids;
      std::size_t kept = 0;
      for (std::size_t i = 0; i < ids.size(); ++kept) {
        const bool here = i + 1 < ids.size() && ids[i] == pair.first && ids[i + 1] == pair.second;
        ids[kept] = here ? result : ids[i];
        i += here ? 2 : 1;
      }
      ids.resize(kept);
      count(w, 1);
    }
    for (const Pair& each : fresh_) heap_.push({pairs_.at(each).count, each});
  }

 private:
  struct Occurrences {
    i64 count = 0;
    std::unordered_set<std::size_t> words;
  };
  // Counts the pairs of a word, or takes their counts away.
  void count(std::size_t w, int sign) {
    const Word& word = words_[w];
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
      const Pair pair{word.ids[i], word.ids[i + 1]};
      const auto [at, fresh] = pairs_.try_emplace(pair);
      if (fresh) fresh_.push_back(pair);
      at->second.count += sign * word.count;
      if (sign > 0) at->second.words.insert(w);
    }
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, Occurrences, PairHash> pairs_;
  std::vector<Pair> fresh_;  // pairs that did not occur before
  std::priority_queue<Candidate> heap_;
};

}  // namespace

struct BytePairTrainer::Impl {
  WordSplitter splitter;
  std::unordered_map<std::string, i64> words;
};

BytePairTrainer::BytePairTrainer() : impl_(std::make_unique<Impl>()) {}
BytePairTrainer::~BytePairTrainer() = default;

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
  std::vector<Word> words;
  for (const auto& [text, count] : impl_->words) {
    Word word{{}, count};
    for (const char c : text) word.ids.push_back(vocabulary.of_byte(static_cast<unsigned char>(c)));
    words.push_back(std::move(word));
  }
  Counts counts(std::move(words));
  while (vocabulary.size() < size) {
    const Candidate best = counts.take();
    if (best.count < 2) break;
    if (const std::int32_t result = vocabulary.merge(best.pair); result >= 0)
      counts.merge(best.pair, result);
  }
  return vocabulary.tokenizer();
}

}  // namespace gossamer::data
