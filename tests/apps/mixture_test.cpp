// What a run on text may be told about its texts: their weights, and documents apart; and Muon,
// which trains it.
#include <cstring>

#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/data/text/text_set.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class Mixture : public LanguageTest {
 protected:
  // "dogs" and "mats" have many documents of one tokenizer, with a mark of their ends.
  void SetUp() override {
    LanguageTest::SetUp();
    write_documents("dogs", "the dog sat on the cat, and the mat ran.", "bpe:270");
    write_documents("mats", "the mat ran, and the cat sat on the dog.", "dogs");
  }
  void write_documents(const std::string& name, const std::string& line, const std::string& by) {
    std::string documents;
    for (int i = 0; i < 400; ++i)
      documents += R"({"text": ")" + line.substr(static_cast<std::size_t>(i % 9)) + "\"}\n";
    write_text(folder / (name + ".jsonl"), documents);
    const Result r = run({"data", "tokenize", name + ".jsonl", "--tokenizer", by, "--val-fraction",
                          "0.1", "--out", name});
    ASSERT_EQ(r.code, 0) << r.err;
  }
  static std::vector<std::string> llama(std::vector<std::string> more) {
    more.insert(more.begin(), {"model.name=llama", "data.train=dogs"});
    return small(std::move(more));
  }
  void expect_refused(const std::vector<std::string>& command, const std::string& says) {
    const Result r = run(command);
    EXPECT_EQ(r.code, 2) << r.out << r.err;
    EXPECT_THAT(r.err, HasSubstr(says));
  }
};

TEST_F(Mixture, TextsByWeightsGoOnBitForBitAndAnotherMixtureIsRefused) {
  const std::vector<std::string> both{"data.train=[\"dogs\", \"mats\"]"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), both.begin(), both.end());
    return small(std::move(more));
  };
  const Result r = run(with({}));
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string unweighted = model();
  fs::remove_all(folder / "runs");
  expect_resumes_bit_for_bit(with({"data.weights=[0.9, 0.1]"}));
  EXPECT_NE(model(), unweighted);
  expect_refused({"train", "--resume", "runs/t", "data.weights=[0.5, 0.5]", "train.epochs=3"},
                 "data.weights = [0.5, 0.5]: runs/t was trained with [0.9, 0.1]; leave "
                 "data.weights out");
  expect_refused({"train", "--resume", "runs/t", "data.weights=[]", "train.epochs=3"},
                 "was trained with [0.9, 0.1]");
  ASSERT_EQ(run({"train", "--resume", "runs/t", "train.epochs=3"}).code, 0);

  expect_refused(with({"data.weights=[1]"}), "data.weights = [1]; it must be");
  expect_refused(with({"data.weights=[1, 0]"}), "data.weights = [1, 0]; it must be");
  expect_refused(with({"data.weights=[1, 1e-9]", "run.name=u"}),
                 "data.weights = [1, 1e-09]: windows: text 2 of weight 1e-09 has no window");
}

TEST_F(Mixture, DocumentsApartChangeTheModelAndGoOnBitForBit) {
  ASSERT_EQ(run(llama({})).code, 0);
  const std::string joined = model();
  fs::remove_all(folder / "runs");
  expect_resumes_bit_for_bit(llama({"data.documents=separate"}));
  EXPECT_NE(model(), joined);
  expect_refused({"train", "--resume", "runs/t", "data.documents=joined", "train.epochs=3"},
                 "data.documents = \"joined\": runs/t was trained with separate");
  expect_refused(small({"data.train=dogs", "data.documents=separate", "run.name=u"}),
                 "only LLaMA's kind of model keeps documents apart");
  expect_refused(llama({"data.documents=apart", "run.name=u"}),
                 "data.documents = \"apart\"; it must be one of joined, separate");
  // characters have no mark of an end
  expect_refused(llama({"data.train=language", "data.documents=separate", "run.name=u"}),
                 "has no mark of the ends of documents");
}

TEST_F(Mixture, MuonLearnsAndGoesOnBitForBit) {
  for (const std::string name : {"muon", "muon-rms"}) {
    SCOPED_TRACE(name);
    const auto command = llama({"optim.name=" + name, "train.epochs=4", "eval.every=1", "--json"});
    const Result r = run(command);
    ASSERT_EQ(r.code, 0) << r.err;
    const std::vector<Json> evaluations = events("eval");
    ASSERT_GE(evaluations.size(), 2u);
    EXPECT_LT(Json::parse(r.out)["loss"].get<double>(),
              evaluations.front()["loss"].get<double>() - 0.1);
    fs::remove_all(folder / "runs");
  }
  expect_resumes_bit_for_bit(llama({"optim.name=muon"}));
  const Result other = run({"train", "--resume", "runs/t", "optim.name=adamw", "train.epochs=3"});
  EXPECT_NE(other.code, 0) << "its state is Muon's";
}

}  // namespace
}  // namespace gossamer::apps
