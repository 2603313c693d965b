// What a model says about the data it was trained on, compared with the data at hand: its classes,
// and which images were held back from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/data/dataset.h"

namespace gossamer::apps {

// The entry of a model's header that says which images data.val_split held back: their
// data::fingerprint(), 0 if none were. Files of others, and older ones, have none. `val` may be
// null.
std::map<std::string, std::string> held_back_entry(const Config&, const data::Dataset* val);
// The same entry out of the header of another model, for a copy of it; empty: it has none.
std::map<std::string, std::string> held_back_entry(
    const std::map<std::string, std::string>& header);
// ConfigError if data.val_split holds back others than those of this header, for the model was
// trained on some of them. model: as the sentence begins.
void check_held_back(const std::string& model, const std::map<std::string, std::string>& header,
                     const Config&, const data::Dataset* val);

// DataError E-DATA-03 names what differs, and ends with `remedy`. `model`: as the sentence begins.
void check_classes_of_model(const std::string& model, const std::vector<std::string>& known,
                            const std::vector<std::string>& data, const std::string& remedy);

}  // namespace gossamer::apps
