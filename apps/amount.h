// How much of a run, in all keys that say it: "3 epochs", "2000 steps", "20M samples", "10 min". A
// plain number means what its key says it does, mostly epochs.
#pragma once

#include <string>
#include <string_view>

namespace gossamer::apps {

struct Amount {
  enum class Unit { plain, epochs, steps, samples, seconds, minutes, hours };
  double value = 0;
  Unit unit = Unit::plain;

  bool is_time() const { return unit >= Unit::seconds; }
  double seconds() const;  // of an amount that is a time
  bool operator==(const Amount&) const = default;
};

// Numbers may end in k, M or G, units may be singular or abbreviated (s, min, h), images and tokens
// are samples, and the space may be left out. False: that is no amount, and `out` is as before.
bool parse_amount(std::string_view text, Amount& out);
// What parse_amount() reads as the same amount.
std::string to_text(const Amount&);
// What an amount may be, for messages and help.
inline constexpr const char *kAmountForms =
                                R"(an amount such as "3 epochs", "2000 steps" or "20M samples")",
                            *kAmountOrTimeForms =
                                R"(an amount such as "3 epochs", "2000 steps" or "10 min")";

// The samples of all workers together that other units stand for.
struct RunUnits {
  double epoch = 1;  // of the training set
  double step = 1;   // of a step of every worker
};
// The samples in an amount that is no time; a plain number is epochs.
double samples_of(const Amount&, const RunUnits&);
// The part of a run of `total` samples, 0 to 1 or more; a plain number is the part itself.
double part_of(const Amount&, double total, const RunUnits&);

}  // namespace gossamer::apps
