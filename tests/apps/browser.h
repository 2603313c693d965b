// For tests of pages in a real browser: what it makes of them at the width of a desk's screen and
// of a telephone's, and pictures of them in the build folder.
#pragma once

#include <cstdlib>
#include <set>

#include "apps/program.h"
#include "gossamer/data/codec/image.h"

namespace gossamer::apps {

// The page around the one that is measured.
inline constexpr const char* kMeasure =
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

inline std::string replaced(std::string text, const std::string& what, const std::string& with) {
  return text.replace(text.find(what), what.size(), with);
}

class BrowserTest : public ProgramTest {
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
  // Why a test has to be skipped, or "".
  std::string no_browser() {
    if (find_browser().empty()) return "there is no chromium";
    write_text(folder / "empty.html", "<!doctype html><p>here</p>");
    const Result r = browse({"--dump-dom", address(folder / "empty.html")});
    if (r.out.find("here") != std::string::npos) return "";
    return find_browser().string() + " shows no page here: " + r.err.substr(0, 300);
  }
  std::string address(const fs::path& page) const { return "file://" + page.string(); }

  static std::string scheme(bool dark) {
    return std::string("--blink-settings=preferredColorScheme=") + (dark ? "0" : "1");
  }

  Json measure(const fs::path& page, int width) {
    const fs::path around = folder / "measure.html";
    write_text(around,
               replaced(replaced(kMeasure, "PAGE", address(page)), "WIDTH", std::to_string(width)));
    return found_on(around);
  }
  // What scripts of the page have written into its <pre id="found">, as JSON.
  Json found_on(const fs::path& page, bool dark = false) {
    const std::string dom =
        browse({"--window-size=1600,1000", scheme(dark), "--dump-dom", address(page)}).out;
    const std::string begin = "<pre id=\"found\">";
    const std::size_t from = dom.rfind(begin), to = dom.rfind("</pre>");
    if (from == std::string::npos || to == std::string::npos) return {};
    return Json::parse(dom.substr(from + begin.size(), to - from - begin.size()), nullptr, false);
  }

  // A part of the page as a picture; checks that there is something everywhere on it.
  void shoot(const fs::path& page, int width, int from, int height, bool dark,
             const std::string& name) {
    const fs::path file =
        shots / (name + "-" + std::to_string(width) + (dark ? "-dark" : "-light") +
                 (from > 0 ? "-from" + std::to_string(from) : "") + ".png");
    fs::create_directories(shots);
    fs::remove(file);
    const fs::path around = folder / "part.html";
    write_text(around,
               "<!doctype html><meta charset=\"utf-8\"><body style=\"margin:0;overflow:hidden\">"
               "<iframe style=\"display:block;border:0;width:" +
                   std::to_string(width) + "px;height:" + std::to_string(from + height) +
                   "px;margin-top:-" + std::to_string(from) + "px\" src=\"" + address(page) +
                   "\"></iframe>");
    const Result r =
        browse({"--window-size=" + std::to_string(width) + "," + std::to_string(height),
                scheme(dark), "--screenshot=" + file.string(), address(around)});
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
      // Chromium makes no picture of any height.
      constexpr int kPart = 8000;
      const int height = found["height"];
      for (const bool dark : {false, true})
        for (int from = 0; from < height; from += kPart)
          shoot(page, width, from, std::min(kPart, height - from), dark, name);
    }
  }
};

}  // namespace gossamer::apps
