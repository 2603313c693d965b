// Mistakes that users make in their first hours: each error names what they wrote and what to do.
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "capi/calls.h"
#include "capi/trainers.h"
#include "gossamer/apps/capi/dlpack.h"

namespace gossamer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CAdvice : public CTrainer {
 protected:
  void SetUp() override {
    CTrainer::SetUp();
    MUST(gsm_module_new("linear in=2 out=3; relu; head: linear in=3 out=1", 1, &net_));
    MUST(gsm_params_new(&params_));
    MUST(gsm_params_add_module(params_, nullptr, net_));
    MUST(gsm_optimizer_new(params_, "sgd", nullptr, &sgd_));
  }
  void TearDown() override {
    EXPECT_EQ(gsm_optimizer_free(sgd_), GSM_OK);
    EXPECT_EQ(gsm_params_free(params_), GSM_OK);
    EXPECT_EQ(gsm_module_free(net_), GSM_OK);
    CTrainer::TearDown();
  }
  // A GPT-2 in a file.
  std::string language_model() {
    gsm_trainer_options o = options();
    o.model_options = "layers=1 width=32 heads=1 positions=8";
    gsm_trainer* trainer = make("gpt2", 16, o);
    std::string path = file("gpt2.safetensors").string();
    EXPECT_EQ(gsm_trainer_save(trainer, path.c_str(), nullptr), GSM_OK) << gsm_last_error();
    return path;
  }

  Scope scope_;
  gsm_module* net_ = nullptr;
  gsm_params* params_ = nullptr;
  gsm_optimizer* sgd_ = nullptr;
};

TEST_F(CAdvice, LayersThatDoNotFitAreNamed) {
  gsm_module* none = nullptr;
  REFUSED(gsm_module_new("relu\nlinear in=3", 1, &none), GSM_ERROR_CONFIG,
          HasSubstr("line 2, linear: out is missing; it must be 1 to "));
  REFUSED(gsm_module_new("relu\nconv in=3 out=4 groups=2", 1, &none), GSM_ERROR_CONFIG,
          HasSubstr("line 2, conv: "));
  gsm_tensor* y = nullptr;
  REFUSED(gsm_module_forward(net_, normal({4, 3}, 1), 1, &y), GSM_ERROR_ARGUMENT,
          HasSubstr("layer 0: linear: x [4, 3] and w [3, 2] do not fit"));
  gsm_module* unlike = nullptr;
  MUST(gsm_module_new("linear in=2 out=3; head: linear in=4 out=1", 1, &unlike));
  REFUSED(gsm_module_forward(unlike, normal({4, 2}, 1), 1, &y), GSM_ERROR_ARGUMENT,
          HasSubstr("layer head: linear: x [4, 3] and w [1, 4] do not fit"));
  MUST(gsm_module_free(unlike));
}

TEST_F(CAdvice, IntegersWhereFloatsBelongAreToldHowInC) {
  gsm_tensor* y = nullptr;
  gsm_tensor* const ids = integers({2}, {0, 1});
  REFUSED(gsm_relu(ids, &y), GSM_ERROR_ARGUMENT, HasSubstr("in C give gsm_tensor_copy floats"));
  REFUSED(gsm_cast(ids, GSM_F32, &y), GSM_ERROR_ARGUMENT,
          HasSubstr("in C give gsm_tensor_copy floats"));
  REFUSED(gsm_module_forward(net_, integers({1, 2}, {0, 1}), 1, &y), GSM_ERROR_ARGUMENT,
          HasSubstr("in C give gsm_tensor_copy floats"));
}

TEST_F(CAdvice, BoundsAreSaid) {
  gsm_tensor* y = nullptr;
  REFUSED(gsm_slice(normal({2, 3}, 1), 1, 2, 5, &y), GSM_ERROR_ARGUMENT,
          HasSubstr("both in 0 … 3"));
  REFUSED(gsm_attention(normal({2, 3}, 1), 1, 1, nullptr, &y), GSM_ERROR_ARGUMENT,
          HasSubstr("wanted [B, T, 3 H D]"));
  REFUSED(gsm_params_tensor(params_, 4, &y), GSM_ERROR_ARGUMENT,
          HasSubstr("there is no parameter 4; there are 4, counted from 0"));
  gsm_trainer* trainer = make(options());
  gsm_parameter_info_t info{};
  info.struct_size = sizeof info;
  REFUSED(gsm_trainer_parameter_info(trainer, -1, &info), GSM_ERROR_ARGUMENT,
          HasSubstr("there is no parameter -1; there are "));
  const char* what = nullptr;
  REFUSED(gsm_trainer_init_left(trainer, 0, &what), GSM_ERROR_ARGUMENT,
          HasSubstr("there is no unfit tensor 0; there are 0"));
  const std::string path = file("m").string();
  MUST(gsm_trainer_save(trainer, path.c_str(), nullptr));
  gsm_model* model = nullptr;
  MUST(gsm_model_open(path.c_str(), &model));
  REFUSED(gsm_model_class_name(model, 2, &what), GSM_ERROR_ARGUMENT,
          HasSubstr("there is no class 2; there are 2, counted from 0"));
  MUST(gsm_model_free(model));
}

TEST_F(CAdvice, AnOptionIsNamedAsItWasWritten) {
  gsm_group* group = nullptr;
  MUST(gsm_group_local(1, &group));
  gsm_gossip_options o{};
  o.struct_size = sizeof o;
  o.rate = 1e9;
  float x = 0;
  gsm_gossip* none = nullptr;
  REFUSED(gsm_gossip_new(group, &x, 1, "a2cid2", "ring", &o, &none), GSM_ERROR_CONFIG,
          AllOf(HasSubstr("gsm_gossip_options: rate 1e+09"), Not(HasSubstr("settings"))));
  MUST(gsm_group_free(group));
  gsm_trainer_options of = options();
  of.label_smoothing = 1;
  gsm_trainer* trainer = nullptr;
  REFUSED(gsm_trainer_new("resnet8-cifar", 2, &of, &trainer), GSM_ERROR_ARGUMENT,
          HasSubstr("gsm_trainer_options.label_smoothing is 1; it must be below 1"));
}

TEST_F(CAdvice, ANewHeadIsNotSaidToBeMissingInTheFile) {
  gsm_trainer* before = make(options());
  const std::string path = file("m").string();
  MUST(gsm_trainer_save(before, path.c_str(), nullptr));
  gsm_trainer_options o = options();
  o.init = path.c_str();
  o.new_head = 1;
  gsm_trainer* trainer = make(o);
  const char* what = nullptr;
  MUST(gsm_trainer_init_left(trainer, 0, &what));
  EXPECT_STREQ(what, "fc.weight is drawn anew, as new_head says");
}

TEST_F(CAdvice, TheAverageOfWhatIsFrozenIsItsValue) {
  gsm_trainer_options o = options();
  o.ema = .5;
  o.freeze = "conv1, bn1";
  gsm_trainer* trainer = make(o);
  gradient(trainer);
  MUST(gsm_trainer_step(trainer, .1));
  for (const char* name : {"conv1.weight", "bn1.weight", "bn1.running_mean"}) {
    std::vector<float> average = read(trainer, name, GSM_AVERAGE);
    EXPECT_EQ(average, read(trainer, name)) << name;
    REFUSED(gsm_trainer_parameter_write(trainer, index_of(trainer, name), GSM_AVERAGE,
                                        average.data(), static_cast<int64_t>(average.size())),
            GSM_ERROR_CONFIG, HasSubstr("use GSM_VALUE"));
  }
}

// Its convolutions lie otherwise, so some would fit with wrong numbers.
TEST_F(CAdvice, AStateIsNoModel) {
  gsm_trainer* trainer = make(options());
  const std::string path = file("state").string();
  MUST(gsm_trainer_state_save(trainer, path.c_str()));
  const auto says = HasSubstr("gsm_trainer_state_load takes such a state");
  gsm_model* model = nullptr;
  REFUSED(gsm_model_open(path.c_str(), &model), GSM_ERROR_FILE, says);
  const std::string bytes = state(trainer);
  REFUSED(gsm_model_open_memory(bytes.data(), bytes.size(), &model), GSM_ERROR_FILE, says);
  REFUSED(gsm_trainer_load(trainer, path.c_str()), GSM_ERROR_FILE, says);
  REFUSED(gsm_params_load(params_, path.c_str()), GSM_ERROR_FILE, says);
  gsm_trainer* none = nullptr;
  gsm_trainer_options o = options();
  o.init = path.c_str();
  for (const char* name : {"resnet8-cifar", static_cast<const char*>(nullptr)})
    REFUSED(gsm_trainer_new(name, 2, &o, &none), GSM_ERROR_FILE, says);
  gsm_trainer_options of = options();
  of.model_options = "layers=1 width=32 heads=1 positions=8";
  MUST(gsm_trainer_state_save(make("gpt2", 16, of), path.c_str()));
  gsm_language* language = nullptr;
  REFUSED(gsm_language_open(path.c_str(), nullptr, &language), GSM_ERROR_FILE, says);
  REFUSED(gsm_trainer_new("gpt2", 16, &o, &none), GSM_ERROR_FILE, says);
}

TEST_F(CAdvice, AStateThatIsNotFiniteIsTheCallersFault) {
  gsm_tensor* w = nullptr;
  MUST(gsm_params_tensor(params_, 0, &w));
  write(w, std::vector<float>(6, NAN));
  gsm_bytes* none = nullptr;
  REFUSED(gsm_optimizer_state_memory(sgd_, &none), GSM_ERROR_ARGUMENT,
          AllOf(HasSubstr("\"0.weight\" holds values that are not finite"),
                HasSubstr("load an earlier state")));
}

TEST_F(CAdvice, TheParameterWhoseGradientIsNotFiniteIsNamed) {
  gsm_tensor* y = op(gsm_module_forward, net_, numbers({1, 2}, {NAN, 1}), 1);
  MUST(gsm_params_zero_grad(params_));
  MUST(gsm_backward(op(gsm_mean, y)));
  const auto says = AllOf(HasSubstr("the gradient of "), HasSubstr(".weight is infinite or not"),
                          HasSubstr("in the data"));
  REFUSED(gsm_optimizer_step(sgd_, .1), GSM_ERROR_ARGUMENT, says);
  REFUSED(gsm_params_clip_grad(params_, 1, nullptr), GSM_ERROR_ARGUMENT, says);
}

TEST_F(CAdvice, ALanguageModelIsSentToItsCall) {
  const std::string path = language_model();
  gsm_model* none = nullptr;
  REFUSED(gsm_model_open(path.c_str(), &none), GSM_ERROR_FILE,
          HasSubstr("is a language model; gsm_language_open opens it"));
}

TEST_F(CAdvice, AFolderThatCouldNotBeWrittenWholeIsGone) {
  const std::string path = language_model(), folder = file("exported").string();
  gsm_language* language = nullptr;
  MUST(gsm_language_open(path.c_str(), nullptr, &language));
  std::filesystem::create_directory(file("empty"));
  // Files may have 4 KiB, as on a disk that is nearly full.
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = old;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  const gsm_status made = gsm_language_export(language, folder.c_str(), nullptr);
  const gsm_status filled = gsm_language_export(language, file("empty").string().c_str(), nullptr);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(made, GSM_ERROR_FILE);
  EXPECT_EQ(filled, GSM_ERROR_FILE);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_TRUE(std::filesystem::is_empty(file("empty")));
  for (const std::string& each : {folder, file("empty").string()})
    EXPECT_EQ(gsm_language_export(language, each.c_str(), nullptr), GSM_OK) << gsm_last_error();
  // what was there before stays
  REFUSED(gsm_language_export(language, folder.c_str(), nullptr), GSM_ERROR_CONFIG,
          HasSubstr("is there already"));
  EXPECT_TRUE(std::filesystem::exists(file("exported") / "model.safetensors"));
  MUST(gsm_language_free(language));
}

TEST_F(CAdvice, ARoleThatNobodyHasIsNamed) {
  std::ofstream(file("characters.json")) << R"(["a","b"])";
  gsm_tokenizer* tokenizer = nullptr;
  MUST(gsm_tokenizer_open(folder_.string().c_str(), &tokenizer));
  const gsm_message messages[] = {{"user", "a"}, {"assistent", "b"}};
  int64_t n = 0;
  REFUSED(gsm_tokenizer_chat(tokenizer, "chatml", messages, 2, 1, nullptr, &n, nullptr),
          GSM_ERROR_CONFIG,
          HasSubstr("messages[1].role is \"assistent\"; wanted system, user or assistant"));
  MUST(gsm_tokenizer_free(tokenizer));
}

TEST_F(CAdvice, LanesAreNoMatterOfTheDevice) {
  float x[4] = {};
  int64_t shape[] = {1};
  DLManagedTensor of{};
  of.dl_tensor.data = x;
  of.dl_tensor.device = {1, 0};
  of.dl_tensor.ndim = 1;
  of.dl_tensor.dtype = {2, 32, 4};
  of.dl_tensor.shape = shape;
  gsm_tensor* none = nullptr;
  REFUSED(gsm_tensor_from_dlpack(&of, &none), GSM_ERROR_ARGUMENT,
          HasSubstr("the numbers of the tensor have 4 lanes; wanted 1"));
  of.dl_tensor.device = {2, 0};
  REFUSED(gsm_tensor_from_dlpack(&of, &none), GSM_ERROR_ARGUMENT, HasSubstr("not one of a CPU"));
}

}  // namespace
}  // namespace gossamer
