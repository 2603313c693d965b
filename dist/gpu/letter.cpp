// Letters as bytes: kind, session, generation, length, all little endian.
#include "gossamer/dist/gpu/letter.h"

#include <cstring>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

constexpr std::size_t kHead = 1 + 8 + 8 + 2;

template <class T>
void put(std::vector<char>& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}
template <class T>
T get(const char* p) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(
        value | static_cast<T>(static_cast<T>(static_cast<unsigned char>(p[i])) << (8 * i)));
  return value;
}

bool carries_bytes(GpuLetter::Kind k) {
  return k == GpuLetter::Kind::open || k == GpuLetter::Kind::offer || k == GpuLetter::Kind::ready;
}

}  // namespace

std::vector<char> encode(const GpuLetter& letter) {
  check<DistError>(letter.bytes.size() <= kGpuLetterBytes, "a letter of ", letter.bytes.size(),
                   " bytes; at most ", kGpuLetterBytes);
  std::vector<char> out;
  out.reserve(kHead + letter.bytes.size());
  out.push_back(static_cast<char>(letter.kind));
  put(out, letter.session);
  put(out, letter.generation);
  put(out, static_cast<std::uint16_t>(letter.bytes.size()));
  out.insert(out.end(), letter.bytes.begin(), letter.bytes.end());
  return out;
}

const char* decode(std::span<const char> bytes, GpuLetter& out) {
  if (bytes.size() < kHead) return "a letter that is cut off";
  const auto kind = static_cast<unsigned char>(bytes[0]);
  if (kind < static_cast<unsigned char>(GpuLetter::Kind::open) ||
      kind > static_cast<unsigned char>(GpuLetter::Kind::abort))
    return "a letter of unknown kind";
  GpuLetter letter;
  letter.kind = static_cast<GpuLetter::Kind>(kind);
  letter.session = get<std::uint64_t>(&bytes[1]);
  letter.generation = get<std::uint64_t>(&bytes[9]);
  const auto length = get<std::uint16_t>(&bytes[17]);
  if (length > kGpuLetterBytes || bytes.size() != kHead + length)
    return "a letter of another length than it says";
  if (length != 0 && !carries_bytes(letter.kind)) return "a letter with bytes where none belong";
  if (letter.generation != 0 && letter.kind != GpuLetter::Kind::ready)
    return "a letter with a generation where none belongs";
  letter.bytes.assign(bytes.begin() + kHead, bytes.end());
  out = std::move(letter);
  return nullptr;
}

}  // namespace gossamer::dist
