// libFuzzer: bytes of a stranger through everything that reads them on the control connection: the
// greeting, and then the frames as a connection reads them, one after the other.
//
// sources: wire greeting grant hmac printable utf8
// libraries: -lcrypto
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "gossamer/dist/net/greeting.h"

using namespace gossamer::dist;
using namespace gossamer::dist::wire;

namespace {

void require(bool right) {
  if (!right) std::abort();
}

// The 64 bytes as they are, and with a good start, or little would get past the magic number.
void one_frame(std::array<std::uint8_t, kFrameBytes> head, std::span<const std::uint8_t> rest) {
  Frame f;
  if (decode(head, f) != nullptr) return;
  require(f.payload_bytes <= kMaxPayload && f.rank < kMostRanks);
  require(std::isfinite(f.message.progress) && std::isfinite(f.message.value) &&
          std::isfinite(f.clock.sent) && std::isfinite(f.clock.heard));
  const Bytes payload(rest.begin(),
                      rest.begin() + static_cast<std::ptrdiff_t>(
                                         std::min<std::size_t>(rest.size(), f.payload_bytes)));
  if (payload.size() == f.payload_bytes) {
    Bytes again = encode(f, payload);
    // one form for one meaning
    require(std::equal(head.begin(), head.end(), again.begin()));
  }
  std::uint32_t started = 0;
  std::string text;
  if (f.kind == Kind::about && decode_about(payload, started, text) == nullptr)
    require(started > 0 && encode_about(started, text) == payload);
  std::vector<Address> table;
  if (f.kind == Kind::table && decode_table(payload, table) == nullptr)
    require(encode_table(table) == payload);
  require(printable(payload).size() <= 4 * 500 + 3);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> all(data, size);
  // A greeting. Random bytes never prove the token; with the right code behind them, anything may
  // come.
  static const Token token = make_token("fuzz");
  if (size >= greeting::kHelloBytes) {
    const std::span<const std::uint8_t, greeting::kHelloBytes> said(data, greeting::kHelloBytes);
    const greeting::Nonce challenge{};
    require(!greeting::proves(token, challenge, said, 0));
    (void)greeting::answer(token, challenge, greeting::nonce_of(said), 0);
  }
  for (std::size_t at = 0; at + kFrameBytes <= size; at += kFrameBytes) {
    std::array<std::uint8_t, kFrameBytes> head{};
    std::copy_n(data + at, kFrameBytes, head.begin());
    one_frame(head, all.subspan(at + kFrameBytes));
    const Bytes start = encode(Frame{});
    std::copy_n(start.begin(), 5, head.begin());
    head[5] = static_cast<std::uint8_t>(1 + head[5] % static_cast<int>(Kind::taken));
    one_frame(head, all.subspan(at + kFrameBytes));
  }
  std::vector<Address> table;
  if (decode_table(all, table) == nullptr) {
    const auto again = encode_table(table);
    require(std::equal(all.begin(), all.end(), again.begin(), again.end()));
  }
  if (const auto grant = decode_grant(all))
    require(encode(*grant) == Bytes(all.begin(), all.end()));
  (void)make_token(std::string(all.begin(), all.end()));
  return 0;
}
