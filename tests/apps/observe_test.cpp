// What a run lets us see: rates of edges, exchanges one by one, one trace of all workers,
// TensorBoard, the progress line.
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <span>

#include <gmock/gmock.h>
#include <pty.h>

#include "apps/program.h"
#include "gossamer/apps/report/run_totals.h"
#include "gossamer/apps/report/tensorboard.h"
#include "gossamer/apps/report/trace_merge.h"
#include "gossamer/core/error.h"
#include "gossamer/data/codec/image.h"
#include "gossamer/data/dataset.h"
#include "gossamer/data/hash.h"

namespace gossamer::apps {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Lt;

// --- TensorBoard

template <class T>
T take(std::string_view& bytes) {
  T value{};
  // the test runs on little-endian machines, as the format is
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}
std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<unsigned char>(bytes);
    value |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
}

struct Scalar {
  std::int64_t step;
  float value;
};

data::Image take_image(std::string_view& message) {
  std::map<std::uint64_t, std::uint64_t> numbers;
  data::Image image;
  while (!message.empty()) {
    const auto key = take_varint(message), number = take_varint(message);
    numbers[key] = number;
    if (key != (4 << 3 | 2)) continue;
    image = data::decode(std::as_bytes(std::span(message.substr(0, number))), "image");
    message.remove_prefix(number);
  }
  EXPECT_EQ(numbers[1 << 3], image.height);
  EXPECT_EQ(numbers[2 << 3], image.width);
  EXPECT_EQ(numbers[3 << 3], 3u);
  return image;
}

// Reads an event file as the format says, checksums included.
std::map<std::string, std::vector<Scalar>> read_events(
    const fs::path& path, std::map<std::string, data::Image>* images = nullptr) {
  const auto masked_crc = [](std::string_view bytes) {
    return data::masked(data::crc32c(std::as_bytes(std::span(bytes))));
  };
  std::map<std::string, std::vector<Scalar>> out;
  const std::string all = read_text(path);
  std::string_view rest = all;
  bool first = true;
  while (!rest.empty()) {
    const std::string_view head = rest.substr(0, 8);
    const auto length = take<std::uint64_t>(rest);
    EXPECT_EQ(take<std::uint32_t>(rest), masked_crc(head));
    std::string_view event = rest.substr(0, length);
    rest.remove_prefix(length);
    EXPECT_EQ(take<std::uint32_t>(rest), masked_crc(event));
    std::int64_t step = 0;
    while (!event.empty()) {
      const auto key = take_varint(event);
      if (key == (1 << 3 | 1)) {
        EXPECT_GT(take<double>(event), 1.6e9);
      } else if (key == (2 << 3)) {
        step = static_cast<std::int64_t>(take_varint(event));
      } else if (key == (3 << 3 | 2)) {
        EXPECT_TRUE(first);
        const auto n = take_varint(event);
        EXPECT_EQ(event.substr(0, n), "brain.Event:2");
        event.remove_prefix(n);
      } else {
        EXPECT_EQ(key, 5 << 3 | 2);
        const auto size = take_varint(event);
        std::string_view summary = event.substr(0, size);
        event.remove_prefix(size);
        while (!summary.empty()) {
          EXPECT_EQ(take_varint(summary), 1 << 3 | 2);
          const auto n = take_varint(summary);
          std::string_view value = summary.substr(0, n);
          summary.remove_prefix(n);
          EXPECT_EQ(take_varint(value), 1 << 3 | 2);
          const auto tag_length = take_varint(value);
          const std::string tag(value.substr(0, tag_length));
          value.remove_prefix(tag_length);
          const auto kind = take_varint(value);
          if (kind == (4 << 3 | 2)) {
            const auto bytes = take_varint(value);
            EXPECT_EQ(bytes, value.size());
            if (images) (*images)[tag] = take_image(value);
            continue;
          }
          EXPECT_EQ(kind, 2 << 3 | 5);
          out[tag].push_back({step, take<float>(value)});
          EXPECT_TRUE(value.empty());
        }
      }
    }
    first = false;
  }
  return out;
}

class Observe : public ProgramTest {
 protected:
  fs::path event_file(const fs::path& at) const {
    fs::path found;
    for (const auto& e : fs::directory_iterator(at))
      if (e.path().filename().string().starts_with("events.out.tfevents.")) found = e.path();
    return found;
  }
  static std::vector<std::string> with_workers(int n, std::vector<std::string> more) {
    more.insert(more.end(), {"--workers", std::to_string(n)});
    return tiny(std::move(more));
  }
};

TEST_F(Observe, EventFilesHoldWhatWasWrittenAndNothingThatIsNotFinite) {
  {
    EventWriter writer(folder);
    writer.scalars(3, {{"loss", 2.5}, {"nothing", NAN}});
    writer.scalars(300, {{"loss", 1.25}, {"top1", 0.5}});
  }
  auto scalars = read_events(event_file(folder));
  EXPECT_EQ(scalars.size(), 2u);
  ASSERT_EQ(scalars["loss"].size(), 2u);
  EXPECT_EQ(scalars["loss"][0].step, 3);
  EXPECT_EQ(scalars["loss"][1].step, 300);
  EXPECT_EQ(scalars["loss"][1].value, 1.25f);
  EXPECT_EQ(scalars["top1"][0].value, 0.5f);
}

// Without augmentation they are pictures of the set; mixup blends each with another.
TEST_F(Observe, TheFirstImagesAreThoseThatTheNetworkIsGiven) {
  const auto set = data::open({(folder / "s/train").string()});
  const auto nearest = [&](const std::string& name, const data::Image& image) {
    double best = 1e9;
    std::vector<std::byte> buffer;
    for (i64 i = 0; i < set->size(); ++i) {
      if (set->classes()[static_cast<std::size_t>(set->label(i))] != name) continue;
      const data::Image other = data::decode(set->bytes(i, buffer), set->name(i));
      double sum = 0;
      for (std::size_t k = 0; k < image.pixels.size(); ++k)
        sum += std::abs(image.pixels[k] - other.pixels.at(k));
      best = std::min(best, sum / static_cast<double>(image.pixels.size()));
    }
    return best;
  };
  const auto of_run = [&](const std::vector<std::string>& more) {
    EXPECT_EQ(run(with_workers(2, more)).code, 0);
    std::map<std::string, data::Image> images;
    read_events(event_file(folder / "runs/t"), &images);
    EXPECT_EQ(images.size(), 8u);
    std::vector<double> distances;
    for (const auto& [tag, image] : images) {
      EXPECT_TRUE(tag.starts_with("first images/")) << tag;
      EXPECT_EQ(image.width, 32);
      distances.push_back(nearest(tag.substr(tag.rfind(' ') + 1), image));
    }
    return distances;
  };
  EXPECT_THAT(of_run({"data.augment=none"}), Each(Lt(3)));
  EXPECT_THAT(of_run({"data.augment=none", "train.mixup=5"}), Contains(Gt(6)));
  EXPECT_THAT(of_run({"data.augment=pad-crop-flip"}), Contains(Gt(6)));
}

TEST_F(Observe, AWriterWithoutAFolderWritesNothing) {
  EventWriter writer("");
  writer.scalars(1, {{"loss", 1}});
  writer.images(1, {{"image", {1, 1, {1, 2, 3}}}});
  EXPECT_TRUE(writer.path().empty());
}

// --- one trace of all workers

struct Slice {
  double begin, end;
};

// All a viewer needs: slices of one lane nest, each arrow has its two ends inside slices and points
// forward.
void expect_sound(const Json& trace) {
  std::map<std::pair<int, int>, std::vector<Slice>> lanes;
  struct End {
    double at;
    int pid, tid;
  };
  std::map<std::int64_t, std::vector<End>> from, to;
  for (const Json& e : trace["traceEvents"]) {
    const std::string phase = e["ph"];
    const int pid = e["pid"], tid = e.value("tid", -1);
    if (phase == "X")
      lanes[{pid, tid}].push_back(
          {e["ts"].get<double>(), e["ts"].get<double>() + e["dur"].get<double>()});
    if (phase == "s") from[e["id"]].push_back({e["ts"], pid, tid});
    if (phase == "f") to[e["id"]].push_back({e["ts"], pid, tid});
  }
  EXPECT_FALSE(lanes.empty());
  for (auto& [lane, slices] : lanes) {
    std::ranges::sort(slices, [](const Slice& a, const Slice& b) {
      return a.begin < b.begin || (a.begin == b.begin && a.end > b.end);
    });
    std::vector<double> open;
    for (const Slice& s : slices) {
      EXPECT_GE(s.end, s.begin);
      while (!open.empty() && open.back() <= s.begin) open.pop_back();
      if (!open.empty())
        EXPECT_LE(s.end, open.back())
            << "slices cross in lane " << lane.first << "/" << lane.second;
      open.push_back(s.end);
    }
  }
  const auto inside = [&](const End& e) {
    return std::ranges::any_of(lanes[{e.pid, e.tid}],
                               [&](const Slice& s) { return s.begin <= e.at && e.at <= s.end; });
  };
  EXPECT_EQ(from.size(), to.size());
  for (const auto& [id, ends] : from) {
    ASSERT_EQ(ends.size(), 1u) << id;
    ASSERT_EQ(to[id].size(), 1u) << id;
    EXPECT_LE(ends[0].at, to[id][0].at) << id;
    EXPECT_NE(ends[0].pid, to[id][0].pid) << id;
    EXPECT_TRUE(inside(ends[0])) << id;
    EXPECT_TRUE(inside(to[id][0])) << id;
  }
}

// The part of one worker: a "snapshot" at `sends` (its clock) and a "difference" at `receives`,
// with the arrows' ends inside.
std::string part(const TraceClock& clock, std::int64_t sends_id, double sends,
                 std::int64_t receives_id, double receives) {
  const auto slice = [&](const char* name, double at, const char* phase, std::int64_t id) {
    return Json{{"ph", "X"}, {"name", name},  {"pid", clock.rank},
                {"tid", 1},  {"ts", at - 10}, {"dur", 20}}
               .dump() +
           ",\n" +
           Json{{"ph", phase}, {"name", "exchange"}, {"cat", "exchange"}, {"pid", clock.rank},
                {"tid", 1},    {"ts", at},           {"id", id}}
               .dump();
  };
  return "{\"displayTimeUnit\":\"ms\",\"otherData\":" + to_json(clock) + ",\"traceEvents\":[\n" +
         slice("snapshot", sends, "s", sends_id) + ",\n" +
         slice("difference", receives, "f", receives_id) + "\n]}\n";
}

TEST_F(Observe, TracesOfOtherMachinesAreMovedOntoTheTimeLineOfWorker0) {
  // Worker 1's clock is 5 s ahead and gains 20 us on the way; worker 2 shares worker 1's machine,
  // and knows its offset less well.
  const double t = 1.7e15, ahead = 5e6;
  const TraceClock w0{
      .rank = 0, .machine = "a", .epoch_us = 1e15, .begin_us = t, .end_us = t + 1000};
  const TraceClock w1{.rank = 1,
                      .machine = "b",
                      .epoch_us = 1.1e15,
                      .begin_us = t + ahead,
                      .end_us = t + ahead + 1000,
                      .begin = dist::ClockEstimate{-ahead, 4},
                      .end = dist::ClockEstimate{-ahead - 20, 4}};
  const TraceClock w2{.rank = 2,
                      .machine = "b",
                      .epoch_us = 1.1e15 + 7,
                      .begin_us = t + ahead,
                      .end_us = t + ahead + 1000,
                      .begin = dist::ClockEstimate{-ahead + 900, 1000},
                      .end = dist::ClockEstimate{-ahead + 900, 1000}};
  write_text(folder / "trace-0.json", part(w0, 77, t + 100, 78, t + 950));
  write_text(folder / "trace-1.json", part(w1, 78, t + ahead + 500, 77, t + ahead + 300));
  // both arrows lack their other end
  write_text(folder / "trace-2.json", part(w2, 1, t + ahead + 7 + 500, 2, t + ahead + 7 + 600));
  const MergedTrace merged = merge_traces(folder, true);
  EXPECT_EQ(merged.ranks, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(merged.arrows, 2);
  EXPECT_EQ(merged.backwards, 0);
  EXPECT_EQ(merged.error_us, 4);
  const Json trace = Json::parse(read_text(folder / "trace.json"));
  expect_sound(trace);
  std::map<std::pair<int, std::string>, double> at;
  for (const Json& e : trace["traceEvents"])
    if (e["ph"] == "X") at[{e["pid"], e["name"]}] = e["ts"].get<double>() + 10 - t;
  EXPECT_NEAR((at[{0, "snapshot"}]), 100, 0.5);
  EXPECT_NEAR((at[{1, "snapshot"}]), 500 - 10, 0.5);  // half way: half of the 20 us
  EXPECT_NEAR((at[{1, "difference"}]), 300 - 6, 0.5);
  EXPECT_NEAR((at[{2, "snapshot"}]), 500 - 10, 0.5)
      << "worker 2 follows its neighbour's better estimate, exactly";
  EXPECT_TRUE(fs::exists(folder / "trace-0.json"));
}

TEST_F(Observe, TracesOfOneMachineAreComparedByItsMonotonicClock) {
  // The system clock was set by 3 s between the starts of the workers: their epochs differ, the
  // machine's monotonic clock does not.
  const double mono = 4e9;
  const TraceClock w0{.rank = 0,
                      .machine = "m",
                      .epoch_us = 1.7e15,
                      .begin_us = 1.7e15 + mono,
                      .end_us = 1.7e15 + mono + 1000};
  const TraceClock w1{.rank = 1,
                      .machine = "m",
                      .epoch_us = 1.7e15 + 3e6,
                      .begin_us = 1.7e15 + 3e6 + mono,
                      .end_us = 1.7e15 + 3e6 + mono + 1000,
                      .begin = dist::ClockEstimate{-123456, 50},
                      .end = dist::ClockEstimate{-123456, 50}};
  write_text(folder / "trace-0.json", part(w0, 1, w0.begin_us + 100, 2, w0.begin_us + 800));
  write_text(folder / "trace-1.json", part(w1, 2, w1.begin_us + 400, 1, w1.begin_us + 300));
  const MergedTrace merged = merge_traces(folder);
  EXPECT_EQ(merged.arrows, 2);
  EXPECT_EQ(merged.error_us, 0);
  expect_sound(Json::parse(read_text(folder / "trace.json")));
  EXPECT_FALSE(fs::exists(folder / "trace-0.json")) << "the parts are in the whole now";
}

TEST_F(Observe, ATraceThatIsCutShortGivesWhatItHolds) {
  const TraceClock clock{
      .rank = 0, .machine = "m", .epoch_us = 1e15, .begin_us = 1.7e15, .end_us = 1.7e15 + 1000};
  const std::string whole = part(clock, 1, 1.7e15 + 100, 2, 1.7e15 + 800);
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    write_text(folder / "trace-0.json", whole.substr(0, length));
    merge_traces(folder);
    EXPECT_TRUE(Json::parse(read_text(folder / "trace.json"), nullptr, false).is_object())
        << length;
  }
  fs::remove(folder / "trace.json");
  EXPECT_THROW(merge_traces(folder), IoError);
}

// While all evaluate, gossip goes on without steps and brings them closer.
TEST_F(Observe, TheConsensusDistanceIsMeasuredBeforeAnEvaluation) {
  const Result r = run(with_workers(3, {"train.epochs=4", "eval.consensus_every=1", "eval.every=1",
                                        "eval.of=mean", "train.graph=complete"}));
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  int both = 0;
  for (const Json& measured : events("consensus"))
    for (const Json& e : events("eval"))
      if (e["samples"] == measured["samples"]) {
        ++both;
        EXPECT_LT(measured["time"].get<double>(), e["time"].get<double>());
      }
  EXPECT_EQ(both, 9);
}

TEST_F(Observe, ARunOfSeveralWorkersShowsEverything) {
  const Result r =
      run(with_workers(3, {"train.epochs=24", "run.trace=true", "run.log_exchanges=true",
                           "eval.consensus_every=8", "train.graph=complete"}));
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  const fs::path at = folder / "runs/t";
  const Json s = summary();

  // Edges: what the log holds line by line is what the summary adds up.
  std::map<std::pair<int, int>, int> logged;  // (rank, peer) -> exchanges
  for (const Json& e : events("exchange")) {
    EXPECT_GE(e["seconds"].get<double>(), 0);
    EXPECT_GE(e["staleness"].get<int>(), 0);
    EXPECT_TRUE(e["distance"].is_number());
    logged[{e["rank"], e["peer"]}] += e["ok"].get<bool>() ? 1 : 0;
  }
  ASSERT_FALSE(s["edges"].empty());
  double rates = 0;
  int all = 0;
  for (const Json& e : s["edges"]) {
    const int a = e["a"], b = e["b"];
    EXPECT_EQ(e["exchanges_a"].get<int>(), (logged[{a, b}]));
    EXPECT_EQ(e["exchanges_b"].get<int>(), (logged[{b, a}]));
    rates += e["rate"].get<double>();
    all += e["exchanges_a"].get<int>() + e["exchanges_b"].get<int>();
  }
  EXPECT_EQ(all, s["exchanges"].get<int>());
  EXPECT_NEAR(2 * rates / 3, s["exchanges_per_gradient"].get<double>(), 0.02)
      << "the sum over edges is half the workers' rates";
  EXPECT_EQ(s["edge_asymmetry"], 0);
  if (s["edges"].size() == 3) {
    EXPECT_GT(s["chi1_hat"].get<double>(), 0);
    EXPECT_GT(s["chi2_hat"].get<double>(), 0);
  }
  EXPECT_NEAR(s["chi1"].get<double>(), s["chi2"].get<double>(), 1e-9) << "complete";
  EXPECT_GE(s["exposed_fraction"].get<double>(), 0);
  EXPECT_LT(s["exposed_fraction"].get<double>(), 1);

  // The exact distance: all workers measured the same, at each of the two boundaries.
  std::map<double, std::set<double>> exact;
  for (const Json& e : events("consensus"))
    exact[e["epoch"].get<double>()].insert(e["exact"].get<double>());
  ASSERT_EQ(exact.size(), 2u);
  for (const auto& [epoch, values] : exact) EXPECT_EQ(values.size(), 1u) << epoch;
  EXPECT_EQ(events("consensus").size(), 6u);

  const Json trace = Json::parse(read_text(at / "trace.json"));
  expect_sound(trace);
  EXPECT_EQ(trace["otherData"]["workers"].size(), 3u);
  EXPECT_EQ(trace["otherData"]["arrows"].get<int>(), s["exchanges"].get<int>())
      << "one from each snapshot to the partner's difference";
  EXPECT_EQ(trace["otherData"]["arrows_backwards"], 0);
  std::set<std::string> names, lanes;
  for (const Json& e : trace["traceEvents"]) {
    names.insert(e["name"]);
    if (e["name"] == "thread_name") lanes.insert(e["args"]["name"].get<std::string>());
  }
  for (const char* wanted : {"step", "forward", "backward", "snapshot", "difference", "transfer",
                             "images/s", "consensus distance"})
    EXPECT_TRUE(names.contains(wanted)) << wanted;
  for (const char* wanted : {"train", "gossip"}) EXPECT_TRUE(lanes.contains(wanted)) << wanted;
  for (const Json& e : s["edges"])
    for (const char* end : {"a", "b"})
      EXPECT_TRUE(lanes.contains("exchange with " + std::to_string(e[end].get<int>()))) << e;

  auto board = read_events(event_file(at));
  for (const char* tag :
       {"loss", "learning_rate", "images_per_s", "consensus_distance", "exchanges_per_gradient"})
    EXPECT_GE(board[tag].size(), 4u) << tag;
  ASSERT_EQ(board["top1"].size(), 1u);
  EXPECT_FLOAT_EQ(board["top1"][0].value, s["top1"].get<float>());
  ASSERT_EQ(board["top5"].size(), 1u);
  EXPECT_FLOAT_EQ(board["top5"][0].value, s["top5"].get<float>());
  EXPECT_EQ(board["consensus_distance_exact"].size(), 2u);

  const std::string report = read_text(at / "report.html");
  EXPECT_THAT(report, HasSubstr("Edges"));
  for (const Json& e : s["edges"])
    EXPECT_THAT(report, HasSubstr(std::to_string(e["a"].get<int>()) + " – " +
                                  std::to_string(e["b"].get<int>())));
}

TEST_F(Observe, OnlyTheStepsAskedForAreTraced) {
  const Result r = run(tiny({"run.trace_steps=3,5", "run.tensorboard=false", "run.report=false"}));
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  std::vector<int> steps;
  const Json trace = Json::parse(read_text(folder / "runs/t/trace.json"));
  for (const Json& e : trace["traceEvents"])
    if (e["name"] == "step") steps.push_back(e["args"]["n"]);
  EXPECT_EQ(steps, (std::vector<int>{3, 4, 5}));
  EXPECT_TRUE(event_file(folder / "runs/t").empty());
}

TEST_F(Observe, TraceMergeJoinsWhatAnInterruptedRunLeft) {
  start(with_workers(2, {"train.epochs=200", "run.trace=true"}));
  for (int i = 0; i < static_cast<int>(kLimit * 50) && events("step").size() < 20; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(running, SIGTERM);
  ASSERT_EQ(wait().code, 143);
  ASSERT_TRUE(fs::exists(folder / "runs/t/trace-1.json"));
  const Result r = run({"trace", "merge", "runs/t", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json merged = Json::parse(r.out);
  EXPECT_EQ(merged["ranks"], Json::parse("[0, 1]"));
  EXPECT_GT(merged["events"].get<int>(), 20);
  expect_sound(Json::parse(read_text(folder / "runs/t/trace.json")));
  EXPECT_EQ(run({"trace", "merge", "s"}).code, 6);
}

// --- the progress line

// On a terminal of 60 columns no line may be longer: it would wrap, and could not be rewritten in
// place.
TEST_F(Observe, TheProgressLineStaysOneLineOnANarrowTerminal) {
  int master = -1;
  winsize size{.ws_row = 24, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
  const auto arguments = tiny({"train.epochs=8", "run.report=false"});
  const pid_t pid = forkpty(&master, nullptr, nullptr, &size);
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    if (chdir(folder.c_str()) != 0) _exit(99);
    setenv("TERM", "xterm", 1);
    std::vector<char*> argv{const_cast<char*>("gossamer")};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    execv(GOSSAMER_PROGRAM, argv.data());
    _exit(98);
  }
  running = pid;
  std::string screen;
  char buffer[4096];
  // ends with the program
  for (ssize_t n; (n = read(master, buffer, sizeof buffer)) > 0;)
    screen.append(buffer, static_cast<std::size_t>(n));
  close(master);
  EXPECT_EQ(wait().code, 0) << screen;
  ASSERT_THAT(screen, HasSubstr("\r\x1b[K"));
  int updates = 0;
  for (std::size_t at = screen.find("\r\x1b[K"); at != std::string::npos;
       at = screen.find("\r\x1b[K", at + 1)) {
    int columns = 0;
    for (std::size_t i = at + 4; i < screen.size() && screen[i] != '\r' && screen[i] != '\n'; ++i) {
      if (screen[i] == '\x1b') {
        // a colour takes no room
        while (i < screen.size() && !std::isalpha(static_cast<unsigned char>(screen[i]))) ++i;
      } else if ((static_cast<unsigned char>(screen[i]) & 0xc0) != 0x80) {
        ++columns;  // UTF-8: one column a character
      }
    }
    EXPECT_LT(columns, 60);
    ++updates;
  }
  EXPECT_GT(updates, 0);
}

}  // namespace
}  // namespace gossamer::apps
