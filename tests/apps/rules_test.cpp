// Rules of the repository: the arrows between folders, sizes of files and lines, what libraries may
// not do.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/apps/config_keys.h"
#include "gossamer/dist/simulation/simulator.h"

namespace gossamer {
namespace {

namespace fs = std::filesystem;

struct SourceFile {
  fs::path path;  // from the root: core/tensor.h
  std::vector<std::string> lines;
  std::string folder() const { return path.begin()->string(); }
};

const std::vector<SourceFile>& sources() {
  static const std::vector<SourceFile> all = [] {
    std::vector<SourceFile> found;
    for (const char* folder : {"core", "nn", "models", "data", "dist", "apps", "tests"})
      for (const auto& entry :
           fs::recursive_directory_iterator(fs::path(GOSSAMER_SOURCE_DIR) / folder)) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".cpp" && extension != ".h" && extension != ".cu") continue;
        SourceFile file{fs::relative(entry.path(), GOSSAMER_SOURCE_DIR), {}};
        std::ifstream in(entry.path());
        for (std::string line; std::getline(in, line);) file.lines.push_back(line);
        found.push_back(std::move(file));
      }
    return found;
  }();
  return all;
}

bool is_test(const SourceFile& f) { return f.folder() == "tests"; }

// Code without comments and string literals, roughly: enough to search for calls.
std::string code_of(const std::string& line) {
  static const std::regex strings(R"re("(\\.|[^"\\])*")re");
  const std::string bare = std::regex_replace(line, strings, "\"\"");
  static const std::regex members(
      R"(\bvoid (\w+::)?abort\b)");  // a member function of that name is no call of std::abort
  return std::regex_replace(bare.substr(0, bare.find("//")), members, "");
}

TEST(Rules, TheSourcesAreFound) { EXPECT_GT(sources().size(), 60u); }

TEST(Rules, FoldersDependOnEachOtherOnlyAlongTheArrows) {
  const std::map<std::string, std::set<std::string>> allowed{
      {"core", {"core"}},
      {"nn", {"core", "nn"}},
      {"models", {"core", "nn", "models"}},
      {"data", {"core", "data"}},
      {"dist", {"core", "dist"}},
      {"apps", {"core", "nn", "models", "data", "dist", "apps"}}};
  const std::regex include(R"(^\s*#include "gossamer/(\w+)/)");
  for (const SourceFile& f : sources()) {
    if (is_test(f)) continue;
    for (const std::string& line : f.lines)
      if (std::smatch m; std::regex_search(line, m, include))
        EXPECT_TRUE(allowed.at(f.folder()).contains(m[1])) << f.path << " includes " << line;
  }
}

// Inside dist. Files that lie in dist itself are of three kinds: what a worker needs of the outside
// (transport), what all methods share (method), and the list of methods.
std::string room_in_dist(const fs::path& path) {  // dist/gpu/edge.h -> gpu
  const auto second = std::next(path.begin());
  if (std::next(second) != path.end()) return second->string();
  static const std::set<std::string> transport{"transport", "clock_offset", "device_port",
                                               "reducer", "time"};
  if (transport.contains(path.stem().string())) return "transport";
  return path.filename() == "method.cpp" ? "make_method" : "method";
}

TEST(Rules, RoomsOfDistDependOnEachOtherOnlyAlongTheArrows) {
  const std::map<std::string, std::set<std::string>> allowed{
      {"transport", {}},
      {"graph", {}},
      {"net", {"transport"}},
      {"local", {"transport"}},
      {"gpu", {"transport"}},
      {"faults", {"transport"}},
      {"method", {"transport", "graph"}},
      {"gossip", {"transport", "graph", "method"}},
      {"rounds", {"transport", "graph", "method"}},
      {"methods", {"transport", "graph", "method", "gossip", "rounds"}},
      {"make_method", {"transport", "graph", "method", "gossip", "methods"}},
      {"simulation", {"transport", "graph", "method", "gossip", "rounds", "methods", "faults"}}};
  const std::regex include(R"re(^\s*#include "gossamer/(dist/[\w/.]+)")re");
  std::map<std::string, fs::path> homes;
  for (const SourceFile& f : sources()) {
    if (is_test(f) || f.folder() != "dist") continue;
    const std::string room = room_in_dist(f.path);
    ASSERT_TRUE(allowed.contains(room)) << f.path << ": " << room << " has no arrows";
    for (const std::string& line : f.lines)
      if (std::smatch m; std::regex_search(line, m, include))
        if (const std::string to = room_in_dist(m[1].str()); to != room)
          EXPECT_TRUE(allowed.at(room).contains(to)) << f.path << " includes " << line;
    if (f.path.extension() == ".h")
      EXPECT_TRUE(homes.try_emplace(f.path.filename().string(), f.path).second)
          << f.path << " and " << homes.at(f.path.filename().string()) << " have one name";
  }
}

// Tensors, the tape and ops are one room; the passes over parameters, which nvcc compiles with the
// ops, belong to what they are passes of; cuda/cuda_* is what is behind cuda.h: devices, streams,
// memory.
std::string room_in_core(const std::string& path) {
  const std::string first = path.substr(0, path.find_first_of("/.")),
                    stem = fs::path(path).stem().string();
  if (stem == "op_update" || stem == "op_exchange") return stem.substr(3);
  if (path.starts_with("cuda/cuda_") || path == "cuda.h") return "memory";
  static const std::map<std::string, std::string> rooms{{"ops", "tensor"},
                                                        {"tensor", "tensor"},
                                                        {"autograd", "tensor"},
                                                        {"tape", "tensor"},
                                                        {"backend", "tensor"},
                                                        {"blocks", "tensor"},
                                                        {"flat", "update"},
                                                        {"update", "update"},
                                                        {"muon_update", "update"},
                                                        {"memory", "memory"},
                                                        {"device_names", "memory"},
                                                        {"io", "io"},
                                                        {"text", "text"},
                                                        {"cpu", "cpu"},
                                                        {"cuda", "cuda"},
                                                        {"trace", "trace"},
                                                        {"input_pass", "input_pass"},
                                                        {"exchange", "exchange"},
                                                        {"compute", "compute"},
                                                        {"captured_step", "captured_step"}};
  const auto room = rooms.find(first);
  return room == rooms.end() ? "base" : room->second;
}

// The rooms of a folder: its sub-folders, and its own files by name. X.h and X.cpp belong to the
// room of X/. For each folder: which rooms may include which others.
TEST(Rules, RoomsOfAFolderDependOnEachOtherOnlyAlongTheArrows) {
  using Rooms = std::map<std::string, std::set<std::string>>;
  const std::map<std::string, Rooms> allowed{
      {"core",
       {{"text", {}},
        {"base", {"text"}},
        {"memory", {"base"}},
        {"compute", {}},
        {"tensor", {"base", "compute", "memory"}},
        {"io", {"base", "tensor", "text"}},
        {"trace", {"io", "text"}},
        {"input_pass", {"tensor"}},
        {"cpu", {"base", "compute", "memory", "tensor"}},
        {"cuda", {"base", "compute", "input_pass", "io", "memory", "tensor"}},
        {"update", {"base", "tensor"}},
        {"exchange", {"tensor", "update"}},
        {"captured_step", {"base", "memory", "tensor", "update"}}}},
      {"data",
       {{"errors", {}},
        {"inner_error", {}},
        {"files", {}},
        {"hash", {}},
        {"mix", {}},
        {"source", {}},
        {"work", {}},
        {"class_difference", {}},
        {"codec", {}},
        {"formats", {"codec", "errors", "files", "hash", "mix"}},
        {"dataset",
         {"formats", "class_difference", "errors", "files", "hash", "inner_error", "mix"}},
        {"augment", {"codec", "files"}},
        {"cache", {"dataset"}},
        {"check", {"codec", "dataset", "work"}},
        {"pack", {"codec", "dataset", "formats", "errors", "files", "hash", "inner_error", "work"}},
        {"sample_order", {"loader", "source"}},
        {"split", {"dataset", "mix"}},
        {"unequal", {"augment", "dataset", "mix"}},
        {"loader", {"augment", "codec", "dataset", "errors", "inner_error", "mix", "source"}},
        {"text", {"errors", "files", "hash", "inner_error", "loader", "mix", "source", "work"}}}},
      {"apps",
       {{"version", {}},
        {"terminal", {}},
        {"machine", {}},
        {"shell_word", {}},
        {"temporary_folder", {}},
        {"amount", {}},
        {"toml_text", {}},
        {"config", {"amount", "toml_text"}},
        {"command_keys", {"config"}},
        {"config_check", {"config", "train"}},
        {"report", {"lesson", "machine", "shell_word", "terminal", "version"}},
        {"launch", {"machine", "terminal", "version"}},
        {"train", {"command_keys", "config", "launch", "machine", "report", "version"}},
        {"lesson", {}},
        {"course", {"launch"}},
        {"paper", {"report", "temporary_folder"}},
        {"compare", {"launch", "report", "terminal", "toml_text"}},
        {"commands",
         {"command_keys", "compare", "config", "config_check", "course", "launch", "lesson",
          "machine", "paper", "report", "shell_word", "temporary_folder", "terminal", "train",
          "version"}},
        {"cli_help", {"commands", "config", "config_check"}},
        {"cli_options", {}},
        {"cli_paper", {"cli_options", "commands"}},
        {"cli_simulate", {"cli_options", "commands"}},
        {"cli_teaching", {"cli_options", "commands"}},
        {"cli_text", {"cli_options", "commands"}},
        {"cli", {"cli_help", "cli_options", "commands", "launch", "terminal", "train", "version"}},
        {"cuda_module", {"version"}},
        {"cuda_capi", {"capi"}},
        {"cuda_entry", {"commands", "version"}},
        {"main", {"cli", "commands", "cuda_module", "terminal"}},
        {"capi", {"cuda_module", "train"}}}}};
  const auto room_of = [](const std::string& folder, const std::string& in_folder) {
    if (folder == "core") return room_in_core(in_folder);
    const std::string room = in_folder.substr(0, in_folder.find_first_of("/."));
    return room == "config_keys" ? "config" : room;  // the list of keys that config.cpp walks
  };
  const std::regex include(R"re(^\s*#include "gossamer/(\w+)/([^"]+)")re");
  for (const SourceFile& f : sources()) {
    const auto rooms = allowed.find(f.folder());
    if (rooms == allowed.end()) continue;
    const std::string room = room_of(f.folder(), f.path.string().substr(f.folder().size() + 1));
    ASSERT_TRUE(rooms->second.contains(room)) << f.path << ": the table doesn't know this room";
    for (const std::string& line : f.lines)
      if (std::smatch m; std::regex_search(line, m, include) && m[1] == f.folder())
        if (const std::string other = room_of(m[1], m[2]); other != room)
          EXPECT_TRUE(rooms->second.at(room).contains(other)) << f.path << " includes " << line;
  }
  // Rooms without arrows to others are taken away until none is left: there is no circle.
  for (const auto& [folder, arrows] : allowed) {
    Rooms left = arrows;
    const auto is_free = [&](const auto& room) {
      return std::ranges::none_of(room.second,
                                  [&](const std::string& other) { return left.contains(other); });
    };
    for (auto room = std::ranges::find_if(left, is_free); room != left.end();
         room = std::ranges::find_if(left, is_free))
      left.erase(room);
    EXPECT_TRUE(left.empty()) << folder << ": a circle around " << left.begin()->first;
  }
}

// Those of gossamer_library(NAME … HEADERS …) in CMakeLists.txt, as core/tensor.h.
std::set<std::string> installed_headers() {
  std::ifstream in(fs::path(GOSSAMER_SOURCE_DIR) / "CMakeLists.txt");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::regex library(R"(\ngossamer_library\((\w+) [^)]*HEADERS([^)]*)\))"), word(R"(\S+)");
  std::set<std::string> out;
  for (std::sregex_iterator l(text.begin(), text.end(), library), end; l != end; ++l) {
    const std::string headers = (*l)[2];
    for (std::sregex_iterator w(headers.begin(), headers.end(), word); w != end; ++w)
      out.insert((*l)[1].str() + "/" + w->str());
  }
  return out;
}

// So do the exercises of the course, which are compiled against the installed library.
TEST(Rules, InstalledHeadersIncludeOnlyInstalledOnes) {
  const std::set<std::string> installed = installed_headers();
  EXPECT_GT(installed.size(), 40u);
  EXPECT_LE(installed.size(), 67u) << "a short list, chosen for users";
  const std::regex include(R"re(^\s*#include "gossamer/([^"]+)")re");
  for (const SourceFile& f : sources()) {
    const std::string path = f.path.string();
    if (!installed.contains(path) && !path.starts_with("apps/course/units/")) continue;
    for (const std::string& line : f.lines)
      if (std::smatch m; std::regex_search(line, m, include))
        EXPECT_TRUE(installed.contains(m[1])) << f.path << " includes " << line;
  }
}

TEST(Rules, EachInstalledHeaderSaysItsThreads) {
  const std::set<std::string> installed = installed_headers();
  for (const SourceFile& f : sources())
    if (installed.contains(f.path.string()))
      EXPECT_TRUE(std::ranges::any_of(f.lines, [](const std::string& line) {
        return line.starts_with("// Threads: ");
      })) << f.path;
}

TEST(Rules, EachInstalledHeaderHasItsLineOnThePageOfTheLibrary) {
  std::ifstream in(fs::path(GOSSAMER_SOURCE_DIR) / "apps/capi/headers.md");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  const std::regex header(R"(`(\w+/[\w/]+\.h)`)");
  std::set<std::string> described;
  for (std::sregex_iterator h(page.begin(), page.end(), header), end; h != end; ++h)
    described.insert((*h)[1]);
  EXPECT_EQ(described, installed_headers());
}

TEST(Rules, NoSourceFileIsLongerThanSixHundredLines) {
  // Who embeds Gossamer in C wants one header.
  for (const SourceFile& f : sources())
    EXPECT_LE(f.lines.size(), f.path.filename() == "gossamer.h" ? 1000u : 600u) << f.path;
}

// Bytes that continue a character of UTF-8 do not count.
std::ptrdiff_t characters(const std::string& line) {
  return std::ranges::count_if(
      line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

TEST(Rules, NoLineIsLongerThanAHundredCharacters) {
  for (const SourceFile& f : sources())
    for (std::size_t i = 0; i < f.lines.size(); ++i)
      EXPECT_LE(characters(f.lines[i]), 100) << f.path.string() << ":" << i + 1;
}

// CMake files, scripts of any language, configurations.
TEST(Rules, NoLineOfOtherFilesIsLongerThanAHundredCharacters) {
  const fs::path root = GOSSAMER_SOURCE_DIR;
  std::vector<fs::path> files{root / "CMakeLists.txt", root / "CMakePresets.json",
                              root / ".clang-tidy", root / ".ci/run"};
  const std::set<std::string> kinds{".cmake", ".css", ".in",   ".js", ".json",
                                    ".py",    ".sh",  ".toml", ".txt"};
  for (const char* folder : {"core", "nn", "models", "data", "dist", "apps", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      // tokenizers as their libraries write them, and what these make of hard strings
      const bool of_others =
          entry.path().string().find("/golden/tokenizers/") != std::string::npos ||
          entry.path().string().find("/golden/sentencepiece/") != std::string::npos;
      if (!entry.is_regular_file() || of_others) continue;
      char start[2] = {};
      const bool script =
          std::ifstream(entry.path()).read(start, 2) && std::string_view(start, 2) == "#!";
      if (script || kinds.contains(entry.path().extension().string())) files.push_back(entry);
    }
  EXPECT_GT(files.size(), 20u);
  for (const fs::path& path : files) {
    std::ifstream in(path);
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      EXPECT_LE(characters(line), 100) << path.string() << ":" << number;
    }
  }
}

// .clang-format decides how the code looks. Other versions of the program give other output.
TEST(Rules, TheSourcesAreWhatClangFormatWrites) {
  const char* program = "clang-format-14";
  if (std::system("clang-format-14 --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << program << " is not installed";
  std::string command = std::string("cd '") + GOSSAMER_SOURCE_DIR + "' && " + program +
                        " --dry-run --Werror --ferror-limit=1";
  for (const SourceFile& f : sources()) command += " " + f.path.string();
  EXPECT_EQ(std::system(command.c_str()), 0) << "run clang-format-14 -i on the files named above";
}

// Two headers that define one name break the program when a file includes both, or worse, when
// none does.
TEST(Rules, NoTwoHeadersDefineOneName) {
  const std::regex opens(R"(^(?:inline )?namespace ([\w:]+) \{)");
  // `struct Outer::Inner {` defines no name of the namespace.
  const std::regex type(R"(^(?:class|struct|enum class|enum|union) (\w+)(?![\w:])[^;]*\{|)"
                        R"(^(?:class|struct|enum class|enum|union) (\w+)(?![\w:])[^;()]*$)");
  std::map<std::string, std::string> home;
  for (const SourceFile& f : sources()) {
    if (is_test(f) || f.path.extension() != ".h") continue;
    std::vector<std::string> spaces;
    for (const std::string& line : f.lines) {
      std::smatch m;
      if (std::regex_search(line, m, opens))
        spaces.push_back(m[1]);
      else if (line.starts_with("}  // namespace") && !spaces.empty())
        spaces.pop_back();
      else if (std::regex_search(line, m, type)) {
        std::string name;
        for (const std::string& space : spaces) name += space + "::";
        name += m[1].matched ? m[1].str() : m[2].str();
        const auto [at, first] = home.emplace(name, f.path.string());
        EXPECT_TRUE(first || at->second == f.path)
            << name << ": " << at->second << " and " << f.path;
      }
    }
  }
  EXPECT_GT(home.size(), 200u);
}

TEST(Rules, EveryFileBeginsBySayingWhatItIs) {
  for (const SourceFile& f : sources()) {
    ASSERT_FALSE(f.lines.empty()) << f.path;
    EXPECT_TRUE(f.lines[0].starts_with("// ")) << f.path;
  }
}

TEST(Rules, LibrariesNeitherPrintNorExitNorReadTheEnvironment) {
  const std::regex forbidden(
      R"((^|[^\w.>:])(std::|::)?(printf|fprintf|puts|putchar|perror|exit|_exit|quick_exit|)"
      R"(abort|assert)\s*\(|std::(cout|cerr|clog)\b)");
  const std::regex environment(R"(\b(getenv|setenv|putenv)\s*\()");
  for (const SourceFile& f : sources()) {
    const bool of_program = f.folder() == "apps" && !f.path.string().starts_with("apps/capi/");
    if (is_test(f) || of_program) continue;
    for (const std::string& line : f.lines) {
      // The end of the child that wakes a stopped worker.
      const bool in_fork =
          f.path == "dist/faults/injector.cpp" && line.find("_exit(0)") != std::string::npos;
      EXPECT_TRUE(in_fork || !std::regex_search(code_of(line), forbidden))
          << f.path << ": " << line;
      if (f.path != "dist/net/launch.cpp")
        EXPECT_FALSE(std::regex_search(code_of(line), environment)) << f.path << ": " << line;
    }
  }
}

// The text of the string literals of a line.
std::string literals_of(const std::string& line) {
  static const std::regex part(R"re("((?:\\.|[^"\\])*)"|//.*|'"')re");
  std::string text;
  for (std::sregex_iterator at(line.begin(), line.end(), part), end; at != end; ++at)
    text += (*at)[1].str() + '\n';
  return text;
}

std::set<std::string> all_matches(const std::string& text, const std::regex& what) {
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), what), end; at != end; ++at)
    found.insert((*at)[1]);
  return found;
}

// Its meaning, default and range stand there only.
TEST(Rules, LibrariesStartThreadsWithoutTheSignalsOfTheirHost) {
  const std::regex starts(R"(std::(thread\(|jthread\b))");
  int seen = 0;
  for (const SourceFile& f : sources()) {
    const std::string path = f.path.string();
    if (is_test(f) || path == "core/host_signals.h" || path.starts_with("apps/commands/") ||
        path.starts_with("apps/course/"))
      continue;
    const auto has = [&](const auto& is) { return std::ranges::any_of(f.lines, is); };
    if (!has([&](const std::string& l) { return std::regex_search(code_of(l), starts); })) continue;
    ++seen;
    EXPECT_TRUE(has([](const std::string& l) { return l.ends_with("core/host_signals.h\""); }))
        << f.path << ": start threads by start_thread, or beside a HostSignals";
  }
  EXPECT_GT(seen, 1);
}

TEST(Rules, EachSettingIsDeclaredOnce) {
  const std::regex declared(R"re((?:Setting\{\.name = |[^\w.]key\()"([\w.]+)")re");
  std::map<std::string, fs::path> places;
  for (const SourceFile& f : sources()) {
    if (is_test(f)) continue;
    std::string text;
    for (const std::string& line : f.lines)
      if (!line.starts_with("//")) text += line + ' ';
    for (std::sregex_iterator at(text.begin(), text.end(), declared), end; at != end; ++at) {
      const std::string name = (*at)[1];
      EXPECT_TRUE(places.try_emplace(name, f.path).second)
          << name << " is declared in " << places.at(name) << " and " << f.path;
    }
  }
  EXPECT_GT(places.size(), 100u);
}

// Somebody who embeds a library has neither keys nor flags nor commands (core/error.h).
TEST(Rules, ErrorsOfLibrariesDoNotSpeakOfTheProgram) {
  std::set<std::string> keys;
  for (const apps::KeyText& key : apps::key_texts()) keys.insert(key.name);
  // Names of settings, which embedders give, too.
  for (const NamedSetting& each : dist::method_settings()) keys.erase(each.setting.name);
  std::string program;
  for (const SourceFile& f : sources())
    if (f.path.string().starts_with("apps/cli"))
      for (const std::string& line : f.lines) program += line + '\n';
  const std::vector<std::pair<std::regex, std::set<std::string>>> forbidden{
      {std::regex(R"(\b([a-z]+\.[a-z_]+)\b)"), keys},
      {std::regex("(--[a-z][a-z-]+)"), all_matches(program, std::regex(R"re("(--[a-z-]+))re"))},
      {std::regex(R"(\bgossamer ([a-z-]+))"),
       all_matches(program, std::regex(R"re(add_subcommand\(\s*"([a-z-]+)")re"))}};
  EXPECT_TRUE(forbidden[0].second.contains("data.label_base"));
  EXPECT_TRUE(forbidden[1].second.contains("--max-side"));
  EXPECT_TRUE(forbidden[2].second.contains("doctor"));
  for (const SourceFile& f : sources()) {
    const bool of_program = f.folder() == "apps" && !f.path.string().starts_with("apps/capi/");
    if (is_test(f) || of_program) continue;
    for (const std::string& line : f.lines) {
      if (line.starts_with("#include") || line.find('"') == line.npos) continue;
      const std::string text = literals_of(line);
      for (const auto& [pattern, names] : forbidden)
        for (const std::string& name : all_matches(text, pattern))
          EXPECT_FALSE(names.contains(name)) << f.path << ": " << line;
    }
  }
}

// What others must know of a method is a trait, a setting or its formula, in its row.
TEST(Rules, NamesOfMethodsStandOnlyWithTheMethods) {
  const std::vector<std::string> names = dist::simulated_methods();
  ASSERT_GT(names.size(), 10u);
  // Help gives examples; papers and the course are about certain methods.
  const auto speaks_of_methods = [](const std::string& path) {
    for (const char* part :
         {"dist/methods/", "apps/paper/", "apps/course/", "apps/cli", "apps/config_keys.h"})
      if (path.starts_with(part)) return true;
    return false;
  };
  const std::set<std::pair<std::string, std::string>> exceptions{
      {"dist/method.h", "a2cid2"},  // meaning of keys
      {"dist/method.h", "adpsgd"},
      {"dist/control_options.h", "consensus-control"},
      {"dist/control_options.h", "dpsgd"},  // the default
      {"nn/optim.cpp", "accum-adam"},       // the optimizer
      {"apps/config_check.cpp", "accum-adam"},
      {"apps/commands/simulate.cpp", "a2cid2"},   // whose exchanges are counted
      {"apps/commands/paper.cpp", "published"}};  // what a paper says
  for (const SourceFile& f : sources()) {
    if (is_test(f) || speaks_of_methods(f.path.string())) continue;
    for (const std::string& line : f.lines) {
      if (line.starts_with("#include") || line.find('"') == line.npos) continue;
      const std::string text = '\n' + literals_of(line);
      for (const std::string& name : names) {
        // "published" is also a word
        const std::regex known(name == "published" ? "\n" + name + "\n"
                                                   : "(^|[^\\w.-])" + name + "($|[^\\w-])");
        if (!exceptions.contains({f.path.string(), name}))
          EXPECT_FALSE(std::regex_search(text, known)) << f.path << ": " << line;
      }
    }
  }
}

TEST(Rules, PublicHeadersShowNoVendor) {
  const std::regex vendor(
      R"(#include\s*[<"](asio|gloo|oneapi|dnnl|cuda|cudnn|nccl|jpeglib|turbojpeg|)"
      R"(pcre2|utf8proc|zstd|png|toml|CLI|fmt|nlohmann|openssl))");
  // Internal headers of the implementations that are built on them; kernel.h includes CUDA only
  // when nvcc compiles.
  const std::set<std::string> internal{
      "dist/net/stream.h",        "dist/net/asio_link.h",      "dist/net/asio_link_impl.h",
      "dist/net/connection.h",    "dist/net/dial.h",           "dist/net/door.h",
      "dist/net/gloo_context.h",  "dist/net/mesh.h",           "dist/gpu/nccl_library.h",
      "dist/net/rendezvous.h",    "core/cpu/onednn_api.h",     "core/ops/kernel.h",
      "core/cuda/cuda_check.h",   "core/cuda/cudnn_api.h",     "data/codec/jpeg_library.h",
      "data/text/steps/fields.h", "apps/report/json_values.h", "apps/report/run_record.h",
      "apps/cli_options.h",       "apps/toml_text.h"};
  for (const SourceFile& f : sources()) {
    if (is_test(f) || f.path.extension() != ".h" || internal.contains(f.path.string())) continue;
    for (const std::string& line : f.lines)
      EXPECT_FALSE(std::regex_search(line, vendor)) << f.path << ": " << line;
  }
}

TEST(Rules, NoPathOfSomeonesMachineIsInTheSources) {
  const std::regex machine(R"((^|[^\w.])/(home|work|root|Users|mnt)/\w)");
  std::vector<fs::path> files;
  for (const SourceFile& f : sources()) files.push_back(fs::path(GOSSAMER_SOURCE_DIR) / f.path);
  for (const char* extra :
       {"CMakeLists.txt", "apps/quickstart", "apps/setup.sh", "tests/run", ".ci/run", "README.md"})
    if (const fs::path p = fs::path(GOSSAMER_SOURCE_DIR) / extra; fs::exists(p)) files.push_back(p);
  for (const fs::path& p : files) {
    std::ifstream in(p);
    for (std::string line; std::getline(in, line);)
      EXPECT_FALSE(std::regex_search(line, machine)) << p << ": " << line;
  }
}

TEST(Rules, NothingIsLeftToDoInTheSources) {
  const std::regex mark(
      "\\b(TO"
      "DO|FIX"
      "ME|XX"
      "X|HA"
      "CK)\\b");
  for (const SourceFile& f : sources())
    for (const std::string& line : f.lines)
      EXPECT_FALSE(std::regex_search(line, mark)) << f.path << ": " << line;
}

}  // namespace
}  // namespace gossamer
