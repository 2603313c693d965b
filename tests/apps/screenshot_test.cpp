// The pages in a real browser: pictures of them in the build folder, and what
// it makes of them at the width of a desk's screen and of a telephone's.
#include <gmock/gmock.h>

#include "apps/browser.h"

namespace gossamer::apps {
namespace {

using Screenshots = BrowserTest;

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
