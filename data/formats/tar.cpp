// The tar format: a header of 512 bytes before each file, with numbers as octal text and a
// checksum; extensions are files of special types that describe the next file. Nothing is trusted:
// each length is compared with the bytes that are left before it is used.
#include "gossamer/data/formats/tar.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"

namespace gossamer::data {
namespace {

constexpr std::uint64_t kRecord = 512;
// the longest path, and the longest extension record, that is accepted
constexpr std::uint64_t kMaxName = 1 << 16;
// bytes after the end mark that are checked; GNU tar pads to 10 KiB, for tapes to a megabyte
constexpr std::uint64_t kMaxPadding = 16 << 20;
// the longest name of an inner archive: it is put before the name of each of its files
constexpr std::size_t kMaxStem = 255;

std::string_view field(const std::byte* header, std::size_t at, std::size_t length) {
  const char* text = reinterpret_cast<const char*>(header) + at;
  return {text, strnlen(text, length)};
}

// Octal text, or (top bit set) a big-endian binary number. False: neither.
bool number(const std::byte* header, std::size_t at, std::size_t length, std::uint64_t& value) {
  value = 0;
  if (std::to_integer<unsigned>(header[at]) & 0x80u) {
    if (header[at] != std::byte{0x80}) return false;  // negative, or beyond 64 bits
    for (std::size_t i = 1; i < length; ++i) {
      if (value >> 56) return false;
      value = value << 8 | std::to_integer<std::uint64_t>(header[at + i]);
    }
    return true;
  }
  std::string_view text = field(header, at, length);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  for (const char c : text) {
    if (c < '0' || c > '7' || value >> 60) return false;
    value = value << 3 | static_cast<std::uint64_t>(c - '0');
  }
  return true;
}

bool sum_is_right(const std::byte* header) {
  std::uint64_t wanted = 0, sum = 0;
  if (!number(header, 148, 8, wanted)) return false;
  for (std::size_t i = 0; i < kRecord; ++i)
    sum += i >= 148 && i < 156 ? ' ' : std::to_integer<std::uint64_t>(header[i]);
  return sum == wanted;
}

bool all_zero(const std::byte* header) {
  return std::all_of(header, header + kRecord, [](std::byte b) { return b == std::byte{0}; });
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What extensions say about the next file.
struct Described {
  std::string name, link;
  std::optional<std::uint64_t> size;
  bool sparse = false;
};

// pax: lines "LENGTH KEY=VALUE\n", where LENGTH counts the whole line. Only paths, the size and
// holes are used here.
bool read_pax(std::string_view text, Described& next) {
  while (!text.empty() && text.front() != '\0') {
    std::size_t length = 0, at = 0;
    while (at < text.size() && at < 8 && text[at] >= '0' && text[at] <= '9')
      length = length * 10 + static_cast<std::size_t>(text[at++] - '0');
    if (at == 0 || at >= text.size() || text[at] != ' ' || length <= at + 2 ||
        length > text.size() || text[length - 1] != '\n')
      return false;
    const std::string_view line = text.substr(at + 1, length - at - 2);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = line.substr(0, equals), value = line.substr(equals + 1);
    if (key == "path" || key == "GNU.sparse.name") next.name = value;
    if (key == "linkpath") next.link = value;
    if (key.starts_with("GNU.sparse.")) next.sparse = true;
    if (key == "size") {
      std::uint64_t size = 0;
      if (value.empty() || value.size() > 18) return false;
      for (const char c : value) {
        if (c < '0' || c > '9') return false;
        size = size * 10 + static_cast<std::uint64_t>(c - '0');
      }
      next.size = size;
    }
    text.remove_prefix(length);
  }
  return true;
}

class Indexer {
 public:
  Indexer(ByteReader& reader, const std::string& path, Members& members)
      : reader_(reader), path_(path), members_(members) {}

  // `base`: where this archive of `length` bytes begins in the outermost one.
  void run(std::uint64_t base, std::uint64_t length, const std::string& folder, int depth) {
    std::uint64_t at = 0;
    while (length - at >= kRecord) {
      // a copy, because reading extensions and inner archives invalidates it
      std::byte header[kRecord];
      std::ranges::copy(reader_.at(base + at, kRecord), header);
      if (all_zero(header)) return check_nothing_follows(base, at, length);  // the end mark
      if (!sum_is_right(header))
        damaged(base + at, at == 0 ? "this is not a tar archive" : "damaged header");
      std::uint64_t size = 0;
      if (!number(header, 124, 12, size)) damaged(base + at, "the size of a file is unreadable");
      const char type = static_cast<char>(std::to_integer<unsigned char>(header[156]));
      const bool extension = type == 'x' || type == 'g' || type == 'L' || type == 'K';
      if (next_.size && !extension) size = *next_.size;
      // links, devices, folders: some writers give a size, but none writes content
      if (type >= '1' && type <= '6') size = 0;
      const std::uint64_t left = length - at - kRecord;
      const std::string name = name_of(header);
      if (size > left)
        damaged(base + at, "it is cut off: '" + name + "' needs " + std::to_string(size) +
                               " bytes, " + std::to_string(left) + " are left");
      if (type == 'S' || (next_.sparse && !extension))
        damaged(base + at, "'" + name + "' is stored sparse; pack it again without --sparse");
      if (extension)
        extend(type, base + at, size);
      else if (type == '0' || type == '\0' || type == '7') {
        add(name, base + at + kRecord, size, folder, depth);
        next_ = {};
      } else if (type == '1') {
        add_link(name, link_of(header), base + at, folder);
        next_ = {};
      } else
        next_ = {};  // folders, symbolic links, devices
      const std::uint64_t padded = (size + kRecord - 1) / kRecord * kRecord;
      at += kRecord + std::min(padded, left);  // the last padding may be missing
    }
    if (at != length) damaged(base + at, "it is cut off inside a header");
    fail<DataError>(path_, ": unreadable tar at byte ", base + at,
                    ": no end mark (1024 zero bytes) follows the last file, so the archive may be "
                    "cut off. Copy or pack it again",
                    depth == 0 && has_ending(path_, {".tar"})
                        ? "; if it is whole, add the mark: head -c 1024 /dev/zero >> " + path_
                        : ".");
  }

 private:
  // Readers of tar see only the first archive in the output of `cat a.tar b.tar`.
  void check_nothing_follows(std::uint64_t base, std::uint64_t at, std::uint64_t length) {
    const std::uint64_t end = std::min(length, at + kMaxPadding);
    for (; at + kRecord <= end; at += kRecord) {
      const auto block = reader_.at(base + at, kRecord);
      if (all_zero(block.data())) continue;
      check<DataError>(!sum_is_right(block.data()), path_, ": unreadable tar at byte ", base + at,
                       ": another archive follows behind the end of the ",
                       "first. Keep them apart and give both, or join them by tar --concatenate "
                       "-f FIRST.tar SECOND.tar.");
      return;
    }
  }

  [[noreturn]] void damaged(std::uint64_t at, const std::string& what) const {
    fail<DataError>(path_, ": unreadable tar at byte ", at, ": ", printable(what),
                    ". Copy or pack it again.");
  }

  std::string name_of(const std::byte* header) const {
    if (!next_.name.empty()) return next_.name;
    const std::string_view name = field(header, 0, 100);
    // GNU writes "ustar  " and uses the prefix otherwise
    const bool ustar = std::memcmp(header + 257, "ustar\0", 6) == 0;
    const std::string_view prefix = ustar ? field(header, 345, 155) : std::string_view();
    return prefix.empty() ? std::string(name) : std::string(prefix) + "/" + std::string(name);
  }
  std::string link_of(const std::byte* header) const {
    return next_.link.empty() ? std::string(field(header, 157, 100)) : next_.link;
  }

  void extend(char type, std::uint64_t at, std::uint64_t size) {
    if (type == 'g') return;  // defaults for all files
    if (size > kMaxName) damaged(at, "a name of " + std::to_string(size) + " bytes");
    const auto content = reader_.at(at + kRecord, static_cast<std::size_t>(size));
    if (type == 'L')
      next_.name = field(content.data(), 0, content.size());
    else if (type == 'K')
      next_.link = field(content.data(), 0, content.size());
    else if (!read_pax(text_of(content), next_))
      damaged(at, "damaged pax record");
  }

  static std::string plain(std::string name) {
    while (name.starts_with("./")) name.erase(0, 2);
    return name;
  }
  // A second name of an earlier file: tar stores the content of a hard-linked file once.
  void add_link(const std::string& given, const std::string& target, std::uint64_t at,
                const std::string& folder) {
    const std::string name = plain(given);
    if (is_hidden(name) || !is_image_name(name)) return;
    for (; listed_ < static_cast<std::size_t>(members_.size()); ++listed_)
      by_name_[members_.names.at(static_cast<i64>(listed_))] = listed_;
    const auto found = by_name_.find(folder + plain(target));
    if (found == by_name_.end())
      damaged(at, "'" + name + "' is a hard link to '" + target +
                      "', which does not come before it; pack with --hard-dereference");
    put(folder + name, members_.offset[found->second], members_.bytes[found->second]);
  }

  void add(std::string name, std::uint64_t offset, std::uint64_t bytes, const std::string& folder,
           int depth) {
    name = plain(std::move(name));
    if (is_hidden(name)) return;
    if (depth == 0 && has_ending(name, {".tar"})) {
      const std::size_t slash = name.rfind('/');
      const std::size_t from = slash == std::string::npos ? 0 : slash + 1;
      const std::string stem = name.substr(from, name.size() - from - 4);
      if (stem.size() > kMaxStem)
        damaged(offset,
                "an archive inside has a name of " + std::to_string(stem.size()) + " bytes");
      next_ = {};
      run(offset, bytes, stem + "/", 1);
      return;
    }
    put(folder + name, offset, bytes);
  }

  void put(const std::string& name, std::uint64_t offset, std::uint64_t bytes) {
    members_.names.add(name);
    members_.offset.push_back(offset);
    members_.bytes.push_back(bytes);
  }

  ByteReader& reader_;
  const std::string& path_;
  Members& members_;
  Described next_;
  // positions of the first listed_ members; filled when a hard link needs them
  std::unordered_map<std::string, std::size_t> by_name_;
  std::size_t listed_ = 0;
};

}  // namespace

bool looks_like_tar(std::span<const std::byte> start) {
  return start.size() >= kRecord && !all_zero(start.data()) && sum_is_right(start.data());
}

Members list_tar(ByteReader& archive, const std::string& path) {
  check<DataError>(archive.size() > 0, path,
                   ": the file is empty; a tar of class/name.jpg was expected");
  const std::string_view start =
      text_of(archive.at(0, static_cast<std::size_t>(std::min<std::uint64_t>(archive.size(), 8))));
  // gzip, bzip2, xz, zstd
  for (const char* compressed : {"\x1F\x8B", "BZh", "\xFD\x37zXZ", "\x28\xB5\x2F\xFD"})
    check<DataError>(!start.starts_with(compressed), code::not_understood, path,
                     ": this archive is compressed; unpack it to a plain .tar first (pictures "
                     "don't shrink, and plain ones are read in place)");
  check<DataError>(archive.size() >= kRecord, path, ": unreadable tar: only ", archive.size(),
                   " bytes");
  Members members;
  Indexer(archive, path, members).run(0, archive.size(), "", 0);
  return members;
}

std::vector<TarEntry> index_tar(std::span<const std::byte> archive, const std::string& path) {
  MemoryReader reader(archive);
  const Members members = list_tar(reader, path);
  std::vector<TarEntry> entries;
  members.names.each([&](i64 i, const std::string& name) {
    entries.push_back({name, members.offset[static_cast<std::size_t>(i)],
                       members.bytes[static_cast<std::size_t>(i)]});
  });
  return entries;
}

}  // namespace gossamer::data
