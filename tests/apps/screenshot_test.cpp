// The pages in a real browser: pictures of them in the build folder, and what
// it makes of them at the width of a desk's screen and of a telephone's.
#include <cstdlib>
#include <set>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/data/codec/image.h"

namespace gossamer::apps {
namespace {

// A page of ours has no scripts, so it is measured from a page around it.
constexpr const char* kMeasure =
    R"(<!doctype html><meta charset="utf-8"><pre id="found"></pre>
<iframe id="page" src="PAGE" style="width:WIDTHpx;height:900px;border:0"></iframe><script>
const frame = document.getElementById("page");
frame.onload = () => {
  const page = frame.contentDocument, root = page.documentElement, view = frame.contentWindow;
  const found = {width: root.clientWidth, scrolls_to: root.scrollWidth, height: root.scrollHeight,
                 smallest: 1000, smallest_text: "", pictures: 0, broken: 0, wide: []};
  for (const e of page.querySelectorAll("body *")) {
    if (e.getClientRects().length == 0) continue;  // of a closed part
    if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())) continue;
    let size = parseFloat(view.getComputedStyle(e).fontSize);
    if (e.ownerSVGElement) {
      const m = e.getScreenCTM();
      size *= Math.sqrt(Math.abs(m.a * m.d - m.b * m.c));
    }
    if (size < found.smallest) found.smallest = size, found.smallest_text = e.textContent;
  }
  for (const p of page.images) ++found.pictures, found.broken += p.naturalWidth == 0;
  for (const e of page.querySelectorAll(".wide"))
    if (e.scrollWidth > e.clientWidth) found.wide.push(e.textContent.slice(0, 40));
  document.getElementById("found").textContent = JSON.stringify(found);
};
</script>)";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  return text.replace(text.find(what), what.size(), with);
}

class Screenshots : public ProgramTest {
 protected:
  // The page's pictures are kept beside the program.
  const fs::path shots = fs::path(GOSSAMER_PROGRAM).parent_path() / "screenshots";

  static fs::path find_browser() {
    std::istringstream folders(std::getenv("PATH") ? std::getenv("PATH") : "");
    for (std::string at; std::getline(folders, at, ':');)
      for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
        if (access((at + "/" + name).c_str(), X_OK) == 0) return fs::path(at) / name;
    return {};
  }
  Result browse(std::vector<std::string> more) {
    const fs::path ours = std::exchange(program, find_browser());
    std::vector<std::string> all{"--headless=new",
                                 "--no-sandbox",
                                 "--disable-gpu",
                                 "--hide-scrollbars",
                                 "--allow-file-access-from-files",
                                 "--user-data-dir=" + (folder / "browser").string()};
    all.insert(all.end(), more.begin(), more.end());
    static std::string home;
    home = "HOME=" + folder.string();
    const Result r = run(all, {home});
    program = ours;
    return r;
  }
  std::string address(const fs::path& page) const { return "file://" + page.string(); }

  Json measure(const fs::path& page, int width) {
    const fs::path around = folder / "measure.html";
    write_text(around,
               replaced(replaced(kMeasure, "PAGE", address(page)), "WIDTH", std::to_string(width)));
    const std::string dom = browse({"--window-size=1600,1000", "--dump-dom", address(around)}).out;
    const std::string begin = "<pre id=\"found\">";
    const std::size_t from = dom.find(begin), to = dom.find("</pre>");
    if (from == std::string::npos || to == std::string::npos) return {};
    return Json::parse(dom.substr(from + begin.size(), to - from - begin.size()), nullptr, false);
  }

  // The whole page as a picture; checks that there is something on every part
  // of it.
  void shoot(const fs::path& page, int width, int height, bool dark, const std::string& name) {
    const fs::path file =
        shots / (name + "-" + std::to_string(width) + (dark ? "-dark" : "-light") + ".png");
    fs::create_directories(shots);
    fs::remove(file);
    const Result r =
        browse({"--window-size=" + std::to_string(width) + "," + std::to_string(height),
                std::string("--blink-settings=preferredColorScheme=") + (dark ? "0" : "1"),
                "--screenshot=" + file.string(), address(page)});
    const std::string bytes = read_text(file);
    ASSERT_FALSE(bytes.empty()) << r.err;
    const data::Image image = data::decode(std::as_bytes(std::span(bytes)), file.string());
    EXPECT_EQ(image.width, width);
    EXPECT_EQ(image.height, height);
    const auto colour = [&](int x, int y) {
      const auto* p = image.pixels.data() + 3 * (static_cast<std::size_t>(y) * image.width + x);
      return p[0] << 16 | p[1] << 8 | p[2];
    };
    const int paper = colour(1, 1);
    EXPECT_EQ(paper, dark ? 0x161618 : 0xffffff);
    std::set<int> colours;
    constexpr int kBand = 300;
    for (int top = 0; top + kBand <= image.height; top += kBand) {
      int ink = 0;
      for (int y = top; y < top + kBand; ++y)
        for (int x = 0; x < image.width; ++x)
          if (colour(x, y) != paper) ++ink, colours.insert(colour(x, y));
      EXPECT_GT(ink, image.width * kBand / 200) << name << ": nothing from row " << top << " on";
    }
    EXPECT_GT(colours.size(), 200u);
  }

  void look_at(const fs::path& page, const std::string& name, bool has_pictures) {
    for (const int width : {1280, 390}) {
      const Json found = measure(page, width);
      ASSERT_TRUE(found.is_object()) << found;
      EXPECT_EQ(found["width"], width);
      EXPECT_LE(found["scrolls_to"].get<int>(), width) << name << " scrolls sideways";
      EXPECT_GE(found["smallest"].get<double>(), 11) << found["smallest_text"];
      EXPECT_EQ(found["pictures"].get<int>() > 0, has_pictures);
      EXPECT_EQ(found["broken"], 0) << "pictures that were not shown";
      EXPECT_EQ(found["wide"], Json::array()) << "tables that do not fit";
      for (const bool dark : {false, true})
        shoot(page, width, std::min(12000, found["height"].get<int>()), dark, name);
    }
  }
};

TEST_F(Screenshots, ThePagesOfARunAndOfAnEvaluationCanBeReadOnATelephone) {
  if (find_browser().empty()) GTEST_SKIP() << "there is no chromium";
  write_text(folder / "empty.html", "<!doctype html><p>here</p>");
  if (const Result r = browse({"--dump-dom", address(folder / "empty.html")});
      r.out.find("here") == std::string::npos)
    GTEST_SKIP() << find_browser() << " shows no page here: " << r.err.substr(0, 300);
  ASSERT_EQ(run(tiny({"--workers", "3", "train.epochs=6", "eval.every=1", "train.graph=ring",
                      "eval.consensus_every=1"}))
                .code,
            0);
  look_at(folder / "runs/t/report.html", "report", true);
  ASSERT_EQ(run({"eval", "runs/t/model.safetensors", "data.val=s/val", "--html", "eval.html"}).code,
            0);
  look_at(folder / "eval.html", "eval", true);
  ASSERT_EQ(run(tiny({"run.name=u", "train.batch=16", "train.epochs=2", "eval.every=1"})).code, 0);
  ASSERT_EQ(run({"report", "runs/t", "runs/u", "--out", "both.html"}).code, 0);
  look_at(folder / "both.html", "comparison", false);
}

}  // namespace
}  // namespace gossamer::apps
