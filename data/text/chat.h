// How a conversation is written as one text, which a model that was tuned for chats goes on with.
// Published templates are programs in Jinja; the common ones are known here by their bytes and
// written by functions, and others are refused.
// Threads: any.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

struct ChatMessage {
  std::string role{};  // system, user or assistant
  std::string content{};
};

// The names of the templates: "chatml, llama2, …".
std::string names_of_chats();
bool is_chat(const std::string& name);     // a template has this name
void check_chat(const std::string& name);  // ConfigError: no template has this name
// The template of this name, in Jinja. ConfigError: no such name.
std::string chat_jinja(const std::string& name);
// The template that came with a tokenizer, in Jinja: chat_template in tokenizer_config.json, or
// chat_template.jinja, which is also looked for in `folder`; empty: none.
std::string chat_template_of(const Tokenizer&, const std::filesystem::path& folder = {});
// Its name. DataError: there is none, or it is another than those that are known.
std::string chat_of(const Tokenizer&, const std::filesystem::path& folder = {});
// What stands behind each answer: a mark by its name, which is the tokenizer's end mark or one of
// the template's own. ConfigError: no such name.
std::string chat_end(const std::string& name, const Tokenizer&);
// A conversation as the template of this name writes it, with its marks by their names; so
// Tokenizer::encode_with_marks() makes ids of it, without the tokenizer's frame. answer: what
// stands in front of the assistant's next answer follows. ConfigError: no such name; or roles that
// the template does not take, in its own words.
std::string chat_text(const std::string& name, const Tokenizer&,
                      std::span<const ChatMessage> messages, bool answer);

}  // namespace gossamer::data
