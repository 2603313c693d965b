// A block of the file is read, inflated if need be, and handed out by lines.
#include "gossamer/data/text/text_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include <zlib.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = std::size_t{1} << 18;
constexpr std::size_t kLongestLine = std::size_t{1} << 30;

constexpr std::array<std::string_view, 4> kSuffixes{".txt", ".text", ".md", ".jsonl"};

}  // namespace

struct TextFile::Impl {
  explicit Impl(const std::string& path) : file(path), block(kBlock) {
    std::array<unsigned char, 2> magic{};
    if (file.size() >= magic.size()) file.read(0, std::as_writable_bytes(std::span(magic)));
    is_gzip = magic[0] == 0x1f && magic[1] == 0x8b;
    if (!is_gzip) return;
    check(inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK, "zlib: out of memory");
    inflated.resize(kBlock);
  }
  ~Impl() {
    if (is_gzip) inflateEnd(&stream);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // The next bytes of the file into `block`.
  std::size_t read_block() {
    const std::size_t n = std::min(block.size(), file.size() - at);
    file.read(at, std::span(block).first(n));
    at += n;
    return n;
  }
  [[noreturn]] void fail_gzip(const char* what) const {
    fail<DataError>(code::damaged, printable(file.path()), ": damaged gzip before byte ",
                    at - stream.avail_in, ": ", what);
  }
  // Reads more text into `text`; false: there is none.
  bool fill() {
    text = {};
    taken = 0;
    if (!is_gzip) {
      const std::size_t n = read_block();
      text = {reinterpret_cast<const char*>(block.data()), n};
      return n > 0;
    }
    while (true) {
      if (stream.avail_in == 0) {
        const std::size_t n = read_block();
        if (n == 0 && ended) return false;
        if (n == 0) fail_gzip("it was cut short");
        stream.next_in = reinterpret_cast<Bytef*>(block.data());
        stream.avail_in = static_cast<uInt>(n);
      }
      // several gzip files behind each other are one text
      if (ended && inflateReset(&stream) != Z_OK) fail_gzip("zlib gave up");
      ended = false;
      stream.next_out = reinterpret_cast<Bytef*>(inflated.data());
      stream.avail_out = static_cast<uInt>(inflated.size());
      const int got = inflate(&stream, Z_NO_FLUSH);
      if (got != Z_OK && got != Z_STREAM_END && got != Z_BUF_ERROR)
        fail_gzip(stream.msg ? stream.msg : "no valid data");
      ended = got == Z_STREAM_END;
      text = {inflated.data(), inflated.size() - stream.avail_out};
      if (!text.empty()) return true;
    }
  }

  File file;
  bool is_gzip = false, ended = false;  // ended: a gzip stream is over
  z_stream stream{};
  std::vector<std::byte> block;
  std::vector<char> inflated;
  std::size_t at = 0;     // in the file
  std::string_view text;  // of which `taken` bytes were handed out
  std::size_t taken = 0;
  i64 number = 0;
};

TextFile::TextFile(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
TextFile::~TextFile() = default;

const std::string& TextFile::path() const { return impl_->file.path(); }
i64 TextFile::number() const { return impl_->number; }
i64 TextFile::bytes_read() const { return static_cast<i64>(impl_->at); }

std::string TextFile::place() const {
  return printable(path()) + ":" + std::to_string(impl_->number);
}

bool TextFile::next(std::string& line) {
  Impl& s = *impl_;
  line.clear();
  ++s.number;
  while (s.taken < s.text.size() || s.fill()) {
    const std::string_view left = s.text.substr(s.taken);
    const std::size_t end = left.find('\n');
    const std::size_t n = end == std::string_view::npos ? left.size() : end + 1;
    check<DataError>(n <= kLongestLine - line.size(), code::damaged, place(),
                     ": a line of more than 1 GiB");
    line += left.substr(0, n);
    s.taken += n;
    if (end != std::string_view::npos) return true;
  }
  return !line.empty();
}

void TextFile::check_utf8(const std::string& line) const {
  const std::size_t valid = valid_utf8(line);
  check<DataError>(valid == line.size(), code::damaged, place(), ": byte ", valid + 1,
                   " of the line is no UTF-8; convert the file (iconv -t UTF-8), or take any bytes "
                   "as they are");
}

std::string text_suffix(const std::string& path) {
  std::string name = lower_case(fs::path(path).filename().string());
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return fs::path(name).extension().string();
}

std::vector<std::string> find_text_files(const std::vector<std::string>& paths,
                                         std::vector<std::string>* others) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      all.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (fs::recursive_directory_iterator it(path, error), end; !error && it != end;
         it.increment(error)) {
      const std::string file = it->path().string();
      if (is_hidden(file)) {
        if (it->is_directory(error)) it.disable_recursion_pending();
      } else if (it->is_regular_file(error)) {
        const bool text = std::ranges::find(kSuffixes, text_suffix(file)) != kSuffixes.end();
        if (text || others) (text ? found : *others).push_back(file);
      }
    }
    check<DataError>(!error, code::nothing, printable(path), ": ", error.message());
    check<DataError>(!found.empty(), code::nothing, printable(path),
                     ": holds no text; files that end with .txt, .text, .md or .jsonl are read, "
                     "also with .gz behind");
    std::ranges::sort(found);
    all.insert(all.end(), found.begin(), found.end());
  }
  if (others) std::ranges::sort(*others);
  return all;
}

}  // namespace gossamer::data
