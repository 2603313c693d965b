// Gossamer's half of safetensors_torch.py: `save MODEL FILE LOGITS` saves a fresh model and its
// logits, `load MODEL FILE LOGITS` loads one and writes its logits, both for the golden images.
#include <cstdio>
#include <string_view>

#include "../golden/formula.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"

using namespace gossamer;

int main(int argc, char** argv) try {
  if (argc != 5) return 2;
  const NoGrad no_grad;
  const auto model = models::make(argv[2], {.seed = 1});
  const Tensor images = golden::images(2, 64);
  if (std::string_view(argv[1]) == "save") {
    (*model)(images);  // running statistics off their start
    nn::save(argv[3], *model, {{"model", argv[2]}});
  } else {
    nn::load(argv[3], *model);
  }
  model->eval();
  write_safetensors(argv[4], {{"logits", (*model)(images)}});
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
