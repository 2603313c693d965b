// Fuzz target of the TFRecord reader: any bytes give samples inside the file, whose image is inside
// their record, or a DataError. Checksums are made right, or nothing random would get past the
// first length.
//
// sources: tfrecord index names hash files printable utf8 xxh3
// sources: file_names
#include "gossamer/data/formats/tfrecord.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/data/hash.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer::data;
  if (size == 0) return 0;
  std::vector<std::byte> bytes;
  // The first byte chooses: the input as it is, or as the data of one or two records.
  const auto put = [&](const void* from, std::size_t count) {
    const auto* at = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), at, at + count);
  };
  if (data[0] % 4 == 0) put(data + 1, size - 1);
  const std::size_t records = data[0] % 4 ? 1 + data[0] % 2 : 0;
  for (std::size_t r = 0; r < records; ++r) {
    const std::size_t begin = 1 + r * (size - 1) / records,
                      end = 1 + (r + 1) * (size - 1) / records;
    const std::uint64_t length = end - begin;
    const std::uint32_t head = masked(crc32c(std::as_bytes(std::span(&length, 1))));
    const std::uint32_t foot = masked(crc32c(std::as_bytes(std::span(data + begin, length))));
    put(&length, 8);
    put(&head, 4);
    put(data + begin, length);
    put(&foot, 4);
  }
  try {
    MemoryReader reader(bytes);
    const Index index = index_tfrecord(reader, "fuzz.tfrecord");
    for (std::size_t i = 0; i < index.label.size(); ++i) {
      if (index.offset[i] + index.bytes[i] + 4 > bytes.size()) std::abort();
      if (static_cast<std::size_t>(index.label[i]) >= index.classes.size()) std::abort();
      const auto record =
          std::span<const std::byte>(bytes).subspan(index.offset[i], index.bytes[i] + 4);
      const auto image = image_of_record(record, "fuzz");
      if (image.data() < record.data() ||
          image.data() + image.size() > record.data() + record.size())
        std::abort();
    }
  } catch (const gossamer::DataError&) {
  }
  return 0;
}
