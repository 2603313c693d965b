// The page of `gossamer lesson`: lesson.html with its styles and scripts inside, as embed.cmake has
// joined them when the program was built.
#pragma once

#include <string_view>

namespace gossamer::apps {

std::string_view lesson_page();

}  // namespace gossamer::apps
