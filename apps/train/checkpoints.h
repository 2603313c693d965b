// The checkpoints that a worker writes: their names, and how they are written beside the training.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "gossamer/apps/train/background_job.h"
#include "gossamer/apps/train/journal.h"
#include "gossamer/apps/train/plan.h"
#include "gossamer/apps/train/trainer.h"

namespace gossamer::apps {

struct CheckpointCopy;

// Names are those of all workers, and never come twice in a run, so that no checkpoint overwrites
// another: "samples-000000014400", and of the legs that were stopped "interrupted",
// "interrupted-2" …
std::string checkpoint_label(double samples);
std::string interrupted_label(double legs_before);

class Checkpoints {
 public:
  Checkpoints(const Plan& plan, Journal& journal, Trainer& trainer)
      : plan_(plan), journal_(journal), trainer_(trainer) {}
  // Whether one is still being written. Another save() would wait for it.
  bool busy() const { return job_.busy(); }
  bool ends_within(std::chrono::duration<double> longest) const {
    return job_.ends_within(longest);
  }
  // Copies the state between two events, and writes it while training goes on. If it cannot be
  // written, poll() or wait() warns, once until one can be again, and the end of the run says it.
  void save(const std::string& label);
  void poll();  // after each step
  void wait();  // for what is being written
  // The last one: keep() copies the state, write_kept() writes it when the results of the run are
  // safe, so that on a full disk they win. Then what goes wrong is a warning.
  void keep(const std::string& label);
  void write_kept();
  // The checkpoint of a run that is stopped or fails: of the state that keep() copied, if it did.
  // It is written before this returns, elsewhere if the run's folder cannot take it. Returns the
  // folder to resume from. IoError. Error: values that are not finite.
  std::filesystem::path save_interrupted();
  i64 failed() const { return failed_; }
  const std::string& last_failure() const { return last_failure_; }  // its name and why
  const std::string& last_label() const { return label_; }           // of save()

 private:
  std::shared_ptr<const CheckpointCopy> copy() const;
  const Plan& plan_;
  Journal& journal_;
  Trainer& trainer_;
  std::string label_, last_failure_;
  std::shared_ptr<const CheckpointCopy> kept_;
  i64 failed_ = 0;
  bool failing_ = false;  // the last one was not written
  BackgroundJob job_;
};

}  // namespace gossamer::apps
