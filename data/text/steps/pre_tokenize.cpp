// Every step calls the next one for each of its pieces, so that no list of pieces is made.
#include "gossamer/data/text/steps/pre_tokenize.h"

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/data/text/steps/characters_utf8.h"
#include "gossamer/data/text/steps/fields.h"
#include "gossamer/data/text/steps/pattern.h"

namespace gossamer::data {
namespace {

using Each = FunctionRef<void(std::string_view)>;
// Calls match(begin, end) for what divides a text, from left to right.
using Finder = std::function<void(std::string_view, FunctionRef<void(std::size_t, std::size_t)>)>;

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

void run_from(std::span<const PreTokenizer> steps, const Piece& piece, Each each) {
  if (piece.text.empty()) return;
  if (steps.empty()) return each(piece.text);
  bool first = piece.first;
  steps[0](piece, [&](std::string_view text) {
    run_from(steps.subspan(1), {text, first}, each);
    first = false;
  });
}

// A run of text that matches, or lies between matches.
struct Part {
  std::size_t begin, end;
  bool matches;
};

// Every other behavior than Removed and Isolated joins parts with their neighbours.
void join(std::string_view text, const std::vector<Part>& parts, Behavior behavior, Each each) {
  std::size_t begin = 0;
  const auto cut = [&](std::size_t at) {
    if (at > begin) each(text.substr(begin, at - begin));
    begin = at;
  };
  bool joined = false;  // this match was joined with the gap in front of it
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const bool before = parts[i - 1].matches, now = parts[i].matches;
    if (behavior == Behavior::contiguous) {
      joined = now == before;
    } else if (behavior == Behavior::merged_with_previous) {
      joined = now && !before;
    } else {
      // from right to left, a match joins what is behind it, unless that is a match
      joined = before && !now;
    }
    if (!joined) cut(parts[i].begin);
  }
  cut(text.size());
}

PreTokenizer split(Finder find, Behavior behavior, bool invert) {
  if (behavior == Behavior::isolated)
    return [find = std::move(find)](const Piece& piece, Each each) {
      std::size_t at = 0;
      const auto give = [&](std::size_t begin, std::size_t end) {
        if (end > begin) each(piece.text.substr(begin, end - begin));
      };
      find(piece.text, [&](std::size_t begin, std::size_t end) {
        give(at, begin);
        give(begin, end);
        at = end;
      });
      give(at, piece.text.size());
    };
  return [find = std::move(find), behavior, invert](const Piece& piece, Each each) {
    std::vector<Part> parts;
    std::size_t at = 0;
    const auto gap = [&](std::size_t end) {
      if (end > at) parts.push_back({at, end, invert});
      at = end;
    };
    find(piece.text, [&](std::size_t begin, std::size_t end) {
      gap(begin);
      parts.push_back({begin, end, !invert});
      at = end;
    });
    gap(piece.text.size());
    if (behavior != Behavior::removed) return join(piece.text, parts, behavior, each);
    for (const Part& part : parts)
      if (!part.matches && part.end > part.begin)
        each(piece.text.substr(part.begin, part.end - part.begin));
  };
}

Finder matches_of(Pattern pattern) {
  return [pattern = std::make_shared<const Pattern>(std::move(pattern))](
             std::string_view text, FunctionRef<void(std::size_t, std::size_t)> match) {
    pattern->each(text, match);
  };
}
Finder matches_of(const std::string& pattern, const std::string& place) {
  return matches_of(Pattern(pattern, place));
}

Finder places_of(std::string what) {
  return [what = std::move(what)](std::string_view text,
                                  FunctionRef<void(std::size_t, std::size_t)> match) {
    for (std::size_t at = text.find(what); at != std::string_view::npos;
         at = text.find(what, at + what.size()))
      match(at, at + what.size());
  };
}

Finder places_of_spaces() {
  return [](std::string_view text, FunctionRef<void(std::size_t, std::size_t)> match) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = utf8_length(text.substr(at, 4));
      if (is_space(code_point(text.substr(at, length)))) match(at, at + length);
      at += length;
    }
  };
}

Behavior behavior_of(const Fields& step) {
  const std::string name = step.text("behavior");
  constexpr std::pair<const char*, Behavior> kNames[] = {
      {"Removed", Behavior::removed},
      {"Isolated", Behavior::isolated},
      {"MergedWithPrevious", Behavior::merged_with_previous},
      {"MergedWithNext", Behavior::merged_with_next},
      {"Contiguous", Behavior::contiguous}};
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  step.refuse("has the behavior " + name + ", which is not supported");
}

class Reading {
 public:
  void read(const Fields& step) {
    const std::string type = step.type();
    if (out_.byte_level) step.refuse("follows ByteLevel, which is supported at the end only");
    if (type == "Sequence") {
      step.know({"pretokenizers"});
      for (const Fields& each : step.list("pretokenizers")) read(each);
    } else if (type == "ByteLevel") {
      byte_level(step);
    } else if (type == "Split") {
      read_split(step);
    } else if (type == "Digits") {
      step.know({"individual_digits"});
      const bool alone = step.flag_or("individual_digits", false);
      add(split(matches_of(alone ? R"(\p{N})" : R"(\p{N}+)", step.place()), Behavior::isolated,
                false));
    } else if (type == "Metaspace") {
      metaspace(step);
    } else if (type == "Whitespace") {
      step.know({});
      local_ = false;
      add(split(matches_of(words_or_signs()), Behavior::removed, true));
    } else if (type == "WhitespaceSplit") {
      step.know({});
      local_ = false;
      add(split(places_of_spaces(), Behavior::removed, false));
    } else {
      step.refuse("is of the type " + type + ", which is not supported");
    }
  }
  PreTokenizers result() && { return std::move(out_); }

 private:
  void add(PreTokenizer step) { out_.steps.push_back(std::move(step)); }
  // The step that was added last cuts in front of a space between letters, as all published
  // patterns do; so it is the same for both parts of a text that is cut there, if the steps before
  // it do not look further.
  void cuts_at_words() { out_.cuts_at_words = out_.cuts_at_words || local_; }

  void read_split(const Fields& step) {
    step.know({"pattern", "behavior", "invert"});
    const Fields pattern = step.object("pattern");
    pattern.know({"String", "Regex"});
    const bool invert = step.flag_or("invert", false);
    Behavior behavior = behavior_of(step);
    if (!pattern.find("Regex")) {
      local_ = false;
      std::string text = pattern.text("String");
      if (text.empty()) pattern.refuse("is a text of no characters");
      return add(split(places_of(std::move(text)), behavior, invert));
    }
    const std::string text = pattern.text("Regex");
    // a published pattern leaves no gaps, so that these two are one
    const bool whole = is_named_pattern(text) && (behavior == Behavior::isolated ||
                                                  (behavior == Behavior::removed && invert));
    if (whole) behavior = Behavior::isolated;
    add(split(matches_of(text, pattern.place()), behavior, invert));
    if (whole)
      cuts_at_words();
    else
      local_ = false;
  }

  void byte_level(const Fields& step) {
    step.know({"add_prefix_space", "trim_offsets", "use_regex"});
    const bool prefix = step.flag_or("add_prefix_space", true);
    if (prefix) {
      local_ = false;
      add([](const Piece& piece, Each each) {
        if (piece.text.starts_with(' ')) return each(piece.text);
        each(" " + std::string(piece.text));
      });
    }
    if (step.flag_or("use_regex", true)) {
      add(split(matches_of(named_pattern("gpt2"), step.place()), Behavior::isolated, false));
      cuts_at_words();
    }
    out_.byte_level = true;
  }

  void metaspace(const Fields& step) {
    step.know({"replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    local_ = out_.cuts_at_words = false;
    const std::string mark = step.text_or("replacement", "\u2581");
    if (mark.empty() || utf8_length(mark) != mark.size())
      step.refuse("has a replacement that is not one character");
    const bool prefix = step.flag_or("add_prefix_space", true);
    const std::string scheme = step.text_or("prepend_scheme", prefix ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      step.refuse("has the prepend_scheme " + scheme + ", which is not supported");
    if (scheme != "never" && !prefix)
      step.refuse("has add_prefix_space false and the prepend_scheme " + scheme);
    add([mark, scheme](const Piece& piece, Each each) {
      std::string text;
      text.reserve(piece.text.size() + piece.text.size() / 2);
      for (const char c : piece.text)
        if (c == ' ')
          text += mark;
        else
          text += c;
      if (!text.starts_with(mark) && (scheme == "always" || (scheme == "first" && piece.first)))
        text.insert(0, mark);
      each(text);
    });
    if (step.flag_or("split", true)) add(split(places_of(mark), Behavior::merged_with_next, false));
  }

  PreTokenizers out_;
  bool local_ = true;  // no step so far looks beyond a space between letters
};

}  // namespace

void PreTokenizers::run(const Piece& piece, Each each) const { run_from(steps, piece, each); }

PreTokenizers read_pre_tokenizer(const Fields& step) {
  Reading reading;
  reading.read(step);
  return std::move(reading).result();
}

PreTokenizers byte_level_split(std::string_view pattern) {
  const std::string name(pattern);
  PreTokenizers out{.byte_level = true, .cuts_at_words = true};
  out.steps.push_back(
      split(matches_of(named_pattern(name), "the split " + name), Behavior::isolated, false));
  return out;
}

}  // namespace gossamer::data
