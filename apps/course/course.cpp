// See course.h.
#include "gossamer/apps/course/course.h"

#include <algorithm>

#include "gossamer/core/error.h"

namespace gossamer::apps {

const CourseUnit& course_unit(int number) {
  const auto all = course_units();
  const auto found = std::ranges::find(all, number, &CourseUnit::number);
  check<ConfigError>(found != all.end(), "course: there is no unit ", number, "; there are 1 to ",
                     all.size());
  return *found;
}

}  // namespace gossamer::apps
