// Compiles a filled exercise of the course and runs its test.
#include "gossamer/apps/course/check.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "gossamer/apps/course/course.h"
#include "gossamer/apps/launch/process.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

namespace fs = std::filesystem;

constexpr double kLongestBuild = 1200;  // seconds, of cmake and the compiler

constexpr const char* kProject = R"(cmake_minimum_required(VERSION 3.24)
project(course LANGUAGES CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_package(gossamer REQUIRED COMPONENTS models dist)
add_executable(unit unit.cpp)
target_compile_options(unit PRIVATE -Wall -Wextra -g)
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

// Held while a check uses its folder. A file of its own, open for writing: the lock of a folder
// cannot be had over NFS. Where there are no locks at all, nobody waits.
Descriptor claim(const fs::path& folder) {
  const fs::path path = folder / "lock";
  Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  check<IoError>(lock.get() >= 0, "course: cannot write ", path.string());
  if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return lock;
  fmt::print(stderr, "course: another check uses {}; this one waits for its end\n",
             folder.string());
  while (flock(lock.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return lock;
}

struct Ended {
  int status = 0;  // of waitpid
  bool in_time = true;
  std::string said;
  bool well() const { return in_time && status == 0; }
};
Ended run(const std::vector<std::string>& arguments, const fs::path& log, double limit_s) {
  const Descriptor out(open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644));
  check<IoError>(out.get() >= 0, "course: cannot write ", log.string());
  const pid_t pid = spawn(
      {.arguments = arguments, .environment = {}, .out = out.get(), .err = out.get(), .keep = {}});
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Ended end;
  while (waitpid(pid, &end.status, WNOHANG) == 0) {
    if (std::chrono::duration<double>(Clock::now() - start).count() > limit_s) {
      end.in_time = false;
      kill(-pid, SIGKILL);
    }
    wait_for({}, {}, .01);
  }
  end.said = text_of(log);
  return end;
}

// Where cmake shall look for the library: the prefix that this program was installed to, or what
// its build tree says.
fs::path library() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  if (!fs::exists(here / "CMakeCache.txt")) return here.parent_path();
  fs::path built = here / "lib/cmake/gossamer";
  check<ConfigError>(fs::exists(built), "course: the build tree ", here.string(),
                     " does not say where its libraries are: build it with "
                     "-DGOSSAMER_INSTALL=ON");
  return built;
}

// What a signal mostly means.
const char* hint_for(int signal) {
  switch (signal) {
    case SIGSEGV:
    case SIGBUS:
      return "it used memory that is not its own: mostly an index outside of a vector or tensor, "
             "or a function that calls itself for ever";
    case SIGFPE:
      return "it divided a whole number by 0";
    case SIGABRT:
      return "an exception was not caught, or a check of the standard library failed: see above";
    case SIGILL:
    case SIGTRAP:
      return "mostly a function that ends without return";
    case SIGKILL:
      return "somebody killed it: mostly the system, when memory is full";
    default:
      return "look at what your code does last";
  }
}

std::string wrong(std::string said, const std::string& what, const std::string& hint) {
  if (!said.empty() && said.back() != '\n') said += '\n';
  return said + "  WRONG  " + what + "\n  hint   " + hint + "\n";
}

}  // namespace

CourseResult check_exercise(const CourseUnit& unit, const fs::path& file, const fs::path& folder,
                            double limit_s) {
  const std::string given = text_of(file);
  const std::string_view own = unit.exercise;
  const std::size_t test = own.find(kTestMark);
  const auto line = std::count(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(test), '\n');
  make_course_folder(folder);
  const Descriptor claimed = claim(folder);
  for (const CourseHeader& header : course_headers()) put(folder / header.name, header.text);
  put(folder / "CMakeLists.txt", kProject);
  put(folder / "unit.cpp",
      "#line 1 \"" + file.filename().string() + "\"\n" + given.substr(0, given.find(kTestMark)) +
          "\n#line " + std::to_string(line + 1) + " \"the test of unit " +
          std::to_string(unit.number) + "\"\n" + std::string(own.substr(test)));
  // Without a word cmake takes make, which need not be there.
  const char* const generator = found_in_path("ninja").empty() ? "Unix Makefiles" : "Ninja";
  const fs::path found_in = library(), build = folder / generator;
  const Ended made = run({"cmake", "-S", folder.string(), "-B", build.string(), "-G", generator,
                          "-DCMAKE_PREFIX_PATH=" + found_in.string()},
                         folder / "configure.log", kLongestBuild);
  check<ConfigError>(made.well(),
                     "course: cmake cannot set up the exercise, which is compiled against the "
                     "library; if it was not found in ",
                     found_in.string(), ", install libgossamer-dev:\n", made.said);
  const Ended built =
      run({"cmake", "--build", build.string()}, folder / "compile.log", kLongestBuild);
  if (!built.well()) return {false, built.said + "  WRONG  it does not compile\n"};
  const fs::path program = fs::absolute(build) / "unit";
  Ended ran = run({program.string()}, folder / "test.log", limit_s);
  if (!ran.in_time)
    return {false,
            wrong(ran.said, "the test did not end within " + course::shown(limit_s) + " s",
                  "a loop of yours never ends, or somebody waits for what never comes. (If your "
                  "machine is only slow, --timeout gives it more time.)")};
  if (WIFSIGNALED(ran.status)) {
    const int signal = WTERMSIG(ran.status);
    return {false, wrong(ran.said,
                         "your code crashed (signal " + std::to_string(signal) + ": " +
                             strsignal(signal) + ")",
                         std::string(hint_for(signal)) + ". `gdb -ex run -ex where " +
                             program.string() + "` shows the line")};
  }
  if (const std::size_t end = ran.said.rfind(course::kEnd); end != std::string::npos) {
    ran.said.erase(end, std::strlen(course::kEnd));
    if (ran.status == 0) return {true, ran.said};
    return {false, wrong(ran.said,
                         "your code ended with exit code " +
                             std::to_string(WEXITSTATUS(ran.status)) + " after the test",
                         "look at what it does when the program ends")};
  } else if (ran.said.find("  WRONG  ") != std::string::npos && ran.status != 0) {
    return {false, ran.said};
  }
  return {false, wrong(ran.said,
                       "your code ended the program (exit code " +
                           std::to_string(WEXITSTATUS(ran.status)) + ") before the test was over",
                       "it must return to its caller: leave out exit() and the like")};
}

}  // namespace gossamer::apps
