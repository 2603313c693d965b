// See examples.h.
#include "gossamer/data/text/examples.h"

#include <algorithm>
#include <span>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/data/errors.h"

namespace gossamer::data {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr auto kNo = static_cast<std::int32_t>(Learnt::no),
               kYes = static_cast<std::int32_t>(Learnt::yes),
               kFirst = static_cast<std::int32_t>(Learnt::first);

Ids ids_of(const Tokenizer& tokenizer, const std::string& text, bool marks) {
  Ids ids;
  if (marks)
    tokenizer.encode_with_marks(text, ids);
  else
    tokenizer.encode(text, ids);
  return ids;
}

// How many ids at the beginning of both are the same.
std::size_t same_ids(const Ids& a, const Ids& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

void learn(ExampleIds& example, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < std::min(end, example.learnt.size()); ++i)
    example.learnt[i] = kYes;
}

// The conversation, whose template writes marks of beginning and end where they belong.
ExampleIds of_messages(const std::vector<ChatMessage>& messages, const Tokenizer& tokenizer,
                       const std::string& chat) {
  const std::span all(messages);
  const auto text = [&](std::size_t count, bool answer) {
    return chat_text(chat, tokenizer, all.first(count), answer);
  };
  ExampleIds out;
  out.ids = ids_of(tokenizer, text(all.size(), false), true);
  out.learnt.assign(out.ids.size(), kNo);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].role != "assistant") continue;
    std::string answered = text(i + 1, false);
    while (answered.ends_with('\n')) answered.pop_back();  // it stands behind the end mark
    learn(out, same_ids(ids_of(tokenizer, text(i, true), true), out.ids),
          same_ids(ids_of(tokenizer, answered, true), out.ids));
    out.text_bytes += static_cast<i64>(all[i].content.size());
  }
  return out;
}

ExampleIds of_prompt(const Example& example, const Tokenizer& tokenizer) {
  const Tokenizer::Frame frame = tokenizer.frame();
  const std::int32_t end = tokenizer.marks().end;
  const Ids whole = ids_of(tokenizer, example.prompt + example.completion, false);
  const std::size_t read = same_ids(ids_of(tokenizer, example.prompt, false), whole);
  ExampleIds out{.ids = frame.before, .text_bytes = static_cast<i64>(example.completion.size())};
  out.ids.insert(out.ids.end(), whole.begin(), whole.end());
  out.ids.insert(out.ids.end(), frame.after.begin(), frame.after.end());
  if (end >= 0 && (out.ids.empty() || out.ids.back() != end)) out.ids.push_back(end);
  out.learnt.assign(out.ids.size(), kNo);
  learn(out, frame.before.size() + read, out.ids.size());
  return out;
}

}  // namespace

ExampleIds encode_example(const Example& example, const Tokenizer& tokenizer,
                          const std::string& chat) {
  ExampleIds out = example.messages.empty() ? of_prompt(example, tokenizer)
                                            : of_messages(example.messages, tokenizer, chat);
  if (!out.learnt.empty()) out.learnt[0] = kFirst;
  out.labels = std::ranges::count(out.learnt, kYes);
  return out;
}

ExampleWindows windows_of_examples(const TokenFiles& learnt, i64 length, bool packed) {
  constexpr i64 kChunk = 1 << 16;
  ExampleWindows out;
  Ids values;
  i64 example = 0;  // where the last one begins
  const auto ends = [&](i64 end) {
    if (end == example) return;
    const bool fits = packed && !out.windows.empty() && end - out.windows.back().begin <= length;
    if (fits)
      out.windows.back().end = end;
    else
      out.windows.push_back({example, std::min(end, example + length)});
    out.cut += end - example > length;
    example = end;
  };
  for (i64 at = 0; at < learnt.size(); at += kChunk) {
    values.resize(static_cast<std::size_t>(std::min(kChunk, learnt.size() - at)));
    learnt.read(at, values);
    check<DataError>(at > 0 || values[0] == kFirst, code::damaged, learnt.place(0),
                     ": begins no example; make the folder again");
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] == kFirst) ends(at + static_cast<i64>(i));
  }
  ends(learnt.size());
  return out;
}

}  // namespace gossamer::data
