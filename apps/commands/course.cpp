// `gossamer course`: units to learn from, and the check of what a student has written.
#include "gossamer/apps/course/course.h"

#include <fstream>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"

namespace gossamer::apps {
namespace {

namespace fs = std::filesystem;

fs::path exercise_of(const CourseUnit& unit) {
  return fs::path("course") / (std::string(unit.name) + ".cpp");
}

int list(bool json) {
  std::vector<JsonObject> rows;
  if (!json) fmt::print("A course in eight units. A unit is a page to read and a file to fill.\n");
  for (const CourseUnit& unit : course_units()) {
    const std::string file = exercise_of(unit).string();
    rows.emplace_back()
        .add("unit", unit.number)
        .add("title", std::string(unit.title))
        .add("file", file);
    if (!json) fmt::print("  {}  {:<34} {}\n", unit.number, unit.title, file);
  }
  if (json)
    fmt::print("{{\"units\": {}}}\n", json_text(rows));
  else
    fmt::print(
        "gossamer course start 1   shows the page of unit 1 and writes both files into course/\n"
        "gossamer course check 1   compiles what you have written and tests it\n");
  return 0;
}

// What a student has written is never overwritten.
int start(const CourseUnit& unit, bool json) {
  const fs::path file = exercise_of(unit), page = fs::path(file).replace_extension(".md");
  make_course_folder(file.parent_path());
  const bool there = fs::exists(file);
  for (const auto& [path, text] : {std::pair{page, unit.page}, {file, unit.exercise}}) {
    if (path == file && there) continue;
    std::ofstream out(path, std::ios::binary);
    out << text;
    check<IoError>(out.flush().good(), "course: cannot write ", path.string());
  }
  if (json)
    fmt::print(
        "{}\n",
        JsonObject().add("unit", unit.number).add("file", file.string()).add("new", !there).str());
  else
    fmt::print("{}\n{} {}\n", unit.page, file.string(),
               there ? "was here before and is left as it is" : "is the file to fill");
  return 0;
}

int check_unit(const CourseUnit& unit, const CourseCommand& c) {
  const fs::path file = c.file.empty() ? exercise_of(unit) : fs::path(c.file);
  check<ConfigError>(fs::exists(file), "course: there is no ", file.string(),
                     "; `gossamer course start ", unit.number, "` writes it");
  check<ConfigError>(c.timeout > 0, "course: --timeout ", c.timeout, ": give seconds, above 0");
  const CourseResult r =
      check_exercise(unit, file, fs::absolute(file).parent_path() / "build", c.timeout);
  if (c.json)
    fmt::print(
        "{}\n",
        JsonObject().add("unit", unit.number).add("passed", r.passed).add("text", r.text).str());
  else
    fmt::print("unit {}: {}\n{}unit {} {}\n", unit.number, unit.title, r.text, unit.number,
               r.passed ? "passed" : "is not done yet");
  return r.passed ? 0 : 1;
}

}  // namespace

int course(const CourseCommand& c) {
  if (c.what.empty()) return list(c.json);
  const CourseUnit& unit = course_unit(c.unit);
  return c.what == "start" ? start(unit, c.json) : check_unit(unit, c);
}

}  // namespace gossamer::apps
