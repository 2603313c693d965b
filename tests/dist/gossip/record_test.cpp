// Recording an asynchronous run and repeating it bit for bit.
#include <fstream>
#include <sstream>

#include "dist/gossip/net_training.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/gossip/recorder.h"
#include "gossamer/dist/local/local_cluster.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace gossamer::dist {
namespace {

constexpr int kWorkers = 4;

struct Outcome {
  std::vector<std::vector<float>> x;  // of each worker
  i64 exchanges = 0;
};

MethodOptions options_for(const std::string& record, const std::string& replay) {
  MethodOptions options;
  options.total_samples = kWorkers * 60;
  options.seed = 3;
  options.rate = 1.5;
  options.record = record;
  options.replay = replay;
  return options;
}

// hurry: how long the gradients of each worker take, so that no two runs have the same order by
// themselves.
Outcome train(const std::string& method_name, MethodOptions options,
              const std::function<double(int rank, int step)>& hurry) {
  LocalCluster cluster(kWorkers);
  Outcome out;
  out.x.resize(kWorkers);
  std::mutex mutex;
  on_workers(cluster, kWorkers, [&](int rank, Group& group) {
    Quadratic q(rank, 200, .9f);
    auto method =
        make_method(method_name, q.params, q.sgd, group, make_graph("ring", kWorkers), options);
    for (int step = 0; !method->done(); ++step) {
      q.gradient(.3f);
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(hurry(rank, step)));
      // depends on what the clock of others brought
      method->step(.02 * (2 - method->samples_seen() / options.total_samples));
    }
    method->finish();
    const std::scoped_lock lock(mutex);
    const auto x = q.params.values().span<float>();
    out.x[static_cast<std::size_t>(rank)].assign(x.begin(), x.end());
    out.exchanges += method->stats().exchanges;
  });
  return out;
}

double even(int, int) { return 2; }
double uneven(int rank, int step) { return rank == 1 ? 1.5 : step % 7 == rank ? .9 : .1; }

class Replays : public InTempFolder {
 protected:
  std::string path(const std::string& name) const { return file(name).string(); }
  // A run with the handshake, in folder "run".
  void record_one(const char* method = "a2cid2") const {
    train(method, options_for(path("run"), ""), even);
  }
};

TEST_F(Replays, RepeatAnAsynchronousRunBitForBitWhateverTheTiming) {
  for (const auto& [method, pairing] : {std::pair("a2cid2", "handshake"),
                                        {"adpsgd", "handshake"},
                                        {"a2cid2", "schedule"},
                                        {"adpsgd", "rounds"},
                                        {"async-tracking", "handshake"}}) {
    SCOPED_TRACE(std::string(method) + ", " + pairing);
    const std::string first = path(method + std::string(pairing)), second = first + "-again";
    MethodOptions options = options_for(first, "");
    options.pairing = pairing;
    const Outcome recorded = train(method, options, even);
    EXPECT_GT(recorded.exchanges, 0);  // how many, is a question of the load
    options.record = second;
    options.replay = first;
    const Outcome repeated = train(method, options, uneven);
    EXPECT_EQ(repeated.x, recorded.x);
    EXPECT_EQ(repeated.exchanges, recorded.exchanges);
    for (int rank = 0; rank < kWorkers; ++rank)
      EXPECT_EQ(contents(record_path(second, rank)), contents(record_path(first, rank)))
          << "the record of the replay is the record";
    options.record = options.replay = "";
    EXPECT_NE(train(method, options, uneven).x, recorded.x)
        << "without the record, the run is another one";
  }
}

TEST_F(Replays, RefusesARecordOfAnotherRunAndSaysWhatDiffers) {
  record_one();
  const auto replay = [&](const std::string& method,
                          const std::function<void(MethodOptions&)>& change) {
    MethodOptions options = options_for("", path("run"));
    change(options);
    return error_of([&] { train(method, options, even); });
  };
  EXPECT_NE(replay("adpsgd", [](MethodOptions&) {}).find("recorded with method a2cid2, not adpsgd"),
            std::string::npos);
  EXPECT_NE(
      replay("a2cid2", [](MethodOptions& o) { o.seed = 4; }).find("recorded with seed 3, not 4"),
      std::string::npos);
  EXPECT_NE(
      replay("a2cid2", [](MethodOptions& o) { o.rate = 1; }).find("recorded with rate 1.5, not 1"),
      std::string::npos);
  EXPECT_NE(replay("a2cid2", [](MethodOptions& o) { o.total_samples *= 2; })
                .find("recorded with total_samples"),
            std::string::npos);
  EXPECT_NE(replay("a2cid2", [](MethodOptions& o) { o.replay += "-elsewhere"; }).find("events-"),
            std::string::npos);
}

TEST_F(Replays, RepeatTheTrainingOfANet) {
  const auto recorded = train_nets(kWorkers, options_for(path("net"), ""), .2);
  EXPECT_EQ(train_nets(kWorkers, options_for("", path("net")), 3), recorded);
}

TEST_F(Replays, ARecordIsOfOneKindOfDeviceAndAnOlderOneOfCpus) {
  record_one();
  const std::string file = record_path(path("run"), 2), text = contents(file),
                    fact = ",\"device\":\"cpu\"";
  const auto replay_with = [&](const std::string& other) {
    std::string changed = text;
    changed.replace(changed.find(fact), fact.size(), other);
    std::ofstream(file) << changed;
    return error_of([&] { train("a2cid2", options_for("", path("run")), even); });
  };
  EXPECT_NE(replay_with(",\"device\":\"cuda\"").find("recorded with device cuda, not cpu"),
            std::string::npos);
  EXPECT_EQ(replay_with(""), "no error");
}

// The gradients are others than in the recorded run: that can't go unnoticed.
TEST_F(Replays, NoticesThatTheParametersCameOutDifferently) {
  record_one();
  LocalCluster cluster(kWorkers);
  const std::string error = error_of([&] {
    on_workers(cluster, kWorkers, [&](int rank, Group& group) {
      Quadratic q(rank, 200, .9f);
      auto method = make_method("a2cid2", q.params, q.sgd, group, make_graph("ring", kWorkers),
                                options_for("", path("run")));
      while (!method->done()) q.gradient(.2f), method->step(.02);
      method->finish();
    });
  });
  EXPECT_NE(error.find("the parameters are not those of the recorded run"), std::string::npos)
      << error;
}

// Worker 1's record lacks an exchange that the others have: they wait for it, but not for ever, and
// the error names it.
TEST_F(Replays, AnExchangeThatNeverComesIsAnErrorThatNamesItAndThePeer) {
  std::string recorded;
  // on a loaded machine it may take part in none
  for (int i = 0; i < 20 && recorded.find("snapshot") == std::string::npos; ++i) {
    record_one("adpsgd");  // a2cid2 would notice the lack by its eta
    recorded = contents(record_path(path("run"), 1));
  }
  std::istringstream in(recorded);
  std::string out, dropped;
  i64 events = 0;
  for (std::string line; std::getline(in, line);) {
    if (dropped.empty() && line.find("snapshot") != std::string::npos) {
      dropped = line.substr(line.find("\"peer\""));
      dropped = dropped.substr(0, dropped.find(",\"t\""));
    }
    if (!dropped.empty() && line.find(dropped) != std::string::npos) continue;
    if (line.find("\"end\"") != std::string::npos)
      line = "{\"event\":\"end\",\"events\":" + std::to_string(events) +
             line.substr(line.find(",\"digest\""));
    else if (line.find("\"event\"") != std::string::npos)
      ++events;
    out += line + "\n";
  }
  ASSERT_FALSE(dropped.empty());
  std::ofstream(record_path(path("run"), 1)) << out;
  MethodOptions options = options_for("", path("run"));
  options.exchange_timeout_s = .05;
  const std::string error = error_of([&] { train("adpsgd", options, even); });
  EXPECT_NE(error.find("exchange"), std::string::npos) << error;
  EXPECT_NE(error.find("with worker "), std::string::npos) << error;
  EXPECT_NE(error.find("events-"), std::string::npos) << error;
}

// All refuse an exchange after a step that went far, and none the next: then each has measured its
// own model. The record calls the first one failed.
TEST_F(Replays, RepeatWhatWasRefused) {
  const auto run = [&](const std::string& record, const std::string& replay) {
    MethodOptions options = options_for(record, replay);
    options.total_samples = kWorkers * 120;
    std::mutex mutex;
    std::vector<i64> counts(2);
    LocalCluster cluster(kWorkers);
    Pace pace(kWorkers);  // one that is far ahead would come into quarantine
    on_workers(cluster, kWorkers, [&](int rank, Group& group) {
      const Pace::Leaves leaves{pace, rank};
      Quadratic q(rank, 200);
      auto method =
          make_method("adpsgd", q.params, q.sgd, group, make_graph("ring", kWorkers), options);
      for (int step = 0; !method->done(); ++step) {
        q.gradient(.3f);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        method->step(step == 60 ? 1e7 : .001);
        pace.step(rank);
      }
      pace.leaves(rank);
      method->finish();
      const std::scoped_lock lock(mutex);
      counts[0] += method->stats().refused;
      counts[1] += method->stats().failed;
    });
    return counts;
  };
  const auto recorded = run(path("run"), ""), repeated = run("", path("run"));
  EXPECT_GT(recorded[0], 0);
  EXPECT_EQ(repeated[0], 0);
  EXPECT_EQ(repeated[1], recorded[0] + recorded[1]);
}

// One worker's digest is another: that worker says so, and the run of all the others fails too.
TEST_F(Replays, OneWorkerThatCameOutDifferentlyMakesTheRunOfAllFail) {
  record_one();
  std::string record = contents(record_path(path("run"), 1));
  char& digit = record.at(record.rfind("\"}") - 1);
  digit = digit == '0' ? '1' : '0';
  std::ofstream(record_path(path("run"), 1)) << record;
  LocalCluster cluster(kWorkers);
  std::vector<std::string> errors(kWorkers);
  on_workers(cluster, kWorkers, [&](int rank, Group& group) {
    Quadratic q(rank, 200, .9f);
    auto method = make_method("a2cid2", q.params, q.sgd, group, make_graph("ring", kWorkers),
                              options_for("", path("run")));
    while (!method->done()) q.gradient(.3f), method->step(.02);
    errors[static_cast<std::size_t>(rank)] = error_of([&] { method->finish(); });
    if (rank == 1) cluster.kill(1);  // its program ends
  });
  EXPECT_NE(errors[1].find("the parameters are not those of the recorded run"), std::string::npos)
      << errors[1];
  for (const std::size_t rank : {0u, 2u, 3u})
    EXPECT_TRUE(errors[rank].find("only 3 of 4 workers came to the end") != std::string::npos ||
                errors[rank].find("the loss of worker 1 has happened") != std::string::npos)
        << errors[rank];
}

TEST(Record, IsBelievedInNothing) {
  const std::string head =
      R"({"gossamer_events":2,"method":"a2cid2","graph":"ring",)"
      R"("pairing":"handshake","rank":1,"workers":3,"seed":1,)"
      R"("parameters":"00000000000000ff","rate":1,"batch":2,"start_samples":0,)"
      R"("total_samples":64})";
  const auto end = [](int events) {
    return "{\"event\":\"end\",\"events\":" + std::to_string(events) +
           ",\"digest\":\"0123456789abcdef\"}\n";
  };
  const auto read = [&](const std::string& text) {
    std::istringstream in(text);
    return error_of([&] { read_record(in, "FILE"); });
  };
  const std::string gradient = R"({"event":"gradient","k":1,"learning_rate":0.1,"eta":0})",
                    snapshot = R"({"event":"snapshot","peer":2,"session":7,"t":0.5})";
  const std::string applied = R"({"event":"applied","peer":2,"session":7})";
  const std::string whole =
      head + "\n" + gradient + "\n" + snapshot + "\n" + applied + "\n" + end(3);
  std::istringstream in(whole);
  const Record r = read_record(in, "FILE");
  EXPECT_EQ(r.facts.parameters, 0xffu);
  EXPECT_EQ(r.digest, 0x0123456789abcdefu);
  ASSERT_EQ(r.events.size(), 3u);
  EXPECT_EQ(r.events[1].t, .5);

  const auto expect = [&](const std::string& text, const std::string& what) {
    EXPECT_NE(read(text).find(what), std::string::npos) << text << "\n" << read(text);
  };
  expect("", "has no end");
  expect(std::string(1, '\0'), ":1: not a JSON object");
  expect("[[[[[[", ":1: not a JSON object");
  expect(head + "\n" + gradient + "\n", "has no end");
  expect("{\"gossamer_events\":1}\n", "version 1");
  expect(head.substr(0, 40) + "\n", ":1: not a JSON object");
  expect(head + "\n" + gradient + "\n" + gradient + "\n" + end(2), ":3: gradient 2 was expected");
  expect(head + "\n" + snapshot + "\n" + end(1), "an exchange did not end");
  expect(head + "\n" + snapshot + "\n" + snapshot + "\n" + end(2),
         ":3: an exchange begins in another");
  expect(head + "\n" + applied + "\n" + end(1), ":2: an exchange ends that did not begin");
  expect(head + "\n" + gradient + "\n" + end(2), ":3: 2 events, but 1 lines");
  expect(head + "\n" + end(0) + gradient + "\n", ":3: something follows the end");
  expect(head + "\n{\"event\":\"snapshot\",\"peer\":1,\"session\":7,\"t\":0}\n",
         "no exchange with itself");
  expect(head + "\n{\"event\":\"snapshot\",\"peer\":3,\"session\":7,\"t\":0}\n",
         "\"peer\" is not a whole number from 0 to 2");
  expect(head + "\n{\"event\":\"snapshot\",\"peer\":-1,\"session\":7,\"t\":0}\n", "\"peer\"");
  expect(head + "\n{\"event\":\"snapshot\",\"peer\":2,\"session\":7,\"t\":1e999}\n",
         ":2: not a JSON object");
  expect(head + "\n{\"event\":\"tea\"}\n", "unknown event \"tea\"");
  expect(head + "\n{\"event\":\"" + std::string(5000, 'x') + "\"}\n", "longer than 4096");
  // Cut anywhere, or with any byte changed, it is read or refused, and nothing else.
  for (std::size_t cut = 0; cut + 1 < whole.size(); ++cut)
    EXPECT_NE(read(whole.substr(0, cut)), "no error") << cut;
  Rng random(1);
  for (int k = 0; k < 2000; ++k) {
    std::string changed = whole;
    changed[random.below(static_cast<std::uint32_t>(changed.size()))] =
        static_cast<char>(random.below(256));
    read(changed);
  }
}

}  // namespace
}  // namespace gossamer::dist
