// See launch_facts.h.
#include "gossamer/apps/report/launch_facts.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "gossamer/apps/machine.h"
#include "gossamer/apps/report/run_folder.h"
#include "gossamer/apps/shell_word.h"
#include "gossamer/apps/version.h"
#include "gossamer/core/text/json.h"

namespace gossamer::apps {
namespace {

std::string command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string words{std::istreambuf_iterator<char>(in), {}};
  std::string out;
  for (std::size_t at = 0; at < words.size();) {  // each word ends with a zero byte
    const std::string word = words.c_str() + at;
    out += (out.empty() ? "" : " ") + shell_word(word);
    at += word.size() + 1;
  }
  return out;
}

}  // namespace

JsonObject launch_facts() {
  std::error_code error;
  JsonObject facts;
  facts.add("command", command_line())
      .add("folder", std::filesystem::current_path(error).string())
      .add("host", host_name())
      .add("processor", processor())
      .add("cores", cores())
      .add("memory_gib", std::round(10 * memory_gib()) / 10)
      .add("gossamer", version())
      .add("git", git_hash())
      .add("compiler", compiler())
      .add("onednn", onednn_version());
  return facts;
}

std::string last_launch(const std::filesystem::path& run_folder) {
  std::string out;
  for (const std::filesystem::path& log : log_files(run_folder)) {
    std::ifstream in(log);
    for (std::string line; std::getline(in, line);) {
      if (line.find("\"launch\"") == std::string::npos) continue;
      nlohmann::ordered_json e = parse_json<nlohmann::ordered_json>(line);
      if (!e.is_object() || e.value("event", "") != "launch") continue;
      for (const char* key : {"event", "time", "rank"}) e.erase(key);
      out = e.dump();
    }
  }
  return out;
}

}  // namespace gossamer::apps
