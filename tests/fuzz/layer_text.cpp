// libFuzzer: the text of a network (gsm_module_new) through its parser. What is accepted says of
// each layer where it stands.
//
// sources: nn/layer_text core/setting spelling printable utf8
#include "gossamer/nn/layer_text.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "gossamer/core/error.h"

namespace {

void require_layers(const std::vector<gossamer::nn::LayerText>& layers, int line) {
  for (const auto& layer : layers) {
    if (layer.name.empty() || layer.kind.empty() || layer.line < line) std::abort();
    for (const auto& group : layer.groups) require_layers(group, layer.line);
    line = layer.line;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    require_layers(gossamer::nn::parse_layers({reinterpret_cast<const char*>(data), size}), 1);
  } catch (const gossamer::ConfigError&) {
  }
  return 0;
}
