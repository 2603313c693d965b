// The files of ImageNet's development kit. MATLAB 5 (MAT-File Format, R2022b, chapter 1): a header
// of 128 bytes, then elements: type, size, data padded to 8; small ones (up to 4 bytes) take 8
// bytes in all. Only the parts of the format that meta.mat uses are read.
#include "gossamer/data/formats/devkit.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include <zlib.h>

#include "gossamer/core/error.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/class_names.h"

namespace gossamer::data {
namespace {

using Span = std::span<const std::byte>;
constexpr std::size_t kMaxMat = std::size_t{64} << 20;
constexpr std::uint32_t kCompressed = 15, kMatrix = 14;
constexpr unsigned kCell = 1, kStruct = 2, kChar = 4;

struct Element {
  std::uint32_t type = 0;
  Span data;
};

class Elements {
 public:
  Elements(Span bytes, const std::string& file) : left_(bytes), file_(file) {}
  bool empty() const { return left_.size() < 8; }
  Span rest() const { return left_; }

  Element next() {
    check<DataError>(left_.size() >= 8, file_, ": damaged MATLAB file: cut off");
    const std::uint32_t word = load(0), size = load(4);
    // a small element: size and type share the first word
    if (word >> 16) {
      check<DataError>(word >> 16 <= 4, file_, ": damaged MATLAB file");
      const Element element{word & 0xFFFF, left_.subspan(4, word >> 16)};
      left_ = left_.subspan(8);
      return element;
    }
    check<DataError>(size <= left_.size() - 8, file_, ": damaged MATLAB file: an element of ", size,
                     " bytes, ", left_.size() - 8, " are left");
    const Element element{word, left_.subspan(8, size)};
    const std::size_t padded = word == kCompressed ? size : (std::size_t{size} + 7) / 8 * 8;
    left_ = left_.subspan(std::min(left_.size(), 8 + padded));
    return element;
  }

 private:
  std::uint32_t load(std::size_t at) const {
    std::uint32_t value = 0;
    std::memcpy(&value, left_.data() + at, 4);
    return value;
  }
  Span left_;
  const std::string& file_;
};

std::uint64_t unsigned_at(Span bytes, std::size_t width, std::size_t i) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + i * width, width);
  return value;
}

// The numbers of an element, whatever type they are stored in.
std::vector<double> numbers(const Element& e, const std::string& file) {
  constexpr std::size_t width[]{0, 1, 1, 2, 2, 4, 4, 4, 0, 8, 0, 0, 8, 8};
  std::vector<double> values;
  const std::size_t w = e.type < std::size(width) ? width[e.type] : 0;
  check<DataError>(w > 0 || e.data.empty(), file, ": MATLAB type ", e.type,
                   " in meta.mat is not understood");
  for (std::size_t i = 0; w > 0 && i < e.data.size() / w; ++i) {
    const std::uint64_t bits = unsigned_at(e.data, w, i);
    double value = static_cast<double>(bits);
    if (e.type == 7) value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (e.type == 9) value = std::bit_cast<double>(bits);
    if (e.type == 1) value = static_cast<std::int8_t>(bits);
    if (e.type == 3) value = static_cast<std::int16_t>(bits);
    if (e.type == 5) value = static_cast<std::int32_t>(bits);
    if (e.type == 12) value = static_cast<double>(static_cast<std::int64_t>(bits));
    values.push_back(value);
  }
  return values;
}

struct Matrix {
  unsigned kind = 0;
  std::size_t count = 0;
  std::string name;
  Span rest;
};

Matrix open_matrix(const Element& e, const std::string& file) {
  check<DataError>(e.type == kMatrix, file, ": damaged MATLAB file: a matrix was expected");
  Matrix m;
  if (e.data.empty()) return m;
  Elements inside(e.data, file);
  const Element flags = inside.next();
  check<DataError>(flags.type == 6 && flags.data.size() == 8, file,
                   ": damaged MATLAB file: the flags of a matrix");
  m.kind = std::to_integer<unsigned>(flags.data[0]);
  const Element shape = inside.next(), name = inside.next();
  m.count = 1;
  for (const double side : numbers(shape, file)) {
    check<DataError>(side >= 0 && side <= 1e6 && static_cast<double>(m.count) * side <= 1e6, file,
                     ": damaged MATLAB file: a matrix of unlikely size");
    m.count *= static_cast<std::size_t>(side);
  }
  m.name.assign(reinterpret_cast<const char*>(name.data.data()), name.data.size());
  m.rest = inside.rest();
  return m;
}

std::string text_of(const Element& cell, const std::string& file) {
  const Matrix m = open_matrix(cell, file);
  if (m.kind != kChar || m.rest.empty()) return {};
  const Element data = Elements(m.rest, file).next();
  const std::size_t width = data.type == 17 || data.type == 4 || data.type == 3 ? 2
                            : data.type == 18                                   ? 4
                                                                                : 1;
  std::string text;
  for (std::size_t i = 0; i < data.data.size() / width && text.size() < 64; ++i)
    text += static_cast<char>(unsigned_at(data.data, width, i));
  return text;
}

double number_of(const Element& cell, const std::string& file) {
  const Matrix m = open_matrix(cell, file);
  if (m.kind == kCell || m.kind == kStruct || m.kind == kChar || m.rest.empty())
    return std::nan("");
  const std::vector<double> values = numbers(Elements(m.rest, file).next(), file);
  return values.size() == 1 ? values[0] : std::nan("");
}

std::vector<Synset> read_synsets(const Matrix& m, const std::string& file) {
  Elements inside(m.rest, file);
  const std::vector<double> width = numbers(inside.next(), file);
  const Element names = inside.next();
  check<DataError>(width.size() == 1 && width[0] >= 1 && width[0] <= 64, file,
                   ": damaged MATLAB file: the names of the fields");
  const auto w = static_cast<std::size_t>(width[0]);
  const std::size_t fields = names.data.size() / w;
  std::size_t id = fields, wnid = fields, children = fields;
  for (std::size_t f = 0; f < fields; ++f) {
    const char* text = reinterpret_cast<const char*>(names.data.data()) + f * w;
    const std::string_view name(text, strnlen(text, w));
    if (name == "ILSVRC2012_ID") id = f;
    if (name == "WNID") wnid = f;
    if (name == "num_children") children = f;
  }
  check<DataError>(id < fields && wnid < fields, file,
                   ": the struct `synsets` has no fields ILSVRC2012_ID and WNID");
  std::vector<Synset> found;
  for (std::size_t i = 0; i < m.count; ++i) {
    Synset synset;
    bool leaf = true;
    for (std::size_t f = 0; f < fields; ++f) {
      const Element cell = inside.next();
      if (f == wnid) synset.wnid = text_of(cell, file);
      if (f != id && f != children) continue;
      const double value = number_of(cell, file);
      check<DataError>(value >= 0 && value <= 1e6, file, ": synset ", i, " has no proper ",
                       f == id ? "ILSVRC2012_ID" : "num_children");
      if (f == id)
        synset.id = static_cast<int>(value);
      else
        leaf = value == 0;
    }
    check<DataError>(is_wnid(synset.wnid), file, ": synset ", i, " has no WordNet id (n01440764)");
    if (leaf) found.push_back(std::move(synset));
  }
  check<DataError>(!found.empty(), file, ": holds no synsets without children");
  return found;
}

int whole_number(std::string_view text, const std::string& file, std::size_t line) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check<DataError>(error == std::errc{} && end == text.data() + text.size() && value >= 0, file,
                   ": line ", line + 1, ": '", printable(std::string(text.substr(0, 40))),
                   "' is not an id");
  return value;
}

}  // namespace

std::optional<std::vector<std::byte>> inflate_zlib(Span bytes, std::size_t limit, bool gzip) {
  z_stream z{};
  if (inflateInit2(&z, gzip ? 15 + 16 : 15) != Z_OK) return std::nullopt;
  std::vector<std::byte> out;
  z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  z.avail_in = static_cast<uInt>(std::min<std::size_t>(bytes.size(), 0xFFFFFFFFu));
  int state = Z_OK;
  while (state == Z_OK && out.size() <= limit) {
    const std::size_t had = out.size();
    out.resize(had + (std::size_t{1} << 16));
    z.next_out = reinterpret_cast<Bytef*>(out.data() + had);
    z.avail_out = 1 << 16;
    state = inflate(&z, Z_NO_FLUSH);
    out.resize(out.size() - z.avail_out);
    // cut off
    if (state == Z_BUF_ERROR || (state == Z_OK && z.avail_in == 0 && z.avail_out != 0)) break;
  }
  inflateEnd(&z);
  if (state != Z_STREAM_END || out.size() > limit) return std::nullopt;
  return out;
}

std::vector<std::byte> gunzip(Span bytes, std::size_t limit, const std::string& file) {
  auto out = inflate_zlib(bytes, limit, true);
  check<DataError>(out.has_value(), file, ": damaged gzip file, or larger than ", limit >> 20,
                   " MiB unpacked. Copy or unpack it again.");
  return std::move(*out);
}

std::vector<Synset> parse_meta_mat(Span bytes, const std::string& file) {
  check<DataError>(bytes.size() > 136 && std::memcmp(bytes.data(), "MATLAB 5.0", 10) == 0, file,
                   ": not a MATLAB 5 file");
  check<DataError>(
      std::to_integer<char>(bytes[126]) == 'I' && std::to_integer<char>(bytes[127]) == 'M', file,
      ": a big-endian MATLAB file is not understood");
  Elements elements(bytes.subspan(128), file);
  // of what all parts together may unpack to
  std::size_t left = kMaxMat;
  while (!elements.empty()) {
    Element element = elements.next();
    std::vector<std::byte> unpacked;
    if (element.type == kCompressed) {
      auto inflated = inflate_zlib(element.data, left, false);
      check<DataError>(inflated.has_value(), file,
                       ": damaged MATLAB file: a compressed part, or more than ", kMaxMat >> 20,
                       " MiB unpacked");
      unpacked = std::move(*inflated);
      left -= unpacked.size();
      element = Elements(unpacked, file).next();
    }
    if (element.type != kMatrix) continue;
    const Matrix matrix = open_matrix(element, file);
    if (matrix.kind == kStruct && matrix.name == "synsets") return read_synsets(matrix, file);
  }
  fail<DataError>(file, ": holds no struct `synsets`; is this the development kit's meta.mat?");
}

std::vector<Synset> parse_map_clsloc(std::string_view text, const std::string& file) {
  std::vector<Synset> found;
  for (const std::string& line : split_lines(text)) {
    const std::size_t space = line.find(' ');
    const std::string wnid = line.substr(0, space);
    check<DataError>(is_wnid(wnid) && space != std::string::npos, file, ": line ", found.size() + 1,
                     ": wanted is `n02119789 1 kit_fox`");
    found.push_back({whole_number(std::string_view(line).substr(
                                      space + 1, line.find(' ', space + 1) - space - 1),
                                  file, found.size()),
                     wnid});
  }
  return found;
}

std::vector<int> parse_ids(std::string_view text, const std::string& file) {
  std::vector<int> ids;
  for (const std::string& line : split_lines(text))
    ids.push_back(whole_number(std::string_view(line).substr(0, line.find_last_not_of(" \t") + 1),
                               file, ids.size()));
  return ids;
}

std::vector<std::pair<std::string, std::string>> parse_solution(std::string_view text,
                                                                const std::string& file) {
  std::vector<std::pair<std::string, std::string>> found;
  std::size_t number = 0;
  for (const std::string& line : split_lines(text)) {
    ++number;
    const std::size_t comma = line.find(',');
    if (number == 1 && line.starts_with("ImageId")) continue;
    const std::string wnid =
        comma == std::string::npos
            ? ""
            : line.substr(comma + 1, line.find_first_of(" ,\t", comma + 1) - comma - 1);
    check<DataError>(is_wnid(wnid), file, ": line ", number, ": '", printable(line.substr(0, 60)),
                     "'; wanted is `ILSVRC2012_val_00048981,n03995372 85 1 499 272`");
    found.emplace_back(line.substr(0, comma), wnid);
  }
  return found;
}

}  // namespace gossamer::data
