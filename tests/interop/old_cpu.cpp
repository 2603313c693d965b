// What the library says on a CPU that it is not compiled for (tests/interop/cpus).
#include <cstdio>

#include "gossamer/core/error.h"
#include "gossamer/core/tensor.h"

int main() {
  try {
    gossamer::Tensor::zeros({4});
  } catch (const gossamer::DeviceError& e) {
    std::puts(e.what());
  }
}
