// What finds the files of a format and reads them. A format is one file that defines this, and one
// row in dataset/find.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "gossamer/data/formats/index.h"

namespace gossamer::data {

struct FileFormat {
  std::string name;    // shards of different formats are never joined
  std::string wanted;  // what users may give, for errors
  // Files of this name are of this format; in a folder they are shards of one set. Null: its names
  // don't say it.
  bool (*has_name)(const std::string& name);
  // The first 512 bytes of a file, or all. Null: they don't say it.
  bool (*starts_with)(std::span<const std::byte> start);
  // DataError says what is wrong with the file.
  Index (*index)(const std::string& path);
  // Shards that are for evaluation though their names say neither val nor test. Null: none.
  bool (*is_for_evaluation)(const std::string& name) = nullptr;
  // Of a set whose files have fixed names, which say their part and may lie in a folder with others
  // (data_batch_1, test_batch). Null: none.
  bool (*is_train_name)(const std::string& name) = nullptr;
  bool (*is_val_name)(const std::string& name) = nullptr;
  // Files that nothing but their name and size tells, if no other format knows them. Null: none.
  bool (*may_be)(const std::string& name, std::size_t size) = nullptr;
};

}  // namespace gossamer::data
