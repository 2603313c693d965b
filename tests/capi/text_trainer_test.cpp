// Trainers of models of text and of translation.
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/trainers.h"

namespace gossamer {
namespace {

using testing::HasSubstr;

// Two workers that had the same masks would be one.
TEST_F(CTrainer, WorkersDrawMasksOfDropoutOfTheirOwn) {
  gsm_trainer_options o = options();
  o.model_options = "layers=1 width=32 heads=2 positions=16 dropout=0.5";
  std::vector<int32_t> ids(4 * 16, 3);
  gsm_group* groups[2];
  MUST(gsm_group_local(2, groups));
  gsm_trainer* const trainers[2] = {make("gpt2", 11, o), make("gpt2", 11, o)};
  float before[2] = {}, loss[2] = {};
  const auto work = [&](int rank) {
    gsm_trainer* const trainer = trainers[rank];
    const auto gradient = [&](float* to) {
      ASSERT_EQ(gsm_trainer_gradient_ids(trainer, ids.data(), nullptr, 4, 16, to), GSM_OK)
          << gsm_last_error();
    };
    gradient(&before[rank]);
    gsm_method* method = nullptr;
    ASSERT_EQ(gsm_method_new(trainer, groups[rank], "allreduce", "complete", nullptr, &method),
              GSM_OK)
        << gsm_last_error();
    gradient(&loss[rank]);
    EXPECT_EQ(gsm_method_step(method, 0), GSM_OK) << gsm_last_error();
    EXPECT_EQ(gsm_method_finish(method), GSM_OK) << gsm_last_error();
    EXPECT_EQ(gsm_method_free(method), GSM_OK);
    EXPECT_EQ(gsm_group_free(groups[rank]), GSM_OK);
  };
  std::thread other([&] { work(1); });
  work(0);
  other.join();
  EXPECT_EQ(before[0], before[1]);
  EXPECT_NE(loss[0], loss[1]);
}

TEST_F(CTrainer, ALanguageModelLearnsATextAndGoesOnBitForBit) {
  gsm_trainer_options o = options();
  o.optimizer = "adamw";
  o.model_options = "layers=2 width=32 heads=2 positions=16 dropout=0.1";
  gsm_trainer* trainer = make("gpt2", 11, o);
  std::vector<int32_t> ids(4 * 16);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i % 11);
  const auto learn = [&](gsm_trainer* t, int steps) {
    float loss = 0;
    for (int i = 0; i < steps; ++i) {
      EXPECT_EQ(gsm_trainer_gradient_ids(t, ids.data(), nullptr, 4, 16, &loss), GSM_OK)
          << gsm_last_error();
      EXPECT_EQ(gsm_trainer_step(t, .01), GSM_OK) << gsm_last_error();
    }
  };
  float first = 0, last = 0;
  MUST(gsm_trainer_evaluate_ids(trainer, ids.data(), nullptr, 4, 16, &first));
  learn(trainer, 10);
  const std::string half = state(trainer);
  learn(trainer, 30);
  MUST(gsm_trainer_evaluate_ids(trainer, ids.data(), nullptr, 4, 16, &last));
  EXPECT_LT(last, first / 2);
  gsm_trainer* again = make("gpt2", 11, o);
  MUST(gsm_trainer_state_restore(again, half.data(), half.size()));
  learn(again, 30);
  EXPECT_EQ(read(again, "wte.weight"), read(trainer, "wte.weight"));  // with equal dropout
  o.seed = 4;
  gsm_trainer* other = make("gpt2", 11, o);
  EXPECT_EQ(gsm_trainer_state_restore(other, half.data(), half.size()), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("the seed, which was 3"));

  // its own loss: the gradient of the sum of all logits
  std::vector<float> logits(4 * 16 * 11), ones(logits.size(), 1);
  MUST(gsm_trainer_forward_ids(trainer, ids.data(), 4, 16, logits.data()));
  MUST(gsm_trainer_backward(trainer, ones.data()));
  ids[3] = 11;
  EXPECT_EQ(gsm_trainer_gradient_ids(trainer, ids.data(), nullptr, 4, 16, &last),
            GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("ids[3] is 11; wanted 0 to 10"));
  ids[3] = 3;
  uint8_t pixel[3] = {};
  int64_t right = 0;
  const int32_t label = 0;
  EXPECT_EQ(gsm_trainer_evaluate(trainer, pixel, &label, 1, 1, 1, &right, &last), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("is for language"));
  const std::string path = file("gpt2.safetensors").string();
  MUST(gsm_trainer_save(trainer, path.c_str(), nullptr));
  const auto before = read(trainer, "h.0.attn.c_attn.weight");
  learn(again, 1);
  MUST(gsm_trainer_load(again, path.c_str()));
  EXPECT_EQ(read(again, "h.0.attn.c_attn.weight"), before);
}

TEST_F(CTrainer, ATranslatorLearnsPairs) {
  gsm_trainer_options o = options();
  o.optimizer = "adam";
  o.model_options = "layers=1 width=32 heads=2 ff=64 positions=16";
  gsm_trainer* trainer = make("transformer", 9, o);
  const int32_t source[] = {3, 4, 5, 6, 7, 8, 3, 0}, lengths[] = {4, 3},
                inputs[] = {1, 3, 4, 1, 6, 7}, labels[] = {3, 4, 2, 6, 7, 2};
  float first = 0, loss = 0;
  for (int i = 0; i < 30; ++i) {
    MUST(gsm_trainer_gradient_pairs(trainer, source, lengths, inputs, labels, 2, 4, 3, &loss));
    if (i == 0) first = loss;
    MUST(gsm_trainer_step(trainer, .01));
  }
  EXPECT_LT(loss, first / 2);
  const int32_t wrong[] = {5, 0};
  EXPECT_EQ(gsm_trainer_gradient_pairs(trainer, source, wrong, inputs, labels, 2, 4, 3, &loss),
            GSM_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace gossamer
