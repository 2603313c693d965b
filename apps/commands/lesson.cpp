// `gossamer lesson`: prints a page that teaches decentralized training.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/lesson/page.h"
#include "gossamer/apps/report/run_record.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
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

// Where the page has the element of data with this id: from, to.
std::pair<std::size_t, std::size_t> data_of(const std::string& page, const std::string& id) {
  const std::string begin = fmt::format("<script type=\"application/json\" id=\"{}\">", id);
  const std::size_t from = page.find(begin) + begin.size();
  return {from, page.find("</script>", from)};
}

std::string with_data(std::string page, const std::string& id, const Json& data) {
  std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  // Nothing in it ends the element.
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;)
    text.replace(at, 1, "\\u003c");
  const auto [from, to] = data_of(page, id);
  return page.replace(from, to - from, "\n" + text + "\n");
}

// The page with these runs in the place of those that the program has.
std::string with_runs(std::string page, const std::vector<std::string>& folders) {
  check<ConfigError>(folders.size() <= kMostRuns, "lesson --run: at most ", kMostRuns, " runs");
  Json runs = Json::array();
  for (const std::string& folder : folders) runs.push_back(drawn(folder));
  Json all;
  all["yours"] = true;
  all["runs"] = std::move(runs);
  return with_data(std::move(page), "runs", all);
}

// The {names} of a text, which may be a list of lines.
std::set<std::string> values_in(const Json& text) {
  static const std::regex name("\\{(\\w+)\\}");
  std::set<std::string> out;
  for (const Json& line : text.is_array() ? text : Json::array({text})) {
    const std::string said = line;
    for (std::sregex_iterator at(said.begin(), said.end(), name), end; at != end; ++at)
      out.insert((*at)[1]);
  }
  return out;
}

bool is_text(const Json& v) {
  return v.is_string() || (v.is_array() && std::ranges::all_of(v, [](const Json& line) {
                             return line.is_string();
                           }));
}

// Words of a file against those of the program: the same keys, and texts where these have texts.
void check_words(const Json& ours, const Json& theirs, const std::string& file,
                 const std::string& at) {
  const auto need = [&](bool held, auto&&... what) {
    check<ConfigError>(held, "lesson --words ", file, ": ", at, what...);
  };
  if (ours.is_object()) {
    need(theirs.is_object(), at.empty() ? "no object of JSON" : " is no object");
    const std::string in = at.empty() ? "" : at + ".";
    for (const auto& [key, text] : ours.items()) {
      check<ConfigError>(theirs.contains(key), "lesson --words ", file, ": ", in, key,
                         " is missing");
      check_words(text, theirs[key], file, in + key);
    }
    for (const auto& [key, text] : theirs.items())
      check<ConfigError>(ours.contains(key), "lesson --words ", file, ": ", in, key,
                         " is not a text of the lesson");
    return;
  }
  need(is_text(theirs), " is neither a text nor a list of lines");
  if (at.ends_with(".options"))
    need(theirs.is_array() && theirs.size() == ours.size(), " has to be ", ours.size(), " texts");
  for (const std::string& name : values_in(theirs))
    need(values_in(ours).contains(name), " has a value {", name, "} that the lesson does not know");
}

// The page in another language.
std::string with_words(std::string page, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  check<IoError>(in.good(), "lesson --words ", file, ": cannot be read");
  const Json theirs = parse_json<Json>(std::string(std::istreambuf_iterator<char>(in), {}));
  const auto [from, to] = data_of(page, "words");
  check_words(Json::parse(page.substr(from, to - from)), theirs, file, "");
  return with_data(std::move(page), "words", theirs);
}

}  // namespace

int lesson(const LessonCommand& c) {
  check<ConfigError>(c.runs.empty() || c.section.empty() || c.section == "run", "lesson --section ",
                     c.section, " shows no runs: leave --run away, or take --section run");
  std::string page(lesson_page());
  if (!c.words.empty()) page = with_words(std::move(page), c.words);
  if (!c.runs.empty()) page = with_runs(std::move(page), c.runs);
  if (!c.section.empty()) page = only(page, c.section);
  std::fwrite(page.data(), 1, page.size(), stdout);
  return 0;
}

}  // namespace gossamer::apps
