// The course: units, each a page and a file of C++ with a hole and a test. They are part of the
// program, as embed.cmake has put them there.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace gossamer::apps {

struct CourseUnit {
  int number = 0;          // from 1
  std::string_view name;   // "2-matrices": of its files
  std::string_view title;  // the heading of its page
  std::string_view page, exercise;
  std::string_view solution;  // what stands above the mark, filled and with a right prediction
};
std::span<const CourseUnit> course_units();
// ConfigError lists those that there are.
const CourseUnit& course_unit(int number);
// A module of lectures, in Markdown.
std::string_view course_for_lecturers();
// Headers that exercises include.
struct CourseHeader {
  std::string_view name, text;
};
std::span<const CourseHeader> course_headers();

// In an exercise: the line behind which the test begins.
inline constexpr std::string_view kTestMark = "// ---- The test";

// What became of a filled file.
struct CourseResult {
  bool passed = false;
  std::string text;  // what the compiler or the test said
};
// Compiles what stands above the mark of `file`, with the unit's own test below it, against the
// library (of the build tree in which this program lies, or installed with it), and runs it.
// `folder` keeps what is built; nothing else is written. If another check uses it, this one says so
// on stderr and waits. A test that does not end is stopped after `limit_s` seconds.
// ConfigError: there is no library, cmake or compiler.
CourseResult check_exercise(const CourseUnit&, const std::filesystem::path& file,
                            const std::filesystem::path& folder, double limit_s);
// Makes a folder and those above it. IoError says why it cannot be made, and what to do.
void make_course_folder(const std::filesystem::path&);

}  // namespace gossamer::apps
