// See torch_file.h. The format: torch/serialization.py, torch/_utils.py.
#include "gossamer/core/torch_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "gossamer/core/error.h"
#include "gossamer/core/pickle.h"
#include "gossamer/core/printable.h"
#include "gossamer/core/zip.h"

namespace gossamer {
namespace {

static_assert(std::endian::native == std::endian::little, "storages are copied as they are");

using Kind = Pickle::Kind;
using Value = Pickle::Value;

constexpr std::string_view kTensor = "torch._utils._rebuild_tensor_v2",
                           kParameter = "torch._utils._rebuild_parameter";

// What checkpoints of training hold besides tensors: options, folders, devices, milestones of
// schedules. They stay calls that nobody makes.
constexpr std::string_view kIgnored[] = {"argparse.Namespace", "pathlib.PosixPath",
                                         "pathlib._local.PosixPath", "torch.device",
                                         "collections.Counter"};

struct StorageType {
  std::string_view name;
  std::size_t bytes;           // of one element
  std::optional<DType> dtype;  // none: Gossamer lacks it
};
constexpr StorageType kStorages[] = {
    {"torch.FloatStorage", 4, DType::f32},         {"torch.DoubleStorage", 8, DType::f32},
    {"torch.HalfStorage", 2, DType::f16},          {"torch.BFloat16Storage", 2, DType::bf16},
    {"torch.LongStorage", 8, DType::i64},          {"torch.IntStorage", 4, DType::i32},
    {"torch.ByteStorage", 1, DType::u8},           {"torch.ShortStorage", 2, std::nullopt},
    {"torch.CharStorage", 1, std::nullopt},        {"torch.BoolStorage", 1, std::nullopt},
    {"torch.ComplexFloatStorage", 8, std::nullopt}};

std::vector<std::string_view> known_globals() {
  std::vector<std::string_view> names{kTensor, kParameter};
  for (const StorageType& s : kStorages) names.push_back(s.name);
  names.insert(names.end(), std::begin(kIgnored), std::end(kIgnored));
  return names;
}

bool is_call(const Pickle& pickle, const Value& v, std::string_view function) {
  return v.kind == Kind::call && pickle.part(v, 0).text == function;
}
bool is_tensor(const Pickle& pickle, const Value& v) {
  return is_call(pickle, v, kTensor) || is_call(pickle, v, kParameter);
}

class Reader {
 public:
  explicit Reader(const InputFile& file) : file_(file), entries_(zip_entries(file)) {
    find_root();
    if (const ZipEntry* order = entry("byteorder"))
      check<IoError>(content(*order, 16) == "little", file.name(),
                     ": written on a big-endian machine; save it again on another");
  }

  TorchFile read() {
    const ZipEntry& data = *entry("data.pkl");
    const std::string text = content(data, kPickleCap);
    const std::vector<std::string_view> globals = known_globals();
    const Pickle pickle(InputFile(std::as_bytes(std::span(text)), file_.name()),
                        {.globals = globals});
    const Value& dict = state_dict(pickle);
    std::set<std::string> names;
    for (std::size_t i = 0; i + 1 < dict.parts.size(); i += 2) {
      const Value &key = pickle.part(dict, i), &value = pickle.part(dict, i + 1);
      if (key.kind != Kind::text || !is_tensor(pickle, value)) continue;
      tensor_ = printable(key.text, 100);
      check<IoError>(names.insert(key.text).second, where(), "is there twice");
      out_.tensors.push_back({key.text, tensor(pickle, value)});
    }
    if (rounded_ > 0)
      out_.notes.push_back(file_.name() + ": " + std::to_string(rounded_) +
                           " tensors of f64 are rounded to f32");
    return std::move(out_);
  }

 private:
  static constexpr std::uint64_t kPickleCap = 64 << 20;

  // --- the archive
  // All names of entries begin with that of a folder, which is the name of the file when it was
  // saved.
  void find_root() {
    for (const ZipEntry& e : entries_)
      if (e.name.ends_with("/data.pkl") && std::ranges::count(e.name, '/') == 1) {
        check<IoError>(root_.empty(), file_.name(), ": holds two pickles, ", root_, "data.pkl and ",
                       printable(e.name, 100));
        root_ = e.name.substr(0, e.name.size() - 8);
      }
    check<IoError>(!root_.empty(), file_.name(),
                   ": a zip archive, but not of torch.save: there is no data.pkl in it");
    for (const ZipEntry& e : entries_) by_name_.emplace(e.name, &e);
    check<IoError>(!entry("constants.pkl"), file_.name(),
                   ": a TorchScript program. Save its weights alone: "
                   "torch.save(torch.jit.load(FILE).state_dict(), OTHER)");
  }
  const ZipEntry* entry(const std::string& name) const {
    const auto at = by_name_.find(root_ + name);
    return at == by_name_.end() ? nullptr : at->second;
  }
  std::string content(const ZipEntry& e, std::uint64_t cap) const {
    check<IoError>(e.size <= cap, file_.name(), ": ", printable(e.name, 100), " has ", e.size,
                   " bytes; the limit is ", cap);
    std::string text(e.size, '\0');
    read_zip_entry(file_, e, std::as_writable_bytes(std::span(text)));
    return text;
  }

  // --- which dict
  static bool holds_tensors(const Pickle& pickle, const Value& dict) {
    for (std::size_t i = 1; i < dict.parts.size(); i += 2)
      if (is_tensor(pickle, pickle.part(dict, i))) return dict.kind == Kind::dict;
    return false;
  }
  const Value& state_dict(const Pickle& pickle) {
    const Value& root = pickle.root();
    const Value* chosen = nullptr;
    std::string name, others;
    for (const char* wrapper : {"model", "state_dict", "state_dict_ema", "model_ema"}) {
      const Value* inner = pickle.find(root, wrapper);
      if (!inner || !holds_tensors(pickle, *inner)) continue;
      (chosen ? others : name) += (others.empty() ? "" : ", ") + std::string(wrapper);
      if (!chosen) chosen = inner;
    }
    if (!others.empty())
      out_.notes.push_back(file_.name() + ": the weights \"" + name + "\" are used, not " + others);
    if (chosen) return *chosen;
    if (holds_tensors(pickle, root)) return root;
    std::string keys;
    for (std::size_t i = 0;
         root.kind == Kind::dict && i < std::min<std::size_t>(16, root.parts.size()); i += 2)
      keys += (keys.empty() ? "" : ", ") + printable(pickle.part(root, i).text, 100);
    fail<IoError>(file_.name(), ": holds no state dict, but ",
                  root.kind == Kind::dict ? "a dict of: " + keys : "another object",
                  ". Wanted: names and tensors, as torch.save(model.state_dict(), FILE) writes "
                  "them, or such a dict as \"model\", \"state_dict\", \"state_dict_ema\" or "
                  "\"model_ema\"");
  }

  // --- tensors
  std::string where() const { return file_.name() + ": tensor \"" + tensor_ + "\" "; }

  // The arguments of a call, which are at least n.
  const Value& arguments(const Pickle& pickle, const Value& call, std::size_t n) const {
    const Value& all = pickle.part(call, 1);
    check<IoError>(all.parts.size() >= n, where(), "has ", all.parts.size(),
                   " arguments in the pickle, wanted ", n);
    return all;
  }
  i64 whole(const Value& v, const char* what) const {
    check<IoError>(v.kind == Kind::integer && v.integer >= 0, where(), "has a ", what,
                   " that is no whole number from 0");
    return v.integer;
  }
  std::vector<i64> wholes(const Pickle& pickle, const Value& tuple, const char* what) const {
    check<IoError>(tuple.kind == Kind::tuple && tuple.parts.size() <= Shape::max_rank, where(),
                   "has ", tuple.parts.size(), " dimensions in its ", what, "; at most ",
                   Shape::max_rank, " are supported");
    std::vector<i64> out;
    for (std::size_t i = 0; i < tuple.parts.size(); ++i)
      out.push_back(whole(pickle.part(tuple, i), what));
    return out;
  }

  Tensor tensor(const Pickle& pickle, const Value& call) {
    const Value* rebuild = &call;
    if (is_call(pickle, call, kParameter)) {
      const Value& parameter = arguments(pickle, call, 1);
      rebuild = &pickle.part(parameter, 0);
      check<IoError>(is_call(pickle, *rebuild, kTensor), where(),
                     "is a parameter without a tensor");
    }
    // storage, offset, size, stride, requires_grad, hooks
    const Value& a = arguments(pickle, *rebuild, 4);
    const Tensor& data = storage(pickle, pickle.part(a, 0));
    const i64 offset = whole(pickle.part(a, 1), "offset");
    const auto sizes = wholes(pickle, pickle.part(a, 2), "size");
    const auto strides = wholes(pickle, pickle.part(a, 3), "stride");
    check<IoError>(sizes.size() == strides.size(), where(), "has ", sizes.size(), " sizes and ",
                   strides.size(), " strides");
    // Elements that it has, and the last one in the storage that it reaches.
    i64 count = 1, last = offset, dense = 1;
    bool overflow = false, contiguous = true;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      i64 reach = 0;
      overflow |= __builtin_mul_overflow(std::max<i64>(0, sizes[d] - 1), strides[d], &reach) ||
                  __builtin_add_overflow(last, reach, &last) ||
                  __builtin_mul_overflow(count, sizes[d], &count);
      contiguous &= sizes[d] == 1 || strides[d] == dense;
      overflow |= __builtin_mul_overflow(dense, std::max<i64>(1, sizes[d]), &dense);
    }
    check<IoError>(!overflow, where(), "is larger than 64 bits can count");
    const Shape shape = Shape::of(sizes.data(), static_cast<int>(sizes.size()));
    if (count == 0) return Tensor::empty(shape, data.dtype());
    check<IoError>(last < data.numel(), where(), "reaches element ", last,
                   " of its storage, which has ", data.numel());
    if (contiguous) return data.slice(offset, offset + count).reshape(shape);
    // Repeated elements (a stride of 0, many views of one storage) could make a small file large.
    gathered_ += static_cast<std::uint64_t>(count) * size_of(data.dtype());
    check<IoError>(gathered_ <= 4 * file_.size(), where(),
                   "repeats elements of its storage; save a copy of it: tensor.contiguous()");
    return gather(data, offset, shape, strides);
  }

  // The elements of a strided tensor (channels_last, transposed) in order.
  static Tensor gather(const Tensor& data, i64 offset, const Shape& shape,
                       const std::vector<i64>& strides) {
    const std::size_t size = size_of(data.dtype());
    Tensor out = Tensor::empty(shape, data.dtype());
    const auto* from = static_cast<const std::byte*>(data.data());
    auto* to = static_cast<std::byte*>(out.data());
    i64 index[Shape::max_rank] = {};
    for (i64 n = out.numel(), at = offset; n > 0; --n, to += size) {
      std::memcpy(to, from + static_cast<std::size_t>(at) * size, size);
      for (int d = shape.rank() - 1; d >= 0; --d) {
        const i64 stride = strides[static_cast<std::size_t>(d)];
        at += stride;
        if (++index[d] < shape[d]) break;
        at -= stride * shape[d];
        index[d] = 0;
      }
    }
    return out;
  }

  // ('storage', type, key, device, elements) -> [elements]. Tensors that share it are windows on
  // it.
  const Tensor& storage(const Pickle& pickle, const Value& v) {
    const bool described = v.kind == Kind::outside && pickle.part(v, 0).parts.size() == 5 &&
                           pickle.part(v, 0).kind == Kind::tuple;
    check<IoError>(described, where(), "has no storage in the file");
    const Value& what = pickle.part(v, 0);
    const Value& key = pickle.part(what, 2);
    const std::string& type_name = pickle.part(what, 1).text;
    const auto* type = std::ranges::find(kStorages, type_name, &StorageType::name);
    check<IoError>(type != std::end(kStorages) && key.kind == Kind::text, where(),
                   "has a storage of an unknown kind");
    check<IoError>(type->dtype.has_value(), where(), "is a ", type_name,
                   ", a type that Gossamer does not read; convert it to float32 first");
    const i64 elements = whole(pickle.part(what, 4), "number of elements");
    const auto known = storages_.find(key.text);
    if (known != storages_.end()) {
      check<IoError>(known->second.type == type && known->second.data.numel() == elements, where(),
                     "shares storage ", printable(key.text, 100),
                     ", which has another type or size there");
      rounded_ += type->bytes == 8 && type->dtype == DType::f32;
      return known->second.data;
    }
    const ZipEntry* e = entry("data/" + key.text);
    check<IoError>(e != nullptr, where(), "wants the entry ",
                   printable(root_ + "data/" + key.text, 100), ", which is missing");
    check<IoError>(
        e->size % type->bytes == 0 && e->size / type->bytes == static_cast<std::uint64_t>(elements),
        where(), "wants ", elements, " elements of ", type->bytes, " bytes, but ",
        printable(e->name, 100), " has ", e->size, " bytes");
    Tensor data = Tensor::empty({elements}, *type->dtype);
    if (type->bytes == size_of(*type->dtype)) {
      read_zip_entry(file_, *e, {static_cast<std::byte*>(data.data()), e->size});
    } else {  // f64
      std::vector<double> wide(static_cast<std::size_t>(elements));
      read_zip_entry(file_, *e, std::as_writable_bytes(std::span(wide)));
      std::ranges::transform(wide, data.as<float>(),
                             [](double x) { return static_cast<float>(x); });
      ++rounded_;
    }
    return storages_.emplace(key.text, Storage{type, std::move(data)}).first->second.data;
  }

  struct Storage {
    const StorageType* type;
    Tensor data;
  };
  const InputFile& file_;
  const std::vector<ZipEntry> entries_;
  std::map<std::string, const ZipEntry*> by_name_;
  std::string root_, tensor_;
  std::map<std::string, Storage> storages_;
  std::uint64_t gathered_ = 0;
  int rounded_ = 0;
  TorchFile out_;
};

// The first bytes of files before torch 1.6: a pickle of this number.
constexpr unsigned char kLegacy[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
                                     0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

bool begins(const InputFile& file, std::span<const unsigned char> with) {
  std::byte first[sizeof kLegacy];
  const auto head = std::span(first).first(with.size());
  if (file.size() < head.size()) return false;
  file.read(0, head);
  return std::memcmp(head.data(), with.data(), with.size()) == 0;
}

// Not the length of a safetensors header, which would be followed by '{': this byte, the method of
// the first entry, is a small number.
bool is_zip(const InputFile& file) {
  constexpr unsigned char kZip[] = {'P', 'K', 3, 4};
  if (!begins(file, kZip) || file.size() < 9) return false;
  std::byte method{};
  file.read(8, {&method, 1});
  return method != std::byte{'{'};
}

}  // namespace

bool is_torch_file(const InputFile& file) { return is_zip(file) || begins(file, kLegacy); }

TorchFile read_torch_file(const InputFile& file) {
  check<IoError>(!begins(file, kLegacy), file.name(),
                 ": written by torch before 1.6, or with _use_new_zipfile_serialization=False. "
                 "Save it again with torch 1.6 or newer: "
                 "torch.save(torch.load(FILE, map_location=\"cpu\"), OTHER), or convert it to "
                 "safetensors");
  check<IoError>(is_zip(file), file.name(), ": not a file of torch.save");
  return Reader(file).read();
}

}  // namespace gossamer
