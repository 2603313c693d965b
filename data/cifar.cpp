// CIFAR-10 and CIFAR-100 in their published binary form (https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte
// (CIFAR-100: coarse, then fine) and three planes of 32x32.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "gossamer/core/error.h"
#include "gossamer/data/files.h"
#include "gossamer/data/sources.h"

namespace gossamer::data {
namespace {

constexpr int kSide = 32, kPlane = kSide * kSide, kPixels = 3 * kPlane;

// Class names: from the text file that comes with the set if it lies beside, else CIFAR-10's known ones or numbers.
std::vector<std::string> class_names(const std::string& path, bool hundred) {
  std::vector<std::string> names;
  std::ifstream file(std::filesystem::path(path).parent_path() / (hundred ? "fine_label_names.txt" : "batches.meta.txt"));
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (names.size() == (hundred ? 100u : 10u) && std::ranges::is_sorted(names)) return names;
  if (!hundred) return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  names.clear();
  for (int i = 0; i < 100; ++i) names.push_back({static_cast<char>('0' + i / 10), static_cast<char>('0' + i % 10)});
  return names;
}

class Cifar final : public Dataset {
 public:
  Cifar(const std::string& path, bool hundred)
      : file_(path), classes_(class_names(path, hundred)), header_(hundred ? 2 : 1), record_(kPixels + header_) {
    check<DataError>(file_.size() > 0 && file_.size() % record_ == 0, path, ": ", file_.size(), " bytes are not a whole number of CIFAR-",
                     hundred ? 100 : 10, " records of ", record_, " bytes. Is the file complete? (data_batch_1.bin has 30,730,000 bytes, ",
                     "CIFAR-100's train.bin 153,700,000.)");
    const Mapping map(file_);
    for (std::size_t at = header_ - 1; at < map.bytes().size(); at += record_) {
      const int label = std::to_integer<int>(map.bytes()[at]);
      check<DataError>(label < static_cast<int>(classes_.size()), path, ": record ", labels_.size(), " has label ", label, "; CIFAR-",
                       classes_.size(), " has labels 0 … ", classes_.size() - 1, ". The file is damaged or no CIFAR binary.");
      labels_.push_back(static_cast<std::uint8_t>(label));
    }
  }

  i64 size() const override { return static_cast<i64>(labels_.size()); }
  int label(i64 i) const override { return labels_[static_cast<std::size_t>(i)]; }
  std::string name(i64 i) const override { return std::filesystem::path(file_.path()).filename().string() + "#" + std::to_string(i); }
  const std::vector<std::string>& classes() const override { return classes_; }
  Raw raw() const override { return {kSide, kSide}; }
  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const override {
    buffer.resize(2 * kPixels);
    const std::span<std::byte> planes(buffer.data() + kPixels, kPixels);
    file_.read(static_cast<std::size_t>(i) * record_ + header_, planes);
    for (std::size_t p = 0; p < kPlane; ++p)
      for (std::size_t c = 0; c < 3; ++c) buffer[3 * p + c] = planes[c * kPlane + p];
    return {buffer.data(), kPixels};
  }

 private:
  File file_;
  std::vector<std::string> classes_;
  std::size_t header_, record_;
  std::vector<std::uint8_t> labels_;
};

}  // namespace

std::shared_ptr<const Dataset> open_cifar(const std::string& path, bool hundred) { return std::make_shared<Cifar>(path, hundred); }

}  // namespace gossamer::data
