// Reading tar archives in place: where each file of the archive lies. POSIX ustar and pax, GNU long
// names, base-256 sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gossamer/data/formats/names.h"
#include "gossamer/data/formats/reader.h"

namespace gossamer::data {

struct TarEntry {
  std::string name;                     // as stored, "./" removed
  std::uint64_t offset = 0, bytes = 0;  // of the content; always inside the archive
};

// The regular files of an archive, in its order, in little memory.
struct Members {
  Names names;
  std::vector<std::uint64_t> offset, bytes;
  i64 size() const { return names.size(); }
};

// A .tar inside (ImageNet's official train archive) is looked into, its entries get its stem as
// folder. DataError names the archive and the place: not a tar, damaged header, cut off,
// compressed.
Members list_tar(Reader& archive, const std::string& path);
std::vector<TarEntry> index_tar(std::span<const std::byte> archive, const std::string& path);

// Whether these first bytes of a file (512 or more) are a tar header.
bool looks_like_tar(std::span<const std::byte> start);

}  // namespace gossamer::data
