// Codes with which errors of whole data sets begin, so that they can be searched for. README.md
// says what each means and what to do.
#pragma once

namespace gossamer::data::code {

constexpr const char* nothing = "E-DATA-01 ";  // no such path, or no images there
// flat images, and nothing that says what they show
constexpr const char* no_truth = "E-DATA-02 ";
// the classes of training, validation or model differ
constexpr const char* other_classes = "E-DATA-03 ";
// there is something, but no data set of a known kind
constexpr const char* not_understood = "E-DATA-04 ";
// a container is damaged or can't be read
constexpr const char* damaged = "E-DATA-05 ";
// so many images are damaged (or one, where none may be) that it ends
constexpr const char* damaged_images = "E-DATA-06 ";

}  // namespace gossamer::data::code
