// The plan file: {"format": 1, "plans": {key: text}}.
#include "gossamer/core/cuda/plan_file.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gossamer/core/io/safetensors.h"

namespace gossamer {
namespace {

using Json = nlohmann::json;

std::map<std::string, std::string> read(const std::string& path) {
  std::map<std::string, std::string> texts;
  std::ifstream in(path, std::ios::binary);
  if (!in) return texts;
  const Json file = Json::parse(in, nullptr, false);
  if (!file.is_object() || file.value("format", Json()) != 1 || !file.contains("plans") ||
      !file["plans"].is_object())
    return texts;
  for (const auto& [key, text] : file["plans"].items())
    if (text.is_string()) texts[key] = text.get<std::string>();
  return texts;
}

}  // namespace

PlanFile::PlanFile(std::string path) : path_(std::move(path)) {
  if (!path_.empty()) texts_ = read(path_);
}

std::string PlanFile::find(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  const auto it = texts_.find(key);
  return it == texts_.end() ? "" : it->second;
}

void PlanFile::store(const std::string& key, const std::string& text) {
  const std::scoped_lock lock(mutex_);
  texts_[key] = text;
  if (path_.empty()) return;
  for (const auto& [other, theirs] : read(path_)) texts_.try_emplace(other, theirs);
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  try {
    write_file(path_, Json{{"format", 1}, {"plans", texts_}}.dump(1) + '\n');
  } catch (const IoError& e) {
    fail<IoError>(e.what(), "; plans of convolutions are kept there, choose another place");
  }
}

}  // namespace gossamer
