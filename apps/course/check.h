// For the tests of the course's exercises: what is right is said, what is wrong ends the test with
// a hint. `gossamer course check` puts this file beside the exercise.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace course {

// Ends the test unless `right`. what: what should hold.
inline void expect(bool right, const std::string& what, const std::string& hint) {
  if (right) return;
  std::printf("  WRONG  %s\n  hint   %s\n", what.c_str(), hint.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

// All that was expected so far held; `what` sums it up.
inline void done(const std::string& what) {
  std::printf("  ok     %s\n", what.c_str());
  std::fflush(stdout);  // a crash that follows loses nothing
}

// The last line of a test, which is not shown: without it something else has ended the program.
inline constexpr const char* kEnd = "  end    of the test\n";
inline int end() {
  std::fputs(kEnd, stdout);
  return 0;
}

// Equal but for this part of `wanted`, or of 1 if that is smaller.
inline bool near(double value, double wanted, double tolerance) {
  return std::abs(value - wanted) <= tolerance * std::fmax(1.0, std::abs(wanted));
}

inline std::string shown(double v, int digits = 4) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, v);
  return text;
}
// With as many digits as tell it from `other`.
inline std::string shown_beside(double v, double other) {
  for (int digits = 4; digits < 17; ++digits)
    if (shown(v, digits) != shown(other, digits)) return shown(v, digits);
  return shown(v);
}

// A prediction has to be written down; it need not be right. `tolerance` is a part of `value`.
inline void predicted(double prediction, double value, double tolerance, const std::string& what) {
  expect(std::isfinite(prediction), "there is a prediction of " + what,
         "replace NAN at the top of the file by what you expect, before you look");
  const bool close = std::abs(prediction - value) <= tolerance * std::abs(value);
  std::printf("  %s you predicted %s for %s; it is %s%s\n", close ? "ok    " : "note  ",
              shown(prediction).c_str(), what.c_str(), shown(value).c_str(),
              close ? "" : ". What had you left out?");
}

}  // namespace course
