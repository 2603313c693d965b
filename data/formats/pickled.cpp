// See pickled.h. A batch is a dict with `data`, an array of N x 3072 bytes (three planes of 32x32),
// and `labels`, a list of N numbers.
#include "gossamer/data/formats/pickled.h"

#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/core/io/pickle.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/cifar.h"
#include "gossamer/data/formats/devkit.h"
#include "gossamer/data/formats/format.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;
using Kind = Pickle::Kind;
using Value = Pickle::Value;

constexpr std::int64_t kPixels = 3 * 32 * 32, kImageNet = 1000;

constexpr std::string_view kGlobals[] = {
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct",  // numpy 2
    "numpy.core.numeric._frombuffer",       // protocol 5
    "numpy._core.numeric._frombuffer",
    "numpy.ndarray",
    "numpy.dtype",
    "_codecs.encode",  // bytes as Python 3 writes them in protocol 2: refused below
};

template <class... Parts>
[[noreturn]] void refuse(const std::string& path, const Parts&... parts) {
  fail<DataError>(code::damaged, path, ": ", parts...);
}

// Where the pixels begin in the file, and of how many pictures they are.
struct Pixels {
  std::uint64_t offset = 0;
  std::int64_t pictures = 0;
};

// An array is _reconstruct(ndarray, …) with the state (version, shape, dtype, whether columns come
// first, bytes), or in protocol 5 _frombuffer(bytes, dtype, shape, order).
Pixels pixels_of(const Pickle& pickle, const Value& array, const std::string& path) {
  const auto is_call = [&](const Value& v, std::string_view function, std::size_t parts) {
    return v.kind == Kind::call && v.parts.size() == parts &&
           pickle.part(v, 0).text.ends_with(function);
  };
  const bool is_state = is_call(array, "_reconstruct", 3);
  if (!is_state && !is_call(array, "_frombuffer", 2))
    refuse(path, "its \"data\" is no array of numpy");
  const Value& state = pickle.part(array, is_state ? 2 : 1);
  if (state.kind != Kind::tuple || state.parts.size() != (is_state ? 5 : 4))
    refuse(path, "its \"data\" is an array of an unknown form");
  const Value &shape = pickle.part(state, is_state ? 1 : 2),
              &type = pickle.part(state, is_state ? 2 : 1), &order = pickle.part(state, 3),
              &bytes = pickle.part(state, is_state ? 4 : 0);
  const bool is_matrix = shape.kind == Kind::tuple && shape.parts.size() == 2 &&
                         pickle.part(shape, 0).kind == Kind::integer &&
                         pickle.part(shape, 1).kind == Kind::integer;
  if (!is_matrix || pickle.part(shape, 1).integer != kPixels)
    refuse(path, "its \"data\" is no array of N x ", kPixels, ": pictures of 3 x 32 x 32");
  const Value* const arguments = is_call(type, "numpy.dtype", 3) ? &pickle.part(type, 1) : nullptr;
  if (!arguments || arguments->parts.empty() || pickle.part(*arguments, 0).text != "u1")
    refuse(path, "its \"data\" is no array of uint8");
  if (order.integer != 0 || order.text == "F") refuse(path, "its \"data\" is stored by columns");
  const std::int64_t pictures = pickle.part(shape, 0).integer;
  if (bytes.kind != Kind::bytes)
    refuse(path,
           "the bytes of its \"data\" are stored as text. Write it again with "
           "pickle.dump(batch, FILE, protocol=4)");
  if (pictures < 1 || pictures > std::numeric_limits<std::int32_t>::max() ||
      static_cast<std::uint64_t>(pictures * kPixels) != bytes.length)
    refuse(path, bytes.length, " bytes are not ", pictures, " pictures of ", kPixels);
  return {static_cast<std::uint64_t>(bytes.integer), pictures};
}

// Names of the labels 1 to 1000.
std::vector<std::string> imagenet_names(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::vector<std::string> names;
  for (int i = 1; i <= kImageNet; ++i) names.push_back(fmt::format("{:04}", i));
  for (const fs::path& beside : {folder / "map_clsloc.txt", folder / ".." / "map_clsloc.txt"}) {
    std::error_code ignored;
    if (!fs::is_regular_file(beside, ignored)) continue;
    const auto bytes = read_whole(beside.string(), std::size_t{1} << 20);
    for (const Synset& s : parse_map_clsloc(
             {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, beside.string()))
      if (s.id >= 1 && s.id <= kImageNet) names[static_cast<std::size_t>(s.id - 1)] = s.wnid;
    break;
  }
  return names;
}

bool looks_like_pickle(std::span<const std::byte> start) {
  return start.size() > 2 && start[0] == std::byte{0x80} && start[1] >= std::byte{2} &&
         start[1] <= std::byte{5};
}

// train_data_batch_1, val_data, data_batch_1, test_batch: without an ending.
bool is_pickled_train_name(const std::string& name) {
  return (name.starts_with("train_data_batch_") || name.starts_with("data_batch_")) &&
         name.find('.') == std::string::npos;
}

bool is_pickled_val_name(const std::string& name) {
  return name == "val_data" || name == "test_batch";
}

}  // namespace

Index index_pickled(const InputFile& batch) {
  const std::string& path = batch.name();
  std::optional<Pickle> parsed;
  try {
    parsed.emplace(batch,
                   Pickle::Rules{.globals = kGlobals,
                                 .of = "a batch of pictures",
                                 .advice = "Wanted is a dict with \"data\" and \"labels\", as "
                                           "ImageNet-32 and CIFAR have them"});
  } catch (const IoError& e) {
    fail<DataError>(code::damaged, e.what());
  }
  const Pickle& pickle = *parsed;
  const Value& root = pickle.root();
  const Value *data = pickle.find(root, "data"), *labels = pickle.find(root, "labels");
  const bool hundred = !labels && pickle.find(root, "fine_labels");
  const bool is_cifar = hundred || pickle.find(root, "batch_label");
  if (hundred) labels = pickle.find(root, "fine_labels");
  if (!data || !labels || labels->kind != Kind::list)
    refuse(path, "this pickle is no dict with \"data\" and a list of \"labels\"");
  const Pixels pixels = pixels_of(pickle, *data, path);
  if (static_cast<std::int64_t>(labels->parts.size()) != pixels.pictures)
    refuse(path, labels->parts.size(), " labels for ", pixels.pictures, " pictures");
  const std::vector<std::string> names =
      is_cifar ? cifar_classes(path, hundred) : imagenet_names(path);
  const std::int64_t first = is_cifar ? 0 : 1,
                     last = static_cast<std::int64_t>(names.size()) - 1 + first;
  IndexBuilder builder(path, kCifarLayout);
  for (const std::string& name : names) builder.add_class(name);
  const std::string stem = fs::path(path).filename().string();
  for (std::int64_t i = 0; i < pixels.pictures; ++i) {
    const Value& label = pickle.part(*labels, static_cast<std::size_t>(i));
    if (label.kind != Kind::integer || label.integer < first || label.integer > last)
      refuse(path, "the label of picture ", i, " is no number from ", first, " to ", last);
    builder.add(stem + "#" + std::to_string(i),
                names[static_cast<std::size_t>(label.integer - first)],
                pixels.offset + static_cast<std::uint64_t>(i * kPixels));
  }
  return builder.finish();
}

FileFormat pickled_format() {
  return {.name = "pickled",
          .wanted = "pickled batches of CIFAR and ImageNet-32",
          .has_name = nullptr,
          .starts_with = looks_like_pickle,
          .index = [](const std::string& path) { return index_pickled(InputFile(path)); },
          .is_train_name = is_pickled_train_name,
          .is_val_name = is_pickled_val_name};
}

}  // namespace gossamer::data
