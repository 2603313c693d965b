// Models that translate.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "gossamer/apps/capi/bytes.h"
#include "gossamer/apps/capi/cancel.h"
#include "gossamer/apps/train/translation_source.h"
#include "gossamer/core/autograd.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

constexpr std::size_t kTogether = 32;  // sentences of about one length

apps::TranslateOptions search_of(const gsm_translator_options& o) {
  constexpr const char* kOptions = "gsm_translator_options";
  check_numbers(kOptions, {{"beam", o.beam}, {"extra", static_cast<double>(o.extra)}});
  check<ArgumentError>(o.beam <= 1024, kOptions, ".beam is ", o.beam, "; wanted up to 1024");
  check<ArgumentError>(std::isfinite(o.length_penalty), kOptions, ".length_penalty is ",
                       o.length_penalty, "; wanted a finite number");
  apps::TranslateOptions search;
  if (o.beam) search.beam = o.beam;
  if (o.length_penalty != 0) search.length_penalty = std::max(0.0, o.length_penalty);
  if (o.extra) search.extra = o.extra;
  return search;
}

class Translation final : public Object {
 public:
  Translation(const char* path, const gsm_translator_options& o) : search_(search_of(o)) {
    const Device device = device_of(o.device);
    const DType type = type_of(o.type, "gsm_translator_options.type");
    const apps::ModelSource source = apps::find_model(path);
    check<ConfigError>(apps::task_of(source) == "translation", source.name,
                       ": is no model that translates; gsm_model_open opens models of pictures, "
                       "and gsm_language_open language models");
    model_ = apps::load_translation_model(source, type, device);
    for (const std::string& line : model_.notes) log_line(line);
    translator_ = std::make_unique<models::Translator>(
        apps::translator_of(*model_.net, model_.tokenizer->marks(), search_, log_line));
  }

  std::vector<std::string> translate(std::span<const char* const> sentences) {
    std::vector<apps::Sentence> sources;
    const i64 most = translator_->positions();
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      check<ArgumentError>(sentences[i] != nullptr, "sentences[", i, "] is NULL");
      apps::Sentence& ids = sources.emplace_back();
      model_.tokenizer->encode({sentences[i], std::strlen(sentences[i])}, ids);
      if (!ids.empty()) ids.push_back(model_.tokenizer->marks().end);
      check<DataError>(static_cast<i64>(ids.size()) <= most, "sentences[", i, "] has ", ids.size(),
                       " ids, and the model reads ", most, "; split it");
    }
    std::vector<std::size_t> order(sources.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::erase_if(order, [&](std::size_t i) { return sources[i].empty(); });
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return sources[i].size(); });
    std::vector<std::string> out(sources.size());
    const NoGrad no_grad;
    const Computing computing;
    for (std::size_t at = 0; at < order.size(); at += kTogether) {
      const auto some = std::span(order).subspan(at, std::min(kTogether, order.size() - at));
      std::vector<apps::Sentence> together;
      for (const std::size_t i : some) together.push_back(sources[i]);
      const auto found = apps::translate_sentences(*translator_, together, search_.extra);
      for (std::size_t i = 0; i < some.size(); ++i)
        out[some[i]] = apps::sentence_text(*model_.tokenizer, found[i]);
    }
    return out;
  }

 private:
  apps::TranslateOptions search_;
  apps::TranslationModel model_;
  std::unique_ptr<models::Translator> translator_;
};

}  // namespace

gsm_status gsm_translator_open(const char* path, const gsm_translator_options* options,
                               gsm_translator** translator) {
  return guarded([&] {
    check_given("translator", translator);
    check_path(path);
    *translator = static_cast<gsm_translator*>(add_object(
        std::make_shared<Translation>(path, options_of(options, "gsm_translator_options"))));
  });
}

gsm_status gsm_translate(gsm_translator* translator, const char* const* sentences, int32_t n,
                         gsm_bytes** translations) {
  return guarded([&] {
    const Exclusive<Translation> t(translator);
    check_given("sentences or translations", sentences, translations);
    check<ArgumentError>(n >= 1 && n <= 1 << 20, n, " sentences; wanted 1 to 1048576");
    for (std::string& text : t->translate({sentences, static_cast<std::size_t>(n)}))
      *translations++ = give_bytes(std::move(text));
  });
}

gsm_status gsm_translator_free(gsm_translator* translator) {
  return guarded([&] { free_object<Translation>(translator); });
}
