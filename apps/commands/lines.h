// The lines of a file that a command reads one after the other, or of standard input.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace gossamer::apps {

class Lines {
 public:
  // "-": standard input. IoError: the file cannot be opened.
  explicit Lines(const std::string& file);
  // The next line, without its end; false: there is none. Waits for this one only, not for more.
  // IoError: reading failed.
  bool next(std::string& line);
  // FILE:LINE of the line that next() gave last.
  std::string place() const;
  // DataError, with place(): it is no UTF-8.
  void check_utf8(const std::string& line) const;
  // Somebody types these lines, and waits for each answer.
  bool typed() const;

 private:
  std::istream& in();
  std::string name_;
  bool stored_;
  std::ifstream file_;
  std::size_t read_ = 0;
};

}  // namespace gossamer::apps
