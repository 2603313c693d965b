// Writing files in one step (temporary file in the same folder, fsync, rename, fsync of the
// folder), and safetensors files by it.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/io/safetensors_checksums.h"
#include "gossamer/core/io/xxh3.h"
#include "gossamer/core/text/printable.h"

namespace gossamer {
namespace {

[[noreturn]] void fail_errno(const std::filesystem::path& path, const char* what, int error) {
  const char* hint = error == ENOENT   ? " (does its folder exist?)"
                     : error == ENOSPC ? " (free some space; the old file, if any, is untouched)"
                                       : "";
  fail<IoError>(path.string(), ": cannot ", what, ": ", std::strerror(error), hint);
}

// What a symbolic link points at is replaced, not the link. Devices and pipes cannot be replaced by
// rename.
std::filesystem::path resolve(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  check<IoError>(!std::filesystem::is_directory(status), path.string(),
                 ": cannot write: it is a folder");
  check<IoError>(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
                 path.string(), ": cannot write: it is not a regular file");
  if (!std::filesystem::exists(status)) return path;
  auto real = std::filesystem::canonical(path, ignored);
  return ignored ? path : real;
}

class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path) : path_(resolve(path)) {
    static std::atomic<unsigned> counter{0};
    // the name may be left over from a process of the same number that died (in a container it is
    // often 1)
    do {
      temporary_ = path_;
      temporary_ += ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
      fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (fd_ < 0 && errno == EEXIST);
    if (fd_ < 0) fail_errno(path_, "create", errno);
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!done_) ::unlink(temporary_.c_str());
  }

  void write(const void* data, std::size_t n) {
    const auto* from = static_cast<const char*>(data);
    while (n > 0) {
      const ssize_t put = ::write(fd_, from, std::min<std::size_t>(n, std::size_t{1} << 30));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail_errno(path_, "write", errno);
      from += put;
      n -= static_cast<std::size_t>(put);
    }
  }

  // Overwrites what is there.
  void write_at(off_t offset, std::string_view bytes) {
    if (::lseek(fd_, offset, SEEK_SET) != offset) fail_errno(path_, "seek", errno);
    write(bytes.data(), bytes.size());
  }

  void commit() {
    if (::fsync(fd_) != 0) fail_errno(path_, "flush to disk", errno);
    if (::close(std::exchange(fd_, -1)) != 0) fail_errno(path_, "close", errno);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno(path_, "replace", errno);
    done_ = true;
    // The rename itself must survive a power cut. Some file systems cannot sync a folder (EINVAL):
    // then nothing more can be done.
    std::filesystem::path folder = path_.parent_path();
    if (folder.empty()) folder = ".";
    const int dir = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return;  // a folder we may write but not read
    const int error = ::fsync(dir) == 0 ? 0 : errno;
    ::close(dir);
    if (error != 0 && error != EINVAL) fail_errno(path_, "flush its folder to disk", error);
  }

 private:
  std::filesystem::path path_, temporary_;
  int fd_ = -1;
  bool done_ = false;
};

// What a file would hold, in memory.
class Memory {
 public:
  void write(const void* data, std::size_t n) { bytes_.append(static_cast<const char*>(data), n); }
  void write_at(off_t offset, std::string_view bytes) {
    bytes_.replace(static_cast<std::size_t>(offset), bytes.size(), bytes);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

const char* file_name_of(DType type) {
  switch (type) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    case DType::u8:
      return "U8";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
  }
  return "";
}

// The order of the reference implementation's type list: larger alignment first, so every tensor is
// aligned.
int order_of(DType type) {
  switch (type) {
    case DType::i64:
      return 0;
    case DType::f32:
      return 1;
    case DType::i32:
      return 2;
    case DType::bf16:
      return 3;
    case DType::f16:
      return 4;
    case DType::u8:
      return 5;
  }
  return 6;
}

// Hashed and written piece by piece, so that memory is read once.
template <class File>
std::uint64_t write_hashed(File& file, const Tensor& tensor) {
  std::span<const std::byte> rest(static_cast<const std::byte*>(tensor.data()), tensor.bytes());
  Xxh3 hash;
  while (!rest.empty()) {
    const auto piece = rest.first(std::min(checksums::kPiece, rest.size()));
    hash.add(piece);
    file.write(piece.data(), piece.size());
    rest = rest.subspan(piece.size());
  }
  return hash.digest();
}

// Where the digits of checksum i begin in a header.
std::size_t digits_at(std::size_t i) {
  return checksums::kMark.size() + i * (checksums::kDigits + 1);
}
void set_digits(std::string& header, std::size_t i, std::uint64_t sum) {
  header.replace(digits_at(i), checksums::kDigits, checksums::digits(sum));
}

std::string quoted(const std::string& text, const std::string& where) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail<IoError>(where, ": \"", printable(text), "\" is no UTF-8 text");
  }
}

}  // namespace

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

std::string metadata_text(const std::map<std::string, std::string>& metadata,
                          const std::string& where) {
  std::string text;
  for (const auto& [key, value] : metadata)
    if (key != checksums::kKey) text += "," + quoted(key, where) + ":" + quoted(value, where);
  return text;
}

namespace {

template <class File>
void write_tensors(File& file, const std::string& name, const std::vector<NamedTensor>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  std::vector<NamedTensor> sorted = tensors;
  std::ranges::sort(sorted, [](const NamedTensor& a, const NamedTensor& b) {
    const int x = order_of(a.tensor.dtype()), y = order_of(b.tensor.dtype());
    return x != y ? x < y : a.name < b.name;
  });
  std::set<std::string> names;
  std::string header(checksums::kMark);
  // room for the digits of the header and of each tensor
  for (std::size_t i = 0; i <= sorted.size(); ++i)
    header += (i > 0 ? " " : "") + checksums::digits(0);
  header += '"';
  header += metadata_text(metadata, name) + "},";
  std::uint64_t offset = 0;
  for (NamedTensor& t : sorted) {
    check<IoError>(t.name != "__metadata__", name, ": a tensor may not be called \"__metadata__\"");
    check<IoError>(names.insert(t.name).second, name, ": two tensors are called \"", t.name, "\"");
    if (!t.tensor.device().is_cpu()) t.tensor = t.tensor.to(Device::cpu());
    header +=
        quoted(t.name, name) + ":{\"dtype\":\"" + file_name_of(t.tensor.dtype()) + "\",\"shape\":[";
    for (int d = 0; d < t.tensor.rank(); ++d)
      header += (d > 0 ? "," : "") + std::to_string(t.tensor.shape(d));
    header += "],\"data_offsets\":[" + std::to_string(offset) + "," +
              std::to_string(offset + t.tensor.bytes()) + "]},";
    offset += t.tensor.bytes();
  }
  header.back() = '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');

  const std::uint64_t length = header.size();
  file.write(&length, 8);
  file.write(header.data(), header.size());
  for (std::size_t i = 0; i < sorted.size(); ++i)
    set_digits(header, 1 + i, write_hashed(file, sorted[i].tensor));
  set_digits(header, 0, xxh3(std::as_bytes(std::span(header).subspan(digits_at(1) - 1))));
  file.write_at(8, header);
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  AtomicFile file(path);
  write_tensors(file, path.string(), tensors, metadata);
  file.commit();
}

std::string safetensors_bytes(const std::vector<NamedTensor>& tensors,
                              const std::map<std::string, std::string>& metadata,
                              const std::string& name) {
  Memory memory;
  write_tensors(memory, name, tensors, metadata);
  return memory.take();
}

}  // namespace gossamer
