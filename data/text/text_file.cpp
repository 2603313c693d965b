// A block of the file is read, inflated if need be, and handed out by lines.
#include "gossamer/data/text/text_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/text/inflate.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = std::size_t{1} << 18;
constexpr std::size_t kLongestLine = std::size_t{1} << 30;

constexpr std::array<std::string_view, 4> kSuffixes{".txt", ".text", ".md", ".jsonl"};

}  // namespace

// The bytes of a file, or of standard input.
class TextFile::Bytes {
 public:
  virtual ~Bytes() = default;
  // Up to to.size() bytes; none: it is over.
  virtual std::size_t read(std::span<std::byte> to) = 0;
};

namespace {

constexpr const char* kStandardInput = "standard input";

class Stored final : public TextFile::Bytes {
 public:
  explicit Stored(const std::string& path) : file_(path) {}
  std::size_t read(std::span<std::byte> to) override {
    const std::size_t n = std::min(to.size(), file_.size() - at_);
    file_.read(at_, to.first(n));
    at_ += n;
    return n;
  }

 private:
  File file_;
  std::size_t at_ = 0;
};

class StandardInput final : public TextFile::Bytes {
 public:
  explicit StandardInput(std::function<void()> waiting) : waiting_(std::move(waiting)) {}
  std::size_t read(std::span<std::byte> to) override {
    while (true) {
      pollfd input{STDIN_FILENO, POLLIN, 0};
      constexpr int kMilliseconds = 100;
      if (::poll(&input, 1, kMilliseconds) == 0) {
        if (waiting_) waiting_();
        continue;
      }
      const ssize_t got = ::read(STDIN_FILENO, to.data(), to.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      check<IoError>(errno == EINTR || errno == EAGAIN, kStandardInput,
                     ": reading failed: ", std::strerror(errno));
      if (waiting_) waiting_();
    }
  }

 private:
  std::function<void()> waiting_;
};

}  // namespace

struct TextFile::Impl {
  Impl(const std::string& path, std::function<void()> waiting)
      : name(path == "-" ? kStandardInput : path), standard_input(path == "-"), block(kBlock) {
    if (standard_input)
      bytes = std::make_unique<StandardInput>(std::move(waiting));
    else
      bytes = std::make_unique<Stored>(path);
    constexpr std::size_t kMagic = 4;
    while (left.size() < kMagic && read_behind(left.size())) {
    }
    inflater = Inflater::of(left);
    if (inflater) inflated.resize(kBlock);
  }

  // Reads bytes into `block` behind the first `held`, which are `left` with them; false: there are
  // none.
  bool read_behind(std::size_t held) {
    const std::size_t n = bytes->read(std::span(block).subspan(held));
    at += n;
    left = std::span(block).first(held + n);
    return n > 0;
  }
  [[noreturn]] void fail_inflating(const char* what) const {
    fail<DataError>(code::damaged, printable(name), ": damaged ", inflater->name(), " before byte ",
                    at - left.size(), ": ", what);
  }
  // Reads more text into `text`; false: there is none.
  bool fill() {
    text = {};
    taken = 0;
    if (!inflater) {
      if (left.empty() && !read_behind(0)) return false;
      const std::span<const std::byte> all = std::exchange(left, {});
      text = {reinterpret_cast<const char*>(all.data()), all.size()};
      return true;
    }
    while (true) {
      // A full `inflated` may have left text inside the library, which needs no more bytes for it.
      if (left.empty() && !full && !read_behind(0)) {
        if (!inflater->ended()) fail_inflating("it was cut short");
        return false;
      }
      const auto [used, made, error] = inflater->step(left, inflated);
      left = left.subspan(used);
      if (error) fail_inflating(error);
      full = made == inflated.size() && !inflater->ended();
      text = {inflated.data(), made};
      if (made > 0) return true;
    }
  }

  std::string name;
  bool standard_input;
  std::unique_ptr<Bytes> bytes;
  std::unique_ptr<Inflater> inflater;  // null: the text is not compressed
  bool full = false;
  std::vector<std::byte> block;
  std::span<const std::byte> left;  // of `block`: what is not yet text
  std::vector<char> inflated;
  std::size_t at = 0;     // in the file
  std::string_view text;  // of which `taken` bytes were handed out
  std::size_t taken = 0;
  i64 number = 0;
};

TextFile::TextFile(const std::string& path, std::function<void()> waiting)
    : impl_(std::make_unique<Impl>(path, std::move(waiting))) {}
TextFile::~TextFile() = default;

const std::string& TextFile::path() const { return impl_->name; }
bool TextFile::is_standard_input() const { return impl_->standard_input; }
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
  for (const std::string_view compressed : {".gz", ".zst"})
    if (name.ends_with(compressed)) {
      name.resize(name.size() - compressed.size());
      break;
    }
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
                     "also with .gz or .zst behind");
    std::ranges::sort(found);
    all.insert(all.end(), found.begin(), found.end());
  }
  if (others) std::ranges::sort(*others);
  return all;
}

}  // namespace gossamer::data
