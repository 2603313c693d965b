// Data sets: encoded images (or raw pixels) with labels, random access, thread-safe reads.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

// What the first class of image/class/label in TFRecord is: 1 in ImageNet's, 0 in others'.
// automatic, asked for: 0 if a 0 occurs, else 1.
enum class LabelBase { automatic, zero, one };
// "auto", "0", "1"; ConfigError otherwise
LabelBase parse_label_base(const std::string& text);

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual i64 size() const = 0;
  virtual int label(i64 i) const = 0;
  // "n01440764/n01440764_10026.JPEG", for messages and lists
  virtual std::string name(i64 i) const = 0;
  // The bytes of sample i: a file's content, or raw pixels if raw(). Uses `buffer` when they aren't
  // in memory. Thread-safe.
  virtual std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const = 0;
  // raw pixels: u8 [height, width, 3]
  struct Raw {
    int height = 0, width = 0;
  };
  // height 0: encoded images (JPEG, PNG, …)
  virtual Raw raw() const { return {}; }
  virtual const std::vector<std::string>& classes() const = 0;  // sorted; label = position
  // "name: what was wrong": damaged beyond their label, so no samples
  virtual std::vector<std::string> left_out() const { return {}; }
  // what was used; automatic: nothing was to be decided
  virtual LabelBase label_base() const { return LabelBase::automatic; }
  // what the user should know of how it was read: files left out, guesses
  virtual std::vector<std::string> notes() const { return {}; }
};

// What each path is, is found by looking (README.md has the table): class folders, ImageNet's flat
// val/ with its ground truth, tars, WebDataset, TFRecord, our packed shards, CIFAR binary;
// "{000000..000146}" in a path stands for many. Several paths join into one set (the class lists
// are united). DataError names the path and says what was found there and what to do. Where
// training and validation data lie in one folder `part` says which are meant (any: those to train
// with, if there are both).
enum class Part { any, train, val };
std::shared_ptr<const Dataset> open(const std::vector<std::string>& paths, Part part = Part::any,
                                    LabelBase = LabelBase::automatic);
// A hash of the set's order: number, names and labels of its samples, and its classes; not of their
// pixels. Half a second for ImageNet.
std::uint64_t fingerprint(const Dataset&);
// DataError unless both have the same classes, and count labels from the same number: names the
// first differences.
void check_same_classes(const Dataset& train, const Dataset& val);

}  // namespace gossamer::data
