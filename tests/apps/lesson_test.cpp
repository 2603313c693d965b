// `gossamer lesson` in a real browser: its engine against the program's own runs, and every section
// used as a hand would use it (lesson_test.js).
#include <array>
#include <cctype>
#include <cmath>
#include <regex>

#include <gmock/gmock.h>

#include "apps/browser.h"
#include "gossamer/apps/lesson/page.h"
#include "gossamer/apps/report/html.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Lesson : public BrowserTest {
 protected:
  // The page, with a script in front that collects errors and one at the end that uses it.
  fs::path page_under_test(const std::string& page, const std::string& data) {
    const std::string collect =
        "<script>\"use strict\";const errors = [];\n"
        "addEventListener(\"error\", e => errors.push(e.message));\n"
        "console.error = console.warn = (...said) => errors.push(said.join());</script>\n";
    const std::string use = "<script>\n" +
                            read_text(GOSSAMER_SOURCE_DIR "/tests/apps/lesson_test.js") +
                            "</script>\n</html>";
    const fs::path path = folder / "used.html";
    write_text(path,
               replaced(replaced(page, "<script>", collect + "<script>"), "</html>", data + use));
    return path;
  }
  // The events of a run, as a part of a page.
  std::string events(const std::string& name, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "simulate");
    arguments.insert(arguments.end(), {"--dims", "3", "--seeds", "1", "--events", name});
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 0) << r.err;
    return "<script type=\"application/json\" class=\"events\" id=\"" + name + "\">" +
           read_text(folder / name) + "</script>\n";
  }
};

TEST_F(Lesson, IsOneSmallFileThatNeedsNoNetwork) {
  const Result r = run({"lesson"});
  EXPECT_EQ(r.code, 0);
  EXPECT_THAT(r.out, StartsWith("<!doctype html>"));
  EXPECT_LT(r.out.size(), 1'500'000u);
  EXPECT_THAT(r.out, HasSubstr("default-src 'none'"));
  for (const char* outside : {"src=\"", "href=\"http", "url(", "@import", "fetch("})
    EXPECT_THAT(r.out, Not(HasSubstr(outside)));
}

TEST_F(Lesson, ASectionIsAPageOfItsOwn) {
  const Result r = run({"lesson", "--section", "noise"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("<section id=\"noise\">"));
  EXPECT_THAT(r.out, Not(HasSubstr("<section id=\"decay\">")));
  EXPECT_THAT(run({"lesson", "--section", "none"}).err,
              HasSubstr("known are: two, graphs, clocks"));
  if (const std::string why = no_browser(); !why.empty()) GTEST_SKIP() << why;
  const fs::path page = folder / "noise.html";
  write_text(page, r.out);
  look_at(page, "lesson-noise", false);
}

// The runs that a page shows.
Json runs_on(const std::string& page) {
  const std::string begin = "id=\"runs\">";
  const std::size_t from = page.find(begin) + begin.size();
  return Json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST_F(Lesson, ShowsRunsOfOnesOwnInTheirPlace) {
  EXPECT_EQ(runs_on(run({"lesson"}).out)["yours"], false);
  ASSERT_EQ(run(tiny({"--workers", "2", "eval.every=.25", "eval.consensus_every=.25"})).code, 0);
  fs::rename(folder / "runs/t", folder / "runs/a<b");
  const Result r = run({"lesson", "--section", "run", "--run", "runs/a<b", "--run", "runs/a<b"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, Not(HasSubstr("a<b"))) << "a name may hold the end of a script";
  const Json all = runs_on(r.out);
  EXPECT_EQ(all["yours"], true);
  ASSERT_EQ(all["runs"].size(), 2u);
  const Json& ours = all["runs"][1];
  EXPECT_EQ(ours["name"], "a<b");
  EXPECT_EQ(ours["workers"], 2);
  const std::vector<Json> exact = ProgramTest::events("consensus", "a<b"),
                          evals = ProgramTest::events("eval", "a<b");
  ASSERT_EQ(exact.size(), 6u);  // two workers, at three quarters of the run
  ASSERT_EQ(ours["exact"]["epoch"].dump(), "[0.25,0.5,0.75]");
  for (const Json& e : exact) {
    const std::size_t k = static_cast<std::size_t>(4 * e["epoch"].get<double>()) - 1;
    EXPECT_NEAR(ours["exact"]["distance"][k].get<double>(), e["exact"].get<double>(), 1e-4);
  }
  ASSERT_EQ(ours["own"]["epoch"].size(), 3u);
  double loss = 0;
  for (const Json& e : evals)
    if (e["of"] == "own model on its share") loss += e["loss"].get<double>() / 6;
  double mean = 0;
  for (const Json& of : ours["own"]["loss"]) mean += of.get<double>() / 3;
  EXPECT_NEAR(mean, loss, 1e-4 * loss);
  ASSERT_GT(ours["estimate"]["distance"].size(), 3u);

  EXPECT_THAT(run({"lesson", "--run", "s"}).err,
              HasSubstr("s holds no log.jsonl; give the folder"));
  EXPECT_THAT(run({"lesson", "--section", "noise", "--run", "runs/a<b"}).err,
              HasSubstr("lesson --section noise shows no runs"));
  std::vector<std::string> many{"lesson"};
  for (int k = 0; k < 7; ++k) many.insert(many.end(), {"--run", "runs/a<b"});
  EXPECT_THAT(run(many).err, HasSubstr("at most 6 runs"));
  ASSERT_EQ(run(tiny({"eval.every=.5"})).code, 0);
  EXPECT_THAT(run({"lesson", "--run", "runs/t"}).err, HasSubstr("one worker has no distance"));
  ASSERT_EQ(run(tiny({"--workers", "2"})).code, 0);
  EXPECT_THAT(run({"lesson", "--run", "runs/t"}).err,
              AllOf(HasSubstr("lesson --run runs/t: the log has 0 evaluations"),
                    HasSubstr("train with eval.every")));
}

// The words of a language that has one letter, as long texts are kept in the file. What stands
// between backticks or braces is no word.
Json in_another_language(const Json& words, const std::string& key = "") {
  if (words.is_object()) {
    Json out = Json::object();
    for (const auto& [name, value] : words.items()) out[name] = in_another_language(value, name);
    return out;
  }
  if (words.is_array() && key == "options") {
    Json out = Json::array();
    for (const Json& option : words) out.push_back(in_another_language(option));
    return out;
  }
  std::string text;
  for (const Json& line : words.is_array() ? words : Json::array({words}))
    text += (text.empty() ? "" : " ") + line.get<std::string>();
  std::string out;
  char until = 0;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const auto c = static_cast<unsigned char>(text[k]);
    if (until != 0 || c == '`' || c == '{') {
      if (until != 0 && text[k] == until)
        until = 0;
      else if (until == 0)
        until = c == '{' ? '}' : '`';
      out += text[k];
    } else if (std::isalpha(c) != 0) {
      out += 'q';
    } else if (c == 0xCE || c == 0xCF || c == 0xE1) {  // Greek; small letters below a line
      out += 'q';
      k += c == 0xE1 ? 2 : 1;
    } else {
      out += text[k];
    }
  }
  return out;
}

TEST_F(Lesson, AllThatItSaysStandsInOneFileOfWords) {
  const std::string file = GOSSAMER_SOURCE_DIR "/apps/lesson/words.json";
  const Json words = Json::parse(read_text(file));
  const auto with = [&](const Json& changed) {
    write_text(folder / "w.json", changed.dump());
    return run({"lesson", "--words", "w.json"});
  };
  EXPECT_EQ(run({"lesson", "--words", file}).code, 0);
  Json wrong = words;
  wrong["sections"]["noise"].erase("check");
  EXPECT_THAT(with(wrong).err, HasSubstr("w.json: sections.noise.check is missing"));
  wrong = words;
  wrong["shared"]["more"] = "text";
  EXPECT_THAT(with(wrong).err, HasSubstr("shared.more is not a text of the lesson"));
  wrong = words;
  wrong["shared"]["no"] = "No {wrong}";
  EXPECT_THAT(with(wrong).err, HasSubstr("shared.no has a value {wrong} that the lesson does not"));
  wrong = words;
  wrong["sections"]["two"]["guess"]["options"] = "one";
  EXPECT_THAT(with(wrong).err, HasSubstr("options has to be 3 texts"));
  wrong = words;
  wrong["title"] = 5;
  EXPECT_THAT(with(wrong).err, HasSubstr("title is neither a text nor a list of lines"));
  write_text(folder / "w.json", "{");
  EXPECT_THAT(run({"lesson", "--words", "w.json"}).err, HasSubstr("no object of JSON"));
  EXPECT_THAT(run({"lesson", "--words", "none"}).err, HasSubstr("none: cannot be read"));

  if (const std::string why = no_browser(); !why.empty()) GTEST_SKIP() << why;
  Json other = in_another_language(words);
  other["lang"] = "qq";
  other["shared"]["yes"] = "</script>";  // is no more than a text
  const Result r = with(other);
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string use = "<script>\n" +
                          read_text(GOSSAMER_SOURCE_DIR "/tests/apps/lesson_words_test.js") +
                          "</script>\n</html>";
  write_text(folder / "used.html", replaced(r.out, "</html>", use));
  const Json found = found_on(folder / "used.html");
  ASSERT_TRUE(found.is_object());
  EXPECT_GT(found["texts"], 500);
  EXPECT_EQ(found["of_no_file"], Json::array());
  EXPECT_EQ(found["lang"], "qq");
}

TEST_F(Lesson, EverySectionAnswersToDragKeyAndSliderAndItsEngineIsTheProgram) {
  if (const std::string why = no_browser(); !why.empty()) GTEST_SKIP() << why;
  const std::string data =
      events("poisson", {"consensus", "--workers", "16", "--time", "40"}) +
      events("adpsgd", {"consensus", "--graph", "star", "--workers", "9", "--time", "30",
                        "--method", "adpsgd", "--seed", "7"}) +
      events("published",
             {"consensus", "--workers", "12", "--time", "30", "--method", "published"}) +
      events("matching", {"consensus", "--workers", "9", "--time", "30", "--pairing", "matching"}) +
      events("gradients",
             {"quadratic", "--graph", "exponential", "--workers", "8", "--time", "30"}) +
      events("late", {"quadratic", "--workers", "8", "--time", "40", "--pairing", "handshake",
                      "--latency-s", ".02", "--slow", "2:x3", "--momentum", ".5"});
  ASSERT_EQ(run(tiny({"--workers", "2", "run.trace=true"})).code, 0);
  const std::string trace = "<script type=\"application/json\" id=\"trace\">" +
                            read_text(folder / "runs/t/trace.json") + "</script>\n";
  const Json found = found_on(page_under_test(run({"lesson"}).out, data + trace));
  ASSERT_TRUE(found.is_object());
  EXPECT_EQ(found["errors"], Json::array());

  EXPECT_EQ(found["files"].size(), 6u);
  for (const auto& [name, file] : found["files"].items()) {
    EXPECT_GT(file["events"], 100) << name;
    EXPECT_LT(file["difference"].get<double>(), 1e-12) << name;
    if (name == "late") continue;  // the engine has no handshake of its own
    EXPECT_EQ(file["events"], file["own_events"]) << name;
    ASSERT_TRUE(file["own_difference"].is_number()) << name << ": other events";
    EXPECT_LT(file["own_difference"].get<double>(), 1e-11) << name;
  }
  for (const auto& [name, k] : found["constants"].items()) {
    const Json graph = Json::parse(run({"graph", name, "16", "--json"}).out);
    int at = 0;
    for (const char* key : {"chi1", "chi2", "eta", "alpha_tilde", "decay_a2cid2"}) {
      if (const Json& ours = k[at++]; !ours.is_null())
        EXPECT_NEAR(ours.get<double>(), graph[key].get<double>(), 1e-9 * graph[key].get<double>())
            << name << " " << key;
    }
  }

  const auto opened = [&](const char* name) {
    const Json file = found["opened"].value(name, Json::object());
    EXPECT_EQ(file.value("wrong", true), false) << name << ": " << file;
    EXPECT_EQ(file.value("moves", false), true) << name;
    EXPECT_GT(file["drawn"], 10) << name;
    return file;
  };
  for (const auto& [file, id] : {std::pair{"gradients.jsonl", "gradients"},
                                 {"poisson.jsonl", "poisson"},
                                 {"late.jsonl", "late"}}) {
    const Json end = opened(file)["end"];
    EXPECT_EQ(end["events so far"], found["files"][id]["events"].dump());
    EXPECT_LT(std::stod(end["largest difference to the file"].get<std::string>()), 1e-12);
  }
  EXPECT_THAT(opened("trace.json")["said"].get<std::string>(), HasSubstr("trace of 2 processes"));
  EXPECT_GT(std::stoi(opened("trace.json")["end"]["parts so far"].get<std::string>()), 10);
  EXPECT_EQ(found["opened"]["broken.json"]["wrong"], true);

  EXPECT_EQ(found["sections"].size(), 17u);
  for (const auto& [name, s] : found["sections"].items()) {
    EXPECT_EQ(s["unreadable"], false) << name;
    ASSERT_GE(s["guesses"].size(), 3u) << name;
    int right = 0;
    for (const Json& said : s["guesses"]) right += said.get<std::string>().starts_with("Yes. ");
    EXPECT_EQ(right, 1) << name;
    EXPECT_GT(s["dragged"], 0) << name;
    EXPECT_GT(s["keyed"], 0) << name;
    EXPECT_EQ(s["slid"], s["sliders"]) << name;
    EXPECT_EQ(s["chosen"], s["choices"]) << name;
    EXPECT_GE(s["figures"], 1) << name;
    EXPECT_EQ(s["svg"], s["figures"]) << name;
    EXPECT_EQ(s["csv"], s["figures"]) << name;
    EXPECT_EQ(s["nameless"], 0) << name;
    EXPECT_EQ(s["behind"], true) << name << ": a table behind each picture with curves";
    EXPECT_EQ(s["alike"], 0) << name << ": curves that only their colours tell apart";
    EXPECT_EQ(s["link"], name == "own" ? "none" : "comes back") << name;
  }
  EXPECT_GT(found["sections"]["noise"]["points"], 100);
  EXPECT_EQ(found["sections"]["two"]["before"]["mean before"], "1");
  const Json& ring = found["sections"]["graphs"]["before"];
  EXPECT_EQ(ring["χ1 = 1/λ₂"], "13.137");
  EXPECT_EQ(ring["χ2"], "0.9375");
  EXPECT_EQ(ring["η"], "0.1425");
  EXPECT_EQ(ring["α̃"], "1.872");
  EXPECT_EQ(found["sections"]["decay"]["before"]["A2CiD2: exact"], "0.199");

  // The numbers that the sections ask to check with the program.
  const auto shown = [&](const char* section, const char* name) {
    return std::stod(found["sections"][section]["before"][name].get<std::string>());
  };
  const auto simulated = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "simulate");
    arguments.push_back("--json");
    return Json::parse(run(arguments).out);
  };
  EXPECT_NEAR(shown("waits", "efficiency"),
              simulated({"timeline", "--workers", "8", "--slow", "3:x3", "--compute", "constant",
                         "--method", "allreduce"})["efficiency"]
                  .get<double>(),
              .001);
  EXPECT_GT(found["meetings"], 400);
  EXPECT_EQ(found["again"], 0);
  const std::vector<std::string> noise = {"quadratic", "--workers",       "16", "--curvature",
                                          "0",         "--heterogeneity", "0",  "--learning-rate",
                                          "0.1",       "--dims",          "8",  "--time",
                                          "300",       "--seeds",         "1"};
  std::vector<std::string> floor = noise, control = noise;
  floor.insert(floor.end(), {"--momentum", "0.9"});
  EXPECT_NEAR(shown("noise", "A2CiD2: floor"),
              simulated(floor)["stationary_distance"].get<double>(), 1e-4);
  control.insert(control.end(), {"--method", "consensus-control", "--control-fractions", ".5"});
  EXPECT_EQ(shown("control", "rounds of gossip by control"),
            simulated(control)["control"]["gossip"].get<double>());
  const Json learning =
      simulated({"quadratic", "--workers", "16", "--heterogeneity", "0", "--dims", "8",
                 "--learning-rate", "0.1", "--time", "100", "--from", "50", "--seeds", "1"});
  const double of_mean = learning["stationary_loss"].get<double>();
  EXPECT_NEAR(shown("learning", "mean model: loss"), of_mean, 1e-3 * of_mean);
  EXPECT_NEAR(shown("learning", "a worker's model: loss"),
              of_mean + 4 * learning["stationary_distance"].get<double>(), 1e-4);
  EXPECT_NEAR(shown("learning", "theory: γd/4n"), .1 * 8 / (4 * 16), 1e-4);
  EXPECT_NEAR(of_mean, .1 * 8 / (4 * 16), .1 * of_mean);
  // The program's loss is of workers that meet by a protocol, the lesson's of ideal gossip.
  const double away = shown("unlike", "the same at Σ rᵢbᵢ / Σ rᵢ");
  EXPECT_NEAR(simulated({"quadratic", "--workers", "8", "--dims", "2", "--seed", "8", "--noise",
                         "0", "--pairing", "handshake", "--slow", "3:x10"})["stationary_loss"]
                  .get<double>(),
              away, .1 * away);
  EXPECT_NEAR(shown("unlike", "loss above the minimum"), away, .15 * away);
  for (const auto& [method, name] : {std::pair("local-sgd", "local SGD"),
                                     {"diloco", "DiLoCo"},
                                     {"noloco", "NoLoCo, by pairs"}}) {
    std::vector<std::string> own = {
        "quadratic", "--workers", "16", "--period", "10",   "--dims",          "8",   "--time",
        "300",       "--seeds",   "1",  "--method", method, "--learning-rate", "0.02"};
    if (method == std::string("noloco")) own.insert(own.end(), {"--rounds", "one-peer-exp"});
    const double distance = simulated(own)["stationary_distance"].get<double>();
    EXPECT_NEAR(shown("local", (std::string(name) + ": (x − x̄)²").c_str()), distance,
                1e-3 * distance);
  }
  // The section of real runs begins at half of the time of the last evaluation.
  const Json recorded = runs_on(run({"lesson"}).out)["runs"];
  double latest = 0;
  for (const Json& each : recorded)
    latest = std::max(latest, each["own"]["epoch"].back().get<double>());
  for (const Json& each : recorded) {
    const auto at_half = [&](const char* curve, const char* value) {
      const std::vector<double> x = each[curve]["epoch"], y = each[curve][value];
      std::size_t k = 0;  // the point before
      while (x[k + 1] < latest / 2) ++k;
      return y[k] + (y[k + 1] - y[k]) / (x[k + 1] - x[k]) * (latest / 2 - x[k]);
    };
    const std::string name = each["name"];
    EXPECT_NEAR(shown("run", (name + ": top-1, %").c_str()), at_half("own", "top1"), .06);
    EXPECT_NEAR(shown("run", (name + ": distance Ξ").c_str()), at_half("exact", "distance"), .0006);
  }
  // The numbers of which the section says that simulate prints them.
  EXPECT_EQ(found["compressed"].size(), 6u);
  for (const auto& [kind, arguments] :
       {std::pair<std::string, std::vector<std::string>>{"whole", {"dpsgd-atc"}},
        {"kept", {"choco", "--overlap", "0", "--compressed-share", ".25"}},
        {"mean", {"dpsgd-atc"}},
        {"clipped", {"clipped-gossip", "--clip-radius", ".1"}},
        {"mean, lies", {"dpsgd-atc", "--inject", "attack:0:sign-flip"}},
        {"clipped, lies",
         {"clipped-gossip", "--clip-radius", ".1", "--inject", "attack:0:sign-flip"}}}) {
    std::vector<std::string> all = {"quadratic", "--workers", "8",       "--dims", "8",
                                    "--time",    "300",       "--seeds", "1",      "--method"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Json theirs = simulated(all);
    for (const auto& [ours, key] :
         {std::pair{"loss", "stationary_loss"}, {"distance", "stationary_distance"}}) {
      const double wanted = theirs[key];
      EXPECT_NEAR(found["compressed"][kind][ours].get<double>(), wanted, 1e-9 * wanted)
          << kind << " " << ours;
    }
  }
  EXPECT_NEAR(shown("compress", "largest, rest kept: (x − x̄)²"),
              found["compressed"]["kept"]["distance"].get<double>(), 1e-4);
  // Error feedback agrees better than without; the mean believes a liar, clipping does not.
  EXPECT_LT(2 * shown("compress", "largest, rest kept: (x − x̄)²"),
            shown("compress", "largest, rest dropped: (x − x̄)²"));
  EXPECT_LT(10 * shown("compress", "clipped gossip: loss"),
            shown("compress", "mean of neighbours: loss"));
  const Json row = simulated({"exchanges", "--graphs", "ring", "--sizes", "64"})["rows"][0];
  EXPECT_NEAR(shown("scaling", "synchronous rounds") / row["synchronous"].get<double>(), 1, .001);
  EXPECT_NEAR(shown("scaling", "accelerated (Chebyshev)") / row["accelerated"].get<double>(), 1,
              .001);
  EXPECT_NEAR(shown("scaling", "A2CiD2") / row["a2cid2"].get<double>(), 1, .001);
  const Json dead = found["healed"];
  const Json ring11 = Json::parse(run({"graph", "ring", "11", "--json"}).out);
  EXPECT_NEAR(dead["chi1"].get<double>(), ring11["chi1"].get<double>(), 1e-9);
  EXPECT_NEAR(dead["chi2"].get<double>(), ring11["chi2"].get<double>(), 1e-9);
}

TEST_F(Lesson, ItsPlayerShowsARunInTheReport) {
  if (const std::string why = no_browser(); !why.empty()) GTEST_SKIP() << why;
  ASSERT_EQ(run(tiny({"--workers", "2", "run.trace=true"})).code, 0);
  const fs::path report = folder / "runs/t/report.html";
  const std::string page = read_text(report);
  EXPECT_THAT(page, HasSubstr("script-src 'unsafe-inline'"));
  const std::string use = R"(<script>
const root = document.getElementById("parts"), slider = root.querySelector("input");
const at = value => {
  slider.value = value;
  slider.dispatchEvent(new Event("input"));
  const line = root.querySelector("svg").lastElementChild;
  return [root.querySelector(".numbers").textContent, line.getAttribute("cx")];
};
const found = {said: root.querySelector("[role=status]").textContent, begin: at(0), end: at(1)};
const handle = root.querySelector(".handle");
handle.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft", bubbles: true}));
found.keyed = root.querySelector(".handle").getAttribute("cx");
found.parts = root.querySelectorAll("rect").length;
found.errors = errors;
document.body.append(make("pre", {id: "found"}, JSON.stringify(found)));
</script></html>)";
  write_text(folder / "used.html",
             replaced(replaced(page, "<script>",
                               "<script>const errors = [];\naddEventListener(\"error\", e => "
                               "errors.push(e.message));</script><script>"),
                      "</html>", use));
  const Json found = found_on(folder / "used.html");
  ASSERT_TRUE(found.is_object());
  EXPECT_EQ(found["errors"], Json::array());
  EXPECT_EQ(found["said"], "trace.json: a trace of 2 processes");
  EXPECT_GT(found["parts"], 4);
  EXPECT_NE(found["begin"], found["end"]);
  EXPECT_NE(found["keyed"], found["end"][1]);
  look_at(report, "report-trace", true);
}

using Colour = std::array<double, 3>;  // linear red, green, blue, 0 to 1

Colour linear(const std::string& hex) {
  Colour out{};
  for (std::size_t k = 0; k < 3; ++k) {
    const double v = std::stoi(hex.substr(1 + 2 * k, 2), nullptr, 16) / 255.;
    out[k] = v <= .04045 ? v / 12.92 : std::pow((v + .055) / 1.055, 2.4);
  }
  return out;
}
Colour times(const double (&m)[3][3], const Colour& c) {
  Colour out{};
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < 3; ++k) out[i] += m[i][k] * c[k];
  return out;
}
constexpr double kXyz[3][3] = {
    {.4124564, .3575761, .1804375}, {.2126729, .7151522, .0721750}, {.0193339, .1191920, .9503041}};
Colour lab(Colour c) {  // CIE 1976, white D65
  for (double& v : c) v = std::clamp(v, 0., 1.);
  const Colour white = times(kXyz, {1, 1, 1}), at = times(kXyz, c);
  Colour f{};
  for (std::size_t k = 0; k < 3; ++k) {
    const double t = at[k] / white[k];
    f[k] = t > 216. / 24389 ? std::cbrt(t) : (24389. / 27 * t + 16) / 116;
  }
  return {116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])};
}
double contrast(const Colour& a, const Colour& b) {  // WCAG 2.2
  const double x = times(kXyz, a)[1] + .05, y = times(kXyz, b)[1] + .05;
  return std::max(x, y) / std::min(x, y);
}

// Machado, Oliveira, Fernandes: A physiologically-based model for simulation of color vision
// deficiency, 2009: what those see who lack the cones for red, green or blue.
constexpr double kSeenBy[4][3][3] = {
    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
    {{.152286, 1.052583, -.204868}, {.114503, .786281, .099216}, {-.003882, -.048116, 1.051998}},
    {{.367322, .860646, -.227968}, {.280085, .672501, .047413}, {-.011820, .042940, .968881}},
    {{1.255528, -.076749, -.178779}, {-.078411, .930809, .147602}, {.004733, .691367, .303900}}};

TEST_F(Lesson, ItsColoursCanBeToldApartByAllEyes) {
  const std::string page = run({"lesson"}).out;
  const std::regex root(":root\\{([^}]*)\\}"), colour("--c\\d:(#[0-9a-f]{6})"),
      ground("--paper:(#[0-9a-f]{3,6})"), box("--box:(#[0-9a-f]{6})");
  int palettes = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), root), end; at != end; ++at, ++palettes) {
    const std::string text = (*at)[1];
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found, ground));
    const Colour paper = linear(found[1] == "#fff" ? "#ffffff" : found[1].str());
    ASSERT_TRUE(std::regex_search(text, found, box));
    const Colour stage = linear(found[1].str());
    std::vector<Colour> colours;
    for (std::sregex_iterator c(text.begin(), text.end(), colour); c != end; ++c) {
      colours.push_back(linear((*c)[1]));
      for (const Colour& beneath : {paper, stage})
        EXPECT_GE(contrast(colours.back(), beneath), 3) << (*c)[1];  // of graphics
    }
    ASSERT_EQ(colours.size(), 6u);
    for (const std::size_t words : {0, 1})  // links and errors are in these
      EXPECT_GE(contrast(colours[words], paper), 4.5) << words;
    for (const auto& seen : kSeenBy)
      for (std::size_t a = 0; a < 6; ++a)
        for (std::size_t b = 0; b < a; ++b) {
          const Colour x = lab(times(seen, colours[a])), y = lab(times(seen, colours[b]));
          EXPECT_GT(std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]), 20)
              << "colours " << a << " and " << b << " of palette " << palettes;
        }
  }
  EXPECT_EQ(palettes, 2);
  // Reports have the same.
  EXPECT_THAT(html_style(), HasSubstr(std::string(page_palette())));
  EXPECT_THAT(page, HasSubstr(std::string(page_palette())));
}

TEST_F(Lesson, CanBeReadOnATelephone) {
  if (const std::string why = no_browser(); !why.empty()) GTEST_SKIP() << why;
  write_text(folder / "lesson.html", run({"lesson"}).out);
  look_at(folder / "lesson.html", "lesson", false);
}

}  // namespace
}  // namespace gossamer::apps
