// What `gossamer compare` compares, and what comes of it: an experiment as a TOML file (README.md),
// its runs, and the figures of a table. Pure, but for the file that is read.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gossamer::apps {

using SettingTexts = std::vector<std::pair<std::string, std::string>>;

// A value of one of the axes: its name, and the settings that make it.
struct Variant {
  std::string name;
  SettingTexts settings;
};

struct Experiment {
  std::string name, about;           // name: of the file, without .toml
  std::vector<std::string> command;  // "simulate" with its mode, or "train"
  int workers = 0, seeds = 5;
  std::string measure;  // what is compared: a number of the run's JSON, or of its summary.json
  bool more_is_better = false;
  std::vector<std::string> also;  // further numbers to show
  std::string baseline;           // a method
  std::vector<double> learning_rates;
  SettingTexts common;
  std::vector<Variant> methods, graphs, data;  // in the order of the file
  bool trains() const { return command[0] == "train"; }
};
// ConfigError with file, line and column. file: its name.
Experiment parse_experiment(const std::string& text, const std::string& file);
// IoError if it can't be read.
Experiment read_experiment(const std::string& file);

// One run: an index of each axis, a learning rate (none: that of the settings), a seed.
struct ComparedRun {
  std::size_t data = 0, graph = 0, method = 0;
  std::optional<double> learning_rate{};
  int seed = 0;
};
// "unlike-ring-dpsgd-0.05-3": also the name of its folder.
std::string name_of(const Experiment&, const ComparedRun&);
// The arguments of `gossamer`, without those that say where results go.
std::vector<std::string> arguments_of(const Experiment&, const ComparedRun&);

// Mean and half of its 95 % confidence interval, by Student's t; half is NaN of fewer than two.
struct Interval {
  double mean = NAN, half = NAN;
};
Interval interval_of(const std::vector<double>&);

// A line of the table. values: of the seeds, NaN: the run has diverged.
struct ComparedRow {
  std::size_t data = 0, graph = 0, method = 0;
  std::optional<double> learning_rate{};
  bool at_the_edge = false;  // it is the first or the last of the ladder
  std::vector<double> values{};
  std::vector<double> also{};  // means
  Interval all{}, against{};   // against: of the differences to the baseline, seed by seed
};
// Fills all and against.
void compare_rows(const Experiment&, std::vector<ComparedRow>&);
// Which of the ladder's values is best; none if none is finite.
std::optional<std::size_t> best_of(const std::vector<double>& values, bool more_is_better);

}  // namespace gossamer::apps
