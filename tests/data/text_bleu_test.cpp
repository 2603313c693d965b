// BLEU and chrF against sacreBLEU: tokens of hard lines, scores of small sets (golden/bleu.json).
#include <fstream>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/data/text/bleu.h"
#include "gossamer/data/text/chrf.h"

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
    const std::vector<Lines> references{c["references"].get<Lines>()};
    const Bleu b = bleu(c["translations"].get<Lines>(), references);
    EXPECT_NEAR(chrf(c["translations"].get<Lines>(), references), c["chrf"].get<double>(), 1e-9);
    EXPECT_NEAR(b.score, c["score"].get<double>(), 1e-9) << c["text"];
    EXPECT_EQ(b.text(), "BLEU = " + c["text"].get<std::string>());
  }
  EXPECT_EQ(bleu_signature(), golden()["signature"].get<std::string>());
  EXPECT_EQ(chrf_signature(1), golden()["chrf_signature"].get<std::string>());
}

TEST(BleuScore, ScoresOfSeveralReferencesAreThoseOfSacreBleu) {
  for (const auto& c : golden()["several"]) {
    const auto translations = c["translations"].get<Lines>();
    const auto references = c["references"].get<std::vector<Lines>>();
    const Bleu b = bleu(translations, references);
    EXPECT_NEAR(b.score, c["score"].get<double>(), 1e-9) << c["text"];
    EXPECT_EQ(b.text(), "BLEU = " + c["text"].get<std::string>());
    EXPECT_NEAR(chrf(translations, references), c["chrf"].get<double>(), 1e-9) << c["text"];
    EXPECT_EQ(bleu_signature(references.size()), c["signature"].get<std::string>());
    EXPECT_EQ(chrf_signature(references.size()), c["chrf_signature"].get<std::string>());
  }
  EXPECT_GT(golden()["several"].size(), 6u);
}

TEST(BleuScore, SidesOfDifferentLengthAreRefused) {
  const auto refused = [](const Lines& translations, const std::vector<Lines>& references) {
    EXPECT_THROW(bleu(translations, references), DataError);
    EXPECT_THROW(chrf(translations, references), DataError);
  };
  refused({"a"}, {{"a", "b"}});
  refused({"a"}, {{"a"}, {"a", "b"}});
  refused({"a"}, {});
  refused({}, {{}});
}

}  // namespace
}  // namespace gossamer::data
