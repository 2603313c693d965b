// BLEU against sacreBLEU: tokens of hard lines, scores of small sets (golden/bleu.json).
#include <fstream>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/data/text/bleu.h"

namespace gossamer::data {
namespace {

using Lines = std::vector<std::string>;

const nlohmann::json& golden() {
  static const nlohmann::json all =
      nlohmann::json::parse(std::ifstream(GOSSAMER_SOURCE_DIR "/tests/golden/bleu.json"));
  return all;
}

TEST(BleuScore, TokensAreThoseOfSacreBleu) {
  for (const auto& c : golden()["tokens"])
    EXPECT_EQ(tokens_13a(c["line"].get<std::string>()), c["tokens"].get<Lines>()) << c["line"];
  EXPECT_GT(golden()["tokens"].size(), 15u);
}

TEST(BleuScore, ScoresAreThoseOfSacreBleu) {
  for (const auto& c : golden()["sets"]) {
    const Bleu b = bleu(c["translations"].get<Lines>(), c["references"].get<Lines>());
    EXPECT_NEAR(b.score, c["score"].get<double>(), 1e-9) << c["text"];
    EXPECT_EQ(b.text(), "BLEU = " + c["text"].get<std::string>());
  }
  EXPECT_EQ(std::string(kBleuSignature), golden()["signature"].get<std::string>());
}

TEST(BleuScore, SidesOfDifferentLengthAreRefused) {
  EXPECT_THROW(bleu({"a"}, {"a", "b"}), DataError);
  EXPECT_THROW(bleu({}, {}), DataError);
}

}  // namespace
}  // namespace gossamer::data
