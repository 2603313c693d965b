// See weights.h.
#include "gossamer/nn/weights.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "gossamer/core/blocks.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/io/torch_file.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/nn/checkpoint.h"

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
void make_plain(const std::vector<std::string*>& names) {
  const std::string prefix = "model.";
  for (bool again = !names.empty(); again;) {
    for (std::string* name : names) *name = plain_name(std::move(*name));
    again = std::ranges::all_of(names, [&](auto* name) { return name->starts_with(prefix); });
    if (again)
      for (std::string* name : names) name->erase(0, prefix.size());
  }
}

std::vector<std::string*> all_names(Weights& w) {
  std::vector<std::string*> names;
  for (NamedTensor& t : w.tensors) names.push_back(&t.name);
  for (UnreadTensor& t : w.unread) names.push_back(&t.name);
  return names;
}

// What names begin with: "conv1, bn1, layer1, fc".
std::string layers(Weights& w) {
  std::vector<std::string> found;
  for (const std::string* name : all_names(w))
    if (std::string layer = name->substr(0, name->find('.'));
        std::ranges::find(found, layer) == found.end())
      found.push_back(std::move(layer));
  return first_of(found, 12);
}

void check_different(Weights& w, const char* after) {
  std::set<std::string> seen;
  for (const std::string* name : all_names(w))
    check<IoError>(seen.insert(*name).second, w.file, ": two tensors are called \"", *name, "\" ",
                   after);
}

void note_unread(Weights& w) {
  if (w.unread.empty()) return;
  std::vector<std::string> names;
  for (const UnreadTensor& t : w.unread) names.push_back(t.name + " (" + t.kind + ")");
  w.notes.push_back(w.file + ": skipped, since Gossamer has no such type: " + first_three(names));
}

}  // namespace

const Tensor* Weights::find(const std::string& name) const {
  const auto at = std::ranges::find(tensors, name, &NamedTensor::name);
  return at == tensors.end() ? nullptr : &at->tensor;
}

void Weights::check_read(const std::string& name) const {
  const auto at = std::ranges::find(unread, name, &UnreadTensor::name);
  if (at != unread.end())
    fail<IoError>(file, ": \"", name, "\" is of type ", at->kind,
                  ", which Gossamer does not read; save it as f32");
}

namespace {

// One file, whose names are as they stand in it.
Weights read_one(const InputFile& file, const std::string& name, const WeightsOptions& options) {
  Weights out;
  out.file = name;
  if (is_torch_file(file)) {
    TorchFile torch = read_torch_file(file, options.key);
    out.tensors = std::move(torch.tensors);
    out.unread = std::move(torch.unread);
    out.notes = std::move(torch.notes);
  } else {
    check_downloaded(file);
    SafeTensors safe = read_safetensors(file);
    check<IoError>(options.key.empty(), out.file, ": init_key = ", options.key,
                   ": a safetensors file holds one set of weights; leave the key out");
    out.tensors = std::move(safe.tensors);
    out.unread = std::move(safe.unread);
    out.notes = std::move(safe.notes);
    out.metadata = std::move(safe.metadata);
  }
  return out;
}

// Which file of a folder holds which tensor. All of it is untrusted: a file is a name in the same
// folder.
std::map<std::string, std::vector<std::string>> files_in_index(const std::filesystem::path& path) {
  const InputFile file(path);
  constexpr std::uint64_t kMost = 64 << 20;
  check<IoError>(file.size() <= kMost, file.name(), ": an index of ", file.size(),
                 " bytes; it may have ", kMost);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return parse_shard_index(text, file.name());
}

std::string listed_names(const std::vector<std::string>& names) {
  return names.empty() ? "none" : first_three(names);
}

Weights read_shards(const std::filesystem::path& index, const WeightsOptions& options) {
  Weights out;
  out.file = index.string();
  std::vector<std::string> missing, extra;
  bool first = true;
  for (const auto& [name, wanted] : files_in_index(index)) {
    const std::filesystem::path file = index.parent_path() / name;
    Weights shard = read_one(InputFile(file), file.string(), options);
    std::set<std::string> left(wanted.begin(), wanted.end());
    for (const std::string* tensor : all_names(shard))
      if (left.erase(*tensor) == 0) extra.push_back(name + ": " + *tensor);
    for (const std::string& tensor : left) missing.push_back(name + ": " + tensor);
    std::ranges::move(shard.tensors, std::back_inserter(out.tensors));
    std::ranges::move(shard.unread, std::back_inserter(out.unread));
    std::ranges::move(shard.notes, std::back_inserter(out.notes));
    if (std::exchange(first, false)) out.metadata = std::move(shard.metadata);
  }
  check<IoError>(missing.empty() && extra.empty(), out.file,
                 ": its files hold other tensors than it says; missing: ", listed_names(missing),
                 "; not listed for their file: ", listed_names(extra));
  return out;
}

bool is_index(const std::filesystem::path& path) {
  return path.filename().string().ends_with(".index.json");
}

Weights with_plain_names(Weights out, const WeightsOptions& options) {
  // The layout of its convolutions is that of memory, so some shapes fit and their numbers do not.
  check<IoError>(!out.metadata.contains("layout"), out.file,
                 ": a checkpoint of one worker, to resume its run; the model of a finished run is "
                 "its model.safetensors. In C gsm_trainer_state_load takes such a state, and "
                 "gsm_trainer_save writes a model");
  make_plain(all_names(out));
  check_different(out, "without their prefixes");
  rename(out, options.rename);
  note_unread(out);
  return out;
}

}  // namespace

Weights read_weights(const std::filesystem::path& path, const WeightsOptions& options) {
  return with_plain_names(is_index(path) ? read_shards(path, options)
                                         : read_one(InputFile(path), path.string(), options),
                          options);
}

Weights read_weights(std::span<const std::byte> bytes, const std::string& name,
                     const WeightsOptions& options) {
  return with_plain_names(read_one(InputFile(bytes, name), name, options), options);
}

void check_finite(const Weights& file) {
  for (const NamedTensor& t : file.tensors)
    check<IoError>(!is_floating(t.tensor.dtype()) || all_finite(t.tensor.to(DType::f32)), file.file,
                   ": \"", t.name,
                   "\" holds values that are not finite numbers; nothing can be trained from it");
}

std::map<std::string, std::string> read_weights_header(const std::filesystem::path& path) {
  if (is_index(path))  // as of the first of its files
    return read_weights_header(path.parent_path() / files_in_index(path).begin()->first);
  const InputFile file(path);
  if (is_torch_file(file)) return {};
  check_downloaded(file);
  return read_safetensors_metadata(path);
}

void rename(Weights& w, const std::map<std::string, std::string>& names) {
  std::set<std::string> used;
  for (std::string* name : all_names(w)) {
    std::string from;
    for (const auto& [begin, to] : names)
      if (begin.size() > from.size() && (*name == begin || name->starts_with(begin + ".")))
        from = begin;
    if (from.empty()) continue;
    const std::string& to = names.at(from);
    const bool whole = from.size() == name->size();
    name->replace(0, from.size() + (to.empty() && !whole ? 1 : 0), to);
    check<IoError>(!name->empty(), w.file, ": init_rename leaves no name of \"", from, "\"");
    used.insert(from);
  }
  for (const auto& [from, to] : names)
    check<IoError>(used.contains(from), w.file, ": no tensor's name begins with ", from,
                   ", which init_rename changes to \"", to, "\". There are: ", layers(w));
  if (!names.empty()) check_different(w, "after init_rename");
}

}  // namespace gossamer::nn
