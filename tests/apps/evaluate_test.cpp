// Evaluation: every image counts once, whatever the batch size, and filled-up batches count the
// same.
#include "gossamer/apps/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/free_memory.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/models/registry.h"

namespace gossamer::apps {
namespace {

// 23 raw pictures of noise, 8 x 8, in 7 classes.
class Noise : public data::Dataset {
 public:
  Noise() : pixels_(23 * 8 * 8 * 3) {
    Rng rng(5);
    for (auto& v : pixels_) v = static_cast<std::byte>(rng.below(256));
  }
  i64 size() const override { return 23; }
  int label(i64 i) const override { return static_cast<int>(i % 7); }
  std::string name(i64 i) const override { return std::to_string(i); }
  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>&) const override {
    return std::span(pixels_).subspan(static_cast<std::size_t>(i) * 192, 192);
  }
  const std::vector<std::string>& classes() const override { return classes_; }
  Raw raw() const override { return {8, 8}; }

 private:
  std::vector<std::byte> pixels_;
  std::vector<std::string> classes_ = std::vector<std::string>(7);
};

Counts evaluate(nn::Module& net, const std::shared_ptr<const data::Dataset>& set,
                const Pictures& prepare, const EvalOptions& options,
                std::vector<std::string>* damaged = nullptr,
                std::vector<Judgement>* judged = nullptr) {
  nn::Module* const one[] = {&net};
  return apps::evaluate(one, set, prepare, options, damaged, judged)[0];
}

TEST(Evaluate, CountsAreThoseOfTheWholeSetInOneBatch) {
  const auto net = models::make("resnet8-cifar", {.classes = 7, .seed = 2});
  const auto set = std::make_shared<Noise>();
  const Pictures prepare{
      .size = 8, .resize = 8, .mean = {.5f, .5f, .5f}, .std = {.25f, .25f, .25f}};
  net->train();
  const Counts whole = evaluate(*net, set, prepare, {.batch = 23});
  EXPECT_EQ(whole.items, 23);
  EXPECT_GT(whole.top5, whole.top1);
  EXPECT_LT(whole.top5, 23);
  EXPECT_TRUE(net->training()) << "restored";
  for (const bool like_gpu : {false, true})
    for (const i64 batch : {5, 8}) {
      const Counts parts = evaluate(*net, set, prepare, {.batch = batch, .like_gpu = like_gpu});
      EXPECT_EQ(parts.items, 23);
      EXPECT_EQ(parts.top1, whole.top1);
      EXPECT_EQ(parts.top5, whole.top5);
      EXPECT_NEAR(parts.loss, whole.loss, 1e-4 * whole.loss);
    }
  Counts sum;
  for (int part = 0; part < 3; ++part) {
    const Counts c = evaluate(*net, set, prepare, {.batch = 4, .part = part, .parts = 3});
    sum.items += c.items, sum.top1 += c.top1, sum.top5 += c.top5, sum.loss += c.loss;
  }
  EXPECT_EQ(sum.items, 23);
  EXPECT_EQ(sum.top1, whole.top1);
  EXPECT_EQ(sum.top5, whole.top5);
  EXPECT_NEAR(sum.loss, whole.loss, 1e-4 * whole.loss);
  EXPECT_EQ(evaluate(*net, set, prepare, {.batch = 4, .max_batches = 2}).items, 8);
  EXPECT_EQ(evaluate(*net, set, prepare, {.batch = 4, .part = 29, .parts = 30}).items, 0);
}

// A network for which memory suffices for three images.
class ForThree final : public nn::Module {
 public:
  explicit ForThree(nn::Module& net) : net_(net) {}
  Tensor forward(const Tensor& x) override {
    check<OutOfMemory>(x.shape(0) <= most, "out of memory");
    return net_(x);
  }
  i64 most = 3;

 private:
  nn::Module& net_;
};

TEST(Evaluate, TakesFewerImagesAtATimeIfMemoryDoesNotSuffice) {
  const auto net = models::make("resnet8-cifar", {.classes = 7, .seed = 2});
  const auto set = std::make_shared<Noise>();
  const Pictures prepare{
      .size = 8, .resize = 8, .mean = {.5f, .5f, .5f}, .std = {.25f, .25f, .25f}};
  net->eval();
  ForThree small(*net);
  std::vector<Judgement> judged;
  std::vector<i64> seen;
  const Counts some =
                   evaluate(small, set, prepare,
                            {.batch = 16, .progress = [&](i64 images) { seen.push_back(images); }},
                            nullptr, &judged),
               all = evaluate(*net, set, prepare, {.batch = 23});
  EXPECT_EQ(some.batch, 2);
  EXPECT_EQ(seen, (std::vector<i64>{2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 23}));
  EXPECT_EQ(all.batch, 23);
  EXPECT_EQ(some.items, 23);
  EXPECT_EQ(some.top1, all.top1);
  EXPECT_EQ(judged.size(), 23u);
  EXPECT_EQ(std::ranges::count_if(judged, [](auto j) { return j.label == j.predicted; }),
            static_cast<std::ptrdiff_t>(all.top1));
  for (const Judgement& j : judged) {
    EXPECT_EQ(j.label, j.sample % 7);
    EXPECT_GE(j.probability, 1. / 7);
    EXPECT_LE(j.probability, 1);
  }
  small.most = 0;
  EXPECT_THROW(evaluate(small, set, prepare, {.batch = 16}), OutOfMemory);
}

TEST(Evaluate, AnEnsembleHasTheMeanOfTheProbabilities) {
  const auto one = models::make("resnet8-cifar", {.classes = 7, .seed = 2}),
             two = models::make("resnet8-cifar", {.classes = 7, .seed = 3});
  const auto set = std::make_shared<Noise>();
  const Pictures prepare{
      .size = 8, .resize = 8, .mean = {.5f, .5f, .5f}, .std = {.25f, .25f, .25f}};
  nn::Module* const nets[] = {one.get(), two.get()};
  std::vector<Judgement> judged;
  const auto all = apps::evaluate(nets, set, prepare, {.batch = 5}, nullptr, &judged);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].loss, evaluate(*one, set, prepare, {.batch = 5}).loss);
  EXPECT_EQ(all[1].top5, evaluate(*two, set, prepare, {.batch = 5}).top5);
  EXPECT_TRUE(one->training()) << "restored";

  const NoGrad no_grad;
  one->eval(), two->eval();
  Tensor pictures = Tensor::empty({23, 8, 8, 3}, DType::u8);
  std::vector<std::byte> buffer;
  std::ranges::copy(std::span(set->bytes(0, buffer).data(), 23u * 192),
                    reinterpret_cast<std::byte*>(pictures.as<std::uint8_t>()));
  const Tensor p = softmax((*one)(prepare(pictures))), q = softmax((*two)(prepare(pictures)));
  double loss = 0, top1 = 0;
  for (int n = 0; n < 23; ++n) {
    std::vector<float> mean;
    for (int k = 0; k < 7; ++k)
      mean.push_back((p.as<float>()[7 * n + k] + q.as<float>()[7 * n + k]) / 2);
    const auto best = std::ranges::max_element(mean);
    loss -= std::log(static_cast<double>(mean[static_cast<std::size_t>(n % 7)]));
    top1 += best - mean.begin() == n % 7;
    const Judgement& j = judged[static_cast<std::size_t>(n)];
    EXPECT_EQ(j.predicted, best - mean.begin());
    EXPECT_NEAR(j.probability, *best, 1e-6);
  }
  EXPECT_NEAR(all[2].loss, loss, 1e-4);
  EXPECT_EQ(all[2].top1, top1);
}

// Mirrored twice it is the same picture: both orders give the same mean.
TEST(Evaluate, FlipTakesTheMeanWithTheMirrorImage) {
  const auto net = models::make("resnet8-cifar", {.classes = 7, .seed = 2});
  const Pictures prepare{
      .size = 8, .resize = 8, .mean = {.5f, .5f, .5f}, .std = {.25f, .25f, .25f}};
  class Mirrored final : public Noise {
   public:
    std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const override {
      const auto from = Noise::bytes(i, buffer);
      std::vector<std::byte> turned(from.size());
      for (std::size_t row = 0; row < 8; ++row)
        for (std::size_t x = 0; x < 8; ++x)
          std::ranges::copy(from.subspan((row * 8 + 7 - x) * 3, 3),
                            turned.begin() + static_cast<std::ptrdiff_t>((row * 8 + x) * 3));
      buffer = turned;
      return buffer;
    }
  };
  const auto set = std::make_shared<Noise>();
  const auto mirrored = std::make_shared<Mirrored>();
  const Counts plain = evaluate(*net, set, prepare, {.batch = 23}),
               turned = evaluate(*net, mirrored, prepare, {.batch = 23}),
               flip = evaluate(*net, set, prepare, {.batch = 23, .flip = true}),
               there = evaluate(*net, set, prepare, {.batch = 8, .flip = true, .like_gpu = true}),
               both = evaluate(*net, mirrored, prepare, {.batch = 23, .flip = true});
  EXPECT_NE(plain.loss, turned.loss);
  EXPECT_NEAR(flip.loss, both.loss, 1e-5 * flip.loss);
  EXPECT_NEAR(flip.loss, there.loss, 1e-4 * flip.loss) << "the device turns them";
  EXPECT_NE(flip.loss, plain.loss);
  EXPECT_LT(flip.loss, (plain.loss + turned.loss) / 2) << "the loss is convex in the logits";
}

// What a device resizes is within 1/255 of what the host does.
TEST(Evaluate, PicturesThatTheDeviceResizesGiveNearlyTheSameLoss) {
  const auto net = models::make("resnet8-cifar", {.classes = 7, .seed = 2});
  const Pictures prepare{
      .size = 6, .resize = 7, .mean = {.5f, .5f, .5f}, .std = {.25f, .25f, .25f}};
  const auto set = std::make_shared<Noise>();
  for (const bool flip : {false, true}) {
    const Counts here = evaluate(*net, set, prepare, {.batch = 23, .flip = flip}),
                 there = evaluate(*net, set, prepare, {.batch = 9, .flip = flip, .like_gpu = true});
    EXPECT_EQ(there.items, 23);
    EXPECT_NEAR(there.loss, here.loss, 2e-2 * here.loss);
  }
  Pictures area = prepare;
  area.filter = data::Shrink::area;  // which a device cannot
  EXPECT_NEAR(evaluate(*net, set, area, {.batch = 9, .like_gpu = true}).loss,
              evaluate(*net, set, area, {.batch = 23}).loss, 1e-4);
}

}  // namespace
}  // namespace gossamer::apps
