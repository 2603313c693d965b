// A TOML file as a table of toml++. toml++ 3.3 reads ASCII only: at a letter beyond, where it
// expects none and behind a line that ends with a backslash, its code has no end ("unreachable").
// So each byte beyond ASCII is given to it as a mark and two digits, and what it gives back, as
// well as its places, is turned back.
// Threads: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <toml++/toml.h>

namespace gossamer::apps {

class TomlText {
 public:
  // The text of a file; of a longer one than TOML may be here, or an endless one, its beginning and
  // a byte more than that. None: the file can't be read.
  static std::optional<std::string> of_file(const std::string& file);
  // ConfigError, with `file`:line:column: it is no TOML or no UTF-8, has more than 1 MiB, or a key
  // has more than 8 names. (toml++ frees tables in tables by recursion.)
  TomlText(const std::string& text, const std::string& file);

  // Its values are right; its keys want original().
  const toml::table& table() const { return table_; }
  std::string original(std::string_view ascii) const;
  // "file:line:column" where a region of the table begins. Columns are characters, from 1.
  std::string place(const toml::source_region&) const;

 private:
  std::size_t offset(const toml::source_region&) const;  // in ascii_

  std::string file_, ascii_;
  char mark_ = 0;  // 0: the text is ASCII
  toml::table table_;
};

}  // namespace gossamer::apps
