// Language models: tokenizers, generation and perplexity.
#include "gossamer/apps/capi/language.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "gossamer/apps/capi/cancel.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/captured_step.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/models/growing_texts.h"
#include "gossamer/models/sampling.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

using Ids = std::vector<std::int32_t>;

gsm_tokenizer* give_tokenizer(std::shared_ptr<const data::Tokenizer> tokenizer) {
  return static_cast<gsm_tokenizer*>(add_object(std::make_shared<Tokens>(std::move(tokenizer))));
}

// Bytes of keys and values of a text: some models have no end of positions.
constexpr i64 kRoomForCache = i64{1} << 30;

}  // namespace

namespace gossamer::capi {

Language::Language(const char* path, const gsm_language_options& o)
    : device_(device_of(o.device)), source_(apps::find_model(path)) {
  check_numbers("gsm_language_options", {{"heads", static_cast<double>(o.heads)}});
  check<ConfigError>(apps::task_of(source_) == "language", source_.name,
                     ": is no language model; gsm_model_open opens models of pictures");
  if (o.heads) heads_ = o.heads;
  model_ = apps::load_language_model(source_, type_of(o.type, "gsm_language_options.type"), heads_,
                                     device_, kRoomForCache);
  for (const std::string& line : model_.notes) log_line(line);
}

void Language::check_ids(const int32_t* ids, i64 n) const {
  check_given("ids", ids);
  const i64 vocabulary = net().vocabulary();
  for (i64 i = 0; i < n; ++i)
    check<ArgumentError>(ids[i] >= 0 && ids[i] < vocabulary, "ids[", i, "] is ", ids[i],
                         "; wanted 0 to ", vocabulary - 1);
}

double Language::loss_of(const int32_t* ids, i64 n, i64 length) const {
  const NoGrad no_grad;
  const Computing computing;
  double sum = 0;
  for (i64 at = 0; at + 1 < n; at += length) {
    const i64 count = std::min(length, n - 1 - at);
    const auto part = [&](i64 from) {
      return Tensor::from(std::span(ids + from, static_cast<std::size_t>(count)), {1, count})
          .to(device_);
    };
    sum +=
        static_cast<double>(net().loss(part(at), part(at + 1)).item()) * static_cast<double>(count);
  }
  return sum;
}

}  // namespace gossamer::capi

namespace {

class Generation final : public Object {
 public:
  Generation(std::shared_ptr<Language> language, const int32_t* ids, i64 n,
             const gsm_generation_options& o)
      : language_(std::move(language)),
        ids_(ids, ids + n),
        stop_(o.stop, o.stop + (o.stop ? o.n_stop : 0)),
        most_(o.tokens),
        decoder_(language_->net(), 1,
                 {language_->device().is_cpu() ? GraphCapture()
                                               : cuda_graph_capture(language_->device())}) {
    const auto& tokenizer = language_->model().tokenizer;
    if (!o.ignore_end) {
      if (tokenizer && tokenizer->marks().end >= 0) stop_.push_back(tokenizer->marks().end);
      std::ranges::copy(language_->model().ends, std::back_inserter(stop_));
    }
    Choice choice;
    if (o.temperature != 0) choice.temperature = std::max(0.0, o.temperature);
    choice.top_k = o.top_k;
    if (o.top_p != 0) choice.top_p = o.top_p;
    // Ids that the tokenizer does not have, of a vocabulary that was rounded up, never come.
    if (tokenizer) choice.known = tokenizer->size();
    models::check_choice(choice);
    decoder_.begin(choice, std::array{o.seed});
    group_.emplace(std::vector<const Ids*>{&ids_}, decoder_);
  }
  // nullopt: there is none any more
  std::optional<int32_t> next() {
    if (ended_ || (most_ > 0 && made_ >= most_)) return std::nullopt;
    check<ConfigError>(!broken_, "this generation was cancelled; begin another one");
    broken_ = true;
    const int32_t id = [&] {
      const Computing computing;
      return group_->next().at(0);
    }();
    broken_ = false;
    if (std::ranges::find(stop_, id) != stop_.end()) {
      ended_ = true;
      return std::nullopt;
    }
    ids_.push_back(id);
    ++made_;
    return id;
  }

 private:
  std::shared_ptr<Language> language_;
  Ids ids_, stop_;
  i64 most_, made_ = 0;
  bool ended_ = false;
  bool broken_ = false;  // its last call ended in the middle
  models::Decoder decoder_;
  std::optional<models::GrowingTexts> group_;
};

constexpr i64 kMostIds = i64{1} << 31;

}  // namespace

gsm_status gsm_tokenizer_open(const char* path, gsm_tokenizer** tokenizer) {
  return guarded([&] {
    check_given("tokenizer", tokenizer);
    check_path(path);
    *tokenizer = give_tokenizer(data::open_tokenizer(path));
  });
}

gsm_status gsm_tokenizer_size(gsm_tokenizer* tokenizer, int64_t* ids, int32_t* end) {
  return guarded([&] {
    const Shared<Tokens> t(tokenizer);
    check_given("ids or end", ids, end);
    *ids = t->tokenizer->size();
    *end = t->tokenizer->marks().end;
  });
}

gsm_status gsm_tokenizer_encode(gsm_tokenizer* tokenizer, const char* text, size_t size,
                                int32_t marks, int32_t* ids, int64_t* n) {
  return guarded([&] {
    const Shared<Tokens> t(tokenizer);
    check_given("text or n", text, n);
    check<ArgumentError>(aligned(ids), "ids is misaligned");
    check<ArgumentError>(size < static_cast<size_t>(kMostIds), "text of ", size,
                         " bytes; wanted below 2^31");
    Ids out;
    if (marks)
      t->tokenizer->encode_with_marks({text, size}, out);
    else
      t->tokenizer->encode({text, size}, out);
    fill<int32_t>(out, ids, n, "ids");
  });
}

gsm_status gsm_tokenizer_decode(gsm_tokenizer* tokenizer, const int32_t* ids, int64_t n, char* text,
                                size_t* size) {
  return guarded([&] {
    const Shared<Tokens> t(tokenizer);
    check_given("ids or size", ids, size);
    check<ArgumentError>(n >= 0 && n < kMostIds, n, " ids; wanted 0 or more, below 2^31");
    std::string out;
    t->tokenizer->decode({ids, static_cast<size_t>(n)}, out);
    fill<char>(out, text, size, "text");
  });
}

gsm_status gsm_tokenizer_save(gsm_tokenizer* tokenizer, const char* folder) {
  return guarded([&] {
    const Shared<Tokens> t(tokenizer);
    check_path(folder);
    for (const data::Tokenizer::StoredFile& file : t->tokenizer->files())
      write_file(std::filesystem::path(folder) / file.name, file.bytes);
  });
}

gsm_status gsm_tokenizer_free(gsm_tokenizer* tokenizer) {
  return guarded([&] { free_object<Tokens>(tokenizer); });
}

gsm_status gsm_language_open(const char* path, const gsm_language_options* options,
                             gsm_language** language) {
  return guarded([&] {
    check_given("language", language);
    check_path(path);
    *language = static_cast<gsm_language*>(
        add_object(std::make_shared<Language>(path, options_of(options, "gsm_language_options"))));
  });
}

gsm_status gsm_language_info(gsm_language* language, gsm_language_info_t* info) {
  return guarded([&] {
    const Shared<Language> l(language);
    gsm_language_info_t is{};
    for (const NamedTensor& p : l->net().parameters()) is.parameters += p.tensor.numel();
    is.vocabulary = l->net().vocabulary();
    is.positions = l->net().positions();
    is.width = l->net().width();
    std::visit([&](const auto& o) { is.layers = o.layers, is.heads = o.heads; },
               l->model().options);
    is.has_tokenizer = l->model().tokenizer != nullptr;
    give(is, info, "gsm_language_info_t");
  });
}

gsm_status gsm_language_tokenizer(gsm_language* language, gsm_tokenizer** tokenizer) {
  return guarded([&] {
    const Shared<Language> l(language);
    check_given("tokenizer", tokenizer);
    check<ConfigError>(l->model().tokenizer != nullptr, l->model().file,
                       ": there is no tokenizer beside it; gsm_tokenizer_open opens one");
    *tokenizer = give_tokenizer(l->model().tokenizer);
  });
}

gsm_status gsm_language_perplexity(gsm_language* language, const int32_t* ids, int64_t n,
                                   int64_t length, double* loss, double* perplexity) {
  return guarded([&] {
    const Shared<Language> l(language);
    check_given("loss or perplexity", loss, perplexity);
    const i64 positions = l->net().positions();
    check<ArgumentError>(n >= 2 && n < kMostIds, n, " ids; wanted 2 or more, below 2^31");
    check<ArgumentError>(length >= 0 && length <= positions, "length ", length, "; wanted 1 to ",
                         positions, ", or 0 for that");
    l->check_ids(ids, n);
    const double mean =
        l->loss_of(ids, n, length ? length : positions) / static_cast<double>(n - 1);
    apps::check_finite(mean, l->model().file);
    *loss = mean;
    *perplexity = std::exp(mean);
  });
}

gsm_status gsm_language_free(gsm_language* language) {
  return guarded([&] { free_object<Language>(language); });
}

gsm_status gsm_generation_new(gsm_language* language, const int32_t* ids, int64_t n,
                              const gsm_generation_options* options, gsm_generation** generation) {
  return guarded([&] {
    const Shared<Language> l(language);
    check_given("generation", generation);
    check<ArgumentError>(n >= 1 && n < kMostIds, n,
                         " ids to begin with; wanted 1 or more, below 2^31. At the beginning of a "
                         "text give the end mark");
    l->check_ids(ids, n);
    const auto o = options_of(options, "gsm_generation_options");
    check<ArgumentError>(std::isfinite(o.temperature), "gsm_generation_options.temperature is ",
                         o.temperature, "; wanted above 0, 0 for 1, or below 0 for the likeliest");
    check_numbers("gsm_generation_options", {{"top_k", static_cast<double>(o.top_k)},
                                             {"top_p", o.top_p},
                                             {"tokens", static_cast<double>(o.tokens)},
                                             {"n_stop", o.n_stop}});
    check<ArgumentError>(o.n_stop == 0 || (o.stop && aligned(o.stop)),
                         "gsm_generation_options.stop is NULL or misaligned");
    *generation = static_cast<gsm_generation*>(
        add_object(std::make_shared<Generation>(l.object(), ids, n, o)));
  });
}

gsm_status gsm_generation_next(gsm_generation* generation, int32_t* id, int32_t* done) {
  return guarded([&] {
    const Exclusive<Generation> g(generation);
    check_given("id or done", id, done);
    const std::optional<int32_t> next = g->next();
    *id = next.value_or(-1);
    *done = !next;
  });
}

gsm_status gsm_generation_free(gsm_generation* generation) {
  return guarded([&] { free_object<Generation>(generation); });
}
