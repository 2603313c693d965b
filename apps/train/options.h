// What a run's configuration means for the libraries: schedule, optimizer, method, threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/method.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/optim.h"
#include "gossamer/nn/schedule.h"

namespace gossamer::apps {

// What the keys model.layers … say. The caller sets classes and positions, which depend on the
// data.
models::ModelOptions model_options(const Config&);
// The learning rate that an optim.learning_rate means for so many workers (optim.scaling).
double scaled_rate(const Config&, int workers, double rate);
// epoch: samples of the training set.
RunUnits run_units(const Config&, int workers, double epoch);
// The samples of a run (train.epochs).
double run_samples(const Config&, int workers, double epoch);
// An amount as a fraction of the run.
double part_of_run(const Amount&, const Config&, int workers, double epoch);
// Parts of the run, 0 to 1, without those that begin after its end.
std::vector<double> parts_of_run(const std::vector<Amount>&, const Config&, int workers,
                                 double epoch);
// The warm-up lasts half the run at most; a longer one has a line in notes.
nn::Schedule run_schedule(const Config&, int workers, double epoch,
                          std::vector<std::string>& notes);
std::vector<nn::RateFactor> rate_factors(const Config&);  // optim.factors; ConfigError
std::unique_ptr<Optimizer> run_optimizer(const Config&, FlatParams&, int workers);
// per_machine: workers of this machine. What depends on the run (samples, callbacks) is left to the
// caller.
dist::MethodOptions method_options(const Config&, int per_machine, int workers, double epoch);

// The keys with which a run takes less memory, for messages.
std::string less_memory(const Config&);

// Threads of each of the workers on this machine.
int compute_threads_for(const Config&, int workers_here);
int data_threads_for(const Config&, int workers_here);

}  // namespace gossamer::apps
