// Finds the ground truth of flat validation images. Labels are ranks of WordNet ids, not the
// numbers of the development kit.
#include "gossamer/data/formats/flat_val.h"

#include <charconv>
#include <span>

#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/class_names.h"
#include "gossamer/data/formats/devkit.h"
#include "gossamer/data/hash.h"
#include "gossamer/data/mix.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFile = std::size_t{64} << 20;
constexpr const char* kTruths[]{"ILSVRC2012_validation_ground_truth.txt",
                                "ILSVRC2014_clsloc_validation_ground_truth.txt",
                                "ILSVRC2015_clsloc_validation_ground_truth.txt"};

bool there(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored);
}

std::string stem_of(const std::string& name) {
  const std::size_t base = name.rfind('/') + 1;  // npos + 1 = 0
  return name.substr(base, name.rfind('.') == std::string::npos || name.rfind('.') < base
                               ? std::string::npos
                               : name.rfind('.') - base);
}

// N of ILSVRC2012_val_0000000N; 0: another name.
int val_number(const std::string& stem) {
  const std::size_t at = stem.find("_val_");
  int number = 0;
  if (!stem.starts_with("ILSVRC") || at == std::string::npos) return 0;
  const auto [end, error] =
      std::from_chars(stem.data() + at + 5, stem.data() + stem.size(), number);
  return error == std::errc{} && end == stem.data() + stem.size() && number > 0 ? number : 0;
}

std::string_view view(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void half_a_kit(const std::string& truth) {
  fail<DataError>(code::no_truth, truth,
                  ": its numbers are in the development kit's own order, and neither meta.mat nor ",
                  "map_clsloc.txt lies beside it to say which class each is. Put meta.mat there "
                  "(the kit has it in data/).");
}

}  // namespace

int GroundTruth::id(const std::string& class_name) {
  const auto [at, fresh] = ids_.try_emplace(class_name, static_cast<int>(classes_.size()));
  if (fresh) classes_.push_back(class_name);
  return at->second;
}

void GroundTruth::add(const std::string& stem, const std::string& class_name) {
  by_stem_[stem] = id(class_name);
}

void GroundTruth::by_number(const std::vector<int>& ids, const std::vector<Synset>& synsets) {
  std::unordered_map<int, std::string> wnid;
  for (const Synset& synset : synsets) {
    wnid[synset.id] = synset.wnid;
    id(synset.wnid);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto found = wnid.find(ids[i]);
    check<DataError>(found != wnid.end(), code::no_truth, source_, ": line ", i + 1, " says ",
                     ids[i], ", which is no class of the development kit");
    by_number_.push_back(id(found->second));
  }
}

bool GroundTruth::from_solution(const fs::path& folder) {
  const fs::path file = folder / "LOC_val_solution.csv";
  if (!there(file)) return false;
  source_ = file.string();
  const fs::path names = folder / "LOC_synset_mapping.txt";
  for (const std::string& line :
       there(names) ? read_lines(names.string()) : std::vector<std::string>())
    if (const std::string wnid = line.substr(0, line.find(' ')); is_wnid(wnid)) id(wnid);
  for (const auto& [name, wnid] : parse_solution(view(read_whole(source_, kMaxFile)), source_))
    add(name, wnid);
  return true;
}

bool GroundTruth::from_devkit(const fs::path& folder) {
  for (const char* inside : {".", "data", "ILSVRC2012_devkit_t12/data", "devkit/data",
                             "ILSVRC2012_devkit_t12", "devkit"})
    for (const char* name : kTruths) {
      const fs::path place = (folder / inside).lexically_normal(), file = place / name;
      if (!there(file)) continue;
      source_ = file.string();
      const std::vector<int> ids = parse_ids(view(read_whole(source_, kMaxFile)), source_);
      if (const std::string meta = (place / "meta.mat").string(); there(meta))
        by_number(ids, parse_meta_mat(read_whole(meta, kMaxFile), meta));
      else if (const std::string map = (place / "map_clsloc.txt").string(); there(map))
        by_number(ids, parse_map_clsloc(view(read_whole(map, kMaxFile)), map));
      else
        half_a_kit(source_);
      return true;
    }
  return false;
}

bool GroundTruth::from_devkit_archive(const fs::path& folder) {
  const fs::path file = folder / "ILSVRC2012_devkit_t12.tar.gz";
  if (!there(file)) return false;
  source_ = file.string();
  const std::vector<std::byte> archive = gunzip(read_whole(source_, kMaxFile), kMaxFile, source_);
  std::span<const std::byte> truth, meta;
  for (const TarEntry& entry : index_tar(archive, source_)) {
    const auto content = std::span(archive).subspan(entry.offset, entry.bytes);
    if (entry.name.ends_with(kTruths[0])) truth = content;
    if (entry.name.ends_with("meta.mat")) meta = content;
  }
  check<DataError>(!truth.empty() && !meta.empty(), code::no_truth, source_,
                   ": holds no data/meta.mat or no data/", kTruths[0],
                   ". Download the development kit again.");
  by_number(parse_ids({reinterpret_cast<const char*>(truth.data()), truth.size()}, source_),
            parse_meta_mat(meta, source_ + ": meta.mat"));
  return true;
}

bool GroundTruth::from_synset_labels(const fs::path& folder) {
  const fs::path file = folder / "imagenet_2012_validation_synset_labels.txt";
  if (!there(file)) return false;
  source_ = file.string();
  for (const std::string& line : read_lines(source_)) {
    check<DataError>(is_wnid(line), source_, ": line ", by_number_.size() + 1,
                     " is no WordNet id (n01440764)");
    by_number_.push_back(id(line));
  }
  return true;
}

bool GroundTruth::from_caffe(const fs::path& folder) {
  const fs::path file = folder / "val.txt";
  if (!there(file)) return false;
  source_ = file.string();
  naming_ = Naming::numbers;
  std::size_t number = 0;
  for (const std::string& line : read_lines(source_)) {
    ++number;
    const std::size_t space = line.rfind(' ');
    const std::string label = space == std::string::npos ? "" : line.substr(space + 1);
    check<DataError>(!label.empty() && label.size() <= 6 &&
                         label.find_first_not_of("0123456789") == std::string::npos,
                     source_, ": line ", number, ": wanted is `ILSVRC2012_val_00000001.JPEG 65`");
    add(stem_of(line.substr(0, space)), std::to_string(std::stoi(label)));
  }
  return true;
}

std::optional<GroundTruth> GroundTruth::find(const std::string& path) {
  GroundTruth truth;
  fs::path folder = fs::absolute(path).lexically_normal();
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) folder = folder.parent_path();
  for (int level = 0; level <= 4 && !folder.empty(); ++level, folder = folder.parent_path())
    if (truth.from_solution(folder) || truth.from_devkit(folder) ||
        truth.from_devkit_archive(folder) || truth.from_synset_labels(folder) ||
        (level <= 1 && truth.from_caffe(folder)))
      return truth;
  return std::nullopt;
}

const std::string& GroundTruth::class_of(const std::string& file_name) const {
  const std::string stem = stem_of(file_name);
  if (const auto at = by_stem_.find(stem); at != by_stem_.end())
    return classes_[static_cast<std::size_t>(at->second)];
  const int number = val_number(stem);
  check<DataError>(number > 0 && number <= static_cast<int>(by_number_.size()), code::no_truth,
                   printable(file_name), ": not one of the images in ", source_,
                   by_number_.empty() ? "" : " (ILSVRC2012_val_00000001 … )",
                   ". Remove it, or put the images into class folders.");
  return classes_[static_cast<std::size_t>(by_number_[static_cast<std::size_t>(number) - 1])];
}

std::uint64_t GroundTruth::hash() const {
  const auto of = [](const std::string& text) { return xxh3(std::as_bytes(std::span(text))); };
  auto value = static_cast<std::uint64_t>(naming_);
  for (const std::string& name : classes_) value = mix(value, of(name));
  for (const int id : by_number_) value = mix(value, static_cast<std::uint64_t>(id));
  // a sum, because the order in the table has no meaning
  std::uint64_t stems = 0;
  for (const auto& [stem, id] : by_stem_) stems += mix(of(stem), static_cast<std::uint64_t>(id));
  return mix(value, stems) | 1;
}

Index index_flat_folder(const std::string& folder, const std::vector<std::string>& images) {
  const std::optional<GroundTruth> truth = GroundTruth::find(folder);
  check<DataError>(
      truth.has_value(), code::no_truth, folder, ": is flat: ", images.size(), " images (",
      first_of(images),
      "), no class folders, and no ground truth found. For ImageNet's validation images put ",
      "ILSVRC2012_devkit_t12.tar.gz or LOC_val_solution.csv next to the folder; no files need "
      "moving. ",
      "Else each image goes into a folder with the name of its class: ", folder,
      "/CLASS/NAME.jpg.");
  IndexBuilder builder(folder, Wrapping::file, truth->naming());
  for (const std::string& name : truth->classes()) builder.add_class(name);
  for (const std::string& name : images) builder.add(name, truth->class_of(name));
  return builder.finish();
}

Index index_flat_tar(const Members& members, const std::string& path) {
  const std::optional<GroundTruth> truth = GroundTruth::find(path);
  i64 images = 0;
  std::string first;
  members.names.each([&](i64, const std::string& name) {
    if (is_image_name(name) && images++ == 0) first = name;
  });
  check<DataError>(truth.has_value(), code::no_truth, path, ": its ", images,
                   " images lie in no class folder (", printable(first),
                   ", …), have no .cls or .json beside them, and no ground truth was found. For "
                   "ImageNet's validation images put ",
                   "ILSVRC2012_devkit_t12.tar.gz or LOC_val_solution.csv next to the archive; "
                   "else pack them as CLASS/NAME.jpg.");
  IndexBuilder builder(path, Wrapping::plain, truth->naming());
  for (const std::string& name : truth->classes()) builder.add_class(name);
  members.names.each([&](i64 i, const std::string& name) {
    const auto k = static_cast<std::size_t>(i);
    if (is_image_name(name))
      builder.add(name, truth->class_of(name), members.offset[k], members.bytes[k]);
  });
  Index index = builder.finish();
  index.stamp = truth->hash();
  return index;
}

}  // namespace gossamer::data
