// Huffman decoding of baseline JPEG: the hot loop of jpeg.cpp, in place of libjpeg's. For its speed
// it needs the whole input in memory, and a single scan; libjpeg decodes other files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace gossamer::data {

// What one symbol does, or several in a row.
struct HuffmanEntry {
  std::uint8_t total = 0;  // bits of codes and values together
  // AC: coefficients to go on, zeros and itself; 64 at the end of the block
  std::uint8_t advance = 0;
  std::uint16_t mask = 0;  // of the bits of the last value
};
// Two symbols in a row: the first, and, if the next code is known as well, both (else the first
// again). The second's value need not be known.
struct HuffmanPair {
  HuffmanEntry first, both;
};

// The table of one code: for all values of the next kLook bits, one symbol (DC) or two (AC). It is
// small, so that the tables of a picture and its coefficients fit into an L1 cache of 32 KB.
enum class Coefficients { dc, ac };
template <Coefficients kind>
class HuffmanTable {
 public:
  static constexpr bool kDc = kind == Coefficients::dc;
  static constexpr int kLook = kDc ? 9 : 10;
  using Entry = std::conditional_t<kDc, HuffmanEntry, HuffmanPair>;

  // A table of a DHT segment: counts[1…16] codes of each length, then their symbols. False: no
  // code, or symbols that baseline JPEG doesn't have, which are left to libjpeg.
  bool assign(const std::uint8_t* counts, const std::uint8_t* symbols);
  // The symbol whose code the 16 bits begin with, if it is longer than kLook; total = 0: there is
  // none.
  HuffmanEntry find(std::uint32_t sixteen_bits) const;

  // for every value of the next kLook bits; total = 0: its code is longer
  std::array<Entry, 1 << kLook> entries;

 private:
  static HuffmanEntry entry_of(std::uint8_t symbol, int length);
  // of the codes of each length, left-aligned in 16 bits
  std::array<std::uint32_t, 18> end_{};
  std::array<int, 17> offset_{};  // index of a symbol is offset + code
  std::array<std::uint8_t, 256> symbols_{};
};

// The coded bytes of a scan without their stuffing (FF 00 stands for FF). A scan in one part is
// cleaned piece by piece when it is needed, since a crop may need only its beginning. A scan that
// restart markers divide is cleaned as a whole, since a crop needs many short parts of it.
class CodedBytes {
 public:
  // Worst case of one MCU: 10 blocks of 64 symbols with 16 + 11 bits; and what a refill may read
  // beyond.
  static constexpr std::size_t kReserve = 10 * 64 * 4 + 64;
  static constexpr std::size_t kPiece = 16 << 10;  // bytes that are cleaned at a time
  // bytes, about, of a scan that is cleaned as a whole: the memory stays with the thread
  static constexpr std::size_t kMostInParts = 8 << 20;

  CodedBytes() = default;
  CodedBytes(const CodedBytes&) = delete;
  CodedBytes& operator=(const CodedBytes&) = delete;
  // raw: the bytes after the header of the scan. False if it has fewer than `parts` parts, its
  // restart markers are not in order, or it is too long.
  bool start(std::span<const unsigned char> raw, std::size_t parts);
  // The bytes of a part, 0 to parts - 1; in a scan of one only from its begin.
  const unsigned char* part(std::size_t);
  // Makes kReserve bytes readable after `at` and returns where `at` is now. Bytes after end() have
  // any value; the results from them are thrown away.
  const unsigned char* need(const unsigned char* at) {
    return static_cast<std::size_t>(end_ - at) >= kReserve || done_ ? at : more(at);
  }
  // of what is clean; when done(): of the part
  const unsigned char* end() const { return end_; }
  bool done() const { return done_; }
  // when done(); else the file is at its end
  bool ends_with_marker() const { return marker_ != 0 || end_ < clean_end_; }
  // Called after the last part: cleans the rest. Then marker() ends the scan (0: the file is at its
  // end), and next() is the position behind it.
  void finish();
  int marker() const { return marker_; }
  const unsigned char* next() const { return raw_; }

 private:
  const unsigned char* more(const unsigned char* at);
  void clean(const unsigned char* stop);

  // Room for what is left of the last piece, a new piece, and what may be read beyond it.
  std::vector<unsigned char> clean_ = std::vector<unsigned char>(kReserve + kPiece + kReserve);
  std::vector<std::size_t> begins_;  // of the parts, in clean_
  unsigned char* clean_end_ = clean_.data();
  const unsigned char* end_ = clean_.data();
  const unsigned char* raw_ = nullptr;
  const unsigned char* raw_end_ = nullptr;
  int marker_ = 0;
  bool done_ = true;
};

class HuffmanDecoder {
 public:
  static constexpr int kTables = 4;
  HuffmanTable<Coefficients::dc> dc[kTables];
  HuffmanTable<Coefficients::ac> ac[kTables];

  // of an MCU: where the difference counts from, numbers of tables
  struct Block {
    std::uint8_t component, dc, ac;
  };
  // as CodedBytes::start(), and to the first part
  bool start(std::span<const unsigned char> coded, std::size_t parts);
  void go_to(std::size_t part);
  // The next MCU into blocks[i] (64 zeroed coefficients each, in normal order), or nowhere. False:
  // a bad code, or the data are at an end.
  bool decode(std::span<const Block> mcu, std::int16_t (*const* blocks)[64]);
  bool skip(std::span<const Block> mcu);
  CodedBytes& coded() { return coded_; }
  bool at_end() const { return at_end_; }  // why false: the data, not a code

 private:
  template <bool store>
  bool run(std::span<const Block> mcu, std::int16_t (*const* blocks)[64]);

  CodedBytes coded_;
  const unsigned char* at_ = nullptr;  // next byte to take
  std::uint64_t bits_ = 0;             // the next ones, from the highest
  int count_ = 0;                      // how many of them are there
  // of each component; wraps around where a damaged file makes it
  std::array<std::uint32_t, 4> last_dc_{};
  bool at_end_ = false;
};

}  // namespace gossamer::data
