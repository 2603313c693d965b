// See tensorboard.h. Formats: tensorflow/core/lib/io/record_writer.h, core/util/event.proto,
// core/framework/summary.proto.
#include "gossamer/apps/report/tensorboard.h"

#include <cmath>
#include <fstream>
#include <span>

#include <unistd.h>

#include "gossamer/apps/machine.h"
#include "gossamer/core/io/protobuf.h"
#include "gossamer/data/codec/jpeg_encode.h"
#include "gossamer/data/hash.h"

namespace gossamer::apps {
namespace {

using protobuf::field;
using protobuf::little_endian;

constexpr std::chrono::seconds kFlushEvery(1);

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::uint32_t masked_crc(std::string_view bytes) {
  return data::masked(data::crc32c(std::as_bytes(std::span(bytes))));
}

}  // namespace

std::string tf_record(std::string_view bytes) {
  const std::string length = little_endian(static_cast<std::uint64_t>(bytes.size()));
  return length + little_endian(masked_crc(length)) + std::string(bytes) +
         little_endian(masked_crc(bytes));
}

void EventWriter::write(i64 step, const std::string& summary) {
  if (folder_.empty() || summary.empty()) return;
  const double now = unix_time();
  if (path_.empty()) {
    path_ = folder_ / ("events.out.tfevents." + std::to_string(static_cast<i64>(now)) + "." +
                       host_name() + "." + std::to_string(getpid()) + ".0");
    // the first record holds the version
    unwritten_ += tf_record(field(1, now) + field(3, std::string("brain.Event:2")));
  }
  unwritten_ +=
      tf_record(field(1, now) + field(2, static_cast<std::uint64_t>(step)) + field(5, summary));
  if (std::chrono::steady_clock::now() - flushed_ >= kFlushEvery) flush();
}

void EventWriter::scalars(i64 step, const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [tag, value] : values)
    if (std::isfinite(value))
      summary += field(1, field(1, tag) + field(2, static_cast<float>(value)));
  write(step, summary);
}

void EventWriter::images(i64 step, const std::vector<std::pair<std::string, data::Image>>& all) {
  if (folder_.empty()) return;
  std::string summary;
  for (const auto& [tag, picture] : all) {
    const auto file = data::encode_jpeg(picture, {.quality = 95, .h = 1, .v = 1});
    const std::string bytes(reinterpret_cast<const char*>(file.data()), file.size());
    const std::string image = field(1, static_cast<std::uint64_t>(picture.height)) +
                              field(2, static_cast<std::uint64_t>(picture.width)) +
                              field(3, std::uint64_t{3}) + field(4, bytes);  // 3: RGB
    summary += field(1, field(1, tag) + field(4, image));
  }
  write(step, summary);
}

void EventWriter::flush() {
  if (unwritten_.empty()) return;
  std::ofstream(path_, std::ios::binary | std::ios::app) << unwritten_;
  unwritten_.clear();
  flushed_ = std::chrono::steady_clock::now();
}

}  // namespace gossamer::apps
