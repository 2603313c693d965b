// What an evaluation says about each class: recall, precision, and which classes are taken for
// which.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gossamer/apps/train/evaluate.h"

namespace gossamer::apps {

struct ClassResult {
  i64 images = 0;     // of this class
  i64 predicted = 0;  // images that were taken for it
  i64 right = 0;      // both
  // not a number if there are no such images
  double recall() const { return static_cast<double>(right) / static_cast<double>(images); }
  double precision() const { return static_cast<double>(right) / static_cast<double>(predicted); }
};
std::vector<ClassResult> class_results(const std::vector<Judgement>&, std::size_t classes);

struct Confusion {
  int label = 0, predicted = 0;
  i64 images = 0;
};
// All pairs of different classes that occur, the most frequent first.
std::vector<Confusion> confusions(const std::vector<Judgement>&);

// [label][predicted]: images
std::vector<std::vector<i64>> confusion_matrix(const std::vector<Judgement>&, std::size_t classes);

// per_class.csv (class,images,recall,precision; empty where there are no images) and confusion.csv
// (a row for each class, a column for each it was taken for) in this folder, which is made. Names
// are quoted as RFC 4180 says. IoError names the file.
void write_class_csv(const std::filesystem::path& folder, const std::vector<Judgement>&,
                     const std::vector<std::string>& classes);

}  // namespace gossamer::apps
