// What the functions of gossamer.h do, as a program sees it that links libgossamer.so alone.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/bitmap.h"
#include "capi/calls.h"
#include "gossamer/apps/capi/dlpack.h"
#include "gossamer/apps/capi/gossamer.h"
#include "support/temp_folder.h"

namespace gossamer {
namespace {

using testing::HasSubstr;

// The function that lines go to, and nowhere any more when the test ends, however it does.
struct Log {
  Log() {
    const auto add = [](const char* line, void* user) { *static_cast<std::string*>(user) += line; };
    EXPECT_EQ(gsm_set_log(add, &lines), GSM_OK);
  }
  ~Log() { EXPECT_EQ(gsm_set_log(nullptr, nullptr), GSM_OK); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  std::string lines;
};

class CApi : public InTempFolder {};

// n pictures of 8 x 8, class k all of one brightness
struct Pictures {
  explicit Pictures(int n) : pixels(static_cast<std::size_t>(n) * 192), labels(n) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<int32_t>(i % 2);
      std::fill_n(pixels.begin() + static_cast<std::ptrdiff_t>(i) * 192, 192, 60 + 120 * (i % 2));
    }
  }
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
};

gsm_trainer* trainer_of_two_classes() {
  gsm_trainer_options options{};
  options.struct_size = sizeof options;
  options.seed = 3;
  gsm_trainer* trainer = nullptr;
  EXPECT_EQ(gsm_trainer_new("resnet8-cifar", 2, &options, &trainer), GSM_OK) << gsm_last_error();
  return trainer;
}

TEST_F(CApi, ATrainerOfZeroClassesHasAsManyAsItsModelUsually) {
  gsm_trainer* trainer = nullptr;
  MUST(gsm_trainer_new("resnet8-cifar", 0, nullptr, &trainer));
  const std::string path = file("m.safetensors").string();
  MUST(gsm_trainer_save(trainer, path.c_str(), nullptr));
  MUST(gsm_trainer_free(trainer));
  gsm_model* model = nullptr;
  MUST(gsm_model_open(path.c_str(), &model));
  gsm_model_info_t info{};
  info.struct_size = sizeof info;
  MUST(gsm_model_info(model, &info));
  EXPECT_EQ(info.classes, 10);
  MUST(gsm_model_free(model));
}

TEST_F(CApi, AModelIsTrainedSavedOpenedAndUsed) {
  gsm_trainer* trainer = trainer_of_two_classes();
  Pictures p(8);
  float first = 0, loss = 0;
  MUST(gsm_trainer_gradient(trainer, p.pixels.data(), p.labels.data(), 8, 8, 8, &first));
  for (int i = 0; i < 30; ++i) {
    MUST(gsm_trainer_step(trainer, .05));
    MUST(gsm_trainer_gradient(trainer, p.pixels.data(), p.labels.data(), 8, 8, 8, &loss));
  }
  EXPECT_LT(loss, first / 2);
  int64_t right = 0;
  MUST(gsm_trainer_evaluate(trainer, p.pixels.data(), p.labels.data(), 8, 8, 8, &right, &loss));
  EXPECT_EQ(right, 8);
  const char* names[] = {"dark", "bright"};
  const std::string path = file("m.safetensors").string();
  MUST(gsm_trainer_save(trainer, path.c_str(), names));
  MUST(gsm_trainer_load(trainer, path.c_str()));
  MUST(gsm_trainer_free(trainer));
  EXPECT_EQ(gsm_trainer_step(trainer, .1), GSM_ERROR_HANDLE);

  gsm_model* model = nullptr;
  MUST(gsm_model_open(path.c_str(), &model));
  gsm_model_info_t info{};
  info.struct_size = sizeof info;
  MUST(gsm_model_info(model, &info));
  EXPECT_STREQ(info.name, "resnet8-cifar");
  EXPECT_EQ(info.classes, 2);
  EXPECT_EQ(info.image_size, 32);
  const char* name = nullptr;
  MUST(gsm_model_class_name(model, 1, &name));
  EXPECT_STREQ(name, "bright");
  float logits[4];
  MUST(gsm_model_forward_u8(model, p.pixels.data(), 2, 8, 8, logits));
  EXPECT_GT(logits[0], logits[1]);
  EXPECT_LT(logits[2], logits[3]);
  std::vector<float> x(2 * 192);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = (static_cast<float>(p.pixels[i]) / 255 - info.mean[i % 3]) / info.std[i % 3];
  float same[4];
  MUST(gsm_model_forward(model, x.data(), 2, 8, 8, same));
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(same[i], logits[i], 1e-4);
  MUST(gsm_model_free(model));
}

TEST_F(CApi, ALossOfOnesOwnGivesTheSameGradientAsCrossEntropy) {
  gsm_trainer *one = trainer_of_two_classes(), *other = trainer_of_two_classes();
  Pictures p(4);
  const float mean[] = {.4914f, .4822f, .4465f}, std[] = {.2023f, .1994f, .2010f};
  std::vector<float> x(4 * 192);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = (static_cast<float>(p.pixels[i]) / 255 - mean[i % 3]) / std[i % 3];
  for (int step = 0; step < 3; ++step) {
    float loss = 0, logits[8], gradient[8], own = 0;
    MUST(gsm_trainer_gradient(one, p.pixels.data(), p.labels.data(), 4, 8, 8, &loss));
    MUST(gsm_trainer_forward(other, x.data(), 4, 8, 8, logits));
    for (int i = 0; i < 4; ++i) {
      const float *z = logits + 2 * i, sum = std::exp(z[0]) + std::exp(z[1]);
      own += (std::log(sum) - z[i % 2]) / 4;
      for (int k = 0; k < 2; ++k)
        gradient[2 * i + k] = (std::exp(z[k]) / sum - (k == i % 2 ? 1.f : 0.f)) / 4;
    }
    EXPECT_NEAR(own, loss, 1e-3 + 1e-2 * loss);
    MUST(gsm_trainer_backward(other, gradient));
    MUST(gsm_trainer_step(one, .01));
    MUST(gsm_trainer_step(other, .01));
  }
  EXPECT_EQ(gsm_trainer_backward(other, x.data()), GSM_ERROR_CONFIG);
  EXPECT_EQ(gsm_trainer_step(other, .01), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("no new gradient"));
  MUST(gsm_trainer_free(one));
  MUST(gsm_trainer_free(other));
}

TEST_F(CApi, TensorsAreLentBothWays) {
  static std::atomic<int> released;
  released = 0;
  float data[6] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  gsm_tensor *t = nullptr, *back = nullptr;
  MUST(gsm_tensor_from_blob(
      data, GSM_F32, shape, 2, [](void* n) { ++*static_cast<std::atomic<int>*>(n); }, &released,
      &t));
  DLManagedTensor* managed = nullptr;
  MUST(gsm_tensor_to_dlpack(t, &managed));
  EXPECT_EQ(managed->dl_tensor.data, data);
  EXPECT_EQ(managed->dl_tensor.strides[0], 3);
  MUST(gsm_tensor_from_dlpack(managed, &back));
  MUST(gsm_tensor_free(t));
  EXPECT_EQ(released, 0);  // the other one needs it
  int64_t its[6];
  int32_t rank = 0;
  gsm_dtype type{};
  MUST(gsm_tensor_shape(back, its, &rank, &type));
  EXPECT_EQ(rank, 2);
  EXPECT_EQ(its[1], 3);
  EXPECT_EQ(type, GSM_F32);
  void* at = nullptr;
  MUST(gsm_tensor_data(back, &at));
  EXPECT_EQ(at, data);
  MUST(gsm_tensor_free(back));
  EXPECT_EQ(released, 1);
}

// Every method takes parameters of one's own: two workers end with one mean, near the optimum.
TEST_F(CApi, EveryMethodGossipsAnyParameters) {
  for (const char* method : {"a2cid2", "adpsgd", "allreduce", "dpsgd", "dadam", "accum-adam", "sgp",
                             "local-sgd", "diloco", "noloco", "consensus-control"}) {
    gsm_group* groups[2];
    MUST(gsm_group_local(2, groups));
    float x[2][3] = {{1, 2, 3}, {5, 6, 7}};
    const auto work = [&](int rank) {
      gsm_gossip_options options{};
      options.struct_size = sizeof options;
      options.total_steps = 400;
      gsm_gossip* gossip = nullptr;
      ASSERT_EQ(gsm_gossip_new(groups[rank], x[rank], 3, method, "ring", &options, &gossip), GSM_OK)
          << method << ": " << gsm_last_error();
      EXPECT_FLOAT_EQ(x[rank][0], 3) << method;  // the mean
      int64_t steps = 0;
      for (int32_t done = 0; !done; ++steps) {
        float update[3] = {NAN};
        ASSERT_EQ(gsm_gossip_step(gossip, update), GSM_ERROR_ARGUMENT);
        for (int i = 0; i < 3; ++i) update[i] = .1f * (x[rank][i] - static_cast<float>(i + rank));
        ASSERT_EQ(gsm_gossip_step(gossip, update), GSM_OK) << method << ": " << gsm_last_error();
        ASSERT_EQ(gsm_gossip_done(gossip, &done), GSM_OK);
      }
      ASSERT_EQ(gsm_gossip_finish(gossip), GSM_OK) << method << ": " << gsm_last_error();
      gsm_gossip_stats_t stats{};
      stats.struct_size = sizeof stats;
      ASSERT_EQ(gsm_gossip_stats(gossip, &stats), GSM_OK);
      EXPECT_EQ(stats.steps, steps) << method << ": a refused step does not count";
      EXPECT_EQ(gsm_gossip_step(gossip, x[rank]), GSM_ERROR_CONFIG);
      EXPECT_EQ(gsm_gossip_free(gossip), GSM_OK);
    };
    std::thread other([&] { work(1); });
    work(0);
    other.join();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(x[0][i], x[1][i]) << method;
      EXPECT_NEAR(x[0][i], static_cast<float>(i) + .5f, .5) << method;
    }
    for (gsm_group* g : groups) MUST(gsm_group_free(g));
  }
}

// Each worker meets one or two others in a round; on the complete graph it would be three.
TEST_F(CApi, MethodsThatStepTogetherMayFollowRoundsThatNoGraphHas) {
  constexpr int workers = 4, steps = 6;
  struct Case {
    const char *method, *rounds;
    int exchanges;  // of a worker; a directed hop is two, but for the one to the opposite worker
  };
  for (const Case& c : {Case{"dpsgd", "one-peer-exp", steps}, Case{"dpsgd", "ring-matching", steps},
                        Case{"sgp", "one-peer-exp-directed", steps * 3 / 2}}) {
    gsm_group* groups[workers];
    MUST(gsm_group_local(workers, groups));
    const auto work = [&](int rank) {
      float x[2] = {static_cast<float>(rank), 8};
      gsm_gossip* gossip = nullptr;
      MUST(gsm_gossip_new(groups[rank], x, 2, c.method, c.rounds, nullptr, &gossip));
      for (int step = 0; step < steps; ++step) {
        const float update[2] = {.5f, static_cast<float>(rank)};
        MUST(gsm_gossip_step(gossip, update));
      }
      MUST(gsm_gossip_finish(gossip));
      gsm_gossip_stats_t stats{};
      stats.struct_size = sizeof stats;
      MUST(gsm_gossip_stats(gossip, &stats));
      EXPECT_EQ(stats.exchanges, c.exchanges) << c.rounds;
      EXPECT_NEAR(x[0], 1.5 - .5 * steps, 1e-4) << c.rounds;
      EXPECT_NEAR(x[1], 8 - 1.5 * steps, 1e-4) << c.rounds;
      MUST(gsm_gossip_free(gossip));
    };
    std::vector<std::thread> threads;
    for (int rank = 0; rank < workers; ++rank) threads.emplace_back(work, rank);
    for (std::thread& thread : threads) thread.join();
    for (gsm_group* g : groups) MUST(gsm_group_free(g));
  }
}

TEST_F(CApi, AModelIsTrainedByTwoWorkers) {
  gsm_group* groups[2];
  MUST(gsm_group_local(2, groups));
  float logits[2][2];
  const auto work = [&](int rank) {
    gsm_trainer* trainer = trainer_of_two_classes();
    Pictures p(4);
    gsm_gossip_options options{};
    options.struct_size = sizeof options;
    options.total_steps = 20;
    gsm_method* method = nullptr;
    ASSERT_EQ(gsm_method_new(trainer, groups[rank], "a2cid2", "ring", &options, &method), GSM_OK)
        << gsm_last_error();
    EXPECT_EQ(gsm_trainer_step(trainer, .1), GSM_ERROR_CONFIG);
    for (int32_t done = 0; !done;) {
      float loss = 0;
      ASSERT_EQ(gsm_trainer_gradient(trainer, p.pixels.data(), p.labels.data(), 4, 8, 8, &loss),
                GSM_OK);
      ASSERT_EQ(gsm_method_step(method, .01), GSM_OK) << gsm_last_error();
      ASSERT_EQ(gsm_method_done(method, &done), GSM_OK);
    }
    ASSERT_EQ(gsm_method_finish(method), GSM_OK) << gsm_last_error();
    const auto path = file("m" + std::to_string(rank));
    ASSERT_EQ(gsm_trainer_save(trainer, path.c_str(), nullptr), GSM_OK);
    EXPECT_EQ(gsm_trainer_free(trainer), GSM_OK);
    gsm_model* model = nullptr;
    ASSERT_EQ(gsm_model_open(path.c_str(), &model), GSM_OK);
    EXPECT_EQ(gsm_model_forward_u8(model, p.pixels.data(), 1, 8, 8, logits[rank]), GSM_OK);
    EXPECT_EQ(gsm_model_free(model), GSM_OK);
    EXPECT_EQ(gsm_method_free(method), GSM_OK);
  };
  std::thread other([&] { work(1); });
  work(0);
  other.join();
  EXPECT_EQ(logits[0][0], logits[1][0]);
  EXPECT_EQ(logits[0][1], logits[1][1]);
  for (gsm_group* g : groups) MUST(gsm_group_free(g));
}

TEST_F(CApi, TwoThreadsOnOneHandleAreAnError) {
  gsm_group* groups[2];
  MUST(gsm_group_local(2, groups));
  float x[2][1] = {};
  gsm_gossip* gossip[2];
  std::thread second([&] {
    EXPECT_EQ(gsm_gossip_new(groups[1], x[1], 1, "a2cid2", "ring", nullptr, &gossip[1]), GSM_OK);
  });
  MUST(gsm_gossip_new(groups[0], x[0], 1, "a2cid2", "ring", nullptr, &gossip[0]));
  second.join();
  // It waits for the other worker.
  std::thread waits([&] { EXPECT_EQ(gsm_gossip_finish(gossip[0]), GSM_OK); });
  int32_t done = 0;
  gsm_status status = GSM_OK;
  while ((status = gsm_gossip_done(gossip[0], &done)) == GSM_OK) std::this_thread::yield();
  EXPECT_EQ(status, GSM_ERROR_BUSY);
  EXPECT_EQ(gsm_gossip_free(gossip[0]), GSM_ERROR_BUSY);
  EXPECT_THAT(gsm_last_error(), HasSubstr("another thread"));
  MUST(gsm_gossip_finish(gossip[1]));
  waits.join();
  for (int i = 0; i < 2; ++i) {
    MUST(gsm_gossip_free(gossip[i]));
    MUST(gsm_group_free(groups[i]));
  }
}

// Every wait has an end: here the other worker lives and trains on.
TEST_F(CApi, FinishWaitsNoLongerThanItIsTold) {
  gsm_group* groups[2];
  MUST(gsm_group_local(2, groups));
  float x[2][1] = {{1}, {3}}, update[1] = {.5f};
  gsm_gossip_options options{};
  options.struct_size = sizeof options;
  options.finish_timeout_s = .2;
  gsm_gossip* gossip[2];
  std::thread second([&] {
    EXPECT_EQ(gsm_gossip_new(groups[1], x[1], 1, "a2cid2", "ring", &options, &gossip[1]), GSM_OK);
  });
  MUST(gsm_gossip_new(groups[0], x[0], 1, "a2cid2", "ring", &options, &gossip[0]));
  second.join();
  MUST(gsm_gossip_step(gossip[0], update));
  EXPECT_EQ(gsm_gossip_finish(gossip[0]), GSM_ERROR_WORKERS);
  EXPECT_THAT(gsm_last_error(), HasSubstr("worker(s) 1 did not stop within 0.2 s"));
  EXPECT_THAT(gsm_last_error(), HasSubstr("in C: total_steps"));
  for (int i = 0; i < 2; ++i) {
    MUST(gsm_gossip_free(gossip[i]));
    MUST(gsm_group_free(groups[i]));
  }
}

TEST_F(CApi, AWorkerThatIsFreedBeforeItBeginsIsNotWaitedFor) {
  gsm_group* groups[3];
  MUST(gsm_group_local(3, groups));
  MUST(gsm_group_free(groups[2]));
  float x[2][1] = {{1}, {4}};
  const auto work = [&](int rank) {
    gsm_gossip* gossip = nullptr;
    ASSERT_EQ(gsm_gossip_new(groups[rank], x[rank], 1, "a2cid2", "ring", nullptr, &gossip), GSM_OK)
        << gsm_last_error();
    EXPECT_FLOAT_EQ(x[rank][0], 2.5f);
    EXPECT_EQ(gsm_gossip_finish(gossip), GSM_OK) << gsm_last_error();
    EXPECT_EQ(gsm_gossip_free(gossip), GSM_OK);
    EXPECT_EQ(gsm_group_free(groups[rank]), GSM_OK);
  };
  std::thread other([&] { work(1); });
  work(0);
  other.join();
}

TEST_F(CApi, OptionsMayComeFromOtherVersionsOfTheHeader) {
  struct Newer {
    gsm_trainer_options known;
    int64_t more;
  } options{};
  options.known.struct_size = sizeof options;
  gsm_trainer* trainer = nullptr;
  MUST(gsm_trainer_new("resnet8-cifar", 2, &options.known, &trainer));
  MUST(gsm_trainer_free(trainer));
  options.more = 1;
  EXPECT_EQ(gsm_trainer_new("resnet8-cifar", 2, &options.known, &trainer), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("older than the header"));
  options.known.optimizer = "none";  // behind the end of an older struct
  options.known.struct_size = sizeof(size_t);
  MUST(gsm_trainer_new("resnet8-cifar", 2, &options.known, &trainer));
  MUST(gsm_trainer_free(trainer));
}

TEST_F(CApi, AnOptionBelowZeroIsNamed) {
  gsm_group* group = nullptr;
  MUST(gsm_group_local(1, &group));
  float x[1] = {0};
  gsm_gossip_options options{};
  options.struct_size = sizeof options;
  options.rate = -1;
  gsm_gossip* gossip = nullptr;
  EXPECT_EQ(gsm_gossip_new(group, x, 1, "a2cid2", "ring", &options, &gossip), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("gsm_gossip_options.rate is -1; wanted"));
  MUST(gsm_group_free(group));
}

TEST_F(CApi, ADamagedPictureIsToldAndCountsForNoOther) {
  for (const char* name : {"a/1.bmp", "a/2.bmp", "a/3.bmp", "b/1.bmp", "b/2.bmp"}) {
    std::filesystem::create_directories(file(name).parent_path());
    std::ofstream(file(name), std::ios::binary) << bitmap();
  }
  std::ofstream(file("b/3.bmp"), std::ios::binary) << "BM, but nothing more";
  Log log;
  const std::string folder = file("").string();
  const char* paths[] = {folder.c_str()};
  gsm_dataset* set = nullptr;
  MUST(gsm_dataset_open(paths, 1, &set));
  for (const bool in_order : {true, false}) {
    log.lines.clear();
    gsm_loader_options options{};
    options.struct_size = sizeof options;
    options.batch = 6;
    options.in_order = in_order;
    gsm_loader* loader = nullptr;
    MUST(gsm_loader_new(set, &options, &loader));
    std::vector<uint8_t> images(6 * 32 * 32 * 3);
    int32_t labels[6];
    int64_t n = 0;
    MUST(gsm_loader_next(loader, images.data(), labels, &n));
    EXPECT_EQ(n, in_order ? 5 : 6);
    EXPECT_THAT(log.lines, HasSubstr("damaged picture: "));
    EXPECT_THAT(log.lines, HasSubstr("b/3.bmp"));
    MUST(gsm_loader_next(loader, images.data(), labels, &n));
    EXPECT_EQ(n, 0);
    log.lines.clear();
    MUST(gsm_loader_next(loader, images.data(), labels, &n));
    EXPECT_EQ(log.lines, "") << "told again";
    MUST(gsm_loader_free(loader));
  }
  MUST(gsm_dataset_free(set));
}

TEST_F(CApi, LinesGoToTheInstalledFunction) {
  Log log;
  gsm_trainer* trainer = trainer_of_two_classes();
  MUST(gsm_trainer_save(trainer, file("m").c_str(), nullptr));
  MUST(gsm_trainer_free(trainer));
  // As another program might write it: "model" has another name, and it promises no checksums, for
  // the space stands elsewhere than where we put it.
  std::string bytes = contents(file("m"));
  bytes.replace(bytes.find("\"model\""), 7, "\"other\"");
  bytes.replace(bytes.find("{ \"__metadata__\":"), 17, "{\"__metadata__\": ");
  std::ofstream(file("m"), std::ios::binary) << bytes;
  gsm_model* model = nullptr;
  MUST(gsm_model_open(file("m").c_str(), &model));
  MUST(gsm_model_free(model));
  EXPECT_THAT(log.lines, HasSubstr("taken for resnet8-cifar"));
}

// A function that is in the header only would be missing for who opens the library at run time.
TEST_F(CApi, TheTableHoldsEveryFunctionOfTheHeader) {
  const auto header = [](const std::string& name) {
    return contents(std::filesystem::path(GOSSAMER_SOURCE_DIR) / "apps/capi" / name);
  };
  const std::string table = header("gossamer_table.h"),
                    all = header("gossamer.h") + header("gossamer_networks.h") + table;
  const std::regex function(R"(\n(?:gsm_status|const char\*) gsm_(\w+)\()");
  std::size_t count = 0;
  for (std::sregex_iterator m(all.begin(), all.end(), function), end; m != end; ++m, ++count)
    EXPECT_THAT(table, HasSubstr("(*" + (*m)[1].str() + ")("));
  const gsm_api* const api = gsm_get_api(GSM_API_VERSION);
  ASSERT_NE(api, nullptr);
  EXPECT_EQ(api->struct_size, sizeof(size_t) + count * sizeof(void (*)()));
  // The list in base.cpp has the order of the table.
  const auto names = [](const std::string& text, const char* pattern) {
    const std::regex name(pattern);
    std::vector<std::string> out;
    for (std::sregex_iterator m(text.begin(), text.end(), name), end; m != end; ++m)
      out.push_back((*m)[1]);
    return out;
  };
  const std::string base = header("base.cpp");
  const auto listed =
      names(base.substr(base.find("static const gsm_api api{")), R"(\bgsm_(\w+)[,}])");
  EXPECT_EQ(listed, names(table, R"(\(\*(\w+)\)\()"));
  EXPECT_EQ(listed.size(), count);
  EXPECT_STREQ(api->version(), gsm_version());
  gsm_tensor* tensor = nullptr;
  const int64_t shape[] = {2};
  MUST(api->tensor_full(3, GSM_F32, shape, 1, &tensor));
  MUST(gsm_tensor_free(tensor));  // its handles are those of the exported functions
  EXPECT_EQ(gsm_get_api(GSM_API_VERSION + 1), nullptr);
  EXPECT_EQ(gsm_get_api(0), nullptr);
}

}  // namespace
}  // namespace gossamer
