// Reading safetensors files. The header is untrusted: every rule of the format is checked before a
// byte of data is used.
#include "gossamer/core/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

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
  bool stop(std::string text) {
    problem = std::move(text);
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

const char* const kKnownTypes[] = {
    "BOOL",        "F4",          "F6_E2M3", "F6_E3M2", "I8",  "F8_E5M2", "F8_E4M3", "F8_E8M0",
    "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16",     "U16",     "U32", "C64",     "F64",     "U64"};

std::optional<DType> type_of(const std::string& name) {
  if (name == "F32") return DType::f32;
  if (name == "BF16") return DType::bf16;
  if (name == "F16") return DType::f16;
  if (name == "U8") return DType::u8;
  if (name == "I32") return DType::i32;
  if (name == "I64") return DType::i64;
  return std::nullopt;
}

struct Place {
  std::string name;
  DType type;
  Shape shape;
  std::uint64_t begin, bytes;
};

Place place_of(const Entry& e, const std::string& file) {
  const auto type = type_of(e.type);
  if (!type) {
    const bool known = std::ranges::find(kKnownTypes, e.type) != std::end(kKnownTypes);
    fail<IoError>(
        file, ": tensor \"", e.name, "\" has type \"", e.type.substr(0, 40), "\", which ",
        known ? "Gossamer does not read; convert it to F32 first" : "safetensors does not know");
  }
  check<IoError>(e.shape.size() <= Shape::max_rank, file, ": tensor \"", e.name, "\" has ",
                 e.shape.size(), " dimensions; at most ", Shape::max_rank, " are supported");
  std::uint64_t bytes = size_of(*type);
  i64 extents[Shape::max_rank] = {};
  for (std::size_t d = 0; d < e.shape.size(); ++d) {
    // A zero extent elsewhere must not hide an absurd one, so each extent is bounded on its own
    // too.
    const bool overflow =
        e.shape[d] > static_cast<std::uint64_t>(std::numeric_limits<i64>::max()) ||
        __builtin_mul_overflow(bytes, e.shape[d], &bytes);
    check<IoError>(!overflow, file, ": the size of tensor \"", e.name, "\" overflows 64 bits");
    extents[d] = static_cast<i64>(e.shape[d]);
  }
  check<IoError>(e.begin <= e.end && e.end - e.begin == bytes, file, ": tensor \"", e.name,
                 "\" has data_offsets [", e.begin, ", ", e.end, "], but its type and shape take ",
                 bytes, " bytes");
  return {e.name, *type, Shape::of(extents, static_cast<int>(e.shape.size())), e.begin, bytes};
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

// All tensors in the order of their bytes; together they cover [0, data) exactly.
std::vector<Place> parse_header(std::string_view text, std::uint64_t data, const std::string& file,
                                std::map<std::string, std::string>& metadata) {
  check<IoError>(!text.empty() && text.front() == '{', file,
                 ": the header does not start with '{': not a safetensors file");
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
    check<IoError>(p.begin == at, file, ": the data of tensor \"", p.name, "\" starts at ", p.begin,
                   ", but the one before it ends at ", at,
                   p.begin > at ? " (a hole)" : " (an overlap)");
    at += p.bytes;  // no overflow: begin + bytes == end was checked
    check<IoError>(at <= data, file, ": tensor \"", p.name, "\" ends at byte ", at,
                   " of the data, but there are only ", data, " (cut short?)");
  }
  check<IoError>(at == data, file, ": ", data - at, " bytes follow the last tensor");
  metadata = std::move(reader.header.metadata);
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

}  // namespace

const Tensor* SafeTensors::find(const std::string& name) const {
  const auto at = std::ranges::find(tensors, name, &NamedTensor::name);
  return at == tensors.end() ? nullptr : &at->tensor;
}

SafeTensors read_safetensors(const InputFile& file) {
  SafeTensors out;
  std::uint64_t data = 0;
  for (const Place& p : read_header(file, data, out.metadata)) {
    Tensor tensor = Tensor::empty(p.shape, p.type);
    file.read(data + p.begin, {static_cast<std::byte*>(tensor.data()), p.bytes});
    out.tensors.push_back({p.name, std::move(tensor)});
  }
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

}  // namespace gossamer
