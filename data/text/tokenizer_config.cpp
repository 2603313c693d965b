// What is written there decides; what is not leaves the steps as they are.
#include "gossamer/data/text/tokenizer_config.h"

#include <utility>

#include "gossamer/core/text/printable.h"
#include "gossamer/data/text/json.h"
#include "gossamer/data/text/steps/fields.h"

namespace gossamer::data {

void use_tokenizer_config(const Tokenizer::StoredFile& config, const std::string& owner,
                          const std::function<std::int32_t(const std::string&)>& mark,
                          TokenizerSteps& steps) {
  const std::string place = printable(config.name);
  const Json json = json_of<Json>(config.bytes, place + ": is no JSON");
  const Fields all(json, place);
  const std::pair<const char*, std::int32_t Marks::*> marks[] = {
      {"eos_token", &Marks::end}, {"bos_token", &Marks::begin}, {"pad_token", &Marks::pad}};
  for (const auto& [key, field] : marks) {
    if (!json.contains(key)) continue;
    steps.marks.*field = -1;
    const Json* const value = all.find(key);
    if (!value) continue;
    const std::string name = value->is_object() ? all.object(key).text("content") : all.text(key);
    steps.marks.*field = mark(name);
    if (steps.marks.*field < 0)
      all.refuse(std::string("has ") + key + " \"" + printable(name.substr(0, 100)) +
                 "\", which is none of the tokens that " + owner + " adds");
  }
  struct Side {
    const char* key;
    std::vector<std::int32_t>& ids;
    std::int32_t id;
  };
  for (const Side& side : {Side{"add_bos_token", steps.frame.before, steps.marks.begin},
                           Side{"add_eos_token", steps.frame.after, steps.marks.end}}) {
    if (!all.find(side.key)) continue;
    side.ids.clear();
    if (!all.flag_or(side.key, false)) continue;
    if (side.id < 0) all.refuse(std::string("has ") + side.key + " without the token itself");
    side.ids.push_back(side.id);
  }
  steps.files.push_back({"tokenizer_config.json", config.bytes});
}

}  // namespace gossamer::data
