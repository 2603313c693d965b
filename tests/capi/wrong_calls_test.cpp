// Calls that are wrong in every way that can be told, generated: each is an error with a text, and
// nothing crashes or leaks (tests/run --sanitize address). And damaged model files.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "capi/choices.h"
#include "gossamer/apps/capi/dlpack.h"
#include "gossamer/apps/capi/gossamer.h"
#include "support/temp_folder.h"

namespace gossamer {
namespace {

class WrongCalls : public InTempFolder, protected Choices {
 protected:
  WrongCalls() : Choices(7) {}
  void SetUp() override {
    InTempFolder::SetUp();
    ASSERT_EQ(gsm_trainer_new("resnet8-cifar", 2, nullptr, &trainer_), GSM_OK);
    path_ = file("m.safetensors").string();
    ASSERT_EQ(gsm_trainer_save(trainer_, path_.c_str(), nullptr), GSM_OK);
    ASSERT_EQ(gsm_model_open(path_.c_str(), &model_), GSM_OK);
    ASSERT_EQ(gsm_model_open(path_.c_str(), &freed_), GSM_OK);
    ASSERT_EQ(gsm_model_free(freed_), GSM_OK);
    ASSERT_EQ(gsm_group_local(1, &group_), GSM_OK);
    ASSERT_EQ(gsm_gossip_new(group_, x_, 4, "a2cid2", "ring", nullptr, &gossip_), GSM_OK);
    const int64_t shape[] = {4};
    ASSERT_EQ(gsm_tensor_from_blob(x_, GSM_F32, shape, 1, nullptr, nullptr, &tensor_), GSM_OK);
  }
  void TearDown() override {
    EXPECT_EQ(gsm_tensor_free(tensor_), GSM_OK);
    EXPECT_EQ(gsm_gossip_free(gossip_), GSM_OK);
    EXPECT_EQ(gsm_group_free(group_), GSM_OK);
    EXPECT_EQ(gsm_model_free(model_), GSM_OK);
    EXPECT_EQ(gsm_trainer_free(trainer_), GSM_OK);
    InTempFolder::TearDown();
  }

  // not null, for functions that free
  template <class H>
  H* dead_handle() {
    return one_of<H*>({reinterpret_cast<H*>(freed_), reinterpret_cast<H*>(std::uintptr_t{1}),
                       reinterpret_cast<H*>(x_),
                       reinterpret_cast<H*>(std::uintptr_t{1} << 21 | any(std::size_t{1} << 62))});
  }
  template <class H>
  H* bad_handle() {
    // of another kind: whichever of these is not an H
    if constexpr (!std::is_same_v<H, gsm_group>)
      if (any(3) == 0) return reinterpret_cast<H*>(group_);
    if constexpr (!std::is_same_v<H, gsm_tensor>)
      if (any(3) == 0) return reinterpret_cast<H*>(tensor_);
    return any(4) ? dead_handle<H>() : nullptr;
  }
  int64_t bad_size() {
    return one_of<int64_t>({0, -1, std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int64_t>::max(), int64_t{1} << 40});
  }
  gsm_part bad_part() { return static_cast<gsm_part>(one_of({-1, 3, 99, INT32_MIN})); }
  const char* bad_path() {
    return one_of<const char*>({nullptr, "", "/nowhere/at all", "/", ".", "no folder/\xff\xfe"});
  }
  const char* bad_name() { return one_of<const char*>({nullptr, "", "resnet", "%s%n", "\xff"}); }
  template <class T>
  T* maybe_null(T* p) {
    return any(2) ? p : nullptr;
  }

  // One wrong argument (at least) in a call that would be right without it.
  void add_calls();
  void add_trainer_calls();
  void add_language_calls();
  std::vector<std::function<gsm_status()>> calls_;

  std::string path_;
  float x_[4] = {}, floats_[64] = {};
  uint8_t bytes_[192] = {};
  int32_t ints_[8] = {}, count_ = 3;
  int64_t longs_[8] = {};
  const char* text_ = nullptr;
  void* pointer_ = nullptr;
  gsm_class classes_[3] = {};
  gsm_trainer* trainer_ = nullptr;
  gsm_model *model_ = nullptr, *freed_ = nullptr;
  gsm_group* group_ = nullptr;
  gsm_gossip* gossip_ = nullptr;
  gsm_tensor* tensor_ = nullptr;
};

void WrongCalls::add_calls() {
  static gsm_model* model;
  static gsm_tensor* tensor;
  static gsm_trainer* trainer;
  static gsm_dataset* dataset;
  static gsm_loader* loader;
  static gsm_group* group;
  static gsm_gossip* gossip;
  static gsm_bytes* state;
  static gsm_method* method;
  static DLManagedTensor* managed;
  static gsm_model_info_t info;
  static gsm_gossip_stats_t stats;
  info.struct_size = sizeof info;
  stats.struct_size = sizeof stats;
  const auto add = [&](auto call) { calls_.emplace_back(call); };
  add([&] { return gsm_set_threads(one_of({-1, 1025, INT32_MIN, INT32_MAX})); });
  add([&] { return gsm_device_count(nullptr); });
  add([&] { return gsm_model_open(bad_path(), &model); });
  add([&] { return gsm_model_open(path_.c_str(), nullptr); });
  add([&] { return gsm_model_info(bad_handle<gsm_model>(), &info); });
  add([&] { return gsm_model_info(model_, nullptr); });
  add([&] {
    gsm_model_info_t wrong{};
    wrong.struct_size = one_of<size_t>({0, 1, 5000, SIZE_MAX});
    return gsm_model_info(model_, &wrong);
  });
  add([&] { return gsm_model_class_name(model_, one_of<int64_t>({-1, 2, INT64_MAX}), &text_); });
  add([&] { return gsm_model_class_name(bad_handle<gsm_model>(), 0, &text_); });
  add([&] { return gsm_model_class_name(model_, 0, nullptr); });
  add([&] { return gsm_model_classify_file(model_, bad_path(), classes_, &count_); });
  add([&] {
    int32_t wrong = one_of({0, -1, INT32_MIN});
    return gsm_model_classify_bytes(model_, bytes_, 192, classes_, &wrong);
  });
  add([&] { return gsm_model_classify_bytes(model_, bytes_, any(193), classes_, &count_); });
  add([&] { return gsm_model_classify_bytes(model_, nullptr, 9, classes_, maybe_null(&count_)); });
  add([&] {
    return gsm_model_classify_bytes(bad_handle<gsm_model>(), bytes_, 192, classes_, &count_);
  });
  add([&] { return gsm_model_forward(model_, floats_, bad_size(), 2, 2, x_); });
  add([&] { return gsm_model_forward_u8(model_, bytes_, 1, bad_size(), bad_size(), x_); });
  add([&] { return gsm_model_forward_u8(model_, nullptr, 1, 8, 8, maybe_null(x_)); });
  add([&] { return gsm_model_forward(bad_handle<gsm_model>(), floats_, 1, 2, 2, x_); });
  add([&] { return gsm_model_free(dead_handle<gsm_model>()); });
  add([&] {
    longs_[0] = bad_size();
    return gsm_tensor_from_blob(x_, GSM_F32, longs_, 1, nullptr, nullptr, &tensor);
  });
  add([&] {
    return gsm_tensor_from_blob(x_, static_cast<gsm_dtype>(one_of({-1, 6, 99})), longs_, 0, nullptr,
                                nullptr, &tensor);
  });
  add([&] {
    return gsm_tensor_from_blob(x_, GSM_U8, longs_, one_of({-1, 7, INT32_MAX}), nullptr, nullptr,
                                &tensor);
  });
  add([&] { return gsm_tensor_data(bad_handle<gsm_tensor>(), &pointer_); });
  add([&] { return gsm_tensor_data(tensor_, nullptr); });
  add([&] {
    gsm_dtype type{};
    return gsm_tensor_shape(bad_handle<gsm_tensor>(), longs_, ints_, &type);
  });
  add([&] { return gsm_tensor_from_dlpack(nullptr, maybe_null(&tensor)); });
  add([&] {
    DLManagedTensor wrong{{x_, {1, 0}, 1, {2, 32, 1}, longs_, nullptr, 0}, nullptr, nullptr};
    int64_t strides[] = {2};
    longs_[0] = 2;
    switch (any(5)) {
      case 0:
        wrong.dl_tensor.device.device_type = 2;
        break;
      case 1:
        wrong.dl_tensor.dtype.bits = 64;
        break;
      case 2:
        wrong.dl_tensor.ndim = 9;
        break;
      case 3:
        wrong.dl_tensor.strides = strides;
        break;
      default:
        longs_[0] = bad_size();
    }
    return gsm_tensor_from_dlpack(&wrong, &tensor);
  });
  add([&] { return gsm_tensor_to_dlpack(bad_handle<gsm_tensor>(), &managed); });
  add([&] { return gsm_tensor_free(dead_handle<gsm_tensor>()); });
  add([&] { return gsm_model_forward_tensor(model_, tensor_, &tensor); });  // rank 1
  add([&] { return gsm_model_forward_tensor(model_, bad_handle<gsm_tensor>(), &tensor); });
  add([&] { return gsm_trainer_new(bad_name(), 2, nullptr, &trainer); });
  add([&] { return gsm_trainer_new("resnet8-cifar", bad_size() | 1 << 30, nullptr, nullptr); });
  add([&] {
    gsm_trainer_options wrong{};
    wrong.struct_size = sizeof wrong;
    switch (any(4)) {
      case 0:
        wrong.struct_size = one_of<size_t>({0, 7, SIZE_MAX});
        break;
      case 1:
        wrong.optimizer = "rmsprop";
        break;
      case 2:
        wrong.momentum = one_of({1., 2., 1e300});
        break;
      default:
        wrong.weight_decay = -1;
    }
    return gsm_trainer_new("resnet8-cifar", 2, &wrong, &trainer);
  });
  add([&] { return gsm_trainer_gradient(trainer_, bytes_, ints_, 1, 8, bad_size(), floats_); });
  add([&] {
    int32_t label = one_of({-1, 2, INT32_MAX});
    return gsm_trainer_gradient(trainer_, bytes_, &label, 1, 8, 8, floats_);
  });
  add([&] {
    return gsm_trainer_gradient(trainer_, maybe_null(bytes_), nullptr, 1, 8, 8, floats_);
  });
  add([&] { return gsm_trainer_gradient(bad_handle<gsm_trainer>(), bytes_, ints_, 1, 8, 8, x_); });
  add([&] { return gsm_trainer_forward(trainer_, nullptr, 1, 2, 2, maybe_null(floats_)); });
  add([&] { return gsm_trainer_backward(trainer_, maybe_null(floats_)); });  // without forward
  add([&] { return gsm_trainer_step(trainer_, .1); });                       // without a gradient
  add([&] { return gsm_trainer_step(trainer_, one_of({-1., 1e300, double(NAN)})); });
  add([&] { return gsm_trainer_step(bad_handle<gsm_trainer>(), .1); });
  add([&] { return gsm_trainer_evaluate(trainer_, bytes_, ints_, 0, 8, 8, longs_, floats_); });
  add([&] { return gsm_trainer_save(trainer_, bad_path(), nullptr); });
  add([&] {
    const char* names[] = {one_of<const char*>({nullptr, "a\nb"}), "c"};
    return gsm_trainer_save(trainer_, path_.c_str(), names);
  });
  add([&] { return gsm_trainer_load(trainer_, bad_path()); });
  add([&] { return gsm_trainer_free(dead_handle<gsm_trainer>()); });
  add_trainer_calls();
  add_language_calls();
  add([&] {
    const char* paths[] = {bad_path()};
    return gsm_dataset_open(paths, one_of({1, 0, -1}), &dataset);
  });
  add([&] { return gsm_dataset_open(nullptr, 1, &dataset); });
  add([&] { return gsm_dataset_size(bad_handle<gsm_dataset>(), longs_, longs_); });
  add([&] { return gsm_dataset_class_name(bad_handle<gsm_dataset>(), 0, &text_); });
  add([&] { return gsm_dataset_free(dead_handle<gsm_dataset>()); });
  add([&] { return gsm_loader_new(bad_handle<gsm_dataset>(), nullptr, &loader); });
  add([&] { return gsm_loader_next(bad_handle<gsm_loader>(), bytes_, ints_, longs_); });
  add([&] { return gsm_loader_free(dead_handle<gsm_loader>()); });
  add([&] {
    return gsm_group_join(one_of({-1, 2, 0}), one_of({0, -1}), "127.0.0.1", 1000, "t", &group);
  });
  add([&] {
    return gsm_group_join(0, 2, "127.0.0.1", one_of({0, -1, 65536}), "t", maybe_null(&group));
  });
  add([&] { return gsm_group_join(0, 2, maybe_null("here"), 9, maybe_null(""), nullptr); });
  add([&] { return gsm_group_join_env(nullptr); });
  add([&] {
    gsm_join_options wrong{};
    wrong.struct_size = sizeof wrong;
    wrong.size = 2;
    wrong.host = "127.0.0.1";
    wrong.port = 1000;
    wrong.token = "00112233445566778899aabbccddeeff";
    switch (any(5)) {
      case 0:
        wrong.struct_size = one_of<size_t>({0, 3, 4097});
        break;
      case 1:
        wrong.rank = one_of({-1, 2});
        break;
      case 2:
        wrong.token = one_of({"", "too short"});
        break;
      case 3:
        wrong.join_timeout_s = one_of({-1., double(NAN)});
        break;
      default:
        wrong.dead_after_s = .1;  // less than two heartbeats
    }
    return gsm_group_join_with(&wrong, maybe_null(&group));
  });
  add([&] { return gsm_group_local(one_of({0, -1, 100000}), &group); });
  add([&] { return gsm_group_rank(bad_handle<gsm_group>(), ints_, ints_); });
  add([&] { return gsm_group_rank(group_, nullptr, maybe_null(ints_)); });
  add([&] { return gsm_group_free(dead_handle<gsm_group>()); });
  add([&] { return gsm_gossip_new(group_, x_, 4, bad_name(), "ring", nullptr, &gossip); });
  add([&] { return gsm_gossip_new(group_, x_, 4, "a2cid2", bad_name(), nullptr, &gossip); });
  add([&] { return gsm_gossip_new(group_, x_, 4, "a2cid2", "ring", nullptr, &gossip); });  // again
  add([&] { return gsm_gossip_new(group_, x_, bad_size(), "a2cid2", "ring", nullptr, &gossip); });
  add([&] {
    return gsm_gossip_new(bad_handle<gsm_group>(), x_, 4, "a2cid2", "ring", nullptr, &gossip);
  });
  add([&] {
    gsm_gossip_options wrong{};
    wrong.struct_size = sizeof wrong;
    switch (any(3)) {
      case 0:
        wrong.struct_size = one_of<size_t>({0, 3, 4097});
        break;
      case 1:
        wrong.rate = one_of({-1., double(NAN)});
        break;
      default:
        wrong.total_steps = -5;
    }
    return gsm_gossip_new(group_, x_, 4, "a2cid2", "ring", &wrong, &gossip);
  });
  add([&] { return gsm_gossip_step(gossip_, nullptr); });
  add([&] { return gsm_gossip_step(bad_handle<gsm_gossip>(), x_); });
  add([&] { return gsm_gossip_done(any(2) ? gossip_ : bad_handle<gsm_gossip>(), nullptr); });
  add([&] { return gsm_gossip_finish(bad_handle<gsm_gossip>()); });
  add([&] { return gsm_gossip_stats(gossip_, nullptr); });
  add([&] { return gsm_gossip_state_memory(gossip_, nullptr); });
  add([&] { return gsm_gossip_state_memory(bad_handle<gsm_gossip>(), &state); });
  add([&] {
    gsm_gossip_options options{};
    options.struct_size = sizeof options;
    options.resume = static_cast<int32_t>(any(2));
    options.state = bytes_;
    options.state_size = any(sizeof bytes_);
    return gsm_gossip_new(group_, x_, 4, "a2cid2", "ring", &options, &gossip);
  });
  add([&] { return gsm_gossip_free(dead_handle<gsm_gossip>()); });
  add([&] { return gsm_method_new(trainer_, group_, "a2cid2", "ring", nullptr, &method); });
  add([&] { return gsm_method_step(bad_handle<gsm_method>(), .1); });
  add([&] { return gsm_method_done(bad_handle<gsm_method>(), ints_); });
  add([&] { return gsm_method_finish(bad_handle<gsm_method>()); });
  add([&] { return gsm_method_stats(bad_handle<gsm_method>(), &stats); });
  add([&] { return gsm_method_free(dead_handle<gsm_method>()); });
}

void WrongCalls::add_trainer_calls() {
  static gsm_trainer* trainer;
  static gsm_model* model;
  static gsm_bytes* bytes;
  static gsm_parameter_info_t info;
  static size_t size;
  static const void* data;
  info.struct_size = sizeof info;
  const auto add = [&](auto call) { calls_.emplace_back(call); };
  add([&] { return gsm_cancel_new(nullptr); });
  add([&] { return gsm_cancel_set(bad_handle<gsm_cancel>(), 1); });
  add([&] { return gsm_cancel_use(dead_handle<gsm_cancel>()); });
  add([&] { return gsm_cancel_free(dead_handle<gsm_cancel>()); });
  add([&] { return gsm_bytes_data(bad_handle<gsm_bytes>(), &data, &size); });
  add([&] { return gsm_bytes_free(dead_handle<gsm_bytes>()); });
  add([&] { return gsm_model_open_memory(bytes_, any(193), &model); });
  add([&] { return gsm_model_open_memory(nullptr, 9, maybe_null(&model)); });
  add([&] {
    gsm_model_options wrong{};
    wrong.struct_size = any(8) ? sizeof wrong : one_of<size_t>({0, 3, 4097});
    wrong.path = any(2) ? bad_path() : nullptr;
    wrong.bytes = maybe_null(bytes_);
    wrong.size = any(193);
    wrong.device = one_of<const char*>({nullptr, "", "cuda", "cuda:-1", "cuda:99", "tpu"});
    wrong.type = one_of<const char*>({nullptr, "", "f16", "%n"});
    return gsm_model_open_with(any(9) ? &wrong : nullptr, &model);
  });
  add([&] { return gsm_trainer_new(nullptr, 2, nullptr, &trainer); });
  add([&] {
    gsm_trainer_options wrong{};
    wrong.struct_size = sizeof wrong;
    switch (any(13)) {
      case 11:
        wrong.lora_rank = one_of<int64_t>({-1, 1, INT64_MAX});
        break;
      case 0:
        wrong.device = one_of<const char*>({"", "cuda", "cuda:", "cuda:-1", "cuda:99", "tpu"});
        break;
      case 1:
        wrong.type = one_of<const char*>({"", "f16", "%n"});
        break;
      case 2:
        wrong.model_options = one_of<const char*>({"=", "a", "classes=x", "\xff=1", "bias"});
        break;
      case 3:
        wrong.init = one_of<const char*>({"", "/", "/nowhere", "\xff"});
        break;
      case 4:
        wrong.init_bytes = bytes_;
        wrong.init_size = any(193);
        break;
      case 5:
        wrong.channels = one_of({-1, 65, 2, INT32_MAX});
        break;
      case 6:
        wrong.image_size = one_of({-1, 5000, INT32_MIN});
        break;
      case 7:
        wrong.mean = wrong.std = x_;  // of 0
        break;
      case 8:
        wrong.freeze = one_of<const char*>({"", " ", "nothing", "all but", "all"});
        break;
      case 9:
        wrong.rates = one_of<const char*>({"fc", "fc=", "=2", "fc=-1", "x=1", "fc=nan"});
        break;
      case 10:
        wrong.ema = one_of({-1., 1., 1e300, double(NAN)});
        break;
      default:
        wrong.decays = one_of<const char*>({"fc", "fc=-1", "fc=inf", "x=0"});
    }
    return gsm_trainer_new("resnet8-cifar", 2, &wrong, &trainer);
  });
  add([&] { return gsm_trainer_save_memory(bad_handle<gsm_trainer>(), nullptr, &bytes); });
  add([&] { return gsm_trainer_save_onnx(trainer_, bad_path(), nullptr, nullptr); });
  add([&] { return gsm_trainer_save_onnx_memory(trainer_, nullptr, nullptr, nullptr); });
  add([&] {
    return gsm_trainer_save_onnx_memory(bad_handle<gsm_trainer>(), nullptr, nullptr, &bytes);
  });
  add([&] {
    gsm_onnx_options wrong{};
    wrong.struct_size = any(2) ? sizeof wrong : one_of<size_t>({0, 3, 4097});
    wrong.input = one_of<const char*>({"", "jpeg", "Bytes", "\xff"});
    return gsm_trainer_save_onnx_memory(trainer_, nullptr, &wrong, &bytes);
  });
  add([&] { return gsm_trainer_save_adapter(trainer_, bad_path(), bad_name()); });
  add([&] { return gsm_trainer_init_fit(trainer_, longs_, nullptr); });
  add([&] { return gsm_trainer_init_left(trainer_, one_of({-1, 0, 1 << 30}), &text_); });
  add([&] {
    return gsm_trainer_gradient_ids(trainer_, ints_, nullptr, 1, 8, floats_);  // not for pictures
  });
  add([&] {
    return gsm_trainer_evaluate_ids(bad_handle<gsm_trainer>(), ints_, ints_, 1, 8, floats_);
  });
  add([&] { return gsm_trainer_forward_ids(trainer_, maybe_null(ints_), 1, 8, floats_); });
  add([&] {
    return gsm_trainer_gradient_pairs(trainer_, ints_, ints_, ints_, ints_, 1, bad_size(), 2, x_);
  });
  add([&] {
    return gsm_trainer_evaluate_average(trainer_, bytes_, ints_, 1, 8, 8, longs_, floats_);
  });
  add([&] { return gsm_trainer_evaluate_average_ids(trainer_, ints_, ints_, 1, 8, floats_); });
  add([&] { return gsm_trainer_steps(trainer_, nullptr); });
  add([&] {
    gsm_schedule wrong{};
    double rate = 0;
    wrong.struct_size = sizeof wrong;
    wrong.rate = wrong.total = 1;
    switch (any(4)) {
      case 0:
        wrong.struct_size = one_of<size_t>({0, 3, 4097});
        break;
      case 1:
        wrong.kind = one_of<const char*>({"", "falling", "\xff"});
        break;
      case 2:
        wrong.total = one_of({0., -1., double(NAN)});
        break;
      default:
        wrong.n_milestones = one_of({-1, 3});
    }
    return gsm_schedule_rate(&wrong, 0, &rate);
  });
  add([&] { return gsm_trainer_parameter_count(bad_handle<gsm_trainer>(), longs_); });
  add([&] { return gsm_trainer_parameter_info(trainer_, bad_size() | 1 << 20, &info); });
  add([&] { return gsm_trainer_parameter_find(trainer_, bad_name(), longs_); });
  add([&] {
    return gsm_trainer_parameter_read(trainer_, one_of({-1, 9999}), GSM_VALUE, floats_, 1);
  });
  add([&] { return gsm_trainer_parameter_read(trainer_, 0, GSM_VALUE, floats_, bad_size()); });
  add([&] { return gsm_trainer_parameter_read(trainer_, 0, bad_part(), floats_, 432); });
  add([&] { return gsm_trainer_parameter_read(trainer_, 0, GSM_GRADIENT, floats_, 432); });
  add([&] { return gsm_trainer_parameter_write(trainer_, 0, GSM_VALUE, nullptr, 432); });
  add([&] { return gsm_trainer_parameter_write(trainer_, 0, GSM_VALUE, floats_, 3); });
  add([&] {
    double norm = 0;
    return gsm_trainer_gradient_norm(trainer_, &norm);
  });
  add([&] { return gsm_trainer_lock(bad_handle<gsm_trainer>()); });
  add([&] { return gsm_trainer_unlock(trainer_); });
  add([&] {
    float* to = nullptr;
    return gsm_trainer_parameter_data(trainer_, 0, GSM_VALUE, &to);
  });
  add([&] { return gsm_trainer_state_save(trainer_, bad_path()); });
  add([&] { return gsm_trainer_state_memory(bad_handle<gsm_trainer>(), &bytes); });
  add([&] { return gsm_trainer_state_load(trainer_, any(2) ? bad_path() : path_.c_str()); });
  add([&] { return gsm_trainer_state_restore(trainer_, bytes_, any(193)); });
}

void WrongCalls::add_language_calls() {
  static gsm_tokenizer* tokenizer;
  static gsm_language* language;
  static gsm_generation* generation;
  static gsm_translator* translator;
  static gsm_language_info_t info;
  static char text[16];
  static size_t size;
  info.struct_size = sizeof info;
  const auto add = [&](auto call) { calls_.emplace_back(call); };
  add([&] { return gsm_tokenizer_open(bad_path(), &tokenizer); });
  add([&] { return gsm_tokenizer_size(bad_handle<gsm_tokenizer>(), longs_, ints_); });
  add([&] {
    return gsm_tokenizer_encode(bad_handle<gsm_tokenizer>(), "text", 4, 0, ints_, longs_);
  });
  add([&] { return gsm_tokenizer_decode(bad_handle<gsm_tokenizer>(), ints_, 2, text, &size); });
  add([&] { return gsm_tokenizer_save(bad_handle<gsm_tokenizer>(), "/tmp"); });
  add([&] { return gsm_tokenizer_free(dead_handle<gsm_tokenizer>()); });
  add([&] {
    const gsm_message message{one_of<const char*>({nullptr, "tool", "user"}), maybe_null("text")};
    return gsm_tokenizer_chat(bad_handle<gsm_tokenizer>(), bad_name(), maybe_null(&message), 1, 1,
                              maybe_null(ints_), maybe_null(longs_), maybe_null(ints_));
  });
  add([&] {
    return gsm_tokenizer_example(bad_handle<gsm_tokenizer>(), bad_name(), maybe_null("{}"),
                                 maybe_null(ints_), ints_, maybe_null(longs_));
  });
  add([&] {
    gsm_translator_options wrong{};
    wrong.struct_size = any(2) ? sizeof wrong : one_of<size_t>({0, 3, 4097});
    wrong.device = one_of<const char*>({nullptr, "", "cuda:99"});
    wrong.beam = one_of({-1, 0, INT32_MAX});
    wrong.length_penalty = one_of({0., double(NAN)});
    return gsm_translator_open(any(2) ? path_.c_str() : bad_path(), &wrong,
                               maybe_null(&translator));
  });
  add([&] {
    const char* const sentence = maybe_null("a");
    gsm_bytes* made = nullptr;
    return gsm_translate(bad_handle<gsm_translator>(), maybe_null(&sentence), 1, &made);
  });
  add([&] { return gsm_translator_free(dead_handle<gsm_translator>()); });
  add([&] { return gsm_language_export(bad_handle<gsm_language>(), bad_path(), nullptr); });
  add([&] { return gsm_language_open(bad_path(), nullptr, &language); });
  add([&] { return gsm_language_open(path_.c_str(), nullptr, &language); });  // of pictures
  add([&] { return gsm_language_info(bad_handle<gsm_language>(), &info); });
  add([&] { return gsm_language_tokenizer(bad_handle<gsm_language>(), &tokenizer); });
  add([&] {
    double loss = 0, perplexity = 0;
    return gsm_language_perplexity(bad_handle<gsm_language>(), ints_, 8, 0, &loss, &perplexity);
  });
  add([&] { return gsm_language_free(dead_handle<gsm_language>()); });
  add([&] {
    return gsm_generation_new(bad_handle<gsm_language>(), ints_, 1, nullptr, &generation);
  });
  add([&] { return gsm_generation_next(bad_handle<gsm_generation>(), ints_, ints_ + 1); });
  add([&] { return gsm_generation_free(dead_handle<gsm_generation>()); });
}

TEST_F(WrongCalls, TenThousandAreTenThousandErrors) {
  add_calls();
  const int count = calls_to_make(10000);
  for (int i = 0; i < count; ++i) {
    const std::size_t which = i < static_cast<int>(calls_.size()) ? i : any(calls_.size());
    ASSERT_NE(calls_[which](), GSM_OK) << "call " << which;
    ASSERT_STRNE(gsm_last_error(), "") << "call " << which;
  }
  // What was called wrongly goes on.
  EXPECT_EQ(gsm_gossip_step(gossip_, x_), GSM_OK) << gsm_last_error();
  EXPECT_EQ(gsm_model_forward_u8(model_, bytes_, 1, 8, 8, floats_), GSM_OK) << gsm_last_error();
}

// Here or in wrong_network_calls_test.cpp: all but those without an argument, and those that take
// any.
TEST_F(WrongCalls, EveryFunctionIsCalledWrongly) {
  const std::string sources =
      contents(GOSSAMER_SOURCE_DIR "/tests/capi/wrong_calls_test.cpp") +
      contents(GOSSAMER_SOURCE_DIR "/tests/capi/wrong_network_calls_test.cpp");
  const std::set<std::string> right{"gsm_scope_begin", "gsm_scope_end", "gsm_set_grad_enabled",
                                    "gsm_set_log", "gsm_shutdown"};
  const std::regex declared("\\ngsm_status (gsm_[a-z0-9_]+)\\(");
  int functions = 0;
  for (const char* header : {"gossamer.h", "gossamer_networks.h"}) {
    const std::string text = contents(std::string(GOSSAMER_SOURCE_DIR "/apps/capi/") + header);
    for (std::sregex_iterator at(text.begin(), text.end(), declared), end; at != end; ++at) {
      const std::string name = (*at)[1];
      ++functions;
      EXPECT_TRUE(right.contains(name) || std::regex_search(sources, std::regex(name + "\\b[^\"]")))
          << name;
    }
  }
  EXPECT_GT(functions, 180);
}

TEST_F(WrongCalls, DamagedModelFilesAreErrorsOrModels) {
  const std::string good = contents(path_);
  for (int i = 0; i < 500; ++i) {
    std::string bad = good;
    if (any(3) == 0) bad.resize(any(bad.size()));
    // mostly in the header, where it matters
    for (std::size_t k = 0; k <= any(4) && !bad.empty(); ++k)
      bad[any(any(8) ? std::min<std::size_t>(bad.size(), 6000) : bad.size())] ^=
          static_cast<char>(1u << any(8));
    const auto path = file("bad.safetensors");
    std::ofstream(path, std::ios::binary) << bad;
    gsm_model* model = nullptr;
    const gsm_status status = gsm_model_open(path.c_str(), &model);
    if (status == GSM_OK) {
      ASSERT_EQ(gsm_model_free(model), GSM_OK);
    } else {
      ASSERT_EQ(status, GSM_ERROR_FILE) << gsm_last_error();
    }
  }
}

}  // namespace
}  // namespace gossamer
