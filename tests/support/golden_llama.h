// The folders of Hugging Face in tests/golden/llama, one for each family.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace gossamer {

inline std::filesystem::path golden_llama(const std::string& name) {
  return std::filesystem::path(GOSSAMER_SOURCE_DIR "/tests/golden/llama") / name;
}
// of parametrised tests
inline auto llama_families() {
  return ::testing::Values("llama", "llama-sharded", "llama3", "llama-tied", "llama-bias",
                           "mistral", "qwen2", "qwen3");
}
inline std::string llama_family_name(const ::testing::TestParamInfo<const char*>& family) {
  std::string name = family.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace gossamer
