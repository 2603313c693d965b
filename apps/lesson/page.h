// The page of `gossamer lesson`: lesson.html with its styles and scripts inside, as embed.cmake has
// joined them when the program was built.
#pragma once

#include <string_view>

namespace gossamer::apps {

std::string_view lesson_page();  // HTML

// CSS: the colours of all pages as variables, light and dark.
std::string_view page_palette();

// The part of that page that shows a run, style and scripts, for a page with that palette. That
// page's own script calls player(element).open(text of a trace, name).
std::string_view lesson_player();

}  // namespace gossamer::apps
