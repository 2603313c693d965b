// Calls for own networks that are wrong in every way that can be told, generated as in
// wrong_calls_test.cpp: each is an error with a text, and nothing crashes or leaks. And calls with
// arguments drawn from right and wrong ones: whatever they give, nothing crashes.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/calls.h"
#include "capi/choices.h"

namespace gossamer {
namespace {

using Unary = gsm_status (*)(gsm_tensor*, gsm_tensor**);
using Binary = gsm_status (*)(gsm_tensor*, gsm_tensor*, gsm_tensor**);

constexpr Unary kUnary[] = {gsm_neg,    gsm_relu,       gsm_sigmoid,     gsm_tanh,
                            gsm_gelu,   gsm_gelu_tanh,  gsm_exp,         gsm_log,
                            gsm_sqrt,   gsm_square,     gsm_abs,         gsm_sum,
                            gsm_mean,   gsm_softmax,    gsm_log_softmax, gsm_global_avg_pool,
                            gsm_detach, gsm_tensor_grad};
constexpr Binary kBinary[] = {gsm_add, gsm_sub,    gsm_mul,      gsm_div,
                              gsm_mse, gsm_matmul, gsm_embedding};

class WrongNetworkCalls : public testing::Test, protected Choices {
 protected:
  WrongNetworkCalls() : Choices(11) {}
  void SetUp() override {
    MUST(gsm_module_new("linear in=2 out=3", 1, &module_));
    MUST(gsm_params_new(&params_));
    MUST(gsm_params_add_module(params_, nullptr, module_));
    MUST(gsm_optimizer_new(params_, "sgd", nullptr, &optimizer_));
    MUST(gsm_group_local(1, &group_));
    ids_ = integers({2}, {0, 7});  // 7 is beyond every table and class
    matrix_ = normal({2, 3}, 1);
    images_ = normal({1, 4, 4, 2}, 1);
    freed_ = numbers({1}, {1});
    MUST(gsm_tensor_free(freed_));
  }
  void TearDown() override {
    MUST(gsm_optimizer_free(optimizer_));
    MUST(gsm_params_free(params_));
    MUST(gsm_module_free(module_));
    MUST(gsm_group_free(group_));
  }

  template <class H>
  H* dead() {
    return one_of<H*>({reinterpret_cast<H*>(freed_), reinterpret_cast<H*>(std::uintptr_t{1}),
                       reinterpret_cast<H*>(&count_)});
  }
  template <class H>
  H* bad() {
    if constexpr (!std::is_same_v<H, gsm_tensor>)
      if (any(3) == 0) return reinterpret_cast<H*>(matrix_);
    if constexpr (!std::is_same_v<H, gsm_module>)
      if (any(3) == 0) return reinterpret_cast<H*>(module_);
    return any(4) ? dead<H>() : nullptr;
  }
  gsm_tensor* bad_tensor() { return bad<gsm_tensor>(); }
  int32_t bad_size() { return one_of({0, -1, INT32_MIN, INT32_MAX}); }
  float bad_float() {
    return one_of({std::nanf(""), std::numeric_limits<float>::infinity(), -1.f, 1e30f});
  }
  void add_calls();

  // Anything, right or wrong.
  gsm_tensor* some_tensor() {
    return any(8) == 0 ? bad_tensor() : one_of({ids_, matrix_, images_, half_, vector_});
  }
  int32_t some_int() { return any(3) ? static_cast<int32_t>(any(5)) - 1 : bad_size(); }

  Scope scope_;
  std::vector<std::function<gsm_status()>> calls_;
  int64_t count_ = 0, shape_[6] = {1, 1, 1, 1, 1, 1};
  float floats_[8] = {};
  double norm_ = 0;
  const char* text_ = nullptr;
  gsm_tensor *ids_ = nullptr, *matrix_ = nullptr, *images_ = nullptr, *freed_ = nullptr,
             *vector_ = numbers({3}, {1, 2, 3}), *half_ = op(gsm_cast, vector_, GSM_BF16),
             *made_ = nullptr;
  gsm_module* module_ = nullptr;
  gsm_params* params_ = nullptr;
  gsm_optimizer* optimizer_ = nullptr;
  gsm_group* group_ = nullptr;
};

void WrongNetworkCalls::add_calls() {
  static gsm_module* module;
  static gsm_optimizer* optimizer;
  static gsm_method* method;
  static gsm_bytes* bytes;
  const auto add = [&](auto call) { calls_.emplace_back(call); };
  for (const Unary call : kUnary) {
    add([this, call] { return call(bad_tensor(), &made_); });
    add([this, call] { return call(any(2) ? ids_ : matrix_, nullptr); });
  }
  for (const Binary call : kBinary) {
    add([this, call] { return call(bad_tensor(), matrix_, &made_); });
    add([this, call] { return call(matrix_, bad_tensor(), &made_); });
    add([this, call] { return call(matrix_, images_, &made_); });  // shapes that meet nowhere
  }
  add([&] {
    shape_[0] = one_of<int64_t>({0, -1, INT64_MIN, INT64_MAX, int64_t{1} << 40});
    const gsm_status status = any(2) ? gsm_tensor_full(1, GSM_F32, shape_, 1, &made_)
                                     : gsm_tensor_normal(0, 1, 1, shape_, 1, &made_);
    shape_[0] = 1;
    return status;
  });
  add([&] {
    return gsm_tensor_full(one_of({.5f, 1e30f, std::nanf("")}), one_of({GSM_I32, GSM_I64, GSM_U8}),
                           shape_, 1, &made_);
  });
  add([&] {
    return gsm_tensor_copy(floats_, static_cast<gsm_dtype>(one_of({-1, 6})), shape_, 1, &made_);
  });
  add([&] { return gsm_tensor_copy(nullptr, GSM_F32, shape_, 1, &made_); });
  add([&] { return gsm_tensor_copy(floats_, GSM_F32, nullptr, 1, &made_); });
  add([&] { return gsm_tensor_copy(floats_, GSM_F32, shape_, one_of({-1, 7}), &made_); });
  add([&] { return gsm_tensor_uniform(bad_float(), -2, 1, shape_, 1, &made_); });
  add([&] { return gsm_tensor_normal(0, one_of({-1.f, std::nanf("")}), 1, shape_, 1, &made_); });
  add([&] { return gsm_tensor_item(any(2) ? matrix_ : bad_tensor(), floats_); });
  add([&] { return gsm_tensor_read(any(2) ? matrix_ : bad_tensor(), floats_, 8); });
  add([&] { return gsm_tensor_read(matrix_, nullptr, 24); });
  add([&] { return gsm_tensor_write(matrix_, floats_, one_of<std::size_t>({0, 23, SIZE_MAX})); });
  add([&] { return gsm_tensor_write(bad_tensor(), floats_, 8); });
  add([&] {
    const int64_t wrong[] = {one_of<int64_t>({-1, -2, 0, 4, INT64_MAX}), -1};
    return gsm_reshape(matrix_, wrong, one_of({1, 2, 7, -1}) == 2 ? 2 : 7, &made_);
  });
  add([&] { return gsm_tensor_keep(bad_tensor()); });
  add([&] { return gsm_tensor_require_grad(any(2) ? ids_ : bad_tensor()); });
  add([&] { return gsm_tensor_zero_grad(any(2) ? matrix_ : bad_tensor()); });
  add([&] { return gsm_backward(any(2) ? matrix_ : bad_tensor()); });
  add([&] { return gsm_affine(any(2) ? ids_ : bad_tensor(), 1, 1, &made_); });
  add([&] { return gsm_cast(matrix_, one_of({GSM_U8, GSM_I32, GSM_I64}), &made_); });
  add([&] { return gsm_sum_along(matrix_, one_of({2, -3, INT32_MIN, INT32_MAX}), &made_); });
  add([&] { return gsm_mean_along(bad_tensor(), 0, &made_); });
  add([&] { return gsm_transpose(matrix_, 0, one_of({2, -3, INT32_MAX}), &made_); });
  add([&] {
    gsm_tensor* const parts[] = {matrix_, any(2) ? images_ : bad_tensor()};
    return gsm_concat(parts, any(4) ? 2 : bad_size(), 0, &made_);
  });
  add([&] { return gsm_concat(nullptr, 1, 0, &made_); });
  add([&] { return gsm_slice(matrix_, 1, one_of<int64_t>({-1, 3, INT64_MIN}), 3, &made_); });
  add([&] { return gsm_slice(matrix_, 1, 0, one_of<int64_t>({0, 4, INT64_MAX}), &made_); });
  add([&] { return gsm_cross_entropy(matrix_, ids_, 0, &made_); });  // a label beyond the classes
  add([&] { return gsm_cross_entropy(matrix_, any(2) ? matrix_ : bad_tensor(), 0, &made_); });
  add([&] { return gsm_embedding(ids_, matrix_, &made_); });
  add([&] { return gsm_linear(matrix_, any(2) ? images_ : bad_tensor(), nullptr, &made_); });
  add([&] { return gsm_linear(matrix_, matrix_, any(2) ? vector_ : dead<gsm_tensor>(), &made_); });
  add([&] {
    gsm_tensor* const w = normal({2, 3, 3, 2}, 1);
    int32_t numbers[] = {1, 1, 1, 1};
    numbers[any(4)] = one_of({-1, INT32_MIN, INT32_MAX});
    return gsm_conv2d(images_, w, numbers[0], numbers[1], numbers[2], numbers[3], &made_);
  });
  add([&] { return gsm_conv2d(images_, matrix_, 1, 1, 1, 1, &made_); });
  for (const auto call : {gsm_max_pool2d, gsm_avg_pool2d}) {
    add([this, call] { return call(images_, bad_size(), 1, 0, &made_); });
    add([this, call] { return call(images_, 2, bad_size(), 0, &made_); });
    add([this, call] { return call(images_, 2, 2, one_of({-1, INT32_MAX}), &made_); });
    add([this, call] { return call(any(2) ? matrix_ : bad_tensor(), 2, 2, 0, &made_); });
  }
  add([&] {
    return gsm_batch_norm(matrix_, vector_, vector_, any(2) ? vector_ : nullptr, nullptr, 0, .1f,
                          1e-5f, &made_);
  });
  add([&] {
    return gsm_batch_norm(matrix_, vector_, any(2) ? matrix_ : bad_tensor(), vector_, vector_, 1,
                          .1f, 1e-5f, &made_);
  });
  add([&] {
    const bool momentum = any(2);
    return gsm_batch_norm(matrix_, vector_, vector_, nullptr, nullptr, 1,
                          momentum ? bad_float() : .1f,
                          momentum ? 1e-5f : one_of({0.f, -1.f, std::nanf("")}), &made_);
  });
  add([&] {
    return gsm_layer_norm(matrix_, any(2) ? ids_ : bad_tensor(), nullptr, 1e-5f, &made_);
  });
  add([&] {
    return gsm_layer_norm(matrix_, vector_, vector_, one_of({0.f, -1.f, std::nanf("")}), &made_);
  });
  add([&] { return gsm_attention(any(2) ? matrix_ : bad_tensor(), 1, 0, nullptr, &made_); });
  add([&] {
    gsm_tensor* const qkv = normal({1, 2, 6}, 1);
    return any(2) ? gsm_attention(qkv, one_of({0, -1, 3, INT32_MAX}), 0, nullptr, &made_)
                  : gsm_attention(qkv, 1, 0, ids_, &made_);
  });
  add([&] {
    return gsm_cross_attention(normal({1, 2, 4}, 1), normal({1, 2, 6}, 1), 1, nullptr, &made_);
  });
  add([&] { return gsm_dropout(matrix_, bad_float(), 1, 1, &made_); });
  add([&] {
    return gsm_module_new(one_of<const char*>({nullptr, "", "}", "linear", "\xff=\xff", "{ {"}), 1,
                          &module);
  });
  add([&] { return gsm_module_new("relu", 1, nullptr); });
  add([&] { return gsm_module_forward(module_, any(2) ? matrix_ : bad_tensor(), 1, &made_); });
  add([&] { return gsm_module_forward(bad<gsm_module>(), matrix_, 1, &made_); });
  add([&] { return gsm_module_freeze(module_, one_of<const char*>({nullptr, "", "nothing"})); });
  add([&] { return gsm_module_free(dead<gsm_module>()); });
  add([&] { return gsm_params_new(nullptr); });
  add([&] { return gsm_params_add(params_, "late", matrix_); });
  add([&] { return gsm_params_add(bad<gsm_params>(), "x", matrix_); });
  add([&] { return gsm_params_add_module(params_, "x", any(2) ? module_ : bad<gsm_module>()); });
  add([&] { return gsm_params_count(params_, &count_, nullptr); });
  add([&] { return gsm_params_name(params_, one_of<int64_t>({-1, 2, INT64_MAX}), &text_); });
  add([&] { return gsm_params_tensor(params_, one_of<int64_t>({-1, 2, INT64_MIN}), &made_); });
  add([&] { return gsm_params_zero_grad(bad<gsm_params>()); });
  add([&] { return gsm_params_clip_grad(params_, 1, &norm_); });  // there is no gradient
  add([&] { return gsm_params_save(params_, one_of<const char*>({nullptr, "", "/", "/no/x"})); });
  add([&] { return gsm_params_load(params_, one_of<const char*>({nullptr, "", "/", "/no/x"})); });
  add([&] { return gsm_params_free(dead<gsm_params>()); });
  add([&] { return gsm_optimizer_new(bad<gsm_params>(), "sgd", nullptr, &optimizer); });
  add([&] {
    return gsm_optimizer_new(params_, one_of<const char*>({nullptr, "", "rmsprop", "%n"}), nullptr,
                             &optimizer);
  });
  add([&] {
    return gsm_optimizer_new(
        params_, "sgd",
        one_of({"momentum", "=", "momentum=2", "momentum=0 momentum=0", "\xff=1", "beta1=0.5"}),
        &optimizer);
  });
  add([&] { return gsm_optimizer_step(optimizer_, any(2) ? .1 : std::nan("")); });
  add([&] { return gsm_optimizer_step(bad<gsm_optimizer>(), .1); });
  add([&] { return gsm_optimizer_free(dead<gsm_optimizer>()); });
  add([&] { return gsm_optimizer_groups(bad<gsm_optimizer>(), "0=2", nullptr); });
  add([&] { return gsm_optimizer_groups(optimizer_, "nobody=2", nullptr); });
  add([&] {
    return gsm_optimizer_groups(optimizer_, "0=2", one_of<const char*>({"0", "=", "0=-1"}));
  });
  add([&] { return gsm_optimizer_state_save(bad<gsm_optimizer>(), "state"); });
  add([&] {
    return gsm_optimizer_state_save(optimizer_, one_of<const char*>({nullptr, "", "/", "/no/x"}));
  });
  add([&] { return gsm_optimizer_state_memory(bad<gsm_optimizer>(), &bytes); });
  add([&] { return gsm_optimizer_state_memory(optimizer_, nullptr); });
  add([&] {
    return gsm_optimizer_state_load(optimizer_, one_of<const char*>({nullptr, "", "/", "/no/x"}));
  });
  add([&] {
    return gsm_optimizer_state_restore(optimizer_, any(2) ? floats_ : nullptr, any(sizeof floats_));
  });
  add([&] {
    gsm_gossip_options options{};
    options.struct_size = sizeof options;
    if (any(2)) options.state = floats_;
    options.resume = 1;
    return gsm_method_new_for(optimizer_, group_, "a2cid2", "ring", &options, &method);
  });
  add([&] {
    return gsm_method_new_for(optimizer_, group_, one_of<const char*>({nullptr, "", "gossip"}),
                              "ring", nullptr, &method);
  });
  add([&] {
    return gsm_method_new_for(bad<gsm_optimizer>(), group_, "a2cid2", "ring", nullptr, &method);
  });
  add([&] {
    return gsm_method_new_for(optimizer_, bad<gsm_group>(), "a2cid2", "ring", nullptr, &method);
  });
}

TEST_F(WrongNetworkCalls, FiveThousandAreFiveThousandErrors) {
  add_calls();
  const int count = calls_to_make(5000);
  for (int i = 0; i < count; ++i) {
    const Scope scope;
    const std::size_t which = i < static_cast<int>(calls_.size()) ? i : any(calls_.size());
    ASSERT_NE(calls_[which](), GSM_OK) << "call " << which;
    ASSERT_STRNE(gsm_last_error(), "") << "call " << which;
  }
  // What was called wrongly goes on.
  EXPECT_THAT(read(op(gsm_module_forward, module_, normal({1, 2}, 1), 1)), testing::SizeIs(3));
}

TEST_F(WrongNetworkCalls, AnyArgumentsAreAResultOrAnError) {
  gsm_tensor* const conv = normal({2, 3, 3, 2}, 1);
  int results = 0;
  const int count = calls_to_make(20000);
  for (int i = 0; i < count; ++i) {
    const Scope scope;
    gsm_tensor *const a = some_tensor(), *const b = some_tensor(), *const c = some_tensor();
    gsm_tensor* y = nullptr;
    gsm_status status = GSM_OK;
    switch (any(16)) {
      case 0:
      case 1:
        status = kUnary[any(std::size(kUnary))](a, &y);
        break;
      case 2:
      case 3:
        status = kBinary[any(std::size(kBinary))](a, b, &y);
        break;
      case 4:
        status = gsm_linear(a, b, any(2) ? c : nullptr, &y);
        break;
      case 5:
        status = gsm_conv2d(images_, any(4) ? conv : b, some_int(), some_int(), some_int(),
                            some_int(), &y);
        break;
      case 6:
        status = gsm_max_pool2d(a, some_int(), some_int(), some_int(), &y);
        break;
      case 7:
        status = gsm_avg_pool2d(a, some_int(), some_int(), some_int(), &y);
        break;
      case 8:
        status = gsm_batch_norm(a, b, c, any(2) ? vector_ : nullptr, any(2) ? vector_ : nullptr,
                                some_int() & 1, .1f, 1e-5f, &y);
        break;
      case 9:
        status = gsm_layer_norm(a, b, any(2) ? c : nullptr, 1e-5f, &y);
        break;
      case 10:
        status = gsm_attention(any(2) ? normal({2, 2, 6}, 1) : a, some_int(), some_int() & 1,
                               any(2) ? b : nullptr, &y);
        break;
      case 11:
        status = gsm_slice(a, some_int(), some_int(), some_int(), &y);
        break;
      case 12:
        status = gsm_transpose(a, some_int(), some_int(), &y);
        break;
      case 13: {
        gsm_tensor* const parts[] = {a, b};
        status = gsm_concat(parts, 1 + static_cast<int32_t>(any(2)), some_int(), &y);
        break;
      }
      case 14:
        status = gsm_sum_along(a, some_int(), &y);
        break;
      default:
        status = gsm_cross_entropy(a, any(2) ? ids_ : b, 0, &y);
    }
    ASSERT_EQ(status == GSM_OK, y != nullptr);
    ASSERT_EQ(status == GSM_OK, *gsm_last_error() == 0);
    results += y != nullptr;
  }
  EXPECT_GT(results, count / 20);
  EXPECT_LT(results, count / 20 * 19);
}

}  // namespace
}  // namespace gossamer
