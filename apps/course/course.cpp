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

void make_course_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::error_code ignored;
  check<IoError>(
      std::filesystem::is_directory(folder, ignored), "course: the folder ",
      std::filesystem::absolute(folder, ignored).string(), " cannot be made (",
      std::filesystem::exists(folder, ignored) ? "there is a file of this name" : error.message(),
      "); change to a folder in which you may write and which holds no file of this "
      "name");
}

}  // namespace gossamer::apps
