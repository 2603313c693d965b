// Huffman decoding of baseline JPEG (ITU T.81, F.2.2). One chain takes the time: bits -> table ->
// length -> bits. Everything else is kept out of it: no stuffed bytes, no test for the end of the
// data inside an MCU, values by arithmetic without a branch.
#include "gossamer/data/codec/jpeg_huffman.h"

#include <algorithm>
#include <bit>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace gossamer::data {
namespace {

// Zigzag. What leads beyond the block goes to 63: a damaged run as in libjpeg, and the zero that
// the end of a block writes, where nothing has been yet.
constexpr std::array<std::uint8_t, 192> kOrder = [] {
  std::array<std::uint8_t, 192> order{};
  int x = 0, y = 0;
  for (std::size_t k = 0; k < 64; ++k) {
    order[k] = static_cast<std::uint8_t>(8 * y + x);
    if ((x + y) % 2 == 0) {
      if (x == 7)
        ++y;
      else if (y == 0)
        ++x;
      else
        ++x, --y;
    } else {
      if (y == 7)
        ++x;
      else if (x == 0)
        ++y;
      else
        --x, ++y;
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

// Copies so many bytes; how many there are before the first FF.
#if defined(__AVX2__)
constexpr std::ptrdiff_t kCopied = sizeof(__m256i);
int copy_and_look(const unsigned char* from, unsigned char* to) {
  const __m256i vector = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), vector);
  const auto ff =
      static_cast<unsigned>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(vector, _mm256_set1_epi8(-1))));
  return std::countr_zero(ff);
}
#elif defined(__ARM_NEON)
constexpr std::ptrdiff_t kCopied = sizeof(uint8x16_t);
int copy_and_look(const unsigned char* from, unsigned char* to) {
  const uint8x16_t vector = vld1q_u8(from);
  vst1q_u8(to, vector);
  // four bits of each byte
  const uint8x8_t ff = vshrn_n_u16(vreinterpretq_u16_u8(vceqq_u8(vector, vdupq_n_u8(0xFF))), 4);
  return std::countr_zero(vget_lane_u64(vreinterpret_u64_u8(ff), 0)) / 4;
}
#else
constexpr std::ptrdiff_t kCopied = 0;
int copy_and_look(const unsigned char*, unsigned char*) { return 0; }
#endif

// Copies and cleans by whole vectors while there is room for them: up to the next marker, or nearly
// to the end.
void copy_to_marker(const unsigned char*& raw, const unsigned char* raw_end, unsigned char*& to,
                    const unsigned char* stop) {
  if constexpr (kCopied == 0) return;
  while (stop - to >= kCopied && raw_end - raw > kCopied) {
    const int plain = copy_and_look(raw, to);
    raw += plain;
    to += plain;
    if (plain == kCopied) continue;
    if (raw[1] != 0) return;
    raw += 2;
    ++to;
  }
}

// A second symbol is used only if its whole code lies within the table's bits, because the bits
// after them are not known. What follows the first symbol doesn't depend on its value: pairs are
// made for its first value and copied for the others.
void make_pairs(std::span<HuffmanPair> entries) {
  const int look = std::countr_zero(entries.size());
  for (std::size_t i = 0; i < entries.size();) {
    const HuffmanEntry first = entries[i].first;
    const int code = first.total - std::popcount(first.mask), left = look - first.total;
    const std::span of_code = entries.subspan(i, first.total != 0 ? entries.size() >> code : 1);
    i += of_code.size();
    if (first.total == 0 || first.advance == 64 || left <= 0) continue;
    const std::span of_value = of_code.first(std::size_t{1} << left);
    for (std::size_t rest = 0; rest < of_value.size(); ++rest) {
      const HuffmanEntry second = entries[rest << first.total].first;
      if (second.total == 0 || second.total - std::popcount(second.mask) > left) continue;
      of_value[rest].both = {static_cast<std::uint8_t>(first.total + second.total),
                             static_cast<std::uint8_t>(first.advance + second.advance),
                             second.mask};
    }
    for (std::size_t at = of_value.size(); at < of_code.size(); at += of_value.size())
      std::ranges::copy(of_value, of_code.subspan(at).begin());
  }
}

}  // namespace

template <Coefficients kind>
HuffmanEntry HuffmanTable<kind>::entry_of(std::uint8_t symbol, int length) {
  const int size = kDc ? symbol : symbol & 15, zeros = kDc ? 0 : symbol >> 4;
  const bool ends = !kDc && size == 0 && zeros != 15;
  return {static_cast<std::uint8_t>(length + size),
          static_cast<std::uint8_t>(ends ? 64 : zeros + 1),
          static_cast<std::uint16_t>((1 << size) - 1)};
}

template <Coefficients kind>
bool HuffmanTable<kind>::assign(const std::uint8_t* counts, const std::uint8_t* symbols) {
  entries.fill({});
  std::uint32_t code = 0;  // of the current length
  int index = 0;
  for (int length = 1; length <= 16; ++length) {
    offset_[static_cast<std::size_t>(length)] = index - static_cast<int>(code);
    for (int i = 0; i < counts[length]; ++i, ++code, ++index) {
      if (index >= 256 || code >= 1u << length) return false;
      const std::uint8_t symbol = symbols[index];
      if (kDc ? symbol > 11 : (symbol & 15) > 10) return false;
      symbols_[static_cast<std::size_t>(index)] = symbol;
      if (length > kLook) continue;
      const HuffmanEntry e = entry_of(symbol, length);
      Entry entry{};
      if constexpr (kDc)
        entry = e;
      else
        entry = {e, e};
      std::fill_n(entries.begin() + (code << (kLook - length)), 1 << (kLook - length), entry);
    }
    end_[static_cast<std::size_t>(length)] = code << (16 - length);
    code <<= 1;
  }
  if constexpr (!kDc) make_pairs(entries);
  return index > 0;
}

template <Coefficients kind>
HuffmanEntry HuffmanTable<kind>::find(std::uint32_t sixteen_bits) const {
  for (int length = kLook + 1; length <= 16; ++length)
    if (sixteen_bits < end_[static_cast<std::size_t>(length)]) {
      const int at = offset_[static_cast<std::size_t>(length)] +
                     static_cast<int>(sixteen_bits >> (16 - length));
      return entry_of(symbols_[static_cast<std::size_t>(at)], length);
    }
  return {0, 64, 0};
}

template class HuffmanTable<Coefficients::dc>;
template class HuffmanTable<Coefficients::ac>;

bool CodedBytes::start(std::span<const unsigned char> raw, std::size_t parts) {
  raw_ = raw.data();
  raw_end_ = raw_ + raw.size();
  begins_.assign(1, 0);
  clean_end_ = clean_.data();
  if (parts <= 1) {
    clean(clean_end_ + kPiece);
    return true;
  }
  while (true) {
    clean(clean_.data() + clean_.size() - kReserve);
    const auto cleaned = static_cast<std::size_t>(clean_end_ - clean_.data());
    if (!done_) {  // there is no room for more
      if (cleaned > kMostInParts) return false;
      clean_.resize(2 * clean_.size());
      clean_end_ = clean_.data() + cleaned;
    } else {
      if (begins_.size() == parts) return true;
      if (marker_ != static_cast<int>(0xD0 + (begins_.size() - 1) % 8)) return false;
      begins_.push_back(cleaned);
    }
  }
}

const unsigned char* CodedBytes::part(std::size_t i) {
  end_ = i + 1 < begins_.size() ? clean_.data() + begins_[i + 1] : clean_end_;
  return clean_.data() + begins_[i];
}

// Takes raw bytes to the next marker, or to `stop` in the clean ones.
void CodedBytes::clean(const unsigned char* stop) {
  marker_ = 0;
  copy_to_marker(raw_, raw_end_, clean_end_, stop);
  while (clean_end_ < stop && raw_ < raw_end_) {
    const std::size_t room = std::min<std::size_t>(static_cast<std::size_t>(stop - clean_end_),
                                                   static_cast<std::size_t>(raw_end_ - raw_));
    const auto* ff = static_cast<const unsigned char*>(std::memchr(raw_, 0xFF, room));
    const std::size_t plain = ff ? static_cast<std::size_t>(ff - raw_) : room;
    std::memcpy(clean_end_, raw_, plain);
    clean_end_ += plain;
    raw_ += plain;
    if (!ff) continue;
    while (raw_ < raw_end_ && *raw_ == 0xFF) ++raw_;  // FF may be repeated before a marker
    if (raw_ == raw_end_) break;
    if (*raw_++ == 0) {
      *clean_end_++ = 0xFF;
      continue;
    }
    marker_ = raw_[-1];
    break;
  }
  done_ = marker_ != 0 || raw_ == raw_end_;
}

const unsigned char* CodedBytes::more(const unsigned char* at) {
  const std::size_t left = at < end_ ? static_cast<std::size_t>(end_ - at) : 0;
  std::memmove(clean_.data(), at, left);
  clean_end_ = clean_.data() + left;
  clean(clean_end_ + kPiece);
  end_ = clean_end_;
  return clean_.data();
}

void CodedBytes::finish() {
  while (!done_) {
    clean_end_ = clean_.data();
    clean(clean_end_ + kPiece);
  }
}

bool HuffmanDecoder::start(std::span<const unsigned char> coded, std::size_t parts) {
  if (!coded_.start(coded, parts)) return false;
  go_to(0);
  return true;
}

void HuffmanDecoder::go_to(std::size_t part) {
  at_ = coded_.part(part);
  bits_ = 0;
  count_ = 0;
  last_dc_ = {};
  at_end_ = false;
}

template <bool store>
bool HuffmanDecoder::run(std::span<const Block> mcu, std::int16_t (*const* blocks)[64]) {
  const unsigned char* at = coded_.need(at_);
  std::uint64_t bits = bits_;
  int count = count_;
  // beyond: a code that wasn't found may go on behind the end
  bool good = true, beyond = false;
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
  const auto longer = [&](const auto& table) {
    const HuffmanEntry e = table.find(static_cast<std::uint32_t>(bits >> 48));
    if (e.total == 0) {
      good = false;
      beyond = beyond || at - (count - 16) / 8 > coded_.end();
    }
    return e;
  };
  const auto next_dc = [&](const HuffmanTable<Coefficients::dc>& table) {
    const HuffmanEntry e = table.entries[bits >> (64 - table.kLook)];
    return e.total != 0 ? e : longer(table);
  };
  HuffmanPair twice;
  // by reference: fields are loaded as needed
  const auto next_ac = [&](const HuffmanTable<Coefficients::ac>& table) -> const HuffmanPair& {
    const HuffmanPair& p = table.entries[bits >> (64 - table.kLook)];
    if (p.first.total != 0) [[likely]]
      return p;
    twice.first = twice.both = longer(table);
    return twice;
  };
  for (std::size_t i = 0; i < mcu.size(); ++i) {
    refill();
    const HuffmanEntry difference = next_dc(dc[mcu[i].dc]);
    std::uint32_t& last = last_dc_[mcu[i].component];
    last += static_cast<std::uint32_t>(value_of(bits, difference));
    drop(difference.total);
    std::int16_t* const out = store ? *blocks[i] : nullptr;
    if constexpr (store) out[0] = static_cast<std::int16_t>(last);
    const auto& table = ac[mcu[i].ac];
    std::size_t k = 0;  // the last coefficient that is known
    // False: the block is complete. If the first of two symbols completes it, the second doesn't
    // belong to it: it is written first, so that the first overwrites it.
    const auto two = [&] {
      const HuffmanPair& p = next_ac(table);
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
    while (two()) {  // the first one lives on the refill above
      refill();
      if (!two()) break;
    }
  }
  at_ = at;
  bits_ = bits;
  count_ = count;
  at_end_ = coded_.done() && (beyond || at - count / 8 > coded_.end());
  return good && !at_end_;
}

bool HuffmanDecoder::decode(std::span<const Block> mcu, std::int16_t (*const* blocks)[64]) {
  return run<true>(mcu, blocks);
}
bool HuffmanDecoder::skip(std::span<const Block> mcu) { return run<false>(mcu, nullptr); }

}  // namespace gossamer::data
