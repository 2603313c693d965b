// How the classes of two data sets, or of a data set and a model, differ. Threads: any.
#pragma once

#include <string>
#include <vector>

namespace gossamer::data {

// "; only in train: 'a', 'b'; only in val: 'c'", or the first class that stands at another place.
// Empty: they are equal. `first` and `second` are the names of the two in this sentence.
std::string class_difference(const std::vector<std::string>& a, const std::string& first,
                             const std::vector<std::string>& b, const std::string& second);

}  // namespace gossamer::data
