// Pixels and labels travel together: what learns the photos by heart through the loader can only do
// so if every picture comes with its own label, every epoch, however the threads take turns. The
// same with resnet50 is a command (data/README.md): it takes minutes.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/data/loader.h"
#include "gossamer/nn/layers.h"
#include "gossamer/nn/optim.h"
#include "support/photos.h"

namespace gossamer::data {
namespace {

// The mean loss of the last epoch. labels_off: each picture gets the label of its neighbour in the
// batch, as a broken loader would give it.
double learn(bool labels_off, int epochs) {
  const auto set = open({photos().string()});
  Loader loader(set, {.batch = 50, .size = 24, .threads = 2, .epoch = {.seed = 1}});
  nn::Linear net(24 * 24 * 3, static_cast<i64>(set->classes().size()));
  FlatParams params(net.parameters(), net.buffers());
  const auto optimizer = nn::make_optimizer("adam", params, {.weight_decay = 0});
  double loss = 0;
  for (int e = 0; e < epochs; ++e) {
    loss = 0;
    for (Batch b = loader.next(); b.images.defined(); b = loader.next()) {
      if (labels_off) {
        const auto labels = b.labels.span<std::int32_t>();
        std::rotate(labels.begin(), labels.begin() + 1, labels.end());
      }
      const Tensor x = normalize(b.images, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f})
                           .reshape({b.images.shape(0), -1});
      const Tensor value = cross_entropy(net(x), b.labels);
      params.zero_grad();
      value.backward();
      optimizer->step(2e-3f);
      loss += value.item() / static_cast<double>(loader.steps());
    }
  }
  return loss;
}

TEST(Overfit, LearnsThePhotosByHeart) {
  if (!std::filesystem::exists(photos()))
    GTEST_SKIP() << photos()
                 << " is not on this machine; set GOSSAMER_TEST_DATA to a folder with it";
  const double loss = learn(false, 7);
  EXPECT_LT(loss, 0.1);
  EXPECT_GT(learn(true, 2), 3)
      << "with wrong labels nothing can be learnt, so the line above says something";
}

}  // namespace
}  // namespace gossamer::data
