// See token.h.
#include "gossamer/dist/net/token.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <sstream>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/hexadecimal.h"
#include "gossamer/dist/net/hmac.h"
#include "gossamer/dist/net/launch_sources.h"

namespace gossamer::dist {
namespace {

constexpr int kWantedBits = 128;
// A random text of 128 bits has fewer only once in ten million times.
constexpr std::size_t kFewestDifferent = 8;
constexpr const char* kMake = "(umask 077; openssl rand -hex 16 > ~/.gossamer-token)";

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// The most bits that a text of these kinds of characters can hold.
double bits(const std::string& token) {
  const auto any = [&](auto is) {
    return std::ranges::any_of(token, [&](char c) { return is(static_cast<unsigned char>(c)); });
  };
  const bool hexadecimal_only = !any([](unsigned char c) { return std::isxdigit(c) == 0; });
  int kinds = 0;
  if (any([](unsigned char c) { return std::isdigit(c) != 0; })) kinds += 10;
  if (any([](unsigned char c) { return std::islower(c) != 0; })) kinds += hexadecimal_only ? 6 : 26;
  if (any([](unsigned char c) { return std::isupper(c) != 0; })) kinds += hexadecimal_only ? 6 : 26;
  if (any([](unsigned char c) { return std::isalnum(c) == 0; })) kinds += 33;
  return static_cast<double>(token.size()) * std::log2(std::max(kinds, 1));
}

// A folder, not a link to one, that nobody but this user may enter.
bool is_private(const std::string& folder, std::string* why = nullptr) {
  struct stat about {};
  std::ostringstream reason;
  if (lstat(folder.c_str(), &about) != 0)
    reason << std::strerror(errno);
  else if (!S_ISDIR(about.st_mode))
    reason << "it is no folder";
  else if (about.st_uid != geteuid())
    reason << "it belongs to another user (" << about.st_uid << ")";
  else if ((about.st_mode & 077) != 0)
    reason << "it has mode 0" << std::oct << (about.st_mode & 0777) << ", so others can enter it";
  if (why != nullptr) *why = reason.str();
  return reason.str().empty();
}

// How the start of this job gives GOSSAMER_TOKEN_FILE to all workers.
std::string carried_by(const std::string& source) {
  const std::string set = "export GOSSAMER_TOKEN_FILE=$HOME/.gossamer-token";
  if (source == "slurm") return set + " before srun, which passes it on";
  if (source == "openmpi") return set + ", and start with mpirun -x GOSSAMER_TOKEN_FILE";
  if (source == "hydra") return set + " before mpiexec, which passes it on";
  if (source == "torchrun")
    return set +
           " before torchrun on each node; pods of Kubernetes take GOSSAMER_TOKEN from a "
           "Secret (apps/launch/cluster.md)";
  if (source == "gossamer") return set + " for each worker";
  return "set GOSSAMER_TOKEN_FILE for all workers, or in C token_file";
}

}  // namespace

std::string new_token() {
  std::array<std::uint8_t, kWantedBits / 8> random{};
  const bool drawn = getentropy(random.data(), random.size()) == 0;
  check<DistError>(drawn, "no random numbers from the kernel: ", std::strerror(errno));
  return hexadecimal(random);
}

std::string weakness(const std::string& token) {
  const bool repeats = token.size() > kFewestDifferent &&
                       std::set<char>(token.begin(), token.end()).size() < kFewestDifferent;
  if (!repeats && bits(token) >= kWantedBits) return "";
  std::ostringstream text;
  if (repeats)
    text << "repeats a few characters";
  else
    text << "holds at most " << static_cast<int>(bits(token)) << " bits";
  text << ", so it can be guessed; wanted: " << kWantedBits
       << " random bits, as `openssl rand -hex 16` prints";
  return text.str();
}

std::string token_of_file(const std::string& name, const std::string& path) {
  const std::string file = name + "=" + path;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  check<ConfigError>(fd >= 0, file, ": ", std::strerror(errno));
  struct stat about {};
  char text[4096];
  const bool known = fstat(fd, &about) == 0;
  const ssize_t length = known && S_ISREG(about.st_mode) ? read(fd, text, sizeof text) : -1;
  close(fd);
  check<ConfigError>(length >= 0, file, ": it is no file that can be read");
  std::ostringstream mode;
  mode << std::oct << (about.st_mode & 0777);
  check<ConfigError>((about.st_mode & 077) == 0, file, " has mode 0", mode.str(),
                     ": others can read or change the job's secret; chmod 600 ", path);
  check<ConfigError>(about.st_uid == geteuid() || about.st_uid == 0, file,
                     " belongs to another user (", about.st_uid,
                     "), who knows the job's secret; make one of your own");
  std::istringstream in(std::string(text, static_cast<std::size_t>(length)));
  std::string token;
  check<ConfigError>(static_cast<bool>(in >> token), file,
                     " is empty; for example: openssl rand -hex 16 > ", path);
  if (const std::string why = weakness(token); !why.empty())
    fail<ConfigError>(file, ": the token ", why);
  return token;
}

std::string user_token_file() {
  if (const auto folder = variable("XDG_RUNTIME_DIR"); folder && is_private(*folder))
    return *folder + "/gossamer-token";
  const std::string folder = "/tmp/gossamer-" + std::to_string(geteuid());
  std::string why;
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    why = std::strerror(errno);
  else
    is_private(folder, &why);
  check<ConfigError>(why.empty(), "the secret of this user cannot be kept in ", folder, ": ", why,
                     "; set XDG_RUNTIME_DIR to a folder of mode 700, or make a token by ", kMake,
                     " and name it by GOSSAMER_TOKEN_FILE (in C: token_file)");
  return folder + "/gossamer-token";
}

std::string user_token(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) {
    // Written whole before it has its name, so nobody reads a part; the first of several stays.
    const std::string text = new_token() + "\n", draft = path + "." + new_token();
    const int fd = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool written =
        fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    const bool named = written && (link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST);
    const int error = errno;
    if (fd >= 0) close(fd);
    unlink(draft.c_str());
    check<ConfigError>(named, "the secret of this user cannot be written to ", path, ": ",
                       std::strerror(error));
  }
  return token_of_file("the secret of this user", path);
}

LaunchInfo with_token(LaunchInfo info, bool open) {
  if (info.all_places() == 1 || info.open) return info;
  // Who joins later knows no more of the job than where worker 0 is.
  if (info.all_places() > info.size)
    info.job = "join " + (is_loopback(info.host) ? "127.0.0.1" : info.host) + ":" +
               std::to_string(info.port);
  if (!info.token.empty()) {
    const std::string why = weakness(info.token);
    check<ConfigError>(why.empty(), "the token ", why,
                       ". All workers get the same (GOSSAMER_TOKEN, GOSSAMER_TOKEN_FILE; in C: "
                       "token, token_file)");
    return info;
  }
  if (open) {
    info.open = true;
    info.token = info.job;
    return info;
  }
  check<ConfigError>(
      info.local,
      "the workers may be on several machines, and this job has no secret that keeps "
      "strangers out. Make one once, ",
      kMake, ", and ", carried_by(info.source),
      ". open=true goes without: then anybody who reaches a port can join, "
      "take "
      "the model and ruin it");
  info.token_file = user_token_file();
  // Each job has its own, so that two jobs of one user do not meet.
  info.token =
      hexadecimal(hmac(bytes_of(user_token(info.token_file)), bytes_of("job " + info.job)));
  return info;
}

std::string run_number(const LaunchInfo& info) {
  return hexadecimal(hmac(bytes_of(info.token), bytes_of("run"))).substr(0, 16);
}

}  // namespace gossamer::dist
