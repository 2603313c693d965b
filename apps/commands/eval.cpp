// `gossamer eval MODEL.safetensors data.val=DIR`: exact top-1 and top-5 of a model file, also of
// weights of others.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/json.h"
#include "gossamer/apps/launch/worker_process.h"
#include "gossamer/apps/train/class_results.h"
#include "gossamer/apps/train/evaluate.h"
#include "gossamer/apps/train/inputs.h"
#include "gossamer/apps/train/model_file.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/data/errors.h"

namespace gossamer::apps {
namespace {

// what is shown of more classes; --json and --csv have all
constexpr std::size_t kShown = 20;

void set_size(Pictures& pictures, int size) {
  check<ConfigError>(size >= 1 && size <= 4096, "eval: --size ", size, " must be 1 to 4096");
  pictures.resize = resize_for(pictures, size);
  pictures.size = size;
}

void print_per_class(const std::vector<Judgement>& judged,
                     const std::vector<std::string>& classes) {
  const auto results = class_results(judged, classes.size());
  std::vector<std::size_t> order(classes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::erase_if(order, [&](std::size_t k) { return results[k].images == 0; });
  std::ranges::stable_sort(order, {}, [&](std::size_t k) { return results[k].recall(); });
  fmt::print("recall  precision  images  class\n");
  for (std::size_t i = 0; i < order.size() && i < kShown; ++i) {
    const ClassResult& r = results[order[i]];
    fmt::print("{:5.1f} %   {:>7}  {:6}  {}\n", 100 * r.recall(),
               r.predicted ? fmt::format("{:.1f} %", 100 * r.precision()) : "-", r.images,
               classes[order[i]]);
  }
  if (order.size() > kShown)
    fmt::print("… and {} classes with a higher recall (--json and --csv have all)\n",
               order.size() - kShown);
}

void print_confusions(const std::vector<Judgement>& judged,
                      const std::vector<std::string>& classes) {
  const auto all = confusions(judged);
  for (std::size_t i = 0; i < all.size() && i < kShown; ++i)
    fmt::print("{:6} of {} taken for {}\n", all[i].images,
               classes[static_cast<std::size_t>(all[i].label)],
               classes[static_cast<std::size_t>(all[i].predicted)]);
  if (all.size() > kShown)
    fmt::print("… and {} pairs of classes that are rarer\n", all.size() - kShown);
}

void add_per_class(JsonObject& out, const std::vector<Judgement>& judged,
                   const std::vector<std::string>& classes) {
  std::vector<JsonObject> rows;
  const auto results = class_results(judged, classes.size());
  for (std::size_t k = 0; k < classes.size(); ++k)
    rows.push_back(JsonObject()
                       .add("class", classes[k])
                       .add("images", results[k].images)
                       .add("recall", results[k].recall())
                       .add("precision", results[k].precision()));
  out.add("per_class", rows);
}

void add_confusion(JsonObject& out, const std::vector<Judgement>& judged,
                   const std::vector<std::string>& classes) {
  std::vector<JsonObject> rows;
  const auto all = confusions(judged);
  for (std::size_t i = 0; i < all.size() && i < kShown; ++i)
    rows.push_back(JsonObject()
                       .add("class", classes[static_cast<std::size_t>(all[i].label)])
                       .add("taken_for", classes[static_cast<std::size_t>(all[i].predicted)])
                       .add("images", all[i].images));
  out.add("classes", classes)
      .add("confusion", confusion_matrix(judged, classes.size()))
      .add("top_confusions", rows);
}

}  // namespace

int eval(const EvalCommand& command) {
  spin_briefly();
  Config config = load_config(command.arguments);
  config.dist = {};  // of a run of several workers, perhaps, and this is one process
  for (const std::string& line : config.notes) fmt::print(stderr, "gossamer: {}\n", line);
  validate(config, 1);
  check<ConfigError>(config.train.device == "auto" || config.train.device == "cpu",
                     "eval computes on the CPU; with this configuration it needs train.device=cpu, "
                     "not ",
                     config.train.device);
  set_compute_threads(compute_threads_for(config, 1));
  LoadedModel model = load_model(command.model, compute_type(config.train.dtype), config);
  for (const std::string& line : model.notes) fmt::print(stderr, "gossamer: {}\n", line);
  const DataSets data = open_validation(config);
  const auto set = data.val;
  check<ConfigError>(set != nullptr, "eval: data.val = none; give the data: data.val=DIR");
  for (const std::string& line : data.notes) fmt::print(stderr, "gossamer: {}\n", line);
  // Weights of others have no names of classes; they were trained with the classes in this order.
  if (!model.has_class_names && model.classes.size() == set->classes().size())
    model.classes = set->classes();
  check<DataError>(set->classes() == model.classes, data::code::other_classes, "the model ",
                   command.model, " knows ", model.classes.size(), " classes (",
                   model.classes.front(), " … ", model.classes.back(), "), the data has ",
                   set->classes().size(), " (", set->classes().front(), " … ",
                   set->classes().back(), "); use the data it was trained for: data.val=DIR");
  if (command.size) set_size(model.pictures, *command.size);
  std::vector<std::string> damaged;
  std::vector<Judgement> judged;
  const bool judges = command.per_class || command.confusion || !command.csv.empty();
  const auto begin = std::chrono::steady_clock::now();
  const Counts counts = evaluate(*model.net, set, model.pictures,
                                 {.batch = config.eval.batch,
                                  .threads = data_threads_for(config, 1),
                                  .strict = config.data.strict_images,
                                  .flip = command.flip},
                                 &damaged, judges ? &judged : nullptr);
  check<DataError>(counts.images > 0, data::code::damaged_images, "data.val: none of ",
                   damaged.size(),
                   " images could be decoded; first: ", damaged.empty() ? "" : damaged[0]);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (counts.batch < config.eval.batch)
    fmt::print(stderr, "gossamer: eval.batch = {} needs more memory than there is: {} at a time\n",
               config.eval.batch, counts.batch);
  if (!command.csv.empty()) write_class_csv(command.csv, judged, model.classes);
  if (command.json) {
    JsonObject out;
    out.add("model", model.name)
        .add("images", static_cast<i64>(counts.images))
        .add("top1", counts.top1 / counts.images);
    out.add("top5", counts.top5 / counts.images)
        .add("loss", counts.loss / counts.images)
        .add("images_per_s", counts.images / seconds);
    out.add("damaged_images", damaged.size());
    if (command.per_class) add_per_class(out, judged, model.classes);
    if (command.confusion) add_confusion(out, judged, model.classes);
    fmt::print("{}\n", out.str());
    return 0;
  }
  fmt::print("{}: top-1 {:.2f} %, top-5 {:.2f} %, loss {:.4f} on {} images ({:.0f} images/s)\n",
             model.name, 100 * counts.top1 / counts.images, 100 * counts.top5 / counts.images,
             counts.loss / counts.images, static_cast<i64>(counts.images), counts.images / seconds);
  for (const std::string& line : damaged) fmt::print("damaged: {}\n", line);
  if (command.per_class) print_per_class(judged, model.classes);
  if (command.confusion) print_confusions(judged, model.classes);
  return 0;
}

}  // namespace gossamer::apps
