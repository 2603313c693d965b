// Ops against PyTorch's results and gradients, as the scripts in tests/golden store them: of a case
// NAME.KEY for each input, NAME.y, NAME.g, which is sent back, and NAME.dKEY.
#pragma once

#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/ops.h"
#include "support/use_backend.h"

namespace gossamer {

class GoldenCases {
 public:
  // names: of files in tests/golden, the first that has a tensor counts. Values may differ by
  // absolute + relative times the largest. backends: those that check() runs on.
  GoldenCases(const std::vector<std::string>& names, float absolute, float relative,
              std::vector<std::string> backends)
      : names_(names), absolute_(absolute), relative_(relative), backends_(std::move(backends)) {
    for (const std::string& name : names)
      files_.push_back(read_safetensors(GOSSAMER_SOURCE_DIR "/tests/golden/" + name));
  }
  Tensor operator()(const std::string& name) const {
    for (const SafeTensors& file : files_)
      if (const Tensor* t = file.find(name)) return t->clone();
    throw std::runtime_error("tests/golden/" + names_.back() + " has no " + name);
  }
  void expect_close(const Tensor& got, const Tensor& want, const std::string& what) const {
    ASSERT_EQ(got.shape(), want.shape()) << what;
    float top = 0;
    for (const float v : want.span<float>()) top = std::max(top, std::fabs(v));
    for (std::size_t i = 0; i < static_cast<std::size_t>(want.numel()); ++i)
      ASSERT_NEAR(got.span<float>()[i], want.span<float>()[i], absolute_ + relative_ * top)
          << what << ", element " << i;
  }
  void check(const std::string& name, const std::vector<std::string>& inputs,
             const std::function<Tensor(const std::vector<Tensor>&)>& f) const {
    for (const std::string& backend : backends_) {
      SCOPED_TRACE(name + " on " + backend);
      const UseBackend use(backend);
      std::vector<Tensor> x;
      for (const std::string& key : inputs) x.push_back((*this)(name + "." + key).requires_grad());
      const Tensor y = f(x);
      expect_close(y.detach(), (*this)(name + ".y"), "y");
      sum(mul(y, (*this)(name + ".g"))).backward();
      for (std::size_t k = 0; k < x.size(); ++k)
        expect_close(x[k].grad(), (*this)(name + ".d" + inputs[k]), "gradient of " + inputs[k]);
    }
  }

 private:
  const std::vector<std::string> names_;
  const float absolute_, relative_;
  const std::vector<std::string> backends_;
  std::vector<SafeTensors> files_;
};

}  // namespace gossamer
