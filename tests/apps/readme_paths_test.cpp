// Keeps every README true: its paths, links, symbols and configuration keys exist, its code blocks
// stand in the sources (where they are compiled and run), and no chapter is longer than 2,000
// words.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/apps/config.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/method.h"

namespace gossamer {
namespace {

namespace fs = std::filesystem;

const fs::path root = GOSSAMER_SOURCE_DIR;
const char* const kFolders[] = {"core", "nn", "models", "data", "dist", "apps", "tests"};

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Page {
  fs::path path;  // from the root
  std::string text, prose;
  struct Block {
    std::string language, text;
  };
  std::vector<Block> blocks;  // that begin with ```LANGUAGE
};

// All Markdown files. `prose` is the text without fenced blocks.
const std::vector<Page>& pages() {
  static const std::vector<Page> all = [] {
    std::vector<fs::path> files{"README.md"};
    for (const char* folder : kFolders)
      for (const auto& entry : fs::recursive_directory_iterator(root / folder))
        if (entry.path().extension() == ".md") files.push_back(fs::relative(entry.path(), root));
    std::vector<Page> found;
    for (const fs::path& file : files) {
      Page page{file, text_of(root / file), {}, {}};
      std::istringstream lines(page.text);
      std::string fence;
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("```")) {
          if (fence.empty()) page.blocks.push_back({line.substr(3), {}});
          fence = fence.empty() ? line : "";
        } else if (!fence.empty()) {
          page.blocks.back().text += line + '\n';
        } else {
          page.prose += line + '\n';
        }
      }
      found.push_back(std::move(page));
    }
    return found;
  }();
  return all;
}

// The text of all sources.
const std::string& sources() {
  static const std::string all = [] {
    std::string text;
    for (const char* folder : kFolders)
      for (const auto& entry : fs::recursive_directory_iterator(root / folder))
        if (const auto e = entry.path().extension(); e == ".cpp" || e == ".h" || e == ".cu")
          if (entry.path().filename() != "readme_paths_test.cpp") text += text_of(entry.path());
    return text;
  }();
  return all;
}

std::vector<std::string> matches(const std::string& text, const std::regex& what) {
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), what), end; at != end; ++at)
    found.push_back((*at)[1]);
  return found;
}
std::vector<std::string> in_backticks(const Page& page) {
  static const std::regex ticks("`([^`\n]+)`");
  return matches(page.prose, ticks);
}

// From the root, from the page's folder, or from a folder above that. "op_*.cpp": at least one.
bool exists(const Page& page, const std::string& path) {
  for (fs::path base = page.path.parent_path();; base = base.parent_path()) {
    const fs::path at = root / base / path;
    if (path.find('*') == std::string::npos) {
      if (fs::exists(at)) return true;
    } else if (fs::is_directory(at.parent_path())) {
      std::string name;
      for (const char c : at.filename().string())
        name += c == '*' ? std::string(".*") : c == '.' ? "\\." : std::string(1, c);
      for (const auto& entry : fs::directory_iterator(at.parent_path()))
        if (std::regex_match(entry.path().filename().string(), std::regex(name))) return true;
    }
    if (base.empty()) return false;
  }
}

TEST(Readmes, EveryPathExists) {
  static const std::regex path(R"([\w.*{},/+-]+)"),
      file(R"(.*\w\.(h|cpp|cu|py|md|cmake|\{h,cpp\}))"),
      ours(R"((\.\./)*(core|nn|models|data|dist|apps|tests)/.+)");
  int checked = 0;
  for (const Page& page : pages())
    for (const std::string& word : in_backticks(page)) {
      if (!std::regex_match(word, path) || word.find("NAME") != std::string::npos) continue;
      if (!std::regex_match(word, file) && !std::regex_match(word, ours)) continue;
      ++checked;
      if (const std::size_t both = word.find("{h,cpp}"); both != std::string::npos) {
        EXPECT_TRUE(exists(page, word.substr(0, both) + "h")) << page.path << ": " << word;
        EXPECT_TRUE(exists(page, word.substr(0, both) + "cpp")) << page.path << ": " << word;
      } else {
        EXPECT_TRUE(exists(page, word)) << page.path << ": " << word;
      }
    }
  EXPECT_GT(checked, 50);
}

TEST(Readmes, EveryLinkLeadsSomewhere) {
  static const std::regex link(R"(\]\(([^)#:]+)\))");
  for (const Page& page : pages())
    for (const std::string& to : matches(page.prose, link))
      EXPECT_TRUE(fs::exists(root / page.path.parent_path() / to)) << page.path << ": " << to;
}

// `conv2d()`, `FlatParams`, `FlatParams::on_ready`: the last part is a word of the sources.
TEST(Readmes, EverySymbolExists) {
  static const std::regex word(R"((\w+))"), call(R"([\w:]+\(\))"),
      type(R"([A-Z]\w*[a-z]\w*(::\w+)?)");
  const std::vector<std::string> list = matches(sources(), word);
  const std::set<std::string> words(list.begin(), list.end());
  int checked = 0;
  for (const Page& page : pages())
    for (std::string symbol : in_backticks(page)) {
      if (!std::regex_match(symbol, call) && !std::regex_match(symbol, type)) continue;
      ++checked;
      if (symbol.ends_with("()")) symbol.resize(symbol.size() - 2);
      if (const std::size_t colon = symbol.rfind(':'); colon != std::string::npos)
        symbol = symbol.substr(colon + 1);
      EXPECT_TRUE(words.contains(symbol)) << page.path << ": " << symbol;
    }
  EXPECT_GT(checked, 5);
}

TEST(Readmes, EveryConfigurationKeyExists) {
  static const std::regex key(
      R"(\b((?:train|data|model|optim|dist|run|eval|control)\.[a-z][a-z0-9_]*)\b(?![./(]))");
  std::set<std::string> known;
  for (const apps::KeyText& each : apps::key_texts()) known.insert(each.name);
  static const std::set<std::string> files{"bin", "toml", "cpp",   "h",  "sh",
                                           "py",  "json", "jsonl", "md", "safetensors"};
  for (const Page& page : pages())
    for (const std::string& name : matches(page.prose, key))
      if (!files.contains(name.substr(name.find('.') + 1)))
        EXPECT_TRUE(known.contains(name)) << page.path << ": " << name;
}

// tests/README.md lists the oracles T1 to T30.
TEST(Readmes, EveryOracleNamesATest) {
  const std::string listed = text_of(root / "tests/README.md");
  for (int i = 1; i <= 30; ++i) {
    const std::string name = "T" + std::to_string(i);
    EXPECT_NE(listed.find("| " + name + " |"), std::string::npos) << name;
    EXPECT_NE(sources().find(", " + name + "_"), std::string::npos) << "no test is named " << name;
  }
}

TEST(Readmes, TheTablesOfDistNameEveryMethodAndGraph) {
  const std::string text = text_of(root / "dist/README.md");
  std::vector<std::string> names = dist::method_names();
  for (const std::string& name : dist::rounds_names()) names.push_back(name);
  for (const std::string& name : names)  // `aer:L`
    EXPECT_TRUE(std::regex_search(text, std::regex("\\n\\|.*`" + name + "[`:].*\\|"))) << name;
}

// White space does not count: a block may be indented in a test.
TEST(Readmes, EveryCodeBlockStandsInTheSources) {
  const auto squeezed = [](const std::string& text) {
    std::string out;
    for (const char c : text)
      if (!std::isspace(static_cast<unsigned char>(c))) out += c;
    return out;
  };
  const std::string code = squeezed(sources());
  int blocks = 0;
  for (const Page& page : pages())
    for (const auto& [language, text] : page.blocks) {
      if (language != "cpp") continue;
      ++blocks;
      EXPECT_NE(code.find(squeezed(text)), std::string::npos)
          << "no source file contains this block of " << page.path << ":\n"
          << text;
    }
  EXPECT_GE(blocks, 2);
}

// A block may leave out lines of its program, which tests/consumers/run compiles and runs.
TEST(Readmes, EveryBlockOfThePagesOnEmbeddingIsOfAProgramThatUsesIt) {
  const auto lines_of = [](const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
      if (const auto begin = line.find_first_not_of(" \t"); begin != line.npos)
        lines.push_back(line.substr(begin));
    return lines;
  };
  std::vector<std::vector<std::string>> programs;
  for (const auto& entry : fs::recursive_directory_iterator(root / "tests/consumers"))
    if (entry.is_regular_file()) programs.push_back(lines_of(text_of(entry.path())));
  int blocks = 0;
  for (const Page& page : pages())
    for (const auto& [language, text] : page.blocks) {
      if (!page.path.string().starts_with("apps/capi/")) continue;
      ++blocks;
      const std::vector<std::string> wanted = lines_of(text);
      EXPECT_TRUE(std::ranges::any_of(programs,
                                      [&](const auto& program) {
                                        auto next = wanted.begin();
                                        for (const std::string& line : program)
                                          if (next != wanted.end() && *next == line) ++next;
                                        return next == wanted.end();
                                      }))
          << "no program below tests/consumers has the lines of this block of " << page.path
          << ":\n"
          << text;
    }
  EXPECT_GE(blocks, 10);
}

TEST(Readmes, NoChapterIsLongerThanTwoThousandWords) {
  for (const Page& page : pages()) {
    std::istringstream in(page.text);
    int words = 0;
    for (std::string word; in >> word;)
      words += std::ranges::any_of(word, [](unsigned char c) { return std::isalnum(c) != 0; });
    EXPECT_LE(words, 2000) << page.path;
  }
}

// Rows of tables may be longer, and commands.
TEST(Readmes, NoLineIsLongerThanAHundredCharacters) {
  for (const Page& page : pages()) {
    std::istringstream lines(page.prose);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("|") || line.starts_with("    ")) continue;
      EXPECT_LE(std::ranges::count_if(
                    line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }),
                100)
          << page.path << ": " << line;
    }
  }
}

}  // namespace
}  // namespace gossamer
