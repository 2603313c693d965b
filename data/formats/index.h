// Where the samples of a data set lie. Every kind of data set becomes an Index of its files, or
// several; one class reads them all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/data/formats/names.h"

namespace gossamer::data {

// How the bytes of a sample lie in the file.
enum class Wrapping : std::uint8_t {
  // a file of its own: the index's path is the folder, the sample's name the rest of the path
  file,
  plain,     // as they are: tar
  checked,   // behind their XXH3-64, eight bytes: our packed shards
  tfrecord,  // inside the tf.train.Example of a record, in front of the record's CRC
  planes,    // CIFAR: 3 x 32 x 32 raw pixels
};

// What the classes are called. Numbers are given names when the whole set is known: see
// dataset/indexed_set.h.
enum class Naming : std::uint8_t {
  words,
  numbers,     // "0", "1", …: WebDataset's .cls
  tensorflow,  // image/class/label: from 1 on in ImageNet's shards, from 0 on in others'
};

// of sets whose classes are numbers: one file may not ask for 2^31 names
constexpr i64 kMaxClasses = 1'000'000;

// The samples of one container, in its order. 17 bytes each, and what their name differs from the
// one before.
struct Index {
  std::string path;  // the file, or the folder of files
  Wrapping wrapping = Wrapping::file;
  Naming naming = Naming::words;
  std::vector<std::string> classes;  // sorted
  Names names;
  std::vector<std::int32_t> label;    // position in `classes`
  std::vector<std::uint64_t> offset;  // these two are empty for Wrapping::file
  std::vector<std::uint32_t> bytes;   // 4 GiB - 1: so many or more
  // packed shards: "name: what was wrong" of samples that are not there
  std::vector<std::string> left_out;
  std::vector<std::string> notes;  // what lies there and is not taken; never stored
  // packed shards: hashes of how they were made (options, names, labels) and of the bytes of what;
  // stamp of a flat tar: hash of the ground truth that named its classes
  std::uint64_t stamp = 0, source = 0;
  i64 size() const { return names.size(); }
};

class IndexBuilder {
 public:
  IndexBuilder(std::string path, Wrapping, Naming = Naming::words);
  // one that may have no samples
  void add_class(const std::string& name) { id(name); }
  void add(std::string_view name, const std::string& class_name, std::uint64_t offset = 0,
           std::uint64_t bytes = 0);
  i64 size() const { return index_.size(); }
  Index finish();  // sorts the classes

 private:
  int id(const std::string& class_name);
  Index index_;
  std::unordered_map<std::string, int> ids_;
  std::string last_class_;
  int last_id_ = -1;
};

}  // namespace gossamer::data
