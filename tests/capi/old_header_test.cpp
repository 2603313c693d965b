// A program that was built against the header of version 2, whose structs were shorter, and runs
// with today's library. gossamer-2.h is that header as it was released.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <stddef.h>
#include <stdint.h>

#include "support/temp_folder.h"

namespace old {
#include "capi/gossamer-2.h"
}  // namespace old

namespace gossamer {
namespace {

using namespace old;

#define MUST(call) ASSERT_EQ(call, GSM_OK) << gsm_last_error()

class OldHeader : public InTempFolder {};

TEST_F(OldHeader, ItsProgramsTrainSaveAndClassify) {
  gsm_trainer_options options{};
  options.struct_size = sizeof options;
  options.optimizer = "adamw";
  options.weight_decay = 1e-4;
  options.seed = 3;
  gsm_trainer* trainer = nullptr;
  MUST(gsm_trainer_new("resnet8-cifar", 2, &options, &trainer));
  std::vector<uint8_t> pixels(2 * 192, 40);
  std::fill(pixels.begin() + 192, pixels.end(), 200);
  const int32_t labels[] = {0, 1};
  float loss = 0, last = 0;
  MUST(gsm_trainer_gradient(trainer, pixels.data(), labels, 2, 8, 8, &loss));
  for (int i = 0; i < 20; ++i) {
    MUST(gsm_trainer_step(trainer, .01));
    MUST(gsm_trainer_gradient(trainer, pixels.data(), labels, 2, 8, 8, &last));
  }
  EXPECT_LT(last, loss / 2);
  const std::string path = file("m.safetensors").string();
  MUST(gsm_trainer_save(trainer, path.c_str(), nullptr));
  MUST(gsm_trainer_free(trainer));

  gsm_model* model = nullptr;
  MUST(gsm_model_open(path.c_str(), &model));
  // what lies behind the struct of that header stays the caller's
  struct {
    gsm_model_info_t info;
    int64_t behind;
  } room{};
  room.info.struct_size = sizeof room.info;
  room.behind = 7;
  MUST(gsm_model_info(model, &room.info));
  EXPECT_EQ(room.info.struct_size, sizeof room.info);
  EXPECT_STREQ(room.info.name, "resnet8-cifar");
  EXPECT_EQ(room.behind, 7);
  MUST(gsm_model_free(model));
}

TEST_F(OldHeader, ItsTableIsTheBeginningOfTodays) {
  const gsm_api* api = gsm_get_api(GSM_API_VERSION);
  ASSERT_NE(api, nullptr);
  EXPECT_GE(api->struct_size, sizeof(gsm_api));
  gsm_group* group = nullptr;
  MUST(api->group_local(1, &group));
  float x[2] = {1, 2}, update[2] = {.5F, .5F};
  gsm_gossip_options options{};
  options.struct_size = sizeof options;
  options.settings = "pairing=handshake";
  gsm_gossip* gossip = nullptr;
  MUST(api->gossip_new(group, x, 2, "a2cid2", "ring", &options, &gossip));
  MUST(api->gossip_step(gossip, update));
  EXPECT_EQ(x[1], 1.5F);
  MUST(api->gossip_free(gossip));
  MUST(api->group_free(group));
  gsm_join_options join{};
  join.struct_size = sizeof join;
  MUST(api->group_join_with(&join, &group));
  MUST(api->group_free(group));
}

}  // namespace
}  // namespace gossamer
