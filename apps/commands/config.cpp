// `gossamer config`: every key with its default and meaning, or some of them explained.
#include "gossamer/apps/config.h"

#include <algorithm>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/listed.h"

namespace gossamer::apps {
namespace {

bool wanted(const std::string& key, const std::vector<std::string>& names) {
  return names.empty() || std::ranges::any_of(names, [&](const std::string& name) {
           return key == name || key.starts_with(name + ".");
         });
}

// A key and its value as a word of a shell.
std::string assignment(const KeyText& key) {
  const std::string& v = key.value;
  if (v.starts_with('[')) return "'" + key.name + "=" + v + "'";
  return key.name + "=" + (v.starts_with('"') ? v.substr(1, v.size() - 2) : v);
}

void explain(const KeyText& key) {
  const std::size_t dot = key.name.find('.');
  fmt::print("{}\n  meaning  {}\n  type     {}\n", key.name, key.about, key.type);
  if (!key.choices.empty()) fmt::print("  values   {}\n", listed(key.choices));
  if (!key.range.empty()) fmt::print("  range    {}\n", key.range);
  fmt::print(
      "  default  {0}\n  command  gossamer train {1}\n  TOML     [{2}]\n           {3} = {0}\n",
      key.value, assignment(key), key.name.substr(0, dot), key.name.substr(dot + 1));
}

}  // namespace

int config(const ConfigCommand& command) {
  const std::vector<KeyText> all = key_texts();
  for (const std::string& name : command.names)
    if (std::ranges::none_of(all, [&](const KeyText& key) { return wanted(key.name, {name}); }))
      unknown_key("config", name);
  if (command.json) {
    std::string rows;
    for (const KeyText& key : all)
      if (wanted(key.name, command.names))
        rows += (rows.empty() ? "" : ",\n  ") + JsonObject()
                                                    .add("key", key.name)
                                                    .add("type", key.type)
                                                    .add("default", key.value)
                                                    .add("values", key.choices)
                                                    .add("range", key.range)
                                                    .add("meaning", key.about)
                                                    .str();
    fmt::print("{{\"keys\": [\n  {}]}}\n", rows);
    return 0;
  }
  if (command.names.empty())
    fmt::print(
        "# Every key with its default. A file for gossamer train needs only the keys that differ.\n"
        "\n{}",
        to_toml(Config()));
  for (const std::string& name : command.names) {
    const auto key = std::ranges::find(all, name, &KeyText::name);
    if (key == all.end())
      fmt::print("{}", to_toml(Config(), name));
    else
      explain(*key);
  }
  return 0;
}

}  // namespace gossamer::apps
