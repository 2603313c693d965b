// See resume_point.h.
#include "gossamer/apps/train/resume_point.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/dist/method.h"
#include "gossamer/nn/checkpoint.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

int rank_of(const std::string& file) { return std::atoi(file.c_str() + std::strlen("rank-")); }

std::vector<int> parse_ranks(const std::string& text) {
  std::vector<int> ranks;
  std::istringstream in(text);
  for (int rank = 0; in >> rank;) ranks.push_back(rank);
  return ranks;
}

// The method may be one of another version.
bool sums_gradients(const std::string& method) {
  const std::vector<std::string> known = dist::method_names();
  return std::ranges::find(known, method) != known.end() &&
         dist::method_traits(method).sums_gradients;
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
    bool all_equal;  // models, but for a step
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
                      method != meta.end() && sums_gradients(method->second),
                      figures("earlier_legs"),
                      figures("this_leg"),
                      meta.contains("alive") ? parse_ranks(meta.at("alive")) : std::vector<int>{}};
      // ranks from `world` on are of workers that joined the run
      check<IoError>(file.world >= 1 && file.world <= 65536 && file.rank >= 0 &&
                         file.rank <= 65536 && file.samples >= 0,
                     path.string(), ": rank ", file.rank, " of ", file.world, " at ", file.samples,
                     " samples in the header is impossible");
      if (name == checkpoint_file(static_cast<int>(file.rank))) all.push_back(file);
    } catch (const IoError& e) {
      found.damaged_ranks.push_back(rank_of(name));
      found.defect = e.what();
    }
  }
  if (all.empty()) {
    if (found.damaged_ranks.empty()) found.defect = "it is empty";
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
    found.ranks.push_back(static_cast<int>(f.rank));
    most = std::max(most, f.samples);
    sum += f.samples;
  }
  found.world = static_cast<int>(newest.world);
  found.samples = all[0].all_equal ? most : sum / static_cast<double>(all.size());
  found.figures = all[0].earlier;
  found.figures += leg;
  std::erase_if(found.damaged_ranks, [&](int rank) { return rank >= found.world; });
  std::string missing;
  for (int rank = 0; rank < found.world; ++rank) {
    const bool was_alive =  // older files do not say it
        newest.alive.empty() || std::ranges::find(newest.alive, rank) != newest.alive.end();
    if (!was_alive || std::ranges::find(found.ranks, rank) != found.ranks.end() ||
        std::ranges::find(found.damaged_ranks, rank) != found.damaged_ranks.end())
      continue;
    ++found.missing;
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (found.whole())
    found.defect.clear();
  else if (found.missing > 0)
    found.defect = found.missing == 1 ? fmt::format("worker {} did not write its file", missing)
                                      : fmt::format("workers {} did not write theirs", missing);
  return found;
}

namespace {

// Reads the files, and counts those that are not whole as damaged.
void read_files(ResumePoint& point, const Reader& reader) {
  const auto is_whole = [&](std::size_t i) {
    try {
      check_safetensors(point.files[i]);
      return true;
    } catch (const IoError& e) {
      point.defect = e.what();
      return false;
    }
  };
  const auto own = std::ranges::find(point.ranks, reader.rank);
  if (reader.workers == point.world && own != point.ranks.end() &&
      is_whole(static_cast<std::size_t>(own - point.ranks.begin())))
    return;
  for (std::size_t i = 0; i < point.files.size();) {
    if (is_whole(i)) {
      ++i;
      continue;
    }
    point.damaged_ranks.push_back(point.ranks[i]);
    point.files.erase(point.files.begin() + static_cast<std::ptrdiff_t>(i));
    point.ranks.erase(point.ranks.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

struct Choice {
  std::optional<ResumePoint> best;
  std::vector<std::string> passed_over;
};

Choice choose(const fs::path& run_folder, const Reader& reader) {
  Choice choice;
  std::optional<ResumePoint> incomplete;  // the newest, if there is no other
  for (ResumePoint& point : list_checkpoints(run_folder)) {
    if (!choice.best && (point.can_be_mended() || !incomplete)) read_files(point, reader);
    if (!choice.best && point.can_be_mended()) {
      choice.best = std::move(point);
      continue;
    }
    if (choice.best && !point.files.empty()) continue;  // an older one
    choice.passed_over.push_back(point.checkpoint.filename().string() + " (" + point.defect + ")");
    if (!incomplete && !choice.best && !point.files.empty()) incomplete = std::move(point);
  }
  if (std::error_code error;
      fs::is_symlink(run_folder / kElsewhere, error) && !fs::exists(run_folder / kElsewhere, error))
    choice.passed_over.push_back(fs::read_symlink(run_folder / kElsewhere, error).string() +
                                 " (which its folder could not take; it is not there)");
  if (!choice.best && incomplete) {
    std::erase_if(choice.passed_over, [&](const std::string& text) {
      return text.starts_with(incomplete->checkpoint.filename().string() + " (");
    });
    choice.best = std::move(incomplete);
  }
  return choice;
}

ResumePoint named_itself(const fs::path& folder, const Reader& reader) {
  ResumePoint named = checkpoint_in(folder);
  named.run_folder = folder.parent_path().parent_path();
  if (named.run_folder.empty())
    named.run_folder = fs::weakly_canonical(folder).parent_path().parent_path();
  if (named.run_folder.filename() == kElsewhere) named.run_folder = named.run_folder.parent_path();
  read_files(named, reader);
  if (!named.files.empty()) return named;
  const Choice other = choose(named.run_folder, {});
  fail<IoError>("--resume ", folder.string(), ": ", named.defect,
                other.best && other.best->can_be_mended()
                    ? "; the newest checkpoint that is whole is " + other.best->checkpoint.string()
                    : "; this run has no checkpoint that is whole");
}

}  // namespace

const fs::path* ResumePoint::file_of(int rank) const {
  const auto found = std::ranges::find(ranks, rank);
  return found == ranks.end() ? nullptr : &files[static_cast<std::size_t>(found - ranks.begin())];
}

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
  for (const fs::path& folder : {run_folder, run_folder / kElsewhere})
    for (const auto& entry : fs::directory_iterator(folder / "checkpoints", error)) {
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

std::vector<std::string> checkpoints_after(const fs::path& run_folder, const ResumePoint& point) {
  std::vector<std::string> names;
  std::error_code error;
  for (const ResumePoint& c : list_checkpoints(run_folder)) {
    const bool unreadable = c.files.empty() && !c.damaged_ranks.empty();
    if (fs::equivalent(c.checkpoint, point.checkpoint, error) ||
        (c.samples <= point.samples && !unreadable))
      continue;
    const fs::path name = fs::relative(c.checkpoint, run_folder, error);
    names.push_back(*name.begin() == kElsewhere ? kElsewhere : name.string());
  }
  return names;
}

ResumePoint find_checkpoint(const fs::path& path, const Reader& reader) {
  // "runs/x/" is "runs/x", "." has a name, and "runs/x/checkpoints" is of runs/x
  fs::path given = path.has_filename() ? path : path.parent_path();
  if (given.filename() == "." || given.filename() == "..") given = fs::weakly_canonical(given);
  std::error_code error;
  if (given.filename() == "checkpoints" && fs::is_directory(given, error))
    given = fs::absolute(given).parent_path();
  check<IoError>(!fs::exists(given, error) || fs::is_directory(given, error), "--resume ",
                 given.string(), ": this is a file; name the folder of a run or of a checkpoint");
  check<IoError>(
      fs::is_directory(given, error), "--resume ", given.string(),
      ": this folder does not exist; `--resume auto` begins a run that is not there yet");
  if (is_checkpoint_folder(given)) return named_itself(given, reader);

  Choice found = choose(given, reader);
  if (!found.best)
    throw NoCheckpoint(
        given.string() + ": no checkpoint there" +
            (found.passed_over.empty() ? "" : " that can be read: " + found.passed_over[0]),
        fs::exists(given / "summary.json", error)
            ? "the run is finished; model.init=" + (given / "model.safetensors").string() +
                  " begins a new run with its model"
            : "begin anew without --resume; run.checkpoint_every says how often a "
              "checkpoint is written");
  found.best->passed_over = std::move(found.passed_over);
  return *std::move(found.best);
}

}  // namespace gossamer::apps
