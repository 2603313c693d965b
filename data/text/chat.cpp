// A table of templates: their names, what writes them, and their texts in Jinja.
#include "gossamer/data/text/chat.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/text/json.h"
#include "gossamer/data/text/steps/characters_utf8.h"

namespace gossamer::data {
namespace {

constexpr std::size_t kMostTemplateBytes = 1 << 20;
using Messages = std::span<const ChatMessage>;

struct Conversation {
  Messages messages;
  bool answer;
  std::string begin, end;  // the names of the marks
};

[[noreturn]] void refuse(const char* why) { fail<ConfigError>("the chat template says: ", why); }

void check_turns(Messages messages) {
  for (std::size_t i = 0; i < messages.size(); ++i)
    if ((messages[i].role == "user") != (i % 2 == 0))
      refuse("Conversation roles must alternate user/assistant/user/assistant/...");
}

// Python's strip(), which takes four control characters for white space, too.
std::string trimmed(std::string_view text) {
  const auto is_control = [](char c) { return c >= 0x1C && c <= 0x1F; };
  for (std::size_t before = text.size() + 1; before != text.size();) {
    before = text.size();
    text.remove_prefix(leading_space(text));
    text.remove_suffix(trailing_space(text));
    while (!text.empty() && is_control(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_control(text.back())) text.remove_suffix(1);
  }
  return std::string(text);
}

std::string chatml(const Conversation& c) {
  std::string out;
  for (const ChatMessage& each : c.messages)
    out += "<|im_start|>" + each.role + "\n" + each.content + "<|im_end|>\n";
  return out + (c.answer ? "<|im_start|>assistant\n" : "");
}

std::string chatml_with_system(const Conversation& c) {
  std::string out;
  if (!c.messages.empty() && c.messages[0].role != "system")
    out = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n";
  return out + chatml(c);
}

std::string llama2(const Conversation& c) {
  const bool system = !c.messages.empty() && c.messages[0].role == "system";
  const Messages turns = c.messages.subspan(system ? 1 : 0);
  check_turns(turns);
  std::string out;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const bool first = system && i == 0;
    const std::string content =
        trimmed(first ? "<<SYS>>\n" + c.messages[0].content + "\n<</SYS>>\n\n" + turns[i].content
                      : turns[i].content);
    if (turns[i].role == "user")
      out += c.begin + "[INST] " + content + " [/INST]";
    else if (turns[i].role == "assistant")
      out += " " + content + " " + c.end;
  }
  return out;
}

std::string llama3(const Conversation& c) {
  std::string out = c.messages.empty() ? "" : c.begin;
  for (const ChatMessage& each : c.messages)
    out += "<|start_header_id|>" + each.role + "<|end_header_id|>\n\n" + trimmed(each.content) +
           "<|eot_id|>";
  return out + (c.answer ? "<|start_header_id|>assistant<|end_header_id|>\n\n" : "");
}

std::string mistral(const Conversation& c) {
  check_turns(c.messages);
  std::string out = c.begin;
  for (const ChatMessage& each : c.messages) {
    if (each.role == "user")
      out += "[INST] " + each.content + " [/INST]";
    else if (each.role == "assistant")
      out += each.content + c.end;
    else
      refuse("Only user and assistant roles are supported!");
  }
  return out;
}

std::string zephyr(const Conversation& c) {
  std::string out;
  for (const ChatMessage& each : c.messages)
    if (each.role == "user" || each.role == "system" || each.role == "assistant")
      out += "<|" + each.role + "|>\n" + each.content + c.end + "\n";
  return out + (c.answer && !c.messages.empty() ? "<|assistant|>\n" : "");
}

std::string gemma(const Conversation& c) {
  if (!c.messages.empty() && c.messages[0].role == "system") refuse("System role not supported");
  check_turns(c.messages);
  std::string out = c.begin;
  for (const ChatMessage& each : c.messages)
    out += "<start_of_turn>" + (each.role == "assistant" ? "model" : each.role) + "\n" +
           trimmed(each.content) + "<end_of_turn>\n";
  return out + (c.answer ? "<start_of_turn>model\n" : "");
}

struct Known {
  const char* name;
  std::string (*write)(const Conversation&);
  const char* end;  // of an answer; null: the tokenizer's end mark
  const char* jinja;
};

constexpr std::array<Known, 7> kKnown{
    {{"chatml", chatml, "<|im_end|>",
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
      "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|im_start|>assistant\n' }}{% endif %}"},
     {"chatml-system", chatml_with_system, "<|im_end|>",
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
      "'<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif "
      "%}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
      "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif "
      "%}"},
     {"llama2", llama2, nullptr,
      "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set "
      "system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% "
      "set system_message = false %}{% endif %}{% for message in loop_messages %}{% if "
      "(message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation "
      "roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == "
      "0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + "
      "'\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] "
      "%}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() "
      "+ ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + "
      "eos_token }}{% endif %}{% endfor %}"},
     {"llama3", llama3, "<|eot_id|>",
      "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
      "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | "
      "trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% "
      "endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"},
     {"mistral", mistral, nullptr,
      "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != "
      "(loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate "
      "user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ "
      "'[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ "
      "message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant "
      "roles are supported!') }}{% endif %}{% endfor %}"},
     {"zephyr", zephyr, nullptr,
      "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + "
      "message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ "
      "'<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == "
      "'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% "
      "if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor "
      "%}"},
     {"gemma", gemma, "<end_of_turn>",
      "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not "
      "supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != "
      "(loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate "
      "user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') "
      "%}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ "
      "'<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% "
      "endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"}}};

// A line break in a text of Jinja may be written as itself or as \n, and the template's own end
// with one or without.
std::string canonical(std::string_view jinja) {
  std::string out;
  for (std::size_t i = 0; i < jinja.size(); ++i) {
    const bool escaped = jinja.substr(i).starts_with("\\n");
    out += escaped ? '\n' : jinja[i];
    i += escaped;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

// The template in tokenizer_config.json; empty: none.
std::string template_in(const Tokenizer::StoredFile& config) {
  const auto json = json_of<nlohmann::json>(config.bytes, printable(config.name) + ": is no JSON");
  if (!json.is_object() || !json.contains("chat_template")) return "";
  const auto& value = json["chat_template"];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array())
    for (const auto& each : value)
      if (each.is_object() && each.value("name", nlohmann::json()) == "default" &&
          each.contains("template") && each["template"].is_string())
        return each["template"].get<std::string>();
  return "";
}

const Known* find(const std::string& name) {
  for (const Known& each : kKnown)
    if (name == each.name) return &each;
  return nullptr;
}
const Known& known(const std::string& name) {
  if (const Known* found = find(name)) return *found;
  fail<ConfigError>("there is no chat template \"", printable(name), "\"; known are ",
                    names_of_chats());
}

std::string name_of(const Tokenizer& tokenizer, std::int32_t mark) {
  std::string out;
  if (mark >= 0) tokenizer.decode(std::span(&mark, 1), out);
  return out;
}

}  // namespace

std::string names_of_chats() {
  std::string out;
  for (const Known& each : kKnown) out += (out.empty() ? "" : ", ") + std::string(each.name);
  return out;
}

std::string chat_jinja(const std::string& name) { return known(name).jinja; }

std::string chat_end(const std::string& name, const Tokenizer& tokenizer) {
  const char* end = known(name).end;
  return end ? end : name_of(tokenizer, tokenizer.marks().end);
}

std::string chat_template_of(const Tokenizer& tokenizer, const std::filesystem::path& folder) {
  std::string jinja;
  for (const Tokenizer::StoredFile& file : tokenizer.files()) {
    if (file.name == "tokenizer_config.json" && jinja.empty()) jinja = template_in(file);
    if (file.name == "chat_template.jinja") jinja = file.bytes;
  }
  const std::filesystem::path beside = folder / "chat_template.jinja";
  if (std::error_code none;
      jinja.empty() && !folder.empty() && std::filesystem::exists(beside, none)) {
    const std::vector<std::byte> bytes = read_whole(beside.string(), kMostTemplateBytes);
    jinja.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return jinja;
}

std::string chat_of(const Tokenizer& tokenizer, const std::filesystem::path& folder) {
  const std::string jinja = chat_template_of(tokenizer, folder);
  check<DataError>(!jinja.empty(), code::nothing,
                   "the tokenizer has no chat template; name one of ", names_of_chats());
  for (const Known& each : kKnown)
    if (canonical(jinja) == canonical(each.jinja)) return each.name;
  fail<DataError>(code::not_understood, "the tokenizer's chat template, which begins with \"",
                  printable(jinja.substr(0, 80)),
                  "\", is none of those that are known; if it writes what one of them does, name "
                  "it: ",
                  names_of_chats());
}

std::string chat_text(const std::string& name, const Tokenizer& tokenizer, Messages messages,
                      bool answer) {
  const Conversation conversation{messages, answer, name_of(tokenizer, tokenizer.marks().begin),
                                  name_of(tokenizer, tokenizer.marks().end)};
  return known(name).write(conversation);
}

bool is_chat(const std::string& name) { return find(name) != nullptr; }
void check_chat(const std::string& name) { known(name); }

}  // namespace gossamer::data
