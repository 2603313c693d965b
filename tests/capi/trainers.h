// Trainers in C for the tests: made, fed with pictures of two brightnesses, read and freed.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "capi/calls.h"
#include "gossamer/apps/capi/gossamer.h"
#include "support/temp_folder.h"

namespace gossamer {

class CTrainer : public InTempFolder {
 protected:
  void TearDown() override {
    for (gsm_trainer* each : trainers_) EXPECT_EQ(gsm_trainer_free(each), GSM_OK);
    InTempFolder::TearDown();
  }
  static gsm_trainer_options options() {
    gsm_trainer_options o{};
    o.struct_size = sizeof o;
    o.seed = 3;
    return o;
  }
  gsm_trainer* make(const char* model, int64_t classes, const gsm_trainer_options& o) {
    gsm_trainer* trainer = nullptr;
    EXPECT_EQ(gsm_trainer_new(model, classes, &o, &trainer), GSM_OK) << gsm_last_error();
    if (trainer) trainers_.push_back(trainer);
    return trainer;
  }
  gsm_trainer* make(const gsm_trainer_options& o) { return make("resnet8-cifar", 2, o); }
  // The gradient of n pictures of 8 x 8, class k of one brightness.
  static float gradient(gsm_trainer* trainer, int n = 4, int channels = 3, int shift = 0) {
    std::vector<uint8_t> pixels(static_cast<std::size_t>(n) * 64 * channels);
    std::vector<int32_t> labels(n);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const auto which = static_cast<int>(i) / (64 * channels);
      pixels[i] = static_cast<uint8_t>(60 + shift + 120 * (which % 2) + i % 7);
      labels[which] = which % 2;
    }
    float loss = NAN;
    EXPECT_EQ(gsm_trainer_gradient(trainer, pixels.data(), labels.data(), n, 8, 8, &loss), GSM_OK)
        << gsm_last_error();
    return loss;
  }
  static int64_t index_of(gsm_trainer* trainer, const char* name) {
    int64_t index = -1;
    EXPECT_EQ(gsm_trainer_parameter_find(trainer, name, &index), GSM_OK) << gsm_last_error();
    return index;
  }
  static std::vector<float> read(gsm_trainer* trainer, const char* name,
                                 gsm_part part = GSM_VALUE) {
    const int64_t index = index_of(trainer, name);
    gsm_parameter_info_t info{};
    info.struct_size = sizeof info;
    EXPECT_EQ(gsm_trainer_parameter_info(trainer, index, &info), GSM_OK) << gsm_last_error();
    std::vector<float> values(static_cast<std::size_t>(info.numbers));
    EXPECT_EQ(gsm_trainer_parameter_read(trainer, index, part, values.data(), info.numbers), GSM_OK)
        << gsm_last_error();
    return values;
  }
  static std::string state(gsm_trainer* trainer) {
    gsm_bytes* bytes = nullptr;
    EXPECT_EQ(gsm_trainer_state_memory(trainer, &bytes), GSM_OK) << gsm_last_error();
    const void* data = nullptr;
    std::size_t size = 0;
    EXPECT_EQ(gsm_bytes_data(bytes, &data, &size), GSM_OK);
    const std::string copy(static_cast<const char*>(data), size);
    EXPECT_EQ(gsm_bytes_free(bytes), GSM_OK);
    return copy;
  }

  std::vector<gsm_trainer*> trainers_;
};

}  // namespace gossamer
