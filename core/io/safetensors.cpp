// Reading safetensors files. The header is untrusted: every rule of the format is checked before a
// byte of data is used.
#include "gossamer/core/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "gossamer/core/io/input_file.h"
#include "gossamer/core/io/safetensors_checksums.h"
#include "gossamer/core/io/xxh3.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/core/text/printable.h"

namespace gossamer {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors data is little-endian and is copied as it is");

constexpr std::uint64_t kHeaderCap = 100'000'000;  // as the reference implementation

struct Entry {
  std::string name;
  std::string type;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;
  bool has_type = false, has_shape = false, has_offsets = false;
};
struct Header {
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
};

// The events of nlohmann's lexer drive this small machine: depth 1 is the list of tensors, depth 2
// one tensor (or __metadata__), depth 3 its shape or offsets. Nothing deeper exists, so hostile
// nesting stops at once; duplicate keys are seen here, where a finished JSON value would have
// hidden them.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Header header;
  std::string problem;

  bool start_object(std::size_t) override {
    if (depth_ == 0 || (depth_ == 1 && !in_list_)) {
      ++depth_;
      return true;
    }
    return stop(depth_ == 2 ? "tensor \"" + current() + "\": \"" + field_ + "\" is an object"
                            : "objects are nested too deep");
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      if (!names_.insert(name).second) return stop("key \"" + name + "\" appears twice");
      metadata_ = name == "__metadata__";
      fields_.clear();
      if (!metadata_) header.entries.emplace_back().name = name;
      return true;
    }
    if (!fields_.insert(name).second)
      return stop("key \"" + name + "\" of \"" + current() + "\" appears twice");
    field_ = name;
    if (!metadata_ && name != "dtype" && name != "shape" && name != "data_offsets")
      return stop("tensor \"" + current() + "\" has the unknown field \"" + name + "\"");
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && !metadata_) {
      const Entry& e = header.entries.back();
      if (!e.has_type || !e.has_shape || !e.has_offsets)
        return stop("tensor \"" + e.name + "\" lacks \"" +
                    (!e.has_type    ? "dtype"
                     : !e.has_shape ? "shape"
                                    : "data_offsets") +
                    "\"");
    }
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return stop("the header is not an object");
    if (depth_ != 2 || metadata_ || in_list_ || field_ == "dtype") return unexpected("a list");
    in_list_ = true;
    list_.clear();
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    Entry& e = header.entries.back();
    if (field_ == "shape") {
      e.shape = list_;
      e.has_shape = true;
      return true;
    }
    if (list_.size() != 2)
      return stop("tensor \"" + e.name + "\": data_offsets has " + std::to_string(list_.size()) +
                  " numbers, wanted 2");
    e.begin = list_[0];
    e.end = list_[1];
    e.has_offsets = true;
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 2 && metadata_) {
      header.metadata.emplace(field_, text);
      return true;
    }
    if (depth_ != 2 || in_list_ || field_ != "dtype") return unexpected("a string");
    header.entries.back().type = text;
    return header.entries.back().has_type = true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_list_) return unexpected("a number");
    list_.push_back(value);
    return list_.size() <= 64 ||
           stop("tensor \"" + current() + "\": \"" + field_ + "\" has more than 64 numbers");
  }
  bool number_integer(number_integer_t value) override {
    return stop("tensor \"" + current() + "\": \"" + field_ + "\" has the negative number " +
                std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return stop("tensor \"" + current() + "\": \"" + field_ + "\" has " + text.substr(0, 40) +
                ", which is no 64-bit whole number");
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string text = error.what();
    return stop("the header is not valid JSON (byte " + std::to_string(position) +
                "): " + text.substr(0, 200));
  }

 private:
  std::string current() const {
    return metadata_ ? "__metadata__" : header.entries.empty() ? "" : header.entries.back().name;
  }
  bool stop(const std::string& text) {
    problem = printable(text, 1000);
    return false;
  }
  bool unexpected(const char* what) {
    if (depth_ == 0) return stop("the header is not an object");
    if (depth_ == 1)
      return stop(std::string(what) + " stands where the description of \"" + current() +
                  "\" should be");
    return stop("\"" + field_ + "\" of \"" + current() + "\" is or contains " + what);
  }

  int depth_ = 0;
  bool metadata_ = false, in_list_ = false;
  std::set<std::string> names_, fields_;
  std::string field_;
  std::vector<std::uint64_t> list_;
};

struct Type {
  std::string_view name;
  unsigned bits;                                // of one element
  std::optional<DType> read_as = std::nullopt;  // none: Gossamer has no such type
};
constexpr Type kTypes[] = {{"F32", 32, DType::f32},
                           {"BF16", 16, DType::bf16},
                           {"F16", 16, DType::f16},
                           {"U8", 8, DType::u8},
                           {"I32", 32, DType::i32},
                           {"I64", 64, DType::i64},
                           {"F64", 64, DType::f32},
                           {"BOOL", 8},
                           {"I8", 8},
                           {"I16", 16},
                           {"U16", 16},
                           {"U32", 32},
                           {"U64", 64},
                           {"C64", 64},
                           {"F8_E5M2", 8},
                           {"F8_E4M3", 8},
                           {"F8_E8M0", 8},
                           {"F8_E4M3FNUZ", 8},
                           {"F8_E5M2FNUZ", 8},
                           {"F6_E2M3", 6},
                           {"F6_E3M2", 6},
                           {"F4", 4}};

struct Place {
  std::string name, kind;
  std::optional<DType> read_as;  // none: it stays unread
  bool rounded = false;          // F64, read as f32
  Shape shape;
  std::uint64_t begin = 0, bytes = 0;
  std::string checksum;  // empty: none
};

std::string quoted(const std::string& name) { return '"' + printable(name, 100) + '"'; }

Place place_of(const Entry& e, const std::string& file) {
  check<IoError>(e.begin <= e.end, file, ": tensor ", quoted(e.name), " has data_offsets [",
                 e.begin, ", ", e.end, "]");
  Place p;
  p.name = e.name;
  p.kind = printable(e.type, 40);
  p.begin = e.begin;
  p.bytes = e.end - e.begin;
  const auto* type = std::ranges::find(kTypes, e.type, &Type::name);
  if (type == std::end(kTypes)) return p;  // of a later version of the format
  std::uint64_t bits = type->bits;
  // A zero extent elsewhere must not hide an absurd one, so each is bounded on its own too.
  for (const std::uint64_t extent : e.shape) {
    const bool overflow = extent > static_cast<std::uint64_t>(std::numeric_limits<i64>::max()) ||
                          __builtin_mul_overflow(bits, extent, &bits);
    check<IoError>(!overflow, file, ": the size of tensor ", quoted(e.name), " overflows 64 bits");
  }
  check<IoError>(bits % 8 == 0 && p.bytes == bits / 8, file, ": tensor ", quoted(e.name),
                 " has data_offsets [", e.begin, ", ", e.end, "], but its type and shape take ",
                 bits / 8, " bytes");
  if (e.shape.size() > Shape::max_rank) {
    p.kind += " of " + std::to_string(e.shape.size()) + " dimensions";
    return p;
  }
  i64 extents[Shape::max_rank] = {};
  std::ranges::copy(e.shape, extents);
  p.shape = Shape::of(extents, static_cast<int>(e.shape.size()));
  p.read_as = type->read_as;
  p.rounded = type->read_as && size_of(*type->read_as) * 8 != type->bits;
  return p;
}

// Length of the header, checked against the size of the file. `first` holds min(8, size) bytes.
std::uint64_t header_length(const std::byte* first, std::uint64_t size, const std::string& file) {
  check<IoError>(size >= 8, file, ": ", size,
                 " bytes are too few for a safetensors file (cut short, or of another format)");
  std::uint64_t length = 0;
  std::memcpy(&length, first, 8);
  check<IoError>(length <= kHeaderCap, file, ": header of ", length, " bytes; the limit is ",
                 kHeaderCap, " (is this a safetensors file?)");
  check<IoError>(length <= size - 8, file, ": header of ", length, " bytes, but the file has only ",
                 size, " (cut short?)");
  return length;
}

// --- checksums
void check_sum(bool right, const std::string& file, const std::string& part) {
  check<IoError>(right, file, ": damaged: ", part,
                 " has another checksum than it was written with. Copy the file again, or take "
                 "another (an earlier checkpoint, another worker's)");
}

// The checksums of the tensors; none if the header is not as we write it.
std::vector<std::string> checksums_of(std::string_view header, const std::string& file) {
  std::vector<std::string> sums;
  if (!header.starts_with(checksums::kOurs)) return sums;
  check_sum(header.starts_with(checksums::kMark), file, "its header");
  header.remove_prefix(checksums::kMark.size());
  const auto take = [&] {
    const std::string_view digits = header.substr(0, checksums::kDigits);
    header.remove_prefix(digits.size());
    return digits;
  };
  const std::string_view own = take();
  check_sum(checksums::digits(xxh3(std::as_bytes(std::span(header)))) == own, file, "its header");
  while (header.starts_with(' ')) {
    header.remove_prefix(1);
    sums.emplace_back(take());
  }
  return sums;
}

// All tensors in the order of their bytes; together they cover [0, data) exactly.
std::vector<Place> parse_header(std::string_view text, std::uint64_t data, const std::string& file,
                                std::map<std::string, std::string>& metadata) {
  check<IoError>(!text.empty() && text.front() == '{', file,
                 ": the header does not start with '{': not a safetensors file");
  const std::vector<std::string> sums = checksums_of(text, file);
  // nlohmann's lexer takes a NUL for the end of the input and would ignore what follows.
  check<IoError>(text.find('\0') == text.npos, file, ": the header contains a NUL byte");
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(text, &reader)) fail<IoError>(file, ": ", reader.problem);
  std::vector<Place> places;
  places.reserve(reader.header.entries.size());
  for (const Entry& e : reader.header.entries) places.push_back(place_of(e, file));
  std::ranges::stable_sort(places, [](const Place& a, const Place& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.bytes < b.bytes;
  });
  std::uint64_t at = 0;
  for (const Place& p : places) {
    check<IoError>(p.begin == at, file, ": the data of tensor ", quoted(p.name), " starts at ",
                   p.begin, ", but the one before it ends at ", at,
                   p.begin > at ? " (a hole)" : " (an overlap)");
    at += p.bytes;  // no overflow: it is the entry's end
    check<IoError>(at <= data, file, ": tensor ", quoted(p.name), " ends at byte ", at,
                   " of the data, but there are only ", data, " (cut short?)");
  }
  check<IoError>(at == data, file, ": ", data - at, " bytes follow the last tensor");
  if (!sums.empty()) check_sum(sums.size() == places.size(), file, "its header");
  for (std::size_t i = 0; i < sums.size(); ++i) places[i].checksum = sums[i];
  metadata = std::move(reader.header.metadata);
  metadata.erase(std::string(checksums::kKey));
  return places;
}

// The tensors of a file; `data`: where their bytes begin.
std::vector<Place> read_header(const InputFile& file, std::uint64_t& data,
                               std::map<std::string, std::string>& metadata) {
  std::byte first[8] = {};
  file.read(0, std::span(first).first(std::min<std::uint64_t>(file.size(), 8)));
  const std::uint64_t length = header_length(first, file.size(), file.name());
  std::string text(length, '\0');
  file.read(8, std::as_writable_bytes(std::span(text)));
  data = 8 + length;
  return parse_header(text, file.size() - data, file.name(), metadata);
}

// --- tensors
// The bytes of a tensor in pieces that stay in a cache, so that memory is read once: room(done, n)
// says where the next n go, use(piece) takes them. `data`: where the file's data begin.
template <class Room, class Use>
void read_pieces(const InputFile& file, std::uint64_t data, const Place& p, Room&& room,
                 Use&& use) {
  Xxh3 hash;
  for (std::uint64_t done = 0; done < p.bytes;) {
    const auto n = std::min<std::uint64_t>(checksums::kPiece, p.bytes - done);
    const std::span<std::byte> piece(room(done), n);
    file.read(data + p.begin + done, piece);
    if (!p.checksum.empty()) hash.add(piece);
    use(done, piece);
    done += n;
  }
  check_sum(p.checksum.empty() || checksums::digits(hash.digest()) == p.checksum, file.name(),
            "tensor " + quoted(p.name));
}

Tensor read_tensor(const InputFile& file, std::uint64_t data, const Place& p) {
  Tensor tensor = Tensor::empty(p.shape, *p.read_as);
  if (!p.rounded) {
    auto* to = static_cast<std::byte*>(tensor.data());
    read_pieces(
        file, data, p, [&](std::uint64_t done) { return to + done; },
        [](std::uint64_t, std::span<const std::byte>) {});
    return tensor;
  }
  std::vector<double> wide(checksums::kPiece / sizeof(double));
  read_pieces(
      file, data, p, [&](std::uint64_t) { return reinterpret_cast<std::byte*>(wide.data()); },
      [&](std::uint64_t done, std::span<const std::byte> piece) {
        std::transform(wide.begin(), wide.begin() + static_cast<std::ptrdiff_t>(piece.size() / 8),
                       tensor.as<float>() + done / 8,
                       [](double x) { return static_cast<float>(x); });
      });
  return tensor;
}

}  // namespace

const Tensor* SafeTensors::find(const std::string& name) const {
  const auto at = std::ranges::find(tensors, name, &NamedTensor::name);
  return at == tensors.end() ? nullptr : &at->tensor;
}

SafeTensors read_safetensors(const InputFile& file) {
  SafeTensors out;
  std::uint64_t data = 0;
  int rounded = 0;
  for (const Place& p : read_header(file, data, out.metadata)) {
    if (p.read_as)
      out.tensors.push_back({p.name, read_tensor(file, data, p)});
    else
      out.unread.push_back({p.name, p.kind});
    rounded += p.rounded;
  }
  if (rounded > 0)
    out.notes.push_back(file.name() + ": " + counted(rounded, "tensor") + " of f64 rounded to f32");
  return out;
}

SafeTensors parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  return read_safetensors(InputFile(bytes, name));
}

SafeTensors read_safetensors(const std::filesystem::path& path) {
  return read_safetensors(InputFile(path));
}

std::map<std::string, std::string> read_safetensors_metadata(const std::filesystem::path& path) {
  std::map<std::string, std::string> metadata;
  std::uint64_t data = 0;
  read_header(InputFile(path), data, metadata);
  return metadata;
}

void check_safetensors(const std::filesystem::path& path) {
  const InputFile file(path);
  std::map<std::string, std::string> metadata;
  std::uint64_t data = 0;
  std::vector<std::byte> room(checksums::kPiece);
  for (const Place& p : read_header(file, data, metadata))
    read_pieces(
        file, data, p, [&](std::uint64_t) { return room.data(); },
        [](std::uint64_t, std::span<const std::byte>) {});
}

}  // namespace gossamer
