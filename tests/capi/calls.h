// Calls of gossamer.h as expressions, for tests that make many tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/apps/capi/gossamer.h"

namespace gossamer {

#define MUST(call) ASSERT_EQ(call, GSM_OK) << gsm_last_error()
// The call fails with this status, and its text matches.
#define REFUSED(call, status, ...)                                \
  do {                                                            \
    ASSERT_EQ(call, status) << gsm_last_error();                  \
    EXPECT_THAT(gsm_last_error(), ::testing::AllOf(__VA_ARGS__)); \
  } while (false)

// The tensor that a call makes through its last parameter; null if it fails.
template <class Call, class... Arguments>
gsm_tensor* op(Call call, Arguments... arguments) {
  gsm_tensor* y = nullptr;
  EXPECT_EQ(call(arguments..., &y), GSM_OK) << gsm_last_error();
  return y;
}

inline gsm_tensor* normal(std::vector<int64_t> shape, uint64_t seed, float deviation = 1) {
  return op(gsm_tensor_normal, 0.f, deviation, seed, shape.data(),
            static_cast<int32_t>(shape.size()));
}
inline gsm_tensor* numbers(std::vector<int64_t> shape, const std::vector<float>& values) {
  return op(gsm_tensor_copy, values.data(), GSM_F32, shape.data(),
            static_cast<int32_t>(shape.size()));
}
inline gsm_tensor* integers(std::vector<int64_t> shape, const std::vector<int32_t>& values) {
  return op(gsm_tensor_copy, values.data(), GSM_I32, shape.data(),
            static_cast<int32_t>(shape.size()));
}
inline std::vector<int64_t> shape_of(gsm_tensor* tensor) {
  int64_t shape[6];
  int32_t rank = 0;
  gsm_dtype type{};
  EXPECT_EQ(gsm_tensor_shape(tensor, shape, &rank, &type), GSM_OK) << gsm_last_error();
  std::vector<int64_t> extents;
  for (int32_t d = 0; d < rank; ++d) extents.push_back(shape[d]);
  return extents;
}
// of an f32 tensor
inline std::vector<float> read(gsm_tensor* tensor) {
  int64_t count = 1;
  for (const int64_t extent : shape_of(tensor)) count *= extent;
  std::vector<float> values(static_cast<std::size_t>(count));
  EXPECT_EQ(gsm_tensor_read(tensor, values.data(), values.size() * sizeof(float)), GSM_OK)
      << gsm_last_error();
  return values;
}
inline void write(gsm_tensor* tensor, const std::vector<float>& values) {
  EXPECT_EQ(gsm_tensor_write(tensor, values.data(), values.size() * sizeof(float)), GSM_OK)
      << gsm_last_error();
}
inline float item(gsm_tensor* tensor) {
  float value = 0;
  EXPECT_EQ(gsm_tensor_item(tensor, &value), GSM_OK) << gsm_last_error();
  return value;
}

// Frees the tensors that are made while it lives.
struct Scope {
  Scope() { EXPECT_EQ(gsm_scope_begin(), GSM_OK); }
  ~Scope() { EXPECT_EQ(gsm_scope_end(), GSM_OK) << gsm_last_error(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

}  // namespace gossamer
