// CIFAR-10 and CIFAR-100 in their published binary form
// (https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte (CIFAR-100: coarse, then
// fine) and three planes of 32x32.
#include "gossamer/data/formats/cifar.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/byte_reader.h"
#include "gossamer/data/formats/class_names.h"
#include "gossamer/data/formats/format.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPixels = 3 * 32 * 32, kRecord = kPixels + 1, kRecord100 = kPixels + 2;

// If the size is wrong, the name shows what was meant.
bool is_cifar_100(const std::string& name, std::size_t size) {
  if (size > 0 && size % kRecord == 0) return false;
  return (size > 0 && size % kRecord100 == 0) || name == "train.bin" || name == "test.bin";
}

}  // namespace

// Class names: from the text file of the set if it lies beside it, else CIFAR-10's known names or
// numbers. Labels are positions in the sorted names, so names in another order, or one that occurs
// twice, are not used.
std::vector<std::string> cifar_classes(const std::string& path, bool hundred) {
  const fs::path list =
      fs::path(path).parent_path() / (hundred ? "fine_label_names.txt" : "batches.meta.txt");
  std::vector<std::string> names;
  std::error_code ignored;
  if (fs::is_regular_file(list, ignored))
    for (const std::string& line : read_lines(list.string()))
      if (const std::size_t end = line.find_last_not_of(' '); end != std::string::npos)
        names.push_back(line.substr(0, end + 1));
  if (names.size() == (hundred ? 100u : 10u) &&
      std::ranges::adjacent_find(names, std::greater_equal<>()) == names.end())
    return names;
  if (!hundred)
    return {"airplane", "automobile", "bird",  "cat",  "deer",
            "dog",      "frog",       "horse", "ship", "truck"};
  names.clear();
  for (int i = 0; i < 100; ++i)
    names.push_back({static_cast<char>('0' + i / 10), static_cast<char>('0' + i % 10)});
  return names;
}

namespace {

// DataError says what is wrong with it.
Index index_cifar(const std::string& path) {
  const File file(path);
  const std::string stem = fs::path(path).filename().string();
  const bool hundred = is_cifar_100(stem, file.size());
  const std::vector<std::string> classes = cifar_classes(path, hundred);
  const std::size_t record = hundred ? kRecord100 : kRecord, header = record - kPixels;
  check<DataError>(file.size() > 0 && file.size() % record == 0, path, ": ", file.size(),
                   " bytes are not a whole number of CIFAR-", hundred ? 100 : 10, " records of ",
                   record,
                   " bytes. Is the file complete? (data_batch_1.bin has 30,730,000 bytes, "
                   "CIFAR-100's train.bin 153,700,000.)");
  IndexBuilder builder(path, kCifarLayout);
  for (const std::string& name : classes) builder.add_class(name);
  FileReader reader(file);
  for (std::size_t at = 0; at < file.size(); at += record) {
    const int label = std::to_integer<int>(reader.at(at + header - 1, 1)[0]);
    check<DataError>(label < static_cast<int>(classes.size()), path, ": record ", builder.size(),
                     " has label ", label, "; CIFAR-", classes.size(), " has labels 0 … ",
                     classes.size() - 1, ". The file is damaged or no CIFAR binary.");
    builder.add(stem + "#" + std::to_string(builder.size()),
                classes[static_cast<std::size_t>(label)], at + header);
  }
  return builder.finish();
}

}  // namespace

FileFormat cifar_format() {
  return {
      .name = "CIFAR",
      .wanted = "CIFAR-10/100 binary files",
      .has_name = nullptr,
      .starts_with = nullptr,
      .index = index_cifar,
      .is_train_name =
          [](const std::string& name) {
            return name == "train.bin" ||
                   (name.starts_with("data_batch_") && name.ends_with(".bin"));
          },
      .is_val_name =
          [](const std::string& name) { return name == "test_batch.bin" || name == "test.bin"; },
      .may_be =
          [](const std::string& name, std::size_t size) {
            return has_ending(name, {".bin"}) ||
                   (size > 0 && (size % kRecord == 0 || size % kRecord100 == 0));
          }};
}

}  // namespace gossamer::data
