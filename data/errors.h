// Errors of whole data sets begin with these codes, so that users can search for them.
// formats/README.md says what each means and what to do.
#pragma once

namespace gossamer::data::code {

constexpr const char* nothing = "E-DATA-01 ";  // no such path, or no images there
// flat images without a file that says what they show
constexpr const char* no_truth = "E-DATA-02 ";
// the classes of training, validation or model differ
constexpr const char* other_classes = "E-DATA-03 ";
// the path exists, but is no data set of a known kind
constexpr const char* not_understood = "E-DATA-04 ";
// a container is damaged or can't be read
constexpr const char* damaged = "E-DATA-05 ";
// too many damaged images, or one where none is allowed
constexpr const char* damaged_images = "E-DATA-06 ";

}  // namespace gossamer::data::code
