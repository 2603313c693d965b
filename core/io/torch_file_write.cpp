// Writes what torch_file.h reads: the pickle of a state dict, and a zip archive around it.
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <string_view>

#include <zlib.h>

#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/io/torch_file.h"

namespace gossamer {
namespace {

template <class T>
std::string raw(T value) {  // little endian, as both formats want
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}
std::string u16(std::uint64_t v) { return raw(static_cast<std::uint16_t>(v)); }
std::string u32(std::uint64_t v) { return raw(static_cast<std::uint32_t>(v)); }

// --- pickle, protocol 2; Python's pickletools.py has the instructions
std::string text(std::string_view s) { return "X" + u32(s.size()) + std::string(s); }
std::string number(i64 n) { return "\x8a\x08" + raw(n); }
std::string tuple(const std::string& parts) { return "(" + parts + "t"; }
constexpr const char* kOrderedDict = "ccollections\nOrderedDict\n)R";

const char* storage_of(DType type) {
  switch (type) {
    case DType::f32:
      return "Float";
    case DType::bf16:
      return "BFloat16";
    case DType::f16:
      return "Half";
    case DType::u8:
      return "Byte";
    case DType::i32:
      return "Int";
    case DType::i64:
      return "Long";
  }
  return "";
}

// A tensor as torch pickles it: from the start of storage `key`, contiguous.
std::string pickled(const Tensor& t, const std::string& key) {
  std::string size, stride;
  i64 step = 1;
  for (int d = t.rank() - 1; d >= 0; --d) {
    size.insert(0, number(t.shape(d)));
    stride.insert(0, number(step));
    step *= t.shape(d);
  }
  const std::string storage = tuple(text("storage") + "ctorch\n" + storage_of(t.dtype()) +
                                    "Storage\n" + text(key) + text("cpu") + number(t.numel())) +
                              "Q";
  // storage, offset, size, stride, requires_grad, hooks
  return "ctorch._utils\n_rebuild_tensor_v2\n" +
         tuple(storage + number(0) + tuple(size) + tuple(stride) + "\x89" + kOrderedDict) + "R";
}

// --- zip: stored entries, whose bytes begin on 64 as in torch's own files
class Zip {
 public:
  void add(const std::string& name, std::string_view bytes) {
    const std::uint64_t at = bytes_.size(), before = at + 30 + name.size() + 4;
    const std::string padding((64 - before % 64) % 64, 'Z');
    const std::string checked =
        u16(0) + u16(0) + u32(0) +  // no flags, stored, no time
        u32(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size())) +
        u32(bytes.size()) + u32(bytes.size()) + u16(name.size());
    bytes_ += "PK\3\4" + u16(0) + checked + u16(4 + padding.size()) + name + "FB" +
              u16(padding.size()) + padding;
    bytes_ += bytes;
    directory_ += "PK\1\2" + u16(0) + u16(0) + checked + u16(0) + u16(0) + u16(0) + u16(0) +
                  u32(0) + u32(at) + name;
    ++entries_;
  }
  std::string finish() {
    const std::uint64_t at = bytes_.size();
    bytes_ += directory_;
    bytes_ += "PK\5\6" + u32(0) + u16(entries_) + u16(entries_) + u32(directory_.size()) + u32(at) +
              u16(0);
    return std::move(bytes_);
  }
  void reserve(std::size_t n) { bytes_.reserve(n); }

 private:
  std::string bytes_, directory_;
  std::uint64_t entries_ = 0;
};

}  // namespace

void write_torch_file(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  std::set<std::string> names;
  std::string items;
  std::size_t size = 1 << 16;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    check<IoError>(names.insert(name).second, path.string(), ": two tensors are called \"", name,
                   "\"");
    items += text(name) + pickled(tensor, std::to_string(i));
    size += tensor.bytes() + 512;
  }
  // Sizes and places have 32 bits, the number of entries 16.
  check<IoError>(size < std::numeric_limits<std::uint32_t>::max() && tensors.size() < 65000,
                 path.string(), ": ", tensors.size(), " tensors of ", size,
                 " bytes are too large for this format; use safetensors");
  Zip zip;
  zip.reserve(size);
  zip.add("archive/data.pkl", std::string("\x80\x02") + kOrderedDict + "(" + items + "u.");
  zip.add("archive/byteorder", "little");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor t = tensors[i].tensor.to(Device::cpu());
    zip.add("archive/data/" + std::to_string(i), {static_cast<const char*>(t.data()), t.bytes()});
  }
  zip.add("archive/version", "3\n");
  write_file(path, zip.finish());
}

}  // namespace gossamer
