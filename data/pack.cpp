// Packing: all threads prepare pictures, a few at a time; they are written in order.
#include "gossamer/data/pack.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/data/codec/image_reader.h"
#include "gossamer/data/codec/jpeg_encode.h"
#include "gossamer/data/codec/limits.h"
#include "gossamer/data/codec/picture_facts.h"
#include "gossamer/data/codec/resize.h"
#include "gossamer/data/dataset/indexed_set.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/packed.h"
#include "gossamer/data/hash.h"
#include "gossamer/data/inner_error.h"
#include "gossamer/data/work.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

// MCUs between restart markers: the decoder skips most of what a crop doesn't need. They cost 1 %
// of the bytes.
constexpr int kRestart = 4;
// Pictures in memory between threads and writer: at most this many, and above so many bytes no new
// one is begun.
constexpr i64 kAtOnce = 64;
constexpr std::size_t kHeld = std::size_t{16} << 20;

std::vector<std::byte> prepared(std::span<const std::byte> bytes, const std::string& name,
                                const PackOptions& o) {
  if (o.copy) {
    verify(bytes, name);  // DataError: damaged
    return {bytes.begin(), bytes.end()};
  }
  ImageReader reader(bytes, name);
  const ImageSize size = reader.size();
  const int longer = std::max(size.width, size.height);
  const auto shrunk = [&](int side) {
    return longer <= o.max_side
               ? side
               : std::max(1, static_cast<int>(
                                 std::lround(static_cast<double>(side) * o.max_side / longer)));
  };
  const Image image = read_resized(reader, {shrunk(size.width), shrunk(size.height)});
  std::vector<std::byte> encoded =
      encode_jpeg(image, {.quality = o.quality, .optimised = true, .restart = kRestart});
  // A small original is kept if encoding it again would only make it larger and worse.
  const PictureFacts facts = picture_facts(bytes);
  const bool plain = facts.format == Format::jpeg && facts.components != 4 && !facts.progressive;
  if (longer <= o.max_side && plain && encoded.size() >= bytes.size())
    return {bytes.begin(), bytes.end()};
  return encoded;
}

// "a.png" that became a JPEG is called "a.png.jpg".
std::string packed_name(const std::string& name, std::span<const std::byte> bytes) {
  return has_ending(name, {".png", ".gif", ".bmp"}) && picture_facts(bytes).format == Format::jpeg
             ? name + ".jpg"
             : name;
}
bool is_reencoded(const std::string& packed_name) {
  return has_ending(packed_name, {".png.jpg", ".gif.jpg", ".bmp.jpg"});
}

// A hash of how a shard is made: options, classes, names and labels.
std::uint64_t stamp_of(const Dataset& set, i64 begin, i64 end, const PackOptions& o) {
  std::string text = o.copy ? "copy"
                            : "max side " + std::to_string(o.max_side) + ", quality " +
                                  std::to_string(o.quality) + ", restarts";
  for (const std::string& name : set.classes()) text += '\n' + name;
  std::uint64_t hash = xxh3(std::as_bytes(std::span(text)));
  for (i64 i = begin; i < end; ++i) {
    const std::string line = set.name(i) + '\n' + std::to_string(set.label(i));
    hash = xxh3(std::as_bytes(std::span(line)), hash);
  }
  return hash;
}

// A hash of what a shard is made of: hashes of the pictures' bytes, 0 for one that can't be read.
std::uint64_t source_of(const std::vector<std::uint64_t>& hashes) {
  return xxh3(std::as_bytes(std::span(hashes)));
}

// Whether every picture of the shard has the right checksum.
bool reads_back(const Index& index, int threads) {
  if (index.size() == 0) return true;
  const auto shard = open_indices({index});
  try {
    for_each_sample(
        0, shard->size(), threads,
        [&](i64 i, std::vector<std::byte>& buffer) { shard->bytes(i, buffer); },
        [](i64) { return true; });
  } catch (const DataError&) {
    return false;
  }
  return true;
}

class Packer {
 public:
  Packer(const Dataset& set, const std::string& folder, const PackOptions& options,
         FunctionRef<bool(i64)> tick)
      : set_(set),
        folder_(fs::absolute(folder).lexically_normal()),
        options_(options),
        tick_(tick) {
    if (!folder_.has_filename()) folder_ = folder_.parent_path();
    report_.shards = (set.size() + options.shard_images - 1) / options.shard_images;
  }

  PackReport run() {
    std::error_code error;
    fs::create_directories(folder_, error);
    check<IoError>(!error, folder_.string(), ": the folder can't be made: ", error.message());
    refuse_strangers();
    for (i64 s = 0; s < report_.shards && report_.whole; ++s) {
      const i64 begin = s * options_.shard_images,
                end = std::min(set_.size(), begin + options_.shard_images);
      const std::uint64_t stamp = stamp_of(set_, begin, end, options_);
      if (!keep(path(s), stamp, begin, end) && report_.whole) write(path(s), stamp, begin, end);
    }
    return std::move(report_);
  }

 private:
  std::string path(i64 shard) const {
    const auto five = [](i64 n) {
      std::string text = std::to_string(n);
      return text.insert(0, text.size() < 5 ? 5 - text.size() : 0, '0');
    };
    return (folder_ / (folder_.filename().string() + "-" + five(shard) + "-of-" +
                       five(report_.shards) + kPackEnding))
        .string();
  }

  // The folder is to hold these shards and nothing else, because it will be read as a whole.
  void refuse_strangers() const {
    std::set<std::string> ours;
    for (i64 s = 0; s < report_.shards; ++s) ours.insert({path(s), path(s) + ".tmp"});
    std::error_code error;
    for (fs::directory_iterator it(folder_, error); !error && it != fs::directory_iterator();
         it.increment(error)) {
      const std::string name = it->path().string();
      if (ours.contains(name) || is_hidden(it->path().filename().string())) continue;
      check<ConfigError>(
          !has_ending(name, {kPackEnding}), name,
          ": a shard of another set, or cut otherwise; remove it or pack into another folder");
      fail<ConfigError>(folder_.string(), ": holds other things than shards of this set (",
                        printable(it->path().filename().string()),
                        "); pack into a new or empty folder");
    }
  }

  // Whether there is a complete shard of an earlier run. ConfigError: there is one of something
  // else.
  bool keep(const std::string& path, std::uint64_t stamp, i64 begin, i64 end) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return false;
    std::optional<Index> index;
    try {
      const File file(path);
      FileReader reader(file);
      index = index_packed(reader, path);
    } catch (const DataError&) {
      return false;
    }
    check<ConfigError>(index->stamp == stamp, path,
                       ": was packed from other data or with other options; remove it or pack into "
                       "another folder");
    std::vector<std::uint64_t> hashes(static_cast<std::size_t>(end - begin));
    report_.whole = for_each_sample(
        begin, end, options_.threads,
        [&](i64 i, std::vector<std::byte>& buffer) {
          try {
            hashes[static_cast<std::size_t>(i - begin)] = xxh3(set_.bytes(i, buffer));
          } catch (const DataError&) {
            // it can't be read, and perhaps it could not be read then
          }
        },
        [&](i64 done) { return tick_(begin + done); });
    if (!report_.whole) return false;
    check<ConfigError>(
        index->source == source_of(hashes), path,
        ": the pictures it was packed from have changed since; remove it, and it is packed anew, ",
        "or pack into another folder");
    if (index->size() + static_cast<i64>(index->left_out.size()) != end - begin ||
        !reads_back(*index, options_.threads))
      return false;
    ++report_.kept_shards;
    count(*index, path);
    return true;
  }

  void count(const Index& index, const std::string& path) {
    report_.images += index.size();
    report_.bytes += fs::file_size(path);
    index.names.each(
        [&](i64, const std::string& name) { report_.reencoded += is_reencoded(name); });
    report_.left_out.insert(report_.left_out.end(), index.left_out.begin(), index.left_out.end());
  }

  void write(const std::string& path, std::uint64_t stamp, i64 begin, i64 end) {
    PackWriter writer(path, set_.classes(), stamp);
    std::vector<std::uint64_t> hashes(static_cast<std::size_t>(end - begin));
    struct Ready {
      bool done = false;
      std::vector<std::byte> bytes;
      std::string defect;
    };
    for (i64 from = begin; from < end;) {
      const i64 to = std::min(end, from + kAtOnce);
      std::vector<Ready> ready(static_cast<std::size_t>(to - from));
      std::atomic<std::size_t> held = 0;
      std::atomic<i64> done = 0;
      report_.whole = for_each_sample(
          from, to, options_.threads,
          [&](i64 i, std::vector<std::byte>& buffer) {
            if (i > from && held > kHeld) return;  // left to the next round
            Ready& out = ready[static_cast<std::size_t>(i - from)];
            out.done = true;
            try {
              const auto bytes = set_.bytes(i, buffer);
              hashes[static_cast<std::size_t>(i - begin)] = xxh3(bytes);
              out.bytes = prepared(bytes, set_.name(i), options_);
            } catch (const DataError& error) {
              if (options_.strict)
                fail<DataError>(code::damaged_images, without_code(error.what()),
                                ". Without strict it is left out.");
              out.defect = error.what();
            }
            held += out.bytes.size();
            ++done;
          },
          [&](i64) { return tick_(from + done); });
      // the writer removes the temporary file
      if (!report_.whole) return;
      const i64 first = from;
      for (; from < to && ready[static_cast<std::size_t>(from - first)].done; ++from) {
        const Ready& out = ready[static_cast<std::size_t>(from - first)];
        if (out.defect.empty())
          writer.add(packed_name(set_.name(from), out.bytes), set_.label(from), out.bytes);
        else
          writer.leave_out(out.defect);
      }
    }
    writer.close(source_of(hashes));
    const File file(path);
    FileReader reader(file);
    const Index index = index_packed(reader, path);
    check<IoError>(reads_back(index, options_.threads), path,
                   ": does not read back as it was written. Is the disk sound?");
    count(index, path);
  }

  const Dataset& set_;
  fs::path folder_;
  const PackOptions& options_;
  FunctionRef<bool(i64)> tick_;
  PackReport report_;
};

}  // namespace

PackReport pack(const Dataset& set, const std::string& folder, const PackOptions& o,
                FunctionRef<bool(i64)> tick) {
  check<ConfigError>(o.max_side >= 16 && o.max_side <= kMaxSide, "pack: max_side ", o.max_side,
                     "; 16 to ", kMaxSide, " pixels are possible");
  check<ConfigError>(o.quality >= 1 && o.quality <= 100, "pack: quality ", o.quality,
                     "; 1 to 100 is possible");
  check<ConfigError>(o.threads >= 1 && o.threads <= 1024, "pack: threads ", o.threads,
                     " must be 1 to 1024");
  check<ConfigError>(o.shard_images >= 1 && o.shard_images <= 1'000'000, "pack: shard_images ",
                     o.shard_images, " must be 1 to 1000000");
  check<DataError>(set.raw().height == 0,
                   "pack: these are raw pixels, which are small and fast as they are");
  return Packer(set, folder, o, tick).run();
}

}  // namespace gossamer::data
