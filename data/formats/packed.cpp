// Reads and writes packed shards: a header of 64 bytes (magic, version, position and XXH3 of the
// index), records aligned to 8 bytes, the index.
#include "gossamer/data/formats/packed.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/byte_reader.h"
#include "gossamer/data/formats/format.h"
#include "gossamer/data/formats/index_file.h"
#include "gossamer/data/hash.h"

namespace gossamer::data {
namespace {

constexpr std::array<char, 8> kMagic{'G', 'S', 'P', 'A', 'C', 'K', '\r', '\n'};
constexpr std::uint64_t kVersion = 1, kAlign = 8;
constexpr std::size_t kBuffer = std::size_t{1} << 20;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint64_t version = kVersion, index_offset = 0, index_bytes = 0, index_hash = 0, samples = 0,
                source = 0;
  std::uint64_t hash = 0;  // of the bytes before it
};
static_assert(sizeof(Header) == 64);

std::uint64_t hash_of(const Header& header) {
  return xxh3(std::as_bytes(std::span(&header, 1)).first(56));
}

[[noreturn]] void fail_errno(const std::string& path, const char* what, int error) {
  fail<IoError>(
      path, ": cannot ", what, ": ", std::strerror(error),
      error == ENOSPC ? " (free some space and start again: finished shards are kept)" : "");
}

// The temporary file, locked. Between opening and locking, another process may have renamed it to
// the finished shard or removed it; then it is opened again.
int open_locked(const std::string& path) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) fail_errno(path, "create", errno);
    const bool taken = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat ours {
    }, named{};
    const bool there = ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
                       ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
    if (!taken && there) return fd;
    ::close(fd);
    if (taken) break;
  }
  fail<IoError>(path,
                ": another process is writing this shard; wait for it or pack into another folder");
}

void sync_folder(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // EINVAL: this file system has no fsync for folders
  if (error != 0 && error != EINVAL) fail_errno(path, "flush its folder to disk", error);
}

}  // namespace

bool looks_like_pack(std::span<const std::byte> start) {
  return start.size() >= 8 && std::memcmp(start.data(), kMagic.data(), 8) == 0;
}

Index index_packed(ByteReader& shard, const std::string& path) {
  check<DataError>(shard.size() >= sizeof(Header), path, ": damaged packed shard: only ",
                   shard.size(), " bytes");
  Header header;
  std::memcpy(&header, shard.at(0, sizeof header).data(), sizeof header);
  check<DataError>(header.magic == kMagic, path, ": not a packed shard");
  check<DataError>(header.version == kVersion, path, ": a packed shard of version ", header.version,
                   "; this program reads version ", kVersion);
  check<DataError>(header.hash == hash_of(header), path,
                   ": damaged packed shard: the checksum of its header is wrong");
  check<DataError>(
      header.index_bytes <= kMaxIndexBytes && header.index_offset <= shard.size() &&
          header.index_bytes <= shard.size() - header.index_offset,
      path,
      ": damaged packed shard: its index lies outside the file. Was it cut off? Pack it again.");
  const auto bytes = shard.at(header.index_offset, static_cast<std::size_t>(header.index_bytes));
  check<DataError>(xxh3(bytes) == header.index_hash, path,
                   ": damaged packed shard: the checksum of its index is wrong. Pack it again.");
  Index index = decode_index(bytes, path, header.index_offset);
  check<DataError>(index.wrapping == Wrapping::checked &&
                       static_cast<std::uint64_t>(index.size()) == header.samples,
                   path, ": damaged packed shard: its index is that of another file");
  index.source = header.source;
  return index;
}

PackWriter::PackWriter(std::string path, const std::vector<std::string>& classes,
                       std::uint64_t stamp)
    : path_(std::move(path)) {
  index_.path = path_;
  index_.wrapping = Wrapping::checked;
  index_.classes = classes;
  index_.stamp = stamp;
  temporary_ = path_ + ".tmp";
  fd_ = open_locked(temporary_);
  if (::ftruncate(fd_, 0) != 0) fail_errno(temporary_, "empty", errno);
  const Header empty;
  write(&empty, sizeof empty);
}

PackWriter::~PackWriter() {
  if (fd_ < 0) return;
  // before the lock ends, here and in close(): later it may be another process's file
  ::unlink(temporary_.c_str());
  ::close(fd_);
}

void PackWriter::flush() {
  std::span<const std::byte> left(pending_);
  while (!left.empty()) {
    const ssize_t put = ::write(fd_, left.data(), left.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_errno(temporary_, "write", errno);
    left = left.subspan(static_cast<std::size_t>(put));
  }
  pending_.clear();
}

void PackWriter::write(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  pending_.insert(pending_.end(), from, from + bytes);
  at_ += bytes;
  if (pending_.size() >= kBuffer) flush();
}

void PackWriter::add(const std::string& name, int label, std::span<const std::byte> bytes) {
  check_encoded_size(bytes.size(), name);
  const std::uint64_t hash = xxh3(bytes), zero = 0;
  write(&hash, sizeof hash);
  index_.offset.push_back(at_);
  index_.bytes.push_back(static_cast<std::uint32_t>(bytes.size()));
  index_.label.push_back(label);
  index_.names.add(name);
  write(bytes.data(), bytes.size());
  write(&zero, (kAlign - at_ % kAlign) % kAlign);
}

void PackWriter::leave_out(std::string name_and_reason) {
  index_.left_out.push_back(std::move(name_and_reason));
}

std::uint64_t PackWriter::close(std::uint64_t source) {
  const std::vector<std::byte> index = encode_index(index_);
  check<DataError>(index.size() <= kMaxIndexBytes, path_, ": too many images for one shard");
  Header header;
  header.index_offset = at_;
  header.index_bytes = index.size();
  header.index_hash = xxh3(index);
  header.samples = static_cast<std::uint64_t>(index_.size());
  header.source = source;
  header.hash = hash_of(header);
  write(index.data(), index.size());
  flush();
  if (::pwrite(fd_, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
    fail_errno(temporary_, "write", errno);
  if (::fsync(fd_) != 0) fail_errno(temporary_, "flush to disk", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno(path_, "put in place", errno);
  if (::close(std::exchange(fd_, -1)) != 0) fail_errno(path_, "close", errno);
  sync_folder(path_);
  return at_;
}

FileFormat packed_format() {
  return {.name = "packed",
          .wanted = "packed shards",
          .has_name = [](const std::string& name) { return has_ending(name, {kPackEnding}); },
          .starts_with = looks_like_pack,
          .index =
              [](const std::string& path) {
                const File file(path);
                FileReader reader(file);
                return index_packed(reader, path);
              }};
}

}  // namespace gossamer::data
