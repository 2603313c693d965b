// See growing_texts.h.
#include "gossamer/models/growing_texts.h"

#include <algorithm>
#include <utility>

namespace gossamer::models {

GrowingTexts::GrowingTexts(std::vector<const Ids*> texts, Decoder& decoder, bool cache)
    : texts_(std::move(texts)),
      decoder_(decoder),
      with_cache_(cache),
      ahead_(!decoder.device().is_cpu()),
      known_(texts_.at(0)->size()) {
  for (const Ids* each : texts_) known_ = std::min(known_, each->size());
  asked_ = known_;
}

const GrowingTexts::Ids& GrowingTexts::text(i64 row) const {
  const auto at = static_cast<std::size_t>(row);
  return *texts_[at < texts_.size() ? at : 0];
}

// Whether the next ids can be asked for before those are known that were asked for last.
bool GrowingTexts::can_go_on() const {
  return with_cache_ && begun_ && decoder_.length() < decoder_.positions();
}

// Asks for an id more of each text. Each id is read once; when all positions of the model are
// taken, the later half of them is read again, and the texts go on from there.
void GrowingTexts::ask() {
  Ids given;
  for (i64 i = 0; i < decoder_.texts(); ++i)
    given.push_back(text(i).size() > asked_ ? text(i)[asked_] : -1);
  if (can_go_on()) {
    decoder_.step(given);
  } else {
    const auto positions = static_cast<std::size_t>(decoder_.positions());
    if (asked_ - begin_ > positions) begin_ = asked_ - std::max<std::size_t>(1, positions / 2);
    Ids so_far;
    for (i64 i = 0; i < decoder_.texts(); ++i)
      so_far.insert(so_far.end(), text(i).begin() + static_cast<std::ptrdiff_t>(begin_),
                    text(i).begin() + static_cast<std::ptrdiff_t>(asked_));
    decoder_.read(so_far, given);
    begun_ = true;
  }
  ++asked_;
}

GrowingTexts::Ids GrowingTexts::next() {
  if (asked_ == known_) ask();
  if (ahead_ && asked_ == known_ + 1 && can_go_on()) ask();
  ++known_;
  return decoder_.ids();
}

}  // namespace gossamer::models
