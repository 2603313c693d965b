# cmake -DOUT=FILE -P embed.cmake: the pages and exercises of units/, their solutions, the
# headers of their tests, and the page for lecturers as strings of the program. The title of a unit
# is the heading of its page.
set(folder ${CMAKE_CURRENT_LIST_DIR})
set(units "")
file(GLOB pages ${folder}/units/*.md)
list(SORT pages COMPARE NATURAL)
foreach(path ${pages})
  get_filename_component(name ${path} NAME_WE)
  string(REGEX MATCH "^[0-9]+" number ${name})
  file(READ ${path} page)
  file(READ ${folder}/units/${name}.cpp exercise)
  file(READ ${folder}/solutions/${name}.cpp solution)
  string(REGEX MATCH "^# [0-9]+\\. ([^\n]+)" heading "${page}")
  string(APPEND units "    {${number}, \"${name}\", \"${CMAKE_MATCH_1}\",
     R\"page(${page})page\",
     R\"code(${exercise})code\",
     R\"code(${solution})code\"},
")
endforeach()
set(headers "")
foreach(path ${folder}/check.h ${folder}/units/workers.h)
  get_filename_component(name ${path} NAME)
  file(READ ${path} header)
  string(APPEND headers "    {\"${name}\", R\"code(${header})code\"},
")
endforeach()
file(READ ${folder}/lecturer.md lecturer)
file(WRITE ${OUT} "// Written by apps/course/embed.cmake.
#include \"gossamer/apps/course/course.h\"

namespace gossamer::apps {

std::span<const CourseUnit> course_units() {
  static constexpr CourseUnit all[] = {
${units}  };
  return all;
}

std::span<const CourseHeader> course_headers() {
  static constexpr CourseHeader all[] = {
${headers}  };
  return all;
}

std::string_view course_for_lecturers() {
  return R\"page(${lecturer})page\";
}

}  // namespace gossamer::apps
")
