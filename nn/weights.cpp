// See weights.h.
#include "gossamer/nn/weights.h"

#include <algorithm>
#include <set>

#include "gossamer/core/safetensors.h"
#include "gossamer/core/torch_file.h"

namespace gossamer::nn {
namespace {

std::string plain_name(std::string name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string prefix : {"module.", "_orig_mod."})
      if (name.starts_with(prefix)) {
        name.erase(0, prefix.size());
        again = true;
      }
  }
  return name;
}

// A failed download leaves an empty file, or the server's page under the name of the weights.
void check_downloaded(const InputFile& file) {
  std::byte first{}, header{};
  if (file.size() > 0) file.read(0, {&first, 1});
  if (file.size() > 8) file.read(8, {&header, 1});
  const bool page = first == std::byte{'<'} && header != std::byte{'{'};
  check<IoError>(file.size() > 0 && !page, file.name(),
                 ": neither a safetensors file nor one of torch.save: it ",
                 page ? "begins as a web page does" : "is empty");
}

// Lightning calls what it trains "model"; another model may have a part of that name.
void make_plain(std::vector<NamedTensor>& tensors) {
  const std::string prefix = "model.";
  const auto has_prefix = [&](const NamedTensor& t) { return t.name.starts_with(prefix); };
  for (bool again = !tensors.empty(); again;) {
    for (NamedTensor& t : tensors) t.name = plain_name(std::move(t.name));
    again = std::ranges::all_of(tensors, has_prefix);
    if (again)
      for (NamedTensor& t : tensors) t.name.erase(0, prefix.size());
  }
}

}  // namespace

const Tensor* Weights::find(const std::string& name) const {
  const auto at = std::ranges::find(tensors, name, &NamedTensor::name);
  return at == tensors.end() ? nullptr : &at->tensor;
}

Weights read_weights(const std::filesystem::path& path) {
  Weights out{.file = path.string(), .tensors = {}, .metadata = {}, .notes = {}};
  if (const InputFile file(path); is_torch_file(file)) {
    TorchFile torch = read_torch_file(file);
    out.tensors = std::move(torch.tensors);
    out.notes = std::move(torch.notes);
  } else {
    check_downloaded(file);
    SafeTensors safe = read_safetensors(file);
    out.tensors = std::move(safe.tensors);
    out.metadata = std::move(safe.metadata);
  }
  make_plain(out.tensors);
  std::set<std::string> names;
  for (const NamedTensor& t : out.tensors)
    check<IoError>(names.insert(t.name).second, out.file, ": two tensors are called \"", t.name,
                   "\" without their prefixes");
  return out;
}

}  // namespace gossamer::nn
