// WebDataset shards: members of a tar with the same name up to the first dot are one sample (github.com/webdataset/webdataset).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gossamer/data/formats/index.h"
#include "gossamer/data/formats/tar.h"

namespace gossamer::data {

// The samples of an archive by its members. The label of a sample: KEY.cls (a number, or a name), else KEY.json (label, cls, class, class_id, target,
// wnid, synset or class_name), else KEY.txt (a number or one short line). DataError names the first sample without one.
Index index_webdataset(Reader& archive, const Members& members, const std::string& path);

// The label in a .json member; nullopt: none of the keys, or not JSON.
std::optional<std::string> label_of_json(std::string_view text);

}  // namespace gossamer::data
