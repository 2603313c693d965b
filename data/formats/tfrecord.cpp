// Reads TFRecord and the few messages of protobuf that it contains. Each length is compared with
// the bytes that are left before it is used.
#include "gossamer/data/formats/tfrecord.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <unordered_set>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/byte_reader.h"
#include "gossamer/data/formats/format.h"
#include "gossamer/data/hash.h"

namespace gossamer::data {
namespace {

constexpr std::uint64_t kHeader = 12, kFooter = 4;
// fields of an Example with everything inside it; ImageNet's have about a hundred
constexpr int kMaxFields = 100'000;
// the longest key, synset or file name that is accepted
constexpr std::size_t kMaxText = 4096;

template <class T>
T load(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

struct Range {
  std::uint64_t begin = 0, end = 0;
};

struct Field {
  std::uint64_t number = 0, value = 0;  // value: of a varint
  // 0 varint, 2 bytes; 1 and 5 (fixed width) are skipped
  int type = 0;
  Range bytes;
};

// One message, field by field.
class Message {
 public:
  // fields: of the whole Example so far.
  Message(ByteReader& reader, Range range, const std::string& name, int& fields)
      : reader_(reader), at_(range.begin), end_(range.end), name_(name), fields_(fields) {}

  bool next(Field& field) {
    if (at_ == end_) return false;
    const std::uint64_t tag = varint();
    field.number = tag >> 3;
    if (field.number == 0 || ++fields_ > kMaxFields) damaged();
    field.type = static_cast<int>(tag & 7);
    if (field.type == 0)
      field.value = varint();
    else if (field.type == 2)
      field.bytes = take(varint());
    else if (field.type == 1)
      take(8);
    else if (field.type == 5)
      take(4);
    else
      damaged();
    return true;
  }
  std::uint64_t varint() {
    const auto bytes =
        reader_.at(at_, static_cast<std::size_t>(std::min<std::uint64_t>(10, end_ - at_)));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      value |= (std::to_integer<std::uint64_t>(bytes[i]) & 127) << (7 * i);
      if (std::to_integer<unsigned>(bytes[i]) & 128u) continue;
      at_ += i + 1;
      return value;
    }
    damaged();
  }
  bool empty() const { return at_ == end_; }

 private:
  Range take(std::uint64_t count) {
    if (count > end_ - at_) damaged();
    at_ += count;
    return {at_ - count, at_};
  }
  [[noreturn]] void damaged() const {
    fail<DataError>(name_,
                    ": not a tf.train.Example with an image (or damaged). Copy the file again.");
  }

  ByteReader& reader_;
  std::uint64_t at_, end_;
  const std::string& name_;
  int& fields_;
};

struct Example {
  Range image;
  // rank of the key under which it was found; lower is better
  int image_rank = std::numeric_limits<int>::max(), label_rank = std::numeric_limits<int>::max();
  i64 label = -1;
  std::string synset, file;
};

constexpr std::array<std::string_view, 4> kImageKeys{"image/encoded", "image", "image_raw", "jpeg"};
constexpr std::array<std::string_view, 4> kLabelKeys{"image/class/label", "label", "image/label",
                                                     "class"};

template <std::size_t N>
int rank(const std::array<std::string_view, N>& keys, const std::string& key) {
  const auto at = std::ranges::find(keys, key);
  return at == keys.end() ? std::numeric_limits<int>::max() : static_cast<int>(at - keys.begin());
}

class ExampleParser {
 public:
  ExampleParser(ByteReader& reader, const std::string& name) : reader_(reader), name_(name) {}

  Example parse(Range data) {
    Message example(reader_, data, name_, fields_);
    for (Field features; example.next(features);) {
      if (features.number != 1 || features.type != 2) continue;
      Message map(reader_, features.bytes, name_, fields_);
      for (Field entry; map.next(entry);)
        if (entry.number == 1 && entry.type == 2) add(entry.bytes);
    }
    return std::move(found_);
  }

 private:
  std::string text(Range range) {
    if (range.end - range.begin > kMaxText) return {};
    const auto bytes = reader_.at(range.begin, static_cast<std::size_t>(range.end - range.begin));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  void add(Range entry) {
    Message message(reader_, entry, name_, fields_);
    std::string key;
    Range feature;
    for (Field field; message.next(field);) {
      if (field.type != 2) continue;
      if (field.number == 1) key = text(field.bytes);
      if (field.number == 2) feature = field.bytes;
    }
    if (const int r = rank(kImageKeys, key);
        r <= found_.image_rank && r < static_cast<int>(kImageKeys.size())) {
      if (const Range value = bytes_value(feature); value.end > value.begin) {
        found_.image = value;
        found_.image_rank = r;
      }
    }
    if (const int r = rank(kLabelKeys, key);
        r <= found_.label_rank && r < static_cast<int>(kLabelKeys.size())) {
      if (const i64 value = int_value(feature); value >= 0) {
        found_.label = value;
        found_.label_rank = r;
      }
    }
    if (key == "image/class/synset") found_.synset = text(bytes_value(feature));
    if (key == "image/filename") found_.file = printable(text(bytes_value(feature)));
  }

  // A Feature contains one of three lists; each list is field 1 of its own message. Returns the
  // first value of the list, or empty or -1 if it is a list of another type.
  Range bytes_value(Range feature) {
    const Range list = member(feature, 1);
    return member(list, 1);
  }
  i64 int_value(Range feature) {
    Message list(reader_, member(feature, 3), name_, fields_);
    for (Field field; list.next(field);) {
      if (field.number != 1) continue;
      if (field.type == 2 && field.bytes.end == field.bytes.begin) continue;
      const std::uint64_t value = field.type == 0 ? field.value
                                  : field.type == 2
                                      ? Message(reader_, field.bytes, name_, fields_).varint()
                                      : ~0ull;
      return value > static_cast<std::uint64_t>(std::numeric_limits<i64>::max())
                 ? -1
                 : static_cast<i64>(value);
    }
    return -1;
  }
  Range member(Range message, std::uint64_t number) {
    Message fields(reader_, message, name_, fields_);
    for (Field field; fields.next(field);)
      if (field.number == number && field.type == 2) return field.bytes;
    return {};
  }

  ByteReader& reader_;
  const std::string& name_;
  int fields_ = 0;
  Example found_;
};

// Whether a file begins as TensorFlow compresses whole files: with a header of gzip or of zlib.
bool starts_compressed(std::span<const std::byte> start) {
  const int first = std::to_integer<int>(start[0]), second = std::to_integer<int>(start[1]);
  return (first == 0x1F && second == 0x8B) || (first == 0x78 && (first << 8 | second) % 31 == 0);
}

void check_example(const Example& example, const std::string& name) {
  check<DataError>(example.image.end > 0, code::not_understood, name,
                   ": holds no image under the keys image/encoded, image, image_raw or jpeg");
  check<DataError>(!example.synset.empty() || example.label >= 0, code::not_understood, name,
                   ": holds no label; wanted are image/class/synset, image/class/label or label");
  check<DataError>(!example.synset.empty() || example.label < kMaxClasses, name, ": label ",
                   example.label, "; the largest possible is ", kMaxClasses - 1);
}

// Reads the whole record, so it is asked only of records that decide about the set. A record that
// is too large for an image is refused when it is read.
bool is_damaged(ByteReader& records, std::uint64_t begin, std::uint64_t length) {
  if (length > kMaxEncoded) return false;
  const auto bytes = records.at(begin, static_cast<std::size_t>(length + kFooter));
  return masked(crc32c(bytes.first(static_cast<std::size_t>(length)))) !=
         load<std::uint32_t>(bytes.last(kFooter));
}

}  // namespace

bool looks_like_tfrecord(std::span<const std::byte> start) {
  return start.size() >= kHeader &&
         masked(crc32c(start.first(8))) == load<std::uint32_t>(start.subspan(8, 4));
}

Index index_tfrecord(ByteReader& records, const std::string& path) {
  const std::string stem = std::filesystem::path(path).filename().string();
  const std::uint64_t size = records.size();
  check<DataError>(size > 0, path, ": the file is empty; TFRecord was expected");
  const auto damaged = [&](i64 record, std::uint64_t at, const std::string& what) {
    fail<DataError>(path, ": unreadable TFRecord: record ", record, " at byte ", at, ": ", what,
                    ". Copy the file again.");
  };
  std::unique_ptr<IndexBuilder> builder;
  bool words = false;
  std::unordered_set<std::string> known;  // classes
  std::vector<std::string> left_out;
  i64 record = 0;
  for (std::uint64_t at = 0; at < size; ++record) {
    if (size - at < kHeader + kFooter) damaged(record, at, "cut off");
    const auto header = records.at(at, kHeader);
    const auto length = load<std::uint64_t>(header);
    check<DataError>(at > 0 || looks_like_tfrecord(header) || !starts_compressed(header),
                     code::not_understood, path,
                     ": this TFRecord is compressed (GZIP or ZLIB); write it without (pictures "
                     "don't shrink, and plain ones are read in place)");
    if (!looks_like_tfrecord(header)) damaged(record, at, "the checksum of its length is wrong");
    if (length > size - at - kHeader - kFooter)
      damaged(record, at,
              "cut off: it needs " + std::to_string(length) + " bytes, " +
                  std::to_string(size - at - kHeader - kFooter) + " are left");
    const std::string name = path + ": record " + std::to_string(record);
    const std::uint64_t begin = at + kHeader;
    at = begin + length + kFooter;
    try {
      const Example example = ExampleParser(records, name).parse({begin, begin + length});
      check_example(example, name);
      if (!builder) {
        // the first record decides the kind of the whole set
        if (is_damaged(records, begin, length)) throw DataError(name);
        words = !example.synset.empty();
        builder = std::make_unique<IndexBuilder>(path, Wrapping::tfrecord,
                                                 words                     ? Naming::words
                                                 : example.label_rank == 0 ? Naming::tensorflow
                                                                           : Naming::numbers);
      }
      check<DataError>(words == !example.synset.empty(), name,
                       ": some records have image/class/synset and others do not");
      const std::string label = words ? example.synset : std::to_string(example.label);
      if (!known.contains(label)) {
        // it would add a class to the whole set
        if (is_damaged(records, begin, length)) throw DataError(name);
        known.insert(label);
      }
      builder->add(example.file.empty() ? stem + "#" + std::to_string(record) : example.file, label,
                   begin, length);
    } catch (const DataError&) {
      if (!is_damaged(records, begin, length)) throw;
      left_out.push_back(name + ": damaged record: its checksum is wrong");
    }
  }
  check<DataError>(builder != nullptr, path, ": all ", record,
                   " records are damaged. Copy the file again.");
  Index index = builder->finish();
  index.left_out = std::move(left_out);
  return index;
}

std::span<const std::byte> image_of_record(std::span<const std::byte> data_and_crc,
                                           const std::string& name) {
  const auto data = data_and_crc.first(data_and_crc.size() - kFooter);
  check<DataError>(masked(crc32c(data)) == load<std::uint32_t>(data_and_crc.last(kFooter)), name,
                   ": damaged record: its checksum is wrong");
  MemoryReader reader(data);
  const Range image = ExampleParser(reader, name).parse({0, data.size()}).image;
  check<DataError>(image.end > 0, name, ": holds no image");
  return data.subspan(image.begin, image.end - image.begin);
}

namespace {

// train-00000-of-01024, x.tfrecord, x.tfrecords
bool is_tfrecord_name(const std::string& name) {
  if (has_ending(name, {".tfrecord", ".tfrecords", ".tfrec"})) return true;
  const std::size_t of = name.rfind("-of-");
  return of != std::string::npos && of >= 5 && name.size() > of + 4 &&
         name.find_first_not_of("0123456789", of + 4) == std::string::npos &&
         name.find_first_not_of("0123456789", of - 5) == of;
}

}  // namespace

FileFormat tfrecord_format() {
  return {.name = "tfrecord",
          .wanted = "TFRecord shards",
          .has_name = is_tfrecord_name,
          .starts_with = looks_like_tfrecord,
          .index = [](const std::string& path) {
            const File file(path);
            FileReader reader(file);
            return index_tfrecord(reader, path);
          }};
}

}  // namespace gossamer::data
