// What a report says about exchanges: who met whom and when, how late, how far apart.
#pragma once

#include <string>

#include "gossamer/apps/report/run_record.h"

namespace gossamer::apps {

// A section of a page; "" for runs without exchanges between workers.
std::string exchange_report(const RunRecord&);

}  // namespace gossamer::apps
