// Reads zip archives whose entries are stored, not compressed, as torch writes its files: the
// directory, with every check of the format, and the bytes of an entry. (PKWARE's APPNOTE.TXT, with
// zip64.)
// Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/io/input_file.h"

namespace gossamer {

struct ZipEntry {
  std::string name;
  std::uint64_t offset = 0, size = 0;  // of its bytes in the file
  std::uint32_t crc = 0;
};

// The entries in the order of the directory; no two overlap or share a name, all lie within the
// file. IoError names the file, and the entry that is compressed, encrypted or damaged.
std::vector<ZipEntry> zip_entries(const InputFile&);
// The names alone, also of compressed entries. IoError: there is no sound directory.
std::vector<std::string> zip_names(const InputFile&);
// Reads all its bytes: to.size() is entry.size. IoError: their CRC-32 differs, so the file is
// damaged.
void read_zip_entry(const InputFile&, const ZipEntry&, std::span<std::byte> to);

}  // namespace gossamer
