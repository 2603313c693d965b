// Compiles a filled exercise of the course and runs its test.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sys/wait.h>

#include "gossamer/apps/course/course.h"
#include "gossamer/apps/launch/process.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

namespace fs = std::filesystem;

constexpr double kLongestTest = 120;  // seconds

constexpr const char* kProject = R"(cmake_minimum_required(VERSION 3.24)
project(course LANGUAGES CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_package(gossamer REQUIRED COMPONENTS models dist)
add_executable(unit unit.cpp)
target_compile_options(unit PRIVATE -Wall -Wextra)
target_link_libraries(unit PRIVATE gossamer::models gossamer::dist)
)";

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  check<ConfigError>(in.good(), "course: ", path.string(),
                     " cannot be read: ", std::strerror(errno));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// What is already there is left alone, with its time, so that nothing is built anew.
void put(const fs::path& path, std::string_view text) {
  if (fs::exists(path) && text_of(path) == text) return;
  std::ofstream out(path, std::ios::binary);
  out << text;
  check<IoError>(out.flush().good(), "course: cannot write ", path.string());
}

struct Ended {
  bool well = false, in_time = true;
  std::string said;
};
Ended run(const std::vector<std::string>& arguments, const fs::path& log, double limit_s) {
  {
    const Descriptor out(open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644));
    check<IoError>(out.get() >= 0, "course: cannot write ", log.string());
    const pid_t pid = spawn({.arguments = arguments,
                             .environment = {},
                             .out = out.get(),
                             .err = out.get(),
                             .keep = {}});
    int status = 0;
    double waited = 0;
    for (; waitpid(pid, &status, WNOHANG) == 0; waited += .01) {
      if (waited > limit_s) kill(-pid, SIGKILL);
      wait_for({}, {}, .01);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {true, true, text_of(log)};
    return {false, waited <= limit_s, text_of(log)};
  }
}

// Where cmake shall look for the library: the prefix that this program was installed to, or, for a
// program in its build tree, `folder`, into which the library is then installed.
fs::path installed(const fs::path& folder) {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  if (!fs::exists(here / "CMakeCache.txt")) return here.parent_path();
  const fs::path to = folder / "library";
  const Ended r = run(
      {"cmake", "--install", here.string(), "--component", "development", "--prefix", to.string()},
      folder / "install.log", kLongestTest);
  check<ConfigError>(r.well, "course: cmake cannot install the library of ", here.string(), ":\n",
                     r.said);
  return to;
}

}  // namespace

CourseResult check_exercise(const CourseUnit& unit, const fs::path& file, const fs::path& folder) {
  const std::string given = text_of(file);
  const std::string_view own = unit.exercise;
  const std::size_t test = own.find(kTestMark);
  const auto line = std::count(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(test), '\n');
  fs::create_directories(folder);
  put(folder / "check.h", course_check_header());
  put(folder / "CMakeLists.txt", kProject);
  put(folder / "unit.cpp",
      "#line 1 \"" + file.filename().string() + "\"\n" + given.substr(0, given.find(kTestMark)) +
          "\n#line " + std::to_string(line + 1) + " \"the test of unit " +
          std::to_string(unit.number) + "\"\n" + std::string(own.substr(test)));
  const fs::path library = installed(fs::absolute(folder)), build = folder / "make";
  const Ended made = run({"cmake", "-S", folder.string(), "-B", build.string(),
                          "-DCMAKE_PREFIX_PATH=" + library.string()},
                         folder / "configure.log", kLongestTest);
  check<ConfigError>(made.well,
                     "course: cmake cannot set up the exercise, which is compiled against the "
                     "library; if it was not found in ",
                     library.string(), ", install libgossamer-dev:\n", made.said);
  const Ended built =
      run({"cmake", "--build", build.string()}, folder / "compile.log", 10 * kLongestTest);
  if (!built.well) return {false, built.said + "  WRONG  it does not compile\n"};
  const Ended ran =
      run({(fs::absolute(build) / "unit").string()}, folder / "test.log", kLongestTest);
  if (!ran.in_time)
    return {false, ran.said + "  WRONG  the test did not end; somebody waits for ever\n"};
  return {ran.well, ran.said};
}

}  // namespace gossamer::apps
