// Fuzz target of the index of packed shards and index files: any bytes give samples inside the file
// or a DataError, and what is accepted is written and read back alike. Checksums are made right.
//
// sources: index_file packed index names hash files printable utf8 xxh3
// sources: file_names flat_val devkit class_names tar webdataset nesting
// sources: safetensors safetensors_write core/tensor shape memory parallel autograd op_update
// sources: op_copy
// sources: flat cuda_none op_blocks input_file free_memory cores least_cpu
// libraries: -lz
#include <cstdlib>
#include <cstring>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/data/formats/index_file.h"
#include "gossamer/data/formats/packed.h"
#include "gossamer/data/hash.h"

using namespace gossamer;
using namespace gossamer::data;

// core's, of which the rest would need tensors; nothing is written here. Weak: where all of core is
// linked, that one.
[[gnu::weak]] void gossamer::write_file(const std::filesystem::path&, std::string_view) {
  std::abort();
}

namespace {

void require(bool right) {
  if (!right) std::abort();
}

void inside(const Index& index, std::uint64_t size) {
  require(index.names.size() == static_cast<gossamer::i64>(index.label.size()));
  index.names.each(
      [&](gossamer::i64 i, const std::string& name) { require(index.names.at(i) == name); });
  for (std::size_t i = 0; i < index.label.size(); ++i) {
    require(index.offset[i] <= size && index.bytes[i] <= size - index.offset[i]);
    require(index.label[i] >= 0 && static_cast<std::size_t>(index.label[i]) < index.classes.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const Index index = decode_index(bytes, "fuzz", 1 << 20);
    inside(index, 1 << 20);
    const std::vector<std::byte> once = encode_index(index);
    require(encode_index(decode_index(once, "fuzz", 1 << 20)) == once);
  } catch (const gossamer::DataError&) {
  }
  // A shard: the header's checksum is made right, and that of the index if it lies inside.
  if (size < 64) return 0;
  std::vector<std::byte> shard(bytes.begin(), bytes.end());
  std::memcpy(shard.data(), "GSPACK\r\n\1\0\0\0\0\0\0\0", 16);
  std::uint64_t at = 0, count = 0;
  std::memcpy(&at, shard.data() + 16, 8);
  std::memcpy(&count, shard.data() + 24, 8);
  if (data[0] % 2) {  // the usual place
    at = 64;
    count = size - 64;
    std::memcpy(shard.data() + 16, &at, 8);
    std::memcpy(shard.data() + 24, &count, 8);
  }
  if (at <= size && count <= size - at) {
    const std::uint64_t hash = xxh3(std::span(shard).subspan(at, count));
    std::memcpy(shard.data() + 32, &hash, 8);
  }
  const std::uint64_t hash = xxh3(std::span(shard).first(56));
  std::memcpy(shard.data() + 56, &hash, 8);
  try {
    MemoryReader reader(shard);
    inside(index_packed(reader, "fuzz.pack"), size);
  } catch (const gossamer::DataError&) {
  }
  return 0;
}
