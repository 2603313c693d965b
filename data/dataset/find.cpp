// Looks into folders and at the first bytes of files.
#include "gossamer/data/dataset/find.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string_view>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/format.h"
#include "gossamer/data/formats/image_folder.h"
#include "gossamer/data/formats/index_file.h"
#include "gossamer/data/formats/packed.h"
#include "gossamer/data/formats/tar_shard.h"

namespace gossamer::data {

// The table: each format is defined in its own file. The first that knows a file reads it.
FileFormat packed_format();
FileFormat tar_format();
FileFormat tfrecord_format();
FileFormat pickled_format();
FileFormat idx_format();
FileFormat cifar_format();

namespace {

namespace fs = std::filesystem;

const std::vector<FileFormat>& formats() {
  static const auto& rows =
      *new std::vector<FileFormat>{packed_format(),  tar_format(), tfrecord_format(),
                                   pickled_format(), idx_format(), cifar_format()};
  return rows;
}

constexpr std::size_t kMaxPaths = 100'000;  // that "{0..99999}" may stand for

// The name of the format that a shard's file name says. Empty: it is no shard.
std::string kind_of_shard(const std::string& name) {
  for (const FileFormat& format : formats())
    if (format.has_name && format.has_name(name)) return format.name;
  return "";
}

// Compressed tars, which are to be unpacked first, and the like.
bool is_compressed_name(const std::string& name) {
  return has_ending(name, {".tgz", ".gz", ".bz2", ".xz", ".zst"});
}

// The part of a data set that the name of a shard says: one of its words is train, val, validation
// or test.
enum class Split { none, train, val, test };
Split split_of(const std::string& name) {
  std::string word;
  for (const char c : name + ".") {
    if (std::isalpha(static_cast<unsigned char>(c))) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (word == "train" || word == "training") return Split::train;
    if (word == "val" || word == "valid" || word == "validation") return Split::val;
    if (word == "test") return Split::test;
    word.clear();
  }
  for (const FileFormat& format : formats())
    if (format.is_for_evaluation && format.is_for_evaluation(name)) return Split::test;
  return Split::none;
}

// The shards of one folder that belong to this part. Shards that are named for evaluation are never
// trained on, and the other way round.
std::vector<std::string> of_part(const std::vector<std::string>& names, Part part,
                                 const fs::path& folder, std::vector<std::string>& notes) {
  std::array<std::vector<std::string>, 4> by_split;
  std::vector<std::string> rest;
  for (const std::string& name : names) {
    const Split split = split_of(name);
    by_split[static_cast<std::size_t>(split)].push_back(name);
    if (split == Split::none || split == Split::train) rest.push_back(name);
  }
  const auto &train = by_split[1], &val = by_split[2], &test = by_split[3];
  const auto& evaluation = val.empty() ? test : val;
  const bool evaluate = part == Part::val;
  check<DataError>(!evaluate || !evaluation.empty() || train.empty(), code::not_understood,
                   folder.string(),
                   ": nothing to evaluate with: its shards are named for training (",
                   first_of(train), "), none val or test. Name those to validate with.");
  check<DataError>(
      evaluate || !rest.empty() || (part == Part::any && (val.empty() || test.empty())),
      code::not_understood, folder.string(),
      ": nothing to train with: its shards are named for evaluation (", first_of(evaluation),
      "). Name those to train with.");
  const auto& chosen = (evaluate || rest.empty()) && !evaluation.empty() ? evaluation : rest;
  if (chosen.size() < names.size()) {
    std::vector<std::string> others;
    std::ranges::set_difference(names, chosen, std::back_inserter(others));
    notes.push_back(folder.string() + ": " + std::to_string(others.size()) +
                    " shards of another part are not taken here (" + first_of(others) + ")");
  }
  return chosen;
}

// NAME-00003-of-00157: all shards of a set must be there, because copying or packing may have been
// interrupted.
void check_complete(const std::vector<std::string>& shards, const fs::path& folder) {
  static const auto& number = *new std::regex(R"((.*-)\d{1,9}(-of-(\d{1,9})(\..*)?))");
  std::map<std::string, std::pair<long, long>> sets;  // "NAME-…-of-00157": there, wanted
  for (const std::string& name : shards) {
    std::smatch found;
    if (!std::regex_match(name, found, number)) continue;
    auto& set = sets[found[1].str() + "…" + found[2].str()];
    set = {set.first + 1, std::stol(found[3])};
  }
  for (const auto& [name, set] : sets) {
    const bool packed = has_ending(name, {kPackEnding});
    check<DataError>(
        set.first == set.second, code::damaged, folder.string(), ": holds ", set.first, " of ",
        set.second, packed ? " packed" : "", " shards ", printable(name), ". ",
        packed ? "Pack the same set again: it goes on where it was stopped."
               : "Copy those that are missing, or name the files meant in place of the folder.");
  }
}

bool has_fixed_name(const std::string& name, bool (*FileFormat::*of)(const std::string&)) {
  return std::ranges::any_of(formats(),
                             [&](const FileFormat& f) { return f.*of && (f.*of)(name); });
}

struct Content {
  std::map<std::string, std::vector<std::string>> shards;  // by kind
  std::vector<std::string> train, val;                     // by fixed names
  std::set<std::string> folders;
};

Content look_into(const fs::path& folder) {
  Content found;
  std::error_code error, ignored;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (is_hidden(name)) continue;
    if (it->is_directory(ignored))
      found.folders.insert(name);
    else if (name == "ILSVRC2012_img_train_t3.tar")
      continue;  // another task's images
    else if (const std::string kind = kind_of_shard(name); !kind.empty())
      found.shards[kind].push_back(name);
    else if (has_fixed_name(name, &FileFormat::is_train_name))
      found.train.push_back(name);
    else if (has_fixed_name(name, &FileFormat::is_val_name))
      found.val.push_back(name);
  }
  check<DataError>(!error, code::damaged, folder.string(), ": can't be listed: ", error.message());
  for (auto& [kind, names] : found.shards) std::ranges::sort(names);
  for (auto* names : {&found.train, &found.val}) std::ranges::sort(*names);
  return found;
}

// DataError: more than one kind of data set lies there, so the choice would be a guess.
void check_one_kind(const fs::path& folder, const Content& inside) {
  std::vector<std::string> kinds;  // one name of each
  for (const auto& [kind, names] : inside.shards) kinds.push_back(names.front());
  if (!inside.train.empty() || !inside.val.empty())
    kinds.push_back((inside.train.empty() ? inside.val : inside.train).front());
  int with_pictures = 0;
  for (auto name = inside.folders.begin(); name != inside.folders.end() && with_pictures < 2;
       ++name)
    if (holds_pictures((folder / *name).string())) {
      kinds.push_back(*name + "/");
      ++with_pictures;
    }
  check<DataError>(kinds.size() <= 1, code::not_understood, folder.string(),
                   ": holds data sets of more than one kind beside each other (", first_of(kinds),
                   "). Move all but one into folders of their own, or name the files meant in "
                   "place of the folder.");
}

void find_in_folder(const fs::path& folder, Part part, Containers& all, int depth) {
  const Content inside = look_into(folder);
  const auto add = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) all.found.push_back({(folder / name).string(), false});
  };
  if (!inside.train.empty() || (part == Part::val && !inside.val.empty())) {
    check<DataError>(
        part != Part::val || !inside.val.empty(), code::nothing, folder.string(),
        ": holds training files of CIFAR or ImageNet-32, but neither ",
        "test_batch.bin or test_batch (CIFAR-10) nor test.bin (CIFAR-100) nor val_data "
        "(ImageNet-32) to validate with. Copy it there, or name the file meant.");
    check_one_kind(folder, inside);
    return add(part == Part::val ? inside.val : inside.train);
  }
  // A folder above: train/ and val/ in it, or Kaggle's ILSVRC/Data/CLS-LOC.
  const fs::path kaggle = folder / "ILSVRC" / "Data" / "CLS-LOC";
  std::error_code ignored;
  const bool is_kaggle = depth < 2 && fs::is_directory(kaggle, ignored);
  check<DataError>(!is_kaggle || part != Part::any, code::not_understood, folder.string(),
                   ": Kaggle's ImageNet, training and validation; give one of them as the path: ",
                   (kaggle / "train").string(), " or ", (kaggle / "val").string());
  if (depth < 2 && part != Part::any) {
    if (is_kaggle) return find_in_folder(kaggle, part, all, depth + 1);
    const auto first = [&](std::initializer_list<const char*> names) -> std::string {
      for (const char* name : names)
        if (inside.folders.contains(name)) return name;
      return {};
    };
    const std::string train = first({"train", "training"}),
                      val = first({"val", "valid", "validation", "test"});
    if (!train.empty() && !val.empty())
      return find_in_folder(folder / (part == Part::train ? train : val), part, all, depth + 1);
  }
  if (inside.shards.empty()) return all.found.push_back({folder.string(), true});
  check_one_kind(folder, inside);
  const std::vector<std::string> chosen =
      of_part(inside.shards.begin()->second, part, folder, all.notes);
  check_complete(chosen, folder);
  add(chosen);
}

// "a-{000..146}.tar" and "{train,val}.tar", as in a shell.
void expand(const std::string& path, std::vector<std::string>& out) {
  const std::size_t open = path.find('{'), close = path.find('}', open);
  std::error_code ignored;
  if (open == std::string::npos || close == std::string::npos || fs::exists(path, ignored))
    return out.push_back(path);
  const std::string head = path.substr(0, open), inside = path.substr(open + 1, close - open - 1),
                    tail = path.substr(close + 1);
  const std::size_t dots = inside.find("..");
  const auto digits = [](const std::string& s) {
    return !s.empty() && s.size() <= 9 && s.find_first_not_of("0123456789") == std::string::npos;
  };
  if (dots != std::string::npos && digits(inside.substr(0, dots)) &&
      digits(inside.substr(dots + 2))) {
    const std::string from = inside.substr(0, dots);
    const long begin = std::stol(from), end = std::stol(inside.substr(dots + 2));
    check<DataError>(
        begin <= end && end - begin < static_cast<long>(kMaxPaths), code::not_understood, path,
        ": the numbers in braces go from the smaller to the larger, ", kMaxPaths, " at most");
    for (long i = begin; i <= end; ++i) {
      std::string number = std::to_string(i);
      if (number.size() < from.size()) number.insert(0, from.size() - number.size(), '0');
      expand(head + number + tail, out);
    }
  } else if (inside.find(',') != std::string::npos) {
    for (std::size_t at = 0; at <= inside.size();) {
      const std::size_t comma = std::min(inside.find(',', at), inside.size());
      expand(head + inside.substr(at, comma - at) + tail, out);
      at = comma + 1;
    }
  } else {
    out.push_back(path);
  }
  check<DataError>(out.size() <= kMaxPaths, code::not_understood, path, ": stands for more than ",
                   kMaxPaths, " paths");
}

[[noreturn]] void missing(const std::string& path) {
  std::error_code error;
  const fs::path parent =
      fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  std::string there;
  int count = 0;
  for (fs::directory_iterator it(parent, error);
       !error && it != fs::directory_iterator() && count < 6; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    const bool folder = it->is_directory(ignored), archive = !kind_of_shard(name).empty() ||
                                                             is_compressed_name(name) ||
                                                             has_ending(name, {".zip", ".bin"});
    if (!is_hidden(name) && (folder || archive))
      there += (count++ ? ", " : "") + printable(name) + (folder ? "/" : "");
  }
  std::string around;
  if (!fs::exists(parent, error))
    around = " (nor is there a folder " + parent.string() + ")";
  else if (count > 0)
    around = ". Found beside it: " + there;
  fail<DataError>(code::nothing, printable(path), ": no such file or folder", around,
                  ". Check the path; relative ones count from ", fs::current_path(error).string(),
                  ". ImageNet's archives can be named as they are (ILSVRC2012_img_train.tar, from "
                  "image-net.org).");
}

std::string wanted() {
  std::string out =
      "a folder of class folders, ImageNet's flat val/ with the development kit or Kaggle's "
      "LOC_val_solution.csv beside it, ";
  const auto& last = formats().back();
  for (const FileFormat& format : formats())
    out += &format == &last ? "or " + format.wanted : format.wanted + ", ";
  return out;
}

}  // namespace

Containers find_containers(const std::vector<std::string>& paths, Part part) {
  check<DataError>(!paths.empty(), code::nothing, "no path given; wanted is ", wanted());
  std::vector<std::string> expanded;
  for (const std::string& path : paths) expand(path, expanded);
  Containers all;
  for (std::string path : expanded) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) missing(path);
    if (fs::is_directory(status))
      find_in_folder(path, part, all, 0);
    else
      all.found.push_back({path, false});
  }
  return all;
}

namespace {

Index read_by_kind(const Container& found) {
  if (found.folder) return index_image_folder(found.path);
  const std::string& path = found.path;
  const File file(path);
  std::vector<std::byte> start(std::min<std::size_t>(file.size(), 512));
  file.read(0, start);
  const std::string name = fs::path(path).filename().string();
  for (const FileFormat& format : formats())
    if ((format.has_name && format.has_name(name)) ||
        (format.starts_with && format.starts_with(start)))
      return format.index(path);
  for (const FileFormat& format : formats())
    if (format.may_be && format.may_be(name, file.size())) return format.index(path);
  if (is_compressed_name(name)) {
    const std::string inside = kind_of_shard(fs::path(name).stem().string());
    check<DataError>(inside.empty() || inside == tar_format().name, code::not_understood, path,
                     ": this file is compressed; unpack it first: ", inside,
                     " files are read in place");
    return index_tar_file(path);
  }
  if (is_image_name(name))
    fail<DataError>(code::not_understood, path, ": this is one picture; a data set is ", wanted());
  fail<DataError>(code::not_understood, path,
                  ": not a data set: name, first bytes and size are of no known format (",
                  file.size(), " bytes). Wanted: ", wanted(), ".");
}

}  // namespace

Index read_container(const Container& found) {
  try {
    return read_by_kind(found);
  } catch (const DataError& error) {
    if (std::string_view(error.what()).starts_with("E-DATA")) throw;
    fail<DataError>(code::damaged, error.what());
  }
}

Index index_container(const Container& found) {
  if (!found.folder && !has_ending(found.path, {kPackEnding}))
    if (std::optional<Index> stored = load_index(found.path)) return std::move(*stored);
  return read_container(found);
}

}  // namespace gossamer::data
