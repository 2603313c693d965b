// Reads lists of hosts.
#include "gossamer/apps/launch/hosts.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gossamer/apps/machine.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

constexpr int kMostSlots = 512;

int slots_from(const std::string& where, const std::string& text) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  check<ConfigError>(
      error == std::errc() && end == text.data() + text.size() && slots >= 1 && slots <= kMostSlots,
      where, ": \"", text, "\" is not a number of workers from 1 to ", kMostSlots);
  return slots;
}

bool is_here(const std::string& name) {
  const std::string full = host_name();
  return name == "localhost" || name == "::1" || name.starts_with("127.") || name == full ||
         name == full.substr(0, full.find('.'));
}

void add(std::vector<Host>& hosts, const std::string& where, Host host) {
  check<ConfigError>(is_host_name(host.name), where, ": \"", host.name,
                     "\" is not the name of a host");
  host.here = is_here(host.name);
  for (Host& known : hosts) {
    if (known.name != host.name) continue;
    check<ConfigError>(
        host.address.empty() || known.address.empty() || host.address == known.address, where, ": ",
        host.name, " has two addresses, ", known.address, " and ", host.address);
    known.slots += host.slots;
    if (known.address.empty()) known.address = host.address;
    return;
  }
  hosts.push_back(std::move(host));
}

std::vector<Host> read_file(const std::string& path) {
  std::ifstream in(path);
  check<ConfigError>(in.good(), path, ": cannot read this file of hosts");
  std::vector<Host> hosts;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    const std::string where = path + ":" + std::to_string(number);
    Host host;
    if (!(words >> host.name)) continue;
    for (std::string word; words >> word;) {
      if (word.starts_with("slots="))
        host.slots = slots_from(where, word.substr(6));
      else if (word.starts_with("address=") && word.size() > 8)
        host.address = word.substr(8);
      else
        fail<ConfigError>(where, ": \"", word, "\" is neither slots=N nor address=A");
    }
    add(hosts, where, std::move(host));
  }
  check<ConfigError>(!hosts.empty(), path, " names no host; write one a line: host slots=N");
  return hosts;
}

}  // namespace

bool is_host_name(const std::string& name) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string("._-@:[]%").find(c) != std::string::npos;
  };
  return !name.empty() && name[0] != '-' && std::ranges::all_of(name, plain);
}

std::vector<Host> read_hosts(const std::string& text) {
  if (std::filesystem::is_regular_file(text)) return read_file(text);
  const auto ends = {".txt", ".list", ".hosts", ".conf", ".cfg"};  // of files, not of hosts
  check<ConfigError>(
      text.find('/') == std::string::npos &&
          std::ranges::none_of(ends, [&](const char* end) { return text.ends_with(end); }),
      "--hosts ", text, ": there is no such file");
  std::vector<Host> hosts;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    Host host;
    const auto colon = item.rfind(':');
    // "a:2"; an IPv6 address has several colons, so its number follows brackets: "[::1]:2".
    const bool counted = colon != std::string::npos &&
                         (item.find(':') == colon || (colon > 0 && item[colon - 1] == ']'));
    host.name = counted ? item.substr(0, colon) : item;
    if (counted) host.slots = slots_from("--hosts " + text, item.substr(colon + 1));
    if (host.name.size() > 2 && host.name.front() == '[' && host.name.back() == ']')
      host.name = host.name.substr(1, host.name.size() - 2);
    add(hosts, "--hosts " + text, std::move(host));
  }
  check<ConfigError>(!hosts.empty(), "--hosts is empty; give a file, or a list such as a:2,b:2");
  return hosts;
}

std::vector<int> place_workers(const std::vector<Host>& hosts, int workers) {
  std::vector<int> places;
  for (std::size_t h = 0; h < hosts.size(); ++h)
    places.insert(places.end(), static_cast<std::size_t>(hosts[h].slots), static_cast<int>(h));
  const auto slots = static_cast<int>(places.size());
  check<ConfigError>(workers <= slots, "--workers ", workers, " on ", hosts.size(),
                     " host(s) with ", slots, " slot(s) in all; give more with host:N or slots=N");
  if (workers > 0) places.resize(static_cast<std::size_t>(workers));
  return places;
}

}  // namespace gossamer::apps
