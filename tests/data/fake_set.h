// A data set for tests of the loader, and copies of its batches.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>

#include "data/helpers.h"
#include "gossamer/data/loader.h"

namespace gossamer::data {

// Pictures made in memory; label = index. `bad` ones are cut in half.
class Fake : public Dataset {
 public:
  explicit Fake(int count, std::set<i64> bad = {}, int side = 24) : bad_(std::move(bad)) {
    for (int i = 0; i < count; ++i) {
      Image image = pattern(side + i % 5, side + i % 3);
      for (auto& p : image.pixels) p = static_cast<std::uint8_t>(p / 2 + i * 3);
      files_.push_back(encode_jpeg(image));
      if (bad_.contains(i)) files_.back().resize(files_.back().size() / 2);
    }
  }
  i64 size() const override {
    const std::scoped_lock lock(sized_mutex_);
    sized.insert(std::this_thread::get_id());
    return static_cast<i64>(files_.size());
  }
  int label(i64 i) const override {
    if (i == nameless) throw std::out_of_range("no label");
    return static_cast<int>(i);
  }
  std::string name(i64 i) const override { return "fake/" + std::to_string(i) + ".jpg"; }
  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>&) const override {
    if (sched_getcpu() != home) ++away;
    // last: a test that waits for the reads sees what they counted
    ++reads;
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(i % 4));
    if (slowest) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (i == broken) throw std::runtime_error("the disk is on fire");
    return files_[static_cast<std::size_t>(i)];
  }
  const std::vector<std::string>& classes() const override { return classes_; }
  mutable std::atomic<int> reads{0}, away{0};  // away: not on the CPU called home
  mutable std::set<std::thread::id> sized;     // threads that asked for the size
  bool slow = false, slowest = false;
  int home = -1;
  i64 broken = -1, nameless = -1;

 private:
  mutable std::mutex sized_mutex_;
  std::set<i64> bad_;
  std::vector<Bytes> files_;
  std::vector<std::string> classes_{"a"};
};

struct Copy {
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
  bool operator==(const Copy&) const = default;
};
inline Copy copy(const Batch& batch) {
  const auto images = batch.images.span<std::uint8_t>();
  const auto labels = batch.labels.span<std::int32_t>();
  return {{images.begin(), images.end()}, {labels.begin(), labels.end()}};
}
// The batches until the epoch ends.
inline std::vector<Copy> epoch(Loader& loader) {
  std::vector<Copy> batches;
  for (Batch b = loader.next(); b.images.defined(); b = loader.next()) batches.push_back(copy(b));
  return batches;
}

}  // namespace gossamer::data
