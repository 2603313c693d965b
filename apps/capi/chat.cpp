// Conversations and examples to learn from, as ids.
#include "gossamer/data/text/chat.h"

#include <string>
#include <vector>

#include "gossamer/apps/capi/language.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/data/text/examples.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

// The name of the template; that of the tokenizer if none is given.
std::string template_of(const char* chat, const data::Tokenizer& tokenizer) {
  if (!chat) return data::chat_of(tokenizer);
  data::check_chat(chat);
  return chat;
}

int32_t end_of_answer(const std::string& chat, const data::Tokenizer& tokenizer) {
  const std::string mark = data::chat_end(chat, tokenizer);
  std::vector<std::int32_t> ids;
  if (!mark.empty()) tokenizer.encode_with_marks(mark, ids);
  return ids.size() == 1 ? ids.front() : -1;
}

}  // namespace

gsm_status gsm_tokenizer_chat(gsm_tokenizer* tokenizer, const char* chat,
                              const gsm_message* messages, int32_t count, int32_t answer,
                              int32_t* ids, int64_t* n, int32_t* end) {
  return guarded([&] {
    const Shared<Tokens> t(tokenizer);
    check_given("messages or n", messages, n);
    check<ArgumentError>(aligned(ids) && aligned(end), "ids or end is misaligned");
    check<ArgumentError>(count >= 1 && count <= (1 << 20), count,
                         " messages; wanted 1 or more, up to 2^20");
    std::vector<data::ChatMessage> all;
    for (int32_t i = 0; i < count; ++i) {
      check<ArgumentError>(messages[i].role && messages[i].content, "messages[", i,
                           "]: role or content is NULL");
      const std::string role = messages[i].role;
      check<ConfigError>(role == "system" || role == "user" || role == "assistant", "messages[", i,
                         "].role is \"", printable(role), "\"; wanted system, user or assistant");
      all.push_back({role, messages[i].content});
    }
    const std::string name = template_of(chat, *t->tokenizer);
    std::vector<std::int32_t> out;
    t->tokenizer->encode_with_marks(data::chat_text(name, *t->tokenizer, all, answer != 0), out);
    const int32_t last = end ? end_of_answer(name, *t->tokenizer) : 0;
    fill<int32_t>(out, ids, n, "ids");
    if (end) *end = last;
  });
}

gsm_status gsm_tokenizer_example(gsm_tokenizer* tokenizer, const char* chat, const char* json,
                                 int32_t* ids, int32_t* labels, int64_t* n) {
  return guarded([&] {
    const Shared<Tokens> t(tokenizer);
    check_given("json or n", json, n);
    check<ArgumentError>(aligned(ids) && aligned(labels), "ids or labels is misaligned");
    check<ArgumentError>((ids != nullptr) == (labels != nullptr),
                         "give ids and labels, or neither to ask for their number");
    const data::Example example = data::example_in_json(json, "json");
    const std::string name = example.messages.empty() ? "" : template_of(chat, *t->tokenizer);
    const data::ExampleIds of = data::encode_example(example, *t->tokenizer, name);
    // A label stands at the id in front of the one that is learnt.
    std::vector<std::int32_t> behind(of.ids.size(), -1);
    for (std::size_t i = 1; i < of.ids.size(); ++i)
      if (of.learnt[i] == static_cast<std::int32_t>(data::Learnt::yes)) behind[i - 1] = of.ids[i];
    int64_t room = *n;
    fill<int32_t>(behind, labels, &room, "labels");
    fill<int32_t>(of.ids, ids, n, "ids");
  });
}
