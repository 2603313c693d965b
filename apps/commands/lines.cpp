// See lines.h.
#include "gossamer/apps/commands/lines.h"

#include <filesystem>
#include <iostream>

#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/utf8.h"

namespace gossamer::apps {

Lines::Lines(const std::string& file)
    : name_(file == "-" ? "standard input" : file), stored_(file != "-") {
  if (stored_) file_.open(file, std::ios::binary);
  check<IoError>(in().good() && (!stored_ || !std::filesystem::is_directory(file)), name_,
                 ": cannot open this file of lines");
}

bool Lines::next(std::string& line) {
  const bool found = static_cast<bool>(std::getline(in(), line));
  check<IoError>(!in().bad(), name_, ": reading failed behind line ", read_);
  if (!found) return false;
  ++read_;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

std::string Lines::place() const { return name_ + ":" + std::to_string(read_); }

void Lines::check_utf8(const std::string& line) const {
  const std::size_t valid = valid_utf8(line);
  check<DataError>(valid == line.size(), place(), ": byte ", valid + 1, " of the line is no UTF-8");
}

bool Lines::typed() const { return !stored_ && isatty(STDIN_FILENO) == 1; }

std::istream& Lines::in() { return stored_ ? file_ : std::cin; }

}  // namespace gossamer::apps
