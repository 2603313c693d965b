// Writes the shapes10 data set. All threads write into a temporary folder, which is then renamed,
// so that the set is complete or not there.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/core/host_signals.h"
#include "gossamer/data/codec/jpeg_encode.h"
#include "gossamer/data/formats/shapes.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;
constexpr const char* kStamp = ".shapes10";

std::string stamp_text(const ShapesOptions& o) {
  std::ostringstream text;
  text << "shapes10 version 1, train " << o.train << ", val " << o.val << ", size " << o.size
       << ", seed " << o.seed << "\n";
  return text.str();
}

std::string read_stamp(const fs::path& folder) {
  std::ifstream file(folder / kStamp);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Whether the wanted set is there. DataError if something else is.
bool already_there(const fs::path& folder, const ShapesOptions& options) {
  std::error_code error;
  if (!fs::exists(folder, error)) return false;
  check<DataError>(fs::is_directory(folder, error), folder.string(),
                   ": is a file; name a folder for the shapes");
  if (fs::is_empty(folder, error) && !error) return false;
  const std::string found = read_stamp(folder), wanted = stamp_text(options);
  if (found == wanted) return true;
  check<DataError>(!found.empty(), folder.string(),
                   ": the folder holds other files; name a new or an empty one for the shapes");
  fail<DataError>(
      folder.string(), ": holds a set with other options: ", found.substr(0, found.find('\n')),
      "; wanted: ", wanted.substr(0, wanted.size() - 1), ". Remove it, or name another folder.");
}

void write_file(const fs::path& path, const void* data, std::size_t bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  file.close();
  check<IoError>(file.good(), path.string(), ": can't be written: ", std::strerror(errno),
                 ". Is the folder writable and the disk not full?");
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  check<IoError>(!error, path.string(), ": the folder can't be made: ", error.message(),
                 ". Name one that you may write to.");
}

void write_sample(const fs::path& root, const ShapesOptions& options, int i) {
  const bool train = i < options.train;
  const int index = train ? i : i - options.train;
  const int label = index % 10;
  // The validation pictures have random streams of their own, far from those of the training set.
  const Image image =
      draw_shape(label, options.size, options.seed,
                 (train ? 0 : std::uint64_t{1} << 32) + static_cast<std::uint64_t>(index));
  const std::vector<std::byte> jpeg = encode_jpeg(image, {.quality = 85});
  std::string number = std::to_string(index / 10);
  number.insert(0, number.size() < 5 ? 5 - number.size() : 0, '0');
  write_file(root / (train ? "train" : "val") / shape_classes()[static_cast<std::size_t>(label)] /
                 (number + ".jpg"),
             jpeg.data(), jpeg.size());
}

void write_all(const fs::path& root, const ShapesOptions& options) {
  for (const char* part : {"train", "val"})
    for (const std::string& name : shape_classes()) make_folder(root / part / name);
  std::atomic<int> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  {
    const HostSignals blocked;
    std::vector<std::jthread> threads;
    for (int t = 0; t < options.threads; ++t)
      threads.emplace_back([&] {
        try {
          for (int i = next++; i < options.train + options.val; i = next++)
            write_sample(root, options, i);
        } catch (...) {
          next = options.train + options.val;
          const std::scoped_lock lock(mutex);
          error = std::current_exception();
        }
      });
  }
  if (error) std::rethrow_exception(error);
  const std::string stamp = stamp_text(options);
  write_file(root / kStamp, stamp.data(), stamp.size());
}

}  // namespace

void make_shapes(const fs::path& folder, const ShapesOptions& options) {
  check<ConfigError>(options.train >= 10 && options.val >= 10 && options.train <= 10'000'000 &&
                         options.val <= 10'000'000,
                     "make-shapes: ", options.train, " training and ", options.val,
                     " validation pictures; each number must be 10 to 10,000,000");
  check<ConfigError>(options.threads >= 1 && options.threads <= 256,
                     "make-shapes: ", options.threads, " threads; use 1 … 256");
  check<ConfigError>(options.size >= 16 && options.size <= 1024, "make-shapes: size ", options.size,
                     "; 16 … 1024 pixels are possible");
  const fs::path target = fs::absolute(folder).lexically_normal();
  // "x/" names the same as "x"
  const fs::path whole = target.has_filename() ? target : target.parent_path();
  if (already_there(whole, options)) return;
  const fs::path temporary = whole.string() + ".tmp-" + std::to_string(::getpid());
  make_folder(temporary);
  std::error_code error;
  try {
    write_all(temporary, options);
    fs::rename(temporary, whole, error);
    // Another process may have been faster; its set is the same.
    check<IoError>(!error || already_there(whole, options), whole.string(),
                   ": can't be put in place: ", error.message());
  } catch (...) {
    fs::remove_all(temporary, error);
    throw;
  }
  if (error) fs::remove_all(temporary, error);
}

}  // namespace gossamer::data
