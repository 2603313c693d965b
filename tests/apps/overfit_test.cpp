// The bundled app teaches ResNet-50 a few photos by heart: whole program, real JPEG files of all
// shapes. All 400 photos at 64 pixels, and how the finished model does on them, are a command
// (data/README.md): minutes. At 32 pixels the last stage is one pixel, and running statistics of
// twenty values say little, so only the loss in training counts here.
#include "apps/program.h"
#include "gossamer/data/dataset.h"
#include "support/photos.h"

namespace gossamer::apps {
namespace {

class Overfit : public ProgramTest {};

TEST_F(Overfit, ResNet50LearnsTwentyPhotosByHeart) {
  const fs::path photos = gossamer::photos();
  if (!fs::exists(photos))
    GTEST_SKIP() << photos << " is not on this machine; set GOSSAMER_TEST_DATA to a folder with it";
  const auto all = data::open({photos.string()});
  for (i64 i = 0; i < all->size(); i += all->size() / 20) {
    std::vector<std::byte> buffer;
    const auto bytes = all->bytes(i, buffer);
    const std::string name = all->classes()[static_cast<std::size_t>(all->label(i))];
    write_text(folder / "p" / name / "photo.jpg",
               {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  start({"train", "model.name=resnet50", "data.train=p", "data.val=p", "data.augment=none",
         "data.size=32", "train.batch=20", "train.epochs=40", "train.dtype=bf16",
         "train.device=cpu", "optim.learning_rate=0.03", "optim.scaling=none",
         "optim.schedule=one-cycle", "optim.warmup_epochs=10", "optim.weight_decay=0", "run.name=t",
         "run.log_every=10"});
  const Result r = wait(4 * kLimit);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_GT(events("step").front()["loss"].get<double>(), 1);
  EXPECT_LT(events("step").back()["loss"].get<double>(), 0.1);
}

}  // namespace
}  // namespace gossamer::apps
