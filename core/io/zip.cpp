// See zip.h. All numbers in a zip archive are little-endian.
#include "gossamer/core/io/zip.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <zlib.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"

namespace gossamer {
namespace {

constexpr std::size_t kEnd = 22, kEnd64 = 56, kLocator64 = 20, kInDirectory = 46, kLocal = 30;
constexpr std::uint64_t kMostEntries = 1'000'000, kDirectoryCap = 256 << 20;
constexpr std::uint16_t kAll16 = 0xffff;
constexpr std::uint32_t kAll32 = 0xffffffff;  // the number stands in the zip64 part

template <class T>
T number(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.subspan(at, sizeof value).data(), sizeof value);
  return value;
}

bool is_at(std::span<const std::byte> bytes, std::size_t at, const char (&mark)[5]) {
  return bytes.size() >= at + 4 && std::memcmp(bytes.data() + at, mark, 4) == 0;
}

std::vector<std::byte> part(const InputFile& file, std::uint64_t offset, std::uint64_t size) {
  check<IoError>(offset <= file.size() && size <= file.size() - offset, file.name(),
                 ": its zip directory points beyond its end (cut short?)");
  std::vector<std::byte> bytes(size);
  file.read(offset, bytes);
  return bytes;
}

struct Directory {
  std::uint64_t offset, size, entries;
};

Directory find_directory(const InputFile& file) {
  // A comment of up to 64 KB may follow the record that ends the file.
  const auto tail_size = std::min<std::uint64_t>(file.size(), kEnd + kAll16);
  const std::vector<std::byte> tail = part(file, file.size() - tail_size, tail_size);
  std::size_t at = tail.size() < kEnd ? 0 : tail.size() - kEnd + 1;
  bool found = false;
  while (at > 0 && !found) {
    --at;
    found = is_at(tail, at, "PK\5\6") &&
            number<std::uint16_t>(tail, at + 20) == tail.size() - at - kEnd;
  }
  check<IoError>(found, file.name(), ": a zip archive without its directory (cut short?)");
  const auto disks = number<std::uint32_t>(tail, at + 4);
  Directory d{number<std::uint32_t>(tail, at + 16), number<std::uint32_t>(tail, at + 12),
              number<std::uint16_t>(tail, at + 10)};
  if (d.offset == kAll32 || d.size == kAll32 || d.entries == kAll16) {
    const std::uint64_t end = file.size() - tail.size() + at;
    const auto locator = part(file, end < kLocator64 ? file.size() : end - kLocator64, kLocator64);
    check<IoError>(is_at(locator, 0, "PK\6\7"), file.name(), ": its zip64 directory is missing");
    const auto end64 = part(file, number<std::uint64_t>(locator, 8), kEnd64);
    check<IoError>(is_at(end64, 0, "PK\6\6"), file.name(), ": its zip64 directory is damaged");
    d = {number<std::uint64_t>(end64, 48), number<std::uint64_t>(end64, 40),
         number<std::uint64_t>(end64, 32)};
  } else {
    check<IoError>(disks == 0, file.name(), ": one part of a zip archive of several files");
  }
  check<IoError>(d.entries <= kMostEntries && d.size <= kDirectoryCap, file.name(), ": ", d.entries,
                 " entries in a zip directory of ", d.size, " bytes; the limits are ", kMostEntries,
                 " and ", kDirectoryCap);
  return d;
}

// Numbers of the directory that do not fit 32 bits stand in the extra field, in this order.
void read_zip64(std::span<const std::byte> extra, std::uint64_t& size, std::uint64_t& stored,
                std::uint64_t& local) {
  for (; extra.size() >= 4;) {
    const auto kind = number<std::uint16_t>(extra, 0), length = number<std::uint16_t>(extra, 2);
    if (length > extra.size() - 4u) return;
    std::span<const std::byte> field = extra.subspan(4, length);
    extra = extra.subspan(4u + length);
    if (kind != 1) continue;
    for (std::uint64_t* value : {&size, &stored, &local})
      if (*value == kAll32 && field.size() >= 8) {
        *value = number<std::uint64_t>(field, 0);
        field = field.subspan(8);
      }
  }
}

// The size of entry i of the directory, with which `rest` begins.
std::size_t entry_size(const InputFile& file, std::span<const std::byte> rest, std::uint64_t i) {
  check<IoError>(rest.size() >= kInDirectory && is_at(rest, 0, "PK\1\2"), file.name(), ": entry ",
                 i, " of its zip directory is damaged");
  const std::size_t size = kInDirectory + number<std::uint16_t>(rest, 28) +
                           number<std::uint16_t>(rest, 30) + number<std::uint16_t>(rest, 32);
  check<IoError>(rest.size() >= size, file.name(), ": entry ", i,
                 " of its zip directory is cut short");
  return size;
}

}  // namespace

std::vector<ZipEntry> zip_entries(const InputFile& file) {
  const Directory directory = find_directory(file);
  const std::vector<std::byte> bytes = part(file, directory.offset, directory.size);
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  std::span<const std::byte> rest = bytes;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const std::size_t whole = entry_size(file, rest, i),
                      name_size = number<std::uint16_t>(rest, 28),
                      extra_size = number<std::uint16_t>(rest, 30);
    ZipEntry e;
    e.name.assign(reinterpret_cast<const char*>(rest.data()) + kInDirectory, name_size);
    e.name = printable(e.name);  // names are shown in messages
    const auto flags = number<std::uint16_t>(rest, 8), method = number<std::uint16_t>(rest, 10);
    e.crc = number<std::uint32_t>(rest, 16);
    std::uint64_t stored = number<std::uint32_t>(rest, 20), at = number<std::uint32_t>(rest, 42);
    e.size = number<std::uint32_t>(rest, 24);
    read_zip64(rest.subspan(kInDirectory + name_size, extra_size), e.size, stored, at);
    rest = rest.subspan(whole);
    check<IoError>((flags & 1) == 0, file.name(), ": \"", e.name, "\" is encrypted");
    check<IoError>(method == 0 && stored == e.size, file.name(), ": \"", e.name,
                   "\" is compressed. torch stores its files uncompressed; unpack this archive and "
                   "pack it again with zip -0, or save the file again with torch.save");
    check<IoError>(names.insert(e.name).second, file.name(), ": \"", e.name,
                   "\" is twice in its zip directory");
    const auto local = part(file, at, kLocal);
    check<IoError>(is_at(local, 0, "PK\3\4"), file.name(), ": \"", e.name,
                   "\" is not where the zip directory says");
    e.offset = at + kLocal + number<std::uint16_t>(local, 26) + number<std::uint16_t>(local, 28);
    check<IoError>(e.offset <= file.size() && e.size <= file.size() - e.offset, file.name(), ": \"",
                   e.name, "\" ends beyond the end of the file (cut short?)");
    entries.push_back(std::move(e));
  }
  std::vector<const ZipEntry*> order;
  for (const ZipEntry& e : entries) order.push_back(&e);
  std::ranges::sort(order, {}, &ZipEntry::offset);
  for (std::size_t i = 1; i < order.size(); ++i)
    check<IoError>(order[i - 1]->offset + order[i - 1]->size <= order[i]->offset, file.name(),
                   ": \"", order[i - 1]->name, "\" and \"", order[i]->name, "\" overlap");
  return entries;
}

std::vector<std::string> zip_names(const InputFile& file) {
  const Directory directory = find_directory(file);
  const std::vector<std::byte> bytes = part(file, directory.offset, directory.size);
  std::vector<std::string> names;
  std::span<const std::byte> rest = bytes;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const std::size_t size = entry_size(file, rest, i);
    names.emplace_back(reinterpret_cast<const char*>(rest.data()) + kInDirectory,
                       number<std::uint16_t>(rest, 28));
    rest = rest.subspan(size);
  }
  return names;
}

void read_zip_entry(const InputFile& file, const ZipEntry& entry, std::span<std::byte> to) {
  check<IoError>(to.size() == entry.size, file.name(), ": \"", entry.name, "\" has ", entry.size,
                 " bytes, asked for ", to.size());
  file.read(entry.offset, to);
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(to.data()), to.size());
  check<IoError>(crc == entry.crc, file.name(), ": the checksum of \"", entry.name,
                 "\" is wrong; the file is damaged, fetch it again");
}

}  // namespace gossamer
