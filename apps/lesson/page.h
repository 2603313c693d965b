// The page of `gossamer lesson`: lesson.html with its styles and scripts inside, as embed.cmake has
// joined them when the program was built.
#pragma once

#include <string_view>

namespace gossamer::apps {

std::string_view lesson_page();

// Of that page, the style and the scripts that show a run: for a page with the colours of
// report/html.h, whose own script then calls player(element).open(text of a trace, name).
std::string_view lesson_player();

}  // namespace gossamer::apps
