// `gossamer course`: units to learn from, and the check of what a student has written.
#include "gossamer/apps/course/course.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <vector>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/report/csv_cell.h"
#include "gossamer/apps/temporary_folder.h"
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
  if (!json)
    fmt::print("A course in {} units. A unit is a page to read and a file to fill.\n",
               course_units().size());
  for (const CourseUnit& unit : course_units()) {
    const std::string file = exercise_of(unit).string();
    rows.emplace_back()
        .add("unit", unit.number)
        .add("title", std::string(unit.title))
        .add("file", file);
    if (!json) fmt::print("  {:>2}  {:<34} {}\n", unit.number, unit.title, file);
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

// Of a student in a unit.
struct Grade {
  std::string student;
  const CourseUnit* unit;
  std::string result;  // passed | wrong | missing
  std::string why;     // of wrong: the first thing
};

// The line of what was said that names what is wrong.
std::string first_wrong(const std::string& said) {
  constexpr std::string_view mark = "  WRONG  ";
  const std::size_t at = said.find(mark);
  if (at == std::string::npos) return "";
  const std::size_t from = at + mark.size();
  return said.substr(from, said.find('\n', from) - from);
}

// A student's file may lie in the folder itself or in course/, where `start` writes it.
Grade grade(const fs::path& student, const CourseUnit& unit, const fs::path& build,
            double timeout) {
  Grade out{student.filename().string(), &unit, "missing", ""};
  const fs::path name = exercise_of(unit).filename();
  for (const fs::path& file : {student / name, student / "course" / name}) {
    if (!fs::exists(file)) continue;
    const CourseResult r = check_exercise(unit, file, build, timeout);
    out.result = r.passed ? "passed" : "wrong";
    if (!r.passed) out.why = first_wrong(r.text);
    break;
  }
  return out;
}

int grade_all(const CourseCommand& c) {
  check<ConfigError>(fs::is_directory(c.folder), "course grade: ", c.folder,
                     " is no folder; give one that holds a folder for each student");
  check<ConfigError>(c.timeout > 0, "course: --timeout ", c.timeout, ": give seconds, above 0");
  std::vector<fs::path> students;
  for (const fs::directory_entry& each : fs::directory_iterator(c.folder))
    if (each.is_directory() && !each.path().filename().string().starts_with("."))
      students.push_back(each.path());
  check<ConfigError>(!students.empty(), "course grade: ", c.folder,
                     " holds no folders; it needs one for each student");
  std::ranges::sort(students);
  // What is built stays out of the students' folders.
  const TemporaryFolder build("course");
  std::vector<JsonObject> rows;
  if (c.csv) fmt::print("student,unit,title,result,why\n");
  for (const fs::path& student : students) {
    for (const CourseUnit& unit : course_units()) {
      const Grade g = grade(student, unit, build.path(), c.timeout);
      const std::string title(unit.title);
      if (c.json)
        rows.push_back(JsonObject()
                           .add("student", g.student)
                           .add("unit", unit.number)
                           .add("result", g.result)
                           .add("why", g.why));
      else if (c.csv)
        fmt::print("{},{},{},{},{}\n", csv_cell(g.student), unit.number, csv_cell(title), g.result,
                   csv_cell(g.why));
      else
        fmt::print("{:<20} {:>2}  {:<34} {}{}{}\n", g.student, unit.number, title, g.result,
                   g.why.empty() ? "" : ": ", g.why);
      std::fflush(stdout);
    }
  }
  if (c.json) fmt::print("{}\n", json_text(rows));
  return 0;
}

}  // namespace

int course(const CourseCommand& c) {
  if (c.lecturer) return fmt::print("{}", course_for_lecturers()), 0;
  if (c.what.empty()) return list(c.json);
  if (c.what == "grade") return grade_all(c);
  const CourseUnit& unit = course_unit(c.unit);
  if (c.what == "solution") return fmt::print("{}", unit.solution), 0;
  return c.what == "start" ? start(unit, c.json) : check_unit(unit, c);
}

}  // namespace gossamer::apps
