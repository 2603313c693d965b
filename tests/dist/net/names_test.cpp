// Workers whose names are not known yet when they begin, as in a cluster that is being set up.
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <fstream>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include "dist/net/harness.h"
#include "support/temp_folder.h"

namespace gossamer::dist::testing {
namespace {

constexpr const char* kName = "later.gossamer.test";

// In this process alone, /etc/hosts is the file that GOSSAMER_TEST_HOSTS names. False where a
// process may not do so.
bool own_hosts() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount(std::getenv("GOSSAMER_TEST_HOSTS"), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
}

void meets_by_name(const LaunchInfo& info, const std::function<void(const std::string&)>& say) {
  if (!own_hosts()) return say("may not");
  LaunchInfo named = info;
  named.host = kName;
  named.local = false;
  named.interface = "lo";
  JoinOptions options = quick();
  options.tls = "off";
  options.connect_timeout_s = 60;
  options.on_wait = say;
  const auto group = process_group(named, options);
  say("met " + std::to_string(group->size()));
}
const RegisterRole r1("meets-by-name", meets_by_name);

class Names : public InTempFolder {};

TEST_F(Names, AreAskedForAgainUntilTheyAreKnown) {
  const std::string hosts = file("hosts");
  std::ofstream(hosts) << "127.0.0.1 localhost\n";
  setenv("GOSSAMER_TEST_HOSTS", hosts.c_str(), 1);
  const int port = free_port();
  std::deque<Worker> workers;
  for (int r = 0; r < 2; ++r) workers.emplace_back("meets-by-name", place(r, 2, port));
  unsetenv("GOSSAMER_TEST_HOSTS");
  for (Worker& w : workers) {
    const std::string said = w.line();
    if (said == "may not") GTEST_SKIP() << "this process may have no /etc/hosts of its own";
    EXPECT_EQ(said, std::string("the name \"") + kName + "\" is not known yet; asked for again");
  }
  std::ofstream(hosts, std::ios::app) << "127.0.0.1 " << kName << "\n";
  for (Worker& w : workers) EXPECT_EQ(w.line(60), "met 2");
}

}  // namespace
}  // namespace gossamer::dist::testing
