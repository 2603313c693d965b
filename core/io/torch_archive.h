// The two forms of a file of torch.save: where its pickle is, and where the storages are.
// Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gossamer/core/dtype.h"
#include "gossamer/core/io/input_file.h"
#include "gossamer/core/io/pickle.h"

namespace gossamer {

struct TorchStorageType {
  std::string_view name;       // "torch.FloatStorage"
  std::size_t bytes;           // of one element
  std::optional<DType> dtype;  // what it is read as; none: Gossamer lacks it
};
// What the pickle says of a storage: ("storage", type, key, device, elements, window).
struct TorchStorage {
  const TorchStorageType* type = nullptr;
  std::string key;
  std::int64_t elements = 0;
  // of the elements, in files before torch 0.4; else all
  std::int64_t begin = 0, size = 0;
};
// nullopt: it is none, or of an unknown type.
std::optional<TorchStorage> torch_storage(const Pickle&, const Pickle::Value&);

class TorchArchive {
 public:
  // Opens the form that the first bytes show; nullptr: it is no file of torch.save. IoError as
  // read_torch_file().
  static std::unique_ptr<TorchArchive> open(const InputFile&);
  static bool is_one(const InputFile&);
  virtual ~TorchArchive() = default;

  virtual const Pickle& pickle() const = 0;
  // All bytes of a storage. IoError: it is missing, of another size, or damaged; `where`: the file
  // and tensor, for that.
  virtual void read(const TorchStorage&, std::span<std::byte> to,
                    const std::string& where) const = 0;
};

}  // namespace gossamer
