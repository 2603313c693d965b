// See torch_file.h. What the pickle's calls mean: torch/_utils.py.
#include "gossamer/core/io/torch_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "gossamer/core/error.h"
#include "gossamer/core/io/pickle.h"
#include "gossamer/core/io/torch_archive.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/core/text/printable.h"

namespace gossamer {
namespace {

static_assert(std::endian::native == std::endian::little, "storages are copied as they are");

using Kind = Pickle::Kind;
using Value = Pickle::Value;

// What checkpoints call the dict of the weights, averages of them last.
constexpr std::string_view kUsual[] = {"model",
                                       "state_dict",
                                       "model_state_dict",
                                       "model_state",
                                       "net",
                                       "network",
                                       "module",
                                       "weights",
                                       "params",
                                       "state_dict_ema",
                                       "model_ema",
                                       "ema",
                                       "ema_state_dict",
                                       "model_ema_state_dict",
                                       "params_ema"};

bool is_call(const Pickle& pickle, const Value& v, std::string_view function) {
  return v.kind == Kind::call && pickle.part(v, 0).text == function;
}
// Every kind of tensor, also those that we cannot read.
bool is_tensor(const Pickle& pickle, const Value& v) {
  return v.kind == Kind::call && (pickle.part(v, 0).text.starts_with("torch._utils._rebuild_") ||
                                  is_call(pickle, v, "torch._tensor._rebuild_from_type_v2"));
}
std::size_t tensors_in(const Pickle& pickle, const Value& dict) {
  std::size_t n = 0;
  for (std::size_t i = 1; dict.kind == Kind::dict && i < dict.parts.size(); i += 2)
    n += is_tensor(pickle, pickle.part(dict, i));
  return n;
}
bool is_name(const Value& key) { return key.kind == Kind::text || key.kind == Kind::bytes; }

struct StateDict {
  std::string name;  // "model", "ema.module"; of the whole object: empty
  const Value* dict;
};

// The dicts that hold tensors, two levels deep: what is deeper is the state of an optimizer.
void find_state_dicts(const Pickle& pickle, const Value& dict, const std::string& before,
                      std::vector<StateDict>& out) {
  for (std::size_t i = 0; dict.kind == Kind::dict && i + 1 < dict.parts.size(); i += 2) {
    const Value &key = pickle.part(dict, i), &value = pickle.part(dict, i + 1);
    if (!is_name(key) || value.kind != Kind::dict) continue;
    const std::string name = before + key.text;
    if (tensors_in(pickle, value) > 0)
      out.push_back({name, &value});
    else if (before.empty())
      find_state_dicts(pickle, value, name + ".", out);
  }
}

std::size_t rank_of(const StateDict& s) {
  const auto usual = [](std::string_view name) {
    return static_cast<std::size_t>(std::ranges::find(kUsual, name) - std::begin(kUsual));
  };
  return usual(std::string_view(s.name).substr(0, s.name.find('.')));
}

std::string names(const std::vector<StateDict>& list) {
  std::string out;
  for (std::size_t i = 0; i < list.size() && i < 8; ++i)
    out += (i ? ", " : "") + printable(list[i].name, 100);
  return out + (list.size() > 8 ? ", …" : "");
}

std::string keys_of(const Pickle& pickle, const Value& root) {
  std::string keys;
  for (std::size_t i = 0;
       root.kind == Kind::dict && i < std::min<std::size_t>(16, root.parts.size()); i += 2)
    keys += (keys.empty() ? "" : ", ") + printable(pickle.part(root, i).text, 100);
  return root.kind == Kind::dict ? "a dict of: " + keys : "another object";
}

const Value& choose(const Pickle& pickle, const std::string& file, const std::string& init_key,
                    std::vector<std::string>& notes) {
  const Value& root = pickle.root();
  std::vector<StateDict> all;
  find_state_dicts(pickle, root, "", all);
  if (!init_key.empty()) {
    const auto named = std::ranges::find(all, init_key, &StateDict::name);
    check<IoError>(named != all.end(), file, ": has no state dict called ", printable(init_key),
                   all.empty() ? ", but " + keys_of(pickle, root) : "; there are: " + names(all),
                   " (init_key)");
    return *named->dict;
  }
  std::ranges::stable_sort(all, {}, rank_of);
  const bool usual = !all.empty() && rank_of(all[0]) < std::size(kUsual);
  const std::size_t loose = tensors_in(pickle, root);
  if (!usual && loose > 0 && (all.empty() || loose >= tensors_in(pickle, *all[0].dict)))
    return root;
  check<IoError>(!all.empty(), file, ": holds no state dict, but ", keys_of(pickle, root),
                 ". Wanted: names and tensors, as torch.save(model.state_dict(), FILE) writes "
                 "them, or a dict that holds such a dict");
  check<IoError>(usual || all.size() == 1, file, ": holds several state dicts: ", names(all),
                 "; say which: init_key=NAME");
  if (all.size() > 1)
    notes.push_back(file + ": the weights \"" + printable(all[0].name, 100) + "\" are used, not " +
                    names({all.begin() + 1, all.end()}) + "; init_key=NAME takes another");
  return *all[0].dict;
}

class Reader {
 public:
  Reader(const InputFile& file, const TorchArchive& archive)
      : file_(file), archive_(archive), pickle_(archive.pickle()) {}

  TorchFile read(const std::string& init_key) {
    const Value& dict = choose(pickle_, file_.name(), init_key, out_.notes);
    std::set<std::string> seen;
    for (std::size_t i = 0; i + 1 < dict.parts.size(); i += 2) {
      const Value &key = pickle_.part(dict, i), &value = pickle_.part(dict, i + 1);
      if (!is_name(key) || !is_tensor(pickle_, value)) continue;
      tensor_ = printable(key.text, 100);
      check<IoError>(seen.insert(key.text).second, where(), "is there twice");
      unread_.clear();
      if (std::optional<Tensor> t = tensor(value))
        out_.tensors.push_back({key.text, std::move(*t)});
      else
        out_.unread.push_back({key.text, unread_});
    }
    if (rounded_ > 0)
      out_.notes.push_back(file_.name() + ": " + counted(rounded_, "tensor") +
                           " of f64 rounded to f32");
    return std::move(out_);
  }

 private:
  // --- tensors
  std::string where() const { return file_.name() + ": tensor \"" + tensor_ + "\" "; }

  // The arguments of a call, which are at least n.
  const Value& arguments(const Value& call, std::size_t n) const {
    const Value& all = pickle_.part(call, 1);
    check<IoError>(all.parts.size() >= n, where(), "has ", all.parts.size(),
                   " arguments in the pickle, wanted ", n);
    return all;
  }
  i64 whole(const Value& v, const char* what) const {
    check<IoError>(v.kind == Kind::integer && v.integer >= 0, where(), "has a ", what,
                   " that is no whole number from 0");
    return v.integer;
  }
  std::vector<i64> wholes(const Value& given, const char* what) const {
    const Value& tuple =
        is_call(pickle_, given, "torch.Size") ? pickle_.part(arguments(given, 1), 0) : given;
    check<IoError>(tuple.kind == Kind::tuple, where(), "has a ", what, " that is no tuple");
    std::vector<i64> out;
    for (std::size_t i = 0; i < tuple.parts.size(); ++i)
      out.push_back(whole(pickle_.part(tuple, i), what));
    return out;
  }

  // The arguments of the call that rebuilds a plain tensor, without the wrappers around it:
  // storage, offset, size, stride … nullptr: it is a tensor of another kind.
  const Value* rebuilt(const Value& call, int depth = 0) const {
    check<IoError>(depth < 4, where(), "is wrapped too often");
    if (is_call(pickle_, call, "torch._utils._rebuild_parameter") ||
        is_call(pickle_, call, "torch._utils._rebuild_parameter_with_state")) {
      const Value& inner = pickle_.part(arguments(call, 1), 0);
      check<IoError>(is_tensor(pickle_, inner), where(), "is a parameter without a tensor");
      return rebuilt(inner, depth + 1);
    }
    // function, class, arguments, attributes
    if (is_call(pickle_, call, "torch._tensor._rebuild_from_type_v2")) {
      const Value& a = arguments(call, 3);
      const std::string& function = pickle_.part(a, 0).text;
      return is_plain(function) ? &sized(pickle_.part(a, 2)) : nullptr;
    }
    return is_plain(pickle_.part(call, 0).text) ? &arguments(call, 4) : nullptr;
  }
  static bool is_plain(const std::string& function) {
    return function == "torch._utils._rebuild_tensor" ||
           function == "torch._utils._rebuild_tensor_v2";
  }
  const Value& sized(const Value& tuple) const {
    check<IoError>(tuple.parts.size() >= 4, where(), "has ", tuple.parts.size(),
                   " arguments in the pickle, wanted 4");
    return tuple;
  }

  // nullopt: unread_ says why.
  std::optional<Tensor> tensor(const Value& call) {
    const Value* arguments = rebuilt(call);
    if (!arguments) {
      const std::string& function = pickle_.part(call, 0).text;
      unread_ = printable(function.substr(function.rfind('.') + 1), 100);
      return std::nullopt;
    }
    const Value& a = *arguments;
    const std::optional<TorchStorage> stored = torch_storage(pickle_, pickle_.part(a, 0));
    check<IoError>(stored.has_value(), where(), "has no storage in the file");
    const auto sizes = wholes(pickle_.part(a, 2), "size");
    const auto strides = wholes(pickle_.part(a, 3), "stride");
    check<IoError>(sizes.size() == strides.size(), where(), "has ", sizes.size(), " sizes and ",
                   strides.size(), " strides");
    if (!stored->type->dtype || sizes.size() > Shape::max_rank) {
      unread_ = stored->type->name;
      if (stored->type->dtype) unread_ += " of " + std::to_string(sizes.size()) + " dimensions";
      return std::nullopt;
    }
    const Tensor data = storage(*stored);
    const i64 offset = whole(pickle_.part(a, 1), "offset");
    // How many elements it has, and the last one of the storage that it reaches.
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

  // Tensors that share a storage are windows on it.
  Tensor storage(const TorchStorage& s) {
    const TorchStorageType* type = s.type;
    rounded_ += type->bytes != size_of(*type->dtype);
    auto known = storages_.find(s.key);
    if (known != storages_.end()) {
      check<IoError>(known->second.type == type && known->second.data.numel() == s.elements,
                     where(), "shares storage ", printable(s.key, 100),
                     ", which has another type or size there");
    } else {
      check<IoError>(static_cast<std::uint64_t>(s.elements) <= file_.size() / type->bytes, where(),
                     "wants ", s.elements, " elements of ", type->bytes,
                     " bytes, more than the file has");
      known = storages_.emplace(s.key, Storage{type, read_storage(s)}).first;
    }
    return s.size == s.elements ? known->second.data
                                : known->second.data.slice(s.begin, s.begin + s.size);
  }
  Tensor read_storage(const TorchStorage& s) const {
    Tensor data = Tensor::empty({s.elements}, *s.type->dtype);
    if (s.type->bytes == size_of(*s.type->dtype)) {
      archive_.read(s, {static_cast<std::byte*>(data.data()), data.bytes()}, where());
      return data;
    }
    std::vector<double> wide(static_cast<std::size_t>(s.elements));  // f64
    archive_.read(s, std::as_writable_bytes(std::span(wide)), where());
    std::ranges::transform(wide, data.as<float>(), [](double x) { return static_cast<float>(x); });
    return data;
  }

  struct Storage {
    const TorchStorageType* type;
    Tensor data;
  };
  const InputFile& file_;
  const TorchArchive& archive_;
  const Pickle& pickle_;
  std::string tensor_, unread_;
  std::map<std::string, Storage> storages_;
  std::uint64_t gathered_ = 0;
  int rounded_ = 0;
  TorchFile out_;
};

}  // namespace

bool is_torch_file(const InputFile& file) { return TorchArchive::is_one(file); }

TorchFile read_torch_file(const InputFile& file, const std::string& init_key) {
  const std::unique_ptr<TorchArchive> archive = TorchArchive::open(file);
  check<IoError>(archive != nullptr, file.name(), ": not a file of torch.save");
  return Reader(file, *archive).read(init_key);
}

}  // namespace gossamer
