// `gossamer classify MODEL.safetensors IMAGE…`: the most likely classes of single pictures, or of
// all in a folder.
#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <iterator>

#include <fmt/core.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/commands/on_gpu.h"
#include "gossamer/apps/config_check.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/picture_input.h"
#include "gossamer/apps/train/picture_model.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/captured_step.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/text/json.h"
#include "gossamer/data/files.h"
#include "gossamer/nn/inference.h"

namespace gossamer::apps {

namespace {

namespace fs = std::filesystem;

// The pictures in a folder and below, sorted; any other path is itself. DataError: there are none.
std::vector<std::string> pictures_at(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> found;
  for (fs::recursive_directory_iterator it(path, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error))
    if (data::is_image_name(it->path().filename().string())) found.push_back(it->path().string());
  check<IoError>(!error, path, ": can't be listed: ", error.message());
  check<DataError>(!found.empty(), path, ": this folder holds no pictures");
  std::ranges::sort(found);
  return found;
}

void classify_one(const LoadedModel& model, const nn::Inference& net, const std::string& model_file,
                  const std::string& path, int top, bool json) {
  const Tensor p = softmax(net(read_picture(path, model.pictures)).to(Device::cpu()));
  const std::span<const float> values = p.span<float>();
  check<IoError>(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }), model_file,
                 ": its outputs for ", path, " are not numbers; are its weights?");
  std::vector<std::size_t> order;
  for (const i64 k : nn::largest(values, top)) order.push_back(static_cast<std::size_t>(k));
  if (json) {
    std::vector<JsonObject> rows;
    for (const std::size_t k : order)
      rows.push_back(JsonObject().add("class", model.classes[k]).add("probability", values[k]));
    print(fmt::format("{}\n", JsonObject().add("image", path).add("top", rows).str()));
  } else {
    print(fmt::format("{}\n", path));
    for (const std::size_t k : order)
      print(fmt::format("  {:5.1f} %  {}\n", 100 * values[k], model.classes[k]));
  }
  std::fflush(stdout);  // of many pictures, the answers come as they are made
}

}  // namespace

int classify(const ClassifyCommand& command) {
  check<ConfigError>(command.top >= 1, "classify: --top ", command.top, " must be at least 1");
  std::vector<std::string> images = command.images, keys = take_keys(images);
  keys.insert(keys.end(), command.arguments.begin(), command.arguments.end());
  check<ConfigError>(!images.empty(), "classify: name pictures, or folders of them");
  Config config = load_config(keys);
  std::vector<std::string> allowed = model_keys();
  allowed.push_back("train.device");
  allow_keys(config, "classify", allowed);
  validate(config, 1);
  const Device device = command_device(config);
  const ModelSource source = find_model(command.model, config);
  check_task(source, "classify", "pictures");
  LoadedModel model = load_model(source, DType::f32, config, device);
  if (!command.classes.empty()) name_classes(model, command.classes);
  for (const std::string& line : model.notes) say(line);
  const NoGrad no_grad;
  const nn::Inference net(std::move(model.net), {.on_failure = say_no_graph});
  int code = 0;
  // A picture that can't be read does not keep the others from being classified.
  const auto go_on = [&](const std::string& path, const auto& work) {
    const auto failed = [&](const std::exception& error, int its_code) {
      if (code == 0) code = its_code;
      say(error.what());
      if (command.json)
        print(
            fmt::format("{}\n", JsonObject().add("image", path).add("error", error.what()).str()));
    };
    try {
      work();
    } catch (const DataError& error) {
      failed(error, 3);
    } catch (const IoError& error) {
      failed(error, 6);
    }
  };
  std::vector<std::string> paths;
  for (const std::string& given : images)
    go_on(given, [&] { std::ranges::copy(pictures_at(given), std::back_inserter(paths)); });
  ProgressLine line("classify", {.total = static_cast<i64>(paths.size()),
                                 .unit = "images",
                                 .silent = !progress_is_seen(true)});
  i64 done = 0;
  for (const std::string& path : paths) {
    go_on(path, [&] { classify_one(model, net, command.model, path, command.top, command.json); });
    line.show(++done);
  }
  return code;
}

}  // namespace gossamer::apps
