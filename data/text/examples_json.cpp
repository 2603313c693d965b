// The lines of JSON that are examples, whoever wrote them.
#include <nlohmann/json.hpp>

#include "gossamer/core/error.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/text/examples.h"
#include "gossamer/data/text/json.h"

namespace gossamer::data {
namespace {

using Json = nlohmann::json;

}  // namespace

Example example_in_json(const std::string& line, const std::string& place) {
  const Json object = json_of<Json>(line, place + ": the line is no JSON");
  const auto wanted = [&](bool good, const std::string& what) {
    check<DataError>(
        good, code::not_understood, place, ": ", what,
        R"(; a line is {"prompt": "…", "completion": "…"} or {"messages": )"
        R"([{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]})");
  };
  wanted(object.is_object(), "the line is no JSON object");
  const auto text = [&](const Json& in, const char* key) {
    wanted(in.contains(key), std::string("there is no \"") + key + "\"");
    wanted(in[key].is_string(), std::string("\"") + key + "\" is no text");
    return in[key].get<std::string>();
  };
  Example out;
  if (!object.contains("messages")) {
    out.prompt = text(object, "prompt");
    out.completion = text(object, "completion");
    wanted(!out.completion.empty(), "\"completion\" is empty, so there is nothing to learn");
    return out;
  }
  const Json& messages = object["messages"];
  wanted(messages.is_array() && !messages.empty(), "\"messages\" is no list of messages");
  bool answers = false;
  for (const Json& each : messages) {
    wanted(each.is_object(), "a message is no JSON object");
    out.messages.push_back({text(each, "role"), text(each, "content")});
    const std::string& role = out.messages.back().role;
    wanted(role == "system" || role == "user" || role == "assistant",
           "a role is none of system, user and assistant");
    answers = answers || role == "assistant";
  }
  wanted(out.messages[0].role != "assistant", "the assistant speaks first");
  wanted(answers, "the assistant says nothing, so there is nothing to learn");
  return out;
}

}  // namespace gossamer::data
