// `gossamer watch`: what it serves, to whom, and the page in a real browser.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "apps/browser.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Watch : public BrowserTest {
 protected:
  // A run of three workers at time `seconds`: it has no summary. Worker 2 dies after ten seconds.
  void write_run(int seconds) {
    std::string log;
    const auto line = [&](Json fields) { log += fields.dump() + "\n"; };
    for (int rank = 0; rank < 3; ++rank)
      line({{"event", "start"}, {"time", 1000}, {"rank", rank}, {"samples", 0}});
    for (int t = 1; t <= seconds; ++t)
      for (int rank = 0; rank < (t <= 10 ? 3 : 2); ++rank) {
        line({{"event", "step"},
              {"time", 1000 + t},
              {"rank", rank},
              {"step", 4 * t},
              {"samples", 100 * t},
              {"epoch", t / 10.},
              {"loss", 2. / t},
              {"learning_rate", .1},
              {"data_wait_s", 0},
              {"exposed_s", 0},
              {"consensus_distance", .25}});
        line({{"event", "exchange"},
              {"time", 1000 + t},
              {"rank", rank},
              {"exchanges", 2},
              {"failed", 1},
              {"staleness", .5},
              {"distance", 1},
              {"peers", {{std::to_string(rank == 0 ? 1 : 0), 2}}}});
      }
    if (seconds > 10)
      line({{"event", "fault"}, {"time", 1011}, {"rank", 0}, {"peer", 2}, {"what", "dead"}});
    write_text(folder / "runs/t/log.jsonl", log);
    write_text(folder / "runs/t/config.toml", "[train]\nmethod = \"a2cid2\"    # how\n");
  }

  // Starts the program, and returns its port, or 0 if it was built without a server.
  int serve(std::vector<std::string> runs, std::vector<std::string> more = {"--path", "here"}) {
    runs.insert(runs.begin(), "watch");
    runs.insert(runs.end(), more.begin(), more.end());
    server_ = start(runs);
    const std::string begin = "http://127.0.0.1:";
    for (int i = 0; i < static_cast<int>(kLimit * 50); ++i) {
      const std::string out = read_text(folder / "out");
      if (const std::size_t at = out.find(begin), end = out.find("/metrics");
          at != std::string::npos && end != std::string::npos)
        return std::atoi(out.c_str() + at + begin.size());
      if (read_text(folder / "err").find("without cpp-httplib") != std::string::npos) return 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ADD_FAILURE() << "no address: " << read_text(folder / "err");
    return 0;
  }
  // What comes back for one line of a request.
  static std::string ask(int port, const std::string& line, const std::string& host = "localhost") {
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    std::string answer;
    if (connect(s, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
      const std::string text = line + " HTTP/1.1\r\nHost: " + host + ":" + std::to_string(port) +
                               "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
      send(s, text.data(), text.size(), MSG_NOSIGNAL);
      char some[4096];
      for (ssize_t n = 0; (n = recv(s, some, sizeof some, 0)) > 0;)
        answer.append(some, static_cast<std::size_t>(n));
    }
    close(s);
    return answer;
  }
  // The body once it says this: a log is not read again at once.
  static std::string body_that_says(const std::string& what, int port) {
    for (int i = 0; i < static_cast<int>(kLimit * 50); ++i) {
      if (std::string body = ask(port, "GET /here/body"); body.find(what) != std::string::npos)
        return body;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return "never";
  }
  void TearDown() override {
    if (server_ > 0) kill(server_, SIGKILL), waitpid(server_, nullptr, 0);
    running = 0;
    BrowserTest::TearDown();
  }

  pid_t server_ = 0;
};

TEST_F(Watch, ShowsARunFromBeforeItsBeginAndWhoIsGone) {
  const int port = serve({"runs/t"});
  if (port == 0) GTEST_SKIP() << "built without cpp-httplib";
  EXPECT_THAT(ask(port, "GET /here/"),
              AllOf(HasSubstr("200 OK"), HasSubstr("connect-src 'self'"), HasSubstr("no-store")));
  EXPECT_THAT(ask(port, "GET /here/body"), HasSubstr("the run has not begun"));
  write_run(5);
  EXPECT_THAT(ask(port, "GET /here/body"),
              AllOf(HasSubstr("it goes on, or was killed"), HasSubstr("who met whom"),
                    HasSubstr("exchanges per gradient on each edge"), Not(HasSubstr(" gone</"))));
  // Each second of a worker: 4 gradients, 2 exchanges that its peer wrote too: .5 a gradient.
  EXPECT_THAT(ask(port, "GET /here/body"), HasSubstr("0 – 1: 0.500 in the last 5 s"));
  EXPECT_THAT(ask(port, "GET /here/metrics"),
              AllOf(HasSubstr("gossamer_samples_total{run=\"t\"} 500\n"),
                    HasSubstr("gossamer_samples_per_second{run=\"t\"} 100\n"),
                    HasSubstr("gossamer_workers_alive{run=\"t\"} 3\n"),
                    HasSubstr("gossamer_loss{run=\"t\",worker=\"2\"} 0.4\n"),
                    HasSubstr("gossamer_exchanges_total{run=\"t\",worker=\"1\",peer=\"0\"} 10\n"),
                    HasSubstr("# TYPE gossamer_loss gauge\n"), Not(HasSubstr("events_total"))));
  write_run(20);
  EXPECT_THAT(body_that_says(">2 gone</", port), HasSubstr("dead"));
  EXPECT_THAT(ask(port, "GET /here/metrics"),
              AllOf(HasSubstr("gossamer_workers_alive{run=\"t\"} 2\n"),
                    HasSubstr("gossamer_events_total{run=\"t\",kind=\"fault\"} 1\n")));
}

TEST_F(Watch, ComparesRunsSideBySide) {
  write_run(5);
  fs::copy(folder / "runs/t", folder / "runs/u", fs::copy_options::recursive);
  const int port = serve({"runs/t", "runs/u/", "runs/later"});
  if (port == 0) GTEST_SKIP() << "built without cpp-httplib";
  EXPECT_THAT(ask(port, "GET /here/body"),
              AllOf(HasSubstr("Configurations"), HasSubstr("<summary>t</summary>"),
                    HasSubstr("<summary>u</summary>"), HasSubstr("runs/later has no log yet")));
}

TEST_F(Watch, AnswersNobodyWhoDoesNotKnowThePathAndChangesNothing) {
  write_run(5);
  const int port = serve({"runs/t"}, {});
  if (port == 0) GTEST_SKIP() << "built without cpp-httplib";
  const std::string out = read_text(folder / "out");
  const std::size_t slash = out.find('/', out.find("127.0.0.1"));
  const std::string path = out.substr(slash, out.find('\n') - slash);
  EXPECT_EQ(path.size(), 34u) << path;  // 128 bits between slashes
  EXPECT_THAT(out, HasSubstr("ssh -L"));
  EXPECT_THAT(ask(port, "GET " + path), StartsWith("HTTP/1.1 200"));
  for (const char* other : {"/", "/metrics", "/body", "/here/", "/../log.jsonl"})
    EXPECT_THAT(ask(port, std::string("GET ") + other), StartsWith("HTTP/1.1 404")) << other;
  EXPECT_THAT(ask(port, "GET " + path, "stranger.example"), StartsWith("HTTP/1.1 403"));
  for (const char* method : {"POST ", "PUT ", "DELETE "})
    EXPECT_THAT(ask(port, method + path), StartsWith("HTTP/1.1 404")) << method;
}

TEST_F(Watch, MistakesAreNamed) {
  const int port = serve({"runs/t"});
  if (port == 0) GTEST_SKIP() << "built without cpp-httplib";
  const pid_t server = server_;
  Result r = run({"watch", "runs/t", "--port", std::to_string(port)});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("--port " + std::to_string(port) + ": it is taken"));
  r = run({"watch", "runs/t", "--path", "a/b"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("--path a/b"));
  server_ = server;
}

TEST_F(Watch, ThePageFillsItselfInABrowser) {
  if (const std::string why = no_browser(); !why.empty()) GTEST_SKIP() << why;
  write_run(20);
  const int port = serve({"runs/t"});
  if (port == 0) GTEST_SKIP() << "built without cpp-httplib";
  const std::string address = "http://127.0.0.1:" + std::to_string(port) + "/here/";
  const pid_t server = server_;
  fs::create_directories(shots);
  for (const auto& [width, dark] : {std::pair(1280, false), std::pair(500, true)}) {
    const fs::path shot = shots / ("watch-" + std::to_string(width) + ".png");
    fs::remove(shot);
    const Result r =
        browse({"--window-size=" + std::to_string(width) + ",1400",
                std::string("--blink-settings=preferredColorScheme=") + (dark ? "0" : "1"),
                "--virtual-time-budget=4000", "--screenshot=" + shot.string(), address});
    EXPECT_TRUE(fs::exists(shot)) << r.err;
  }
  const Result r = browse({"--virtual-time-budget=4000", "--dump-dom", address});
  EXPECT_THAT(r.out,
              AllOf(HasSubstr("<h1>Run t</h1>"), HasSubstr("2 gone"),
                    HasSubstr("training loss against time"), HasSubstr("role=\"status\"></p>")));
  server_ = server;
}

}  // namespace
}  // namespace gossamer::apps
