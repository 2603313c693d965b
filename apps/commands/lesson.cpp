// `gossamer lesson`: prints a page that teaches decentralized training.
#include <cstdio>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/lesson/page.h"

namespace gossamer::apps {

int lesson() {
  const std::string_view page = lesson_page();
  std::fwrite(page.data(), 1, page.size(), stdout);
  return 0;
}

}  // namespace gossamer::apps
