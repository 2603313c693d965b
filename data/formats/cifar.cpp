// CIFAR-10 and CIFAR-100 in their published binary form
// (https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte (CIFAR-100: coarse, then
// fine) and three planes of 32x32.
#include "gossamer/data/formats/cifar.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "gossamer/core/error.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/byte_reader.h"
#include "gossamer/data/formats/class_names.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPixels = 3 * 32 * 32;

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

Index index_cifar(const std::string& path, bool hundred) {
  const File file(path);
  const std::vector<std::string> classes = cifar_classes(path, hundred);
  const std::size_t header = hundred ? 2 : 1, record = kPixels + header;
  check<DataError>(file.size() > 0 && file.size() % record == 0, path, ": ", file.size(),
                   " bytes are not a whole number of CIFAR-", hundred ? 100 : 10, " records of ",
                   record,
                   " bytes. Is the file complete? (data_batch_1.bin has 30,730,000 bytes, "
                   "CIFAR-100's train.bin 153,700,000.)");
  IndexBuilder builder(path, kCifarLayout);
  for (const std::string& name : classes) builder.add_class(name);
  const std::string stem = fs::path(path).filename().string();
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

}  // namespace gossamer::data
