// `gossamer lesson`: prints a page that teaches decentralized training.
#include <algorithm>
#include <cstdio>
#include <regex>
#include <vector>

#include <fmt/format.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/lesson/page.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"

namespace gossamer::apps {
namespace {

std::vector<std::string> sections_of(const std::string& page) {
  static const std::regex known("<section id=\"([a-z]+)\">");
  std::vector<std::string> out;
  for (std::sregex_iterator at(page.begin(), page.end(), known), end; at != end; ++at)
    out.push_back((*at)[1]);
  return out;
}

// The page without its introduction, its list and all other sections.
std::string only(const std::string& page, const std::string& section) {
  const std::vector<std::string> known = sections_of(page);
  check<ConfigError>(std::ranges::find(known, section) != known.end(), "lesson --section ", section,
                     ": known are: ", listed(known));
  const std::string_view closed = "</section>";
  const std::size_t own = page.find(fmt::format("<section id=\"{}\">", section));
  const std::size_t behind = page.find(closed, own) + closed.size();
  return page.substr(0, page.find("<h1>")) + "<nav hidden></nav>\n" +
         page.substr(own, behind - own) + page.substr(page.rfind(closed) + closed.size());
}

}  // namespace

int lesson(const LessonCommand& c) {
  const std::string all(lesson_page());
  const std::string page = c.section.empty() ? all : only(all, c.section);
  std::fwrite(page.data(), 1, page.size(), stdout);
  return 0;
}

}  // namespace gossamer::apps
