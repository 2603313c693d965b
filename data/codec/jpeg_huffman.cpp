// Huffman decoding of baseline JPEG (ITU T.81, F.2.2). The time goes into one chain: bits -> table -> length -> bits. Everything else is
// kept out of it: no stuffed bytes, no test for the end of the data inside an MCU, values by arithmetic without a branch.
#include "gossamer/data/codec/jpeg_huffman.h"

#include <algorithm>
#include <bit>

namespace gossamer::data {
namespace {

// Zigzag. What leads beyond the block goes to 63: a damaged run as in libjpeg, and the zero that the end of a block writes, where
// nothing has been yet.
constexpr std::array<std::uint8_t, 192> kOrder = [] {
  std::array<std::uint8_t, 192> order{};
  int x = 0, y = 0;
  for (std::size_t k = 0; k < 64; ++k) {
    order[k] = static_cast<std::uint8_t>(8 * y + x);
    if ((x + y) % 2 == 0) {
      if (x == 7) ++y;
      else if (y == 0) ++x;
      else ++x, --y;
    } else {
      if (y == 7) ++x;
      else if (x == 0) ++y;
      else --x, ++y;
    }
  }
  for (std::size_t k = 64; k < order.size(); ++k) order[k] = 63;
  return order;
}();

std::uint64_t load_big_endian(const unsigned char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return std::endian::native == std::endian::little ? __builtin_bswap64(word) : word;
}

// The last value of e; its first bit says the sign (T.81, figure F.12).
int value_of(std::uint64_t bits, HuffmanEntry e) {
  const int most = e.mask, value = static_cast<int>(bits >> ((64 - e.total) & 63)) & most;
  return 2 * value <= most ? value - most : value;
}

}  // namespace

HuffmanEntry HuffmanTable::entry_of(std::uint8_t symbol, int length, bool dc) {
  const int size = dc ? symbol : symbol & 15, zeros = dc ? 0 : symbol >> 4;
  const bool ends = !dc && size == 0 && zeros != 15;
  return {static_cast<std::uint8_t>(length + size), static_cast<std::uint8_t>(ends ? 64 : zeros + 1), static_cast<std::uint16_t>((1 << size) - 1)};
}

bool HuffmanTable::assign(const std::uint8_t* counts, const std::uint8_t* symbols, bool dc) {
  dc_ = dc;
  pairs.fill({});
  std::uint32_t code = 0;                            // of the current length
  int index = 0;
  for (int length = 1; length <= 16; ++length) {
    offset_[static_cast<std::size_t>(length)] = index - static_cast<int>(code);
    for (int i = 0; i < counts[length]; ++i, ++code, ++index) {
      if (index >= 256 || code >= 1u << length) return false;
      const std::uint8_t symbol = symbols[index];
      if (dc ? symbol > 11 : (symbol & 15) > 10) return false;
      symbols_[static_cast<std::size_t>(index)] = symbol;
      if (length > kLook) continue;
      const HuffmanEntry e = entry_of(symbol, length, dc);
      const auto first = pairs.begin() + (code << (kLook - length));
      std::fill(first, first + (1 << (kLook - length)), HuffmanPair{e, e});
    }
    end_[static_cast<std::size_t>(length)] = code << (16 - length);
    code <<= 1;
  }
  if (!dc) make_pairs();
  return index > 0;
}

// The code of the second symbol must be known to its end: bits beyond the kLook are taken for zeros here, and may be anything.
void HuffmanTable::make_pairs() {
  for (std::uint32_t i = 0; i < pairs.size(); ++i) {
    const HuffmanEntry first = pairs[i].first;
    const int left = kLook - first.total;
    if (first.total == 0 || first.advance == 64 || left <= 0) continue;
    const HuffmanEntry second = pairs[(i << first.total) & (pairs.size() - 1)].first;
    const int code = second.total - std::popcount(second.mask);
    if (second.total == 0 || code > left) continue;
    pairs[i].both = {static_cast<std::uint8_t>(first.total + second.total), static_cast<std::uint8_t>(first.advance + second.advance), second.mask};
  }
}

HuffmanEntry HuffmanTable::find(std::uint32_t sixteen_bits) const {
  for (int length = kLook + 1; length <= 16; ++length)
    if (sixteen_bits < end_[static_cast<std::size_t>(length)])
      return entry_of(symbols_[static_cast<std::size_t>(offset_[static_cast<std::size_t>(length)] +
                                                        static_cast<int>(sixteen_bits >> (16 - length)))],
                      length, dc_);
  return {0, 64, 0};
}

void CodedBytes::start(std::span<const unsigned char> raw) {
  raw_ = raw.data();
  raw_end_ = raw_ + raw.size();
  clean_.resize(kReserve + (16 << 10) + kReserve);     // left over, new, zeros
  end_ = clean_.data();
  marker_ = 0;
  done_ = false;
  clean_some(16 << 10);
}

// Takes raw bytes until about `bytes` are clean, or to the end of the scan.
void CodedBytes::clean_some(std::size_t bytes) {
  unsigned char* const stop = end_ + bytes;
  while (end_ < stop && raw_ < raw_end_) {
    const std::size_t room = std::min<std::size_t>(static_cast<std::size_t>(stop - end_), static_cast<std::size_t>(raw_end_ - raw_));
    const auto* ff = static_cast<const unsigned char*>(std::memchr(raw_, 0xFF, room));
    const std::size_t plain = ff ? static_cast<std::size_t>(ff - raw_) : room;
    std::memcpy(end_, raw_, plain);
    end_ += plain;
    raw_ += plain;
    if (!ff) continue;
    while (raw_ < raw_end_ && *raw_ == 0xFF) ++raw_;   // FF may be repeated before a marker
    if (raw_ == raw_end_) break;
    if (*raw_++ == 0) {
      *end_++ = 0xFF;
      continue;
    }
    marker_ = raw_[-1];
    break;
  }
  if (marker_ == 0 && raw_ < raw_end_) return;
  done_ = true;
  std::memset(end_, 0, kReserve);
}

const unsigned char* CodedBytes::more(const unsigned char* at) {
  const std::size_t left = at < end_ ? static_cast<std::size_t>(end_ - at) : 0;
  std::memmove(clean_.data(), at, left);
  end_ = clean_.data() + left;
  clean_some(16 << 10);
  return clean_.data();
}

void CodedBytes::finish() {
  while (!done_) {
    end_ = clean_.data();
    clean_some(16 << 10);
  }
}

bool find_parts(std::span<const unsigned char> coded, std::size_t parts, std::vector<std::size_t>& begins) {
  begins.assign(1, 0);
  const unsigned char* at = coded.data();
  const unsigned char* const end = at + coded.size();
  while (begins.size() < parts) {
    at = static_cast<const unsigned char*>(std::memchr(at, 0xFF, static_cast<std::size_t>(end - at)));
    if (!at) return false;
    while (at < end && *at == 0xFF) ++at;
    if (at == end) return false;
    const unsigned char marker = *at++;
    if (marker == 0) continue;
    if (marker != 0xD0 + (begins.size() - 1) % 8) return false;
    begins.push_back(static_cast<std::size_t>(at - coded.data()));
  }
  return true;
}

void HuffmanDecoder::start(std::span<const unsigned char> coded) {
  coded_.start(coded);
  at_ = coded_.begin();
  bits_ = 0;
  count_ = 0;
  last_dc_ = {};
  at_end_ = false;
}

template <bool store> bool HuffmanDecoder::run(std::span<const Block> mcu, std::int16_t (*const* blocks)[64]) {
  const unsigned char* at = coded_.need(at_);
  std::uint64_t bits = bits_;
  int count = count_;
  bool good = true;
  HuffmanPair longer;
  // At least 56 bits: two codes with their values (at most 16 + 11 each), or two pairs (10 + 10).
  const auto refill = [&] {
    bits |= load_big_endian(at) >> count;
    at += (63 - count) >> 3;
    count |= 56;
  };
  const auto drop = [&](int n) {
    bits <<= n & 63;
    count -= n;
  };
  const auto next = [&](const HuffmanTable& table) -> const HuffmanPair& {
    const HuffmanPair& p = table.pairs[bits >> (64 - HuffmanTable::kLook)];
    if (p.first.total != 0) [[likely]] return p;
    const HuffmanEntry e = table.find(static_cast<std::uint32_t>(bits >> 48));
    good = good && e.total != 0;
    longer = {e, e};
    return longer;
  };
  for (std::size_t i = 0; i < mcu.size(); ++i) {
    refill();
    const HuffmanEntry difference = next(dc[mcu[i].dc]).first;
    std::uint32_t& last = last_dc_[mcu[i].component];
    last += static_cast<std::uint32_t>(value_of(bits, difference));
    drop(difference.total);
    std::int16_t* const out = store ? *blocks[i] : nullptr;
    if constexpr (store) out[0] = static_cast<std::int16_t>(last);
    const HuffmanTable& table = ac[mcu[i].ac];
    std::size_t k = 0;                                // the last coefficient that is known
    // False: the block is complete, perhaps with the first of two symbols; then the second was none of it, and is written first so that
    // what it wrote is gone.
    const auto two = [&] {
      const HuffmanPair& p = next(table);
      const std::size_t k1 = k + p.first.advance;
      k += p.both.advance;
      if constexpr (store) {
        out[kOrder[k]] = static_cast<std::int16_t>(value_of(bits, p.both));
        out[kOrder[k1]] = static_cast<std::int16_t>(value_of(bits, p.first));
      }
      if (k >= 63) {
        drop(k1 >= 63 ? p.first.total : p.both.total);
        return false;
      }
      drop(p.both.total);
      return true;
    };
    while (two()) {                                   // the first one lives on the refill above
      refill();
      if (!two()) break;
    }
  }
  at_ = at;
  bits_ = bits;
  count_ = count;
  at_end_ = coded_.done() && at - count / 8 > coded_.end();
  return good && !at_end_;
}

bool HuffmanDecoder::decode(std::span<const Block> mcu, std::int16_t (*const* blocks)[64]) { return run<true>(mcu, blocks); }
bool HuffmanDecoder::skip(std::span<const Block> mcu) { return run<false>(mcu, nullptr); }

}  // namespace gossamer::data
