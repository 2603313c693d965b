// Own networks through gossamer.h: tensors, ops and their gradients, and the tape.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/calls.h"

namespace gossamer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Each test is a scope, so it leaves no tensors.
class OwnNetworks : public testing::Test {
  Scope scope_;
};

using Tensors = std::vector<gsm_tensor*>;
using Network = std::function<gsm_tensor*(const Tensors&)>;
using Unary = gsm_status (*)(gsm_tensor*, gsm_tensor**);
using Binary = gsm_status (*)(gsm_tensor*, gsm_tensor*, gsm_tensor**);
template <class Call>
using Named = std::initializer_list<std::pair<const char*, Call>>;

// The gradients of a loss by these parameters are those of its numbers, of which every
// `stride`-th is looked at.
void expect_gradients(const std::string& what, const Tensors& parameters, const Network& loss_of,
                      std::size_t stride = 1) {
  SCOPED_TRACE(what);
  const Scope scope;
  for (gsm_tensor* p : parameters) {
    MUST(gsm_tensor_require_grad(p));
    MUST(gsm_tensor_zero_grad(p));
  }
  MUST(gsm_backward(loss_of(parameters)));
  MUST(gsm_set_grad_enabled(0));
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const std::vector<float> gradient = read(op(gsm_tensor_grad, parameters[k]));
    std::vector<float> x = read(parameters[k]);
    float largest = 0.05f;
    for (const float g : gradient) largest = std::max(largest, std::abs(g));
    for (std::size_t i = 0; i < x.size(); i += stride) {
      constexpr float step = 1e-2f;
      const float here = x[i];
      const auto at = [&](float value) {
        const Scope inner;
        x[i] = value;
        write(parameters[k], x);
        return static_cast<double>(item(loss_of(parameters)));
      };
      const double slope = (at(here + step) - at(here - step)) / (2.0 * step);
      at(here);
      EXPECT_NEAR(gradient[i], slope, 0.03 * largest) << "parameter " << k << ", number " << i;
    }
  }
  MUST(gsm_set_grad_enabled(1));
}

// A weighted sum, so that each number of y has a gradient of its own.
gsm_tensor* weighted(gsm_tensor* y) { return op(gsm_sum, op(gsm_mul, y, normal(shape_of(y), 99))); }

TEST_F(OwnNetworks, EveryOpHasTheGradientOfItsNumbers) {
  const auto unary = [](Unary call) {
    return [call](const Tensors& p) { return weighted(op(call, p[0])); };
  };
  // all above 0, and apart from it
  const auto positive = [](uint64_t seed) {
    const int64_t shape[] = {3, 5};
    return op(gsm_tensor_uniform, .5f, 2.f, seed, shape, 2);
  };
  for (const auto& [name, call] : Named<Unary>{{"neg", gsm_neg},
                                               {"relu", gsm_relu},
                                               {"sigmoid", gsm_sigmoid},
                                               {"tanh", gsm_tanh},
                                               {"gelu", gsm_gelu},
                                               {"gelu_tanh", gsm_gelu_tanh},
                                               {"exp", gsm_exp},
                                               {"log", gsm_log},
                                               {"sqrt", gsm_sqrt},
                                               {"square", gsm_square},
                                               {"abs", gsm_abs},
                                               {"softmax", gsm_softmax},
                                               {"log_softmax", gsm_log_softmax},
                                               {"mean", gsm_mean}})
    expect_gradients(name, {positive(1)}, unary(call));
  for (const auto& [name, call] :
       Named<Binary>{{"add", gsm_add}, {"sub", gsm_sub}, {"mul", gsm_mul}, {"div", gsm_div}}) {
    const auto both = [call = call](const Tensors& p) { return weighted(op(call, p[0], p[1])); };
    expect_gradients(name, {positive(1), positive(2)}, both);
    expect_gradients(name + std::string(" a bias"), {positive(1), numbers({5}, {1, 2, 3, 4, 5})},
                     both);
    expect_gradients(name + std::string(" one number"), {positive(1), numbers({}, {1.5f})}, both);
  }
  expect_gradients("affine", {normal({4}, 1)},
                   [](const Tensors& p) { return weighted(op(gsm_affine, p[0], -2.f, 3.f)); });
  expect_gradients("reshape", {normal({2, 6}, 1)}, [](const Tensors& p) {
    const int64_t shape[] = {3, -1};
    return weighted(op(gsm_reshape, p[0], shape, 2));
  });
  expect_gradients("sum and mean along", {normal({2, 3, 2}, 1)}, [](const Tensors& p) {
    return weighted(op(gsm_add, op(gsm_sum_along, p[0], 1), op(gsm_mean_along, p[0], -2)));
  });
  expect_gradients("transpose", {normal({2, 3, 2}, 1)},
                   [](const Tensors& p) { return weighted(op(gsm_transpose, p[0], 0, -2)); });
  expect_gradients("concat and slice", {normal({2, 3}, 1), normal({2, 2}, 2)},
                   [](const Tensors& p) {
                     gsm_tensor* const all = op(gsm_concat, p.data(), 2, 1);
                     return weighted(op(gsm_slice, all, -1, int64_t{1}, int64_t{4}));
                   });
  expect_gradients("mse", {normal({2, 3}, 1), normal({2, 3}, 2)},
                   [](const Tensors& p) { return op(gsm_mse, p[0], p[1]); });
  expect_gradients("matmul", {normal({3, 4}, 1), normal({4, 2}, 2)},
                   [](const Tensors& p) { return weighted(op(gsm_matmul, p[0], p[1])); });
  expect_gradients("linear", {normal({2, 3, 4}, 1), normal({5, 4}, 2), normal({5}, 3)},
                   [](const Tensors& p) { return weighted(op(gsm_linear, p[0], p[1], p[2])); });
  expect_gradients("cross entropy", {normal({3, 4}, 1)}, [](const Tensors& p) {
    return op(gsm_cross_entropy, p[0], integers({3}, {0, 3, 1}), .1f);
  });
  expect_gradients(
      "conv2d", {normal({2, 5, 5, 4}, 1), normal({6, 3, 3, 2}, 2)},
      [](const Tensors& p) { return weighted(op(gsm_conv2d, p[0], p[1], 2, 1, 1, 2)); }, 7);
  std::vector<float> apart;  // no two are close, so the largest stays it
  for (int i = 0; i < 32; ++i) apart.push_back(.1f * static_cast<float>(i * 7 % 32));
  expect_gradients("max pool", {numbers({1, 4, 4, 2}, apart)},
                   [](const Tensors& p) { return weighted(op(gsm_max_pool2d, p[0], 2, 2, 0)); });
  expect_gradients("avg pool", {normal({1, 4, 4, 2}, 1)},
                   [](const Tensors& p) { return weighted(op(gsm_avg_pool2d, p[0], 3, 2, 1)); });
  expect_gradients("global avg pool", {normal({2, 3, 3, 2}, 1)},
                   [](const Tensors& p) { return weighted(op(gsm_global_avg_pool, p[0])); });
  gsm_tensor *const mean = numbers({3}, {0, 1, 2}), *const variance = numbers({3}, {1, 2, 3});
  for (const int32_t training : {0, 1})
    expect_gradients(
        "batch norm", {normal({6, 3}, 1), normal({3}, 2), normal({3}, 3)}, [=](const Tensors& p) {
          return weighted(
              op(gsm_batch_norm, p[0], p[1], p[2], mean, variance, training, .1f, 1e-5f));
        });
  expect_gradients(
      "layer norm", {normal({3, 6}, 1), normal({6}, 2), normal({6}, 3)},
      [](const Tensors& p) { return weighted(op(gsm_layer_norm, p[0], p[1], p[2], 1e-5f)); });
  expect_gradients("embedding", {normal({4, 3}, 1)}, [](const Tensors& p) {
    return weighted(op(gsm_embedding, integers({5}, {3, 0, 3, 1, 3}), p[0]));
  });
  gsm_tensor* const lengths = integers({2}, {3, 2});
  expect_gradients("attention", {normal({2, 3, 12}, 1)}, [=](const Tensors& p) {
    return weighted(op(gsm_attention, p[0], 2, 1, lengths));
  });
  expect_gradients(
      "cross attention", {normal({2, 2, 4}, 1), normal({2, 3, 8}, 2)},
      [=](const Tensors& p) { return weighted(op(gsm_cross_attention, p[0], p[1], 2, lengths)); });
  expect_gradients("dropout", {normal({20}, 1)}, [](const Tensors& p) {
    return weighted(op(gsm_dropout, p[0], .5f, uint64_t{3}, uint64_t{8}));
  });
}

TEST_F(OwnNetworks, AnMlpWithALossOfItsOwn) {
  // Huber's loss for |d| near 1: sqrt(d^2 + 1) - 1, and a penalty of the weights.
  expect_gradients(
      "mlp",
      {normal({8, 3}, 1, .5f), normal({8}, 2, .1f), normal({2, 8}, 3, .5f), normal({2}, 4, .1f)},
      [](const Tensors& p) {
        gsm_tensor *const x = normal({6, 3}, 10), *const y = normal({6, 2}, 11);
        gsm_tensor* const h = op(gsm_tanh, op(gsm_linear, x, p[0], p[1]));
        gsm_tensor* const d = op(gsm_sub, op(gsm_linear, h, p[2], p[3]), y);
        gsm_tensor* const huber = op(gsm_sqrt, op(gsm_affine, op(gsm_square, d), 1.f, 1.f));
        gsm_tensor* const penalty = op(gsm_mean, op(gsm_square, p[0]));
        return op(gsm_add, op(gsm_affine, op(gsm_mean, huber), 1.f, -1.f),
                  op(gsm_affine, penalty, .1f, 0.f));
      });
}

TEST_F(OwnNetworks, ASmallCnnWithAResidual) {
  expect_gradients(
      "cnn",
      {normal({8, 3, 3, 3}, 1, .3f), numbers({8}, {1, 1, 1, 1, 1, 1, 1, 1}), normal({8}, 2, .1f),
       normal({8, 3, 3, 8}, 3, .2f), normal({4, 8}, 4, .5f), normal({4}, 5, .1f)},
      [](const Tensors& p) {
        gsm_tensor* const x = normal({2, 6, 6, 3}, 10);
        gsm_tensor* h = op(gsm_conv2d, x, p[0], 1, 1, 1, 1);
        h = op(gsm_batch_norm, h, p[1], p[2], nullptr, nullptr, 1, .1f, 1e-5f);
        h = op(gsm_tanh, h);
        h = op(gsm_add, h, op(gsm_tanh, op(gsm_conv2d, h, p[3], 1, 1, 1, 1)));
        h = op(gsm_global_avg_pool, op(gsm_avg_pool2d, h, 2, 2, 0));
        return op(gsm_cross_entropy, op(gsm_linear, h, p[4], p[5]), integers({2}, {1, 3}), 0.f);
      },
      11);
}

TEST_F(OwnNetworks, AnAttentionBlock) {
  expect_gradients(
      "attention block",
      {normal({7, 8}, 1), numbers({8}, {1, 1, 1, 1, 1, 1, 1, 1}), normal({24, 8}, 2, .3f),
       normal({8, 8}, 3, .3f), normal({16, 8}, 4, .3f), normal({8, 16}, 5, .3f)},
      [](const Tensors& p) {
        gsm_tensor* const x = op(gsm_embedding, integers({2, 4}, {0, 5, 2, 2, 6, 1, 3, 4}), p[0]);
        gsm_tensor* h = op(gsm_layer_norm, x, p[1], nullptr, 1e-5f);
        h = op(gsm_attention, op(gsm_linear, h, p[2], nullptr), 2, 1, nullptr);
        gsm_tensor* const mid = op(gsm_add, x, op(gsm_linear, h, p[3], nullptr));
        h = op(gsm_gelu_tanh, op(gsm_linear, mid, p[4], nullptr));
        h = op(gsm_add, mid, op(gsm_linear, h, p[5], nullptr));
        const int64_t rows[] = {-1, 8};
        gsm_tensor* const logits = op(gsm_linear, op(gsm_reshape, h, rows, 2), p[0], nullptr);
        return op(gsm_cross_entropy, logits, integers({8}, {5, 2, 2, 6, 1, 3, 4, 0}), 0.f);
      },
      5);
}

TEST_F(OwnNetworks, NumbersGoInAndOut) {
  gsm_tensor* const x = numbers({2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(read(x), ElementsAre(1, 2, 3, 4));
  write(x, {5, 6, 7, 8});
  EXPECT_THAT(read(op(gsm_add, x, numbers({2}, {10, 20}))), ElementsAre(15, 26, 17, 28));
  EXPECT_THAT(read(op(gsm_matmul, x, numbers({2, 1}, {1, -1}))), ElementsAre(-1, -1));
  const int64_t shape[] = {3};
  EXPECT_THAT(read(op(gsm_tensor_full, 2.5f, GSM_F32, shape, 1)), ElementsAre(2.5, 2.5, 2.5));
  EXPECT_EQ(item(op(gsm_mean, x)), 6.5f);
  // Half the numbers: the others are doubled, and the same call draws the same.
  gsm_tensor* const ones = op(gsm_tensor_full, 1.f, GSM_F32, shape, 1);
  const std::vector<float> kept = read(op(gsm_dropout, ones, .5f, uint64_t{1}, uint64_t{2}));
  for (const float v : kept) EXPECT_TRUE(v == 0 || v == 2);
  EXPECT_EQ(kept, read(op(gsm_dropout, ones, .5f, uint64_t{1}, uint64_t{2})));
  // The same seed gives the same numbers.
  EXPECT_EQ(read(normal({9}, 4)), read(normal({9}, 4)));
  EXPECT_NE(read(normal({9}, 4)), read(normal({9}, 5)));
  gsm_tensor* const half = op(gsm_cast, x, GSM_BF16);
  int64_t extents[6];
  int32_t rank = 0;
  gsm_dtype type{};
  MUST(gsm_tensor_shape(half, extents, &rank, &type));
  EXPECT_EQ(type, GSM_BF16);
  EXPECT_EQ(read(op(gsm_cast, half, GSM_F32)), read(x));
  // Running statistics take a tenth of the batch's.
  gsm_tensor *const mean = numbers({1}, {0}), *const variance = numbers({1}, {1});
  gsm_tensor *const one = numbers({1}, {1}), *const zero = numbers({1}, {0});
  op(gsm_batch_norm, numbers({2, 1}, {4, 6}), one, zero, mean, variance, 1, .1f, 1e-5f);
  EXPECT_THAT(read(mean), ElementsAre(.5f));
  EXPECT_THAT(read(variance), ElementsAre(testing::FloatNear(.9f + .1f * 2, 1e-6f)));
}

TEST_F(OwnNetworks, GradientsAddUpUntilTheyAreForgotten) {
  gsm_tensor* const x = numbers({2}, {1, 2});
  MUST(gsm_tensor_require_grad(x));
  gsm_tensor* none = nullptr;
  EXPECT_EQ(gsm_tensor_grad(x, &none), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("gsm_backward"));
  MUST(gsm_backward(op(gsm_sum, op(gsm_square, x))));
  EXPECT_THAT(read(op(gsm_tensor_grad, x)), ElementsAre(2, 4));
  MUST(gsm_backward(op(gsm_sum, x)));
  EXPECT_THAT(read(op(gsm_tensor_grad, x)), ElementsAre(3, 5));
  MUST(gsm_tensor_zero_grad(x));
  EXPECT_EQ(gsm_tensor_grad(x, &none), GSM_ERROR_CONFIG);
  // What is detached gives none.
  MUST(gsm_backward(op(gsm_sum, op(gsm_mul, x, op(gsm_detach, x)))));
  EXPECT_THAT(read(op(gsm_tensor_grad, x)), ElementsAre(1, 2));
}

TEST_F(OwnNetworks, TheTapeIsWalkedOnce) {
  gsm_tensor* const x = numbers({2}, {1, 2});
  MUST(gsm_tensor_require_grad(x));
  gsm_tensor* const loss = op(gsm_sum, op(gsm_square, x));
  MUST(gsm_backward(loss));
  EXPECT_EQ(gsm_backward(loss), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("compute the loss again"));
  EXPECT_THAT(read(op(gsm_tensor_grad, x)), ElementsAre(2, 4));
  EXPECT_EQ(gsm_backward(op(gsm_square, x)), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("gsm_mean"));
  EXPECT_EQ(gsm_backward(op(gsm_sum, numbers({2}, {1, 2}))), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("gsm_tensor_require_grad"));
  MUST(gsm_set_grad_enabled(0));
  gsm_tensor* const unrecorded = op(gsm_sum, x);
  MUST(gsm_set_grad_enabled(0));  // twice is once
  MUST(gsm_set_grad_enabled(1));
  EXPECT_EQ(gsm_backward(unrecorded), GSM_ERROR_ARGUMENT);
  gsm_tensor* const result = op(gsm_square, x);
  EXPECT_EQ(gsm_tensor_require_grad(result), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_tensor_zero_grad(result), GSM_ERROR_ARGUMENT);
  gsm_tensor* none = nullptr;
  EXPECT_EQ(gsm_tensor_grad(result, &none), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("computed from others"));
  EXPECT_EQ(gsm_tensor_require_grad(integers({2}, {1, 2})), GSM_ERROR_ARGUMENT);
}

TEST_F(OwnNetworks, AScopeFreesWhatWasMadeInIt) {
  gsm_tensor* const outside = numbers({1}, {1});
  MUST(gsm_scope_begin());
  gsm_tensor *const inside = numbers({1}, {2}), *const kept = numbers({1}, {3});
  MUST(gsm_tensor_free(numbers({1}, {4})));  // by hand is well, too
  MUST(gsm_tensor_keep(kept));
  MUST(gsm_scope_end());
  float value = 0;
  EXPECT_EQ(gsm_tensor_item(inside, &value), GSM_ERROR_HANDLE);
  EXPECT_EQ(item(outside), 1);
  EXPECT_EQ(item(kept), 3);
  MUST(gsm_tensor_free(kept));
  std::thread([] {
    EXPECT_EQ(gsm_scope_end(), GSM_ERROR_CONFIG);  // the scope is another thread's
    EXPECT_THAT(gsm_last_error(), HasSubstr("gsm_scope_begin"));
  }).join();
}

TEST_F(OwnNetworks, ShapesThatDoNotFitAreNamed) {
  gsm_tensor *const x = normal({2, 3}, 1), *const ids = integers({2}, {0, 1});
  gsm_tensor* y = nullptr;
  EXPECT_EQ(gsm_matmul(x, x, &y), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("[2, 3]"));
  EXPECT_EQ(gsm_add(x, normal({2}, 1), &y), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_mse(x, normal({3}, 1), &y), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_relu(ids, &y), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_embedding(x, x, &y), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_embedding(integers({1}, {2}), x, &y), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("id 2"));
  EXPECT_EQ(gsm_cross_entropy(x, integers({2}, {0, 3}), 0, &y), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_cross_entropy(x, ids, 1, &y), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_batch_norm(x, numbers({3}, {1, 1, 1}), numbers({3}, {0, 0, 0}),
                           numbers({3}, {0, 0, 0}), nullptr, 1, .1f, 1e-5f, &y),
            GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("both"));
  EXPECT_EQ(gsm_transpose(x, 0, 2, &y), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_mean_along(x, 2, &y), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_slice(x, 1, 1, 4, &y), GSM_ERROR_ARGUMENT);
  gsm_tensor* const parts[] = {x, ids};
  EXPECT_EQ(gsm_concat(parts, 2, 0, &y), GSM_ERROR_ARGUMENT);
  const int64_t shape[] = {4, -1};
  EXPECT_EQ(gsm_reshape(x, shape, 2, &y), GSM_ERROR_ARGUMENT);
  float few[5];
  EXPECT_EQ(gsm_tensor_read(x, few, sizeof few), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("24"));
  EXPECT_EQ(gsm_tensor_item(x, few), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(y, nullptr);
}

// Threads that train networks of their own do not meet; two backward passes through one parameter
// at once are an error for one, and a gradient is always that of whole passes.
TEST_F(OwnNetworks, GradientsOfOneTensorAreFoundByOneThreadAtATime) {
  constexpr int kPasses = 200, kThreads = 3;
  gsm_tensor* const shared = numbers({64}, std::vector<float>(64, 1));
  MUST(gsm_tensor_require_grad(shared));
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      gsm_tensor* const own = numbers({64}, std::vector<float>(64, 2));
      EXPECT_EQ(gsm_tensor_require_grad(own), GSM_OK);
      for (int i = 0; i < kPasses; ++i) {
        const Scope scope;
        const gsm_status status = gsm_backward(op(gsm_sum, shared));
        EXPECT_TRUE(status == GSM_OK || status == GSM_ERROR_BUSY) << gsm_last_error();
        done += status == GSM_OK;
        EXPECT_EQ(gsm_backward(op(gsm_sum, op(gsm_mul, own, shared))) == GSM_OK ||
                      std::string(gsm_last_error()).find("another thread") != std::string::npos,
                  true);
      }
      EXPECT_EQ(gsm_tensor_free(own), GSM_OK);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_GE(done, 1);
}

}  // namespace
}  // namespace gossamer
