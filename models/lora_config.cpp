// See lora_file.h.
#include <nlohmann/json.hpp>

#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/models/lora_file.h"

namespace gossamer::models {
namespace {

bool is_empty(const nlohmann::json& value) {
  return value.is_null() || value == false ||
         ((value.is_array() || value.is_object()) && value.empty());
}

}  // namespace

AdapterConfig read_adapter_config(std::string_view text, const std::string& file) {
  auto json = parse_json<nlohmann::json>(std::string(text));
  check<IoError>(json.is_object(), file, ": is no JSON object");
  AdapterConfig out;
  const auto refuse = [&](const char* key, const std::string& wanted) {
    fail<IoError>(file, ": ", key, " is ", printable(json[key].dump(), 60), "; wanted ", wanted);
  };
  const auto want = [&](bool right, const char* key, const std::string& wanted) {
    if (!right) refuse(key, wanted);
  };
  want(json.contains("peft_type") && json["peft_type"] == "LORA", "peft_type",
       "LORA, the only kind of adapter that is built");
  for (const char* key : {"use_dora", "rank_pattern", "alpha_pattern", "modules_to_save",
                          "layers_to_transform", "layer_replication", "fan_in_fan_out"})
    if (json.contains(key)) want(is_empty(json[key]), key, "none; it is not supported");
  want(!json.contains("bias") || json["bias"] == "none", "bias", "\"none\"");
  const auto number = [&](const char* key) {
    want(json.contains(key) && json[key].is_number(), key, "a number");
    return json[key].get<double>();
  };
  const double rank = number("r");
  out.options.alpha = number("lora_alpha");
  want(rank >= 1 && rank <= 65536 && rank == static_cast<double>(static_cast<i64>(rank)), "r",
       "a whole number, 1 to 65536");
  want(out.options.alpha > 0, "lora_alpha", "a number above 0");
  out.options.rank = static_cast<i64>(rank);
  out.options.rank_stabilised = json.contains("use_rslora") && json["use_rslora"] == true;
  want(json.contains("target_modules") && json["target_modules"].is_array() &&
           !json["target_modules"].empty(),
       "target_modules", "a list of names of layers");
  out.options.targets.clear();
  for (const auto& target : json["target_modules"]) {
    want(target.is_string() && target != "lm_head", "target_modules",
         "names of layers of attention and of the MLP");
    out.options.targets.push_back(target.get<std::string>());
  }
  if (json.contains("base_model_name_or_path") && json["base_model_name_or_path"].is_string())
    out.base = json["base_model_name_or_path"].get<std::string>();
  return out;
}

std::string adapter_config(const nn::LoraOptions& o, const std::string& base) {
  const nlohmann::json json{{"peft_type", "LORA"},
                            {"task_type", "CAUSAL_LM"},
                            {"base_model_name_or_path", base},
                            {"r", o.rank},
                            {"lora_alpha", o.alpha},
                            {"lora_dropout", 0.0},
                            {"use_rslora", o.rank_stabilised},
                            {"use_dora", false},
                            {"bias", "none"},
                            {"fan_in_fan_out", false},
                            {"inference_mode", true},
                            {"modules_to_save", nullptr},
                            {"target_modules", o.targets}};
  return json.dump(1) + "\n";
}

}  // namespace gossamer::models
