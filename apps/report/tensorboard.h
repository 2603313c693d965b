// TensorBoard event files: TFRecords of Event protocol buffers, written without a library because
// only scalars and images are needed.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/data/codec/image.h"

namespace gossamer::apps {

// A TFRecord: u64 length, masked CRC of the length, bytes, masked CRC of the bytes; little-endian.
std::string tf_record(std::string_view bytes);

// Writes one file events.out.tfevents.TIME.HOST.PID.0 in `folder`, created with the first value. It
// is flushed at most once a second, and at the end. If the disk is full, values are lost and the
// run goes on.
class EventWriter {
 public:
  explicit EventWriter(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~EventWriter() { flush(); }
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Values at `step`; those that are not finite are left out. From one thread only.
  void scalars(i64 step, const std::vector<std::pair<std::string, double>>& values);
  void images(i64 step, const std::vector<std::pair<std::string, data::Image>>&);
  void flush();
  bool writes() const { return !folder_.empty(); }
  // empty before the first value
  const std::filesystem::path& path() const { return path_; }

 private:
  void write(i64 step, const std::string& summary);
  std::filesystem::path folder_, path_;
  std::string unwritten_;
  std::chrono::steady_clock::time_point flushed_{};
};

}  // namespace gossamer::apps
