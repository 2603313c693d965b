// Data sets: encoded images (or raw pixels) with labels, random access.
// Threads: any, also for one Dataset.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

// The number of the first class in image/class/label of TFRecord: 1 in ImageNet's files, 0 in
// others. automatic: 0 if a 0 occurs, else 1.
enum class LabelBase { automatic, zero, one };
// "auto", "0", "1"; ConfigError otherwise
LabelBase parse_label_base(const std::string& text);

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual i64 size() const = 0;
  virtual int label(i64 i) const = 0;
  // for messages and lists: "n01440764/n01440764_10026.JPEG"
  virtual std::string name(i64 i) const = 0;
  // The bytes of sample i: a file's content, or raw pixels if raw(). `buffer` holds them if they
  // aren't in memory already. DataError: this sample can't be read; IoError: the reason is not this
  // sample (permissions, network).
  virtual std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const = 0;
  // raw pixels: u8 [height, width, 3]
  struct Raw {
    int height = 0, width = 0;
  };
  // height 0: encoded images (JPEG, PNG, …)
  virtual Raw raw() const { return {}; }
  virtual const std::vector<std::string>& classes() const = 0;  // sorted; label = position
  // "name: what was wrong": images so damaged that not even their label is known; they are no
  // samples
  virtual std::vector<std::string> left_out() const { return {}; }
  // the one that was used; automatic: the set has no such labels
  virtual LabelBase label_base() const { return LabelBase::automatic; }
  // class folders without a picture: no classes, see EmptyClass
  virtual std::vector<std::string> empty_classes() const { return {}; }
  // what the user should know about how the set was read: files left out, guesses
  virtual std::vector<std::string> notes() const { return {}; }
};

// Which data are meant if a folder holds training and validation data. any: the training data.
enum class Part { any, train, val };
// Whether a class folder without a picture is a DataError, or left out of the classes, for commands
// that only look at a set.
enum class EmptyClass { refused, left_out };
// Opens a data set. open() looks at each path to find out what it is (formats/README.md has the
// table): class folders, ImageNet's flat val/ with its ground truth, tars, WebDataset, TFRecord,
// our packed shards, CIFAR binary, pickled batches (CIFAR, ImageNet-32), MNIST's IDX;
// "{000000..000146}" in a path stands for many. Several paths become one set with the union of
// their classes. DataError names the path and says what was found there and what to do.
std::shared_ptr<const Dataset> open(const std::vector<std::string>& paths, Part part = Part::any,
                                    LabelBase = LabelBase::automatic,
                                    EmptyClass = EmptyClass::refused);
// A hash of the number, names, labels and order of the samples, and of the classes, but not of the
// pixels. Takes half a second for ImageNet.
std::uint64_t fingerprint(const Dataset&);
// DataError, with the first differences, unless both have the same classes and count labels from
// the same number.
void check_same_classes(const Dataset& train, const Dataset& val);

}  // namespace gossamer::data
