// The files of a run's end. What its folder cannot take is written elsewhere, so that no model is
// lost while any place can be written.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace gossamer::apps {

class ResultFiles {
 public:
  // id: as for write_elsewhere()
  ResultFiles(std::filesystem::path run_folder, std::string id)
      : folder_(std::move(run_folder)), id_(std::move(id)) {}
  // write(path) writes the file `name` into the run's folder; if it throws IoError, again after old
  // checkpoints have made room; then elsewhere.
  void write(const std::string& name,
             const std::function<void(const std::filesystem::path&)>& write);
  // Where that file is; empty: nowhere.
  std::filesystem::path place(const std::string& name) const;
  // What is not in the run's folder, where it is, and why: sentences.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::filesystem::path folder_, elsewhere_;
  std::string id_;
  std::vector<std::string> rescued_, lost_, problems_;
};

}  // namespace gossamer::apps
