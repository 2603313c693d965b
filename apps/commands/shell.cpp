// See shell.h. Each script has the same parts: which command the words before the cursor lead to,
// the values of the option before the cursor, then the words that this command takes.
#include "gossamer/apps/commands/shell.h"

#include <cctype>

#include <fmt/format.h>

#include "gossamer/apps/config.h"
#include "gossamer/apps/shell_word.h"
#include "gossamer/core/text/listed.h"

namespace gossamer::apps {
namespace {

using Rows = std::vector<const CommandHelp*>;

// All commands but those that only take options of the one above.
void add_rows(const CommandHelp& command, Rows& rows) {
  if (command.takes_above) return;
  rows.push_back(&command);
  for (const CommandHelp& each : command.commands) add_rows(each, rows);
}

Rows rows_of(const CommandHelp& root) {
  Rows rows;
  add_rows(root, rows);
  return rows;
}

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::string joined(const std::vector<std::string>& words) { return listed(words, " "); }

// Values as far as completion can type them: "dirichlet:" of "dirichlet:ALPHA".
std::vector<std::string> typed(std::vector<std::string> values) {
  for (std::string& value : values)
    if (const auto colon = value.find(':');
        colon + 1 < value.size() && std::isupper(static_cast<unsigned char>(value[colon + 1])))
      value.resize(colon + 1);
  return values;
}

// "case" patterns of all commands below gossamer, but for those that take any command.
std::string command_patterns(const Rows& rows) {
  std::vector<std::string> names;
  for (const CommandHelp* row : rows)
    if (row != rows[0] && !row->takes_any_command) names.push_back(shell_word(row->name));
  return listed(names, " | ");
}

// For each option that wants a value: one line of a "case" over command and option.
// values(those it takes), or files if there is no list of them.
template <class Values>
std::string option_cases(const Rows& rows, Values&& values, const std::string& files) {
  std::string out;
  for (const CommandHelp* row : rows) {
    std::vector<std::string> without_list;
    for (const OptionHelp& option : row->options) {
      if (option.positional || option.value.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names)
        patterns.push_back(shell_word(row->name + " " + name));
      if (option.values.empty())
        without_list.insert(without_list.end(), patterns.begin(), patterns.end());
      else
        out += fmt::format("    ({}) {} ;;\n", listed(patterns, " | "), values(option.values));
    }
    if (!without_list.empty())
      out += fmt::format("    ({}) {} ;;\n", listed(without_list, " | "), files);
  }
  return out;
}

std::vector<std::string> positional_values(const CommandHelp& row) {
  std::vector<std::string> out;
  for (const OptionHelp& option : row.options)
    if (option.positional) out.insert(out.end(), option.values.begin(), option.values.end());
  return out;
}

}  // namespace

std::string bash_completion(const CommandHelp& root) {
  const Rows rows = rows_of(root);
  std::string keys, key_values, commands;
  for (const KeyText& key : key_texts()) {
    keys += (keys.empty() ? "" : " ") + key.name + "=";
    if (auto values = typed(key.choices); !values.empty()) {
      for (std::string& value : values) value = key.name + "=" + value;
      key_values += fmt::format("      ({}) list={} ;;\n", key.name, shell_word(joined(values)));
    }
  }
  for (const CommandHelp* row : rows) {
    std::vector<std::string> words = typed(positional_values(*row));
    for (const CommandHelp& each : row->commands) words.push_back(last_word(each.name));
    for (const OptionHelp& option : row->options)
      if (!option.positional) words.insert(words.end(), option.names.begin(), option.names.end());
    commands += fmt::format("    ({}) list={}{} ;;\n", shell_word(row->name),
                            shell_word(joined(words)), row->takes_keys ? " keys=1" : "");
  }
  return fmt::format(
      R"sh(# Completion of gossamer for bash. In one shell: source <(gossamer completion bash)
_gossamer() {{
  local line=${{COMP_LINE:0:COMP_POINT}} at=gossamer list= keys= i
  local word=${{line##*[[:space:]]}} cut= breaks=
  local -a given
  read -ra given <<< "$line"
  [[ $line == *[[:space:]] ]] || unset 'given[-1]'
  COMPREPLY=()  # what it is left to: names of files
  for ((i = 1; i < ${{#given[@]}}; ++i)); do
    case "$at ${{given[i]}}" in
      ({0}) at+=" ${{given[i]}}" ;;
    esac
  done
  case "$at ${{given[-1]}}" in
{1}  esac
  [[ $list ]] || case $at in
{2}  esac
  if [[ $keys && $word == *=* ]]; then
    list=
    case ${{word%%=*}} in
{3}    esac
  elif [[ $keys && $word != -* ]]; then
    list='{4}'
    COMPREPLY=($(compgen -f -X '!*.toml' -- "$word"))
  fi
  COMPREPLY+=($(compgen -W "$list" -- "$word"))
  [[ ${{COMPREPLY[0]}} == *[=:] ]] && compopt -o nospace
  # Readline replaces only what stands after the last = or :.
  [[ $COMP_WORDBREAKS == *:* ]] && breaks=:
  [[ $COMP_WORDBREAKS == *=* ]] && breaks+==
  [[ $breaks ]] && cut=${{word%"${{word##*["$breaks"]}}"}}
  COMPREPLY=("${{COMPREPLY[@]#"$cut"}}")
}}
complete -o default -F _gossamer gossamer
)sh",
      command_patterns(rows),
      option_cases(
          rows, [](const auto& values) { return "list=" + shell_word(joined(typed(values))); },
          "return"),
      commands, key_values, keys);
}

std::string zsh_completion(const CommandHelp& root) {
  const Rows rows = rows_of(root);
  const auto described = [](const std::string& word, const std::string& about) {
    return shell_word(replaced(word, ":", "\\:") + ":" + about);
  };
  // -S '': no space after a value that goes on.
  const auto add = [](const std::vector<std::string>& values) {
    std::vector<std::string> whole, open;
    for (const std::string& value : typed(values))
      (value.ends_with(':') ? open : whole).push_back(shell_word(value));
    return "compadd -- " + joined(whole) +
           (open.empty() ? "" : "; compadd -S '' -- " + joined(open));
  };
  std::string keys, key_values, commands;
  for (const KeyText& key : key_texts()) {
    keys += "    " + described(key.name, key.about) + "\n";
    if (const auto values = key.choices; !values.empty())
      key_values += fmt::format("      ({}) {} ;;\n", key.name, add(values));
  }
  for (const CommandHelp* row : rows) {
    commands += fmt::format("    ({})\n", shell_word(row->name));
    std::vector<std::string> words, options;
    for (const CommandHelp& each : row->commands)
      words.push_back(described(last_word(each.name), each.about));
    for (const std::string& value : positional_values(*row)) words.push_back(shell_word(value));
    for (const OptionHelp& option : row->options)
      if (!option.positional)
        for (const std::string& name : option.names)
          options.push_back(described(name, option.about));
    if (!words.empty()) commands += "      words_here=(" + listed(words, "\n        ") + ")\n";
    commands += "      options=(" + listed(options, "\n        ") + ")\n";
    if (row->takes_keys) commands += "      with_keys=1\n";
    commands += "      ;;\n";
  }
  return fmt::format(
      R"sh(#compdef gossamer
# Completion of gossamer for zsh: as _gossamer in a folder of $fpath, or, after compinit, in one
# shell: source <(gossamer completion zsh)
_gossamer() {{
  local at=gossamer with_keys=
  local -a words_here options keys
  integer i
  for ((i = 2; i < CURRENT; ++i)); do
    case "$at ${{words[i]}}" in
      ({0}) at+=" ${{words[i]}}" ;;
    esac
  done
  case "$at ${{words[CURRENT-1]}}" in
{1}  esac
  case $at in
{2}  esac
  if [[ -n $with_keys && $PREFIX == *=* ]]; then
    local key=${{PREFIX%%=*}}
    compset -P '*='
    case $key in
{3}      (*) _files ;;
    esac
    return
  fi
  if [[ $PREFIX == -* ]]; then
    _describe -o option options
    return
  fi
  if (( $#words_here )); then
    _describe command words_here
    return
  fi
  if [[ -n $with_keys ]]; then
    keys=(
{4}    )
    _describe key keys -S =
    _files -g '*.toml'
    return
  fi
  _files
}}
if [[ $funcstack[1] == _gossamer ]]; then _gossamer "$@"; else compdef _gossamer gossamer; fi
)sh",
      command_patterns(rows),
      option_cases(
          rows, [&](const auto& values) { return add(values) + "; return"; }, "_files; return"),
      commands, key_values, keys);
}

}  // namespace gossamer::apps
