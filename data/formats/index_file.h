// An index as bytes: inside our packed shards, and beside tars and TFRecords (`gossamer data
// index`), so that the next start need not walk through them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossamer/data/formats/index.h"

namespace gossamer::data {

std::vector<std::byte> encode_index(const Index&);
// For samples in a file of `size` bytes. DataError names `path` and the defect: every number is
// checked, no sample reaches beyond the file.
Index decode_index(std::span<const std::byte>, const std::string& path, std::uint64_t size);

constexpr const char* kIndexEnding = ".gossamer-index";        // PATH.gossamer-index
constexpr std::size_t kMaxIndexBytes = std::size_t{96} << 20;  // some 3 million samples

// The stored index of a container; nullopt: there is none, it is damaged, or the container has
// another size or time of change.
std::optional<Index> load_index(const std::string& path);
// Writes it in one step (atomic, fsynced); how many bytes it has. IoError.
std::size_t store_index(const Index&);

}  // namespace gossamer::data
