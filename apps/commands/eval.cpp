// `gossamer eval MODEL.safetensors data.val=DIR`: exact top-1 and top-5 of a model file, also of
// weights of others.
#include <chrono>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/json.h"
#include "gossamer/apps/launch/worker_process.h"
#include "gossamer/apps/train/evaluate.h"
#include "gossamer/apps/train/inputs.h"
#include "gossamer/apps/train/model_file.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/data/errors.h"

namespace gossamer::apps {

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
  std::vector<std::string> damaged;
  const auto begin = std::chrono::steady_clock::now();
  const Counts counts = evaluate(*model.net, set, model.pictures,
                                 {.batch = config.eval.batch,
                                  .threads = data_threads_for(config, 1),
                                  .strict = config.data.strict_images},
                                 &damaged);
  check<DataError>(counts.images > 0, data::code::damaged_images, "data.val: none of ",
                   damaged.size(),
                   " images could be decoded; first: ", damaged.empty() ? "" : damaged[0]);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (command.json) {
    JsonObject out;
    out.add("model", model.name)
        .add("images", static_cast<i64>(counts.images))
        .add("top1", counts.top1 / counts.images);
    out.add("top5", counts.top5 / counts.images)
        .add("loss", counts.loss / counts.images)
        .add("images_per_s", counts.images / seconds);
    out.add("damaged_images", damaged.size());
    fmt::print("{}\n", out.str());
    return 0;
  }
  fmt::print("{}: top-1 {:.2f} %, top-5 {:.2f} %, loss {:.4f} on {} images ({:.0f} images/s)\n",
             model.name, 100 * counts.top1 / counts.images, 100 * counts.top5 / counts.images,
             counts.loss / counts.images, static_cast<i64>(counts.images), counts.images / seconds);
  for (const std::string& line : damaged) fmt::print("damaged: {}\n", line);
  return 0;
}

}  // namespace gossamer::apps
