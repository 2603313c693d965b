// The secret of a job: what is none, whose it is, and that a stranger on the same machine does not
// have it.
#include "gossamer/dist/net/token.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dist/net/harness.h"
#include "support/error_of.h"

namespace gossamer::dist::testing {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Token, FewerThan128BitsAreRefused) {
  for (const char* weak :
       {"", "abc", "swordfish", "a token of the tests", "0123456789abcdef0123456789abcde",
        "12345678901234567890123456789012345678", "correcthorsebatterystaple",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
    EXPECT_NE(weakness(weak), "") << weak;
  for (const char* good : {kToken, "3t6UoMkdXZcWkwaOTjVw0g==", "qwoifjpqwnxvbzlkdjfhasuwiery",
                           "839201748302914758392017483920174839201"})
    EXPECT_EQ(weakness(good), "") << good;
  EXPECT_TRUE(has(weakness("swordfish"), "at most 42 bits"));
  std::set<std::string> made;
  for (int i = 0; i < 1000; ++i) {
    const std::string token = new_token();
    EXPECT_EQ(weakness(token), "") << token;
    made.insert(token);
  }
  EXPECT_EQ(made.size(), 1000u);
}

// A private folder as $XDG_RUNTIME_DIR.
class UserToken : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "gossamer-user-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    if (const char* before = std::getenv("XDG_RUNTIME_DIR")) before_ = before;
    setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  }
  void TearDown() override {
    if (before_.empty())
      unsetenv("XDG_RUNTIME_DIR");
    else
      setenv("XDG_RUNTIME_DIR", before_.c_str(), 1);
    fs::remove_all(folder);
  }
  static LaunchInfo job(const std::string& name, bool local = true) {
    LaunchInfo info = place(0, 2, 1000);
    info.token.clear();
    info.job = name;
    info.local = local;
    return info;
  }
  fs::path folder;

 private:
  std::string before_;
};

TEST_F(UserToken, IsMadeOnceAndIsTheUsersAlone) {
  const std::string path = user_token_file();
  EXPECT_EQ(path, folder.string() + "/gossamer-token");
  std::vector<std::string> tokens(8);
  std::vector<std::thread> threads;
  for (std::string& token : tokens) threads.emplace_back([&] { token = user_token(path); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& token : tokens) EXPECT_EQ(token, tokens[0]);
  EXPECT_EQ(weakness(tokens[0]), "");
  struct stat about {};
  ASSERT_EQ(stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "no draft is left";
  fs::permissions(path, fs::perms(0640));
  EXPECT_TRUE(has(error_of([&] { (void)user_token(path); }), "chmod 600"));
}

// A run-time folder that others may enter is not used.
TEST_F(UserToken, LiesInAPrivateFolderOnly) {
  fs::permissions(folder, fs::perms(0755));
  EXPECT_EQ(user_token_file(), "/tmp/gossamer-" + std::to_string(geteuid()) + "/gossamer-token");
  fs::permissions(folder, fs::perms(0700));
  fs::create_directory_symlink(folder, folder / "link");
  setenv("XDG_RUNTIME_DIR", (folder / "link").c_str(), 1);
  EXPECT_EQ(user_token_file(), "/tmp/gossamer-" + std::to_string(geteuid()) + "/gossamer-token");
}

TEST_F(UserToken, AnotherUserOfTheMachineCannotReadIt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  const std::string path = user_token_file();
  (void)user_token(path);
  const pid_t child = fork();
  if (child == 0) {
    const bool other = setgid(65534) == 0 && setuid(65534) == 0;
    const int fd = open(path.c_str(), O_RDONLY);
    _exit(other && fd < 0 && errno == EACCES ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(chown(path.c_str(), 65534, 65534), 0);
  EXPECT_TRUE(has(error_of([&] { (void)user_token(path); }), "belongs to another user (65534)"));
}

TEST_F(UserToken, GivesEachJobItsOwn) {
  const LaunchInfo a = with_token(job("a"), false), again = with_token(job("a"), false),
                   b = with_token(job("b"), false);
  EXPECT_EQ(a.token, again.token);
  EXPECT_NE(a.token, b.token);
  EXPECT_EQ(a.token_file, folder.string() + "/gossamer-token");
  EXPECT_FALSE(a.open);
  EXPECT_EQ(run_number(a), run_number(again));
  EXPECT_NE(run_number(a), run_number(b));
  EXPECT_FALSE(has(a.token, run_number(a)));
}

TEST_F(UserToken, SeveralMachinesNeedASecretThatIsCarriedToAll) {
  for (const auto& [source, carry] : {std::pair("slurm", "before srun"),
                                      {"openmpi", "mpirun -x GOSSAMER_TOKEN_FILE"},
                                      {"hydra", "before mpiexec"},
                                      {"torchrun", "Kubernetes"},
                                      {"gossamer", "for each worker"},
                                      {"gsm_group_join", "token_file"}}) {
    LaunchInfo info = job("a", false);
    info.source = source;
    const std::string error = error_of([&] { (void)with_token(info, false); });
    EXPECT_TRUE(has(error, carry)) << error;
    EXPECT_TRUE(has(error, "openssl rand -hex 16 > ~/.gossamer-token")) << error;
    EXPECT_TRUE(has(error, "open=true")) << error;
    EXPECT_TRUE(has(error_of([&] { (void)join(info); }), carry)) << "join() asks, too";
    EXPECT_TRUE(with_token(info, true).open);
  }
  EXPECT_TRUE(fs::is_empty(folder));
  LaunchInfo given = job("a", false);
  given.token = kToken;
  EXPECT_FALSE(with_token(given, true).open) << "a token was given";
  given.token = "swordfish";
  EXPECT_TRUE(has(error_of([&] { (void)join(given); }), "the token holds at most 42 bits"));
}

// What the launchers give can be guessed: it let anybody in once.
TEST_F(UserToken, AStrangerWhoKnowsTheJobIsTurnedAway) {
  const int port = free_port();
  const auto of_job = [&](int rank) {
    LaunchInfo info = job("torchrun  127.0.0.1:" + std::to_string(port));
    info.rank = info.local_rank = rank;
    info.port = port;
    return info;
  };
  JoinOptions o = quick();
  std::atomic<int> refused{0};
  o.on_refused = [&](const std::string&) { ++refused; };
  std::string stranger;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    EXPECT_EQ(error_of([&] { join(of_job(0), o)->collectives().barrier(); }), "no error");
  });
  LaunchInfo guessed = of_job(1);
  guessed.token = guessed.job;
  stranger = error_of([&] { (void)process_group(guessed, quick()); });
  EXPECT_TRUE(has(stranger, "the same for all workers")) << stranger;
  threads.emplace_back([&] {
    EXPECT_EQ(error_of([&] { join(of_job(1), o)->collectives().barrier(); }), "no error");
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace gossamer::dist::testing
