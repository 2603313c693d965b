// libFuzzer: bytes of a stranger through everything that reads them on the control connection.
//   clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -I<build>/include tests/fuzz/wire.cpp dist/wire.cpp -o fuzz_wire
#include <algorithm>
#include <array>
#include <cstdlib>

#include "gossamer/dist/wire.h"

using namespace gossamer::dist::wire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<std::uint8_t, kFrameBytes> head{};
  std::copy_n(data, std::min(size, kFrameBytes), head.begin());
  Frame f;
  (void)has_token(head, make_token("fuzz"));
  if (decode(head, f) == nullptr) {
    const auto again = encode(f);
    if (f.payload_bytes == 0 && !std::equal(head.begin(), head.end(), again.begin())) std::abort();       // two forms of one frame
    if (f.payload_bytes > kMaxPayload) std::abort();
  }
  const std::span<const std::uint8_t> all(data, size);
  std::vector<Address> table;
  if (decode_table(all, table) == nullptr) {
    const auto again = encode_table(table);
    if (!std::equal(all.begin(), all.end(), again.begin(), again.end())) std::abort();
  }
  if (printable(all).size() > 500) std::abort();
  (void)make_token(std::string(all.begin(), all.end()));
  return 0;
}
