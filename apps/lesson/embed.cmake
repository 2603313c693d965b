# cmake -DOUT=FILE -P embed.cmake: joins lesson.html and what it names, its styles and scripts, into
# one page. FILE.html: the page; FILE.cpp: the same as a string of the program.
set(folder ${CMAKE_CURRENT_LIST_DIR})
file(READ ${folder}/lesson.html page)
file(READ ${folder}/lesson.css styles)
string(REPLACE "<link rel=\"stylesheet\" href=\"lesson.css\">" "<style>\n${styles}</style>"
  page "${page}")
string(REGEX MATCHALL "<script src=\"[a-z_0-9]+\\.js\"></script>" scripts "${page}")
foreach(script ${scripts})
  string(REGEX REPLACE ".*\"(.*)\".*" "\\1" name "${script}")
  file(READ ${folder}/${name} text)
  string(REPLACE "${script}" "<script>\n${text}</script>" page "${page}")
endforeach()
if(OUT MATCHES "html$")
  file(WRITE ${OUT} "${page}")
else()
  file(WRITE ${OUT} "// Written by apps/lesson/embed.cmake.
#include \"gossamer/apps/lesson/page.h\"

namespace gossamer::apps {

std::string_view lesson_page() {
  return R\"lesson(${page})lesson\";
}

}  // namespace gossamer::apps
")
endif()
