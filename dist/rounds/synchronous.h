// What synchronous methods have in common: rounds in which each worker mixes with the neighbours of
// that round, one count of samples for all, deaths, and the end. A method adds the formula of a
// step (step.h). All in the training thread.
//
// A death, or a worker that was late beyond the deadline, costs its neighbours that round: they use
// their own value in its place (after a deadline perhaps on one side only, which moves the mean a
// little). Then all living workers meet in a collective and the rounds begin anew, over those that
// are left: so nobody needs to agree with others on the step in which it heard of the death.
#pragma once

#include <map>
#include <set>
#include <span>

#include "gossamer/dist/edge_statistics.h"
#include "gossamer/dist/finish.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/membership.h"
#include "gossamer/dist/method_context.h"
#include "gossamer/dist/quarantine.h"
#include "gossamer/dist/rounds/controllable.h"
#include "gossamer/dist/rounds/newcomers.h"
#include "gossamer/dist/rounds/outer_model.h"
#include "gossamer/dist/rounds/round_exchange.h"
#include "gossamer/dist/rounds/step.h"
#include "gossamer/dist/run_digest.h"
#include "gossamer/dist/usual_distance.h"

namespace gossamer::dist {

// What a method in rounds adds to its formula.
struct RoundTraffic {
  std::vector<FlatRange> pieces;  // of values(), in the order in which they are exchanged
  // Coded in bf16, too, it sends later what rounding took. (In int8 all methods do.)
  bool keeps_bf16_error = false;
};

// The formula run on one worker's tensors. A method that computes in another way than the whole
// model at once derives from it.
class SynchronousMethod : public Method, public Controllable, protected RoundWorker {
 public:
  // Exchanges all values in one piece.
  SynchronousMethod(const MethodTraits&, const MethodContext&, std::unique_ptr<RoundFormula>);
  SynchronousMethod(const MethodTraits&, const MethodContext&, std::unique_ptr<RoundFormula>,
                    const RoundTraffic&);
  ~SynchronousMethod() override;
  void step(double learning_rate) final {
    begin_step(learning_rate);
    end_step();
  }
  double samples_seen() const final { return samples_; }
  bool done() const final {
    return options_.total_samples > 0 && samples_ >= options_.total_samples;
  }
  void finish() final;
  // nothing changes the state beside the training thread
  void quiesce(const std::function<void()>& f) override { f(); }
  std::vector<NamedTensor> state() override;
  MethodStats stats() const override;
  const char* name() const override { return traits_.name.c_str(); }

  void begin_step(double learning_rate) final;
  void end_step() final;
  double gossip() final;
  void keep_part_of_gossip(double part) final;
  bool average_exactly() final;
  std::optional<std::vector<double>> sum_over_workers(std::vector<double> own) final;
  FlatParams& params() final { return params_; }
  int alive() const final { return static_cast<int>(members_.size()); }
  // Not those that are connected, and were not let in any more.
  std::vector<int> members() const final;
  i64 restarts() const final { return restarts_; }
  const Sharing& sharing() const final { return sharing_; }
  // Of a worker that joins others (MethodOptions::rejoin), once it is made: returns when it takes
  // part. DistError: the others do not let it in.
  void join();

 protected:
  // the step's update, and the mixing that belongs to it
  virtual void local_step();
  void average_gradients() override;
  void update() override;
  void mix() override;
  void mix_ahead() override;
  void mix_alone(Vector v) override;
  // Error: classes of their own do that
  void relay() override;
  void begin_replicas() override;
  void exchange_replicas() override;
  void receive_replicas() override;
  void mix_replicas(double kappa) override;
  void average() override;
  void average_compressed(Vector v, MeanOver) override;  // Error, as above
  void outer_step(const OuterStep&) override;
  void blend(Vector to, double a, double b, Vector from) override;
  double learning_rate() const final { return learning_rate_; }

  Tensor vector(Vector) const;
  virtual void launch_all(const Round&);  // every piece of values()
  // Mixes what is on its way; also at the end, since some others may have done so.
  virtual void mix_pending();
  // keep_part_of_gossip(): what it means for values()
  virtual double part_of_values(double part) { return part; }
  virtual void begin_anew();  // rounds begin at 0 with the living
  // Whether two that exchange may both do without (usual_distance.h). False where what one sends is
  // lost if the other does not take it, or where all must take the same.
  virtual bool may_refuse() const { return true; }
  // Between the models here and there, from a part that came through.
  virtual double squared_distance_of(int slot, const RoundExchange::Part&) const;
  // push-sum: the mean is sum w x / sum w; none: 1 each
  virtual std::optional<double> weight_in_mean() const { return {}; }

  void mix_round();  // one message of a round over all values, waited for
  // Replaces each of these tensors by its mean over all living workers. False if a death came in
  // between. tag: what they are; workers that come for different things begin anew.
  bool average_parts(const std::vector<Tensor>& parts, int tag);
  // Replaces `values` by the mean of what all sent as these codes. False as above.
  bool average_coded(const Coded&, Tensor values, int tag);
  // The same for any code, u8, as long on all workers, that decode() makes values of. finite:
  // whether this worker has one.
  bool average_coded(const Tensor& code, FunctionRef<bool()> finite,
                     FunctionRef<void(const Tensor& code, const Tensor& values)> decode,
                     MeanOver over, Tensor values, int tag);
  // The same by any operations: mean(all, whom it leaves out, where it goes).
  bool average_by(FunctionRef<bool()> finite,
                  FunctionRef<void(Collectives&, const FiniteSum&, const Tensor&)> mean,
                  Tensor values, int tag);
  // of this worker, by real ranks, with the consensus factor; counts messages
  Round next_round() { return round_at(next_++); }
  // Of message k. mirrored: of the tree of the workers in reverse order.
  Round round_at(i64 k, bool mirrored = false) const;
  void set_next_round(i64 k) { next_ = k; }
  i64 rounds_begun() const { return next_; }
  void launch(int slot, const Round&, const Tensor& piece, std::span<const char> note = {},
              const std::function<RoundExchange::Outgoing(int peer)>& each = nullptr);
  bool pending(int slot) const { return exchange_.pending(slot); }
  const RoundExchange::Flight& flight(int slot) const { return exchange_.flight(slot); }
  bool of_now(const RoundExchange::Flight&) const;  // not from before rounds began anew
  static constexpr double kMostSteps = 1e15;        // more no worker says
  void hear_steps(int peer, double steps);
  void note_known();                                    // in sharing()
  double samples_of(std::span<const i64> steps) const;  // of those that share, of so many each
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
  bool alone() const { return members_.size() < 2; }
  i64 steps_before() const;  // resume: steps that were done
  // a resumed run begins with the exchange that its checkpoint was waiting for
  void resume_ahead();
  FlatRange everything() const { return {0, params_.size()}; }

  FlatParams& params_;
  Optimizer& optimizer_;
  Group& group_;
  const MethodOptions options_;
  Membership membership_;
  OuterModel outer_;

 private:
  // The part of packed_ that is x (0), or the formula's sends_beside()[i - 1].
  Tensor packed(std::size_t i) const;
  void mix_packed();
  void unscale_gradient();
  std::size_t usual_place(int slot) const {
    return static_cast<std::size_t>(of_model_ ? slot : slots());
  }
  enum class Purpose { restart = 1, average = 2, sum = 3, finish = 4 };
  // All living workers meet. If they came for the same thing (and tag), `work` is done; if not, or
  // if someone was lost or says that it has stopped, rounds begin anew.
  // patience: as Membership::run(), for the first to come.
  bool meet(Purpose, FunctionRef<void(Collectives&)> work, int tag = 0,
            Seconds patience = Seconds(0));
  bool refuses(int slot, const RoundExchange::Part&) const;
  void count_sum(const Tensor&);  // in bytes_sent
  // Names who was left out. This worker, if it was, forgets what is not finite of its optimizer and
  // codes. Error if the sum was ruined.
  void heed(const FiniteSum&);
  void handle(const Event&);
  void restart_if_needed();
  void say_stopped(bool finishing);
  bool left_out(int peer, i64 round) const;  // not waited for
  void complete_flights();
  void adopt_members();
  void lose(int peer, const std::string& what);
  void tell_all(const Message&);
  void judge_partners();  // of the round that was mixed
  void judge();           // who is broken
  // joining.cpp
  void asked_to_join(int peer, const Message&);
  void hear_admission(int peer, const Message&);
  void admit(const Lives& all);  // who takes part from the next meeting on
  void let_in(Lives newcomers);
  void share_state(Collectives&, int root);
  // What a newcomer is told: the change of sharing() that this meeting is, and MethodOptions::tell.
  void share_note(Collectives&, int root, Sharing::Change&);
  // rounds_ counts ranks or places among the members
  int place_of(int worker) const;
  int rank_at(int place) const;
  std::vector<int> neighbours_of(int worker) const;  // whom it sends to, in any round

  const MethodTraits traits_;
  const std::unique_ptr<RoundFormula> formula_;
  const Graph graph_;
  const std::vector<FlatRange> pieces_;
  const RunDigest digest_;  // of who asks to join, the same is wanted
  const Tensor error_;      // of coding, of all pieces, f32 [1, n]; undefined: there is none
  // the formula's: what they are, and the tensors, f32 [1, n], or as values() if they begin so
  std::vector<OwnVector> own_vectors_;
  std::vector<Tensor> own_;
  Tensor velocity_;  // the optimizer's; undefined if the formula does not use it
  // x and sends_beside(), one after the other, as they travel; undefined if x travels by itself
  const Tensor packed_;
  bool of_model_ = true;       // what is on its way: x; false: another vector alone
  bool changed_copy_ = false;  // x has changed since the compute copy was made
  RoundExchange exchange_;
  std::shared_ptr<const Rounds> rounds_;  // none when alone
  // ascending; by_rank: whether rounds_ counts ranks, not places in here
  std::vector<int> members_;
  bool by_rank_ = false;
  LeftOut left_out_;
  Quarantine quarantine_;
  std::set<int> gone_;  // heard of since the last meeting
  // Who has asked to take part, and when all meet again if some had not heard of it: after longer
  // and longer.
  static constexpr double kFirstTry_s = 1;
  Newcomers newcomers_;
  double next_try_ = 0, until_next_try_ = kFirstTry_s;
  bool has_state_ = true;                             // false: it joins, and was given none yet
  std::map<int, std::uint64_t> came_;                 // by rank: the last arrival that was heard of
  std::set<std::pair<int, std::uint32_t>> admitted_;  // ranks and lives, ever
  // by sender: how many its list has, and what came of it
  std::map<int, std::pair<std::uint32_t, Lives>> told_;
  std::vector<int> training_;  // who came to the last meeting for something else than the end
  // workers that wait for the next meeting, and the first round that each did not begin
  std::map<int, i64> stopped_;
  std::uint32_t epoch_ = 0;
  // next_: the number of the next message. k_: the step that the formula is at; shared_: steps that
  // were begun since who shares them has changed
  i64 next_ = 0, steps_ = 0, k_ = 0, shared_ = 0, restarts_ = 0;
  Sharing sharing_;
  std::vector<double> heard_;  // by rank: steps since rounds began, of which this worker knows
  std::uint32_t epoch_of_step_ = 0;
  double learning_rate_ = 0;
  bool resumed_;
  double samples_, samples_at_change_;
  bool restart_ = false, finished_ = false, in_step_ = false;
  MethodStats stats_;
  EdgeStatistics edges_;
  // of the round being mixed: its slots together
  std::map<int, ExchangeRecord> round_records_;
  // of each slot, and of what mix_alone() sends
  std::vector<UsualDistance> usual_;
  std::vector<double> limits_;
  double squared_distance_ = -1;
  Tensor before_;  // gossip(): x. Only with consensus control
};

}  // namespace gossamer::dist
