// Files as torch.save writes them, byte by byte, so that tests can also make damaged ones.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

#include "gossamer/core/tensor.h"

namespace gossamer {

template <class T>
std::string raw(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

struct ZipParts {
  std::string name, bytes;
};

// Stored entries. zip64: sizes, positions and the end of the directory in their 64-bit forms.
inline std::string zip_bytes(const std::vector<ZipParts>& entries, bool zip64 = false) {
  std::string file, directory;
  const std::string all32 = raw<std::uint32_t>(0xffffffff);
  for (const auto& [name, bytes] : entries) {
    const std::string at = raw(static_cast<std::uint32_t>(file.size())),
                      size = raw(static_cast<std::uint32_t>(bytes.size())),
                      crc = raw(static_cast<std::uint32_t>(
                          crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()))),
                      length = raw(static_cast<std::uint16_t>(name.size()));
    const std::uint64_t offset = file.size();
    // version, flags, method, time and date
    const std::string head = std::string(2, '\0') + raw<std::uint16_t>(0x0800) +
                             raw<std::uint16_t>(0) + std::string(4, '\0') + crc;
    const std::string extra = zip64 ? raw<std::uint16_t>(1) + raw<std::uint16_t>(24) +
                                          raw<std::uint64_t>(bytes.size()) +
                                          raw<std::uint64_t>(bytes.size()) + raw(offset)
                                    : "";
    file += "PK\3\4" + head + size + size + length + raw<std::uint16_t>(0) + name + bytes;
    directory += "PK\1\2" + std::string(2, '\0') + head + (zip64 ? all32 + all32 : size + size) +
                 length + raw(static_cast<std::uint16_t>(extra.size())) + std::string(10, '\0') +
                 (zip64 ? all32 : at) + name + extra;
  }
  const std::uint64_t at = file.size();
  file += directory;
  if (zip64) {
    const std::uint64_t end = file.size();
    file += "PK\6\6" + raw<std::uint64_t>(44) + std::string(4, '\0') + std::string(8, '\0') +
            raw<std::uint64_t>(entries.size()) + raw<std::uint64_t>(entries.size()) +
            raw<std::uint64_t>(directory.size()) + raw(at);
    file += "PK\6\7" + std::string(4, '\0') + raw(end) + raw<std::uint32_t>(1);
  }
  const std::string count = raw(static_cast<std::uint16_t>(zip64 ? 0xffff : entries.size()));
  return file + "PK\5\6" + std::string(4, '\0') + count + count +
         (zip64 ? all32 + all32
                : raw(static_cast<std::uint32_t>(directory.size())) +
                      raw(static_cast<std::uint32_t>(at))) +
         std::string(2, '\0');
}

// --- parts of a pickle
namespace pickled {

inline std::string text(std::string_view s) {
  return "X" + raw(static_cast<std::uint32_t>(s.size())) + std::string(s);
}
inline std::string number(i64 n) { return "\x8a\x08" + raw(n); }
inline std::string tuple(const std::string& parts) { return "(" + parts + "t"; }
inline std::string dict(const std::string& parts) { return "}(" + parts + "u"; }
inline std::string whole(const std::string& value) { return "\x80\x02" + value + "."; }

// Key, type ("Float" …) and number of elements of a storage; offset, size and stride of the tensor.
struct Window {
  std::string key, type;
  i64 elements = 0, offset = 0;
  std::vector<i64> size{}, stride{};
};
inline std::string tensor(const Window& w) {
  const auto list = [](const std::vector<i64>& values) {
    std::string out;
    for (const i64 v : values) out += number(v);
    return tuple(out);
  };
  const std::string storage = tuple(text("storage") + "ctorch\n" + w.type + "Storage\n" +
                                    text(w.key) + text("cpu") + number(w.elements)) +
                              "Q";
  return "ctorch._utils\n_rebuild_tensor_v2\n" +
         tuple(storage + number(w.offset) + list(w.size) + list(w.stride) + "\x89" +
               "ccollections\nOrderedDict\n)R") +
         "R";
}

}  // namespace pickled

// The pickle of a state dict, each tensor with its own storage, which is added to `entries`.
inline std::string state_dict(const std::vector<NamedTensor>& tensors,
                              std::vector<ZipParts>& entries) {
  std::string items;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i].tensor;
    const std::string key = std::to_string(entries.size());
    const char* type = t.dtype() == DType::f32    ? "Float"
                       : t.dtype() == DType::bf16 ? "BFloat16"
                       : t.dtype() == DType::f16  ? "Half"
                       : t.dtype() == DType::i64  ? "Long"
                       : t.dtype() == DType::i32  ? "Int"
                                                  : "Byte";
    pickled::Window window{.key = key, .type = type, .elements = t.numel()};
    i64 step = 1;
    for (int d = t.rank() - 1; d >= 0; --d) {
      window.size.insert(window.size.begin(), t.shape(d));
      window.stride.insert(window.stride.begin(), step);
      step *= t.shape(d);
    }
    items += pickled::text(tensors[i].name) + pickled::tensor(window);
    entries.push_back(
        {"archive/data/" + key, std::string(static_cast<const char*>(t.data()), t.bytes())});
  }
  return pickled::dict(items);
}

// A whole file of several state dicts.
inline std::string torch_bytes_of(
    const std::vector<std::pair<std::string, std::vector<NamedTensor>>>& state_dicts) {
  std::vector<ZipParts> entries{{"archive/data.pkl", ""}, {"archive/byteorder", "little"}};
  std::string items;
  for (const auto& [name, tensors] : state_dicts)
    items += pickled::text(name) + state_dict(tensors, entries);
  entries[0].bytes = pickled::whole(pickled::dict(items));
  return zip_bytes(entries);
}

// The whole file of a state dict below `wrapper` ("": at the top).
inline std::string torch_bytes(const std::vector<NamedTensor>& tensors,
                               const std::string& wrapper = "") {
  std::vector<ZipParts> entries{{"archive/data.pkl", ""}, {"archive/byteorder", "little"}};
  std::string value = state_dict(tensors, entries);
  if (!wrapper.empty())
    value = pickled::dict(pickled::text(wrapper) + value + pickled::text("epoch") + "K\7");
  entries[0].bytes = pickled::whole(value);
  return zip_bytes(entries);
}

}  // namespace gossamer
