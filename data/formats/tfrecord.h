// TFRecord shards of tf.train.Example with an encoded image each, as TensorFlow's ImageNet script
// writes them. The format by hand: a record is u64 length, masked CRC-32C of the length, data,
// masked CRC-32C of the data; an Example is a protobuf map of features.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "gossamer/data/formats/byte_reader.h"
#include "gossamer/data/formats/index.h"

namespace gossamer::data {

// Whether these first bytes of a file (12 or more) are a record's length with its CRC.
bool looks_like_tfrecord(std::span<const std::byte> start);

// The image of each record by its key (image/encoded; else image, image_raw, jpeg), its class by
// image/class/synset, else image/class/label (from 1 on: Naming::tensorflow), else label,
// image/label (from 0 on). Only lengths are checked here; the CRC of the data when it is read.
// DataError names the file and the record: cut off, wrong CRC, no Example, no image or label.
Index index_tfrecord(ByteReader& records, const std::string& path);

// The image inside a record's data, which are followed by their CRC. DataError: the CRC or the
// Example is wrong.
std::span<const std::byte> image_of_record(std::span<const std::byte> data_and_crc,
                                           const std::string& name);

}  // namespace gossamer::data
