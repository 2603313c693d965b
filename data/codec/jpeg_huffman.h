// Huffman decoding of baseline JPEG: the hot loop of jpeg.cpp, in place of libjpeg's. What it gives up for speed: the input is whole
// and in memory, and one scan; files of other kinds stay with libjpeg.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace gossamer::data {

// What one symbol does, or several in a row.
struct HuffmanEntry {
  std::uint8_t total = 0;                            // bits of codes and values together
  std::uint8_t advance = 0;                          // AC: coefficients to go on, zeros and itself; 64 at the end of the block
  std::uint16_t mask = 0;                            // of the bits of the last value
};
// What is known from the next kLook bits: one symbol (total = 0: its code is longer), and, if the next code is there as well, both (else
// the same again). Its value need not be.
struct HuffmanPair { HuffmanEntry first, both; };

// One code table.
class HuffmanTable {
 public:
  static constexpr int kLook = 10;

  // A table of a DHT segment: counts[1…16] codes of each length, then their symbols. False: no code, or symbols that baseline JPEG
  // doesn't have, which are left to libjpeg.
  bool assign(const std::uint8_t* counts, const std::uint8_t* symbols, bool dc);
  // The symbol whose code the 16 bits begin with; total = 0: there is none.
  HuffmanEntry find(std::uint32_t sixteen_bits) const;

  std::array<HuffmanPair, 1 << kLook> pairs;         // for every value of the next kLook bits

 private:
  static HuffmanEntry entry_of(std::uint8_t symbol, int length, bool dc);
  void make_pairs();
  std::array<std::uint32_t, 18> end_{};              // of the codes of each length, left-aligned in 16 bits
  std::array<int, 17> offset_{};                     // index of a symbol is offset + code
  std::array<std::uint8_t, 256> symbols_{};
  bool dc_ = false;
};

// The coded bytes of a scan without their stuffing (FF 00 stands for FF), cleaned a piece at a time as they are needed.
class CodedBytes {
 public:
  // Worst case of one MCU: 10 blocks of 64 symbols with 16 + 11 bits; and what a refill may read beyond.
  static constexpr std::size_t kReserve = 10 * 64 * 4 + 64;

  void start(std::span<const unsigned char> raw);
  // Makes kReserve bytes readable behind `at` (zeros after the last one) and returns where `at` is now.
  const unsigned char* need(const unsigned char* at) { return static_cast<std::size_t>(end_ - at) >= kReserve || done_ ? at : more(at); }
  const unsigned char* begin() const { return clean_.data(); }
  const unsigned char* end() const { return end_; }          // of what is clean; when done(): of the scan
  bool done() const { return done_; }
  // After the scan: cleans the rest; `marker` ends it (0: the file is at its end), `next` is the position behind it.
  void finish();
  int marker() const { return marker_; }
  const unsigned char* next() const { return raw_; }

 private:
  const unsigned char* more(const unsigned char* at);
  void clean_some(std::size_t bytes);

  std::vector<unsigned char> clean_;
  unsigned char* end_ = nullptr;
  const unsigned char* raw_ = nullptr;
  const unsigned char* raw_end_ = nullptr;
  int marker_ = 0;
  bool done_ = true;
};

// Where the parts of a scan begin that restart markers separate, each of which can be decoded for itself. False unless there are `parts`
// of them and their markers count up as they must.
bool find_parts(std::span<const unsigned char> coded, std::size_t parts, std::vector<std::size_t>& begins);

class HuffmanDecoder {
 public:
  static constexpr int kTables = 4;
  HuffmanTable dc[kTables], ac[kTables];

  struct Block { std::uint8_t component, dc, ac; };   // of an MCU: where the difference counts from, numbers of tables
  void start(std::span<const unsigned char> coded);   // the bytes behind the header of the scan, or behind a restart marker
  // The next MCU into blocks[i] (64 zeroed coefficients each, in normal order), or nowhere. False: a bad code, or the data are at an end.
  bool decode(std::span<const Block> mcu, std::int16_t (*const* blocks)[64]);
  bool skip(std::span<const Block> mcu);
  CodedBytes& coded() { return coded_; }
  bool at_end() const { return at_end_; }             // why false: the data, not a code

 private:
  template <bool store> bool run(std::span<const Block> mcu, std::int16_t (*const* blocks)[64]);

  CodedBytes coded_;
  const unsigned char* at_ = nullptr;                 // next byte to take
  std::uint64_t bits_ = 0;                            // the next ones, from the highest
  int count_ = 0;                                     // how many of them are there
  std::array<std::uint32_t, 4> last_dc_{};            // of each component; wraps around where a damaged file makes it
  bool at_end_ = false;
};

}  // namespace gossamer::data
