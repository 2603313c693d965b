// Walking through the markers of a JPEG (ITU T.81, annex B) up to its scan, and the first chunk of
// a PNG.
#include "gossamer/data/codec/picture_facts.h"

#include <cstring>

#include "gossamer/core/text/file_names.h"

namespace gossamer::data {
namespace {

using Span = std::span<const std::byte>;

unsigned byte_at(Span bytes, std::size_t at) { return std::to_integer<unsigned>(bytes[at]); }
unsigned big16(Span bytes, std::size_t at) {
  return byte_at(bytes, at) << 8 | byte_at(bytes, at + 1);
}

// The orientation tag (0x0112) of the first directory of an EXIF segment; 1 if there is none.
int exif_orientation(Span segment) {
  if (segment.size() < 14 || std::memcmp(segment.data(), "Exif\0\0", 6) != 0) return 1;
  const Span tiff = segment.subspan(6);
  const bool little = byte_at(tiff, 0) == 'I';
  const auto u16 = [&](std::size_t at) {
    return little ? byte_at(tiff, at) | byte_at(tiff, at + 1) << 8 : big16(tiff, at);
  };
  const auto u32 = [&](std::size_t at) {
    return little ? u16(at) | u16(at + 2) << 16 : u16(at) << 16 | u16(at + 2);
  };
  const std::size_t directory = u32(4);
  if (directory > tiff.size() || tiff.size() - directory < 2) return 1;
  const std::size_t entries = u16(directory);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t at = directory + 2 + 12 * i;
    if (at + 12 > tiff.size()) break;
    if (u16(at) != 0x0112) continue;
    const int value = static_cast<int>(u16(at + 8));
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

void read_jpeg(Span bytes, PictureFacts& facts) {
  std::size_t at = 2;
  while (at + 4 <= bytes.size()) {
    // not a marker: libjpeg looks for the next one too
    if (byte_at(bytes, at) != 0xFF) {
      ++at;
      continue;
    }
    const unsigned marker = byte_at(bytes, at + 1);
    if (marker == 0xFF) {
      ++at;
      continue;
    }
    if (marker == 0 || marker == 1 || (marker >= 0xD0 && marker <= 0xD8)) {
      at += 2;
      continue;
    }
    if (marker == 0xDA || marker == 0xD9) return;
    const std::size_t length = big16(bytes, at + 2);
    if (length < 2 || at + 2 + length > bytes.size()) return;
    const Span segment = bytes.subspan(at + 4, length - 2);
    if (marker == 0xE1 && facts.orientation == 1) facts.orientation = exif_orientation(segment);
    const bool frame =
        marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (frame && segment.size() >= 6) {
      facts.bits = static_cast<int>(byte_at(segment, 0));
      facts.height = static_cast<int>(big16(segment, 1));
      facts.width = static_cast<int>(big16(segment, 3));
      facts.components = static_cast<int>(byte_at(segment, 5));
      facts.progressive = marker == 0xC2 || marker == 0xC6 || marker == 0xCA || marker == 0xCE;
    }
    at += 2 + length;
  }
}

void read_png(Span bytes, PictureFacts& facts) {
  if (bytes.size() < 26) return;
  facts.width = static_cast<int>((big16(bytes, 16) & 0x7FFF) << 16 | big16(bytes, 18));
  facts.height = static_cast<int>((big16(bytes, 20) & 0x7FFF) << 16 | big16(bytes, 22));
  facts.bits = static_cast<int>(byte_at(bytes, 24));
  constexpr int kChannels[]{1, 0, 3, 3, 2, 0, 4};
  const unsigned type = byte_at(bytes, 25);
  facts.components = type < std::size(kChannels) ? kChannels[type] : 0;
}

const char* name_of(Format format) {
  switch (format) {
    case Format::jpeg:
      return "JPEG";
    case Format::png:
      return "PNG";
    case Format::gif:
      return "GIF";
    case Format::bmp:
      return "BMP";
    default:
      return "another format";
  }
}

}  // namespace

PictureFacts picture_facts(Span bytes) {
  PictureFacts facts;
  const auto starts = [&](const char* magic, std::size_t length) {
    return bytes.size() >= length && std::memcmp(bytes.data(), magic, length) == 0;
  };
  if (starts("\xFF\xD8", 2)) {
    facts.format = Format::jpeg;
    read_jpeg(bytes, facts);
  } else if (starts("\x89PNG", 4)) {
    facts.format = Format::png;
    read_png(bytes, facts);
  } else if (starts("GIF8", 4)) {
    facts.format = Format::gif;
  } else if (starts("BM", 2)) {
    facts.format = Format::bmp;
  }
  return facts;
}

std::vector<std::string> oddities(const PictureFacts& f, const std::string& name) {
  std::vector<std::string> found;
  const Format said = has_ending(name, {".jpg", ".jpeg", ".jpe", ".jfif"}) ? Format::jpeg
                      : has_ending(name, {".png"})                         ? Format::png
                      : has_ending(name, {".gif"})                         ? Format::gif
                      : has_ending(name, {".bmp"})                         ? Format::bmp
                                                                           : f.format;
  if (said != f.format) found.push_back(std::string(name_of(f.format)) + " named " + name_of(said));
  if (f.format == Format::jpeg && f.components == 4) found.emplace_back("CMYK");
  if (f.components == 1 || (f.format == Format::png && f.components == 2))
    found.emplace_back("gray");
  if (f.bits > 8) found.push_back(std::to_string(f.bits) + "-bit");
  if (f.progressive) found.emplace_back("progressive");
  if (f.orientation != 1) found.emplace_back("EXIF-rotated");
  if (static_cast<double>(f.width) * f.height > 25e6) found.emplace_back("huge");
  if ((f.width > 0 && f.width < 32) || (f.height > 0 && f.height < 32)) found.emplace_back("tiny");
  return found;
}

}  // namespace gossamer::data
