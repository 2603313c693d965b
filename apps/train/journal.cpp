// See journal.h.
#include "gossamer/apps/train/journal.h"

#include <algorithm>

#include <fmt/format.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/report/trace_merge.h"
#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"

namespace gossamer::apps {

Journal::Journal(const Plan& plan)
    : folder(plan.options.dry_run ? "" : plan.config.run_folder(), plan.place.rank),
      board(plan.config.run.tensorboard ? folder.path() : ""),
      progress(plan.options.json ? stderr : stdout, plan.place.rank != 0 && !plan.joined()),
      plan_(plan) {}

void Journal::fault(const std::string& what, int peer) {
  if (ended_ || stop_signal()) return;  // workers that leave as planned
  const bool joined = what == "joined", refused = what == "exchange refused",
             left_out = what == "left out",
             stays = refused || left_out || what == "exchange failed";
  if (!stays) changed_ = true;
  if (!stays && peer < plan_.place.size) lost_ = true;
  {
    const std::scoped_lock lock(mutex_);
    if (refused && !refused_by_.insert(peer).second) return;  // said once; the summary counts them
  }
  folder.log(joined ? "joined" : "fault", JsonObject().add("what", what).add("peer", peer));
  {
    const std::scoped_lock lock(mutex_);
    if (joined)
      dead_.erase(peer);
    else if (!stays)
      dead_.insert(peer);
    const int rank = plan_.place.rank;
    if (!plan_.joined())  // it has a terminal of its own
      progress.set_silent(std::ranges::count_if(dead_, [&](int r) { return r < rank; }) < rank);
  }
  const bool took_leave = what == "left" && peer >= plan_.place.size;  // as it had come
  progress.note(fmt::format("{}   worker {}: {}",
                            joined       ? "joined"
                            : took_leave ? "left  "
                                         : "fault ",
                            peer, what) +
                (left_out                ? ": its values are not finite"
                 : what == "quarantined" ? ": several workers refuse its models"
                                         : ""));
}

void Journal::exchange(const dist::ExchangeRecord& e) const {
  folder.log("exchange", JsonObject()
                             .add("peer", e.peer)
                             .add("session", e.session)
                             .add("at", e.time)
                             .add("ok", e.ok)
                             .add("distance", e.distance)
                             .add("seconds", e.seconds)
                             .add("staleness", e.staleness));
}

void Journal::warn(const std::string& what, bool aloud) {
  folder.log("fault", JsonObject().add("what", what).add("peer", -1));
  if (aloud)
    progress.warn((plan_.several() ? fmt::format("worker {}: ", plan_.place.rank) : "") + what);
}

void Journal::show(double samples, const std::vector<std::pair<std::string, double>>& values) {
  if (leads()) board.scalars(plan_.board_step(samples), values);
}

void Journal::failed_together(const std::string& what, const std::exception& e) const {
  folder.log("fault", JsonObject().add("what", what + ": " + e.what()).add("peer", -1));
}

void Journal::start_trace() {
  if (!folder.writes()) return;
  trace_began_us_ = trace::now_us();
  trace::start(plan_.place.rank, fmt::format("worker {}", plan_.place.rank));
}

void Journal::write_trace(dist::Group& group) {
  if (!traces()) return;
  TraceClock clock{.rank = plan_.place.rank,
                   .machine = machine_id(),
                   .epoch_us = trace::epoch_us(),
                   .begin_us = trace_began_us_,
                   .end_us = trace::now_us()};
  if (plan_.place.rank != 0) {
    clock.begin = group.control().clock_offset(0, clock.begin_us);
    clock.end = group.control().clock_offset(0, clock.end_us);
  }
  try {
    folder.write_trace(to_json(clock));
  } catch (const IoError& e) {
    warn(e.what());
  }
}

}  // namespace gossamer::apps
