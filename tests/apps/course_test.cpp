// `gossamer course`: for each unit a right filling passes and wrong ones fail with their hints;
// every command of every page prints what the page shows.
#include "gossamer/apps/course/course.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include "apps/course_fillings.h"
#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string filled(const CourseUnit& unit, const Filling& filling) {
  std::string text(unit.exercise);
  for (const Part& part : filling) {
    const std::size_t at = text.find(part.before);
    EXPECT_NE(at, std::string::npos) << part.before;
    text.insert(text.rfind('\n', at) + 1, part.code + "\n");
  }
  return text;
}

// What compiles against a library with a sanitizer needs it too.
std::vector<std::string> flags() {
#if defined(__SANITIZE_ADDRESS__)
  return {"CXXFLAGS=-fsanitize=address,undefined"};
#elif defined(__SANITIZE_THREAD__)
  return {"CXXFLAGS=-fsanitize=thread"};
#else
  return {};
#endif
}

class Course : public ProgramTest, public ::testing::WithParamInterface<int> {
 protected:
  const CourseUnit& unit = course_unit(GetParam());
  const fs::path file() const { return folder / "course" / (std::string(unit.name) + ".cpp"); }
  Result check_it() { return run({"course", "check", std::to_string(unit.number)}, flags()); }
};

TEST_P(Course, ItsRightFillingPassesAndWrongOnesFailWithAHint) {
  const std::string number = std::to_string(unit.number);
  ASSERT_EQ(run({"course", "start", number}).code, 0);
  EXPECT_EQ(read_text(file()), unit.exercise);
  const Result empty = check_it();
  EXPECT_EQ(empty.code, 1) << empty.out << empty.err;
  EXPECT_THAT(empty.out, HasSubstr("  hint   "));

  // The solution that `gossamer course solution` shows has a prediction, too.
  const std::string right(unit.solution);
  const std::regex prediction("prediction = [^;]*;");
  write_text(file(), std::regex_replace(right, prediction, "prediction = NAN;"));
  const Result unpredicted = check_it();
  EXPECT_EQ(unpredicted.code, 1) << unpredicted.out << unpredicted.err;
  EXPECT_THAT(unpredicted.out, HasSubstr("replace NAN")) << "a prediction belongs to it";
  write_text(file(), std::regex_replace(right, prediction, "prediction = 1e9;"));
  const Result passed = check_it();
  EXPECT_EQ(passed.code, 0) << passed.out << passed.err;
  EXPECT_THAT(passed.out, HasSubstr("unit " + number + " passed"));
  EXPECT_THAT(passed.out, HasSubstr("you predicted 1e+09"));
  EXPECT_THAT(passed.out, Not(HasSubstr("warning:")));

  EXPECT_EQ(run({"course", "solution", number}).out, right);
  write_text(file(), right);
  EXPECT_THAT(check_it().out, HasSubstr("  ok     you predicted"));

  for (const Wrong& wrong : wrong_fillings().at(unit.number)) {
    write_text(file(), filled(unit, wrong.filling));
    const Result r = check_it();
    EXPECT_EQ(r.code, 1) << r.out << r.err;
    EXPECT_THAT(r.out, HasSubstr(wrong.hint));
  }
}

std::vector<int> numbers_of_units() {
  std::vector<int> out;
  for (const CourseUnit& unit : course_units()) out.push_back(unit.number);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Units, Course, ::testing::ValuesIn(numbers_of_units()));

// A word as a number, if it is one, with the text around it ("0.0567," and "n^2" keep what is
// not).
bool is_number(const std::string& word, double& value) {
  std::size_t used = 0;
  try {
    value = std::stod(word, &used);
  } catch (const std::exception&) {
    return false;
  }
  return used == word.size();
}

// `shown` stands in `said`: the same words, numbers to 2 %.
bool stands_in(const std::string& shown, const std::string& said) {
  std::istringstream a(shown), b(said);
  for (std::string wanted, got; a >> wanted;) {
    if (!(b >> got)) return false;
    double x = 0, y = 0;
    if (wanted == got) continue;
    if (!is_number(wanted, x) || !is_number(got, y) || std::abs(x - y) > .02 * std::abs(x))
      return false;
  }
  std::string more;
  return !(b >> more);
}

// Blocks of a page that begin with ```console: a line `$ gossamer …`, then lines that it prints,
// some of them.
class CoursePage : public Course {};

TEST_P(CoursePage, ItsCommandsPrintWhatItShows) {
  std::istringstream page{std::string(unit.page)};
  bool inside = false;
  int commands = 0, lines = 0, words = 0;
  std::vector<std::string> said;
  std::size_t at = 0;
  for (std::string line; std::getline(page, line);) {
    std::istringstream in(line);
    for (std::string word; in >> word;) ++words;
    if (line.starts_with("```")) {
      inside = line == "```console";
      continue;
    }
    if (!inside) continue;
    if (line.starts_with("$ gossamer ")) {
      std::istringstream arguments(line.substr(11));
      std::vector<std::string> all;
      for (std::string word; arguments >> word;) all.push_back(word);
      const Result r = run(all);
      ASSERT_EQ(r.code, 0) << line << "\n" << r.out << r.err;
      said.clear();
      std::istringstream out(r.out + r.err);
      for (std::string each; std::getline(out, each);) said.push_back(each);
      at = 0;
      ++commands;
      continue;
    }
    ++lines;
    while (at < said.size() && !stands_in(line, said[at])) ++at;
    ASSERT_LT(at, said.size()) << "unit " << unit.number << " shows a line that was not printed:\n"
                               << line;
    ++at;
  }
  EXPECT_GE(commands, 1);
  EXPECT_GE(lines, 1);
  EXPECT_LE(words, 1500);
  for (const char* part : {"## Predict", "## Try", "## Fill the hole"})
    EXPECT_THAT(std::string(unit.page), HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(Units, CoursePage, ::testing::ValuesIn(numbers_of_units()));

using CourseProgram = ProgramTest;

TEST_F(CourseProgram, ListsItsUnitsAndOverwritesNothing) {
  const Json list = Json::parse(run({"course", "--json"}).out);
  ASSERT_EQ(list["units"].size(), course_units().size());
  EXPECT_THAT(run({"course"}).out, HasSubstr("8  A method of your own"));
  const std::string file = list["units"][1]["file"];
  write_text(folder / file, "// mine\n");
  const Result r = run({"course", "start", "2"});
  EXPECT_EQ(r.code, 0);
  EXPECT_THAT(r.out, HasSubstr("is left as it is"));
  EXPECT_EQ(read_text(folder / file), "// mine\n");
}

TEST_F(CourseProgram, NamesAUnitAndAFileThatDoNotExist) {
  const std::string last = std::to_string(course_units().size());
  const Result unit = run({"course", "start", "99"});
  EXPECT_EQ(unit.code, 2);
  EXPECT_THAT(unit.err, HasSubstr("there is no unit 99; there are 1 to " + last));
  const Result file = run({"course", "check", "2"});
  EXPECT_EQ(file.code, 2);
  EXPECT_THAT(file.err, HasSubstr("`gossamer course start 2` writes it"));
}

TEST_F(CourseProgram, AnInstalledProgramFindsTheLibraryWhereDebianPutsIt) {
  const CourseUnit& unit = course_unit(2);
  std::string right(unit.solution);
  write_text(folder / "two.cpp", right);
  const std::string library = (folder / "library").string(), build = program.parent_path().string();
  const fs::path prefix = folder / "usr";
  fs::create_directories(prefix / "bin");
  fs::copy_file(program, prefix / "bin/gossamer");
  program = prefix / "bin/gossamer";
  const Result alone = run({"course", "check", "2", "two.cpp"}, flags());
  EXPECT_EQ(alone.code, 2) << alone.out << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("install libgossamer-dev"));

  program = "/usr/bin/env";
  ASSERT_EQ(
      run({"cmake", "--install", build, "--component", "development", "--prefix", library}).code,
      0);
  for (const char* machine : {"x86_64-linux-gnu", "aarch64-linux-gnu"})
    write_text(prefix / "lib" / machine / "cmake/gossamer/gossamer-config.cmake",
               "include(\"" + library + "/lib/cmake/gossamer/gossamer-config.cmake\")\n");
  program = prefix / "bin/gossamer";
  const Result found = run({"course", "check", "2", "two.cpp"}, flags());
  EXPECT_EQ(found.code, 0) << found.out << found.err;
}

TEST_F(CourseProgram, SaysHowATestEndedThatDidNotReachItsEnd) {
  const auto check = [&](const std::string& code) {
    write_text(folder / "two.cpp", filled(course_unit(2), {{"#include \"check.h\"",
                                                            "#include <csignal>\n#include "
                                                            "<cstdlib>"},
                                                           {"return w;", code}}));
    const Result r = run({"course", "check", "2", "two.cpp", "--timeout", "1"}, flags());
    EXPECT_EQ(r.code, 1) << r.out << r.err;
    return r.out;
  };
  EXPECT_THAT(check("std::signal(SIGSEGV, SIG_DFL), std::raise(SIGSEGV);"),
              AllOf(HasSubstr("your code crashed (signal 11: Segmentation fault)"),
                    HasSubstr("an index outside")));
  EXPECT_THAT(check("std::exit(0);"), HasSubstr("before the test was over"));
  EXPECT_THAT(check("for (volatile int k = 0; k < 1; k = 0) {}"),
              AllOf(HasSubstr("did not end within 1 s"), HasSubstr("a loop of yours never ends")));
}

TEST_F(CourseProgram, OnlyReadsTheBuildTree) {
  const fs::path build = program.parent_path(), tree = folder / "tree";
  fs::create_directories(tree);
  fs::create_symlink(build / "lib", tree / "lib");
  write_text(tree / "CMakeCache.txt", "");
  fs::copy_file(program, tree / "gossamer");
  program = tree / "gossamer";
  const auto files = [&] {
    std::set<std::string> names;
    for (const auto& e : fs::directory_iterator(tree)) names.insert(e.path().filename().string());
    return names;
  };
  const auto before = files();
  std::string right(course_unit(2).solution);
  write_text(folder / "two.cpp", right);
  const Result r = run({"course", "check", "2", "two.cpp"}, flags());
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_EQ(files(), before);
}

TEST_F(CourseProgram, GradesTheFilesOfAllStudents) {
  const CourseUnit& unit = course_unit(2);
  const std::string name = std::string(unit.name) + ".cpp";
  for (const char* student : {"Ada", "Bo/course", "=Cy"})
    fs::create_directories(folder / "all" / student);
  write_text(folder / "all/Ada" / name, std::string(unit.solution));
  write_text(folder / "all/Bo/course" / name, filled(unit, wrong_fillings().at(2)[0].filling));
  const Result csv = run({"course", "grade", "all", "--csv"}, flags());
  EXPECT_EQ(csv.code, 0) << csv.err;
  EXPECT_THAT(csv.out,
              StartsWith("student,unit,title,result,why\n'=Cy,1,Tape and gradient,missing,"));
  EXPECT_THAT(csv.out, AllOf(HasSubstr("Ada,2,Gossip matrices,passed,\n"),
                             HasSubstr("Bo,2,Gossip matrices,wrong,"),
                             HasSubstr("Bo,8,A method of your own,missing,")));
  EXPECT_EQ(std::ranges::count(csv.out, '\n'), 1 + 3 * std::ssize(course_units()));
  EXPECT_FALSE(fs::exists(folder / "all/Ada/build")) << "nothing is written to a student's folder";
  EXPECT_THAT(run({"course", "grade", "none"}).err, HasSubstr("a folder for each student"));
}

TEST_F(CourseProgram, HasAModuleForLecturersThatNamesWhatThereIs) {
  const std::string page = run({"course", "--lecturer"}).out;
  const std::string lesson = run({"lesson"}).out;
  for (const CourseUnit& unit : course_units())
    EXPECT_THAT(page, HasSubstr("unit " + std::to_string(unit.number)));
  // Every section of the lesson is in a lecture, and every one that a lecture shows is there.
  const std::regex id("<section id=\"([a-z]+)\">");
  for (std::sregex_iterator at(lesson.begin(), lesson.end(), id), end; at != end; ++at)
    if ((*at)[1] != "scaling") EXPECT_THAT(page, HasSubstr("`" + (*at)[1].str() + "`"));
  const std::regex row("\n\\| \\d+ \\| [^|]* \\| [^|]* \\| ([^|]*) \\|");
  const std::regex shown("`([a-z]+)`");
  int rows = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), row), end; at != end; ++at, ++rows) {
    const std::string cell = (*at)[1];
    for (std::sregex_iterator s(cell.begin(), cell.end(), shown); s != end; ++s)
      EXPECT_THAT(lesson, HasSubstr("<section id=\"" + (*s)[1].str() + "\">"));
  }
  EXPECT_EQ(rows, 10);
}

TEST_F(CourseProgram, NamesAFolderThatCannotBeMade) {
  write_text(folder / "course", "a file\n");
  const Result r = run({"course", "start", "2"});
  EXPECT_EQ(r.code, 6) << r.out << r.err;
  EXPECT_THAT(r.err,
              AllOf(HasSubstr((folder / "course").string()), HasSubstr("change to a folder")));
}

TEST_F(CourseProgram, WaitsForAnotherCheckOfTheSameFolder) {
  write_text(folder / "two.cpp", std::string(course_unit(2).solution));
  const fs::path build = folder / "build";
  write_text(build / "lock", "");
  const int other = open((build / "lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  start({"course", "check", "2", "two.cpp"}, flags());
  for (int i = 0; i < kLimit * 50 && read_text(folder / "err").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(read_text(folder / "err"), HasSubstr("this one waits for its end\n"));
  EXPECT_FALSE(fs::exists(build / "unit.cpp"));
  close(other);
  const Result r = wait();
  EXPECT_EQ(r.code, 0) << r.out << r.err;
}

TEST_F(CourseProgram, ShowsTheLineOfACrashToADebugger) {
  write_text(folder / "two.cpp",
             filled(course_unit(2), {{"return w;", "*static_cast<volatile int*>(nullptr) = 1;"}}));
  EXPECT_EQ(run({"course", "check", "2", "two.cpp"}, flags()).code, 1);
  std::string debug;
  for (const auto& e : fs::recursive_directory_iterator(folder / "build"))
    if (e.path().filename() == "unit") debug = read_text(e.path());
  EXPECT_THAT(debug, HasSubstr(".debug_line"));
}

TEST_F(CourseProgram, ShowsWhatTheCompilerSays) {
  write_text(folder / "two.cpp", "#include \"check.h\"\nthis is no C++;\n");
  const Result r = run({"course", "check", "2", "two.cpp"});
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.out, HasSubstr("two.cpp:2"));
  EXPECT_THAT(r.out, HasSubstr("it does not compile"));
}

}  // namespace
}  // namespace gossamer::apps
