// Classification of pictures as a task of `gossamer train`.
#pragma once

#include "gossamer/apps/report/class_results.h"
#include "gossamer/apps/train/picture_step.h"
#include "gossamer/apps/train/task.h"
#include "gossamer/data/cache.h"

namespace gossamer::apps {

class PictureTask : public Task {
 public:
  PictureTask(const Config&, const dist::LaunchInfo&, Device);

  std::string unit() const override { return "images"; }
  const char* rate_name() const override { return "images/s"; }
  double epoch() const override { return static_cast<double>(sets_.train->size()); }
  bool validates() const override { return sets_.val != nullptr; }
  std::string val_hash() const override;
  std::string outputs() const override;
  i64 output_count() const override { return static_cast<i64>(sets_.train->classes().size()); }
  std::string description() const override;
  std::vector<std::string> notes() const override;
  std::vector<std::string> left_out() const override { return sets_.left_out; }
  void add_facts(JsonObject&) const override;
  void check_resume(const ResumePoint&) const override;

  std::unique_ptr<nn::Module> make_model(bool from_start,
                                         std::vector<std::string>& notes) const override;
  std::map<std::string, std::string> model_header() const override;
  void save_model(const std::filesystem::path&, nn::Module&, const FlatParams&,
                  const std::map<std::string, std::string>&) const override;

  void check_loader() const override;
  std::vector<std::string> open_loader() override;
  SampleOrder order() const override { return order_; }
  i64 steps() const override { return loader_->steps(); }
  void seek(const Position&, double progress) override;
  DrawnBatch next(const Position&, double progress) override;
  Tensor loss(nn::Module&, const StepBatch&, const Tensor& numbers) const override;
  void run(nn::Module&, const StepBatch&) const override;
  data::LoaderStats stats() const override { return loader_->stats(); }
  std::vector<std::string> damaged() const override;
  void log_step(JsonObject&) const override;
  void show(EventWriter&, i64 step, const DrawnBatch&) const override;

  std::vector<Counts> evaluate(std::span<nn::Module* const>, const Share&, bool final) override;
  std::vector<double> details() const override;
  void set_details(const std::vector<double>&) override;
  void write_details(const RunFolder&) const override;
  Numbers numbers(const Score&) const override;
  std::string sentence(const Score&) const override;
  std::string result(const Score&) const override;

 private:
  int side(double progress) const;  // of the training images (data.sizes)

  const Config& config_;
  const dist::LaunchInfo place_;
  DataSets sets_;
  std::shared_ptr<data::Cache> cache_;  // of both sets; none if data.cache_gb is 0
  Pictures prepare_;
  std::vector<double> size_milestones_;  // parts of the run
  PictureStep step_;
  std::unique_ptr<data::Loader> loader_;
  SampleOrder order_;
  std::vector<Judgement> judged_;     // by the final evaluation
  std::vector<std::string> damaged_;  // validation images, in the final evaluation
};

}  // namespace gossamer::apps
