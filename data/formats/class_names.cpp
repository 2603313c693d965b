// Lists of class names beside data sets.
#include "gossamer/data/formats/class_names.h"

#include <filesystem>
#include <set>

#include "gossamer/core/error.h"
#include "gossamer/data/files.h"

namespace gossamer::data {

namespace fs = std::filesystem;

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  while (!lines.empty() && lines.back().find_first_not_of(" \t") == std::string::npos)
    lines.pop_back();
  return lines;
}

std::vector<std::string> read_lines(const std::string& path) {
  const std::vector<std::byte> bytes = read_whole(path, std::size_t{64} << 20);
  return split_lines({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

bool is_wnid(std::string_view word) {
  return word.size() == 9 && word[0] == 'n' &&
         word.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

std::vector<std::string> class_names_beside(const std::string& path, int wanted) {
  const fs::path folder = fs::absolute(path).parent_path();
  for (const fs::path& place : {folder, folder.parent_path()})
    for (const char* name : {"LOC_synset_mapping.txt", "synset_words.txt", "synsets.txt",
                             "imagenet_lsvrc_2015_synsets.txt", "classes.txt", "classnames.txt"}) {
      std::error_code ignored;
      if (!fs::is_regular_file(place / name, ignored)) continue;
      std::vector<std::string> names;
      for (const std::string& line : read_lines((place / name).string())) {
        const std::string word = line.substr(0, line.find_first_of(" \t"));
        names.push_back(printable(is_wnid(word) ? word : line));
      }
      // Words of ImageNet's classes are not unique (two are called "crane"): such a list names
      // nothing.
      if (static_cast<int>(names.size()) >= wanted &&
          std::set<std::string>(names.begin(), names.end()).size() == names.size())
        return names;
    }
  return {};
}

}  // namespace gossamer::data
