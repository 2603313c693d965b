// Reading tar archives in place: where each file of the archive lies. POSIX ustar and pax, GNU long
// names, base-256 sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gossamer/data/formats/byte_reader.h"
#include "gossamer/data/formats/names.h"

namespace gossamer::data {

struct TarEntry {
  std::string name;                     // as stored, "./" removed
  std::uint64_t offset = 0, bytes = 0;  // of the content; always inside the archive
};

// The regular files of an archive, in its order.
struct Members {
  Names names;
  std::vector<std::uint64_t> offset, bytes;
  i64 size() const { return names.size(); }
};

// The files of an archive. A .tar inside it (as in ImageNet's train archive) is read too; its files
// get its stem as their folder. DataError names the archive and the position: not a tar, damaged
// header, cut off, compressed. An archive without its end mark counts as cut off: a cut between two
// files, or in the padding of one, shows nowhere else.
Members list_tar(ByteReader& archive, const std::string& path);
std::vector<TarEntry> index_tar(std::span<const std::byte> archive, const std::string& path);

// Whether these first bytes of a file (512 or more) are a tar header.
bool looks_like_tar(std::span<const std::byte> start);

}  // namespace gossamer::data
