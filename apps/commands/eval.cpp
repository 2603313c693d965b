// `gossamer eval MODEL.safetensors data.val=DIR`: exact top-1 and top-5 of a model file, also of
// weights of others.
#include <algorithm>
#include <chrono>
#include <filesystem>

#include <fmt/core.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/commands/eval_text.h"
#include "gossamer/apps/commands/on_gpu.h"
#include "gossamer/apps/config_check.h"
#include "gossamer/apps/report/class_report.h"
#include "gossamer/apps/report/html.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/best.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/evaluate.h"
#include "gossamer/apps/train/inputs.h"
#include "gossamer/apps/train/judged.h"
#include "gossamer/apps/train/known_data.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/picture_model.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/text/json.h"
#include "gossamer/data/errors.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

// what is shown of more classes; --json and --csv have all
constexpr std::size_t kShown = 20;

void print_per_class(const std::vector<ClassPair>& pairs, const std::vector<std::string>& classes) {
  const auto results = class_results(pairs, classes.size());
  const auto order = worst_first(results);
  print("recall  precision  images  class\n");
  for (std::size_t i = 0; i < order.size() && i < kShown; ++i) {
    const ClassResult& r = results[order[i]];
    print(fmt::format("{:5.1f} %   {:>7}  {:6}  {}\n", 100 * r.recall(),
                      r.predicted ? fmt::format("{:.1f} %", 100 * r.precision()) : "-", r.images,
                      classes[order[i]]));
  }
  if (order.size() > kShown)
    print(fmt::format("… and {} classes with a higher recall (--json and --csv have all)\n",
                      order.size() - kShown));
}

void print_confusions(const std::vector<ClassPair>& pairs,
                      const std::vector<std::string>& classes) {
  const auto all = confusions(pairs);
  for (std::size_t i = 0; i < all.size() && i < kShown; ++i)
    print(fmt::format("{:6} of {} taken for {}\n", all[i].images,
                      classes[static_cast<std::size_t>(all[i].label)],
                      classes[static_cast<std::size_t>(all[i].predicted)]));
  if (all.size() > kShown)
    print(fmt::format("… and {} pairs of classes that are rarer\n", all.size() - kShown));
}

void add_per_class(JsonObject& out, const std::vector<ClassPair>& pairs,
                   const std::vector<std::string>& classes) {
  std::vector<JsonObject> rows;
  const auto results = class_results(pairs, classes.size());
  for (std::size_t k = 0; k < classes.size(); ++k)
    rows.push_back(JsonObject()
                       .add("class", classes[k])
                       .add("images", results[k].images)
                       .add("recall", results[k].recall())
                       .add("precision", results[k].precision()));
  out.add("per_class", rows);
}

void add_confusion(JsonObject& out, const std::vector<ClassPair>& pairs,
                   const std::vector<std::string>& classes) {
  std::vector<JsonObject> rows;
  const auto all = confusions(pairs);
  for (std::size_t i = 0; i < all.size() && i < kShown; ++i)
    rows.push_back(JsonObject()
                       .add("class", classes[static_cast<std::size_t>(all[i].label)])
                       .add("taken_for", classes[static_cast<std::size_t>(all[i].predicted)])
                       .add("images", all[i].images));
  out.add("classes", classes)
      .add("confusion", confusion_matrix(pairs, classes.size()))
      .add("top_confusions", rows);
}

struct Models {
  std::vector<std::string> files;
  std::vector<LoadedModel> loaded;
  std::vector<nn::Module*> nets;
};

std::string pictures_text(const Pictures& p) {
  return fmt::format("side {} of {}, {}, mean {:g} {:g} {:g}, std {:g} {:g} {:g}", p.size, p.resize,
                     p.filter == data::Shrink::area ? "area" : "bilinear", p.mean[0], p.mean[1],
                     p.mean[2], p.std[0], p.std[1], p.std[2]);
}

// What one model is given of a picture, and what its answers mean, is the same for all.
void check_alike(const Models& models) {
  const LoadedModel& first = models.loaded[0];
  for (std::size_t i = 1; i < models.loaded.size(); ++i) {
    const LoadedModel& other = models.loaded[i];
    const std::string pair = models.files[0] + " and " + models.files[i];
    check<ConfigError>(other.classes.size() == first.classes.size(), pair, " have ",
                       first.classes.size(), " and ", other.classes.size(),
                       " classes; only models of the same classes can be averaged");
    for (std::size_t k = 0; k < first.classes.size(); ++k)
      check<ConfigError>(other.classes[k] == first.classes[k], pair, " have other classes: number ",
                         k, " is ", first.classes[k], " and ", other.classes[k],
                         "; only models of the same classes can be averaged");
    const std::string one = pictures_text(first.pictures), two = pictures_text(other.pictures);
    check<ConfigError>(one == two, pair, " want other pictures: ", one, "; ", two,
                       "; say data.eval_size, data.resize, data.mean, data.std or data.filter for "
                       "all");
  }
}

Models load_models(std::vector<std::string> files, const Config& config, Device device) {
  Models out{std::move(files), {}, {}};
  for (const std::string& file : out.files) {
    out.loaded.push_back(
        load_model(find_model(file, config), compute_type(config.train.dtype), config, device));
    out.nets.push_back(out.loaded.back().net.get());
    for (const std::string& line : out.loaded.back().notes) say(line);
  }
  return out;
}

JsonObject& add_counts(JsonObject& out, const Counts& counts) {
  const Score s = score_of(counts, 0, 0);
  return out.add("top1", s.top1).add("top5", s.top5).add("loss", s.loss);
}

std::string counts_text(const Counts& counts) {
  const Score s = score_of(counts, 0, 0);
  return fmt::format("top-1 {:.2f} %, top-5 {:.2f} %, loss {:.4f}", 100 * s.top1, 100 * s.top5,
                     s.loss);
}

void write_class_page(const std::string& page, const std::string& title,
                      const std::vector<std::string>& files, const std::string& result,
                      const ClassReport& classes) {
  std::string body = "<p class=\"lead\">" + html_escape(result) + "</p>";
  for (const std::string& file : files)
    body += "<p class=\"soft\"><code>" + html_escape(file) + "</code></p>";
  write_file(page, html_page(title, body + class_report_html(classes)));
}

// Where no data are given, takes those that the run of the model was validated with.
void take_data_of_run(std::vector<std::string>& keys, const ModelSource& model) {
  const fs::path of_run = model.beside / "config.toml";
  if (!is_run_folder(model.beside) || !fs::exists(of_run)) return;
  if (std::ranges::any_of(keys, [](const std::string& key) {
        return key.starts_with("data.train=") || key.starts_with("data.val") ||
               key.find('=') == std::string::npos;  // CONFIG.toml
      }))
    return;
  const Config run = load_config({of_run.string()});
  if (run.data.val[0] == "none" && run.data.val_split == 0) return;
  keys.insert(keys.begin(), of_run.string());
  const bool beside = run.data.val[0] == "auto";
  say(fmt::format("no data are given; taken are those of {}: {} = {}", of_run.string(),
                  beside ? "data.train" : "data.val",
                  paths_text(beside ? run.data.train : run.data.val)));
}

}  // namespace

void say_how_it_ran(const Config& config, const Counts& counts) {
  if (counts.batch < config.eval.batch)
    say(fmt::format("eval.batch = {} needs more memory than there is: {} at a time",
                    config.eval.batch, counts.batch));
  if (!counts.no_graph.empty()) say_no_graph(counts.no_graph);
}

int eval(const EvalCommand& command) {
  std::vector<std::string> files = command.arguments, keys = take_keys(files);
  if (fs::exists(command.model) && command.choices.empty())
    take_data_of_run(keys, find_model(command.model));
  Config config = load_config(keys);
  files.insert(files.begin(), command.model);
  const Device device = command_device(config);
  const ModelSource source = find_model(command.model, config);
  const std::string task = task_of(source);
  check<ConfigError>(task == "pictures" || files.size() == 1, "eval: ", command.model, " is a ",
                     task, " model, which is evaluated alone; leave ", files.back(), " out");
  if (task == "language") return eval_text(command, source, config, device);
  if (task == "translation") return eval_pairs(command, source, config, device);
  check<ConfigError>(
      !command.stride && !command.beam && !command.length_penalty && command.choices.empty(),
      "eval: ", command.model,
      " is for pictures; --stride, --choices, --beam and --length-penalty are for text");
  config.dist = {};  // of a run of several workers, perhaps, and this is one process
  validate(config, 1);
  settle_cpu(config);
  for (const std::string& line : config.notes) say(line);
  set_compute_threads(compute_threads_for(config, 1));
  Models models = load_models(std::move(files), config, device);
  const DataSets data = open_validation(config);
  const auto set = data.val;
  check<ConfigError>(set != nullptr, "eval: data.val = none; give the data: data.val=DIR");
  for (const std::string& line : data.notes) say(line);
  for (LoadedModel& m : models.loaded) {
    // Weights of others have no names of classes; they were trained with the classes in this order.
    if (!m.has_class_names && m.classes.size() == set->classes().size()) m.classes = set->classes();
  }
  check_alike(models);
  const LoadedModel& model = models.loaded[0];
  check_classes_of_model("the model " + command.model, model.classes, set->classes(),
                         "use the data it was trained for: data.val=DIR");
  for (const std::string& file : models.files)
    check_held_back(file, model_header(find_model(file)), config, set.get());
  std::vector<std::string> damaged;
  std::vector<Judgement> judged;
  const bool judges =
      command.per_class || command.confusion || !command.csv.empty() || !command.html.empty();
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Counts> all = [&] {
    ProgressLine line("eval",
                      {.total = set->size(), .unit = "images", .silent = !progress_is_seen(false)});
    return evaluate(models.nets, set, model.pictures,
                    {.batch = config.eval.batch,
                     .threads = data_threads_for(config, 1),
                     .strict = config.data.strict_images,
                     .flip = command.flip,
                     .progress = [&](i64 done) { line.show(done); }},
                    &damaged, judges ? &judged : nullptr);
  }();
  const Counts& counts = all.back();
  check<DataError>(counts.items > 0, data::code::damaged_images, "data.val: none of ",
                   damaged.size(),
                   " images could be decoded; first: ", damaged.empty() ? "" : damaged[0]);
  check_finite(counts.loss / counts.items, command.model);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  say_how_it_ran(config, counts);
  const std::size_t several = models.nets.size() > 1 ? models.nets.size() : 0;
  const std::string name = several ? fmt::format("mean of {} models", several) : model.name,
                    result = fmt::format("{} on {} images", counts_text(counts),
                                         static_cast<i64>(counts.items));
  const std::vector<ClassPair> pairs = count_pairs(judged);
  if (!command.csv.empty()) write_class_csv(command.csv, pairs, model.classes);
  if (!command.html.empty())
    write_class_page(command.html, "Evaluation: " + name, models.files, result,
                     class_report(judged, *set));
  if (command.json) {
    JsonObject out;
    out.add("model", name).add("images", static_cast<i64>(counts.items));
    add_counts(out, counts).add("images_per_s", counts.items / seconds);
    out.add("damaged_images", damaged.size());
    std::vector<JsonObject> each;
    for (std::size_t i = 0; i < several; ++i) {
      JsonObject row;
      row.add("file", models.files[i]).add("model", models.loaded[i].name);
      each.push_back(add_counts(row, all[i]));
    }
    if (several) out.add("models", each);
    if (command.per_class) add_per_class(out, pairs, model.classes);
    if (command.confusion) add_confusion(out, pairs, model.classes);
    print(fmt::format("{}\n", out.str()));
    return 0;
  }
  for (std::size_t i = 0; i < several; ++i)
    print(
        fmt::format("{} ({}): {}\n", models.files[i], models.loaded[i].name, counts_text(all[i])));
  print(fmt::format("{}: {} ({:.0f} images/s)\n", name, result, counts.items / seconds));
  for (const std::string& line : damaged) print(fmt::format("damaged: {}\n", line));
  if (command.per_class) print_per_class(pairs, model.classes);
  if (command.confusion) print_confusions(pairs, model.classes);
  return 0;
}

}  // namespace gossamer::apps
