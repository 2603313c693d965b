// Synchronous methods: means and sums over all living workers.
#include <algorithm>
#include <utility>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

void SynchronousMethod::count_sum(const Tensor& t) {
  stats_.bytes_sent += 2.0 * (alive() - 1) / alive() * static_cast<double>(t.bytes());
}

void SynchronousMethod::heed(const FiniteSum& sum) {
  check<Error>(sum.ruined.empty(), name(), ", step ", steps_ + 1, ": ", sum.ruined);
  left_out_.now(sum.left_out, options_.on_fault);
  if (!sum.leaves_out(group_.rank())) return;
  std::vector<Tensor> kept{error_};
  for (const NamedTensor& state : optimizer_.state()) kept.push_back(state.tensor);
  for (Tensor& t : kept)
    if (t.defined() && t.dtype() == DType::f32 && !all_finite(t)) t.zero();
}

bool SynchronousMethod::average_exactly() {
  if (alone()) return true;
  Tensor mean = Tensor::empty(params_.values().shape(), DType::f32, params_.values().device());
  FiniteSum finite;
  const bool done = meet(Purpose::average, [&](Collectives& all) {
    finite = finite_sum(
        "models", group_, [&] { return all_finite(params_.values()); },
        [&](const FiniteSum& so_far) {
          std::vector<double> weight = {weight_in_mean().value_or(1)};
          mean.copy_from(params_.values());
          if (weight_in_mean()) scale(mean, static_cast<float>(weight[0]));
          if (so_far.leaves_out(group_.rank())) mean.zero(), weight[0] = 0;
          all.all_reduce_sum(mean);
          all.all_reduce_sum(weight);
          scale(mean, static_cast<float>(1 / weight[0]));
          return all_finite(mean);
        });
  });
  heed(finite);
  count_sum(mean);
  if (done) Tensor(params_.values()).copy_from(mean);
  return done;
}

bool SynchronousMethod::average_parts(const std::vector<Tensor>& parts, int tag) {
  if (alone()) return true;
  std::vector<Tensor> means;
  FiniteSum finite;
  const auto all_are_finite = [](const std::vector<Tensor>& of) {
    return std::ranges::all_of(of, [](const Tensor& t) { return all_finite(t); });
  };
  const bool done = meet(
      Purpose::average,
      [&](Collectives& all) {
        finite = finite_sum(
            "models", group_, [&] { return all_are_finite(parts); },
            [&](const FiniteSum& so_far) {
              const auto workers = all.members() - std::ssize(so_far.left_out);
              means.clear();
              for (const Tensor& part : parts) {
                Tensor& mean = means.emplace_back(part.clone());
                if (so_far.leaves_out(group_.rank())) mean.zero();
                all.all_reduce_sum(mean);
                scale(mean, 1 / static_cast<float>(workers));
                count_sum(mean);
              }
              return all_are_finite(means);
            });
      },
      tag);
  heed(finite);
  for (std::size_t i = 0; done && i < parts.size(); ++i) Tensor(parts[i]).copy_from(means[i]);
  return done;
}

namespace {

// Up to so many workers the codes of all go to all. Of more, each gets a part of the codes of all,
// and sends the mean of its part to all, in f32: 5 bytes a value, whatever their number.
constexpr int kMostWithAllCodes = 5;

// Those whose codes are added, in this order.
struct Members {
  std::vector<int> ranks;
  int self;
  const FiniteSum& finite;  // whom it leaves out
  i64 size() const { return std::ssize(ranks); }
  bool counts(i64 place) const {
    return !finite.leaves_out(ranks[static_cast<std::size_t>(place)]);
  }
  i64 counted() const { return size() - std::ssize(finite.left_out); }
};

// mean <- of what the codes stand for; every worker gets the codes of all.
void mean_of_codes(Collectives& all, const Tensor& own,
                   FunctionRef<void(const Tensor&, const Tensor&)> decode, MeanOver over,
                   const Members& members, Tensor mean) {
  const Tensor codes = Tensor::empty({members.size() * own.numel()}, own.dtype());
  all.all_gather(own, codes);
  const Tensor one = Tensor::zeros({mean.numel()});  // 0 between parameters
  Tensor senders;
  if (over == MeanOver::senders) senders = Tensor::zeros({mean.numel()});
  mean.zero();
  for (i64 place = 0; place < members.size(); ++place) {
    if (!members.counts(place)) continue;
    decode(codes.slice(place * own.numel(), (place + 1) * own.numel()), one);
    axpy(mean, 1, one);
    for (i64 k = 0; senders.defined() && k < one.numel(); ++k)
      senders.as<float>()[k] += one.as<float>()[k] != 0 ? 1.f : 0.f;
  }
  if (!senders.defined()) return scale(mean, 1 / static_cast<float>(members.counted()));
  for (i64 k = 0; k < mean.numel(); ++k)
    mean.as<float>()[k] /= std::max(1.f, senders.as<float>()[k]);
}

// The same, bit for bit: here, too, one worker adds each value, in the order of the members.
void mean_by_parts(Collectives& all, const Coded& own, const Members& members, Tensor mean) {
  const i64 n = members.size(), size = mean.numel();
  const i64 part = (size + n * kInt8Block - 1) / (n * kInt8Block) * kInt8Block;
  const i64 bytes = coded_bytes(own.coding(), part);
  const auto range = [&](i64 place) {
    return FlatRange{std::min(size, place * part), std::min(size, (place + 1) * part)};
  };
  const auto codes = [&](const Tensor& of, i64 place, FlatRange values) {
    return of.slice(place * bytes,
                    place * bytes + coded_bytes(own.coding(), values.end - values.begin));
  };
  const Tensor from = Tensor::zeros({n * bytes}, DType::u8);
  const Tensor to = Tensor::empty({n * bytes}, DType::u8);
  for (i64 place = 0; place < n; ++place)
    own.copy_part(range(place), codes(from, place, range(place)));
  all.all_to_all(from, to);

  const auto self = std::ranges::find(members.ranks, members.self) - members.ranks.begin();
  const FlatRange mine = range(self);
  const Tensor padded = Tensor::zeros({part}), one = Tensor::empty({mine.end - mine.begin});
  Tensor sum = padded.slice(0, one.numel());
  for (i64 place = 0; place < n; ++place) {
    if (!members.counts(place)) continue;
    Coded::decode(own.coding(), codes(to, place, mine), one);
    axpy(sum, 1, one);
  }
  scale(sum, 1 / static_cast<float>(members.counted()));
  const Tensor means = Tensor::empty({n * part});
  all.all_gather(padded, means);
  mean.copy_from(means.slice(0, size));
}

}  // namespace

bool SynchronousMethod::average_coded(const Coded& own, Tensor values, int tag) {
  const auto decode = [&](const Tensor& code, const Tensor& to) {
    Coded::decode(own.coding(), code, to);
  };
  const auto mean = [&](Collectives& all, const FiniteSum& finite, const Tensor& to) {
    const Members members{membership_.members(), group_.rank(), finite};
    if (members.size() > kMostWithAllCodes)
      mean_by_parts(all, own, members, to);
    else
      mean_of_codes(all, own.bytes(), decode, MeanOver::all, members, to);
  };
  if (!average_by([&] { return all_finite(values); }, mean, values, tag)) return false;
  const auto codes = static_cast<double>(own.bytes().bytes());
  stats_.bytes_sent += alive() > kMostWithAllCodes
                           ? (codes + static_cast<double>(values.bytes())) * (alive() - 1) / alive()
                           : codes * (alive() - 1);
  return true;
}

bool SynchronousMethod::average_coded(const Tensor& own, FunctionRef<bool()> own_is_finite,
                                      FunctionRef<void(const Tensor&, const Tensor&)> decode,
                                      MeanOver over, Tensor values, int tag) {
  const auto mean = [&](Collectives& all, const FiniteSum& finite, const Tensor& to) {
    mean_of_codes(all, own, decode, over, {membership_.members(), group_.rank(), finite}, to);
  };
  if (!average_by(own_is_finite, mean, std::move(values), tag)) return false;
  stats_.bytes_sent += (alive() - 1) * static_cast<double>(own.bytes());
  return true;
}

bool SynchronousMethod::average_by(
    FunctionRef<bool()> own_is_finite,
    FunctionRef<void(Collectives&, const FiniteSum&, const Tensor&)> mean, Tensor values, int tag) {
  if (alone()) return true;
  const Tensor to = Tensor::empty({values.numel()});
  FiniteSum finite;
  const bool done = meet(
      Purpose::average,
      [&](Collectives& all) {
        finite = finite_sum("models", group_, own_is_finite, [&](const FiniteSum& so_far) {
          mean(all, so_far, to);
          return all_finite(to);
        });
      },
      tag);
  heed(finite);
  if (done) values.copy_from(to);
  return done;
}

std::optional<std::vector<double>> SynchronousMethod::sum_over_workers(std::vector<double> own) {
  if (alone()) return own;
  std::vector<double> sum;
  const bool done = meet(Purpose::sum, [&](Collectives& all) {
    sum = own;
    all.all_reduce_sum(sum);
  });
  return done ? std::optional(sum) : std::nullopt;
}

}  // namespace gossamer::dist
