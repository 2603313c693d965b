// Where the samples of a data set lie. Every container becomes an Index; one class reads them all
// (dataset/indexed_set.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/data/formats/names.h"

namespace gossamer::data {

// How the bytes of a sample lie in the file. Stored indices hold the number, so a new value comes
// last.
enum class Wrapping : std::uint8_t {
  // a file for each sample: the index's path is the folder, the sample's name the rest of the path
  file,
  plain,     // as they are: tar
  checked,   // behind their XXH3-64, eight bytes: our packed shards
  tfrecord,  // inside the tf.train.Example of a record, in front of the record's CRC
  pixels,    // not encoded: as the index's layout says
};
constexpr Wrapping kLastWrapping = Wrapping::pixels;

// Where raw pixels of 8 bits lie in a sample: channel c of (x, y) at x * right + y * down +
// c * channel. Gray has channel 0; 32 x 32 in planes have {32, 32, 1, 32, 1024}.
struct PixelLayout {
  std::uint32_t width = 0, height = 0;
  std::uint32_t right = 0, down = 0, channel = 0;
  std::uint64_t bytes() const {  // of a sample
    return std::uint64_t{width - 1} * right + std::uint64_t{height - 1} * down +
           std::uint64_t{2} * channel + 1;
  }
};
// DataError: no picture lies like that, or it is too large for one.
void check_layout(const PixelLayout&, const std::string& path);

// What the classes are called. Numbers are given names when the whole set is known: see
// dataset/indexed_set.h.
enum class Naming : std::uint8_t {
  words,
  numbers,     // "0", "1", …: WebDataset's .cls
  tensorflow,  // image/class/label: from 1 on in ImageNet's shards, from 0 on in others'
};

// For classes that are numbers: a file must not demand 2^31 names.
constexpr i64 kMaxClasses = 1'000'000;

// The samples of one container, in its order: 16 bytes each, and their names.
struct Index {
  std::string path;  // the file, or the folder of files
  Wrapping wrapping = Wrapping::file;
  PixelLayout layout;  // of Wrapping::pixels
  Naming naming = Naming::words;
  std::vector<std::string> classes;  // sorted
  Names names;
  std::vector<std::int32_t> label;    // position in `classes`
  std::vector<std::uint64_t> offset;  // offset and bytes are empty for Wrapping::file
  std::vector<std::uint32_t> bytes;   // 4 GiB - 1: that or more
  // "name: what was wrong" of images that are no samples
  std::vector<std::string> left_out;
  std::vector<std::string> notes;  // files that lie there and are not used; never stored
  std::vector<std::string> empty;  // class folders without a picture; never stored
  // Packed shards: stamp is a hash of how they were made (options, names, labels), source of the
  // bytes they were made of. Flat tar: stamp is a hash of the ground truth.
  std::uint64_t stamp = 0, source = 0;
  i64 size() const { return names.size(); }
};

// Gives the classes names that can be shown (printable(), core/text/utf8.h), sorts them, and moves
// the labels along. DataError: two classes are then called alike.
void settle_classes(Index&);

class IndexBuilder {
 public:
  IndexBuilder(std::string path, Wrapping, Naming = Naming::words);
  // Wrapping::pixels. DataError as check_layout().
  IndexBuilder(std::string path, const PixelLayout&, Naming = Naming::words);
  // a class that may have no samples
  void add_class(const std::string& name) { id(name); }
  // bytes: the layout says those of pixels
  void add(std::string_view name, const std::string& class_name, std::uint64_t offset = 0,
           std::uint64_t bytes = 0);
  i64 size() const { return index_.size(); }
  Index finish();  // settles the classes

 private:
  int id(const std::string& class_name);
  Index index_;
  std::unordered_map<std::string, int> ids_;
  std::string last_class_;
  int last_id_ = -1;
};

}  // namespace gossamer::data
