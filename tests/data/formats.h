// Writers of the containers that the tests read: records, Examples, a development kit. The formats
// by hand, apart from what is tested.
#pragma once

#include <zlib.h>

#include "data/helpers.h"

namespace gossamer::data {

inline std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
std::string little(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// CRC-32C bit by bit, masked as TFRecord has it.
inline std::uint32_t slow_masked_crc(const std::string& text) {
  std::uint32_t crc = ~0u;
  for (const unsigned char c : text) {
    crc ^= c;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
inline std::string record(const std::string& data) {
  const std::string length = little<std::uint64_t>(data.size());
  return length + little(slow_masked_crc(length)) + data + little(slow_masked_crc(data));
}

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}
inline std::string message(int field, const std::string& content) {
  return varint(static_cast<unsigned>(field) << 3 | 2) + varint(content.size()) + content;
}
inline std::string feature(const std::string& key, const std::string& bytes) {
  return message(1, message(1, key) + message(2, message(1, message(1, bytes))));
}
inline std::string feature(const std::string& key, i64 value) {
  return message(1,
                 message(1, key) +
                     message(2, message(3, message(1, varint(static_cast<std::uint64_t>(value))))));
}
inline std::string example(const std::string& features) { return message(1, features); }

// MATLAB 5: an element, and the matrices of meta.mat.
inline std::string mat_element(std::uint32_t type, const std::string& data) {
  return little(type) + little(static_cast<std::uint32_t>(data.size())) + data +
         std::string((8 - data.size() % 8) % 8, '\0');
}
inline std::string mat_matrix(std::uint32_t kind, std::int32_t rows, std::int32_t columns,
                              const std::string& name, const std::string& rest) {
  const std::string small = little(static_cast<std::uint16_t>(1)) +
                            little(static_cast<std::uint16_t>(name.size())) + name +
                            std::string(4 - name.size() % 5, '\0');
  return mat_element(14, mat_element(6, little(kind) + little(0u)) +
                             mat_element(5, little(rows) + little(columns)) +
                             (name.empty() || name.size() > 4 ? mat_element(1, name) : small) +
                             rest);
}
// as MATLAB saves small whole ones: in the fewest bytes
inline std::string mat_number(double value) {
  const bool byte = value < 256;
  const auto u16 = [](std::size_t v) { return little(static_cast<std::uint16_t>(v)); };
  return mat_matrix(
      6, 1, 1, "",
      byte ? u16(2) + u16(1) + std::string(1, static_cast<char>(value)) + std::string(3, '\0')
           : mat_element(4, u16(static_cast<std::size_t>(value))));
}
inline std::string mat_text(const std::string& text) {
  std::string wide;
  for (const char c : text) wide += std::string(1, c) + '\0';
  return mat_matrix(4, 1, static_cast<std::int32_t>(text.size()), "", mat_element(4, wide));
}

struct KitClass {
  int id;
  std::string wnid;
  int children = 0;
};

inline std::string make_meta_mat(const std::vector<KitClass>& classes, bool compressed) {
  std::string fields, cells;
  for (const char* name : {"ILSVRC2012_ID", "WNID", "words", "num_children"})
    fields += std::string(name) + std::string(20 - std::strlen(name), '\0');
  for (const KitClass& c : classes)
    cells += mat_number(c.id) + mat_text(c.wnid) + mat_text("some words, more words") +
             mat_number(c.children);
  const std::string width =
      little(static_cast<std::uint16_t>(5)) + little(static_cast<std::uint16_t>(4)) + little(20);
  std::string body = mat_matrix(2, static_cast<std::int32_t>(classes.size()), 1, "synsets",
                                width + mat_element(1, fields) + cells);
  if (compressed) {
    std::string packed(compressBound(body.size()), '\0');
    uLongf size = packed.size();
    compress(reinterpret_cast<Bytef*>(packed.data()), &size,
             reinterpret_cast<const Bytef*>(body.data()), body.size());
    packed.resize(size);
    body = little(15u) + little(static_cast<std::uint32_t>(size)) + packed;
  }
  std::string head = "MATLAB 5.0 MAT-file, made by a test";
  head.resize(124, ' ');
  return head + std::string("\0\1IM", 4) + body;
}

inline std::string gzip(const std::string& text) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// name -> (class, bytes): what a data set holds, whatever its layout.
struct Sample {
  std::string class_name, bytes;
  bool operator==(const Sample&) const = default;
};
inline std::vector<Sample> samples_of(const Dataset& set) {
  std::vector<Sample> all;
  Bytes buffer;
  for (i64 i = 0; i < set.size(); ++i) {
    const auto bytes = set.bytes(i, buffer);
    all.push_back({set.classes().at(static_cast<std::size_t>(set.label(i))),
                   {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
  }
  return all;
}

}  // namespace gossamer::data
