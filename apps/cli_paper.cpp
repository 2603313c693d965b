// The options of `gossamer paper` and `gossamer compare`.
#include "gossamer/apps/cli_options.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/compare.h"

namespace gossamer::apps {

void add_paper(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand(
      "paper", "The papers' tables and figures, ours beside the published: gossamer paper ring64");
  PaperCommand& c = run_on(a, paper, code);
  a.add_option("name", c.name, "one of them; default: list them");
  a.add_option("arguments", c.arguments, "runs: their recipe CONFIG.toml, then key=value");
  a.add_option("--html", c.html, "write table and pictures into this page");
  a.add_option("--out", c.out, "write NAME.html, NAME.svg and NAME.json into this folder");
  a.add_option("--data", c.data, "real training: a folder with train/ and val/ of CIFAR-10");
  a.add_option("--seeds", c.seeds, "real training: runs to average over");
  a.add_option("--images", c.images, "real training: pictures of a run, of all its workers");
  a.add_option("--workers", c.workers, "runs: workers of each; default: 16");
  a.add_option("--device", c.device, "runs: train.device, e.g. cuda");
  add_json(a, c.json);
}

void add_compare(CLI::App& app, int& code) {
  CLI::App& a = *app.add_subcommand("compare",
                                    "Methods, graphs and data side by side: gossamer compare "
                                    "apps/compare/heterogeneity.toml");
  CompareCommand& c = run_on(a, compare, code);
  a.add_option("experiment", c.experiment, "what to compare, a TOML file")->required();
  a.add_option("--out", c.out, "folder of its runs and its page; default: runs/compare/NAME");
  a.add_option("--jobs", c.jobs, "runs at a time")->capture_default_str();
  add_json(a, c.json);
}

}  // namespace gossamer::apps
