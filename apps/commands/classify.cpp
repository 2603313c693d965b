// `gossamer classify MODEL.safetensors IMAGE…`: the most likely classes of single pictures.
#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/json.h"
#include "gossamer/apps/launch/worker_process.h"
#include "gossamer/apps/train/model_file.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/data/augment/augment.h"

namespace gossamer::apps {

int classify(const ClassifyCommand& command) {
  spin_briefly();
  check<ConfigError>(command.top >= 1, "classify: --top ", command.top, " must be at least 1");
  const Config config = load_config(command.arguments);
  validate(config, 1);
  LoadedModel model = load_model(command.model, DType::f32, config);
  if (!command.classes.empty()) name_classes(model, command.classes);
  for (const std::string& line : model.notes) fmt::print(stderr, "gossamer: {}\n", line);
  const NoGrad no_grad;
  for (const std::string& path : command.images) {
    const Tensor image =
        data::read_image(path, model.pictures.resize, model.pictures.size, model.pictures.filter);
    const Tensor p = softmax((*model.net)(model.pictures(image)));
    const std::span<const float> values = p.span<float>();
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order,
                             [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
    order.resize(std::min(order.size(), static_cast<std::size_t>(command.top)));
    if (command.json) {
      std::string list;
      for (const std::size_t k : order) {
        JsonObject row;
        row.add("class", model.classes[k]).add("probability", values[k]);
        list += (list.empty() ? "" : ", ") + row.str();
      }
      JsonObject out;
      out.add("image", path).raw("top", "[" + list + "]");
      fmt::print("{}\n", out.str());
      continue;
    }
    fmt::print("{}\n", path);
    for (const std::size_t k : order)
      fmt::print("  {:5.1f} %  {}\n", 100 * values[k], model.classes[k]);
  }
  return 0;
}

}  // namespace gossamer::apps
