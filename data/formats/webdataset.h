// WebDataset shards: members of a tar with the same name up to the first dot are one sample
// (github.com/webdataset/webdataset).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gossamer/data/formats/index.h"
#include "gossamer/data/formats/tar.h"

namespace gossamer::data {

// What a member is: all behind the first dot of its name, in small letters ("seg.png" of
// 7/a.seg.png). In front of that dot is its sample's key.
std::string webdataset_kind(const std::string& name);
bool is_picture_kind(const std::string& kind);  // jpg, png …, not depth.png

// The samples of an archive by its members: of each key the one whose kind is a picture's. The
// label of a sample: KEY.cls (a number, or a name), else KEY.json (label, cls, class, class_id,
// target, wnid, synset or class_name), else KEY.txt (a number or one short line). DataError names
// the first sample without one, two members of a kind under one key, and pictures of whose key none
// is the sample's.
Index index_webdataset(Reader& archive, const Members& members, const std::string& path);

// The label in a .json member; nullopt: none of the keys, or not JSON.
std::optional<std::string> label_of_json(std::string_view text);

}  // namespace gossamer::data
