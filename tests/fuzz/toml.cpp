// libFuzzer: a configuration file, and the value of a key on the command line. What is accepted is
// written and read back alike. toml++ 3.3 asserts what it then reports as an error ("[" at the end
// of a line), hence the flag.
//
// flags: -DNDEBUG
// sources: apps/config toml_text amount nesting spelling utf8 file_names
// libraries: -lfmt
#include <cstdint>
#include <cstdlib>

#include "gossamer/apps/config.h"
#include "gossamer/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const std::string written = apps::to_toml(apps::parse_config(text, "fuzz.toml"));
    if (apps::to_toml(apps::parse_config(written, "written")) != written) std::abort();
  } catch (const ConfigError&) {
  }
  try {
    apps::Config config;
    apps::set_key(config, "data.augment=" + text);
  } catch (const ConfigError&) {
  }
  return 0;
}
