// How workers meet: alone, in time, too late, with strangers at the door.
#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dist/net/harness.h"
#include "dist/over.h"
#include "gossamer/dist/net/asio_link.h"
#include "gossamer/dist/net/door.h"
#include "gossamer/dist/net/greeting.h"
#include "gossamer/dist/net/rendezvous.h"
#include "support/error_of.h"

namespace gossamer::dist::testing {
namespace {

using ::testing::HasSubstr, ::testing::StartsWith;

int dial(int port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(static_cast<std::uint16_t>(port));
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 500; ++i) {
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(s, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0) return s;
    close(s);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return -1;
}

// A worker as far as the other end can tell: has said hello to worker 0 and been answered when this
// returns.
int says_hello(const LaunchInfo& info, wire::Purpose purpose, int door = 1) {
  const int s = dial(info.port);
  wire::Frame f;
  f.kind = wire::Kind::hello;
  f.rank = static_cast<std::uint32_t>(info.rank);
  f.world = static_cast<std::uint32_t>(info.size);
  f.port = static_cast<std::uint16_t>(door);
  f.purpose = purpose;
  greeting::Nonce challenge;
  EXPECT_EQ(recv(s, challenge.data(), challenge.size(), MSG_WAITALL), 16);
  const auto hello = greeting::hello(greeting::bound(wire::make_token(info.token), {}), challenge,
                                     f, greeting::fresh(), 0);
  EXPECT_EQ(::send(s, hello.data(), hello.size(), 0), 112);
  char answer[sizeof(Code) + wire::kFrameBytes];
  EXPECT_EQ(recv(s, answer, sizeof answer, MSG_WAITALL), 96);
  return s;
}

int welcomed(const LaunchInfo& info, int door = 1) {
  return says_hello(info, wire::Purpose::first, door);
}

TEST(Join, AloneIsAGroupOfOneWithoutSockets) {
  const auto g = join(LaunchInfo{});
  EXPECT_EQ(g->rank(), 0);
  EXPECT_EQ(g->size(), 1);
  EXPECT_EQ(g->alive(), std::vector<int>{0});
  std::vector<float> v{1, 2};
  g->collectives().all_reduce_sum(over(v));
  g->collectives().broadcast(over(v), 0);
  g->collectives().barrier();
  EXPECT_EQ(v, (std::vector<float>{1, 2}));
  EXPECT_EQ(g->control().next(Seconds(0.01)).kind, Event::Kind::none);
  Event e;
  e.kind = Event::Kind::woken;
  g->control().post(e);
  EXPECT_EQ(g->control().next(Seconds(1)).kind, Event::Kind::woken);
  EXPECT_THROW(g->control().send(1, {}), DistError);
  EXPECT_THROW(g->payload().exchange(1, 1, over(v), over(v), {}, Seconds(1)), DistError);
}

TEST(Join, EightMeetInAnyOrder) {
  const int port = free_port();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int r : {5, 7, 1, 0, 3, 2, 6, 4}) {
    threads.emplace_back([&, r] {
      try {
        const auto g = join(place(r, 8, port), quick());
        std::vector<double> v{static_cast<double>(1 << r)};
        g->collectives().all_reduce_sum(std::span<double>(v));
        if (v[0] == 255 && g->rank() == r && g->size() == 8 && g->alive().size() == 8) ++good;
        g->collectives().barrier();  // nobody leaves before all have counted
      } catch (const std::exception& e) {
        ADD_FAILURE() << r << ": " << e.what();
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(good, 8);
}

TEST(Join, AMissingWorkerIsNamedToAll) {
  const int port = free_port();
  JoinOptions o = quick();
  o.connect_timeout_s = 5;
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      errors[static_cast<std::size_t>(r)] = error_of([&] { (void)join(place(r, 4, port), o); });
    });
  }
  for (auto& t : threads) t.join();
  for (const auto& e : errors)
    EXPECT_NE(e.find("waiting for worker 3 (of 4; here: 0, 1, 2)"), std::string::npos) << e;
}

TEST(Join, AMissingWorkerZeroIsNamed) {
  JoinOptions o = quick();
  o.connect_timeout_s = 0.3;
  const int port = free_port();
  const std::string e = error_of([&] { (void)join(place(1, 2, port), o); });
  EXPECT_NE(e.find("waits for worker 0 at 127.0.0.1:" + std::to_string(port)), std::string::npos)
      << e;
}

TEST(Join, ABusyPortIsExplained) {
  int port = 0;
  const int s = listener(&port);
  const std::string e = error_of([&] { (void)join(place(0, 2, port), quick()); });
  EXPECT_NE(e.find("cannot listen on 127.0.0.1:" + std::to_string(port)), std::string::npos) << e;
  EXPECT_NE(e.find("Is another worker 0, of this or another job, running there?"),
            std::string::npos)
      << e;
  close(s);
}

TEST(Join, AWrongTokenIsTurnedAway) {
  const int port = free_port();
  JoinOptions o = quick();
  o.connect_timeout_s = 5;
  std::string stranger, host;
  std::thread a([&] { host = error_of([&] { (void)join(place(0, 2, port), o); }); });
  std::thread b([&] {
    LaunchInfo info = place(1, 2, port);
    info.token = "ffeeddccbbaa99887766554433221100";
    stranger = error_of([&] { (void)join(info, o); });
  });
  a.join();
  b.join();
  EXPECT_NE(host.find("waiting for worker 1"), std::string::npos) << host;
  EXPECT_NE(host.find("; worker 0 turned away "), std::string::npos) << host;
  EXPECT_NE(host.find(" without the job's token, the last from 127.0.0.1"), std::string::npos)
      << host;
  EXPECT_NE(stranger.find("GOSSAMER_TOKEN"), std::string::npos) << stranger;
}

TEST(Join, TwoOfTheSameRankAreRefused) {
  const int port = free_port();
  JoinOptions o = quick();
  o.connect_timeout_s = 6;
  std::string host;
  std::vector<std::string> log;
  std::thread zero([&] {
    JoinOptions telling = o;
    telling.on_refused = [&](const std::string& line) { log.push_back(line); };
    host = error_of([&] { (void)join(place(0, 3, port), telling); });
  });
  const int first = welcomed(place(1, 3, port));
  const std::string second = error_of([&] { (void)join(place(1, 3, port), o); });
  zero.join();
  close(first);
  EXPECT_NE(second.find("there is a worker 1 already"), std::string::npos) << second;
  EXPECT_NE(host.find("waiting for worker 2"), std::string::npos) << host;
  const std::string why = "there is a worker 1 already: two processes were given the same rank";
  EXPECT_NE(host.find("; refused: " + why), std::string::npos) << host;
  EXPECT_EQ(std::ranges::count(log, "a worker was refused: " + why), 1);
}

// No patience that a test would have.
JoinOptions patient() {
  JoinOptions o = quick();
  o.connect_timeout_s = 3600;
  return o;
}

const RegisterRole joins("join-patiently", [](const LaunchInfo& info,
                                              const std::function<void(const std::string&)>& say) {
  say(error_of([&] { AsioLink link(info, patient()); }));
});

TEST(Join, AnotherNumberOfWorkersIsTheEndOfAll) {
  const int port = free_port();
  Worker zero("join-patiently", place(0, 3, port));
  const int two = welcomed(place(2, 3, port));
  Worker one("join-patiently", place(1, 2, port));
  EXPECT_THAT(one.line(), HasSubstr("worker 0 refused this worker: worker 1 was started for 2 "));
  const std::string all = zero.line();
  EXPECT_THAT(all, StartsWith("worker 1 was started for 2 workers, worker 0 for 3; start all"));
  std::string heard;
  char some[4096];
  for (ssize_t n = 0; (n = recv(two, some, sizeof some, 0)) > 0;)
    heard.append(some, static_cast<std::size_t>(n));
  close(two);
  EXPECT_THAT(heard, HasSubstr(all));
}

TEST(Join, AWorkerZeroOfAnotherNumberOfWorkersNamesAllOthers) {
  const int port = free_port();
  Worker zero("join-patiently", place(0, 2, port));
  for (const int rank : {2, 3, 1})
    EXPECT_THAT(
        error_of([&] { AsioLink link(place(rank, 4, port), patient()); }),
        HasSubstr("worker " + std::to_string(rank) + " was started for 4 workers, worker 0 for 2"));
  EXPECT_THAT(zero.line(),
              StartsWith("workers 1, 2, 3 were started for 4 workers, worker 0 for 2; start all"));
}

// Worker 0 does not know whether there will ever be a worker 1.
TEST(Join, AnotherNumberOfWorkersIsTheEndThoughOneIsMissing) {
  const int port = free_port();
  Worker zero("join-patiently", place(0, 3, port)), two("join-patiently", place(2, 5, port));
  EXPECT_THAT(two.line(), HasSubstr("worker 0 refused this worker: worker 2 was started for 5 "));
  EXPECT_THAT(zero.line(), StartsWith("worker 2 was started for 5 workers, worker 0 for 3; "));
}

TEST(Join, AWorkerOfAnotherNumberWhosePlaceNobodyNeedsIsRefusedAlone) {
  const int port = free_port();
  Worker zero("join-patiently", place(0, 2, port));
  EXPECT_THAT(error_of([&] { AsioLink link(place(2, 3, port), patient()); }),
              HasSubstr("worker 2 was started for 3 workers, worker 0 for 2"));
  Worker one("join-patiently", place(1, 2, port));
  EXPECT_EQ(zero.line(), "no error");
  EXPECT_EQ(one.line(), "no error");
}

// A worker that still lives after its job, and looks for it where a new one meets.
TEST(Join, AWorkerOfAnotherJobThatCallsBackIsRefusedAlone) {
  const int port = free_port();
  std::string errors[2];
  std::thread zero(
      [&] { errors[0] = error_of([&] { AsioLink link(place(0, 2, port), patient()); }); });
  close(says_hello(place(1, 3, port), wire::Purpose::back));
  errors[1] = error_of([&] { AsioLink link(place(1, 2, port), patient()); });
  zero.join();
  for (const auto& e : errors) EXPECT_EQ(e, "no error");
}

TEST(Join, StrangersAtTheDoorDisturbNobody) {
  const int port = free_port();
  JoinOptions o = quick();
  std::atomic<int> refused{0}, good{0};
  auto worker = [&](int r) {
    try {
      AsioLink link(place(r, 3, port), o);
      refused += link.refused();
      Message m;
      m.nonce = static_cast<unsigned>(r);
      link.send((r + 1) % 3, m);
      const Event e = link.next(Seconds(10));
      if (e.kind == Event::Kind::message && e.message.nonce == static_cast<unsigned>((r + 2) % 3))
        ++good;
      using Clock = std::chrono::steady_clock;
      for (const auto end = Clock::now() + Seconds(10); good < 3 && Clock::now() < end;)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    } catch (const std::exception& e) {
      ADD_FAILURE() << r << ": " << e.what();
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(worker, 0);
  threads.emplace_back(worker, 1);
  std::mt19937 random(3);
  std::vector<int> silent;
  for (int i = 0; i < 30; ++i) {
    const int s = dial(port);
    ASSERT_GE(s, 0);
    std::vector<std::uint8_t> junk(1 + random() % 300);
    for (auto& b : junk) b = static_cast<std::uint8_t>(random());
    if (i % 3 == 0) {  // a hello in form, with a wrong token
      wire::Frame f;
      f.kind = wire::Kind::hello;
      f.rank = 2;
      f.world = 3;
      junk =
          greeting::hello(wire::make_token("another"), greeting::fresh(), f, greeting::fresh(), 0);
    }
    if (i % 5 == 4) junk.resize(10);  // then silence: half open
    (void)!::send(s, junk.data(), junk.size(), MSG_NOSIGNAL);
    silent.push_back(s);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  threads.emplace_back(worker, 2);
  for (auto& t : threads) t.join();
  for (int s : silent) close(s);
  EXPECT_EQ(good, 3);
  EXPECT_GE(refused, 20);
}

TEST(Join, AWorkerThatDiedBeforeAllHadMetMayBeStartedAgain) {
  const int port = free_port();
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  auto meet = [&](int r) {
    errors[static_cast<std::size_t>(r)] =
        error_of([&] { AsioLink link(place(r, 3, port), quick()); });
  };
  threads.emplace_back(meet, 0);
  close(welcomed(place(1, 3, port)));  // dies
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  threads.emplace_back(meet, 1);
  threads.emplace_back(meet, 2);
  for (auto& t : threads) t.join();
  for (const auto& e : errors) EXPECT_EQ(e, "no error");
}

// A door that is besieged may close on a worker as on a stranger.
TEST(Join, AWorkerThatIsTurnedAwayAtTheDoorOfAnotherCallsAgain) {
  const int port = free_port();
  std::vector<std::string> errors(2);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  const auto meets = [&](int r, std::uint64_t life) {
    asio::io_context io;
    const JoinOptions o = quick();
    return error_of([&] {
      const JoinedGroup kept =
          meet(io, place(r, 3, port), o, Credentials{wire::make_token(kToken)}, life);
      // its table is still on the way
      while (r == 0 && !over) io.run_for(std::chrono::milliseconds(20));
    });
  };
  threads.emplace_back([&] { errors[0] = meets(0, 1); });
  int door = 0;
  const int listens = listener(&door), first = welcomed(place(1, 3, port), door);
  threads.emplace_back([&] { errors[1] = meets(2, 3), over = true; });
  const timeval limit{.tv_sec = 20, .tv_usec = 0};
  setsockopt(listens, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const int turned_away = accept(listens, nullptr, nullptr);
  EXPECT_GE(turned_away, 0);
  close(turned_away);
  asio::io_context io;
  const auto opened = std::make_shared<Door>(io, 1, Credentials{wire::make_token(kToken)}, nullptr);
  std::shared_ptr<Connection> link;
  opened->receive([&](const wire::Frame&, const std::shared_ptr<Connection>& came, std::uint64_t) {
    wire::Frame welcome;
    welcome.kind = wire::Kind::welcome;
    welcome.rank = 1;
    welcome.life = 2;
    (link = came)->write(welcome);
  });
  opened->open({asio::ip::address_v4::loopback(), 0}, listens);
  while (!over) io.run_for(std::chrono::milliseconds(20));
  for (auto& t : threads) t.join();
  close(first);
  opened->close();
  for (const auto& e : errors) EXPECT_EQ(e, "no error");
}

// The same port again, as soon as a worker is through with the job before, though others are not.
TEST(Join, TheNextJobAtTheSameAddressWaitsUntilTheOneBeforeHasEnded) {
  std::atomic<bool> calls{false};
  const int port = free_port();
  std::vector<std::string> errors(3);
  std::vector<std::thread> workers;
  for (int rank = 0; rank < 3; ++rank)
    workers.emplace_back([&, rank] {
      errors[static_cast<std::size_t>(rank)] = error_of([&] {
        auto group = process_group(place(rank, 3, port), quick());
        if (rank == 0) {
          while (!calls) std::this_thread::yield();
          std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it is turned away by now
        }
        group = nullptr;
        if (rank == 1) calls = true;
        process_group(place(rank, 3, port), quick())->collectives().barrier();
      });
    });
  for (auto& worker : workers) worker.join();
  EXPECT_EQ(errors, std::vector<std::string>(3, "no error"));
}

TEST(Join, SenselessPlacesAreConfigErrors) {
  EXPECT_THROW((void)join(place(4, 4, 1000)), ConfigError);
  EXPECT_THROW((void)join(place(0, 0, 1000)), ConfigError);
  EXPECT_THROW((void)join(place(0, 2, 0)), ConfigError);
  JoinOptions o;
  o.dead_after_s = 0.3;
  EXPECT_THROW((void)join(place(0, 2, 1000), o), ConfigError);
}

}  // namespace
}  // namespace gossamer::dist::testing
