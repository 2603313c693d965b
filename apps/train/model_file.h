// Model files of `gossamer train`: the weights, and in the header all that it takes to use them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/apps/train/pictures.h"
#include "gossamer/core/flat.h"
#include "gossamer/nn/module.h"

namespace gossamer::apps {

std::map<std::string, std::string> model_metadata(const Config&, const Pictures&,
                                                  const std::vector<std::string>& classes);

struct LoadedModel {
  std::string name;
  std::unique_ptr<nn::Module> net;     // in eval mode
  std::unique_ptr<FlatParams> params;  // set if it computes in 16 bits
  Pictures pictures;
  std::vector<std::string> classes;
};
// IoError names the file and the key if the file is damaged or `gossamer train` did not write it.
LoadedModel load_model(const std::string& path, DType dtype);

}  // namespace gossamer::apps
