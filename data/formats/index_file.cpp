// An index as bytes. All numbers are little-endian. No number is trusted before it is compared with
// the bytes that are there.
#include "gossamer/data/formats/index_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <sys/stat.h>

#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/flat_val.h"
#include "gossamer/data/hash.h"

namespace gossamer::data {
namespace {

constexpr std::uint32_t kVersion = 1;
// Version 2: files of version 1 have other samples of WebDataset, and other classes of tars whose
// name is a WordNet id.
constexpr std::array<char, 8> kMagic{'G', 'S', 'I', 'N', 'D', 'E', 'X', '3'};
constexpr std::uint32_t kMaxString = 1 << 16;

class Writer {
 public:
  template <class T>
  void put(const T& value) {
    raw(&value, sizeof value);
  }
  template <class T>
  void all(const std::vector<T>& values) {
    raw(values.data(), values.size() * sizeof(T));
  }
  void text(const std::string& s) {
    const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(s.size(), kMaxString));
    put(length);
    raw(s.data(), length);
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  void raw(const void* from, std::size_t bytes) {
    const auto* at = static_cast<const std::byte*>(from);
    out_.insert(out_.end(), at, at + bytes);
  }
  std::vector<std::byte> out_;
};

class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& path) : left_(bytes), path_(path) {}
  std::span<const std::byte> take(std::uint64_t bytes) {
    check<DataError>(bytes <= left_.size(), path_, ": damaged index: it is cut off");
    const auto part = left_.first(static_cast<std::size_t>(bytes));
    left_ = left_.subspan(part.size());
    return part;
  }
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  template <class T>
  std::vector<T> all(std::uint64_t count) {
    check<DataError>(count <= left_.size() / sizeof(T), path_, ": damaged index: it is cut off");
    std::vector<T> values(static_cast<std::size_t>(count));
    if (count)
      std::memcpy(values.data(), take(count * sizeof(T)).data(), values.size() * sizeof(T));
    return values;
  }
  std::vector<std::string> texts(std::uint64_t count) {
    check<DataError>(count <= left_.size() / sizeof(std::uint32_t), path_,
                     ": damaged index: it is cut off");
    std::vector<std::string> values;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto length = get<std::uint32_t>();
      check<DataError>(length <= kMaxString, path_, ": damaged index: a text of ", length,
                       " bytes");
      const auto bytes = take(length);
      values.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return values;
  }
  bool empty() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
  const std::string& path_;
};

// size of a file in bytes, and time of its last change in nanoseconds
struct Stamp {
  std::uint64_t size = 0;
  std::int64_t changed = 0;
};

bool stamp_of(const std::string& path, Stamp& stamp) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return false;
  stamp = {static_cast<std::uint64_t>(info.st_size),
           static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec};
  return true;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() <= 6 &&
         text.find_first_not_of("0123456789") == std::string::npos &&
         (text == "0" || text[0] != '0');
}

}  // namespace

std::vector<std::byte> encode_index(const Index& index) {
  Writer out;
  out.put(kVersion);
  out.put(static_cast<std::uint8_t>(index.wrapping));
  out.put(static_cast<std::uint8_t>(index.naming));
  const bool pixels = index.wrapping == Wrapping::pixels;
  out.put(static_cast<std::uint16_t>(pixels));
  out.put(index.stamp);
  out.put(static_cast<std::uint64_t>(index.size()));
  out.put(static_cast<std::uint64_t>(index.classes.size()));
  out.put(static_cast<std::uint64_t>(index.left_out.size()));
  out.put(static_cast<std::uint64_t>(index.names.text().size()));
  if (pixels) out.put(index.layout);
  out.all(index.offset);
  out.all(index.bytes);
  out.all(index.label);
  out.all(index.names.text());
  for (const std::string& name : index.classes) out.text(name);
  for (const std::string& text : index.left_out) out.text(text);
  return out.take();
}

Index decode_index(std::span<const std::byte> bytes, const std::string& path, std::uint64_t size) {
  Cursor in(bytes, path);
  const auto version = in.get<std::uint32_t>();
  check<DataError>(version == kVersion, path, ": its index has version ", version,
                   "; this program reads version ", kVersion);
  Index index;
  index.path = path;
  const auto wrapping = in.get<std::uint8_t>(), naming = in.get<std::uint8_t>();
  check<DataError>(
      wrapping >= static_cast<std::uint8_t>(Wrapping::plain) &&
          wrapping <= static_cast<std::uint8_t>(kLastWrapping) &&
          naming <= static_cast<std::uint8_t>(Naming::tensorflow) &&
          // 0 with pixels: from the time when all were CIFAR's
          in.get<std::uint16_t>() == (wrapping == static_cast<std::uint8_t>(Wrapping::pixels)),
      path, ": damaged index: its kind");
  index.wrapping = static_cast<Wrapping>(wrapping);
  index.naming = static_cast<Naming>(naming);
  index.stamp = in.get<std::uint64_t>();
  const auto samples = in.get<std::uint64_t>(), classes = in.get<std::uint64_t>(),
             left_out = in.get<std::uint64_t>(), text = in.get<std::uint64_t>();
  if (index.wrapping == Wrapping::pixels) {
    index.layout = in.get<PixelLayout>();
    check_layout(index.layout, path);
  }
  index.offset = in.all<std::uint64_t>(samples);
  index.bytes = in.all<std::uint32_t>(samples);
  index.label = in.all<std::int32_t>(samples);
  index.names = Names::parse(in.take(text), static_cast<i64>(samples), path);
  check<DataError>(classes <= static_cast<std::uint64_t>(kMaxClasses), path,
                   ": damaged index: ", classes, " classes");
  index.classes = in.texts(classes);
  check<DataError>(left_out <= static_cast<std::uint64_t>(kMaxClasses), path,
                   ": damaged index: ", left_out, " damaged images");
  index.left_out = in.texts(left_out);
  for (std::string& line : index.left_out) line = printable(line);
  check<DataError>(in.empty(), path, ": damaged index: bytes too many at its end");
  check<DataError>(
      std::ranges::adjacent_find(index.classes, std::greater_equal<>()) == index.classes.end(),
      path, ": damaged index: its classes are not sorted");
  if (index.naming != Naming::words)
    for (const std::string& name : index.classes)
      check<DataError>(is_number(name), path, ": damaged index: class '", printable(name),
                       "' is no number");
  const std::uint64_t before = index.wrapping == Wrapping::checked ? 8 : 0,
                      behind = index.wrapping == Wrapping::tfrecord ? 4 : 0;
  for (std::size_t i = 0; i < index.label.size(); ++i) {
    check<DataError>(index.label[i] >= 0 && static_cast<std::uint64_t>(index.label[i]) < classes,
                     path, ": damaged index: sample ", i, " has label ", index.label[i], " of ",
                     classes, " classes");
    const std::uint64_t begin = index.offset[i], end = begin + index.bytes[i] + behind;
    check<DataError>(begin >= before && end >= begin && end <= size, path,
                     ": damaged index: sample ", i, " lies outside the file");
    check<DataError>(index.wrapping != Wrapping::pixels || index.bytes[i] == index.layout.bytes(),
                     path, ": damaged index: sample ", i, " has ", index.bytes[i], " bytes");
  }
  settle_classes(index);
  return index;
}

std::optional<Index> load_index(const std::string& path) {
  const std::string file = path + kIndexEnding;
  Stamp wanted, own;
  if (!stamp_of(file, own) || !stamp_of(path, wanted)) return std::nullopt;
  try {
    const std::vector<std::byte> bytes = read_whole(file, kMaxIndexBytes);
    Cursor in(bytes, file);
    if (in.get<std::array<char, 8>>() != kMagic) return std::nullopt;
    const auto hash = in.get<std::uint64_t>();
    if (xxh3(std::span(bytes).subspan(16)) != hash) return std::nullopt;
    if (in.get<std::uint64_t>() != wanted.size || in.get<std::int64_t>() != wanted.changed)
      return std::nullopt;
    Index index = decode_index(std::span(bytes).subspan(32), path, wanted.size);
    // Labels may come from a ground truth beside the file. If it is still there, it must say the
    // same.
    if (const auto truth = index.stamp != 0 ? GroundTruth::find(path) : std::nullopt;
        truth && truth->hash() != index.stamp)
      return std::nullopt;
    return index;
  } catch (const Error&) {
    // a stored index only saves time: the container can be read again
    return std::nullopt;
  }
}

std::size_t store_index(const Index& index) {
  Stamp stamp;
  check<DataError>(stamp_of(index.path, stamp), index.path, ": was removed while it was indexed");
  Writer rest;
  rest.put(stamp.size);
  rest.put(stamp.changed);
  rest.all(encode_index(index));
  const std::vector<std::byte> content = rest.take();
  Writer out;
  out.put(kMagic);
  out.put(xxh3(content));
  out.all(content);
  const std::vector<std::byte> bytes = out.take();
  check<DataError>(bytes.size() <= kMaxIndexBytes, index.path, ": its index has ", bytes.size(),
                   " bytes; the limit is ", kMaxIndexBytes >> 20, " MiB");
  write_file(index.path + kIndexEnding,
             {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return bytes.size();
}

}  // namespace gossamer::data
