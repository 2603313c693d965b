// What an evaluation says about each class: recall, precision, and which classes are taken for
// which.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::apps {

// One image of an evaluation: labels are positions in the classes of the set. On ties it counts as
// wrong, as in top-1.
struct Judgement {
  int label = 0, predicted = 0;
  float probability = 0;  // of the class that was predicted
  i64 sample = 0;         // position in the set
};

// How many images of a class were taken for which; both may be the same.
struct ClassPair {
  int label = 0, predicted = 0;
  i64 images = 0;
};
// All that occur, by label and then by prediction.
std::vector<ClassPair> count_pairs(const std::vector<Judgement>&);

struct ClassResult {
  i64 images = 0;     // of this class
  i64 predicted = 0;  // images that were taken for it
  i64 right = 0;      // both
  // not a number if there are no such images
  double recall() const { return static_cast<double>(right) / static_cast<double>(images); }
  double precision() const { return static_cast<double>(right) / static_cast<double>(predicted); }
};
std::vector<ClassResult> class_results(const std::vector<ClassPair>&, std::size_t classes);
// The classes that have images, those with the lowest recall first.
std::vector<std::size_t> worst_first(const std::vector<ClassResult>&);

// The pairs of different classes, the most frequent first.
std::vector<ClassPair> confusions(const std::vector<ClassPair>&);

// [label][predicted]: images
std::vector<std::vector<i64>> confusion_matrix(const std::vector<ClassPair>&, std::size_t classes);

// per_class.csv (class,images,recall,precision; empty where there are no images) and confusion.csv
// (a row for each class, a column for each it was taken for) in this folder, which is made. Names
// are quoted as RFC 4180 says, and stand behind an apostrophe where a table program would take them
// for formulas (=, +, -, @). IoError names the file.
void write_class_csv(const std::filesystem::path& folder, const std::vector<ClassPair>&,
                     const std::vector<std::string>& classes);

}  // namespace gossamer::apps
