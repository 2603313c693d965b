// Faults of one process: when they are due, and what they do.
#include "gossamer/dist/faults/injector.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <ctime>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/core/host_signals.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {

using Kind = Injection::Kind;

std::vector<Injection> those_of(const std::vector<Injection>& all, bool again) {
  std::vector<Injection> mine;
  for (const Injection& i : all)
    if (i.kind != Kind::restart &&
        !(again && (i.kind <= Kind::stop || i.at_s > 0 || i.at_step >= 0)))
      mine.push_back(i);
  return mine;
}

}  // namespace

Injector::Injector(const std::vector<Injection>& all, int rank, Actions actions, bool again)
    : all_(those_of(all, again)),
      rank_(rank),
      actions_(std::move(actions)),
      begins_(all_.size()),
      origin_(INFINITY) {
  for (std::size_t k = 0; k < all_.size(); ++k)
    begins_[k] = all_[k].at_step < 0 ? all_[k].at_s : INFINITY;
}

Injector::~Injector() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (timer_.joinable()) timer_.join();
}

void Injector::start() {
  check<Error>(!timer_.joinable() && origin_ == INFINITY, "Injector: started twice");
  step_began_ = wall_seconds();
  origin_ = step_began_;
  if (actions_.say)
    for (const Injection& i : all_)
      if (i.kind == Kind::attack && i.rank == rank_ && i.at_step < 0) actions_.say(to_text(i));
  const bool timed = std::ranges::any_of(all_, [&](const Injection& i) {
    return i.kind <= Kind::stop && i.rank == rank_ && i.at_step < 0;
  });
  if (timed) timer_ = start_thread([this] { watch(); });
}

double Injector::now() const { return wall_seconds() - origin_; }

void Injector::act(const Injection& i) {
  if (actions_.say) actions_.say(to_text(i));
  if (i.kind == Kind::kill)
    actions_.kill();
  else
    actions_.stop(i.seconds);
}

void Injector::watch() {
  std::vector<const Injection*> due;
  for (const Injection& i : all_)
    if (i.kind <= Kind::stop && i.rank == rank_ && i.at_step < 0) due.push_back(&i);
  std::ranges::stable_sort(due, {}, &Injection::at_s);
  for (const Injection* i : due) {
    {
      std::unique_lock lock(mutex_);
      while (!ending_ && now() < i->at_s)
        changed_.wait_for(lock, Seconds(std::min(i->at_s - now(), 3600.0)));
      if (ending_) return;
    }
    act(*i);
  }
}

void Injector::before_step(i64 step, FunctionRef<bool()> stopping) {
  if (origin_ == INFINITY) return;
  const double worked = wall_seconds() - step_began_;
  double factor = 1;
  for (std::size_t k = 0; k < all_.size(); ++k) {
    const Injection& i = all_[k];
    const bool reached = i.at_step >= 0 && step >= i.at_step && begins_[k] == INFINITY;
    if (reached) begins_[k] = now();
    if (i.rank != rank_) continue;
    if (i.kind == Kind::slow && begins_[k] <= now()) factor *= i.factor;
    if (i.kind <= Kind::stop && reached) act(i);
    if (i.kind == Kind::attack && reached && actions_.say) actions_.say(to_text(i));
  }
  const double until = wall_seconds() + (factor - 1) * worked;
  for (double left; (left = until - wall_seconds()) > 0 && !stopping();)
    std::this_thread::sleep_for(Seconds(std::min(left, .02)));
}

void Injector::after_step() { step_began_ = wall_seconds(); }

bool Injector::running(std::size_t k, double t) const {
  const double begin = begins_[k];
  return t >= begin && (all_[k].kind != Kind::partition || t < begin + all_[k].seconds);
}

bool Injector::cut(int peer) const {
  const double t = now();
  for (std::size_t k = 0; k < all_.size(); ++k)
    if (all_[k].kind == Kind::partition && all_[k].between(rank_, peer) && running(k, t))
      return true;
  return false;
}

double Injector::delay(int peer) const {
  double sum = 0;
  for (std::size_t k = 0; k < all_.size(); ++k)
    if (all_[k].kind == Kind::delay && all_[k].between(rank_, peer) && running(k, now()))
      sum += all_[k].seconds;
  return sum;
}

double Injector::drop(int peer) const {
  double kept = 1;
  for (std::size_t k = 0; k < all_.size(); ++k)
    if (all_[k].kind == Kind::drop && all_[k].between(rank_, peer) && running(k, now()))
      kept *= 1 - all_[k].probability;
  return 1 - kept;
}

double Injector::next_change(double t) const {
  double next = INFINITY;
  for (std::size_t k = 0; k < all_.size(); ++k) {
    if (all_[k].kind != Kind::partition) continue;
    for (const double when : {begins_[k].load(), begins_[k] + all_[k].seconds})
      if (when > t) next = std::min(next, when);
  }
  return next;
}

std::optional<Attack> Injector::lie() const {
  for (std::size_t k = 0; k < all_.size(); ++k)
    if (all_[k].lies() && all_[k].rank == rank_ && running(k, now())) return all_[k].how;
  return std::nullopt;
}

bool Injector::disturbs_links() const {
  return std::ranges::any_of(all_, [](const Injection& i) { return !i.of_worker() || i.lies(); });
}

Injector::Actions process_actions(std::function<void(const std::string&)> say) {
  const auto stop = [](double seconds) {
    const pid_t self = getpid();
    const pid_t helper = fork();
    check<Error>(helper >= 0, "inject: cannot start the process that would end a stop");
    if (helper == 0) {
      // Only calls that are safe after a fork of a process with threads. No connection may stay
      // open through this copy of it.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (int fd = 3; fd < 1024; ++fd) close(fd);
      // not by itself: the end of a very short stop could come before its beginning
      kill(self, SIGSTOP);
      timespec left{static_cast<time_t>(seconds),
                    static_cast<long>((seconds - std::floor(seconds)) * 1e9)};
      while (nanosleep(&left, &left) != 0 && errno == EINTR) {
      }
      kill(self, SIGCONT);
      _exit(0);
    }
    waitpid(helper, nullptr, 0);
  };
  return {[] { kill(getpid(), SIGKILL); }, stop, std::move(say)};
}

}  // namespace gossamer::dist
