// Training from end to end with the real program: files, exact resume, interruption, several
// workers.
#include <gmock/gmock.h>
#include <pty.h>
#include <sys/ioctl.h>

#include "apps/program.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/io/safetensors.h"
#include "support/free_port.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class Train : public ProgramTest {
 protected:
  static std::vector<std::string> with_workers(int n, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--workers", std::to_string(n)});
    return arguments;
  }
};

TEST_F(Train, OneWorkerWritesEverythingItPromises) {
  const Result r = run(tiny({"run.trace=true", "eval.every=0.5"}));
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  const fs::path at = folder / "runs/t";
  for (const char* name : {"config.toml", "log.jsonl", "summary.json", "model.safetensors",
                           "report.html", "trace.json"})
    EXPECT_TRUE(fs::exists(at / name)) << name;
  const Json s = summary();
  for (const char* key : {"top1", "top5", "images_per_s", "wall_s", "exchanges_per_gradient",
                          "consensus_distance", "parameters", "damaged_images"})
    EXPECT_TRUE(s[key].is_number()) << key;
  EXPECT_EQ(s["val_images"], 40);
  EXPECT_EQ(s["samples"], 96);
  EXPECT_GE(s["top5"].get<double>(), s["top1"].get<double>());
  EXPECT_EQ(events("step").size(), 12u);
  EXPECT_EQ(events("eval").size(), 2u);  // one on the way, one at the end
  EXPECT_EQ(events("summary").size(), 1u);
  EXPECT_THAT(read_text(at / "report.html"), HasSubstr("<svg"));
  EXPECT_GT(Json::parse(read_text(at / "trace.json"))["traceEvents"].size(), 12u);

  // The file is a whole model: eval gets the very same numbers from it.
  const Result e = run({"eval", "runs/t/model.safetensors", "data.val=s/val", "--json"});
  ASSERT_EQ(e.code, 0) << e.err;
  EXPECT_NEAR(Json::parse(e.out)["top1"].get<double>(), s["top1"].get<double>(), 1e-9);
  const Result c = run({"classify", "runs/t/model.safetensors",
                        (shapes() / "val").string() + "/" +
                            std::string(*data::shape_classes().begin()) + "/none.jpg"});
  EXPECT_EQ(c.code, 3) << c.err;
}

TEST_F(Train, ClassifyNamesTheClassesOfTheData) {
  ASSERT_EQ(run(tiny({})).code, 0);
  fs::path image;
  for (const auto& e : fs::recursive_directory_iterator(shapes() / "val"))
    if (e.path().extension() == ".jpg") image = e.path();
  const Result r = run({"classify", "runs/t/model.safetensors", image.string(), "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json top = Json::parse(r.out)["top"];
  ASSERT_EQ(top.size(), 5u);
  EXPECT_THAT(data::shape_classes(), ::testing::Contains(top[0]["class"].get<std::string>()));
  EXPECT_GE(top[0]["probability"].get<double>(), top[1]["probability"].get<double>());
}

TEST_F(Train, ClassifyTakesAFolderAndGoesOnAfterABadPicture) {
  ASSERT_EQ(run(tiny({"train.epochs=0.2"})).code, 0);
  fs::create_directories(folder / "new/more");
  fs::create_directories(folder / "none");
  fs::path image;
  for (const auto& e : fs::recursive_directory_iterator(shapes() / "val"))
    if (e.path().extension() == ".jpg") image = e.path();
  fs::copy_file(image, folder / "new/1.jpg");
  write_text(folder / "new/2.jpg", "no picture");
  fs::copy_file(image, folder / "new/more/3.jpg");
  write_text(folder / "new/notes.txt", "no picture");
  const Result r = run({"classify", "runs/t/model.safetensors", "none", "new", image.string()});
  EXPECT_EQ(r.code, 3);
  EXPECT_THAT(r.out, AllOf(HasSubstr("new/1.jpg\n"), HasSubstr("new/more/3.jpg\n"),
                           HasSubstr("\n" + image.string() + "\n"), Not(HasSubstr("2.jpg"))));
  EXPECT_THAT(r.err, AllOf(HasSubstr("none: this folder holds no pictures"), HasSubstr("new/2.jpg"),
                           Not(HasSubstr("notes"))));
  const Result json = run({"classify", "runs/t/model.safetensors", "new", "--json"});
  EXPECT_EQ(json.code, 3);
  std::istringstream lines(json.out);
  std::vector<bool> bad;
  for (std::string line; std::getline(lines, line);)
    bad.push_back(Json::parse(line).contains("error"));
  EXPECT_EQ(bad, (std::vector<bool>{false, true, false}));
}

TEST_F(Train, WhatNeedsAGpuSaysSo) {
  const Result on = run(tiny({"train.cuda_graph=on"}));
  EXPECT_EQ(on.code, 2);
  EXPECT_THAT(on.err, HasSubstr("train.cuda_graph=on needs a GPU"));
  const Result tf32 = run(tiny({"train.tf32=true"})),
               half = run(tiny({"train.tf32=true", "train.dtype=bf16"}));
  EXPECT_EQ(tf32.code, 2);
  EXPECT_THAT(tf32.err, HasSubstr("train.tf32=true needs a GPU"));
  EXPECT_EQ(half.code, 2);
  EXPECT_THAT(half.err, HasSubstr("train.tf32 = true; it must be false unless train.dtype=f32"));
  if (cuda::device_count() > 0) GTEST_SKIP() << "this machine has a GPU";
  const Result cuda = run(tiny({"train.device=cuda"}));
  EXPECT_EQ(cuda.code, 4);
  EXPECT_THAT(cuda.err, HasSubstr("device cuda: "));
}

TEST_F(Train, WithoutMomentumNesterovMeansNothing) {
  const Result r = run(tiny({"optim.momentum=0", "run.report=false"}));
  EXPECT_EQ(r.code, 0) << r.err;
}

TEST_F(Train, TheSameSeedGivesTheSameBits) {
  ASSERT_EQ(run(tiny({"run.name=a"})).code, 0);
  ASSERT_EQ(run(tiny({"run.name=b"})).code, 0);
  ASSERT_EQ(run(tiny({"run.name=c", "train.seed=1"})).code, 0);
  expect_same_tensors(folder / "runs/a/model.safetensors", folder / "runs/b/model.safetensors");
  EXPECT_NE(read_text(folder / "runs/a/model.safetensors"),
            read_text(folder / "runs/c/model.safetensors"));
}

TEST_F(Train, ARunWhoseTerminalIsClosedSavesAndGoesOn) {
  for (const int workers : {1, 2}) {
    SCOPED_TRACE(workers);
    fs::remove_all(folder / "runs");
    int terminal = -1, inside = -1;
    ASSERT_EQ(openpty(&terminal, &inside, nullptr, nullptr, nullptr), 0);
    in_child = [&] {
      setsid();
      ioctl(inside, TIOCSCTTY, 0);
      for (const int stream : {0, 1, 2}) dup2(inside, stream);
      close(terminal);
      close(inside);
    };
    start(with_workers(workers, tiny({"train.epochs=500"})));
    close(inside);
    const auto pids = workers_at_work(workers);
    ASSERT_EQ(pids.size(), static_cast<std::size_t>(workers));
    close(terminal);
    // as the shell does, which sends it to its jobs once more
    kill(running, SIGHUP);
    EXPECT_EQ(wait().code, 143);
    EXPECT_EQ(events("interrupted").size(), static_cast<std::size_t>(workers));
    in_child = nullptr;
    const Result r = run({"train", "--resume", "runs/t", "train.epochs=1"});
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(summary()["workers"], workers);
  }
}

TEST_F(Train, UnderNohupTheEndOfTheSessionIsIgnored) {
  for (const int workers : {1, 2}) {
    fs::remove_all(folder / "runs");
    in_child = [] { signal(SIGHUP, SIG_IGN); };
    start(with_workers(workers, tiny({"train.epochs=8"})));
    EXPECT_EQ(workers_at_work(workers).size(), static_cast<std::size_t>(workers));
    kill(running, SIGHUP);
    EXPECT_EQ(wait().code, 0) << workers;
  }
}

TEST_F(Train, WithoutAReaderOfItsOutputARunGoesOn) {
  program = "/bin/sh";
  for (const int workers : {1, 2}) {
    SCOPED_TRACE(workers);
    fs::remove_all(folder / "runs");
    std::string command = GOSSAMER_PROGRAM;
    for (const std::string& a : with_workers(workers, tiny({"train.epochs=3"})))
      command += " '" + a + "'";
    const Result r = run({"-c", "{ " + command + " 2>&1; echo $? >code; } | head -1"});
    EXPECT_EQ(read_text(folder / "code"), "0\n") << r.out << r.err;
    EXPECT_EQ(std::ranges::count(r.out, '\n'), 1) << r.out;
    EXPECT_EQ(summary()["workers_at_end"], workers);
  }
}

TEST_F(Train, ARefusedResumeChangesNothing) {
  ASSERT_EQ(run(tiny({"train.epochs=2", "run.checkpoint_every=1"})).code, 0);
  const auto config = read_text(folder / "runs/t/config.toml");
  const Result refused =
      run({"train", "--resume", "runs/t", "model.name=resnet20-cifar", "train.epochs=3"});
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_EQ(read_text(folder / "runs/t/config.toml"), config);
  EXPECT_TRUE(fs::exists(folder / "runs/t/summary.json"));
  // Where nothing but the tensors says which model it was.
  fs::remove(folder / "runs/t/config.toml");
  EXPECT_EQ(run(tiny({"model.name=resnet20-cifar", "train.epochs=3", "--resume", "runs/t"})).code,
            6);
  EXPECT_FALSE(fs::exists(folder / "runs/t/config.toml"));
  EXPECT_TRUE(fs::exists(folder / "runs/t/summary.json"));
}

TEST_F(Train, AnOlderRunOfTheSameNameIsKept) {
  ASSERT_EQ(run(tiny({})).code, 0);
  ASSERT_EQ(run(tiny({})).code, 0);
  EXPECT_TRUE(fs::exists(folder / "runs/t/summary.json"));
  EXPECT_TRUE(fs::exists(folder / "runs/t.1/summary.json"));
}

TEST_F(Train, TwoWorkersEndWithOneModelByEveryMethod) {
  for (const std::string method : {"a2cid2", "adpsgd", "async-tracking", "allreduce"}) {
    SCOPED_TRACE(method);
    const Result r = run(
        with_workers(2, tiny({"run.name=" + method, "train.method=" + method, "train.epochs=2"})));
    ASSERT_EQ(r.code, 0) << r.out << r.err;
    const Json s = summary(method);
    EXPECT_EQ(s["workers_at_end"], 2);
    EXPECT_EQ(s["val_images"], 40);  // each image once, whoever evaluated it
    EXPECT_GE(s["samples"].get<double>(), 192);
    EXPECT_EQ(s["samples"].get<double>(), 8 * s["gradients"].get<double>());
    EXPECT_EQ(s["each_worker"].size(), 2u);
    double most = 0;
    for (const Json& row : s["each_worker"]) {
      EXPECT_GT(row["gradients"].get<double>(), 0);
      most = std::max(most, row["peak_bytes"].get<double>());
    }
    EXPECT_GT(most, 0);
    EXPECT_EQ(s["peak_bytes"], most) << "the most memory of a worker";
    EXPECT_GT(s["resident_bytes"], s["peak_bytes"]);
    EXPECT_THAT(read_text(folder / "runs" / method / "report.html"), HasSubstr("main memory"));
    EXPECT_THAT(s["batch_norm"].get<std::string>(), HasSubstr("re-estimated"));
    const Result e =
        run({"eval", "runs/" + method + "/model.safetensors", "data.val=s/val", "--json"});
    EXPECT_NEAR(Json::parse(e.out)["top1"].get<double>(), s["top1"].get<double>(), 1e-9);
  }
}

TEST_F(Train, WorkersWithUnlikeDataEndWithOneModelAndTheSharesMatter) {
  const auto with = [&](const std::string& shard, const std::string& name) {
    const Result r = run(
        with_workers(2, tiny({"train.method=dpsgd", "data.shard=" + shard, "run.name=" + name})));
    EXPECT_EQ(r.code, 0) << r.out << r.err;
    return read_text(folder / "runs" / name / "model.safetensors");
  };
  const std::string unlike = with("dirichlet:1", "unlike");
  EXPECT_EQ(unlike, with("dirichlet:1", "again"));
  EXPECT_NE(unlike, with("false", "alike"));
}

TEST_F(Train, TwoWorkersStopOnCtrlCAndGoOn) {
  start(with_workers(2, tiny({"train.epochs=40"})));
  ASSERT_TRUE(wait_for("step", 8));
  kill(running, SIGINT);
  const Result stopped = wait(30);
  ASSERT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_EQ(events("interrupted").size(), 2u);
  EXPECT_EQ(events("fault").size(), 0u);  // a planned departure is none
  EXPECT_EQ(summary().is_discarded(), true);
  // As if an older version had written the configuration. A key of that version is named once.
  std::string saved = read_text(folder / "runs/t/config.toml");
  saved.insert(saved.find("[data]\n") + 7, "decoder = \"cpu\"\n");
  write_text(folder / "runs/t/config.toml", saved);
  // The budget may be changed on the way: here it ends soon.
  // As many workers as wrote the checkpoint.
  const Result r = run({"train", "train.epochs=3", "--resume", "runs/t"});
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  const std::size_t noted = r.err.find("data.decoder no longer has an effect");
  EXPECT_NE(noted, std::string::npos) << r.err;
  EXPECT_EQ(r.err.find("data.decoder", noted + 1), std::string::npos) << r.err;
  EXPECT_EQ(summary()["workers_at_end"], 2);
}

TEST_F(Train, AllReduceResumesWithOneModelEvenIfTheWorkersWereCaughtAStepApart) {
  ASSERT_EQ(run(with_workers(2, tiny({"train.method=allreduce", "run.checkpoint_every=0.5"}))).code,
            0);
  const fs::path checkpoints = folder / "runs/t/checkpoints";
  fs::copy_file(checkpoints / "samples-000000000048/rank-1.safetensors",
                checkpoints / "samples-000000000096/rank-1.safetensors",
                fs::copy_options::overwrite_existing);
  const Result r = run(with_workers(2, {"train", "train.epochs=2", "--resume", "runs/t"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_LT(summary()["consensus_distance"].get<double>(), 1e-5);
}

TEST_F(Train, ResumingWithAnotherNumberOfWorkersStartsFromTheMean) {
  ASSERT_EQ(run(with_workers(2, tiny({"run.checkpoint_every=0.5", "train.bn_batches=0"}))).code, 0);
  const Result r = run({"train", "train.epochs=2", "--workers", "1", "--resume", "runs/t"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(summary()["workers"], 1);
  EXPECT_THAT(r.out, HasSubstr("from the mean of 2 models"));
}

TEST_F(Train, WorkersCanBeStartedByAnyLauncher) {
  // What torchrun sets. Both ranks by hand, the second as a child of this test.
  const std::vector<std::string> common{
      "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
      "MASTER_PORT=" + std::to_string(gossamer::testing::free_port())};
  auto first = common, second = common;
  first.insert(first.end(), {"RANK=0", "LOCAL_RANK=0"});
  second.insert(second.end(), {"RANK=1", "LOCAL_RANK=1"});
  const pid_t other = start(tiny({"data.threads=2", "run.log_every=7"}), second);
  const Result r = run(tiny({}), first);
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(summary()["launcher"], "torchrun");
  EXPECT_EQ(summary()["workers_at_end"], 2);
  EXPECT_THAT(r.out, HasSubstr("token    made of this user's secret in "));
  EXPECT_THAT(summary()["warnings"].dump(), Not(HasSubstr("dist.open")));
}

TEST_F(Train, WorkersOfSeveralMachinesNeedASecretOrInsist) {
  const Result refused =
      run(tiny({}), {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=192.0.2.1", "MASTER_PORT=2000"});
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("openssl rand -hex 16 > ~/.gossamer-token"),
                                 HasSubstr("GOSSAMER_TOKEN_FILE"), HasSubstr("open=true")));
  // By hand on one machine: in the clear, encrypted.
  for (const char* tls : {"off", "on"}) {
    const std::vector<std::string> common{
        "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
        "MASTER_PORT=" + std::to_string(gossamer::testing::free_port())};
    auto first = common, second = common;
    first.insert(first.end(), {"RANK=0", "LOCAL_RANK=0"});
    second.insert(second.end(), {"RANK=1", "LOCAL_RANK=1"});
    const std::vector<std::string> keys{"dist.open=true", std::string("dist.tls=") + tls};
    const pid_t other = start(tiny(keys), second);
    const Result r = run(tiny(keys), first);
    int status = 0;
    waitpid(other, &status, 0);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_THAT(r.err, HasSubstr("this run has no secret (dist.open=true)"));
    EXPECT_THAT(summary()["warnings"].dump(), HasSubstr("this run has no secret"));
    EXPECT_THAT(r.out, *tls == 'o' && tls[1] == 'n'
                           ? ::testing::Matcher<std::string>(HasSubstr("links    encrypted"))
                           : Not(HasSubstr("links    encrypted")));
  }
}

// One of them would ruin all models, and nobody would know why.
TEST_F(Train, WorkersThatWereStartedWithOtherKeysAreRefusedWithTheKeyAndBothValues) {
  const auto refused = [&](const std::string& key, const std::string& one,
                           const std::string& other) {
    const std::vector<std::string> common{
        "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
        "MASTER_PORT=" + std::to_string(gossamer::testing::free_port())};
    auto first = common, second = common;
    first.insert(first.end(), {"RANK=0", "LOCAL_RANK=0"});
    second.insert(second.end(), {"RANK=1", "LOCAL_RANK=1"});
    const pid_t peer = start(tiny({key + "=" + other}), second);
    const Result r = run(tiny({key + "=" + one}), first);
    int status = 0;
    waitpid(peer, &status, 0);
    EXPECT_EQ(r.code, 5) << r.err;
    EXPECT_EQ(WEXITSTATUS(status), 5);
    EXPECT_THAT(r.err, HasSubstr("workers 0 and 1 do not agree on " + key + ": " + one + " and " +
                                 other + "; start all workers with the same"));
  };
  refused("optim.learning_rate", "0.1", "100");
  refused("train.seed", "1", "2");
  refused("eval.every", "0", "1");
}

}  // namespace
}  // namespace gossamer::apps
