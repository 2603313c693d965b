// Examples for fine-tuning: what a model is given, and what it learns to answer.
// Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/data/text/chat.h"
#include "gossamer/data/text/token_files.h"
#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

// A line of JSON: {"prompt": "…", "completion": "…"}, of which the completion is learnt; or
// {"messages": [{"role": "user", "content": "…"}, …]}, of which what the assistant says is learnt.
struct Example {
  std::string prompt{}, completion{};
  std::vector<ChatMessage> messages{};  // empty: prompt and completion
};
// DataError begins with `place`: the line is neither, or there is nothing to learn in it.
Example example_in_json(const std::string& line, const std::string& place);

// What the model does with an id of an example: it reads it, or learns to predict it; the first one
// of each example is read.
enum class Learnt : std::int32_t { no, yes, first };
constexpr i64 kLearntValues = 3;

// An example as ids.
struct ExampleIds {
  std::vector<std::int32_t> ids{}, learnt{};  // learnt: a Learnt for each
  i64 labels = 0;                             // ids that are learnt
  i64 text_bytes = 0;                         // of the text that is learnt
};
// The ids are those of the whole text: in the tokenizer's frame and with the end mark behind it,
// which is learnt; of messages as the chat template `chat` writes them (chat.h), and the mark that
// ends an answer is learnt with it. Learnt is what follows the ids that the text in front of the
// answer has alone, as the model is given it later. ConfigError as chat_text().
ExampleIds encode_example(const Example&, const Tokenizer&, const std::string& chat);

// A window of whole examples: ids [begin, end).
struct ExampleWindow {
  i64 begin = 0, end = 0;
};
struct ExampleWindows {
  std::vector<ExampleWindow> windows{};  // in the order of the text
  i64 cut = 0;                           // examples that are longer than a window: its beginning
};
// learnt: a Learnt for each id of a text. packed: as many whole examples as there is room for in
// `length` ids; else one a window. DataError: the first id begins no example.
ExampleWindows windows_of_examples(const TokenFiles& learnt, i64 length, bool packed);

}  // namespace gossamer::data
