// How soon calls end that another thread cancels, by what they still do: the one that goes on may
// end well, and none after it. And calls of own networks, whose gradients are gone then.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/bitmap.h"
#include "capi/trainers.h"

namespace gossamer {
namespace {

class CCancelCounts : public CTrainer {
 protected:
  void SetUp() override {
    CTrainer::SetUp();
    MUST(gsm_cancel_new(&cancel_));
  }
  void TearDown() override {
    EXPECT_EQ(gsm_cancel_use(nullptr), GSM_OK);
    EXPECT_EQ(gsm_cancel_free(cancel_), GSM_OK);
    CTrainer::TearDown();
  }
  // Another thread calls again and again, until a call does not end well.
  void expect_one_more_at_most(const std::function<gsm_status()>& call) {
    std::atomic<int64_t> ended = 0;
    std::atomic<int> status = GSM_OK;
    std::thread calls([&] {
      EXPECT_EQ(gsm_cancel_use(cancel_), GSM_OK);
      while ((status = call()) == GSM_OK) ++ended;
      EXPECT_EQ(status, GSM_CANCELLED) << gsm_last_error();
      EXPECT_EQ(gsm_cancel_use(nullptr), GSM_OK);
    });
    while (ended < 2 && status == GSM_OK) std::this_thread::yield();
    EXPECT_EQ(gsm_cancel_set(cancel_, 1), GSM_OK);
    const int64_t before = ended;
    calls.join();
    EXPECT_LE(ended, before + 1);
    EXPECT_EQ(gsm_cancel_set(cancel_, 0), GSM_OK);
  }

  gsm_cancel* cancel_ = nullptr;
};

TEST_F(CCancelCounts, OfPictures) {
  gsm_trainer* const trainer = make(options());
  const std::string path = file("m.safetensors").string();
  MUST(gsm_trainer_save(trainer, path.c_str(), nullptr));
  gsm_model* model = nullptr;
  MUST(gsm_model_open(path.c_str(), &model));
  const std::vector<uint8_t> pixels(2 * 192, 90);
  const std::vector<float> floats(2 * 192, .5F);
  const int32_t labels[] = {0, 1};
  float loss = 0, y[4] = {};
  int64_t right = 0;
  const auto gradient = [&] {
    return gsm_trainer_gradient(trainer, pixels.data(), labels, 2, 8, 8, &loss);
  };
  expect_one_more_at_most(gradient);
  EXPECT_EQ(gsm_trainer_step(trainer, .1), GSM_ERROR_CONFIG);  // the gradient is gone
  MUST(gradient());
  MUST(gsm_trainer_step(trainer, .1));
  expect_one_more_at_most(
      [&] { return gsm_trainer_evaluate(trainer, pixels.data(), labels, 2, 8, 8, &right, &loss); });
  expect_one_more_at_most([&] { return gsm_trainer_forward(trainer, floats.data(), 2, 8, 8, y); });
  expect_one_more_at_most([&] { return gsm_model_forward(model, floats.data(), 2, 8, 8, y); });
  expect_one_more_at_most([&] { return gsm_model_forward_u8(model, pixels.data(), 2, 8, 8, y); });
  const std::string picture = bitmap();
  expect_one_more_at_most([&] {
    gsm_class classes[2];
    int32_t count = 2;
    return gsm_model_classify_bytes(model, picture.data(), picture.size(), classes, &count);
  });
  MUST(gsm_model_free(model));
}

TEST_F(CCancelCounts, OfTexts) {
  gsm_trainer_options o = options();
  o.model_options = "layers=1 width=32 heads=2 positions=64";
  gsm_trainer* const trainer = make("gpt2", 8, o);
  const std::string path = file("m.safetensors").string();
  MUST(gsm_trainer_save(trainer, path.c_str(), nullptr));
  gsm_language* language = nullptr;
  MUST(gsm_language_open(path.c_str(), nullptr, &language));
  const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 0};
  float loss = 0;
  double mean = 0, perplexity = 0;
  expect_one_more_at_most(
      [&] { return gsm_trainer_gradient_ids(trainer, ids, nullptr, 1, 8, &loss); });
  expect_one_more_at_most(
      [&] { return gsm_trainer_evaluate_ids(trainer, ids, nullptr, 1, 8, &loss); });
  expect_one_more_at_most(
      [&] { return gsm_language_perplexity(language, ids, 8, 0, &mean, &perplexity); });
  gsm_generation* generation = nullptr;
  MUST(gsm_generation_new(language, ids, 2, nullptr, &generation));
  expect_one_more_at_most([&] {
    int32_t id = 0, done = 0;
    return gsm_generation_next(generation, &id, &done);
  });
  MUST(gsm_generation_free(generation));
  MUST(gsm_language_free(language));
}

TEST_F(CCancelCounts, OfWorkers) {
  gsm_group* group = nullptr;
  MUST(gsm_group_local(1, &group));
  float x[3] = {1, 2, 3};
  const float update[3] = {0, 0, 0};
  gsm_gossip* gossip = nullptr;
  MUST(gsm_gossip_new(group, x, 3, "a2cid2", "ring", nullptr, &gossip));
  expect_one_more_at_most([&] { return gsm_gossip_step(gossip, update); });
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (gsm_gossip_free(gossip) == GSM_ERROR_BUSY && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  MUST(gsm_group_free(group));
}

TEST_F(CCancelCounts, OfOwnNetworks) {
  gsm_module* net = nullptr;
  gsm_params* params = nullptr;
  MUST(gsm_module_new("linear in=4 out=8; tanh; linear in=8 out=1", 1, &net));
  MUST(gsm_params_new(&params));
  MUST(gsm_params_add_module(params, nullptr, net));
  gsm_tensor* const x = normal({2, 4}, 1);
  expect_one_more_at_most([&] {
    const Scope scope;
    gsm_tensor *y = nullptr, *loss = nullptr;
    if (const gsm_status status = gsm_module_forward(net, x, 1, &y)) return status;
    if (const gsm_status status = gsm_mean(y, &loss)) return status;
    return gsm_backward(loss);
  });
  const Scope scope;
  gsm_tensor *const weight = numbers({2, 2}, {1, 2, 3, 4}), *first = nullptr;
  MUST(gsm_tensor_require_grad(weight));
  MUST(gsm_params_tensor(params, 0, &first));
  for (gsm_tensor* const leaf : {weight, first}) {
    MUST(gsm_backward(op(gsm_sum, leaf)));
    EXPECT_THAT(gossamer::read(op(gsm_tensor_grad, leaf)), testing::Each(1));
    gsm_tensor* const loss = op(gsm_sum, op(gsm_square, leaf));
    MUST(gsm_cancel_use(cancel_));
    MUST(gsm_cancel_set(cancel_, 1));
    EXPECT_EQ(gsm_backward(loss), GSM_CANCELLED);
    MUST(gsm_cancel_use(nullptr));
    MUST(gsm_cancel_set(cancel_, 0));
    // No part of any gradient is left, and the next one replaces it.
    gsm_tensor* gradient = nullptr;
    EXPECT_EQ(gsm_tensor_grad(leaf, &gradient), GSM_ERROR_CONFIG);
    MUST(gsm_backward(op(gsm_sum, leaf)));
    EXPECT_THAT(gossamer::read(op(gsm_tensor_grad, leaf)), testing::Each(1));
  }
  MUST(gsm_params_free(params));
  MUST(gsm_module_free(net));
  MUST(gsm_tensor_free(x));
}

// Each op by itself ends before its first kernel.
TEST_F(CCancelCounts, OfOps) {
  const Scope scope;
  gsm_tensor *const a = normal({2, 4}, 1), *const row = normal({4}, 2),
                    *const picture = normal({1, 4, 4, 2}, 3), *const ids = integers({2}, {0, 1}),
                    *const w = normal({2, 3, 3, 2}, 4), *const qkv = normal({1, 2, 6}, 5);
  gsm_tensor* y = nullptr;
  using Call = std::function<gsm_status()>;
  std::vector<Call> calls;
  for (const auto unary :
       {gsm_neg, gsm_relu, gsm_sigmoid, gsm_tanh, gsm_gelu, gsm_gelu_tanh, gsm_exp, gsm_log,
        gsm_sqrt, gsm_square, gsm_abs, gsm_sum, gsm_mean, gsm_softmax, gsm_log_softmax})
    calls.emplace_back([=, &y] { return unary(a, &y); });
  for (const auto binary : {gsm_add, gsm_sub, gsm_mul, gsm_div, gsm_mse})
    calls.emplace_back([=, &y] { return binary(a, a, &y); });
  calls.insert(
      calls.end(),
      {[&] { return gsm_affine(a, 2, 1, &y); }, [&] { return gsm_cast(a, GSM_BF16, &y); },
       [&] { return gsm_sum_along(a, 0, &y); }, [&] { return gsm_transpose(a, 0, 1, &y); },
       [&] { return gsm_slice(a, 0, 0, 1, &y); }, [&] { return gsm_concat(&a, 1, 0, &y); },
       [&] { return gsm_cross_entropy(a, ids, 0, &y); },
       [&] { return gsm_linear(a, a, nullptr, &y); }, [&] { return gsm_embedding(ids, a, &y); },
       [&] { return gsm_conv2d(picture, w, 1, 1, 1, 1, &y); },
       [&] { return gsm_max_pool2d(picture, 2, 2, 0, &y); },
       [&] { return gsm_avg_pool2d(picture, 2, 2, 0, &y); },
       [&] { return gsm_global_avg_pool(picture, &y); },
       [&] { return gsm_layer_norm(a, row, row, 1e-5F, &y); },
       [&] { return gsm_batch_norm(a, row, row, nullptr, nullptr, 1, .1F, 1e-5F, &y); },
       [&] { return gsm_attention(qkv, 1, 1, nullptr, &y); },
       [&] { return gsm_dropout(a, .5F, 1, 1, &y); }});
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i](), GSM_OK) << i << ": " << gsm_last_error();
    y = nullptr;
    MUST(gsm_cancel_use(cancel_));
    MUST(gsm_cancel_set(cancel_, 1));
    EXPECT_EQ(calls[i](), GSM_CANCELLED) << i;
    EXPECT_EQ(y, nullptr) << i;
    MUST(gsm_cancel_set(cancel_, 0));
    MUST(gsm_cancel_use(nullptr));
  }
}

}  // namespace
}  // namespace gossamer
