// A libgossamer-cuda.so.0 whose cuda:0 is the CPU, which computes every op as on a GPU.
#include <algorithm>
#include <cstring>
#include <string>

#include "gossamer/apps/capi/gossamer.h"
#include "gossamer/apps/version.h"
#include "gossamer/core/compute.h"

extern "C" const gsm_api* own_gsm_get_api(uint32_t version);

namespace {

const gsm_api& own() { return *own_gsm_get_api(GSM_API_VERSION); }

// The same options for the CPU, if they are for cuda:0.
template <class Options>
Options emulated(const Options* given) {
  Options options{};
  options.struct_size = sizeof options;
  if (!given) return options;
  std::memcpy(&options, given, std::min(given->struct_size, sizeof options));
  if (options.device && std::string(options.device) == "cuda:0") options.device = "cpu";
  return options;
}

}  // namespace

extern "C" const char* gossamer_cuda_version() {
  static const std::string version = gossamer::apps::version();
  return version.c_str();
}

extern "C" const gsm_api* gossamer_cuda_api(uint32_t) {
  static const gsm_api api = [] {
    gossamer::use_cpu_backend("cuda_emulated");
    gsm_api with = own();
    with.device_count = [](int32_t* count) {
      *count = 1;
      return GSM_OK;
    };
    with.model_open_with = [](const gsm_model_options* given, gsm_model** model) {
      const auto options = emulated(given);
      return own().model_open_with(&options, model);
    };
    with.trainer_new = [](const char* model, int64_t classes, const gsm_trainer_options* given,
                          gsm_trainer** trainer) {
      const auto options = emulated(given);
      return own().trainer_new(model, classes, &options, trainer);
    };
    with.language_open = [](const char* path, const gsm_language_options* given,
                            gsm_language** language) {
      const auto options = emulated(given);
      return own().language_open(path, &options, language);
    };
    return with;
  }();
  return &api;
}
