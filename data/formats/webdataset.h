// WebDataset shards: members of a tar with the same name up to the first dot are one sample
// (github.com/webdataset/webdataset).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gossamer/data/formats/index.h"
#include "gossamer/data/formats/tar.h"

namespace gossamer::data {

// The kind of a member: what follows the first dot of its name, in small letters ("seg.png" of
// 7/a.seg.png). What precedes that dot is the key of its sample.
std::string webdataset_kind(const std::string& name);
bool is_picture_kind(const std::string& kind);  // jpg, png …, not depth.png

// The samples of an archive: for each key, the member that is a picture. The label of a sample:
// KEY.cls (a number, or a name), else KEY.json (label, cls, class, class_id, target, wnid, synset
// or class_name), else KEY.txt (a number or one short line). DataError names the first sample
// without a label, two members of one kind with the same key, and a key whose pictures all have
// other kinds (img.1.jpg).
Index index_webdataset(ByteReader& archive, const Members& members, const std::string& path);

// The label in a .json member; nullopt: none of the keys, or not JSON.
std::optional<std::string> label_of_json(std::string_view text);

}  // namespace gossamer::data
