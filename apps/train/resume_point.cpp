// See resume_point.h.
#include "gossamer/apps/train/resume_point.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/nn/checkpoint.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

std::vector<int> parse_ranks(const std::string& text) {
  std::vector<int> ranks;
  std::istringstream in(text);
  for (int rank = 0; in >> rank;) ranks.push_back(rank);
  return ranks;
}

}  // namespace

bool is_checkpoint_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("rank-") && name.ends_with(".safetensors");
}

bool is_checkpoint_folder(const fs::path& folder) {
  if (fs::absolute(folder).parent_path().filename() == "checkpoints") return true;
  std::error_code error;
  return std::ranges::any_of(fs::directory_iterator(folder, error),
                             [](const auto& entry) { return is_checkpoint_file(entry.path()); });
}

ResumePoint checkpoint_in(const fs::path& folder) {
  struct File {
    fs::path path;
    double world, rank, samples;
    bool allreduce;
    RunFigures earlier, leg;
    std::vector<int> alive;
  };
  std::vector<File> all;
  ResumePoint found;
  found.checkpoint = folder;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path& path = entry.path();
    const std::string name = path.filename().string();
    if (!is_checkpoint_file(path)) continue;
    try {
      const auto meta = nn::read_metadata(path);
      const auto method = meta.find("method");
      const auto figures = [&](const char* key) {
        const auto at = meta.find(key);
        return at == meta.end() ? RunFigures{} : parse_figures(at->second);
      };
      const File file{path,
                      checkpoint_number(meta, "world", path),
                      checkpoint_number(meta, "rank", path),
                      checkpoint_number(meta, "samples", path),
                      method != meta.end() && method->second == "allreduce",
                      figures("earlier_legs"),
                      figures("this_leg"),
                      meta.contains("alive") ? parse_ranks(meta.at("alive")) : std::vector<int>{}};
      check<IoError>(file.world >= 1 && file.world <= 65536 && file.rank >= 0 &&
                         file.rank < file.world && file.samples >= 0,
                     path.string(), ": rank ", file.rank, " of ", file.world, " at ", file.samples,
                     " samples in the header is impossible");
      if (name == checkpoint_file(static_cast<int>(file.rank))) all.push_back(file);
    } catch (const IoError& e) {
      found.damaged = true;
      found.defect = e.what();
    }
  }
  if (all.empty()) {
    if (!found.damaged) found.defect = "it is empty";
    return found;
  }
  const File newest = *std::ranges::max_element(all, {}, &File::samples);
  std::erase_if(all, [&](const File& f) {
    return f.world != newest.world || f.earlier.legs != newest.earlier.legs;
  });
  std::ranges::sort(all, {}, &File::rank);
  double most = 0, sum = 0;
  RunFigures leg;
  for (const File& f : all) {
    leg.merge(f.leg);
    found.files.push_back(f.path);
    most = std::max(most, f.samples);
    sum += f.samples;
  }
  found.world = static_cast<int>(newest.world);
  found.samples = all[0].allreduce ? most : sum / static_cast<double>(all.size());
  found.figures = all[0].earlier;
  found.figures += leg;
  std::string missing;
  for (int rank = 0; rank < found.world; ++rank) {
    const bool was_alive =  // older files do not say it
        newest.alive.empty() || std::ranges::find(newest.alive, rank) != newest.alive.end();
    if (!was_alive || std::ranges::find(all, rank, &File::rank) != all.end()) continue;
    ++found.missing;
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (found.whole())
    found.defect.clear();
  else if (!found.damaged)
    found.defect = fmt::format("of {} workers, {} did not write it", found.world, missing);
  return found;
}

namespace {

ResumePoint named_itself(const fs::path& folder) {
  ResumePoint named = checkpoint_in(folder);
  named.run_folder = folder.parent_path().parent_path();
  if (named.run_folder.empty())
    named.run_folder = fs::weakly_canonical(folder).parent_path().parent_path();
  if (named.whole() || (!named.damaged && !named.files.empty())) return named;
  const auto all = list_checkpoints(named.run_folder);
  const auto whole = std::ranges::find_if(all, &ResumePoint::whole);
  const std::string what = "--resume " + folder.string() + ": " + named.defect;
  check<IoError>(whole == all.end(), what, "; the newest checkpoint that is whole is ",
                 whole == all.end() ? "" : whole->checkpoint.string());
  check<IoError>(!named.files.empty(), what, "; this run has no checkpoint that is whole");
  return named;
}

}  // namespace

std::string checkpoint_file(int rank) { return "rank-" + std::to_string(rank) + ".safetensors"; }

double checkpoint_number(const std::map<std::string, std::string>& metadata, const std::string& key,
                         const fs::path& path) {
  try {
    return std::stod(metadata.at(key));
  } catch (const std::exception&) {
    fail<IoError>(path.string(), ": no number \"", key,
                  "\" in the header; this is not a checkpoint of gossamer train");
  }
}

std::vector<ResumePoint> list_checkpoints(const fs::path& run_folder) {
  std::vector<ResumePoint> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_folder / "checkpoints", error)) {
    if (!entry.is_directory(error)) continue;
    all.push_back(checkpoint_in(entry.path()));
    all.back().run_folder = run_folder;
  }
  std::ranges::sort(all, [](const ResumePoint& a, const ResumePoint& b) {
    if (a.files.empty() != b.files.empty()) return b.files.empty();
    return a.samples != b.samples ? a.samples > b.samples : a.checkpoint < b.checkpoint;
  });
  return all;
}

ResumePoint find_checkpoint(const fs::path& path) {
  // "runs/x/" is "runs/x"
  const fs::path given = path.has_filename() ? path : path.parent_path();
  check<IoError>(fs::is_directory(given), "--resume ", given.string(),
                 ": this folder does not exist");
  if (is_checkpoint_folder(given)) return named_itself(given);

  const std::vector<ResumePoint> all = list_checkpoints(given);
  auto best = std::ranges::find_if(all, &ResumePoint::whole);
  if (best == all.end()) best = all.begin();
  std::vector<std::string> passed_over;
  for (auto c = all.begin(); c != all.end(); ++c)
    if (c < best || c->files.empty())
      passed_over.push_back(c->checkpoint.filename().string() + " (" + c->defect + ")");
  check<IoError>(best != all.end() && !best->files.empty(), "--resume ", given.string(),
                 ": no checkpoint there",
                 passed_over.empty() ? "" : " that can be read: " + passed_over[0],
                 ". Begin anew without --resume, and with run.checkpoint_every=EPOCHS: without "
                 "it, checkpoints are only written when a run is interrupted");
  ResumePoint found = *best;
  found.passed_over = std::move(passed_over);
  return found;
}

}  // namespace gossamer::apps
