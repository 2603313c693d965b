// `gossamer man`: the manual as a page for man(1).
#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "gossamer/apps/commands/shell.h"
#include "gossamer/apps/config.h"
#include "gossamer/apps/version.h"
#include "gossamer/core/text/listed.h"

namespace gossamer::apps {
namespace {

// Text for roff: its own characters are escaped, others than ASCII are named by number, so that
// every roff shows them.
std::string roff(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80) {
      const int more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
      unsigned code = byte & (0x3fu >> more);
      for (int j = 1; j <= more && i + static_cast<std::size_t>(j) < text.size(); ++j)
        code =
            code << 6 | (static_cast<unsigned char>(text[i + static_cast<std::size_t>(j)]) & 0x3fu);
      out += fmt::format("\\[u{:04X}]", code);
      i += static_cast<std::size_t>(more) + 1;
      continue;
    }
    switch (text[i]) {
      case ',':
        out += i + 1 < text.size() && text[i + 1] != ' ' ? ",\\:" : ",";  // a line may end here
        break;
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += text[i];
    }
    ++i;
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

std::string entry(const std::string& head, const std::string& text) {
  return ".TP\n" + head + "\n" + roff(text) + "\n";
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string synopsis(const CommandHelp& command) {
  std::string out = bold(command.name);
  for (const OptionHelp& option : command.options)
    if (option.positional) {
      const std::string name = italic(upper(option.names[0])) + (option.repeats ? " ..." : "");
      out += option.required ? " " + name : " [" + name + "]";
    }
  if (!command.commands.empty()) out += " " + italic("COMMAND");
  if (command.takes_any_command) out += " " + italic("COMMAND") + " ...";
  return out;
}

std::string option_entry(const OptionHelp& option) {
  std::string value = option.value.substr(0, option.value.find(':')), text = option.about;
  std::string head = listed(option.names, ", ", [&](const std::string& name) {
    return option.positional ? italic(upper(name)) : bold(name);
  });
  if (!option.positional && !value.empty()) head += " " + italic(value);
  if (!option.preset.empty()) text += " (default: " + option.preset + ")";
  return entry(head, text);
}

std::string command_part(const CommandHelp& command) {
  std::string out = ".SS " + roff(command.name) + "\n" + synopsis(command) + "\n.PP\n" +
                    roff(command.about) + "\n";
  for (const OptionHelp& option : command.options)
    if (option.names[0] != "-h") out += option_entry(option);
  for (const CommandHelp& each : command.commands)
    if (each.takes_above) out += entry(bold(each.name), each.about);
  for (const CommandHelp& each : command.commands)
    if (!each.takes_above) out += command_part(each);
  return out;
}

}  // namespace

std::string man_page(const CommandHelp& root) {
  std::string out = ".\\\" Written by `gossamer man`.\n.TH GOSSAMER 1 \"\" \"gossamer " +
                    roff(version()) +
                    "\"\n.ad l\n.nh\n.SH NAME\ngossamer \\- decentralized deep learning\n" +
                    ".SH SYNOPSIS\n" + synopsis(root) + " [" + italic("ARGUMENTS") + " ...]\n" +
                    ".SH DESCRIPTION\n" + roff(root.about) + "\n.SH OPTIONS\n";
  for (const OptionHelp& option : root.options) out += option_entry(option);
  out += ".SH COMMANDS\n";
  for (const CommandHelp& each : root.commands) out += command_part(each);
  out += ".SH CONFIGURATION\n" +
         roff(
             "train and eval take a TOML file and KEY=VALUE, which wins. Lists are written "
             "data.sizes=16,24 or 'data.sizes=[16, 24]'. `gossamer config` prints all keys as "
             "such a file.") +
         "\n";
  std::string section;
  for (const KeyText& key : key_texts()) {
    if (const std::string its = key.name.substr(0, key.name.find('.')); its != section) {
      section = its;
      out += ".SS [" + section + "]\n";
    }
    out += entry(bold(key.name) + " = " + roff(key.value), key.about);
    if (const auto values = key.choices; !values.empty())
      out += ".br\n" + roff(fmt::format("Values: {}", fmt::join(values, ", "))) + "\n";
  }
  out += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : {std::pair{"0", "success"},
                                      {"1", "training failed: the loss is not a number"},
                                      {"2", "usage or configuration"},
                                      {"3", "data"},
                                      {"4", "device, memory"},
                                      {"5", "other workers or hosts"},
                                      {"6", "checkpoint, model file or disk"},
                                      {"130, 143", "stopped by SIGINT or SIGTERM, and saved"},
                                      {"137", "killed by a second signal, not saved"}})
    out += entry(bold(code), meaning);
  return out;
}

}  // namespace gossamer::apps
