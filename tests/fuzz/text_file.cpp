// Fuzz target of files of text: any bytes give lines, which together are the file, or a DataError;
// as a line of JSON they give text, a question or an example, or a DataError.
//
// sources: text_file inflate json_lines choices examples_json utf8 files printable nesting
// sources: file_names
// libraries: -lz -lzstd
#include "gossamer/data/text/text_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/text/choices.h"
#include "gossamer/data/text/examples.h"
#include "gossamer/data/text/inflate.h"
#include "gossamer/data/text/json_lines.h"

using namespace gossamer;
using namespace gossamer::data;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("fuzz-text-" + std::to_string(getpid()))).string();
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const std::string text = text_in_json(bytes, "text", "line");
    if (valid_utf8(text) != text.size()) std::abort();
  } catch (const gossamer::DataError&) {
  }
  try {
    const Choices choices = choices_in_json(bytes, "line");
    if (choices.endings.size() < 2 || choices.right >= choices.endings.size()) std::abort();
  } catch (const gossamer::DataError&) {
  }
  try {
    const Example example = example_in_json(bytes, "line");
    if (example.messages.empty() && example.completion.empty()) std::abort();
    if (!example.messages.empty() && example.messages[0].role == "assistant") std::abort();
  } catch (const gossamer::DataError&) {
  }
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    TextFile file(path);
    std::string all;
    for (std::string line; file.next(line); all += line)
      if (line.empty() || line.find('\n') < line.size() - 1) std::abort();
    if (!Inflater::of(std::as_bytes(std::span(bytes))) && all != bytes) std::abort();
    try {
      file.check_utf8(all);
      for (std::size_t at = 0; at < all.size(); at += utf8_length(all.substr(at, 4)))
        if (utf8_length(all.substr(at, 4)) == 0) std::abort();
    } catch (const gossamer::DataError&) {
      if (valid_utf8(all) == all.size()) std::abort();
    }
  } catch (const gossamer::DataError&) {
  }
  std::filesystem::remove(path);
  return 0;
}
