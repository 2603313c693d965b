// The pages in a real browser: pictures of them in the build folder, and what
// it makes of them at the width of a desk's screen and of a telephone's.
#include <cstdio>
#include <cstdlib>
#include <regex>

#include <gmock/gmock.h>

#include "apps/browser.h"

namespace gossamer::apps {
namespace {

class Screenshots : public BrowserTest {
 protected:
  // Writes a page of every kind, without the line that forbids scripts: reports run none.
  std::vector<fs::path> pages() {
    EXPECT_EQ(run(tiny({"--workers", "3", "train.epochs=3", "eval.every=1", "train.graph=ring",
                        "eval.consensus_every=1", "run.trace=true"}))
                  .code,
              0);
    EXPECT_EQ(run(tiny({"run.name=u", "train.epochs=2", "eval.every=1"})).code, 0);
    EXPECT_EQ(run({"report", "runs/t", "runs/u", "--out", "both.html"}).code, 0);
    EXPECT_EQ(run({"paper", "ring64", "--html", "paper.html"}).code, 0);
    EXPECT_EQ(run({"simulate", "consensus", "--workers", "8", "--html", "simulate.html"}).code, 0);
    write_text(folder / "lesson.html", run({"lesson"}).out);
    std::vector<fs::path> out;
    for (const char* name :
         {"lesson.html", "runs/t/report.html", "both.html", "paper.html", "simulate.html"}) {
      out.push_back(folder / name);
      write_text(
          out.back(),
          std::regex_replace(read_text(out.back()),
                             std::regex("<meta http-equiv=\"Content-Security-Policy\"[^>]*>"), ""));
    }
    return out;
  }
};

// axe-core, which is no part of this project: the file that GOSSAMER_AXE names, or that of a Python
// package. Empty: there is none.
fs::path find_axe() {
  if (const char* given = std::getenv("GOSSAMER_AXE")) return given;
  const char* const look =
      "python3 -c 'import importlib.util as u, pathlib\n"
      "for name in (\"axe_playwright_python\", \"axe_core_python\"):\n"
      "  found = u.find_spec(name)\n"
      "  if found: print(pathlib.Path(found.origin).parent / \"axe.min.js\", end=\"\"); break' "
      "2>/dev/null";
  FILE* out = popen(look, "r");
  char path[4096] = {};
  const std::size_t read = out == nullptr ? 0 : std::fread(path, 1, sizeof path - 1, out);
  if (out != nullptr) pclose(out);
  return std::string(path, read);
}

std::string with_all(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

// All rules of axe-core, those of good practice too, light and dark.
TEST_F(Screenshots, AxeFindsNothingOnThePages) {
  if (const std::string why = no_browser(); !why.empty()) GTEST_SKIP() << why;
  const fs::path axe = find_axe();
  if (!fs::exists(axe))
    GTEST_SKIP() << "there is no axe-core: pip install axe-playwright-python, or GOSSAMER_AXE=FILE";
  // The browser waits for a frame that is still written.
  const std::string use =
      "<script>{const held = document.body.appendChild(document.createElement('iframe'));\n"
      "held.title = 'held'; held.contentDocument.open();\n"
      "axe.run(document).then(r => ({rules: r.passes.length, found: r.violations.flatMap(v =>\n"
      "  v.nodes.map(n => v.id + ': ' + n.html.slice(0, 200)))}), e => ({failed: String(e)}))\n"
      ".then(r => { document.body.append(Object.assign(document.createElement('pre'),\n"
      "  {id: 'found', textContent: JSON.stringify(r)})); held.contentDocument.close(); });\n"
      "}</script></html>";
  const std::string engine =
      "<script>" + with_all(read_text(axe), "</script>", "<\\/script>") + "</script>";
  for (const fs::path& name : pages()) {
    write_text(folder / "used.html", replaced(read_text(name), "</html>", engine + use));
    for (const bool dark : {false, true}) {
      const Json result = found_on(folder / "used.html", dark);
      ASSERT_TRUE(result.is_object()) << name;
      EXPECT_GT(result.value("rules", 0), 20) << name << ": " << result;
      EXPECT_EQ(result.value("found", Json()), Json::array()) << name << (dark ? ", dark" : "");
    }
  }
}

// axe-core leaves what stands on pictures undecided.
TEST_F(Screenshots, EveryTextAndShapeHasEnoughContrast) {
  if (const std::string why = no_browser(); !why.empty()) GTEST_SKIP() << why;
  std::vector<fs::path> all = pages();
  ASSERT_EQ(run({"tape", "resnet8-cifar", "--svg", "tape.svg"}).code, 0);
  all.push_back(folder / "tape.html");
  write_text(all.back(), "<!doctype html><html><body>" + read_text(folder / "tape.svg"));
  all.push_back(folder / "faint.html");
  write_text(all.back(), R"(<!doctype html><body style="background:#fff;color:#777"><p>faint</p>
<svg width="50" height="50"><rect width="50" height="50" style="fill:#ccc"/></svg>)");
  const std::string around =
      R"(<!doctype html><meta charset="utf-8"><pre id="found"></pre>
<iframe id="page" src="PAGE" style="width:WIDTHpx;height:900px;border:0"></iframe><script>)" +
      read_text(GOSSAMER_SOURCE_DIR "/tests/apps/contrast.js") +
      R"(const frame = document.getElementById("page");
frame.onload = () => document.getElementById("found").textContent =
  JSON.stringify(contrasts(frame.contentDocument, frame.contentWindow));
</script>)";
  for (const fs::path& page : all)
    for (const int width : {1280, 390})
      for (const bool dark : {false, true}) {
        write_text(folder / "around.html", replaced(replaced(around, "PAGE", address(page)),
                                                    "WIDTH", std::to_string(width)));
        const Json result = found_on(folder / "around.html", dark);
        ASSERT_TRUE(result.is_object()) << page;
        const Json found = result.value("found", Json());
        if (page.filename() == "faint.html") {
          EXPECT_EQ(found.size(), 2u) << "both are too faint: " << result;
          continue;
        }
        EXPECT_GT(result.value("texts", 0), 30) << page << ": " << result;
        EXPECT_EQ(found, Json::array()) << page << ", " << width << (dark ? ", dark" : "");
      }
}

TEST_F(Screenshots, ThePagesOfARunAndOfAnEvaluationCanBeReadOnATelephone) {
  if (const std::string why = no_browser(); !why.empty()) GTEST_SKIP() << why;
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
