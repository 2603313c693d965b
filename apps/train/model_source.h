// What is given as a model: the one rule of all commands, of model.init and of the C API.
//   a file of weights          itself (.safetensors, .pth)
//   a run's folder             its model.safetensors; if it has none (it goes on, or has failed)
//                              its best model, else its newest checkpoint that is whole
//   a checkpoint's folder      the mean of its workers' models, as at the end of a run
//   the file of one worker     that worker's model
// Any other folder is one of Hugging Face: with a model.safetensors or pytorch_model.bin, or the
// index of several such files; or one of PEFT with an adapter, which is added to the model that its
// adapter_config.json names.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gossamer/nn/module.h"
#include "gossamer/nn/weights.h"

namespace gossamer::apps {

struct ModelSource {
  std::string name;                          // for messages
  std::vector<std::filesystem::path> files;  // of weights; of a checkpoint those of its workers
  bool of_workers = false;
  std::filesystem::path beside;  // the folder with its tokenizer and config.json
  std::filesystem::path adapter =
      {};                          // the folder of one that is added to the weights; empty: none
  std::vector<std::string> notes;  // what was taken, where that is not what was named
  nn::WeightsOptions options = {};
};

bool is_run_folder(const std::filesystem::path&);
// IoError: it does not exist, or holds no model.
ModelSource find_model(const std::filesystem::path&, const nn::WeightsOptions& = {});
// ConfigError: `out`, which `option` names, is one of the files that the model is read from.
void check_not_read(const ModelSource&, const std::string& option,
                    const std::filesystem::path& out);
// Reads the weights, with the header that the model's file has, or would have. IoError: a file is
// damaged, or the options ask for what is not there.
nn::Weights read_model(const ModelSource&);
// The header that read_model() would give; empty for files of others.
std::map<std::string, std::string> model_header(const ModelSource&);
// What it is for: "language", "translation", or "pictures", also if that cannot be seen.
std::string task_of(const ModelSource&);
// ConfigError: it is for another task than `command` wants; says which command takes it.
void check_task(const ModelSource&, const std::string& command, const std::string& wanted);
// Error: values that are not finite. file: for the message.
void check_finite(const nn::Module&, const std::string& file);
// Error: an evaluation's loss is not finite.
void check_finite(double loss, const std::string& file);

}  // namespace gossamer::apps
