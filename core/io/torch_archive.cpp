// See torch_archive.h. The formats: torch/serialization.py; what torch.load(weights_only=True) lets
// a pickle name: torch/_weights_only_unpickler.py.
#include "gossamer/core/io/torch_archive.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/core/io/zip.h"
#include "gossamer/core/text/printable.h"

namespace gossamer {
namespace {

using Kind = Pickle::Kind;
using Value = Pickle::Value;

constexpr std::uint64_t kPickleCap = 64 << 20;

constexpr TorchStorageType kStorages[] = {{"torch.FloatStorage", 4, DType::f32},
                                          {"torch.DoubleStorage", 8, DType::f32},
                                          {"torch.HalfStorage", 2, DType::f16},
                                          {"torch.BFloat16Storage", 2, DType::bf16},
                                          {"torch.LongStorage", 8, DType::i64},
                                          {"torch.IntStorage", 4, DType::i32},
                                          {"torch.ByteStorage", 1, DType::u8},
                                          {"torch.ShortStorage", 2, std::nullopt},
                                          {"torch.CharStorage", 1, std::nullopt},
                                          {"torch.BoolStorage", 1, std::nullopt},
                                          {"torch.ComplexFloatStorage", 8, std::nullopt},
                                          {"torch.ComplexDoubleStorage", 16, std::nullopt},
                                          {"torch.QInt8Storage", 1, std::nullopt},
                                          {"torch.QUInt8Storage", 1, std::nullopt},
                                          {"torch.QInt32Storage", 4, std::nullopt},
                                          {"torch.storage.UntypedStorage", 1, std::nullopt}};

// Names that a pickle may contain. Nobody calls them. They say how tensors are made, and what
// checkpoints of training hold besides them (options, folders, devices, seeds, figures).
constexpr std::string_view kNames[] = {"torch._utils._rebuild_tensor",
                                       "torch._utils._rebuild_tensor_v2",
                                       "torch._utils._rebuild_tensor_v3",
                                       "torch._utils._rebuild_parameter",
                                       "torch._utils._rebuild_parameter_with_state",
                                       "torch._utils._rebuild_qtensor",
                                       "torch._utils._rebuild_sparse_tensor",
                                       "torch._utils._rebuild_meta_tensor_no_storage",
                                       "torch._utils._rebuild_wrapper_subclass",
                                       "torch._utils._rebuild_device_tensor_from_numpy",
                                       "torch._utils._rebuild_device_tensor_from_cpu_tensor",
                                       "torch._tensor._rebuild_from_type_v2",
                                       "torch.nn.parameter.Parameter",
                                       "torch.serialization._get_layout",
                                       "torch.Size",
                                       "torch.Tensor",
                                       "torch.device",
                                       "collections.Counter",
                                       "_codecs.encode",
                                       "builtins.bytearray",
                                       "builtins.complex",
                                       "builtins.frozenset",
                                       "builtins.slice",
                                       "builtins.range",
                                       "argparse.Namespace",
                                       "pathlib.PosixPath",
                                       "pathlib._local.PosixPath",
                                       "pathlib.WindowsPath",
                                       "pathlib._local.WindowsPath",
                                       "datetime.datetime",
                                       "datetime.timedelta",
                                       "numpy.core.multiarray.scalar",
                                       "numpy._core.multiarray.scalar",
                                       "numpy.core.multiarray._reconstruct",
                                       "numpy._core.multiarray._reconstruct",
                                       "numpy.ndarray",
                                       "numpy.dtype",
                                       "torch.per_tensor_affine",
                                       "torch.per_tensor_symmetric",
                                       "torch.per_channel_affine",
                                       "torch.per_channel_symmetric",
                                       "torch.per_channel_affine_float_qparams"};
constexpr std::string_view kTypes[] = {"float16",
                                       "float32",
                                       "float64",
                                       "bfloat16",
                                       "uint8",
                                       "uint16",
                                       "uint32",
                                       "uint64",
                                       "int8",
                                       "int16",
                                       "int32",
                                       "int64",
                                       "bool",
                                       "complex32",
                                       "complex64",
                                       "complex128",
                                       "float8_e4m3fn",
                                       "float8_e5m2",
                                       "float8_e4m3fnuz",
                                       "float8_e5m2fnuz",
                                       "float8_e8m0fnu",
                                       "float4_e2m1fn_x2",
                                       "qint8",
                                       "quint8",
                                       "qint32",
                                       "quint4x2",
                                       "quint2x4",
                                       "bits1x8",
                                       "bits2x4",
                                       "bits4x2",
                                       "bits8",
                                       "bits16"};
constexpr std::string_view kTensors[] = {"Float", "Double", "Half", "BFloat16", "Long",
                                         "Int",   "Short",  "Char", "Byte",     "Bool"};

const std::vector<std::string_view>& known_globals() {
  static const std::vector<std::string> made = [] {
    std::vector<std::string> names(std::begin(kNames), std::end(kNames));
    for (const TorchStorageType& s : kStorages) {
      names.emplace_back(s.name);
      names.push_back("torch.cuda." + names.back().substr(6));
    }
    for (const std::string_view type : kTypes) names.push_back("torch." + std::string(type));
    for (const std::string_view type : kTensors)
      for (const char* where : {"torch.", "torch.cuda.", "torch.sparse.", "torch.cuda.sparse."})
        names.push_back(where + std::string(type) + "Tensor");
    return names;
  }();
  static const std::vector<std::string_view> views(made.begin(), made.end());
  return views;
}

class ZipForm : public TorchArchive {
 public:
  explicit ZipForm(const InputFile& file) : file_(file) {
    // TorchScript compresses its code, so this comes before what torch.save does not do.
    for (const std::string& name : zip_names(file))
      check<IoError>(!name.ends_with("/constants.pkl"), file.name(),
                     ": a TorchScript program. Save its weights alone: "
                     "torch.save(torch.jit.load(FILE).state_dict(), OTHER)");
    entries_ = zip_entries(file);
    find_root();
    if (const ZipEntry* order = entry("byteorder"))
      check<IoError>(content(*order, 16) == "little", file.name(),
                     ": written on a big-endian machine; save it again on another");
    const std::string text = content(*entry("data.pkl"), kPickleCap);
    pickle_.emplace(InputFile(std::as_bytes(std::span(text)), file.name()),
                    Pickle::Rules{.globals = known_globals()});
  }
  const Pickle& pickle() const override { return *pickle_; }
  void read(const TorchStorage& s, std::span<std::byte> to,
            const std::string& where) const override {
    const ZipEntry* e = entry("data/" + s.key);
    check<IoError>(e != nullptr, where, "wants the entry ", printable(root_ + "data/" + s.key, 100),
                   ", which is missing");
    check<IoError>(e->size == to.size(), where, "wants ", s.elements, " elements of ",
                   s.type->bytes, " bytes, but ", printable(e->name, 100), " has ", e->size,
                   " bytes");
    read_zip_entry(file_, *e, to);
  }

 private:
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

  const InputFile& file_;
  std::vector<ZipEntry> entries_;
  std::map<std::string, const ZipEntry*> by_name_;
  std::string root_;
  std::optional<Pickle> pickle_;
};

// Before torch 1.6: pickles of a number, of the version, of the machine, of the object, of the list
// of the storages' keys; then in this order each storage: i64 elements, and its bytes.
class LegacyForm : public TorchArchive {
 public:
  explicit LegacyForm(const InputFile& file) : file_(file) {
    const Pickle::Rules rules{.globals = known_globals()};
    std::uint64_t at = Pickle(file, rules).end();
    const Pickle version(file, rules, at);
    check<IoError>(version.root().integer == 1001, file.name(), ": its version is ",
                   version.root().integer, ", wanted 1001 (damaged?)");
    const Pickle machine(file, rules, version.end());
    const Value* little = machine.find(machine.root(), "little_endian");
    check<IoError>(!little || little->integer != 0, file.name(),
                   ": written on a big-endian machine; save it again on another");
    pickle_.emplace(file, rules, machine.end());
    const Pickle keys(file, rules, pickle_->end());
    check<IoError>(keys.root().kind == Kind::list, file.name(),
                   ": the list of its storages is missing (damaged?)");
    std::map<std::string, TorchStorage> known;
    for (const Value& v : pickle_->values())
      if (v.kind == Kind::outside)
        if (auto s = torch_storage(*pickle_, v)) known.emplace(s->key, std::move(*s));
    at = keys.end();
    for (std::size_t i = 0; i < keys.root().parts.size(); ++i) {
      const std::string& key = keys.part(keys.root(), i).text;
      const auto s = known.find(key);
      check<IoError>(s != known.end(), file.name(), ": nothing says of which type its storage ",
                     printable(key, 100), " is");
      std::int64_t elements = 0;
      file.read(at, std::as_writable_bytes(std::span(&elements, 1)));
      at += sizeof elements;
      check<IoError>(elements == s->second.elements, file.name(), ": storage ", printable(key, 100),
                     " has ", elements, " elements, wanted ", s->second.elements, " (damaged?)");
      const std::uint64_t bytes = static_cast<std::uint64_t>(elements) * s->second.type->bytes;
      check<IoError>(elements >= 0 && static_cast<std::uint64_t>(elements) <=
                                          (file.size() - at) / s->second.type->bytes,
                     file.name(), ": storage ", printable(key, 100),
                     " ends beyond the end of the file (cut short?)");
      begin_.emplace(key, at);
      at += bytes;
    }
    check<IoError>(at == file.size(), file.name(), ": ", file.size() - at,
                   " bytes follow its last storage");
  }
  const Pickle& pickle() const override { return *pickle_; }
  void read(const TorchStorage& s, std::span<std::byte> to,
            const std::string& where) const override {
    const auto at = begin_.find(s.key);
    check<IoError>(at != begin_.end(), where, "wants the storage ", printable(s.key, 100),
                   ", which is missing");
    file_.read(at->second, to);
  }

 private:
  const InputFile& file_;
  std::map<std::string, std::uint64_t> begin_;
  std::optional<Pickle> pickle_;
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

// A safetensors file may begin with the same bytes, the length of its header; but then '{' follows,
// where a zip archive has a small number, the method of its first entry.
bool is_zip(const InputFile& file) {
  constexpr unsigned char kZip[] = {'P', 'K', 3, 4};
  if (!begins(file, kZip) || file.size() < 9) return false;
  std::byte method{};
  file.read(8, {&method, 1});
  return method != std::byte{'{'};
}

// Whether it is a tar archive, as torch wrote before 0.1.10.
bool is_tar(const InputFile& file) {
  char mark[5] = {};
  if (file.size() < 512) return false;
  file.read(257, std::as_writable_bytes(std::span(mark)));
  return std::memcmp(mark, "ustar", 5) == 0;
}

}  // namespace

std::optional<TorchStorage> torch_storage(const Pickle& pickle, const Value& v) {
  if (v.kind != Kind::outside) return std::nullopt;
  const Value& what = pickle.part(v, 0);
  if (what.kind != Kind::tuple || what.parts.size() < 5) return std::nullopt;
  std::string type = pickle.part(what, 1).text;
  if (type.starts_with("torch.cuda.")) type.erase(6, 5);
  TorchStorage s;
  s.type = std::ranges::find(kStorages, type, &TorchStorageType::name);
  s.key = pickle.part(what, 2).text;
  const Value& elements = pickle.part(what, 4);
  if (s.type == std::end(kStorages) || elements.kind != Kind::integer || elements.integer < 0)
    return std::nullopt;
  s.elements = s.size = elements.integer;
  // (key, begin, size)
  if (what.parts.size() > 5 && pickle.part(what, 5).parts.size() == 3) {
    const Value& window = pickle.part(what, 5);
    s.begin = pickle.part(window, 1).integer;
    s.size = pickle.part(window, 2).integer;
    if (s.begin < 0 || s.size < 0 || s.begin > s.elements || s.size > s.elements - s.begin)
      return std::nullopt;
  }
  return s;
}

bool TorchArchive::is_one(const InputFile& file) {
  return is_zip(file) || begins(file, kLegacy) || is_tar(file);
}

std::unique_ptr<TorchArchive> TorchArchive::open(const InputFile& file) {
  if (is_zip(file)) return std::make_unique<ZipForm>(file);
  if (begins(file, kLegacy)) return std::make_unique<LegacyForm>(file);
  check<IoError>(!is_tar(file), file.name(),
                 ": a tar archive: if torch wrote it, that was before its version 0.1.10. Save it "
                 "again with a newer one: torch.save(torch.load(FILE), OTHER)");
  return nullptr;
}

}  // namespace gossamer
