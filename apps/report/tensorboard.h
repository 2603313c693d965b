// TensorBoard event files: TFRecords of Event protocol buffers, written by hand since only scalars
// are needed.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::apps {

// A TFRecord: u64 length, masked CRC of the length, bytes, masked CRC of the bytes; little-endian.
std::string tf_record(std::string_view bytes);

// One file events.out.tfevents.TIME.HOST.PID.0 in `folder`, made with the first scalar. Written
// through at most once a second, and at the end. A full disk loses scalars, not the run.
class EventWriter {
 public:
  explicit EventWriter(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~EventWriter() { flush(); }
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Values at `step`; those that are not finite are left out. One thread.
  void scalars(i64 step, const std::vector<std::pair<std::string, double>>& values);
  void flush();
  // empty before the first scalar
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path folder_, path_;
  std::string unwritten_;
  std::chrono::steady_clock::time_point flushed_{};
};

}  // namespace gossamer::apps
