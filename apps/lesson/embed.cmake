# cmake -DOUT=FILE -P embed.cmake: joins lesson.html, its styles, scripts, words and recorded runs
# into one page. FILE.html: the page; FILE.cpp: the same as a string of the program, and what other
# pages need of it: colours, and what shows a run.
set(folder ${CMAKE_CURRENT_LIST_DIR})
function(inside tag file out)
  file(READ ${folder}/${file} text)
  set(${out} "<${tag}>\n${text}</${tag}>" PARENT_SCOPE)
endfunction()
file(READ ${folder}/lesson.html page)
foreach(name palette lesson player)
  inside(style ${name}.css text)
  string(REPLACE "<link rel=\"stylesheet\" href=\"${name}.css\">" "${text}" page "${page}")
endforeach()
string(REGEX MATCHALL "<script src=\"[a-z_0-9]+\\.js\"></script>" scripts "${page}")
foreach(script ${scripts})
  string(REGEX REPLACE ".*\"(.*)\".*" "\\1" name "${script}")
  inside(script ${name} text)
  string(REPLACE "${script}" "${text}" page "${page}")
endforeach()
file(READ ${folder}/words.json words)
string(REPLACE ">WORDS<" ">\n${words}<" page "${page}")
file(READ ${folder}/recorded.json recorded)
string(REPLACE ">RECORDED<" ">\n${recorded}<" page "${page}")
file(READ ${folder}/palette.css palette)
inside(style player.css player_style)
foreach(part shared player)
  string(JSON ${part} GET "${words}" ${part})
endforeach()
set(player_words "<script type=\"application/json\" id=\"words\">
{\"shared\": ${shared}, \"player\": ${player}}</script>")
inside(script draw.js player_draw)
inside(script player.js player_run)
if(OUT MATCHES "html$")
  file(WRITE ${OUT} "${page}")
else()
  file(WRITE ${OUT} "// Written by apps/lesson/embed.cmake.
#include \"gossamer/apps/lesson/page.h\"

namespace gossamer::apps {

std::string_view lesson_page() {
  return R\"lesson(${page})lesson\";
}

std::string_view page_palette() {
  return R\"lesson(${palette})lesson\";
}

std::string_view lesson_player() {
  return R\"lesson(${player_style}${player_words}${player_draw}${player_run})lesson\";
}

}  // namespace gossamer::apps
")
endif()
