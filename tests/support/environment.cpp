// What the environment says to a test program:
//   GOSSAMER_TEST_BACKEND   the backend of the CPU, "cuda_emulated" for instance
//   GOSSAMER_TEST_POISON=1  memory is NaN until it is written
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "gossamer/core/compute.h"
#include "gossamer/core/poison.h"

namespace gossamer {
namespace {

class OfTheTests : public testing::Environment {
  void SetUp() override {
    if (const char* name = std::getenv("GOSSAMER_TEST_BACKEND")) use_cpu_backend(name);
    if (const char* poison = std::getenv("GOSSAMER_TEST_POISON"))
      poison_memory(std::string(poison) == "1");
  }
};
[[maybe_unused]] const testing::Environment* const added =
    testing::AddGlobalTestEnvironment(new OfTheTests);

}  // namespace
}  // namespace gossamer
