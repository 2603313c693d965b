// Classes of the data that are not those of the model: no label may come to mean another class
// without a word.
#include <cmath>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/nn/checkpoint.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Classes : public ProgramTest {
 protected:
  // The shapes, with some classes under other names: {"disk", "zdisk"}; "" leaves a class out.
  void renamed(const std::string& set, const std::map<std::string, std::string>& names) const {
    for (const char* part : {"train", "val"})
      for (const auto& entry : fs::directory_iterator(shapes() / part)) {
        const std::string was = entry.path().filename();
        const auto other = names.find(was);
        const std::string is = other == names.end() ? was : other->second;
        if (is.empty()) continue;
        fs::create_directories(folder / set / part);
        fs::copy(entry.path(), folder / set / part / is, fs::copy_options::recursive);
      }
  }
  static std::string first() { return std::string(data::shape_classes()[0]); }
  static std::vector<std::string> of(const std::string& set) {
    return {"data.train=" + set + "/train", "data.val=" + set + "/val"};
  }
  static std::vector<std::string> with(std::vector<std::string> all,
                                       const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Tensor head(const std::string& run) const {
    return *read_safetensors(folder / "runs" / run / "model.safetensors").find("fc.weight");
  }
};

TEST_F(Classes, OfOtherNamesAreNoneToGoOnWith) {
  renamed("r", {{first(), "zz"}});
  for (const std::string workers : {"1", "2"}) {
    const std::string name = "run.name=w" + workers;
    ASSERT_EQ(
        run(tiny({name, "--workers", workers, "run.checkpoint_every=1", "train.batch=4"})).code, 0);
    const std::string model = read_text(folder / "runs" / ("w" + workers) / "model.safetensors");
    for (const std::string& resume : {std::string("auto"), "runs/w" + workers}) {
      const Result r = run(with(
          tiny({name, "--workers", workers, "train.epochs=2", "--resume", resume, "train.batch=4"}),
          of("r")));
      EXPECT_EQ(r.code, 3) << r.out;
      EXPECT_THAT(r.err, AllOf(HasSubstr("E-DATA-03"), HasSubstr("--resume runs/w" + workers),
                               HasSubstr("only in the model: '" + first() + "'"),
                               HasSubstr("only in the data: 'zz'"), HasSubstr("model.init=")));
    }
    EXPECT_EQ(read_text(folder / "runs" / ("w" + workers) / "model.safetensors"), model);
  }
  const Result eval = run({"eval", "runs/w1", "data.val=r/val"});
  EXPECT_EQ(eval.code, 3);
  EXPECT_THAT(eval.err, AllOf(HasSubstr("E-DATA-03"), HasSubstr("the model runs/w1 knows 10"),
                              HasSubstr("only in the data: 'zz'")));
}

TEST_F(Classes, OfAnotherNumberAreNamedBeforeAnythingElseIsSaid) {
  renamed("r", {{first(), ""}});
  ASSERT_EQ(run(tiny({"run.checkpoint_every=1"})).code, 0);
  const Result r = run(with(tiny({"--resume", "auto"}), with(of("r"), {"train.epochs=1.01"})));
  EXPECT_EQ(r.code, 3) << r.out;
  EXPECT_THAT(r.err, AllOf(HasSubstr("E-DATA-03"),
                           HasSubstr("its model knows 10 classes, the data "
                                     "have 9"),
                           HasSubstr("only in the model: '" + first() + "'"),
                           Not(HasSubstr("epochs are done")), Not(HasSubstr("another model"))));
}

// At a rate so low that the values stay where they began.
TEST_F(Classes, OfOtherNamesBeginTheLastLayerAnew) {
  const std::vector<std::string> still{"optim.learning_rate=1e-20", "optim.schedule=constant"};
  renamed("r", {{first(), "zz"}});
  ASSERT_EQ(run(tiny({})).code, 0);
  const auto begun = [&](const std::string& set) {
    const Result r = run(
        with(tiny(with(still, {"model.init=runs/t", "run.name=" + set, "train.seed=5"})), of(set)));
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  const auto kept = [&](const std::string& run) {
    const Tensor a = head("t"), b = head(run);
    double most = 0;
    for (std::size_t i = 0; i < a.span<float>().size(); ++i)
      most = std::max(most, std::abs(double(a.span<float>()[i] - b.span<float>()[i])));
    return most < 1e-6;
  };
  EXPECT_THAT(begun("s"), AllOf(HasSubstr("tensors of the model"), Not(HasSubstr("last layer"))));
  EXPECT_TRUE(kept("s"));
  EXPECT_THAT(begun("r"), HasSubstr("the last layer is drawn, since the classes differ; only in "
                                    "the file: '" +
                                    first() + "'; only in the data: 'zz'"));
  EXPECT_FALSE(kept("r"));
}

// A program may list them as it likes.
TEST_F(Classes, InAnotherOrderTakeTheirRowsWithThem) {
  ASSERT_EQ(run(tiny({})).code, 0);
  SafeTensors file = read_safetensors(folder / "runs/t/model.safetensors");
  const Tensor was = file.find("fc.weight")->clone();
  // the first two classes change places
  std::string& classes = file.metadata["classes"];
  const std::size_t one = classes.find('\n'), two = classes.find('\n', one + 1);
  classes = classes.substr(one + 1, two - one) + classes.substr(0, one) + classes.substr(two);
  for (NamedTensor& t : file.tensors)
    if (t.name.starts_with("fc.")) {
      const Tensor rows = t.tensor.clone();
      t.tensor.slice(0, 1).copy_from(rows.slice(1, 2));
      t.tensor.slice(1, 2).copy_from(rows.slice(0, 1));
    }
  write_safetensors(folder / "x.safetensors", file.tensors, file.metadata);
  const Result r = run(tiny({"model.init=x.safetensors", "optim.learning_rate=1e-20",
                             "optim.schedule=constant", "run.name=x"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("the rows of the last layer follow the names of the classes"));
  const Tensor is = head("x");
  for (std::size_t i = 0; i < was.span<float>().size(); ++i)
    ASSERT_NEAR(is.span<float>()[i], was.span<float>()[i], 1e-6) << i;
}

// Names that are only numbers say nothing about what they stand for.
TEST_F(Classes, ThatAreOnlyNumbersStayInTheirOrder) {
  std::map<std::string, std::string> numbers;
  for (std::size_t i = 0; i < data::shape_classes().size(); ++i)
    numbers[std::string(data::shape_classes()[i])] = std::to_string(i);
  renamed("r", numbers);
  ASSERT_EQ(run(tiny({})).code, 0);
  const Result r = run(with(tiny({"model.init=runs/t", "run.name=r"}), of("r")));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("taken in their order"), Not(HasSubstr("is drawn"))));
}

}  // namespace
}  // namespace gossamer::apps
