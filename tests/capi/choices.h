// Random choices for generated calls of gossamer.h.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>

namespace gossamer {

class Choices {
 protected:
  // GOSSAMER_TEST_SEED, for runs that make other calls, takes the place of the seed.
  explicit Choices(std::uint64_t seed) : random_(asked("GOSSAMER_TEST_SEED", seed)) {}
  std::size_t any(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[any(list.size())];
  }
  // How many calls a test makes: GOSSAMER_TEST_CALLS, for long runs under sanitizers.
  static int calls_to_make(int usual) {
    return static_cast<int>(asked("GOSSAMER_TEST_CALLS", static_cast<std::uint64_t>(usual)));
  }

 private:
  static std::uint64_t asked(const char* name, std::uint64_t usual) {
    const char* const text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : usual;
  }
  std::mt19937_64 random_;
};

}  // namespace gossamer
