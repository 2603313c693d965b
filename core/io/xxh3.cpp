// XXH3 by the xxHash library, compiled in.
#include "gossamer/core/io/xxh3.h"

#define XXH_INLINE_ALL
#if defined(__AVX512F__)
// AVX2, because GCC 12 warns about its own AVX-512 header (bug 105593). Memory is slower than
// either.
#define XXH_VECTOR 2
#endif
#include <xxhash.h>

namespace gossamer {

std::uint64_t xxh3(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

struct Xxh3::State {
  XXH3_state_t xxh;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) { restart(); }
Xxh3::~Xxh3() = default;
void Xxh3::restart() { XXH3_64bits_reset(&state_->xxh); }
void Xxh3::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}
std::uint64_t Xxh3::digest() const { return XXH3_64bits_digest(&state_->xxh); }

}  // namespace gossamer
