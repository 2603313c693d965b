// Decentralized trainings that stop and go on: from their states everything is as if they had not
// stopped, bit for bit where workers step together.
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/calls.h"

namespace gossamer {
namespace {

using testing::HasSubstr;

std::string text_of(gsm_bytes* bytes) {
  const void* data = nullptr;
  std::size_t size = 0;
  EXPECT_EQ(gsm_bytes_data(bytes, &data, &size), GSM_OK) << gsm_last_error();
  const std::string copy(static_cast<const char*>(data), size);
  EXPECT_EQ(gsm_bytes_free(bytes), GSM_OK);
  return copy;
}

gsm_gossip_options options_for(const char* settings = nullptr) {
  gsm_gossip_options options{};
  options.struct_size = sizeof options;
  options.settings = settings;
  return options;
}

// The same function in a thread for each worker.
void on_workers(int n, const std::function<void(int rank, gsm_group*)>& work) {
  std::vector<gsm_group*> groups(static_cast<std::size_t>(n));
  ASSERT_EQ(gsm_group_local(n, groups.data()), GSM_OK);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] { work(rank, groups[static_cast<std::size_t>(rank)]); });
  for (std::thread& each : threads) each.join();
  for (gsm_group* each : groups) EXPECT_EQ(gsm_group_free(each), GSM_OK);
}

struct Case {
  const char* method;
  const char* settings;
  int workers;
  int stop;  // after so many of 12 steps
};
constexpr int kSteps = 12;
// a2cid2 alone, for its exchanges happen at other times in every run.
constexpr Case kCases[] = {{"allreduce", nullptr, 3, 5},
                           {"diloco", "period=4 outer_rate=0.5", 3, 6},
                           {"diloco", "period=4 fragments=2 outer_delay=2", 2, 7},
                           {"dpsgd", nullptr, 3, 5},
                           {"sgp", nullptr, 3, 5},
                           {"local-sgd", "period=3", 2, 4},
                           {"a2cid2", nullptr, 1, 5}};

// --- a trainer

gsm_trainer* new_trainer() {
  gsm_trainer_options options{};
  options.struct_size = sizeof options;
  options.seed = 3;
  options.ema = .9;
  gsm_trainer* trainer = nullptr;
  EXPECT_EQ(gsm_trainer_new("resnet8-cifar", 2, &options, &trainer), GSM_OK) << gsm_last_error();
  return trainer;
}

void step(gsm_trainer* trainer, gsm_method* method, int worker, int number) {
  std::vector<uint8_t> pixels(4 * 192);
  const int32_t labels[] = {0, 1, 0, 1};
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<uint8_t>(60 + 100 * ((i / 192) % 2) + (i * 7 + worker + number) % 23);
  float loss = 0;
  ASSERT_EQ(gsm_trainer_gradient(trainer, pixels.data(), labels, 4, 8, 8, &loss), GSM_OK)
      << gsm_last_error();
  ASSERT_EQ(gsm_method_step(method, .05), GSM_OK) << gsm_last_error();
}

std::string state_of(gsm_trainer* trainer) {
  gsm_bytes* bytes = nullptr;
  EXPECT_EQ(gsm_trainer_state_memory(trainer, &bytes), GSM_OK) << gsm_last_error();
  return bytes ? text_of(bytes) : "";
}

gsm_method* method_for(gsm_trainer* trainer, gsm_group* group, const Case& c, bool resume) {
  gsm_gossip_options options = options_for(c.settings);
  options.resume = resume;
  gsm_method* method = nullptr;
  EXPECT_EQ(gsm_method_new(trainer, group, c.method, "ring", &options, &method), GSM_OK)
      << c.method << ": " << gsm_last_error();
  return method;
}

TEST(Resume, ATrainerOfEveryKindOfMethodGoesOnBitForBit) {
  for (const Case& c : kCases) {
    std::vector<std::string> middle(static_cast<std::size_t>(c.workers)), whole = middle,
                                                                          resumed = middle;
    on_workers(c.workers, [&](int rank, gsm_group* group) {
      gsm_trainer* const trainer = new_trainer();
      gsm_method* const method = method_for(trainer, group, c, false);
      for (int k = 0; k < kSteps; ++k) {
        if (k == c.stop) middle[static_cast<std::size_t>(rank)] = state_of(trainer);
        step(trainer, method, rank, k);
      }
      whole[static_cast<std::size_t>(rank)] = state_of(trainer);
      EXPECT_EQ(gsm_method_finish(method), GSM_OK) << gsm_last_error();
      EXPECT_EQ(gsm_method_free(method), GSM_OK);
      EXPECT_EQ(gsm_trainer_free(trainer), GSM_OK);
    });
    on_workers(c.workers, [&](int rank, gsm_group* group) {
      gsm_trainer* const trainer = new_trainer();
      const std::string& state = middle[static_cast<std::size_t>(rank)];
      EXPECT_EQ(gsm_trainer_state_restore(trainer, state.data(), state.size()), GSM_OK)
          << gsm_last_error();
      gsm_method* const method = method_for(trainer, group, c, true);
      // nothing is lost by saving again at once
      EXPECT_EQ(state_of(trainer), state) << c.method;
      for (int k = c.stop; k < kSteps; ++k) step(trainer, method, rank, k);
      resumed[static_cast<std::size_t>(rank)] = state_of(trainer);
      EXPECT_EQ(gsm_method_finish(method), GSM_OK) << gsm_last_error();
      EXPECT_EQ(gsm_method_free(method), GSM_OK);
      EXPECT_EQ(gsm_trainer_free(trainer), GSM_OK);
    });
    for (std::size_t rank = 0; rank < whole.size(); ++rank) {
      EXPECT_FALSE(whole[rank].empty());
      EXPECT_EQ(whole[rank], resumed[rank]) << c.method << ", worker " << rank;
    }
  }
}

// Where it has not drifted to the model: a twin that is lost would be a copy of it.
TEST(Resume, TheTwinIsKept) {
  constexpr int kWorkers = 3;
  std::vector<std::string> middle(kWorkers), again(kWorkers);
  const Case c{"a2cid2", nullptr, kWorkers, 0};
  on_workers(kWorkers, [&](int rank, gsm_group* group) {
    gsm_trainer* const trainer = new_trainer();
    gsm_method* const method = method_for(trainer, group, c, false);
    gsm_gossip_stats_t stats{};
    stats.struct_size = sizeof stats;
    for (int k = 0; k < 20 || stats.exchanges < 2; ++k) {
      step(trainer, method, rank, k);
      ASSERT_EQ(gsm_method_stats(method, &stats), GSM_OK);
    }
    middle[static_cast<std::size_t>(rank)] = state_of(trainer);
    EXPECT_EQ(gsm_method_finish(method), GSM_OK) << gsm_last_error();
    EXPECT_EQ(gsm_method_free(method), GSM_OK);
    EXPECT_EQ(gsm_trainer_free(trainer), GSM_OK);
  });
  on_workers(kWorkers, [&](int rank, gsm_group* group) {
    gsm_trainer* const trainer = new_trainer();
    const std::string& state = middle[static_cast<std::size_t>(rank)];
    EXPECT_EQ(gsm_trainer_state_restore(trainer, state.data(), state.size()), GSM_OK);
    gsm_method* const method = method_for(trainer, group, c, true);
    again[static_cast<std::size_t>(rank)] = state_of(trainer);
    EXPECT_EQ(gsm_method_finish(method), GSM_OK) << gsm_last_error();
    EXPECT_EQ(gsm_method_free(method), GSM_OK);
    EXPECT_EQ(gsm_trainer_free(trainer), GSM_OK);
  });
  // The tensors, which stand behind the header: only the number of samples is another one, the mean
  // of the workers' estimates.
  const auto tensors = [](const std::string& file) {
    uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof header);
    return file.substr(sizeof header + header);
  };
  for (std::size_t rank = 0; rank < kWorkers; ++rank)
    EXPECT_EQ(tensors(again[rank]), tensors(middle[rank])) << rank;
}

// --- own networks

TEST(Resume, OwnNetworksGoOnBitForBit) {
  constexpr const char* kLayers = "linear in=3 out=8; tanh; dropout p=0.3; linear in=8 out=1";
  struct Own {
    Own() {
      EXPECT_EQ(gsm_module_new(kLayers, 5, &net), GSM_OK);
      EXPECT_EQ(gsm_params_new(&params), GSM_OK);
      EXPECT_EQ(gsm_params_add_module(params, nullptr, net), GSM_OK);
      EXPECT_EQ(gsm_optimizer_new(params, "adamw", nullptr, &adam), GSM_OK) << gsm_last_error();
    }
    ~Own() {
      EXPECT_EQ(gsm_optimizer_free(adam), GSM_OK);
      EXPECT_EQ(gsm_params_free(params), GSM_OK);
      EXPECT_EQ(gsm_module_free(net), GSM_OK);
    }
    void gradient(int worker, int number) const {
      const Scope scope;
      gsm_tensor* const y = op(gsm_module_forward, net,
                               normal({4, 3}, static_cast<uint64_t>(100 * worker + number)), 1);
      EXPECT_EQ(gsm_params_zero_grad(params), GSM_OK);
      EXPECT_EQ(gsm_backward(op(gsm_mean, op(gsm_square, y))), GSM_OK) << gsm_last_error();
    }
    std::string state() const {
      gsm_bytes* bytes = nullptr;
      EXPECT_EQ(gsm_optimizer_state_memory(adam, &bytes), GSM_OK) << gsm_last_error();
      return bytes ? text_of(bytes) : "";
    }
    gsm_module* net = nullptr;
    gsm_params* params = nullptr;
    gsm_optimizer* adam = nullptr;
  };
  const Own alone, other;
  for (int k = 0; k < 3; ++k) {
    alone.gradient(0, k);
    MUST(gsm_optimizer_step(alone.adam, .01));
  }
  const std::string state = alone.state();
  MUST(gsm_optimizer_state_restore(other.adam, state.data(), state.size()));
  for (const Own* each : {&alone, &other})
    for (int k = 3; k < 6; ++k) {
      each->gradient(0, k);
      MUST(gsm_optimizer_step(each->adam, .01));
    }
  EXPECT_EQ(alone.state(), other.state());

  for (const Case& c : kCases) {
    std::vector<std::string> middle(static_cast<std::size_t>(c.workers)), whole = middle,
                                                                          resumed = middle;
    for (const bool resume : {false, true})
      on_workers(c.workers, [&](int worker, gsm_group* group) {
        const auto rank = static_cast<std::size_t>(worker);
        const Own own;
        if (resume) {
          EXPECT_EQ(gsm_optimizer_state_restore(own.adam, middle[rank].data(), middle[rank].size()),
                    GSM_OK)
              << gsm_last_error();
        }
        gsm_gossip_options options = options_for(c.settings);
        options.resume = resume;
        gsm_method* method = nullptr;
        ASSERT_EQ(gsm_method_new_for(own.adam, group, c.method, "ring", &options, &method), GSM_OK)
            << c.method << ": " << gsm_last_error();
        for (int k = resume ? c.stop : 0; k < kSteps; ++k) {
          if (k == c.stop && !resume) middle[rank] = own.state();
          own.gradient(worker, k);
          ASSERT_EQ(gsm_method_step(method, .01), GSM_OK) << gsm_last_error();
        }
        (resume ? resumed : whole)[rank] = own.state();
        EXPECT_EQ(gsm_method_finish(method), GSM_OK) << gsm_last_error();
        EXPECT_EQ(gsm_method_free(method), GSM_OK);
      });
    EXPECT_EQ(whole, resumed) << c.method;
  }
}

// --- parameters of anybody's

TEST(Resume, AnybodysParametersGoOnBitForBit) {
  for (const Case& c : kCases) {
    std::vector<std::string> middle(static_cast<std::size_t>(c.workers));
    std::vector<std::vector<float>> whole(middle.size()), resumed = whole;
    for (const bool resume : {false, true})
      on_workers(c.workers, [&](int worker, gsm_group* group) {
        const auto rank = static_cast<std::size_t>(worker);
        std::vector<float> x(37, resume ? 1000.F : static_cast<float>(worker)), update(x.size());
        gsm_gossip_options options = options_for(c.settings);
        if (resume) {
          options.state = middle[rank].data();
          options.state_size = middle[rank].size();
        }
        gsm_gossip* gossip = nullptr;
        ASSERT_EQ(gsm_gossip_new(group, x.data(), static_cast<int64_t>(x.size()), c.method, "ring",
                                 &options, &gossip),
                  GSM_OK)
            << c.method << ": " << gsm_last_error();
        for (int k = resume ? c.stop : 0; k < kSteps; ++k) {
          if (k == c.stop && !resume) {
            gsm_bytes* bytes = nullptr;
            ASSERT_EQ(gsm_gossip_state_memory(gossip, &bytes), GSM_OK) << gsm_last_error();
            middle[rank] = text_of(bytes);
          }
          for (std::size_t i = 0; i < x.size(); ++i)
            update[i] = .1F * (x[i] - static_cast<float>(worker + k) / 7);
          ASSERT_EQ(gsm_gossip_step(gossip, update.data()), GSM_OK) << gsm_last_error();
        }
        (resume ? resumed : whole)[rank] = x;
        EXPECT_EQ(gsm_gossip_finish(gossip), GSM_OK) << gsm_last_error();
        EXPECT_EQ(gsm_gossip_free(gossip), GSM_OK);
      });
    EXPECT_EQ(whole, resumed) << c.method;
  }
}

// --- what does not fit

TEST(Resume, AStateOfAnotherTrainingIsRefusedBeforeAnythingIsSent) {
  gsm_group* group = nullptr;
  MUST(gsm_group_local(1, &group));
  gsm_trainer* const trainer = new_trainer();
  const Case a2cid2{"a2cid2", nullptr, 1, 0};
  gsm_gossip_options options = options_for();
  options.resume = 1;
  gsm_method* method = nullptr;
  const auto refused = [&](const char* name, const char* why) {
    EXPECT_EQ(gsm_method_new(trainer, group, name, "ring", &options, &method), GSM_ERROR_CONFIG);
    EXPECT_THAT(gsm_last_error(), HasSubstr(why));
  };
  refused("a2cid2", "no method's state");
  method = method_for(trainer, group, a2cid2, false);
  step(trainer, method, 0, 0);
  const std::string state = state_of(trainer);
  MUST(gsm_method_finish(method));
  MUST(gsm_method_free(method));
  MUST(gsm_group_free(group));
  MUST(gsm_group_local(1, &group));
  refused("a2cid2", "no method's state");  // it has trained since
  MUST(gsm_trainer_state_restore(trainer, state.data(), state.size()));
  refused("allreduce", "the state is of a2cid2, not allreduce");
  options.state = state.data();
  options.state_size = state.size();
  refused("a2cid2", "is for gsm_gossip_new");
  options.state = nullptr;
  gsm_group* two[2];
  MUST(gsm_group_local(2, two));
  EXPECT_EQ(gsm_method_new(trainer, two[1], "a2cid2", "ring", &options, &method), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("of worker 0 of 1, and this is worker 1 of 2"));
  for (gsm_group* each : two) MUST(gsm_group_free(each));
  MUST(gsm_method_new(trainer, group, "a2cid2", "ring", &options, &method));
  MUST(gsm_method_free(method));
  MUST(gsm_group_free(group));
  MUST(gsm_trainer_free(trainer));

  MUST(gsm_group_local(1, &group));
  float x[2] = {1, 2};
  gsm_gossip* gossip = nullptr;
  EXPECT_EQ(gsm_gossip_new(group, x, 2, "a2cid2", "ring", &options, &gossip), GSM_ERROR_CONFIG);
  options.resume = 0;
  options.state = state.data();
  EXPECT_EQ(gsm_gossip_new(group, x, 2, "a2cid2", "ring", &options, &gossip), GSM_ERROR_FILE);
  EXPECT_THAT(gsm_last_error(), HasSubstr("has no \"x\""));
  options.state = "no state";
  options.state_size = 8;
  EXPECT_EQ(gsm_gossip_new(group, x, 2, "a2cid2", "ring", &options, &gossip), GSM_ERROR_FILE);
  EXPECT_EQ(x[1], 2);
  MUST(gsm_group_free(group));
}

TEST(Resume, WorkersThatStoppedAfterDifferentStepsLearnIt) {
  std::vector<std::string> middle(2);
  const Case c{"allreduce", nullptr, 2, 0};
  on_workers(2, [&](int rank, gsm_group* group) {
    gsm_trainer* const trainer = new_trainer();
    gsm_method* const method = method_for(trainer, group, c, false);
    for (int k = 0; k < 4; ++k) {
      if (k == 2 + rank) middle[static_cast<std::size_t>(rank)] = state_of(trainer);
      step(trainer, method, rank, k);
    }
    EXPECT_EQ(gsm_method_finish(method), GSM_OK) << gsm_last_error();
    EXPECT_EQ(gsm_method_free(method), GSM_OK);
    EXPECT_EQ(gsm_trainer_free(trainer), GSM_OK);
  });
  on_workers(2, [&](int rank, gsm_group* group) {
    gsm_trainer* const trainer = new_trainer();
    const std::string& state = middle[static_cast<std::size_t>(rank)];
    EXPECT_EQ(gsm_trainer_state_restore(trainer, state.data(), state.size()), GSM_OK);
    gsm_gossip_options options = options_for();
    options.resume = 1;
    gsm_method* method = nullptr;
    EXPECT_EQ(gsm_method_new(trainer, group, c.method, "ring", &options, &method),
              GSM_ERROR_WORKERS);
    EXPECT_THAT(gsm_last_error(), HasSubstr("start_samples: 4 and 6"));
    EXPECT_EQ(gsm_trainer_free(trainer), GSM_OK);
  });
}

}  // namespace
}  // namespace gossamer
