// What an evaluation says about each class, as a part of a page: recall and precision, which
// classes are taken for which, and the most confident mistakes.
#pragma once

#include <string>
#include <vector>

#include "gossamer/apps/report/class_results.h"

namespace gossamer::apps {

struct Mistake {
  std::string name;  // of the image in its set
  int label = 0, predicted = 0;
  double probability = 0;  // of the class that was predicted
  std::string picture;     // a small JPEG as a data: address; "" if it could not be made
};

struct ClassReport {
  std::vector<std::string> classes;
  std::vector<ClassPair> pairs;
  std::vector<Mistake> mistakes;  // the most confident first
};

// The file classes.json of a run, and back; without classes if the text is no such file.
std::string class_report_json(const ClassReport&);
ClassReport parse_class_report(const std::string& json);

// "" without classes. The matrix is drawn for up to 50 classes; of more, and of more than 20 pairs,
// the most frequent are listed.
std::string class_report_html(const ClassReport&);

}  // namespace gossamer::apps
