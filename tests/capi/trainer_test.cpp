// Trainers: options, initial weights, parameters, averages, and states that a training goes on from
// bit for bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/trainers.h"

namespace gossamer {
namespace {

using testing::HasSubstr;

TEST_F(CTrainer, ListsParametersWithTheirShapes) {
  gsm_trainer* trainer = make(options());
  int64_t count = 0, found = 0;
  MUST(gsm_trainer_parameter_count(trainer, &count));
  for (int64_t i = 0; i < count; ++i) {
    gsm_parameter_info_t info{};
    info.struct_size = sizeof info;
    MUST(gsm_trainer_parameter_info(trainer, i, &info));
    int64_t numbers = 1;
    for (int d = 0; d < info.rank; ++d) numbers *= info.shape[d];
    EXPECT_EQ(numbers, info.numbers) << info.name;
    if (std::string(info.name) == "conv1.weight") {
      ++found;
      EXPECT_EQ(info.rank, 4);
      EXPECT_EQ(info.shape[0], 16);
      EXPECT_EQ(info.shape[3], 3);
      EXPECT_EQ(info.kind, GSM_TRAINED);
    }
    if (std::string(info.name) == "bn1.running_var") {
      ++found;
      EXPECT_EQ(info.kind, GSM_STATISTIC);
    }
  }
  EXPECT_EQ(found, 2);
  int64_t none = 0;
  EXPECT_EQ(gsm_trainer_parameter_find(trainer, "conv9", &none), GSM_ERROR_ARGUMENT);
}

TEST_F(CTrainer, AStepOfSgdIsWhatItsGradientSays) {
  gsm_trainer_options o = options();
  o.momentum = -1;
  gsm_trainer* trainer = make(o);
  gradient(trainer);
  const std::vector<float> before = read(trainer, "fc.weight"),
                           g = read(trainer, "fc.weight", GSM_GRADIENT);
  MUST(gsm_trainer_step(trainer, .5));
  const std::vector<float> after = read(trainer, "fc.weight");
  for (std::size_t i = 0; i < g.size(); ++i) EXPECT_FLOAT_EQ(after[i], before[i] - .5F * g[i]);
  int64_t steps = 0;
  MUST(gsm_trainer_steps(trainer, &steps));
  EXPECT_EQ(steps, 1);
}

TEST_F(CTrainer, AWrittenGradientAndWrittenValuesAreUsed) {
  gsm_trainer_options o = options();
  o.momentum = -1;
  gsm_trainer* trainer = make(o);
  const int64_t bias = index_of(trainer, "fc.bias");
  const float values[] = {1, 2}, ones[] = {1, 1};
  MUST(gsm_trainer_parameter_write(trainer, bias, GSM_VALUE, values, 2));
  EXPECT_EQ(gsm_trainer_parameter_write(trainer, bias, GSM_GRADIENT, ones, 2), GSM_ERROR_CONFIG);
  gradient(trainer);
  MUST(gsm_trainer_parameter_write(trainer, bias, GSM_GRADIENT, ones, 2));
  MUST(gsm_trainer_step(trainer, .25));
  EXPECT_THAT(read(trainer, "fc.bias"), testing::ElementsAre(.75F, 1.75F));
  const float wrong[] = {1, NAN};
  EXPECT_EQ(gsm_trainer_parameter_write(trainer, bias, GSM_VALUE, wrong, 2), GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_trainer_parameter_write(trainer, bias, GSM_VALUE, values, 3), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(read(trainer, "fc.bias"), testing::ElementsAre(.75F, 1.75F));
}

TEST_F(CTrainer, ClippingBoundsTheStep) {
  gsm_trainer_options o = options();
  o.momentum = -1;
  o.clip_norm = 1e-3;
  gsm_trainer* trainer = make(o);
  gradient(trainer);
  double norm = 0, moved = 0;
  MUST(gsm_trainer_gradient_norm(trainer, &norm));
  EXPECT_GT(norm, 1e-3);
  int64_t count = 0;
  MUST(gsm_trainer_parameter_count(trainer, &count));
  std::vector<std::vector<float>> before;
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    gsm_parameter_info_t info{};
    info.struct_size = sizeof info;
    MUST(gsm_trainer_parameter_info(trainer, i, &info));
    if (info.kind == GSM_TRAINED) names.emplace_back(info.name);
  }
  for (const std::string& name : names) before.push_back(read(trainer, name.c_str()));
  MUST(gsm_trainer_step(trainer, 1));
  for (std::size_t k = 0; k < names.size(); ++k) {
    const std::vector<float> after = read(trainer, names[k].c_str());
    for (std::size_t i = 0; i < after.size(); ++i)
      moved += std::pow(static_cast<double>(after[i]) - before[k][i], 2);
  }
  EXPECT_NEAR(std::sqrt(moved), 1e-3, 1e-5);
}

TEST_F(CTrainer, FrozenLayersStayAndRatesAndDecaysFollowTheirPatterns) {
  gsm_trainer_options o = options();
  o.momentum = -1;
  o.freeze = "conv1, bn1";
  o.rates = "fc=2; layer1=0.5";
  o.weight_decay = .1;
  o.decays = "layer3=0";
  gsm_trainer* trainer = make(o);
  gradient(trainer);
  EXPECT_EQ(gsm_trainer_parameter_read(trainer, index_of(trainer, "conv1.weight"), GSM_GRADIENT,
                                       nullptr, 0),
            GSM_ERROR_ARGUMENT);
  const auto stem = read(trainer, "conv1.weight"), mean = read(trainer, "bn1.running_mean");
  struct Layer {
    const char* name;
    float rate, decay;
    std::vector<float> x, g;
  };
  std::vector<Layer> layers{{"fc.weight", 2, .1F, {}, {}},
                            {"layer1.0.conv1.weight", .5F, .1F, {}, {}},
                            {"layer2.0.conv1.weight", 1, .1F, {}, {}},
                            {"layer3.0.conv1.weight", 1, 0, {}, {}},
                            {"fc.bias", 2, 0, {}, {}}};
  for (Layer& l : layers) l.x = read(trainer, l.name), l.g = read(trainer, l.name, GSM_GRADIENT);
  MUST(gsm_trainer_step(trainer, .1));
  for (const Layer& l : layers) {
    const auto x = read(trainer, l.name);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(x[i], l.x[i] - .1F * l.rate * (l.g[i] + l.decay * l.x[i]), 1e-6) << l.name;
  }
  EXPECT_EQ(read(trainer, "conv1.weight"), stem);
  // A frozen layer computes with its statistics, and leaves them as they are.
  EXPECT_EQ(read(trainer, "bn1.running_mean"), mean);
}

TEST_F(CTrainer, BatchesThatAccumulateMakeTheMeanGradient) {
  gsm_trainer_options o = options();
  o.accumulate = 2;
  o.freeze = "all but fc";  // so that batch norms give both the same
  gsm_trainer *two = make(o), *first = nullptr, *second = nullptr;
  o.accumulate = 0;
  first = make(o), second = make(o);
  gradient(first), gradient(second, 4, 3, 20);
  gradient(two);
  EXPECT_EQ(gsm_trainer_step(two, .1), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("accumulate"));
  gsm_bytes* bytes = nullptr;
  EXPECT_EQ(gsm_trainer_state_memory(two, &bytes), GSM_ERROR_CONFIG);
  gradient(two, 4, 3, 20);
  const auto a = read(first, "fc.weight", GSM_GRADIENT),
             b = read(second, "fc.weight", GSM_GRADIENT),
             mean = read(two, "fc.weight", GSM_GRADIENT);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(mean[i], (a[i] + b[i]) / 2, 1e-6);
  MUST(gsm_trainer_step(two, .1));
}

TEST_F(CTrainer, ComputesInBf16) {
  gsm_trainer_options o = options();
  gsm_trainer* exact = make(o);
  o.type = "bf16";
  gsm_trainer* rounded = make(o);
  const float a = gradient(exact), b = gradient(rounded);
  EXPECT_NE(a, b);
  EXPECT_NEAR(a, b, .05);
  MUST(gsm_trainer_step(rounded, .1));
  std::vector<float> images(192, .5F), logits(2);
  MUST(gsm_trainer_forward(rounded, images.data(), 1, 8, 8, logits.data()));
  MUST(gsm_trainer_backward(rounded, logits.data()));
  o.type = "f64";
  gsm_trainer* none = nullptr;
  EXPECT_EQ(gsm_trainer_new("resnet8-cifar", 2, &o, &none), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("wanted f32 or bf16"));
}

TEST_F(CTrainer, TakesImagesOfAnyChannels) {
  gsm_trainer_options o = options();
  o.channels = 5;
  gsm_trainer* none = nullptr;
  EXPECT_EQ(gsm_trainer_new("resnet8-cifar", 2, &o, &none), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("give them"));
  const float mean[] = {.1F, .2F, .3F, .4F, .5F}, std[] = {1, 1, 1, .5F, .5F};
  o.mean = mean, o.std = std;
  o.image_size = 8;
  gsm_trainer* trainer = make(o);
  const float first = gradient(trainer, 4, 5);
  for (int i = 0; i < 30; ++i) {
    MUST(gsm_trainer_step(trainer, .05));
    gradient(trainer, 4, 5);
  }
  EXPECT_LT(gradient(trainer, 4, 5), first / 2);
  gsm_bytes* bytes = nullptr;
  MUST(gsm_trainer_save_memory(trainer, nullptr, &bytes));
  const void* data = nullptr;
  std::size_t size = 0;
  MUST(gsm_bytes_data(bytes, &data, &size));
  gsm_model* model = nullptr;
  MUST(gsm_model_open_memory(data, size, &model));
  MUST(gsm_bytes_free(bytes));
  gsm_model_info_t info{};
  info.struct_size = sizeof info;
  MUST(gsm_model_info(model, &info));
  EXPECT_EQ(info.channels, 5);
  EXPECT_EQ(info.image_size, 8);
  std::vector<uint8_t> pixels(320, 100);
  std::vector<float> normal(320);
  for (std::size_t i = 0; i < 320; ++i) normal[i] = (100.F / 255 - mean[i % 5]) / std[i % 5];
  float logits[2], same[2];
  MUST(gsm_model_forward_u8(model, pixels.data(), 1, 8, 8, logits));
  MUST(gsm_model_forward(model, normal.data(), 1, 8, 8, same));
  EXPECT_NEAR(logits[0], same[0], 1e-4);
  gsm_class classes[1];
  int32_t count = 1;
  EXPECT_EQ(gsm_model_classify_bytes(model, pixels.data(), 320, classes, &count), GSM_ERROR_CONFIG);
  MUST(gsm_model_free(model));
}

TEST_F(CTrainer, InitialWeightsOfAnotherHeadLoadWhatFitsAndListTheRest) {
  gsm_trainer* before = make(options());
  gradient(before);
  MUST(gsm_trainer_step(before, .1));
  const std::string path = file("m.safetensors").string();
  MUST(gsm_trainer_save(before, path.c_str(), nullptr));
  gsm_trainer_options o = options();
  o.seed = 99;
  o.init = path.c_str();
  gsm_trainer* trainer = make("resnet8-cifar", 5, o);
  EXPECT_EQ(read(trainer, "conv1.weight"), read(before, "conv1.weight"));
  EXPECT_EQ(read(trainer, "bn1.running_mean"), read(before, "bn1.running_mean"));
  int64_t loaded = 0, left = 0;
  MUST(gsm_trainer_init_fit(trainer, &loaded, &left));
  EXPECT_EQ(left, 2);
  EXPECT_GT(loaded, 20);
  const char* what = nullptr;
  MUST(gsm_trainer_init_left(trainer, 0, &what));
  EXPECT_THAT(what, HasSubstr("fc.weight is f32[2, 64], wanted f32[5, 64]"));
  EXPECT_EQ(gsm_trainer_init_left(trainer, 2, &what), GSM_ERROR_ARGUMENT);

  // from memory, with a new head of the same size
  gsm_bytes* bytes = nullptr;
  MUST(gsm_trainer_save_memory(before, nullptr, &bytes));
  o.init = nullptr;
  MUST(gsm_bytes_data(bytes, &o.init_bytes, &o.init_size));
  o.new_head = 1;
  gsm_trainer* other = make(o);
  MUST(gsm_bytes_free(bytes));
  EXPECT_EQ(read(other, "conv1.weight"), read(before, "conv1.weight"));
  EXPECT_NE(read(other, "fc.weight"), read(before, "fc.weight"));

  o = options();
  o.init = "/nowhere";
  gsm_trainer* none = nullptr;
  EXPECT_EQ(gsm_trainer_new("resnet8-cifar", 2, &o, &none), GSM_ERROR_FILE);
}

TEST_F(CTrainer, GoesOnFromItsStateBitForBit) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    gsm_trainer_options o = options();
    o.optimizer = optimizer;
    o.ema = .9;
    o.weight_decay = 1e-3;
    gsm_trainer* whole = make(o);
    for (int i = 0; i < 3; ++i) {
      gradient(whole, 4, 3, i);
      MUST(gsm_trainer_step(whole, .05));
    }
    const std::string half = state(whole);
    const std::string path = file("state.safetensors").string();
    MUST(gsm_trainer_state_save(whole, path.c_str()));
    o.seed = 12345;  // other weights, which the state replaces
    gsm_trainer *memory = make(o), *disk = make(o);
    gradient(memory);  // forgotten
    MUST(gsm_trainer_state_restore(memory, half.data(), half.size()));
    EXPECT_EQ(gsm_trainer_step(memory, .05), GSM_ERROR_CONFIG);
    MUST(gsm_trainer_state_load(disk, path.c_str()));
    for (gsm_trainer* each : {whole, memory, disk})
      for (int i = 3; i < 6; ++i) {
        gradient(each, 4, 3, i);
        MUST(gsm_trainer_step(each, .05));
      }
    for (const char* name : {"conv1.weight", "fc.bias", "bn1.running_var"})
      for (const gsm_part part : {GSM_VALUE, GSM_AVERAGE}) {
        EXPECT_EQ(read(memory, name, part), read(whole, name, part)) << optimizer << " " << name;
        EXPECT_EQ(read(disk, name, part), read(whole, name, part)) << optimizer << " " << name;
      }
    int64_t steps = 0;
    MUST(gsm_trainer_steps(memory, &steps));
    EXPECT_EQ(steps, 6);
  }
}

TEST_F(CTrainer, AStateThatDoesNotFitChangesNothing) {
  gsm_trainer* trainer = make(options());
  gradient(trainer);
  MUST(gsm_trainer_step(trainer, .1));
  const std::string before = state(trainer);
  gsm_trainer_options o = options();
  o.optimizer = "adam";
  const std::string of_adam = state(make(o)), of_five = state(make("resnet8-cifar", 5, options()));
  for (const std::string& other : {of_adam, of_five, before.substr(0, before.size() - 9)})
    EXPECT_NE(gsm_trainer_state_restore(trainer, other.data(), other.size()), GSM_OK);
  std::string damaged = before;
  damaged[damaged.size() - 5] ^= 1;
  EXPECT_EQ(gsm_trainer_state_restore(trainer, damaged.data(), damaged.size()), GSM_ERROR_FILE);
  EXPECT_EQ(state(trainer), before);
}

TEST_F(CTrainer, TheAverageIsReadAndEvaluated) {
  gsm_trainer_options o = options();
  o.ema = .5;
  gsm_trainer* trainer = make(o);
  std::vector<uint8_t> pixels(192, 60);
  const int32_t label = 0;
  int64_t right = 0;
  float own = 0, average = 0;
  for (int i = 0; i < 4; ++i) {
    gradient(trainer);
    MUST(gsm_trainer_step(trainer, .3));
  }
  EXPECT_NE(read(trainer, "fc.weight"), read(trainer, "fc.weight", GSM_AVERAGE));
  const auto before = read(trainer, "fc.weight");
  MUST(gsm_trainer_evaluate(trainer, pixels.data(), &label, 1, 8, 8, &right, &own));
  MUST(gsm_trainer_evaluate_average(trainer, pixels.data(), &label, 1, 8, 8, &right, &average));
  EXPECT_NE(own, average);
  EXPECT_EQ(read(trainer, "fc.weight"), before);
  gsm_trainer* without = make(options());
  EXPECT_EQ(gsm_trainer_evaluate_average(without, pixels.data(), &label, 1, 8, 8, &right, &average),
            GSM_ERROR_CONFIG);
}

TEST_F(CTrainer, PointersAreGoodBetweenLockAndUnlock) {
  gsm_trainer* trainer = make(options());
  const int64_t bias = index_of(trainer, "fc.bias");
  float* data = nullptr;
  EXPECT_EQ(gsm_trainer_parameter_data(trainer, bias, GSM_VALUE, &data), GSM_ERROR_CONFIG);
  EXPECT_EQ(gsm_trainer_unlock(trainer), GSM_ERROR_CONFIG);
  MUST(gsm_trainer_lock(trainer));
  EXPECT_EQ(gsm_trainer_lock(trainer), GSM_ERROR_BUSY);
  MUST(gsm_trainer_parameter_data(trainer, bias, GSM_VALUE, &data));
  data[0] = 5;
  EXPECT_EQ(gsm_trainer_step(trainer, .1), GSM_ERROR_BUSY);
  MUST(gsm_trainer_unlock(trainer));
  EXPECT_EQ(read(trainer, "fc.bias")[0], 5);
}

TEST_F(CTrainer, ALockHoldsExchangesAndReadsGoOnBesideThem) {
  gsm_group* groups[2];
  MUST(gsm_group_local(2, groups));
  gsm_trainer* trainers[] = {make(options()), make(options())};
  gsm_method* methods[2];
  std::thread other([&] {
    EXPECT_EQ(gsm_method_new(trainers[1], groups[1], "a2cid2", "ring", nullptr, &methods[1]),
              GSM_OK)
        << gsm_last_error();
  });
  EXPECT_EQ(gsm_method_new(trainers[0], groups[0], "a2cid2", "ring", nullptr, &methods[0]), GSM_OK)
      << gsm_last_error();
  other.join();
  const auto train = [&](int worker, int steps) {
    for (int i = 0; i < steps; ++i) {
      gradient(trainers[worker], 4, 3, 9 * worker);
      EXPECT_EQ(gsm_method_step(methods[worker], .05), GSM_OK) << gsm_last_error();
    }
  };
  std::thread beside(train, 1, 20);
  const int64_t weight = index_of(trainers[0], "fc.weight");
  for (int i = 0; i < 10; ++i) {
    train(0, 1);
    EXPECT_EQ(gsm_trainer_lock(trainers[0]), GSM_OK) << gsm_last_error();
    float* data = nullptr;
    EXPECT_EQ(gsm_trainer_parameter_data(trainers[0], weight, GSM_VALUE, &data), GSM_OK);
    const std::vector<float> seen(data, data + 128);
    EXPECT_EQ(gsm_method_step(methods[0], .05), GSM_ERROR_BUSY);
    EXPECT_EQ(std::memcmp(data, seen.data(), 128 * sizeof(float)), 0);
    EXPECT_EQ(gsm_trainer_unlock(trainers[0]), GSM_OK);
    read(trainers[0], "fc.weight");
    EXPECT_EQ(gsm_trainer_parameter_write(trainers[0], weight, GSM_VALUE, seen.data(), 128),
              GSM_ERROR_CONFIG);
    EXPECT_FALSE(state(trainers[0]).empty());
  }
  beside.join();
  std::thread end([&] { EXPECT_EQ(gsm_method_finish(methods[1]), GSM_OK) << gsm_last_error(); });
  EXPECT_EQ(gsm_method_finish(methods[0]), GSM_OK) << gsm_last_error();
  end.join();
  EXPECT_EQ(read(trainers[0], "fc.weight"), read(trainers[1], "fc.weight"));
  for (int i = 0; i < 2; ++i) {
    MUST(gsm_method_free(methods[i]));
    MUST(gsm_group_free(groups[i]));
  }
}

TEST_F(CTrainer, OptionsThatAreWrongAreNamed) {
  struct Case {
    const char* says;
    void (*set)(gsm_trainer_options&);
  };
  static const float kMean[] = {1, 1, NAN}, kStd[] = {1, 0, 1};
  for (const Case& c : std::initializer_list<Case>{
           {"cuda:0", [](gsm_trainer_options& o) { o.device = "cuda:0"; }},
           {"wanted cpu, or cuda:N", [](gsm_trainer_options& o) { o.device = "gpu"; }},
           {"takes no layers", [](gsm_trainer_options& o) { o.model_options = "layers=3"; }},
           {"gsm_trainer_options.model_options",
            [](gsm_trainer_options& o) { o.model_options = "depth=3"; }},
           {"gsm_trainer_options.freeze", [](gsm_trainer_options& o) { o.freeze = "conv9"; }},
           {"leaves no parameter to train", [](gsm_trainer_options& o) { o.freeze = "all"; }},
           {"gsm_trainer_options.rates", [](gsm_trainer_options& o) { o.rates = "fc=0"; }},
           {"gsm_trainer_options.decays", [](gsm_trainer_options& o) { o.decays = "fc=-1"; }},
           {"65 channels", [](gsm_trainer_options& o) { o.channels = 65; }},
           {"give mean and std", [](gsm_trainer_options& o) { o.mean = kStd; }},
           {"mean[2] is nan", [](gsm_trainer_options& o) { o.mean = kMean, o.std = kStd; }},
           {"wanted numbers above 0", [](gsm_trainer_options& o) { o.mean = o.std = kStd; }},
           {"ema is -0.5", [](gsm_trainer_options& o) { o.ema = -.5; }},
           {"must be below 1", [](gsm_trainer_options& o) { o.ema = 1; }},
           {"beta1", [](gsm_trainer_options& o) { o.optimizer = "adam", o.beta1 = 1; }},
           {"nesterov needs a momentum",
            [](gsm_trainer_options& o) { o.nesterov = 1, o.momentum = -1; }},
           {"accumulate is -1", [](gsm_trainer_options& o) { o.accumulate = -1; }},
           {"both given", [](gsm_trainer_options& o) { o.init = "x", o.init_bytes = kStd; }},
           {"resize 4 is below", [](gsm_trainer_options& o) { o.resize = 4; }}}) {
    gsm_trainer_options o = options();
    c.set(o);
    gsm_trainer* none = nullptr;
    EXPECT_NE(gsm_trainer_new("resnet8-cifar", o.channels ? 2 : 3, &o, &none), GSM_OK) << c.says;
    EXPECT_THAT(gsm_last_error(), HasSubstr(c.says));
  }
}

TEST(CSchedule, GivesTheRateOfEachMoment) {
  gsm_schedule s{};
  s.struct_size = sizeof s;
  s.rate = 1;
  s.total = 100;
  s.warmup = 10;
  double rate = 0;
  MUST(gsm_schedule_rate(&s, 5, &rate));
  EXPECT_DOUBLE_EQ(rate, .5);
  MUST(gsm_schedule_rate(&s, 55, &rate));
  EXPECT_NEAR(rate, .5, 1e-12);
  const double milestones[] = {.5};
  s.kind = "step";
  s.milestones = milestones;
  s.n_milestones = 1;
  MUST(gsm_schedule_rate(&s, 60, &rate));
  EXPECT_DOUBLE_EQ(rate, .1);
  s.kind = "wsd", s.decay = .5;
  MUST(gsm_schedule_rate(&s, 75, &rate));
  EXPECT_DOUBLE_EQ(rate, .5);
  s.kind = "triangle";
  EXPECT_EQ(gsm_schedule_rate(&s, 60, &rate), GSM_ERROR_CONFIG);
  s.kind = nullptr, s.total = 0;
  EXPECT_EQ(gsm_schedule_rate(&s, 60, &rate), GSM_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace gossamer
