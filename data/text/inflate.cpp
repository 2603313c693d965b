// The libraries do the work; here are their states and what they say.
#include "gossamer/data/text/inflate.h"

#include <algorithm>
#include <limits>

#include <zlib.h>
#include <zstd.h>

#include "gossamer/core/error.h"

namespace gossamer::data {
namespace {

class Gzip final : public Inflater {
 public:
  Gzip() { check(inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK, "zlib: out of memory"); }
  ~Gzip() override { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  Step step(std::span<const std::byte> from, std::span<char> to) override {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    if (ended_ && inflateReset(&stream_) != Z_OK) return {0, 0, "zlib gave up"};
    const auto given = static_cast<uInt>(std::min(from.size(), kMost));
    const auto room = static_cast<uInt>(std::min(to.size(), kMost));
    // zlib's interface is older than const
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(from.data()));
    stream_.avail_in = given;
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = room;
    const int got = inflate(&stream_, Z_NO_FLUSH);
    ended_ = got == Z_STREAM_END;
    const bool good = ended_ || got == Z_OK || got == Z_BUF_ERROR;
    return {given - stream_.avail_in, room - stream_.avail_out,
            good          ? nullptr
            : stream_.msg ? stream_.msg
                          : "no valid data"};
  }
  bool ended() const override { return ended_; }
  const char* name() const override { return "gzip"; }

 private:
  z_stream stream_{};
  bool ended_ = false;
};

class Zstd final : public Inflater {
 public:
  Zstd() : stream_(ZSTD_createDStream()) { check(stream_ != nullptr, "zstd: out of memory"); }
  ~Zstd() override { ZSTD_freeDStream(stream_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;

  // The library refuses windows above 128 MiB, so that a few bytes cannot ask for gigabytes.
  Step step(std::span<const std::byte> from, std::span<char> to) override {
    ZSTD_inBuffer in{from.data(), from.size(), 0};
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    const std::size_t got = ZSTD_decompressStream(stream_, &out, &in);
    const bool good = !ZSTD_isError(got);
    ended_ = good && got == 0;
    return {in.pos, out.pos, good ? nullptr : ZSTD_getErrorName(got)};
  }
  bool ended() const override { return ended_; }
  const char* name() const override { return "zstd"; }

 private:
  ZSTD_DStream* const stream_;
  bool ended_ = false;
};

// A frame of data, or one to be skipped, with which pzstd's files begin.
bool is_zstd(std::span<const std::byte> first) {
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(first[i]); };
  if (first.size() < 4) return false;
  const unsigned magic = at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
  return magic == ZSTD_MAGICNUMBER ||
         (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

}  // namespace

std::unique_ptr<Inflater> Inflater::of(std::span<const std::byte> first) {
  if (first.size() >= 2 && first[0] == std::byte{0x1f} && first[1] == std::byte{0x8b})
    return std::make_unique<Gzip>();
  if (is_zstd(first)) return std::make_unique<Zstd>();
  return nullptr;
}

}  // namespace gossamer::data
