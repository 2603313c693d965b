// `gossamer simulate` from outside: what the documentation promises is what it prints.
#include <iomanip>
#include <sstream>

#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class Simulate : public ProgramTest {
 protected:
  Json json(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "simulate");
    arguments.push_back("--json");
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out);
  }
};

TEST_F(Simulate, T11_TheRingOf64DecaysAsPromised) {
  const double fast =
      json({"consensus", "--graph", "ring", "--workers", "64", "--method", "a2cid2"})["decay_rate"];
  const double base =
      json({"consensus", "--graph", "ring", "--workers", "64", "--method", "adpsgd"})["decay_rate"];
  EXPECT_NEAR(fast, .0555, .1 * .0555);
  EXPECT_NEAR(base, .0059, .1 * .0059);
}

// What dist/simulation/README.md says that its commands print.
TEST_F(Simulate, TheReadmeShowsWhatItsCommandsPrint) {
  const std::string page = read_text(GOSSAMER_SOURCE_DIR "/dist/simulation/README.md");
  std::istringstream in(page);
  int consensus = 0, quadratic = 0, timeline = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string start = "    gossamer simulate ";
    if (!line.starts_with(start)) continue;
    std::istringstream words(line.substr(start.size()));
    std::vector<std::string> arguments;
    for (std::string word; words >> word;)
      if (word != "--json") arguments.push_back(word);
    const Json r = json(arguments);
    const auto shown = [&](const char* key, int digits) {
      std::ostringstream out;
      out << std::fixed << std::setprecision(digits) << r[key].get<double>();
      return out.str();
    };
    if (arguments[0] == "consensus") {
      ++consensus;
      const std::string rate = shown("decay_rate", 4);
      EXPECT_THAT(page, HasSubstr("over seeds, " + rate + ", and"));
      EXPECT_THAT(page, HasSubstr("interval, " + shown("decay_error", 4) +
                                  " (exact in the long run: " + shown("decay_rate_exact", 4)));
      EXPECT_THAT(page, HasSubstr("(64: " + rate + " and " + shown("typical_rate", 4) + ")"));
    } else if (arguments[0] == "quadratic") {
      ++quadratic;
      const std::string distance = shown("stationary_distance", 0);
      EXPECT_THAT(page, HasSubstr(arguments.back() == "adpsgd" ? distance + " and"
                                                               : "and " + distance + " are"));
    } else {
      ++timeline;
      EXPECT_LE(r["efficiency"].get<double>(), 1);
      if (arguments.back() == "aer")
        EXPECT_THAT(page, HasSubstr("efficiency of " + shown("efficiency", 3)));
      else if (arguments.back() == "one-peer-exp")
        EXPECT_THAT(page, HasSubstr(" and " + shown("efficiency", 3) + "."));
    }
  }
  EXPECT_EQ(consensus, 1);
  EXPECT_EQ(quadratic, 2);
  EXPECT_EQ(timeline, 3);
}

TEST_F(Simulate, WithoutCurvatureItShowsTheDistanceForThereIsNoLoss) {
  const Result r =
      run({"simulate", "quadratic", "--workers", "4", "--time", "30", "--curvature", "0"});
  EXPECT_THAT(r.out, HasSubstr("time  (x - mean)^2"));
}

TEST_F(Simulate, EveryModeAnswersInJsonAndInWords) {
  const std::vector<std::vector<std::string>> modes = {
      {"consensus", "--workers", "8", "--time", "30"},
      {"quadratic", "--workers", "8", "--time", "50", "--momentum", "0.9"},
      {"logreg", "--workers", "8", "--time", "50", "--method", "sgp"},
      {"timeline", "--workers", "8", "--time", "50", "--slow", "3:x10"},
      {"timeline", "--workers", "8", "--time", "50", "--method", "dpsgd"},
      {"consensus", "--workers", "8", "--time", "30", "--pairing", "handshake"},
      {"quadratic", "--workers", "8", "--time", "50", "--method", "consensus-control"},
      {"exchanges", "--sizes", "16,32"}};
  for (std::vector<std::string> mode : modes) {
    EXPECT_EQ(json(mode)["mode"], mode[0]);
    mode.insert(mode.begin(), "simulate");
    const Result r = run(mode);
    EXPECT_EQ(r.code, 0) << mode[1] << r.err;
    EXPECT_GT(std::ranges::count(r.out, '\n'), 5) << mode[1];
  }
}

// Workers of which exchanges take about as long as gradients, as on one GPU.
TEST_F(Simulate, ARateFarFromWhatWasAskedIsSaid) {
  const auto said = [&](const char* rate) {
    return run({"simulate",    "consensus",   "--workers", "16",        "--pairing",
                "handshake",   "--compute-s", ".041",      "--compute", "lognormal:0.3",
                "--bandwidth", "1.2e9",       "--bytes",   "4.47e7",    "--latency-s",
                "2e-4",        "--seeds",     "2",         "--time",    "100",
                "--rate",      rate})
        .out;
  };
  EXPECT_THAT(said("1"), Not(HasSubstr("were asked for"))) << ".86 of it is enough";
  EXPECT_THAT(said("2"), HasSubstr("were reached, 2 were asked for"));
}

TEST_F(Simulate, ConsensusControlPrintsWhatItKeptAndWhatThatTook) {
  const Json r =
      json({"quadratic", "--graph", "ring", "--workers", "16", "--method", "consensus-control",
            "--control-fractions", ".5", "--curvature", "0", "--heterogeneity", "0", "--dims", "64",
            "--learning-rate", ".1", "--seeds", "2"});
  const Json& control = r["control"];
  // 500 steps, ten of them measured, the last of which has a target already
  EXPECT_EQ(control["steps"], 491);
  EXPECT_NEAR(control["kept"].get<double>(), 1, .2);
  EXPECT_GT(control["within_20_percent"].get<double>(), .99);
  EXPECT_EQ(control["exact_averages"], 0);
  EXPECT_EQ(r["control_exchanges"].get<double>(), 16 * control["gossip"].get<double>());
  EXPECT_NEAR(r["exchanges"].get<double>(), r["control_exchanges"].get<double>() + 16 * 500, 1e-6);
  EXPECT_EQ(r["xi"].size(), r["time"].size());
  EXPECT_EQ(r["target"][0], 0);
  EXPECT_NEAR(r["xi"].back().get<double>(), r["target"].back().get<double>(),
              .2 * r["target"].back().get<double>());
  EXPECT_EQ(r["control_method"], "dpsgd");
}

TEST_F(Simulate, ItSaysWhoMetWhom) {
  EXPECT_EQ(json({"timeline", "--workers", "8", "--time", "20"})["pairing"], "handshake");
  EXPECT_EQ(json({"consensus", "--workers", "8", "--time", "20"})["pairing"], "poisson");
  EXPECT_EQ(
      json({"consensus", "--workers", "8", "--time", "20", "--pairing", "matching"})["rounds"],
      "ring-matching");
  EXPECT_FALSE(json({"consensus", "--workers", "8", "--time", "20"}).contains("rounds"));
}

TEST_F(Simulate, EveryModeAndGraphsArePictures) {
  const std::vector<std::vector<std::string>> modes = {
      {"simulate", "consensus", "--workers", "8", "--time", "30"},
      {"simulate", "quadratic", "--workers", "8", "--time", "50", "--method", "consensus-control"},
      {"simulate", "logreg", "--workers", "8", "--time", "50"},
      {"simulate", "timeline", "--workers", "8", "--time", "50", "--slow", "3:x3"},
      {"simulate", "exchanges", "--sizes", "16,32"},
      {"graph", "ring", "8"},
      {"graph", "one-peer-exp", "8"}};
  for (std::vector<std::string> mode : modes) {
    mode.insert(mode.end(), {"--html", "page.html"});
    const Result r = run(mode);
    EXPECT_EQ(r.code, 0) << mode[1] << r.err;
    const std::string page = read_text(folder / "page.html");
    EXPECT_EQ(page.find("<svg") == std::string::npos, mode[1] == "one-peer-exp") << mode[1];
    EXPECT_THAT(page, HasSubstr("<h2>Numbers</h2>"));
    EXPECT_GT(std::ranges::count(r.out, '\n'), 1) << "the text is printed too";
  }
}

// tests/apps/lesson_test.cpp repeats such files, number by number.
TEST_F(Simulate, EventsAreWrittenInFullPrecision) {
  const auto lines = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--events", "e.jsonl"});
    json(arguments);
    std::vector<Json> out;
    std::istringstream in(read_text(folder / "e.jsonl"));
    for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
    return out;
  };
  const auto all = lines({"consensus", "--workers", "4", "--time", "20", "--dims", "2", "--seeds",
                          "2", "--seed", "5"});
  ASSERT_GT(all.size(), 20u);
  EXPECT_EQ(all[0]["edges"].size(), 4u);
  EXPECT_EQ(all[0]["seed"], 5);
  EXPECT_GT(all[0]["alpha_tilde"], .5);
  // The sum of x + x~ over the workers stays.
  std::vector<double> held(4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(all[1 + i]["event"], "start");
    held[i] = 2 * all[1 + i]["x"][0].get<double>();
  }
  const double sum = held[0] + held[1] + held[2] + held[3];
  double t = 0;
  for (std::size_t k = 5; k < all.size(); ++k) {
    const Json& e = all[k];
    EXPECT_EQ(e["event"], "exchange");
    EXPECT_GT(e["t"], t);
    t = e["t"];
    held[e["i"]] = e["x"][0].get<double>() + e["twin"][0].get<double>();
    held[e["j"]] = e["other_x"][0].get<double>() + e["other_twin"][0].get<double>();
    EXPECT_NEAR(held[0] + held[1] + held[2] + held[3], sum, 1e-13);
  }
  std::map<std::string, int> kinds;
  for (const Json& e : lines({"timeline", "--workers", "4", "--time", "20"}))
    if (e.contains("event")) ++kinds[e["event"]];
  EXPECT_EQ(kinds["start"], 4);
  EXPECT_GT(kinds["gradient"], 60);
  EXPECT_GT(kinds["arrival"], 20);
  EXPECT_NEAR(kinds["snapshot"], kinds["arrival"], 4);
  const Result r = run({"simulate", "consensus", "--workers", "65", "--events", "e.jsonl"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("at most 64"));
}

TEST_F(Simulate, AnExactMeanHasNoRateOfDecay) {
  for (const char* method : {"allreduce", "local-sgd"})
    EXPECT_TRUE(
        json({"consensus", "--workers", "8", "--time", "60", "--method", method})["decay_rate"]
            .is_null())
        << method;
  // Before the period of 8 is over nothing changes.
  EXPECT_NEAR(
      json({"consensus", "--workers", "8", "--time", "6", "--method", "local-sgd"})["decay_rate"]
          .get<double>(),
      0, 1e-12);
}

TEST_F(Simulate, TheSameSeedPrintsTheSameBytes) {
  const std::vector<std::string> command = {"simulate", "logreg", "--workers", "8",
                                            "--time",   "40",     "--pairing", "handshake",
                                            "--seed",   "7",      "--json"};
  const std::string first = run(command).out;
  EXPECT_EQ(run(command).out, first);
  std::vector<std::string> other = command;
  other[8] = "8";
  EXPECT_NE(run(other).out, first);
}

// As --help writes them: INT ...; before and after the mode.
TEST_F(Simulate, ListsAreWordsOrJoinedByCommas) {
  const auto sizes = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "simulate");
    arguments.insert(arguments.end(), {"--seeds", "1", "--json"});
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 0) << r.err;
    std::string out;
    if (r.code == 0) {
      const Json table = Json::parse(r.out);
      for (const Json& row : table["rows"]) {
        out += row["graph"].get<std::string>() + std::to_string(row["workers"].get<int>()) + " ";
      }
    }
    return out;
  };
  const std::string wanted = "ring8 ring16 complete8 complete16 ";
  EXPECT_EQ(sizes({"exchanges", "--sizes", "8", "16", "--graphs", "ring", "complete"}), wanted);
  EXPECT_EQ(sizes({"exchanges", "--sizes", "8,16", "--graphs", "ring,complete"}), wanted);
  EXPECT_EQ(sizes({"--sizes", "8,16", "--graphs", "ring", "complete", "exchanges"}), wanted);
  EXPECT_EQ(run({"simulate", "timeline", "--workers", "8", "--time", "20", "--slow", "3:x10",
                 "4:x2", "--json"})
                .code,
            0);
  EXPECT_THAT(run({"simulate", "exchanges", "--help"}).out,
              ::testing::AllOf(HasSubstr("--sizes"), HasSubstr("timeline")));
}

TEST_F(Simulate, MistakesAreNamed) {
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "simulate");
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 2) << r.out << r.err;
    return r.err;
  };
  EXPECT_THAT(error({"dance"}), HasSubstr("timeline"));
  EXPECT_THAT(error({"consensus", "--method", "sgd"}), HasSubstr("a2cid2"));
  EXPECT_THAT(error({"consensus", "--graph", "rong"}), HasSubstr("ring"));
  EXPECT_THAT(error({"consensus", "--workers", "5000"}), HasSubstr("4096"));
  EXPECT_THAT(error({"timeline", "--workers", "8", "--slow", "9:x3"}), HasSubstr("0 to 7"));
  EXPECT_THAT(error({"timeline", "--compute", "gamma"}), HasSubstr("lognormal"));
  EXPECT_THAT(error({"exchanges", "--graphs", "torus"}), HasSubstr("star, ring, complete"));
  EXPECT_THAT(error({"consensus", "--workers", "1"}), HasSubstr("from 2 to 4096"));
  EXPECT_THAT(error({"consensus", "--graph", "hypercube", "--workers", "12"}), HasSubstr("12"));
  EXPECT_THAT(error({"consensus", "--wrokers", "8"}),
              HasSubstr("--wrokers; did you mean --workers"));
  EXPECT_THAT(error({"consensus", "--method", "consensus-control"}),
              HasSubstr("quadratic and logreg"));
  EXPECT_THAT(error({"timeline", "--method", "consensus-control"}),
              HasSubstr("quadratic and logreg"));
  EXPECT_THAT(error({"quadratic", "--method", "consensus-control", "--control-method", "a2cid2"}),
              HasSubstr("dpsgd, dpsgd-atc, sgp, local-sgd"));
  EXPECT_THAT(error({"timeline", "--pairing", "poisson"}),
              HasSubstr("handshake, schedule or rounds"));
  EXPECT_THAT(error({"timeline", "--pairing", "matching"}),
              HasSubstr("handshake, schedule or rounds"));
  for (const char* rounds : {"one-peer-exp-directed", "ring", "aer:2"})
    EXPECT_THAT(error({"consensus", "--workers", "8", "--pairing", "matching", "--rounds", rounds}),
                HasSubstr("do not meet in pairs"))
        << rounds;
  EXPECT_THAT(error({"exchanges", "--sizes", "0"}), HasSubstr("0 workers"));
  EXPECT_THAT(error({"quadratic", "--learning-rate", "-1"}), HasSubstr("learning rate -1"));
  EXPECT_THAT(error({"quadratic", "--learning-rate", "nan"}), HasSubstr("learning rate nan"));
  EXPECT_THAT(error({"timeline", "--latency-s", "inf"}), HasSubstr("latency inf"));
  EXPECT_THAT(error({"timeline", "--method", "dpsgd", "--bytes", "inf"}), HasSubstr("bytes inf"));
}

TEST_F(Simulate, OptionsWithoutEffectAreRefused) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"consensus", "--learning-rate", ".1"}, "quadratic and logreg"},
      {{"exchanges", "--workers", "8"}, "--sizes"},
      {{"quadratic", "--method", "dpsgd", "--pairing", "handshake"}, "a2cid2"},
      {{"quadratic", "--slow", "3:x10"}, "timeline"},
      {{"quadratic", "--method", "dpsgd", "--events", "e.jsonl"}, "a2cid2"},
      {{"quadratic", "--control-most", "2"}, "consensus-control"},
      {{"quadratic", "--method", "consensus-control", "--control-factor", "2"}, "target online"},
      {{"quadratic", "--method", "consensus-control", "--control-target", "online",
        "--control-fractions", ".5"},
       "target plateau"},
      {{"timeline", "--eta-scale", "2"}, "consensus, quadratic and logreg"},
      {{"timeline", "--realised-rate", ".5"}, "poisson"},
      {{"logreg", "--curvature", "0"}, "quadratic"},
      {{"timeline", "--seeds", "3"}, "--seed"}};
  for (auto [arguments, wanted] : cases) {
    arguments.insert(arguments.begin(), "simulate");
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 2) << r.out;
    EXPECT_THAT(r.err, HasSubstr(wanted));
    EXPECT_THAT(r.err, HasSubstr("no effect"));
  }
}

}  // namespace
}  // namespace gossamer::apps
