// Reading and writing .bin files. Ids are little-endian, as this program's CPUs are.
#include "gossamer/data/text/token_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"

namespace gossamer::data {
namespace {

using Header = std::array<std::int32_t, 256>;
constexpr std::int32_t kMagic16 = 20240520, kVersion16 = 1, kMagic32 = 20240801, kVersion32 = 7;
constexpr i64 kMostIds16 = i64{1} << 16;

struct Layout {
  std::size_t begin = 0;  // byte of the first id
  int width = 2;
  i64 count = 0;
};

Layout layout_of(const File& file) {
  const std::string name = printable(file.path());
  const std::size_t size = file.size();
  check<DataError>(size > 0, code::damaged, name, ": the file is empty");
  Header header{};
  std::int32_t magic = 0;
  if (size >= sizeof magic) file.read(0, std::as_writable_bytes(std::span(&magic, 1)));
  if (magic != kMagic16 && magic != kMagic32) {
    check<DataError>(size % 2 == 0, code::damaged, name, ": ", size,
                     " bytes are no file of u16 ids; it was cut short, or is no .bin file of ids");
    return {0, 2, static_cast<i64>(size / 2)};
  }
  check<DataError>(size >= sizeof header, code::damaged, name, ": ends at byte ", size,
                   ", inside its header of 1024 bytes");
  file.read(0, std::as_writable_bytes(std::span(header)));
  const int wanted = magic == kMagic16 ? kVersion16 : kVersion32;
  check<DataError>(header[1] == wanted, code::damaged, name, ": is of version ", header[1],
                   "; of files with magic ", magic, ", version ", wanted, " is known");
  const int width = magic == kMagic16 ? 2 : 4;
  const i64 count = header[2];
  const i64 held = static_cast<i64>((size - sizeof header) / static_cast<std::size_t>(width));
  check<DataError>(count == held && (size - sizeof header) % static_cast<std::size_t>(width) == 0,
                   code::damaged, name, ": its header says ", count, " ids, and it has ", held,
                   held < count ? "; it was cut short" : "; it was written by something else");
  return {sizeof header, width, count};
}

}  // namespace

TokenFiles::TokenFiles(const std::vector<std::string>& paths, i64 vocabulary)
    : vocabulary_(vocabulary), paths_(paths) {
  i64 end = 0;
  for (const std::string& path : paths) {
    files_.push_back(std::make_unique<File>(path));
    const Layout layout = layout_of(*files_.back());
    begins_.push_back(layout.begin);
    widths_.push_back(layout.width);
    ends_.push_back(end += layout.count);
  }
}
TokenFiles::~TokenFiles() = default;

std::string TokenFiles::place(i64 at) const {
  const auto f = static_cast<std::size_t>(std::ranges::upper_bound(ends_, at) - ends_.begin());
  const i64 before = f ? ends_[f - 1] : 0;
  return (f < files_.size() ? printable(files_[f]->path()) : "end") + ": id " +
         std::to_string(at - before);
}

void TokenFiles::read(i64 at, std::span<std::int32_t> to) const {
  check(at >= 0 && static_cast<i64>(to.size()) <= size() - at, "ids ", at, " to ",
        at + static_cast<i64>(to.size()), " of ", size());
  auto f = static_cast<std::size_t>(std::ranges::upper_bound(ends_, at) - ends_.begin());
  for (i64 position = at; !to.empty(); ++f) {
    const i64 before = f ? ends_[f - 1] : 0;
    const auto n =
        static_cast<std::size_t>(std::min<i64>(static_cast<i64>(to.size()), ends_[f] - position));
    const auto width = static_cast<std::size_t>(widths_[f]);
    const std::span part = to.first(n);
    // The file's bytes go to the end of their place, and are widened from its beginning.
    std::byte* const bytes = std::as_writable_bytes(part).data() + n * (4 - width);
    files_[f]->read(begins_[f] + static_cast<std::size_t>(position - before) * width,
                    {bytes, n * width});
    if (width == 2)
      for (std::size_t i = 0; i < n; ++i) {
        std::uint16_t id = 0;
        std::memcpy(&id, bytes + 2 * i, 2);
        part[i] = id;
      }
    const auto wrong = std::ranges::find_if(
        part, [this](std::int32_t id) { return id < 0 || (vocabulary_ > 0 && id >= vocabulary_); });
    if (wrong != part.end())
      fail<DataError>(code::damaged, place(position + (wrong - part.begin())), " is ", *wrong,
                      "; the vocabulary has ", vocabulary_,
                      ". Was the file made with another tokenizer?");
    position += static_cast<i64>(n);
    to = to.subspan(n);
  }
}

TokenFormat parse_token_format(const std::string& name) {
  if (name == "llm.c") return TokenFormat::llmc;
  check<ConfigError>(name == "nanogpt", "\"", name,
                     "\" is no format of .bin files; use llm.c or nanogpt");
  return TokenFormat::nanogpt;
}

struct TokenWriter::Impl {
  std::string prefix;
  TokenFormat format;
  int width;
  i64 shard, total = 0, in_file = 0;
  std::vector<std::string> paths;  // without .tmp
  std::FILE* file = nullptr;
  std::vector<char> narrow;

  [[noreturn]] void fail_errno(const char* what) const {
    fail<IoError>(printable(paths.back()), ".tmp: cannot ", what, ": ", std::strerror(errno));
  }
  bool is_plain() const { return format == TokenFormat::nanogpt; }

  void begin() {
    std::string number = std::to_string(paths.size());
    number.insert(0, number.size() < 5 ? 5 - number.size() : 0, '0');
    paths.push_back(prefix + (is_plain() ? "" : "-" + number) + ".bin");
    file = std::fopen((paths.back() + ".tmp").c_str(), "wb");
    if (!file) fail_errno("make");
    in_file = 0;
    if (!is_plain()) write_header();
  }
  void write_header() {
    Header header{};
    header[0] = width == 2 ? kMagic16 : kMagic32;
    header[1] = width == 2 ? kVersion16 : kVersion32;
    header[2] = static_cast<std::int32_t>(in_file);
    if (std::fwrite(header.data(), sizeof header, 1, file) != 1) fail_errno("write");
  }
  void end() {
    if (!file) return;
    if (!is_plain()) {
      if (std::fseek(file, 0, SEEK_SET) != 0) fail_errno("write");
      write_header();
    }
    if (std::fflush(file) != 0 || ::fsync(fileno(file)) != 0) fail_errno("write");
    std::FILE* const closed = std::exchange(file, nullptr);
    if (std::fclose(closed) != 0) fail_errno("close");
  }
};

TokenWriter::TokenWriter(std::string prefix, TokenFormat format, i64 vocabulary, i64 shard)
    : impl_(std::make_unique<Impl>()) {
  const bool narrow = vocabulary <= kMostIds16;
  check<ConfigError>(narrow || format != TokenFormat::nanogpt, "a vocabulary of ", vocabulary,
                     " ids does not fit nanoGPT's u16; use the format llm.c");
  check<ConfigError>(shard >= 1 && shard <= std::numeric_limits<std::int32_t>::max(), "a shard of ",
                     shard, " ids; use 1 to 2147483647");
  impl_->prefix = std::move(prefix);
  impl_->format = format;
  impl_->width = narrow ? 2 : 4;
  impl_->shard = format == TokenFormat::nanogpt ? std::numeric_limits<i64>::max() : shard;
}

TokenWriter::~TokenWriter() {
  if (impl_->file) std::fclose(impl_->file);
  std::error_code none;
  for (const std::string& path : impl_->paths) std::filesystem::remove(path + ".tmp", none);
}

void TokenWriter::add(std::span<const std::int32_t> ids) {
  Impl& s = *impl_;
  while (!ids.empty()) {
    if (s.file && s.in_file == s.shard) s.end();
    if (!s.file) s.begin();
    const auto n =
        static_cast<std::size_t>(std::min<i64>(static_cast<i64>(ids.size()), s.shard - s.in_file));
    const auto width = static_cast<std::size_t>(s.width);
    s.narrow.resize(n * width);
    for (std::size_t i = 0; i < n; ++i) std::memcpy(s.narrow.data() + i * width, &ids[i], width);
    if (std::fwrite(s.narrow.data(), 1, s.narrow.size(), s.file) != s.narrow.size())
      s.fail_errno("write");
    s.in_file += static_cast<i64>(n);
    s.total += static_cast<i64>(n);
    ids = ids.subspan(n);
  }
}

std::vector<std::string> TokenWriter::close() {
  impl_->end();
  std::vector<std::string> names;
  for (const std::string& path : impl_->paths) {
    const bool placed = std::rename((path + ".tmp").c_str(), path.c_str()) == 0;
    check<IoError>(placed, printable(path), ": cannot be put in place: ", std::strerror(errno));
    names.push_back(std::filesystem::path(path).filename().string());
  }
  impl_->paths.clear();
  return names;
}

i64 TokenWriter::size() const { return impl_->total; }

}  // namespace gossamer::data
