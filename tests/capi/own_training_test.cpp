// Layers from text, sets of parameters, optimizers and methods over own networks.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/calls.h"
#include "support/temp_folder.h"

namespace gossamer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kMlp = "hidden: linear in=2 out=8; tanh; head: linear in=8 out=1";

// Layers, their parameters and an optimizer.
struct Network {
  explicit Network(const char* layers, uint64_t seed = 1, const char* optimizer = "sgd",
                   const char* settings = nullptr) {
    EXPECT_EQ(gsm_module_new(layers, seed, &module), GSM_OK) << gsm_last_error();
    EXPECT_EQ(gsm_params_new(&params), GSM_OK);
    EXPECT_EQ(gsm_params_add_module(params, nullptr, module), GSM_OK) << gsm_last_error();
    EXPECT_EQ(gsm_optimizer_new(params, optimizer, settings, &sgd), GSM_OK) << gsm_last_error();
  }
  ~Network() {
    EXPECT_EQ(gsm_optimizer_free(sgd), GSM_OK);
    EXPECT_EQ(gsm_params_free(params), GSM_OK);
    EXPECT_EQ(gsm_module_free(module), GSM_OK);
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  gsm_tensor* operator()(gsm_tensor* x, int32_t training = 1) const {
    return op(gsm_module_forward, module, x, training);
  }
  gsm_tensor* parameter(int64_t index) const { return op(gsm_params_tensor, params, index); }
  std::vector<float> numbers() const {
    const Scope scope;
    std::vector<float> all;
    int64_t parameters = 0, count = 0;
    EXPECT_EQ(gsm_params_count(params, &parameters, &count), GSM_OK);
    for (int64_t i = 0; i < parameters; ++i) {
      const std::vector<float> each = read(parameter(i));
      all.insert(all.end(), each.begin(), each.end());
    }
    EXPECT_EQ(static_cast<int64_t>(all.size()), count);
    return all;
  }
  // One step; the loss before it.
  template <class Loss>
  float step(double rate, Loss&& loss_of) const {
    const Scope scope;
    gsm_tensor* const loss = loss_of(*this);
    EXPECT_EQ(gsm_params_zero_grad(params), GSM_OK);
    EXPECT_EQ(gsm_backward(loss), GSM_OK) << gsm_last_error();
    EXPECT_EQ(gsm_optimizer_step(sgd, rate), GSM_OK) << gsm_last_error();
    return item(loss);
  }

  gsm_module* module = nullptr;
  gsm_params* params = nullptr;
  gsm_optimizer* sgd = nullptr;
};

class OwnTraining : public InTempFolder {
  Scope scope_;
};

// Points of y = x0 x1, 16 of them.
gsm_tensor* product_loss(const Network& net) {
  std::vector<float> x, y;
  for (int i = 0; i < 16; ++i) {
    x.push_back(static_cast<float>(i % 4) / 2 - 1);
    x.push_back(static_cast<float>(i / 4) / 2 - 1);
    y.push_back(x[x.size() - 2] * x.back());
  }
  return op(gsm_mse, net(numbers({16, 2}, x)), numbers({16, 1}, y));
}

TEST_F(OwnTraining, LayersComputeWhatTheirOpsDo) {
  const Network net(kMlp);
  int64_t parameters = 0, count = 0;
  MUST(gsm_params_count(net.params, &parameters, &count));
  EXPECT_EQ(parameters, 4);
  EXPECT_EQ(count, 2 * 8 + 8 + 8 + 1);
  std::vector<std::string> names;
  for (int64_t i = 0; i < parameters; ++i) {
    const char* name = nullptr;
    MUST(gsm_params_name(net.params, i, &name));
    names.emplace_back(name);
  }
  EXPECT_THAT(names, ElementsAre("hidden.weight", "hidden.bias", "head.weight", "head.bias"));
  EXPECT_THAT(shape_of(net.parameter(0)), ElementsAre(8, 2));
  gsm_tensor* const x = normal({5, 2}, 3);
  gsm_tensor* const h = op(gsm_tanh, op(gsm_linear, x, net.parameter(0), net.parameter(1)));
  gsm_tensor* const by_hand = op(gsm_linear, h, net.parameter(2), net.parameter(3));
  EXPECT_EQ(read(by_hand), read(net(x)));
  // Gradients too, bit for bit.
  MUST(gsm_backward(op(gsm_mean, op(gsm_square, by_hand))));
  std::vector<std::vector<float>> gradients;
  for (int64_t i = 0; i < 4; ++i) gradients.push_back(read(op(gsm_tensor_grad, net.parameter(i))));
  MUST(gsm_params_zero_grad(net.params));
  MUST(gsm_backward(op(gsm_mean, op(gsm_square, net(x)))));
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(read(op(gsm_tensor_grad, net.parameter(i))), gradients[static_cast<std::size_t>(i)]);
  // The same seed gives the same network, another one another.
  EXPECT_EQ(net.numbers(), Network(kMlp).numbers());
  EXPECT_NE(net.numbers(), Network(kMlp, 2).numbers());
}

TEST_F(OwnTraining, AnMlpLearnsByEveryOptimizer) {
  for (const auto& [name, settings, rate] : {std::tuple{"sgd", "momentum=0.9 nesterov=true", .1},
                                             {"adam", "", .02},
                                             {"adamw", "beta2=0.99 weight_decay=0.001", .02},
                                             {"accum-adamw", "period=2", .02}}) {
    const Network net(kMlp, 1, name, settings);
    const float first = net.step(rate, product_loss);
    float last = first;
    for (int i = 0; i < 300; ++i) last = net.step(rate, product_loss);
    EXPECT_LT(last, first / 10) << name;
  }
}

TEST_F(OwnTraining, PlainSgdIsTheGradientTimesTheRate) {
  const Network net(kMlp, 1, "sgd", "momentum=0");
  const std::vector<float> before = net.numbers();
  net.step(.5, product_loss);
  const std::vector<float> after = net.numbers();
  std::vector<float> gradient;
  for (int64_t i = 0; i < 4; ++i)
    for (const float g : read(op(gsm_tensor_grad, net.parameter(i)))) gradient.push_back(g);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(after[i], before[i] - .5f * gradient[i], 1e-6f) << i;
}

TEST_F(OwnTraining, ACnnWithAResidualTellsStripesApart) {
  const Network net(R"(
      conv in=1 out=8 padding=1
      batch_norm width=8; relu
      residual {
        conv in=8 out=8 padding=1; batch_norm width=8; relu
        conv in=8 out=16 padding=1; batch_norm width=16
      } { conv in=8 out=16 kernel=1 }
      relu; max_pool; global_avg_pool
      head: linear in=16 out=2)");
  std::vector<float> images;
  std::vector<int32_t> labels;
  for (int i = 0; i < 16; ++i) {
    labels.push_back(i % 2);
    for (int row = 0; row < 6; ++row)
      for (int column = 0; column < 6; ++column)
        images.push_back(static_cast<float>(((i % 2 ? row : column) + i / 2) % 2));
  }
  const auto logits = [&](const Network& n, int32_t training) {
    return n(numbers({16, 6, 6, 1}, images), training);
  };
  const auto loss_of = [&](const Network& n) {
    return op(gsm_cross_entropy, logits(n, 1), integers({16}, labels), 0.f);
  };
  const float first = net.step(.1, loss_of);
  for (int i = 0; i < 40; ++i) net.step(.1, loss_of);
  EXPECT_LT(net.step(.1, loss_of), first / 10);
  // By running statistics too.
  const std::vector<float> scores = read(logits(net, 0));
  for (std::size_t i = 0; i < 16; ++i)
    EXPECT_EQ(scores[2 * i + 1] > scores[2 * i], labels[i] == 1) << i;
}

TEST_F(OwnTraining, AnAttentionBlockLearnsToLookBack) {
  // Each token's label is the one before it.
  const Network net(R"(
      embedding rows=5 width=16 deviation=0.5; positions length=8 width=16
      residual { layer_norm width=16; attention width=16 heads=2 causal=true }
      residual { layer_norm width=16; linear in=16 out=32; gelu_tanh; linear in=32 out=16 }
      layer_norm width=16; head: linear in=16 out=5)",
                    1, "adam");
  std::vector<int32_t> ids, labels;
  uint32_t state = 1;
  for (int i = 0; i < 16 * 8; ++i) {
    state = state * 1664525u + 1013904223u;
    ids.push_back(static_cast<int32_t>(state >> 16) % 5);
    labels.push_back(i % 8 == 0 ? 0 : ids[static_cast<std::size_t>(i) - 1]);
  }
  const auto loss_of = [&](const Network& n) {
    const int64_t rows[] = {-1, 5};
    return op(gsm_cross_entropy, op(gsm_reshape, n(integers({16, 8}, ids)), rows, 2),
              integers({128}, labels), 0.f);
  };
  const float first = net.step(.01, loss_of);
  float last = first;
  for (int i = 0; i < 150; ++i) last = net.step(.01, loss_of);
  EXPECT_LT(last, first / 5);
}

TEST_F(OwnTraining, ParametersWithoutLayersAreTrainedToo) {
  gsm_params* params = nullptr;
  MUST(gsm_params_new(&params));
  gsm_tensor *const slope = numbers({1}, {0}), *const offset = numbers({}, {0});
  MUST(gsm_params_add(params, "slope", slope));
  MUST(gsm_params_add(params, "offset", offset));
  gsm_optimizer* sgd = nullptr;
  MUST(gsm_optimizer_new(params, "sgd", nullptr, &sgd));
  gsm_tensor *const x = numbers({4}, {-1, 0, 1, 2}), *const y = numbers({4}, {-4, -1, 2, 5});
  for (int i = 0; i < 200; ++i) {
    const Scope scope;
    MUST(gsm_params_zero_grad(params));
    gsm_tensor* const line = op(gsm_add, op(gsm_mul, x, slope), offset);
    MUST(gsm_backward(op(gsm_mse, line, y)));
    MUST(gsm_optimizer_step(sgd, .05));
  }
  EXPECT_NEAR(item(slope), 3, 1e-3);
  EXPECT_NEAR(item(offset), -1, 1e-3);
  // What is written is what the optimizer goes on from.
  write(slope, {7});
  EXPECT_EQ(item(slope), 7);
  EXPECT_EQ(item(op(gsm_params_tensor, params, int64_t{0})), 7);
  MUST(gsm_optimizer_free(sgd));
  MUST(gsm_params_free(params));
}

TEST_F(OwnTraining, WhatIsFrozenStays) {
  gsm_module* module = nullptr;
  gsm_params* params = nullptr;
  gsm_optimizer* sgd = nullptr;
  MUST(gsm_module_new(kMlp, 1, &module));
  EXPECT_EQ(gsm_module_freeze(module, "tail"), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("tail"));
  MUST(gsm_module_freeze(module, "hidden"));
  MUST(gsm_params_new(&params));
  MUST(gsm_params_add_module(params, "net", module));
  MUST(gsm_optimizer_new(params, "sgd", nullptr, &sgd));
  const auto parameter = [&](int64_t i) { return read(op(gsm_params_tensor, params, i)); };
  const std::vector<float> hidden = parameter(0), head = parameter(2);
  const char* name = nullptr;
  MUST(gsm_params_name(params, 2, &name));
  EXPECT_STREQ(name, "net.head.weight");
  MUST(gsm_backward(op(gsm_mean, op(gsm_module_forward, module, normal({4, 2}, 1), 1))));
  MUST(gsm_optimizer_step(sgd, .1));
  EXPECT_EQ(parameter(0), hidden);
  EXPECT_NE(parameter(2), head);
  EXPECT_EQ(gsm_module_freeze(module, "head"), GSM_ERROR_CONFIG);  // too late
  MUST(gsm_optimizer_free(sgd));
  MUST(gsm_params_free(params));
  MUST(gsm_module_free(module));
}

TEST_F(OwnTraining, AFileHoldsParametersAndStatistics) {
  constexpr const char* kLayers =
      "conv in=1 out=3; batch_norm width=3; relu; global_avg_pool; linear in=3 out=1";
  const auto loss_of = [](const Network& n) {
    return op(gsm_mean, op(gsm_square, n(normal({4, 5, 5, 1}, 2))));
  };
  const Network net(kLayers), other(kLayers, 2), third("conv in=1 out=2");
  for (int i = 0; i < 3; ++i) net.step(.1, loss_of);
  const std::string path = file("net.safetensors").string();
  MUST(gsm_params_save(net.params, path.c_str()));
  gsm_tensor* const x = normal({2, 5, 5, 1}, 9);
  EXPECT_NE(read(net(x, 0)), read(other(x, 0)));
  MUST(gsm_params_load(other.params, path.c_str()));
  EXPECT_EQ(read(net(x, 0)), read(other(x, 0)));
  EXPECT_EQ(net.numbers(), other.numbers());
  const std::vector<float> before = third.numbers();
  EXPECT_EQ(gsm_params_load(third.params, path.c_str()), GSM_ERROR_FILE);
  EXPECT_THAT(gsm_last_error(), HasSubstr("0.weight"));
  EXPECT_EQ(third.numbers(), before);
  EXPECT_EQ(gsm_params_load(third.params, file("nowhere").c_str()), GSM_ERROR_FILE);
}

TEST_F(OwnTraining, AGradientIsClippedAndRefusedIfItIsNotFinite) {
  const Network net(kMlp, 1, "sgd", "momentum=0");
  EXPECT_EQ(gsm_optimizer_step(net.sgd, .1), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("gsm_backward"));
  MUST(gsm_backward(product_loss(net)));
  double norm = 0, after = 0;
  MUST(gsm_params_clip_grad(net.params, 1e-3, &norm));
  MUST(gsm_params_clip_grad(net.params, 1e-2, &after));
  EXPECT_GT(norm, 1e-2);
  EXPECT_NEAR(after, 1e-3, 1e-6);
  const std::vector<float> before = net.numbers();
  gsm_tensor* const infinite = numbers({}, {std::numeric_limits<float>::infinity()});
  MUST(gsm_backward(op(gsm_mul, product_loss(net), infinite)));
  EXPECT_EQ(gsm_optimizer_step(net.sgd, .1), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("not a number"));
  EXPECT_EQ(net.numbers(), before);
  for (const double wrong : {-1., 1e300, std::nan("")})
    EXPECT_EQ(gsm_optimizer_step(net.sgd, wrong), GSM_ERROR_ARGUMENT);
  for (const double wrong : {-1., 0., std::nan("")})
    EXPECT_EQ(gsm_params_clip_grad(net.params, wrong, &norm), GSM_ERROR_ARGUMENT);
}

TEST_F(OwnTraining, ATextThatIsWrongIsNamedByItsLine) {
  gsm_module* module = nullptr;
  for (const auto& [text, what] : {std::pair{"", "no layer"},
                                   {"relu\nlinaer in=2 out=3", "line 2"},
                                   {"linear in=2", "out"},
                                   {"linear in=2 out=x", "out"},
                                   {"linear in=2 out=3 relu", "semicolon"},
                                   {"attention width=6 heads=4", "heads"},
                                   {"residual { relu", "without its }"},
                                   {"a: relu; a: relu", "called a"}}) {
    EXPECT_EQ(gsm_module_new(text, 1, &module), GSM_ERROR_CONFIG) << text;
    EXPECT_THAT(gsm_last_error(), HasSubstr(what)) << text;
  }
  const Network net("conv in=1 out=2");
  gsm_tensor* y = nullptr;
  EXPECT_EQ(gsm_module_forward(net.module, normal({1, 4, 4, 3}, 1), 1, &y), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("channels"));
}

TEST_F(OwnTraining, ASetTakesEachParameterOnce) {
  gsm_params *params = nullptr, *another = nullptr;
  gsm_module* module = nullptr;
  gsm_optimizer* sgd = nullptr;
  MUST(gsm_params_new(&params));
  MUST(gsm_params_new(&another));
  MUST(gsm_module_new(kMlp, 1, &module));
  EXPECT_EQ(gsm_optimizer_new(params, "sgd", nullptr, &sgd), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("gsm_params_add"));
  gsm_tensor* const w = numbers({2}, {1, 2});
  MUST(gsm_params_add(params, "w", w));
  EXPECT_EQ(gsm_params_add(params, "w", numbers({1}, {1})), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_params_add(params, "", numbers({1}, {1})), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_params_add(another, "w", w), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_params_add(params, "ids", integers({1}, {1})), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_params_add(params, "y", op(gsm_square, w)), GSM_ERROR_ARGUMENT);
  MUST(gsm_params_add_module(params, "net", module));
  EXPECT_EQ(gsm_params_add_module(another, "net", module), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_optimizer_new(params, "rmsprop", nullptr, &sgd), GSM_ERROR_CONFIG);
  EXPECT_EQ(gsm_optimizer_new(params, "adam", "momentum=0.9", &sgd), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("beta1"));
  EXPECT_EQ(gsm_optimizer_new(params, "sgd", "momentum=1", &sgd), GSM_ERROR_CONFIG);
  MUST(gsm_optimizer_new(params, "sgd", nullptr, &sgd));
  EXPECT_EQ(gsm_params_add(params, "late", numbers({1}, {1})), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("before"));
  gsm_tensor* none = nullptr;
  EXPECT_EQ(gsm_params_tensor(params, 5, &none), GSM_ERROR_ARGUMENT);
  // What is freed lives on in what was made with it.
  MUST(gsm_module_free(module));
  MUST(gsm_params_free(params));
  MUST(gsm_backward(op(gsm_sum, w)));
  MUST(gsm_optimizer_step(sgd, 1));
  EXPECT_THAT(read(w), ElementsAre(0, 1));
  MUST(gsm_optimizer_free(sgd));
  MUST(gsm_params_free(another));
}

TEST_F(OwnTraining, GroupsHaveRatesAndDecaysOfTheirOwn) {
  const Network net(kMlp, 1, "sgd", "momentum=0 weight_decay=0.5");
  MUST(gsm_optimizer_groups(net.sgd, "head=4", "hidden=0"));
  const std::vector<float> hidden = read(net.parameter(0)), head = read(net.parameter(2));
  MUST(gsm_params_zero_grad(net.params));
  MUST(gsm_backward(product_loss(net)));
  const std::vector<float> hidden_g = read(op(gsm_tensor_grad, net.parameter(0))),
                           head_g = read(op(gsm_tensor_grad, net.parameter(2)));
  MUST(gsm_optimizer_step(net.sgd, .1));
  const std::vector<float> hidden_now = read(net.parameter(0)), head_now = read(net.parameter(2));
  for (std::size_t i = 0; i < hidden.size(); ++i)
    EXPECT_FLOAT_EQ(hidden_now[i], hidden[i] - .1F * hidden_g[i]);
  for (std::size_t i = 0; i < head.size(); ++i)
    EXPECT_FLOAT_EQ(head_now[i], head[i] - .4F * (head_g[i] + .5F * head[i]));
  EXPECT_EQ(gsm_optimizer_groups(net.sgd, "tail=2", nullptr), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("tail"));
  EXPECT_EQ(gsm_optimizer_groups(net.sgd, "head", nullptr), GSM_ERROR_CONFIG);
}

TEST_F(OwnTraining, TwoWorkersEndWithOneNetwork) {
  for (const char* method : {"a2cid2", "allreduce", "local-sgd"}) {
    gsm_group* groups[2];
    MUST(gsm_group_local(2, groups));
    std::vector<float> ends[2];
    std::vector<std::thread> workers;
    for (std::size_t rank = 0; rank < 2; ++rank)
      workers.emplace_back([&, rank] {
        const Scope scope;
        const Network net(kMlp, 1, "sgd", "momentum=0");
        gsm_gossip_options options{};
        options.struct_size = sizeof options;
        options.total_steps = 200;
        gsm_method* training = nullptr;
        ASSERT_EQ(gsm_method_new_for(net.sgd, groups[rank], method, "ring", &options, &training),
                  GSM_OK)
            << gsm_last_error();
        // Its numbers are not the caller's now.
        const float zero[16] = {};
        EXPECT_EQ(gsm_tensor_write(net.parameter(0), zero, sizeof zero), GSM_ERROR_CONFIG);
        EXPECT_EQ(gsm_params_load(net.params, "nowhere"), GSM_ERROR_CONFIG);
        EXPECT_EQ(gsm_optimizer_step(net.sgd, .1), GSM_ERROR_CONFIG);
        EXPECT_EQ(gsm_method_step(training, .1), GSM_ERROR_CONFIG);  // there is no gradient yet
        for (int32_t done = 0; !done;) {
          const Scope step;
          gsm_tensor* const loss = product_loss(net);
          EXPECT_EQ(gsm_params_zero_grad(net.params), GSM_OK);
          EXPECT_EQ(gsm_backward(loss), GSM_OK) << gsm_last_error();
          ASSERT_EQ(gsm_method_step(training, .1), GSM_OK) << gsm_last_error();
          ASSERT_EQ(gsm_method_done(training, &done), GSM_OK);
        }
        ASSERT_EQ(gsm_method_finish(training), GSM_OK) << gsm_last_error();
        ends[rank] = net.numbers();
        write(net.parameter(0), std::vector<float>(16, 1));  // they are again
        EXPECT_EQ(net.numbers()[15], 1);
        EXPECT_EQ(gsm_method_free(training), GSM_OK);
      });
    for (std::thread& each : workers) each.join();
    EXPECT_EQ(ends[0], ends[1]) << method;
    EXPECT_NE(ends[0], Network(kMlp).numbers()) << method;
    for (gsm_group* group : groups) MUST(gsm_group_free(group));
  }
}

}  // namespace
}  // namespace gossamer
