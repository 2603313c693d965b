// XXH3-64, the checksum of our own formats: model files, packed shards, index files. (xxHash's
// command xxhsum -H3 gives the same digits.)
// Threads: any; one object is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace gossamer {

std::uint64_t xxh3(std::span<const std::byte>, std::uint64_t seed = 0);

// The same, of bytes that come in pieces.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  void add(std::span<const std::byte>);
  std::uint64_t digest() const;  // of all so far
  void restart();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gossamer
