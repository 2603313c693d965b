// `gossamer data make-shapes DIR`: the default data set, drawn here.
#include <chrono>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/text/json.h"

namespace gossamer::apps {

int make_shapes(const MakeShapesCommand& command) {
  const auto begin = std::chrono::steady_clock::now();
  const data::ShapesOptions& made = command.options;
  data::make_shapes(command.folder, made);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (command.json) {
    JsonObject out;
    out.add("train", command.folder + "/train")
        .add("val", command.folder + "/val")
        .add("train_images", made.train);
    out.add("val_images", made.val)
        .add("size", made.size)
        .add("classes", data::shape_classes())
        .add("seconds", seconds);
    print(fmt::format("{}\n", out.str()));
  } else {
    print(fmt::format(
        "shapes10: {} + {} JPEG files of {}x{} in {} classes: {}/train, {}/val ({:.1f} s)\n",
        made.train, made.val, made.size, made.size, data::shape_classes().size(), command.folder,
        command.folder, seconds));
  }
  return 0;
}

}  // namespace gossamer::apps
