// Tokenizers and language models as handles of gossamer.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "gossamer/apps/capi/objects.h"
#include "gossamer/apps/train/language_source.h"
#include "gossamer/apps/train/model_source.h"

namespace gossamer::capi {

struct Tokens final : Object {
  explicit Tokens(std::shared_ptr<const data::Tokenizer> of) : tokenizer(std::move(of)) {}
  const std::shared_ptr<const data::Tokenizer> tokenizer;
};

class Language final : public Object {
 public:
  Language(const char* path, const gsm_language_options&);
  models::LanguageNet& net() const { return *model_.net; }
  const apps::LanguageModel& model() const { return model_; }
  Device device() const { return device_; }
  // What it was opened from.
  const apps::ModelSource& source() const { return source_; }
  std::optional<i64> heads() const { return heads_; }

  void check_ids(const std::int32_t* ids, i64 n) const;  // ArgumentError
  // The sum of the losses of ids[1 …], each behind at most length - 1 ids of its own window.
  double loss_of(const std::int32_t* ids, i64 n, i64 length) const;

 private:
  Device device_;
  apps::ModelSource source_;
  std::optional<i64> heads_;
  apps::LanguageModel model_;
};

// Writes a result where there is room for it; `to` NULL: only its size.
template <class T, class Size>
void fill(std::span<const T> result, T* to, Size* count, const char* what) {
  if (to) {
    check<ArgumentError>(result.size() <= static_cast<std::size_t>(std::max<Size>(*count, 0)), what,
                         ": there is room for ", *count, ", and there are ", result.size());
    std::ranges::copy(result, to);
  }
  *count = static_cast<Size>(result.size());
}

}  // namespace gossamer::capi
