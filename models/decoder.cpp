// See decoder.h.
#include "gossamer/models/decoder.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"

namespace gossamer::models {
namespace {

Tensor zeros(i64 count, DType type, Device device) { return Tensor::zeros({count}, type, device); }

}  // namespace

Decoder::Decoder(LanguageNet& net, i64 texts, GraphOptions graphs)
    : net_(net),
      device_(net.parameters().front().tensor.device()),
      cache_(net.cache(texts)),
      positions_(texts, device_),
      draws_{zeros(texts, DType::i64, device_), zeros(texts, DType::i32, device_)},
      ids_(zeros(texts, DType::i32, device_)),
      given_(zeros(texts, DType::i32, device_)),
      step_({.graphs = std::move(graphs)}) {}

void Decoder::begin(const Choice& choice, std::span<const std::uint64_t> seeds) {
  check<ShapeError>(static_cast<i64>(seeds.size()) == texts(), "Decoder: ", seeds.size(),
                    " seeds for ", texts(), " texts");
  if (!(choice == choice_)) step_.forget();
  choice_ = choice;
  Tensor all = Tensor::empty({texts()}, DType::i64);
  for (i64 i = 0; i < texts(); ++i)
    all.as<i64>()[i] = static_cast<i64>(seeds[static_cast<std::size_t>(i)]);
  draws_.seeds.copy_from(all);
  draws_.counts.zero();
  if (choice.repetition_penalty == 1)
    draws_.seen = {};
  else if (!draws_.seen.defined())
    draws_.seen = zeros(texts() * net_.vocabulary(), DType::u8, device_)
                      .reshape({texts(), net_.vocabulary()});
  if (draws_.seen.defined()) draws_.seen.zero();
  sent_.clear();
}

void Decoder::give(const Ids& given) {
  check<ShapeError>(static_cast<i64>(given.size()) == texts(), "Decoder: ", given.size(),
                    " given ids for ", texts(), " texts");
  if (given == given_now_) return;
  given_.copy_from(Tensor::from(given, {texts()}));
  given_now_ = given;
}

void Decoder::choose(const Tensor& logits) { choose_ids(logits, choice_, draws_, given_, ids_); }

void Decoder::send() {
  // page-locked where there is a GPU: the host does not wait for the copy
  Sent sent{cuda::allocate_pinned(ids_.bytes()), {}};
  if (device_.is_cpu()) {
    std::memcpy(sent.ids->data, ids_.data(), ids_.bytes());
  } else {
    const cuda::Stream& stream = cuda::current_stream(device_);
    sent.done = cuda::Event(device_);
    cuda::copy(sent.ids->data, ids_.data(), ids_.bytes(), stream);
    cuda::record_use(*sent.ids, stream);
    sent.done.record(stream);
  }
  sent_.push_back(std::move(sent));
}

// The ids that each text has, for the repetition penalty. Those before stay: the beginning of a
// long text may not be read again.
void Decoder::mark_seen(const Ids& texts_so_far) {
  if (!draws_.seen.defined()) return;
  const i64 vocabulary = net_.vocabulary(),
            length = static_cast<i64>(texts_so_far.size()) / texts();
  Tensor seen = draws_.seen.to(Device{});
  for (i64 i = 0; i < texts() * length; ++i) {
    const i64 id = texts_so_far[static_cast<std::size_t>(i)];
    if (id >= 0 && id < vocabulary) seen.as<std::uint8_t>()[i / length * vocabulary + id] = 1;
  }
  if (!device_.is_cpu()) draws_.seen.copy_from(seen);
}

void Decoder::read(const Ids& texts_so_far, const Ids& given) {
  const NoGrad no_grad;
  const auto length = static_cast<i64>(texts_so_far.size()) / texts();
  give(given);
  mark_seen(texts_so_far);
  cache_.length = 0;
  choose(net_.step(Tensor::from(texts_so_far, {texts(), length}).to(device_), cache_));
  positions_.move_to(length);
  send();
}

void Decoder::step(const Ids& given) {
  const NoGrad no_grad;
  check<ShapeError>(cache_.length < positions(), "Decoder: the texts have all ", positions(),
                    " positions of the model; read() their ends");
  give(given);
  step_.run({ids_.shape(), {ids_}}, [this] {
    choose(net_.step(ids_, cache_, positions_));
    positions_.advance();
  });
  ++cache_.length;
  send();
}

Decoder::Ids Decoder::ids() {
  check(!sent_.empty(), "Decoder: ids() before a step");
  const Sent sent = std::move(sent_.front());
  sent_.pop_front();
  if (sent.done.defined())
    check<DeviceError>(sent.done.wait(std::chrono::minutes(10)), device_,
                       ": a step of decoding is not done after ten minutes");
  const auto* const begin = static_cast<const std::int32_t*>(sent.ids->data);
  Ids out(begin, begin + texts());
  for (std::size_t i = 0; i < out.size(); ++i)
    check(out[i] >= 0, "the logits of text ", i, " are not finite");
  return out;
}

}  // namespace gossamer::models
