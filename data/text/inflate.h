// Compressed text, inflated piece by piece: gzip and zstd.
// Threads: one at a time for an Inflater.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace gossamer::data {

class Inflater {
 public:
  // The one for a file that begins with these bytes (four suffice); null: it is not compressed.
  static std::unique_ptr<Inflater> of(std::span<const std::byte> first);
  virtual ~Inflater() = default;

  struct Step {
    std::size_t taken = 0, made = 0;  // bytes of `from` and of `to`
    const char* error = nullptr;      // null: none
  };
  // Inflates from the front of `from` into `to`. Streams that lie behind each other are one text.
  virtual Step step(std::span<const std::byte> from, std::span<char> to) = 0;
  // Whether a stream is over, so that the file may end here.
  virtual bool ended() const = 0;
  virtual const char* name() const = 0;
};

}  // namespace gossamer::data
