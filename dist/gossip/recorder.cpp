// Writes and reads records. The only file of dist that sees a JSON parser.
#include "gossamer/dist/gossip/recorder.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/utf8.h"

namespace gossamer::dist {
namespace {

using Json = nlohmann::json;
using Kind = WorkerEvent::Kind;

constexpr int kVersion = 2;
constexpr std::size_t kLongestLine = 4096;
constexpr i64 kMostEvents = 1 << 27;  // 6 GB in memory
constexpr int kMostWorkers = 1 << 20;
// by Kind; files keep these words
const char* const kNames[] = {"gradient", "snapshot", "applied", "failed", "settled", "gone"};

// One line, and where it is, for messages.
struct Line {
  const std::string& path;
  i64 number;
  Json json;

  [[noreturn]] void wrong(const std::string& what) const {
    fail<IoError>(path, ":", number, ": ", what,
                  "; this is not a record of a run, or it was damaged");
  }
  const Json& at(const char* key) const {
    const auto found = json.find(key);
    if (found == json.end()) wrong(fmt::format("no \"{}\"", key));
    return *found;
  }
  double real(const char* key) const {
    const Json& v = at(key);
    if (!v.is_number() || !std::isfinite(v.get<double>()))
      wrong(fmt::format("\"{}\" is not a number", key));
    return v.get<double>();
  }
  std::uint64_t whole(const char* key, std::uint64_t most = UINT64_MAX) const {
    const Json& v = at(key);
    if (!v.is_number_unsigned() || v.get<std::uint64_t>() > most)
      wrong(fmt::format("\"{}\" is not a whole number from 0 to {}", key, most));
    return v.get<std::uint64_t>();
  }
  std::string text(const char* key) const {
    const Json& v = at(key);
    if (!v.is_string()) wrong(fmt::format("\"{}\" is not a text", key));
    return v.get<std::string>();
  }
  std::uint64_t hex(const char* key) const {
    const std::string digits = text(key);
    if (digits.size() != 16 || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
      wrong(fmt::format("\"{}\" is not 16 hex digits", key));
    return std::stoull(digits, nullptr, 16);
  }
};

RunFacts read_facts(const Line& line) {
  const std::uint64_t version = line.whole("gossamer_events");
  if (version != kVersion)
    line.wrong(
        fmt::format("version {} of the format; this program reads version {}", version, kVersion));
  RunFacts f;
  f.method = line.text("method");
  f.graph = from_text(line.text("graph"));
  f.pairing = line.text("pairing");
  if (line.json.contains("device")) f.device = line.text("device");  // older ones: of CPUs only
  f.workers = static_cast<int>(line.whole("workers", kMostWorkers));
  f.rank = static_cast<int>(line.whole("rank", kMostWorkers));
  if (f.rank >= f.workers) line.wrong("rank is not below workers");
  f.seed = line.whole("seed");
  f.parameters = line.hex("parameters");
  f.rate = line.real("rate");
  f.batch = line.real("batch");
  f.start_samples = line.real("start_samples");
  f.total_samples = line.real("total_samples");
  return f;
}

// Follows the events of one worker: which exchange is open, how many gradients there were.
struct Follower {
  const RunFacts& facts;
  std::uint64_t gradients = 0;
  bool completed = false, open = false;
  WorkerEvent begun{};

  WorkerEvent read(const Line& line, const std::string& name) {
    WorkerEvent e;
    const auto kind = std::ranges::find(kNames, name);
    if (kind == std::end(kNames)) line.wrong("unknown event \"" + name + "\"");
    e.kind = static_cast<Kind>(kind - std::begin(kNames));
    if (e.kind == Kind::gradient) {
      if (line.whole("k") != ++gradients)
        line.wrong(fmt::format("gradient {} was expected", gradients));
      e.learning_rate = line.real("learning_rate");
      e.eta = line.real("eta");
    } else if (e.kind == Kind::completed) {
      if (completed) line.wrong("training ends only once");
      completed = true;
    } else {
      e.peer = static_cast<int>(line.whole("peer", static_cast<std::uint64_t>(facts.workers - 1)));
      if (e.peer == facts.rank) line.wrong("a worker has no exchange with itself");
      if (e.kind != Kind::lost) e.session = line.whole("session");
    }
    if (e.kind == Kind::snapshot) {
      e.t = line.real("t");
      if (open) line.wrong("an exchange begins in another");
      open = true;
      begun = e;
    } else if (e.kind == Kind::applied || e.kind == Kind::failed) {
      if (!open || begun.peer != e.peer || begun.session != e.session)
        line.wrong("an exchange ends that did not begin");
      open = false;
    }
    return e;
  }
};

}  // namespace

std::string record_path(const std::string& folder, int rank) {
  return (std::filesystem::path(folder) / fmt::format("events-{}.jsonl", rank)).string();
}

Recorder::File Recorder::open(const std::string& path, const char* mode) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  File file(std::fopen(path.c_str(), mode));
  check<IoError>(file != nullptr, path, ": can't be written: ", std::strerror(errno));
  return file;
}

void check_can_record(const std::string& folder, int rank) {
  Recorder::open(record_path(folder, rank), "ab");  // an older record is left as it is
}

Recorder::Recorder(const std::string& folder, const RunFacts& f)
    : path_(record_path(folder, f.rank)), file_(open(path_, "wb")) {
  const std::string names =
      fmt::format(R"("method":{},"graph":{},"pairing":{},"device":{})", json_text(f.method),
                  json_text(to_text(f.graph)), json_text(f.pairing), json_text(f.device));
  write(fmt::format(R"({{"gossamer_events":{},{},"rank":{},"workers":{},"seed":{},)"
                    R"("parameters":"{:016x}","rate":{},"batch":{},"start_samples":{},)"
                    R"("total_samples":{}}})",
                    kVersion, names, f.rank, f.workers, f.seed, f.parameters, f.rate, f.batch,
                    f.start_samples, f.total_samples));
}

void Recorder::write(const std::string& line) {
  const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
                       std::fputc('\n', file_.get()) == '\n';
  check<IoError>(written, path_, ": can't be written: ", std::strerror(errno));
}

void Recorder::happened(const WorkerEvent& e) {
  const char* name = kNames[static_cast<std::size_t>(e.kind)];
  ++events_;
  switch (e.kind) {
    case Kind::gradient:
      return write(fmt::format(R"({{"event":"{}","k":{},"learning_rate":{},"eta":{}}})", name,
                               ++gradients_, e.learning_rate, e.eta));
    case Kind::snapshot:
      return write(fmt::format(R"({{"event":"{}","peer":{},"session":{},"t":{}}})", name, e.peer,
                               e.session, e.t));
    case Kind::applied:
    case Kind::failed:
      return write(
          fmt::format(R"({{"event":"{}","peer":{},"session":{}}})", name, e.peer, e.session));
    case Kind::completed:
      return write(fmt::format(R"({{"event":"{}"}})", name));
    case Kind::lost:
      return write(fmt::format(R"({{"event":"{}","peer":{}}})", name, e.peer));
  }
}

void Recorder::ended(std::uint64_t digest) {
  write(fmt::format(R"({{"event":"end","events":{},"digest":"{:016x}"}})", events_, digest));
  const bool flushed = std::fflush(file_.get()) == 0;
  check<IoError>(flushed, path_, ": can't be written: ", std::strerror(errno));
}

namespace {

std::ifstream open_record(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  check<IoError>(file.good(), path,
                 ": can't be read; a record has one file events-RANK.jsonl for each worker");
  return file;
}

}  // namespace

void check_record(const std::string& path) { open_record(path); }

Record read_record(const std::string& path) {
  std::ifstream file = open_record(path);
  return read_record(file, path);
}

Record read_record(std::istream& file, const std::string& path) {
  Record record;
  record.path = path;
  Follower follower{record.facts};
  bool ended = false;
  std::string text(kLongestLine + 1, '\0');
  for (i64 number = 1;; ++number) {
    file.getline(text.data(), static_cast<std::streamsize>(text.size()));
    const auto length = static_cast<std::size_t>(file.gcount());
    if (length == 0 && file.eof()) break;
    check<IoError>(!file.fail(), path, ":", number, ": longer than ", kLongestLine,
                   " characters; this is not a record of a run");
    const std::size_t used = length - (file.eof() ? 0 : 1);
    Line line{path, number, parse_json<Json>(std::string_view(text.data(), used))};
    if (!line.json.is_object()) line.wrong("not a JSON object");
    if (ended) line.wrong("something follows the end");
    if (number == 1) {
      record.facts = read_facts(line);
      continue;
    }
    const std::string name = line.text("event");
    if (name == "end") {
      if (line.whole("events") != record.events.size())
        line.wrong(
            fmt::format("{} events, but {} lines", line.whole("events"), record.events.size()));
      if (follower.open) line.wrong("an exchange did not end");
      record.digest = line.hex("digest");
      ended = true;
      continue;
    }
    if (static_cast<i64>(record.events.size()) >= kMostEvents) line.wrong("too many events");
    record.events.push_back(follower.read(line, name));
  }
  check<IoError>(ended, path,
                 ": has no end: the recorded run was interrupted, and can't be replayed");
  return record;
}

std::uint64_t digest_of(std::span<const float> values) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const float v : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &v, sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3ull;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace gossamer::dist
