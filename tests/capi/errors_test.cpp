// What is refused, in words that name what a C caller has; and what goes on after it.
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/bitmap.h"
#include "capi/calls.h"
#include "gossamer/apps/capi/dlpack.h"
#include "gossamer/apps/capi/gossamer.h"
#include "support/temp_folder.h"

namespace gossamer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
T sized() {
  T options{};
  options.struct_size = sizeof options;
  return options;
}

class CErrors : public InTempFolder {
 protected:
  gsm_trainer* trainer(const char* optimizer = "sgd", uint64_t seed = 3) {
    auto options = sized<gsm_trainer_options>();
    options.optimizer = optimizer;
    options.seed = seed;
    gsm_trainer* made = nullptr;
    EXPECT_EQ(gsm_trainer_new("resnet8-cifar", 2, &options, &made), GSM_OK) << gsm_last_error();
    return made;
  }
  // the loss before a step
  float step(gsm_trainer* t) {
    std::vector<uint8_t> pixels(4 * 192);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i % 251);
    const int32_t labels[4] = {0, 1, 1, 0};
    float loss = -1;
    EXPECT_EQ(gsm_trainer_gradient(t, pixels.data(), labels, 4, 8, 8, &loss), GSM_OK);
    EXPECT_EQ(gsm_trainer_step(t, .05), GSM_OK) << gsm_last_error();
    return loss;
  }
  float x_[192] = {}, y_[2] = {};
};

TEST_F(CErrors, AClassWithoutANameIsNotSaved) {
  gsm_trainer* t = trainer();
  const std::string path = file("m.safetensors").string();
  for (int empty = 0; empty < 2; ++empty) {
    const char* names[] = {"cat", "dog"};
    names[empty] = "";
    REFUSED(gsm_trainer_save(t, path.c_str(), names), GSM_ERROR_ARGUMENT,
            HasSubstr("the name of class " + std::to_string(empty) + " is empty"));
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  MUST(gsm_trainer_free(t));
}

TEST_F(CErrors, AnEmptyPathIsSaidToBeEmpty) {
  gsm_trainer* t = trainer();
  gsm_model* model = nullptr;
  gsm_dataset* set = nullptr;
  const char* paths[] = {""};
  for (const gsm_status status : {gsm_trainer_save(t, "", nullptr), gsm_trainer_load(t, ""),
                                  gsm_model_open("", &model), gsm_dataset_open(paths, 1, &set)})
    REFUSED(status, GSM_ERROR_ARGUMENT, HasSubstr("the path is empty"));
  MUST(gsm_trainer_free(t));
}

TEST_F(CErrors, LimitsAreNamed) {
  gsm_trainer* t = trainer();
  REFUSED(gsm_trainer_step(t, 1e38), GSM_ERROR_ARGUMENT, HasSubstr("is 1e+38"),
          HasSubstr("below 1e30"));
  MUST(gsm_trainer_free(t));
  gsm_group* group = nullptr;
  MUST(gsm_group_local(1, &group));
  gsm_gossip* gossip = nullptr;
  REFUSED(gsm_gossip_new(group, x_, int64_t{1} << 60, "a2cid2", "ring", nullptr, &gossip),
          GSM_ERROR_ARGUMENT, HasSubstr("wanted 1 to 1099511627775"));
  MUST(gsm_group_free(group));
  gsm_dataset* set = nullptr;
  const char* paths[] = {"x"};
  REFUSED(gsm_dataset_open(paths, 1 << 21, &set), GSM_ERROR_ARGUMENT,
          HasSubstr("2097152 paths; wanted 1 to 1048576"));
  gsm_tensor* tensor = nullptr;
  for (const int64_t size : {int64_t{0}, int64_t{1} << 40})
    REFUSED(gsm_tensor_from_blob(x_, GSM_F32, &size, 1, nullptr, nullptr, &tensor),
            GSM_ERROR_ARGUMENT, HasSubstr("dimension 0 is " + std::to_string(size)),
            HasSubstr("at least 1, and their product below 2^40"));
}

TEST_F(CErrors, NumbersThatAreNotFiniteAreRefused) {
  for (const double bad : {kInfinity, -kInfinity, 1e300, double(NAN)}) {
    auto options = sized<gsm_trainer_options>();
    options.weight_decay = bad;
    gsm_trainer* t = nullptr;
    REFUSED(gsm_trainer_new("resnet8-cifar", 2, &options, &t), GSM_ERROR_ARGUMENT,
            HasSubstr("gsm_trainer_options.weight_decay is "), HasSubstr("below 1e30"));
    if (std::isfinite(bad)) continue;
    options.weight_decay = 0;
    options.momentum = bad;
    REFUSED(gsm_trainer_new("resnet8-cifar", 2, &options, &t), GSM_ERROR_ARGUMENT,
            HasSubstr("gsm_trainer_options.momentum is "));
  }
  for (double gsm_join_options::*const number :
       {&gsm_join_options::join_timeout_s, &gsm_join_options::collective_timeout_s,
        &gsm_join_options::dead_after_s}) {
    auto options = sized<gsm_join_options>();
    options.*number = kInfinity;
    gsm_group* group = nullptr;
    REFUSED(gsm_group_join_with(&options, &group), GSM_ERROR_ARGUMENT,
            HasSubstr("at most 1e9 seconds"));
  }
}

// As it would be with other options before the first one: the group is not used up.
TEST_F(CErrors, ARefusedTrainingMayBeBegunAgain) {
  const auto begin = [&](gsm_group* group, const char* method, auto set) {
    auto options = sized<gsm_gossip_options>();
    set(options);
    gsm_gossip* gossip = nullptr;
    const gsm_status status = gsm_gossip_new(group, x_, 4, method, "ring", &options, &gossip);
    if (gossip) {
      EXPECT_EQ(gsm_gossip_free(gossip), GSM_OK);
    }
    return status;
  };
  for (const int workers : {1, 2}) {
    std::vector<gsm_group*> groups(static_cast<std::size_t>(workers));
    MUST(gsm_group_local(workers, groups.data()));
    for (double gsm_gossip_options::*const number :
         {&gsm_gossip_options::total_steps, &gsm_gossip_options::rate,
          &gsm_gossip_options::exchange_timeout_s, &gsm_gossip_options::finish_timeout_s})
      REFUSED(begin(groups[0], "a2cid2", [=](auto& o) { o.*number = kInfinity; }),
              GSM_ERROR_ARGUMENT, HasSubstr(" is inf; wanted "));
    REFUSED(begin(groups[0], "a2cid2", [=](auto& o) { o.min_workers = workers + 1; }),
            GSM_ERROR_CONFIG, HasSubstr("min_workers is "), HasSubstr("wanted at most as many"));
    REFUSED(begin(groups[0], "dpsgd", [](auto& o) { o.record = "/nowhere"; }), GSM_ERROR_CONFIG,
            HasSubstr("record and replay are for a2cid2"));
    gsm_trainer* t = trainer();
    gsm_method* method = nullptr;
    REFUSED(gsm_method_new(t, groups[0], "dadam", "ring", nullptr, &method), GSM_ERROR_CONFIG,
            HasSubstr("method dadam is dpsgd with the optimizer adam, this one is sgd"));
    MUST(gsm_trainer_free(t));
    REFUSED(begin(groups[0], "adpsgd", [](auto& o) { o.replay = "/nowhere"; }), GSM_ERROR_FILE,
            HasSubstr("/nowhere/events-0.jsonl: can't be read"));
    REFUSED(begin(groups[0], "a2cid2", [](auto& o) { o.record = "/dev/null"; }), GSM_ERROR_FILE,
            HasSubstr("/dev/null/events-0.jsonl: can't be written: Not a directory"));
    std::vector<std::thread> threads;
    for (gsm_group* group : groups)
      threads.emplace_back([=] {
        float x[4] = {};
        gsm_gossip* gossip = nullptr;
        EXPECT_EQ(gsm_gossip_new(group, x, 4, "allreduce", "ring", nullptr, &gossip), GSM_OK)
            << gsm_last_error();
        EXPECT_EQ(gsm_gossip_finish(gossip), GSM_OK) << gsm_last_error();
        EXPECT_EQ(gsm_gossip_free(gossip), GSM_OK);
      });
    for (std::thread& thread : threads) thread.join();
    REFUSED(begin(groups[0], "allreduce", [](auto&) {}), GSM_ERROR_CONFIG,
            HasSubstr("has begun a training before"));
    for (gsm_group* group : groups) MUST(gsm_group_free(group));
  }
}

TEST_F(CErrors, RoundsAreKnownToMethodsThatStepTogether) {
  gsm_group* groups[4];
  MUST(gsm_group_local(4, groups));
  gsm_gossip* gossip = nullptr;
  const auto begin = [&](const char* method, const char* graph) {
    return gsm_gossip_new(groups[0], x_, 4, method, graph, nullptr, &gossip);
  };
  REFUSED(begin("dpsgd", "one-pear-exp"), GSM_ERROR_CONFIG,
          HasSubstr("graph \"one-pear-exp\" is unknown"), HasSubstr("one-peer-exp-directed, "),
          HasSubstr("ring-matching, "), HasSubstr("aer:L"));
  REFUSED(begin("a2cid2", "rings"), GSM_ERROR_CONFIG, HasSubstr("graph \"rings\" is unknown"),
          HasSubstr("hypercube, "), Not(HasSubstr("one-peer-exp")));
  REFUSED(begin("a2cid2", "one-peer-exp"), GSM_ERROR_CONFIG,
          HasSubstr("graph \"one-peer-exp\" is rounds only"));
  REFUSED(begin("dpsgd", "one-peer-exp-directed"), GSM_ERROR_CONFIG,
          HasSubstr("only sgp keeps the mean"));
  for (gsm_group* group : groups) MUST(gsm_group_free(group));
}

TEST_F(CErrors, WorkersThatDoNotAgreeLearnTheOptionAndBothValues) {
  const auto begin = [](auto change) {
    gsm_group* groups[2];
    EXPECT_EQ(gsm_group_local(2, groups), GSM_OK);
    std::string errors[2];
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        auto options = sized<gsm_gossip_options>();
        options.total_steps = 100;
        options.period = 4;
        int64_t n = 3;
        const char* graph = "ring";
        if (rank == 1) change(options, n, graph);
        float x[8] = {};
        gsm_gossip* gossip = nullptr;
        EXPECT_EQ(gsm_gossip_new(groups[rank], x, n, "local-sgd", graph, &options, &gossip),
                  GSM_ERROR_WORKERS);
        errors[rank] = gsm_last_error();
      });
    for (std::thread& thread : threads) thread.join();
    for (gsm_group* group : groups) EXPECT_EQ(gsm_group_free(group), GSM_OK);
    EXPECT_EQ(errors[0], errors[1]);
    return errors[0];
  };
  EXPECT_THAT(begin([](auto& o, auto&, auto&) { o.total_steps = 200; }),
              HasSubstr("workers 0 and 1 do not agree on total_samples (in C: total_steps): "
                        "100 and 200; "));
  EXPECT_THAT(begin([](auto& o, auto&, auto&) { o.period = 8; }),
              HasSubstr("do not agree on period: 4 and 8; "));
  EXPECT_THAT(begin([](auto& o, auto&, auto&) { o.settings = "period=8"; }),
              HasSubstr("do not agree on period: 4 and 8; "));
  EXPECT_THAT(begin([](auto& o, auto&, auto&) { o.settings = "rate=0.5"; }),
              HasSubstr("do not agree on rate: 1 and 0.5; "));
  EXPECT_THAT(begin([](auto& o, auto&, auto&) { o.rate = .5; }),
              HasSubstr("do not agree on rate: 1 and 0.5; "));
  EXPECT_THAT(begin([](auto&, auto& n, auto&) { n = 8; }),
              HasSubstr("do not agree on the model: 3 parameters and 8 parameters; "));
  EXPECT_THAT(begin([](auto&, auto&, auto& graph) { graph = "ring-matching"; }),
              HasSubstr("do not agree on the graph: ring and ring-matching; "));
}

TEST_F(CErrors, ASettingThatIsWrongIsNamed) {
  gsm_group* groups[2];
  MUST(gsm_group_local(2, groups));
  const auto begin = [&](const char* settings) {
    auto options = sized<gsm_gossip_options>();
    options.settings = settings;
    float x[3] = {};
    gsm_gossip* gossip = nullptr;
    return gsm_gossip_new(groups[0], x, 3, "diloco", "complete", &options, &gossip);
  };
  REFUSED(begin("outer_rate"), GSM_ERROR_CONFIG, HasSubstr("outer_rate; wanted NAME=VALUE"));
  REFUSED(begin("=1"), GSM_ERROR_CONFIG, HasSubstr("wanted NAME=VALUE"));
  REFUSED(begin("fragments=1 fragments=2"), GSM_ERROR_CONFIG, HasSubstr("given twice"));
  REFUSED(
      begin("outer_rat=0.5"), GSM_ERROR_CONFIG,
      HasSubstr(
          "diloco has no setting outer_rat; it has period outer_rate outer_momentum fragments"));
  REFUSED(begin("outer_rate=fast"), GSM_ERROR_CONFIG, HasSubstr("a number"));
  REFUSED(begin("outer_rate=-1"), GSM_ERROR_CONFIG, HasSubstr("outer_rate -1"));
  REFUSED(begin("rate=2000"), GSM_ERROR_CONFIG, HasSubstr("0 to 1000"));
  for (gsm_group* group : groups) MUST(gsm_group_free(group));
}

// The others would get it too, and not lose it again.
TEST_F(CErrors, ValuesThatMayNotStayFiniteAreSentToNobody) {
  constexpr int n = 5000;
  const std::pair<float, const char*> refused[] = {{float(NAN), "nan"},
                                                   {float(kInfinity), "inf"},
                                                   {float(-kInfinity), "-inf"},
                                                   {0x1p100F, "1.26765e+30"},
                                                   {-3e38F, "-3e+38"}};
  for (const char* method : {"allreduce", "a2cid2", "dpsgd"}) {
    gsm_group* groups[2];
    MUST(gsm_group_local(2, groups));
    std::vector<float> x[2] = {std::vector<float>(n, 1), std::vector<float>(n, 1)};
    const auto work = [&](int rank) {
      gsm_gossip* gossip = nullptr;
      float* const mine = x[rank].data();
      for (const int at : {0, 1500, n - 1}) {
        mine[at] = NAN;
        REFUSED(gsm_gossip_new(groups[rank], mine, n, method, "ring", nullptr, &gossip),
                GSM_ERROR_ARGUMENT, HasSubstr("x[" + std::to_string(at) + "] is nan; "));
        mine[at] = 1;
      }
      MUST(gsm_gossip_new(groups[rank], mine, n, method, "ring", nullptr, &gossip));
      std::vector<float> update(n, .25f);
      for (int step = 0; step < 2; ++step) {
        for (const auto& [bad, text] : refused)
          for (const int at : {0, 1023, 1024, 3000, n - 1}) {
            const std::vector<float> before = x[rank];
            update[static_cast<std::size_t>(at)] = bad;
            REFUSED(gsm_gossip_step(gossip, update.data()), GSM_ERROR_ARGUMENT,
                    HasSubstr("update[" + std::to_string(at) + "] is " + text + "; "));
            EXPECT_EQ(x[rank], before);
            update[static_cast<std::size_t>(at)] = .25f;
          }
        MUST(gsm_gossip_step(gossip, update.data()));
      }
      MUST(gsm_gossip_finish(gossip));
      MUST(gsm_gossip_free(gossip));
    };
    std::thread other([&] { work(1); });
    work(0);
    other.join();
    EXPECT_EQ(x[0], std::vector<float>(n, .5f)) << method;
    EXPECT_EQ(x[1], x[0]) << method;
    for (gsm_group* group : groups) MUST(gsm_group_free(group));
  }
}

TEST_F(CErrors, TheLargestValuesThatAreTakenHaveAFiniteMean) {
  const float largest = std::nextafter(0x1p100F, 0.F);
  gsm_group* groups[2];
  MUST(gsm_group_local(2, groups));
  std::vector<float> x[2] = {std::vector<float>(2000, largest), std::vector<float>(2000, largest)};
  const auto work = [&](std::size_t rank) {
    gsm_gossip* gossip = nullptr;
    MUST(gsm_gossip_new(groups[rank], x[rank].data(), 2000, "allreduce", "ring", nullptr, &gossip));
    MUST(gsm_gossip_finish(gossip));
    MUST(gsm_gossip_free(gossip));
  };
  std::thread other([&] { work(1); });
  work(0);
  other.join();
  for (const auto& mine : x) EXPECT_EQ(mine, std::vector<float>(2000, largest));
  for (gsm_group* group : groups) MUST(gsm_group_free(group));
}

TEST_F(CErrors, AGradientThatIsNotFiniteIsNoStep) {
  gsm_trainer* t = trainer();
  gsm_group* group = nullptr;
  MUST(gsm_group_local(1, &group));
  gsm_method* method = nullptr;
  // The sum over both images is more than a float can hold.
  const float gradient[4] = {3e38F, 0, 3e38F, 0};
  const std::vector<float> images(2 * 192, .5f);
  float y[4];
  uint8_t pixels[192] = {};
  const int32_t label = 1;
  float loss = NAN;
  MUST(gsm_trainer_forward(t, images.data(), 2, 8, 8, y));
  MUST(gsm_trainer_backward(t, gradient));
  REFUSED(gsm_trainer_step(t, .1), GSM_ERROR_ARGUMENT,
          HasSubstr("the gradient of fc.weight is infinite"));
  MUST(gsm_method_new(t, group, "allreduce", "ring", nullptr, &method));
  MUST(gsm_trainer_forward(t, images.data(), 2, 8, 8, y));
  MUST(gsm_trainer_backward(t, gradient));
  REFUSED(gsm_method_step(method, .1), GSM_ERROR_ARGUMENT,
          HasSubstr("the gradient of fc.weight is infinite"));
  MUST(gsm_trainer_gradient(t, pixels, &label, 1, 8, 8, &loss));
  EXPECT_TRUE(std::isfinite(loss));
  MUST(gsm_method_step(method, .1));
  MUST(gsm_method_finish(method));
  MUST(gsm_method_free(method));
  MUST(gsm_trainer_free(t));
  MUST(gsm_group_free(group));
}

TEST_F(CErrors, NumbersThatAreNotFiniteAreNamedAndLeaveTheTrainerAsItWas) {
  gsm_trainer *t = trainer(), *untouched = trainer();
  const std::string path = file("m.safetensors").string();
  MUST(gsm_trainer_save(t, path.c_str(), nullptr));
  gsm_model* model = nullptr;
  MUST(gsm_model_open(path.c_str(), &model));
  const int64_t shape[] = {1, 8, 8, 3};
  for (const float bad : {float(NAN), float(kInfinity), -float(kInfinity)}) {
    x_[100] = bad;
    gsm_tensor *images = nullptr, *logits = nullptr;
    MUST(gsm_tensor_from_blob(x_, GSM_F32, shape, 4, nullptr, nullptr, &images));
    for (const gsm_status status :
         {gsm_trainer_forward(t, x_, 1, 8, 8, y_), gsm_model_forward(model, x_, 1, 8, 8, y_),
          gsm_model_forward_tensor(model, images, &logits)})
      REFUSED(status, GSM_ERROR_ARGUMENT, HasSubstr("images[100] is "));
    MUST(gsm_tensor_free(images));
    x_[100] = 0;
    for (gsm_trainer* each : {t, untouched}) MUST(gsm_trainer_forward(each, x_, 1, 8, 8, y_));
    const float gradient[2] = {0, bad};
    REFUSED(gsm_trainer_backward(t, gradient), GSM_ERROR_ARGUMENT, HasSubstr("gradient[1] is "));
    EXPECT_EQ(step(t), step(untouched));
  }
  MUST(gsm_model_free(model));
  for (gsm_trainer* each : {t, untouched}) MUST(gsm_trainer_free(each));
}

TEST_F(CErrors, NumbersWhereTheirTypeMayNotLieAreRefused) {
  gsm_trainer* t = trainer();
  alignas(8) char bytes[1024] = {};
  const auto odd = [&](auto*& p) { p = reinterpret_cast<std::decay_t<decltype(p)>>(bytes + 1); };
  float* floats;
  int32_t* labels;
  odd(floats);
  odd(labels);
  const int64_t shape[] = {4};
  gsm_tensor* tensor = nullptr;
  for (const gsm_dtype type : {GSM_F32, GSM_BF16, GSM_F16, GSM_I32, GSM_I64})
    REFUSED(gsm_tensor_from_blob(bytes + 1, type, shape, 1, nullptr, nullptr, &tensor),
            GSM_ERROR_ARGUMENT, HasSubstr("no multiple of its"));
  MUST(gsm_tensor_from_blob(bytes + 1, GSM_U8, shape, 1, nullptr, nullptr, &tensor));
  MUST(gsm_tensor_free(tensor));
  int64_t sizes[] = {4};
  DLManagedTensor managed{};
  managed.dl_tensor = {bytes, {1, 0}, 1, {2, 32, 1}, sizes, nullptr, 2};  // byte_offset 2
  REFUSED(gsm_tensor_from_dlpack(&managed, &tensor), GSM_ERROR_ARGUMENT,
          HasSubstr("no multiple of its"));
  uint8_t pixels[192] = {};
  float loss = 0;
  gsm_group* group = nullptr;
  gsm_gossip* gossip = nullptr;
  MUST(gsm_group_local(1, &group));
  for (const gsm_status status :
       {gsm_trainer_forward(t, floats, 1, 8, 8, y_), gsm_trainer_forward(t, x_, 1, 8, 8, floats),
        gsm_trainer_gradient(t, pixels, labels, 1, 8, 8, &loss),
        gsm_gossip_new(group, floats, 4, "a2cid2", "ring", nullptr, &gossip)})
    REFUSED(status, GSM_ERROR_ARGUMENT, HasSubstr("is at an address that is not a multiple"));
  MUST(gsm_group_free(group));
  MUST(gsm_trainer_free(t));
}

TEST_F(CErrors, LoadedWeightsTakeNothingFromBefore) {
  const std::string path = file("m.safetensors").string();
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    gsm_trainer* one = trainer(optimizer);
    for (int i = 0; i < 3; ++i) step(one);
    MUST(gsm_trainer_save(one, path.c_str(), nullptr));
    for (int i = 0; i < 3; ++i) step(one);
    uint8_t pixels[192] = {};
    const int32_t label = 1;
    float loss = 0;
    MUST(gsm_trainer_gradient(one, pixels, &label, 1, 8, 8, &loss));
    MUST(gsm_trainer_forward(one, x_, 1, 8, 8, y_));
    MUST(gsm_trainer_load(one, path.c_str()));
    REFUSED(gsm_trainer_step(one, .05), GSM_ERROR_CONFIG, HasSubstr("no new gradient"));
    REFUSED(gsm_trainer_backward(one, y_), GSM_ERROR_CONFIG,
            HasSubstr("without gsm_trainer_forward"));
    gsm_trainer* fresh = trainer(optimizer, 77);
    MUST(gsm_trainer_load(fresh, path.c_str()));
    for (int i = 0; i < 5; ++i) EXPECT_EQ(step(one), step(fresh)) << optimizer << ", step " << i;
    // A file that can't be read changes nothing.
    MUST(gsm_trainer_forward(one, x_, 1, 8, 8, y_));
    EXPECT_EQ(gsm_trainer_load(one, file("none").c_str()), GSM_ERROR_FILE);
    MUST(gsm_trainer_backward(one, y_));
    MUST(gsm_trainer_free(one));
    MUST(gsm_trainer_free(fresh));
  }
}

TEST_F(CErrors, ATensorOfOneNumberNeedsNoShape) {
  DLManagedTensor number{{x_, {1, 0}, 0, {2, 32, 1}, nullptr, nullptr, 0}, nullptr, nullptr};
  gsm_tensor *lent = nullptr, *blob = nullptr;
  MUST(gsm_tensor_from_dlpack(&number, &lent));
  MUST(gsm_tensor_from_blob(x_, GSM_F32, nullptr, 0, nullptr, nullptr, &blob));
  for (gsm_tensor* t : {lent, blob}) {
    int64_t shape[6];
    int32_t rank = -1;
    gsm_dtype type{};
    MUST(gsm_tensor_shape(t, shape, &rank, &type));
    EXPECT_EQ(rank, 0);
    MUST(gsm_tensor_free(t));
  }
  gsm_tensor* none = nullptr;
  number.dl_tensor.ndim = 1;
  REFUSED(gsm_tensor_from_dlpack(&number, &none), GSM_ERROR_ARGUMENT, HasSubstr("shape is NULL"));
}

TEST_F(CErrors, PicturesAreU8OrF32OrMissing) {
  gsm_trainer* t = trainer();
  const std::string path = file("m.safetensors").string();
  MUST(gsm_trainer_save(t, path.c_str(), nullptr));
  gsm_model* model = nullptr;
  MUST(gsm_model_open(path.c_str(), &model));
  int64_t numbers[192] = {};
  const int64_t shape[] = {1, 8, 8, 3};
  for (const gsm_dtype type : {GSM_I32, GSM_I64, GSM_BF16, GSM_F16}) {
    gsm_tensor *images = nullptr, *logits = nullptr;
    MUST(gsm_tensor_from_blob(numbers, type, shape, 4, nullptr, nullptr, &images));
    REFUSED(gsm_model_forward_tensor(model, images, &logits), GSM_ERROR_ARGUMENT,
            HasSubstr("wanted u8, which is normalized, or f32"));
    MUST(gsm_tensor_free(images));
  }
  gsm_class classes[1];
  int32_t count = 1;
  REFUSED(gsm_model_classify_file(model, file("no.jpg").c_str(), classes, &count), GSM_ERROR_DATA,
          HasSubstr("no.jpg"));
  MUST(gsm_model_free(model));
  MUST(gsm_trainer_free(t));
}

TEST_F(CErrors, ALoaderThatNeedsInOrderSaysSo) {
  for (const char* name : {"a/1.bmp", "b/1.bmp"}) {
    std::filesystem::create_directories(file(name).parent_path());
    std::ofstream(file(name), std::ios::binary) << bitmap();
  }
  const std::string path = folder_.string();
  const char* paths[] = {path.c_str()};
  gsm_dataset* set = nullptr;
  MUST(gsm_dataset_open(paths, 1, &set));
  auto options = sized<gsm_loader_options>();
  options.batch = 3;
  gsm_loader* loader = nullptr;
  REFUSED(gsm_loader_new(set, &options, &loader), GSM_ERROR_CONFIG, HasSubstr("in_order = 1"));
  options.in_order = 1;
  MUST(gsm_loader_new(set, &options, &loader));
  MUST(gsm_loader_free(loader));
  MUST(gsm_dataset_free(set));
}

}  // namespace
}  // namespace gossamer
