// Steps of a tokenizer that change the text before it is split.
// Threads: any, also for one Normalizer.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace gossamer::data {

class Fields;

// From valid UTF-8 to valid UTF-8. Empty: the text stays as it is.
using Normalizer = std::function<std::string(std::string_view)>;

// NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace, or a Sequence of them. DataError: it is
// another one, which is named, or is damaged.
Normalizer read_normalizer(const Fields&);

}  // namespace gossamer::data
