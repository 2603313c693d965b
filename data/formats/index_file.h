// An index as bytes: inside our packed shards, and beside tars and TFRecords (`gossamer data
// index`), so that the next start need not read through them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossamer/data/formats/index.h"

namespace gossamer::data {

std::vector<std::byte> encode_index(const Index&);
// The index of a file of `size` bytes. DataError names `path` and the defect: every number is
// checked, and no sample reaches beyond the file.
Index decode_index(std::span<const std::byte>, const std::string& path, std::uint64_t size);

constexpr const char* kIndexEnding = ".gossamer-index";        // PATH.gossamer-index
constexpr std::size_t kMaxIndexBytes = std::size_t{96} << 20;  // some 3 million samples

// The stored index of a container. nullopt: there is none, it is damaged, or the container has
// changed since (size or time).
std::optional<Index> load_index(const std::string& path);
// Writes the index beside its container in one step (atomic, fsynced) and returns its bytes.
// IoError.
std::size_t store_index(const Index&);

}  // namespace gossamer::data
