// What synchronous methods have in common: rounds in which each worker mixes with the neighbours of
// that round, one count of samples for all, deaths, and the end. A method adds what it does in a
// step. All in the training thread.
//
// A death, or a worker that was late beyond the deadline, costs its neighbours that round: they use
// their own value in its place (after a deadline perhaps on one side only, which moves the mean a
// little). Then all living workers meet in a collective and the rounds begin anew, over those that
// are left: so nobody needs to agree with others on the step in which it heard of the death.
#pragma once

#include <map>
#include <set>
#include <span>

#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/membership.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/rounds/round_exchange.h"
#include "gossamer/dist/usual_distance.h"

namespace gossamer::dist {

class SynchronousMethod : public Method {
 public:
  ~SynchronousMethod() override;
  void step(double learning_rate) final;
  double samples_seen() const final { return samples_; }
  bool done() const final {
    return options_.total_samples > 0 && samples_ >= options_.total_samples;
  }
  void finish() final;
  // nothing changes the state beside the training thread
  void quiesce(const std::function<void()>& f) override { f(); }
  std::vector<NamedTensor> state() override;
  MethodStats stats() const override;
  const char* name() const override { return name_.c_str(); }

  // --- for consensus control: more averaging after the local update of a step, before what is
  // exchanged beside the next one. restarted: rounds began anew; some workers may be a step further
  // than others.
  void after_update(std::function<void(double learning_rate)> f, std::function<void()> restarted) {
    after_update_ = std::move(f);
    restarted_ = std::move(restarted);
  }
  // One more round, waited for. Returns |x' - x|^2 of this worker.
  double gossip();
  // Of the round of the last gossip(), if nothing came after it: x <- x + part (x' - x). All
  // workers take the same part, 0 to 1: then sums over workers stay what they are.
  void keep_part_of_gossip(double part);
  // Replaces values() by their mean over all living workers, each with its weight_in_mean(): so the
  // mean stays what it was, and the weights stay too. False if a death came in between (then it did
  // not happen).
  bool average_exactly();
  // Replaces each of these tensors by its mean over all living workers. False as above. tag: what
  // they are; workers that come for different things begin anew.
  bool average_parts(const std::vector<Tensor>& parts, int tag);
  // Replaces `values` by the mean of what all sent as these codes. False as above.
  bool average_coded(const Coded&, Tensor values, int tag);
  // Sums over the living workers; nothing if a death came in between.
  std::optional<std::vector<double>> sum_over_workers(std::vector<double> own);
  FlatParams& params() { return params_; }
  int alive() const { return static_cast<int>(members_.size()); }
  const MethodOptions& options() const { return options_; }

 protected:
  // pieces: of values(), in the order in which they are exchanged; each has its own slot. directed:
  // can do with directed rounds. feedback: bf16 has it too.
  SynchronousMethod(std::string name, FlatParams&, Optimizer&, Group&, const Graph&,
                    const MethodOptions&, std::vector<FlatRange> pieces, bool directed,
                    bool feedback = false);

  // the step's update, and the mixing that belongs to it
  virtual void update(double learning_rate) = 0;
  virtual void launch_ahead() {}  // begins what runs beside the next step
  virtual void mix_round();       // one round over all values, waited for
  // keep_part_of_gossip(): what it means for values()
  virtual double part_of_values(double part) { return part; }
  // the end: mixes what is still on its way, since some others may have done so
  virtual void mix_pending();
  virtual void begin_anew() {}  // rounds begin at 0 with the living
  // Whether two that exchange may both do without (usual_distance.h). False where what one sends is
  // lost if the other does not take it, or where all must take the same.
  virtual bool may_refuse() const { return true; }
  // push-sum: the mean is sum w x / sum w; none: 1 each
  virtual std::optional<double> weight_in_mean() const { return {}; }

  // of this worker, by real ranks, with the consensus factor; counts rounds
  Round next_round();
  void set_next_round(i64 k) { next_ = k; }
  i64 rounds_begun() const { return next_; }
  void launch(int slot, const Round&, const Tensor& piece, std::span<const char> note = {});
  void launch_all(const Round&);  // every piece of values()
  bool pending(int slot) const { return exchange_.pending(slot); }
  const RoundExchange::Flight& flight(int slot) const { return exchange_.flight(slot); }
  int slots() const { return static_cast<int>(pieces_.size()); }
  FlatRange piece(int slot) const { return pieces_[static_cast<std::size_t>(slot)]; }
  Tensor values_of(int slot) const {
    return params_.values().slice(piece(slot).begin, piece(slot).end);
  }
  // Waits for the slot and mixes its piece of values() with what arrived; a missing value is
  // replaced by one's own.
  void mix(int slot) { mix(slot, values_of(slot)); }
  void mix(int slot, Tensor piece);  // instead of values()
  // Waits; calls use(part) for each part that came through, and lost(part) for the others; keeps
  // the statistics. Returns the own weight.
  double arrivals(int slot, const std::function<void(const RoundExchange::Part&)>& use,
                  const std::function<void(const RoundExchange::Part&)>& lost);
  Coded* codes(int slot) {  // none: values travel as they are
    return exchange_.codes().empty() ? nullptr : &exchange_.codes()[static_cast<std::size_t>(slot)];
  }
  bool controlled() const { return static_cast<bool>(after_update_); }
  bool alone() const { return members_.size() < 2; }
  i64 steps_before() const;  // resume: steps that were done

  FlatParams& params_;
  Optimizer& optimizer_;
  Group& group_;
  const MethodOptions options_;
  Membership membership_;

 private:
  enum class Purpose { restart = 1, average = 2, sum = 3, finish = 4 };
  // All living workers meet. If they came for the same thing (and tag), `work` is done; if not, or
  // if someone was lost, rounds begin anew.
  // patience: as Membership::run(), for the first to come.
  bool meet(Purpose, FunctionRef<void(Collectives&)> work, int tag = 0,
            Seconds patience = Seconds(0));
  bool refuses(int slot, const RoundExchange::Part&) const;
  void count_sum(const Tensor&);                        // in bytes_sent
  void check_average(const std::string& ruined) const;  // Error with not_finite()'s sentence
  void handle(const Event&);
  void restart_if_needed();
  void say_stopped(bool finishing);
  bool left_out(int peer, i64 round) const;  // not waited for
  void complete_flights();
  void adopt_members();
  void lose(int peer, const std::string& what);

  const std::string name_;
  const Graph graph_;
  const bool directed_;
  const std::vector<FlatRange> pieces_;
  const Tensor error_;  // of coding, of all pieces, f32 [1, n]; undefined: there is none
  RoundExchange exchange_;
  std::shared_ptr<const Rounds> rounds_;  // none when alone
  // ascending; by_rank: whether rounds_ counts ranks, not places in here
  std::vector<int> members_;
  bool by_rank_ = false;
  std::set<int> gone_;         // heard of since the last meeting
  std::vector<int> training_;  // who came to the last meeting for something else than the end
  // workers that wait for the next meeting, and the first round that each did not begin
  std::map<int, i64> stopped_;
  std::uint32_t epoch_ = 0;
  i64 next_ = 0, steps_ = 0;
  double samples_;
  bool restart_ = false, finished_ = false;
  std::function<void(double)> after_update_;
  std::function<void()> restarted_;
  MethodStats stats_;
  EdgeStatistics edges_;
  // of the round being mixed: its slots together
  std::map<int, ExchangeRecord> round_records_;
  // of each slot
  std::vector<UsualDistance> usual_;
  std::vector<double> limits_;
  double squared_distance_ = -1;
  Tensor before_;  // gossip(): x. Only with consensus control
};

}  // namespace gossamer::dist
