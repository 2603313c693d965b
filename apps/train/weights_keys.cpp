// See weights_keys.h.
#include "gossamer/apps/train/weights_keys.h"

#include <string>

#include "gossamer/apps/command_keys.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {

nn::WeightsOptions weights_options(const Config& c) {
  nn::WeightsOptions out{.key = c.model.init_key, .rename = {}};
  for (const std::string& text : c.model.init_rename) {
    const std::size_t equals = text.find('=');
    check<ConfigError>(
        equals != text.npos && equals > 0 &&
            out.rename.emplace(text.substr(0, equals), text.substr(equals + 1)).second,
        "model.init_rename: \"", text, "\" must be NAME=NEW, each NAME once, e.g. linear=fc");
  }
  return out;
}

ModelSource find_model(const std::filesystem::path& path, const Config& c) {
  Config own = c;
  if (!c.model.init.empty()) {  // a CONFIG.toml speaks of the file that its training began with
    if (!said_by_hand(c, "model.init_key")) own.model.init_key.clear();
    if (!said_by_hand(c, "model.init_rename")) own.model.init_rename.clear();
  }
  return find_model(path, weights_options(own));
}

ModelSource find_initial_model(const Config& c) {
  return c.resumed_from.empty() ? find_model(c.model.init, weights_options(c))
                                : find_model(c.resumed_from);
}

}  // namespace gossamer::apps
