// `gossamer lesson`: prints a page that teaches decentralized training.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/lesson/page.h"
#include "gossamer/apps/report/run_record.h"
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

using Json = nlohmann::ordered_json;
constexpr std::size_t kMostRuns = 6;      // the page has as many colours
constexpr std::size_t kMostPoints = 200;  // of a curve; of more, every so many-th is taken

double five_digits(double v) { return std::stod(fmt::format("{:.5g}", v)); }

// Curves over the same epochs, {name: values, ...}, thinned. What is not finite becomes null.
template <class Row>
Json curves(const std::vector<Row>& rows,
            const std::vector<std::pair<const char*, double Row::*>>& columns) {
  const std::size_t every = (rows.size() + kMostPoints - 1) / kMostPoints;
  Json out = Json::object();
  for (const auto& [name, value] : columns) {
    Json list = Json::array();
    for (std::size_t k = 0; k < rows.size(); ++k)
      if (k % every == 0 || k + 1 == rows.size())
        list.push_back(std::isfinite(rows[k].*value) ? Json(five_digits(rows[k].*value)) : Json());
    out[name] = std::move(list);
  }
  return out;
}

struct Distance {
  double epoch = 0, distance = 0;
};

// The running estimate: the mean over the workers of their first lines, of their second ones, and
// so on, as long as half of the workers have one.
std::vector<Distance> estimates(const RunRecord& run) {
  std::vector<Distance> out;
  for (std::size_t k = 0;; ++k) {
    Distance sum;
    std::size_t workers = 0;
    for (const auto& [rank, rows] : run.steps)
      if (k < rows.size() && std::isfinite(rows[k].consensus)) {
        sum.epoch += rows[k].epoch, sum.distance += rows[k].consensus;
        ++workers;
      }
    if (2 * workers < run.steps.size() || workers == 0) return out;
    const auto n = static_cast<double>(workers);
    out.push_back({sum.epoch / n, sum.distance / n});
  }
}

// A run as the section `run` draws it.
Json drawn(const std::string& folder) {
  const RunRecord run = read_run(folder);
  const auto need = [&](bool held, auto&&... what) {
    check<ConfigError>(held, "lesson --run ", folder, ": ", what...);
  };
  need(run.steps.size() > 1, "one worker has no distance to others; give a run of several");
  const std::vector<EvalRow> evals = workers_evaluations(run.evals);
  need(evals.size() > 1, "the log has ", evals.size(), " evaluations of the workers' own models, ",
       "and a curve needs two; train with eval.every=0.5");
  std::vector<Distance> exact;
  for (const auto& [epoch, distance] : run.exact_consensus)
    if (std::isfinite(epoch) && std::isfinite(distance)) exact.push_back({epoch, distance});
  const std::vector<Distance> estimate = estimates(run);
  need(!exact.empty() || !estimate.empty(),
       "the log has no consensus distance; train with eval.consensus_every=0.5");
  const std::vector<std::pair<const char*, double Distance::*>> distance = {
      {"epoch", &Distance::epoch}, {"distance", &Distance::distance}};
  return {{"name", run.name},
          {"workers", run.steps.size()},
          {"own", curves<EvalRow>(evals, {{"epoch", &EvalRow::epoch},
                                          {"top1", &EvalRow::top1},
                                          {"loss", &EvalRow::loss}})},
          {"exact", curves(exact, distance)},
          {"estimate", curves(estimate, distance)}};
}

// The page with these runs in the place of those that the program has.
std::string with_runs(std::string page, const std::vector<std::string>& folders) {
  check<ConfigError>(folders.size() <= kMostRuns, "lesson --run: at most ", kMostRuns, " runs");
  Json runs = Json::array();
  for (const std::string& folder : folders) runs.push_back(drawn(folder));
  Json all;
  all["yours"] = true;
  all["runs"] = std::move(runs);
  std::string text = all.dump(-1, ' ', false, Json::error_handler_t::replace);
  // Nothing in a name ends the element that holds it.
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;)
    text.replace(at, 1, "\\u003c");
  const std::string_view begin = "id=\"runs\">";
  const std::size_t from = page.find(begin) + begin.size();
  return page.replace(from, page.find("</script>", from) - from, "\n" + text + "\n");
}

}  // namespace

int lesson(const LessonCommand& c) {
  check<ConfigError>(c.runs.empty() || c.section.empty() || c.section == "run", "lesson --section ",
                     c.section, " shows no runs: leave --run away, or take --section run");
  std::string page(lesson_page());
  if (!c.runs.empty()) page = with_runs(std::move(page), c.runs);
  if (!c.section.empty()) page = only(page, c.section);
  std::fwrite(page.data(), 1, page.size(), stdout);
  return 0;
}

}  // namespace gossamer::apps
