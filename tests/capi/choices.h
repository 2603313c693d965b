// Random choices for generated calls of gossamer.h.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>

namespace gossamer {

class Choices {
 protected:
  explicit Choices(std::uint64_t seed) : random_(seed) {}
  std::size_t any(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[any(list.size())];
  }
  // How many calls a test makes: GOSSAMER_TEST_CALLS, for long runs under sanitizers.
  static int calls_to_make(int usual) {
    const char* const asked = std::getenv("GOSSAMER_TEST_CALLS");
    return asked ? std::atoi(asked) : usual;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace gossamer
