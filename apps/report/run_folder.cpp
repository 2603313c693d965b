// Files of one run; see run_folder.h.
#include "gossamer/apps/report/run_folder.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/trace.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

// One write() with O_APPEND, so that the lines of several processes do not mix.
bool append_line(const fs::path& path, const std::string& line) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const ssize_t written = write(fd, line.data(), line.size());
  close(fd);
  return written == static_cast<ssize_t>(line.size());
}

// Of a part of a log that is not the last.
std::optional<int> number_of(const fs::path& part) {
  const std::string name = part.filename().string();
  constexpr std::string_view before = "log-", behind = ".jsonl";
  int number = 0;
  const char *const begin = name.data() + before.size(), *const end = name.data() + name.size() -
                                                                      behind.size();
  if (!name.starts_with(before) || !name.ends_with(behind) || begin >= end) return std::nullopt;
  const auto [stopped, error] = std::from_chars(begin, end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

}  // namespace

fs::path move_aside(const fs::path& path) {
  std::error_code error;
  int n = 1;
  while (fs::exists(path.string() + "." + std::to_string(n), error)) ++n;
  fs::path moved = path.string() + "." + std::to_string(n);
  fs::rename(path, moved, error);
  check<IoError>(!error, "cannot move ", path.string(), ", which is there already, to ",
                 moved.string(), ": ", error.message());
  return moved;
}

RunFolder::Begun RunFolder::begin(const std::string& config_toml, const std::string& launch,
                                  bool resuming, const std::vector<std::string>& outdated) const {
  if (!writes()) return {};
  std::error_code error;
  fs::path moved;
  if (!resuming && fs::exists(path_ / "log.jsonl", error)) moved = move_aside(path_);
  fs::create_directories(path_, error);
  try {
    write_file(path_ / "config.toml", config_toml);
  } catch (const IoError&) {
    if (!moved.empty() && fs::remove(path_, error)) fs::rename(moved, path_, error);
    throw;
  }
  std::vector<std::string> names(std::begin(kResultFiles), std::end(kResultFiles));
  names.insert(names.end(), outdated.begin(), outdated.end());
  const std::string aside = set_aside(names);
  if (!launch.empty() && !append_line(path_ / "log.jsonl", line("launch", launch))) ++lost_lines_;
  return {moved.string(), aside};
}

// They are not what the run is now, but nothing else may have them.
std::string RunFolder::set_aside(const std::vector<std::string>& names) const {
  std::error_code error;
  int n = 1;
  while (fs::exists(path_ / "earlier" / std::to_string(n), error)) ++n;
  const fs::path aside = path_ / "earlier" / std::to_string(n);
  for (const std::string& name : names) {
    if (!fs::exists(fs::symlink_status(path_ / name, error))) continue;
    fs::create_directories((aside / name).parent_path(), error);
    fs::rename(path_ / name, aside / name, error);
    check<IoError>(!error, "cannot move ", (path_ / name).string(), " to ", aside.string(), ": ",
                   error.message());
  }
  return fs::exists(aside, error) ? aside.string() : "";
}

void RunFolder::open() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, lines] : held_)
    if (!append_line(path_ / name, lines)) ++lost_lines_, line_is_cut_ = true;
  held_.clear();
  open_ = true;
}

std::string RunFolder::line(const std::string& event, const std::string& fields) const {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  JsonObject common;
  common.add("event", event).add("time", now).add("rank", rank_);
  std::string text = common.str();
  if (fields.size() > 2) text = text.substr(0, text.size() - 1) + ", " + fields.substr(1);
  return text + "\n";
}

void RunFolder::log(const std::string& event, const JsonObject& fields) const {
  if (!writes()) return;
  // The rest of a line that a full disk has cut must not damage the next one.
  const bool after_cut = line_is_cut_.exchange(false);
  if (!append("log.jsonl", (after_cut ? "\n" : "") + line(event, fields.str())))
    ++lost_lines_, line_is_cut_ = true;
}

bool RunFolder::append(const std::string& name, const std::string& lines) const {
  {
    const std::scoped_lock lock(mutex_);
    if (!open_) {
      held_.emplace_back(name, lines);
      return true;
    }
  }
  return append_line(path_ / name, lines);
}

void RunFolder::begin_new_log(std::uintmax_t at_bytes) const {
  std::error_code error;
  const fs::path log = path_ / "log.jsonl";
  if (!writes()) return;
  if (const auto size = fs::file_size(log, error); error || size <= at_bytes) return;
  int last = 0;
  for (const fs::path& each : log_files(path_)) last = std::max(last, number_of(each).value_or(0));
  const fs::path part = path_ / ("log-" + std::to_string(last + 1) + ".jsonl");
  if (renameat2(AT_FDCWD, log.c_str(), AT_FDCWD, part.c_str(), RENAME_NOREPLACE) == 0)
    this->log("log", JsonObject().add("goes_on_from", part.filename().string()));
}

std::vector<fs::path> log_files(const fs::path& run_folder) {
  std::vector<fs::path> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_folder, error))
    if (number_of(entry.path())) all.push_back(entry.path());
  std::ranges::sort(all, {}, [](const fs::path& part) { return *number_of(part); });
  if (fs::exists(run_folder / "log.jsonl", error)) all.push_back(run_folder / "log.jsonl");
  return all;
}

void RunFolder::add_bad_images(const std::vector<std::string>& lines) const {
  if (!writes()) return;
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  if (!text.empty()) append("bad_images.txt", text);
}

std::size_t RunFolder::merge_bad_images() const {
  std::ifstream in(path_ / "bad_images.txt");
  std::map<std::string, std::string> lines;  // by image, because the message may depend on the crop
  for (std::string line; std::getline(in, line);)
    lines.emplace(line.substr(0, line.find(": ")), line);
  std::string text;
  for (const auto& [image, line] : lines) text += line + "\n";
  try {
    if (!text.empty()) write_file(path_ / "bad_images.txt", text);
  } catch (const IoError&) {  // then the list stays as the workers wrote it
  }
  return lines.size();
}

void RunFolder::write_trace(const std::string& header) const {
  if (writes()) trace::write(path_ / ("trace-" + std::to_string(rank_) + ".json"), header);
}

}  // namespace gossamer::apps
