// Lists of class names beside data sets whose labels are numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gossamer::data {

// From LOC_synset_mapping.txt, synset_words.txt, synsets.txt, imagenet_lsvrc_2015_synsets.txt,
// classes.txt or classnames.txt in the folder of `path` or the one above: line i names class i, by
// its first word if that is a WordNet id (n01440764), else as a whole. Empty: there is no such list
// with at least `wanted` names, all different. DataError if a list can't be read.
std::vector<std::string> class_names_beside(const std::string& path, int wanted);

// The lines of a text, without line ends and without empty lines at the end. DataError above 64
// MiB.
std::vector<std::string> read_lines(const std::string& path);
std::vector<std::string> split_lines(std::string_view text);

bool is_wnid(std::string_view word);  // n and eight digits

}  // namespace gossamer::data
