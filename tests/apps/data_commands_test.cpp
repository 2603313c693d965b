// gossamer data check, index, pack from outside: texts, exit codes, codes of errors; packing goes
// on after a kill.
#include <gmock/gmock.h>

#include "apps/program.h"
#include "data/formats.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class DataCommands : public ProgramTest {
 protected:
  void write(const std::string& name, const data::Bytes& bytes) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  void write(const std::string& name, const std::string& text) {
    write(name, data::to_bytes(text));
  }
  // Ten pictures in two classes.
  void make_set(const std::string& in, int count = 10, int side = 60) {
    for (int i = 0; i < count; ++i)
      write(in + "/" + (i % 2 ? "dog" : "cat") + "/" + std::to_string(1000 + i) + ".jpg",
            data::encode_jpeg(data::pattern(side + i % 7, side)));
  }
  // One line on stderr with the code of the error and these parts, nothing on stdout.
  void expect_error(const std::vector<std::string>& arguments, int code,
                    const std::string& error_code, const std::vector<std::string>& says) {
    const Result r = run(arguments);
    EXPECT_EQ(r.code, code) << r.out << r.err;
    if (arguments[0] != "train") EXPECT_EQ(r.out, "");
    EXPECT_EQ(std::ranges::count(r.err, '\n'), 1) << r.err;
    EXPECT_THAT(r.err, StartsWith("gossamer: " + error_code));
    for (const std::string& text : says) EXPECT_THAT(r.err, HasSubstr(text));
  }
  std::vector<std::string> packs(const std::string& in) {
    std::vector<std::string> names;
    for (const auto& e : fs::directory_iterator(folder / in))
      names.push_back(e.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(DataCommands, CheckListsWhatIsDamagedAndWhatIsOdd) {
  make_set("set");
  EXPECT_EQ(run({"data", "check", "set"}).code, 0);
  fs::resize_file(folder / "set/dog/1001.jpg", 300);
  write("set/cat/0.jpg", std::string());
  write("set/cat/1.jpg", data::make_png(data::pattern(40, 40)));
  const Result text = run({"data", "check", "set"});
  EXPECT_EQ(text.code, 3);
  EXPECT_THAT(text.out, AllOf(HasSubstr("12 of 12 images in 2 classes"),
                              HasSubstr("PNG named JPEG: 1\n  cat/1.jpg"),
                              HasSubstr("damaged: 2\n"), HasSubstr("cat/0.jpg: the file is empty"),
                              HasSubstr("dog/1001.jpg: damaged JPEG")));
  const Result json = run({"data", "check", "set", "--json", "--threads", "1"});
  EXPECT_EQ(json.code, 3);
  const Json j = Json::parse(json.out);
  EXPECT_EQ(j["images"], 12);
  EXPECT_EQ(j["damaged"].size(), 2u);
  EXPECT_EQ(j["whole"], true);
  EXPECT_EQ(json.err, "");
}

// A folder with train/ and val/ is looked at as a whole.
TEST_F(DataCommands, CheckPackAndBenchTakeAFolderWithBothParts) {
  make_set("my/train");
  make_set("my/val", 4);
  const Result text = run({"data", "check", "my"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("train: 10 of 10 images in 2 classes"),
                              HasSubstr("val: 4 of 4 images in 2 classes")));
  const Result packed = run({"data", "pack", "my", "p", "--json"});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_EQ(Json::parse(packed.out)["train"]["images"], 10);
  EXPECT_EQ(Json::parse(packed.out)["val"]["images"], 4);
  EXPECT_THAT(packs("p/val"), ElementsAre("val-00000-of-00001.pack"));
  EXPECT_EQ(run({"data", "pack", "my", "p"}).code, 0);  // it is there already
  const Json both = Json::parse(run({"data", "check", "p", "--json"}).out);
  EXPECT_EQ(both["train"]["images"], 10);
  EXPECT_EQ(both["val"]["images"], 4);
  for (const auto& [mode, files] : {std::pair{"train", 10}, {"eval", 4}}) {
    const Result bench = run(
        {"bench", "data", "my", "--mode", mode, "--what", "decode", "--seconds", "0.01", "--json"});
    ASSERT_EQ(bench.code, 0) << bench.err;
    EXPECT_EQ(Json::parse(bench.out)["files"], files);
  }
  fs::remove_all(folder / "my/val/dog");
  const Result differ = run({"data", "check", "my"});
  EXPECT_EQ(differ.code, 3);
  EXPECT_THAT(differ.out, HasSubstr("train and val: E-DATA-03 2 classes in train and 1 in val"));
  EXPECT_THAT(Json::parse(run({"data", "check", "my", "--json"}).out)["differ"].get<std::string>(),
              HasSubstr("only in train: 'dog'"));
}

TEST_F(DataCommands, AQuickCheckDecodesAThousandPictures) {
  for (int i = 0; i < 1201; ++i)
    write("many/c" + std::to_string(i % 3) + "/" + std::to_string(i) + ".gif",
          std::string("GIF89a\1\0\1\0\x80\0\0\xFF\0\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;", 35));
  const Json j = Json::parse(run({"data", "check", "many", "--quick", "--json"}).out);
  EXPECT_EQ(j["images"], 1000);
  EXPECT_EQ(j["of"], 1201);
  EXPECT_EQ(j["classes"], 3);
}

// Neither path nor class is UTF-8: it is said at once, and nothing fails at the end.
TEST_F(DataCommands, PathsAndClassesInLatin1AreTrainedOnAndResumed) {
  for (int i = 0; i < 40; ++i)
    write(std::string("s\xE9t/") + (i % 2 ? "caf\xE9" : "tea") + "/" + std::to_string(i) + ".jpg",
          data::encode_jpeg(data::pattern(32, 32)));
  const std::string note = "1 class name with bytes that are no printable UTF-8";
  EXPECT_THAT(run({"data", "check", "s\xE9t"}).out, AllOf(HasSubstr(note), HasSubstr("caf\\xe9")));
  const Result trained = run({"train", "data.train=s\xE9t", "data.val=s\xE9t",
                              "model.name=resnet8-cifar", "train.batch=8", "train.epochs=1",
                              "run.checkpoint_every=0.4", "run.dir=r\xE9", "run.name=caf\xE9"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr(note));
  const fs::path at = folder / "r\xE9" / "caf\xE9";
  EXPECT_EQ(read_safetensors_metadata(at / "model.safetensors").at("classes"), "caf\\xe9\ntea");
  EXPECT_TRUE(Json::parse(read_text(at / "summary.json")).is_object());
  const Result more = run({"train", "--resume", "r\xE9/caf\xE9", "train.epochs=2"});
  EXPECT_EQ(more.code, 0) << more.err;
  const Result eval = run({"eval", "r\xE9/caf\xE9/model.safetensors", "data.val=s\xE9t"});
  EXPECT_EQ(eval.code, 0) << eval.err;
}

TEST_F(DataCommands, CheckGoesOnAtAnEmptyClassFolder) {
  make_set("set");
  fs::create_directories(folder / "set/bird");
  fs::create_symlink("nowhere", folder / "set/cat/0.jpg");
  write("set/cat/1.jpg", std::string());
  const Result text = run({"data", "check", "set"});
  EXPECT_EQ(text.code, 3);
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("12 of 12 images in 2 classes"),
                    HasSubstr("class folders without a picture: 1\n  bird"),
                    // each is called as the set calls it
                    HasSubstr("damaged: 2\n  cat/0.jpg: "), HasSubstr("\n  cat/1.jpg: ")));
  fs::remove(folder / "set/cat/0.jpg");
  fs::remove(folder / "set/cat/1.jpg");
  const Result json = run({"data", "check", "set", "--json"});
  EXPECT_EQ(json.code, 3);
  EXPECT_EQ(Json::parse(json.out)["empty_classes"], Json::parse(R"(["bird"])"));
  expect_error({"data", "pack", "set", "p"}, 3, "E-DATA-01",
               {"set: 1 of 3 class folders hold no image: bird"});
}

TEST_F(DataCommands, IndexIsWrittenBesideTheArchiveAndUsed) {
  write("tars/a.tar",
        data::tar_member("cat/1.jpg", "x") + data::tar_member("dog/2.jpg", "y") + data::tar_end());
  const Result r = run({"data", "index", "tars"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("1 file with 2 images indexed"));
  EXPECT_TRUE(fs::exists(folder / "tars/a.tar.gossamer-index"));
  // The set still opens, now by its index: the pictures are damaged, the set is not.
  EXPECT_EQ(Json::parse(run({"data", "check", "tars", "--json"}).out)["damaged"].size(), 2u);
  make_set("set");
  const Result none = run({"data", "index", "set"});
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(none.out, HasSubstr("folders of images and packed shards need no index"));
  EXPECT_EQ(Json::parse(run({"data", "index", "tars", "--json"}).out)["images"], 2);
  // shards of one part alone are indexed too
  for (const std::string part : {"train", "val"}) {
    write(part + "/" + part + "-0.tar", data::tar_member("cat/1.jpg", "x") + data::tar_end());
    const Result alone = run({"data", "index", part, "--json"});
    EXPECT_EQ(alone.code, 0) << alone.err;
    EXPECT_EQ(Json::parse(alone.out)["images"], 1);
  }
}

TEST_F(DataCommands, SayWhatIsLeftOut) {
  make_set("set");
  write("set/cat/more.webp", "x");
  const std::string said = "1 files in class folders are left out";
  EXPECT_THAT(run({"data", "check", "set"}).out, HasSubstr(said));
  EXPECT_THAT(
      Json::parse(run({"data", "check", "set", "--json"}).out)["notes"][0].get<std::string>(),
      HasSubstr("(cat/more.webp)"));
  EXPECT_THAT(run({"data", "pack", "set", "packed"}).err, HasSubstr(said));
  const Result trained = run(
      tiny({"data.train=set", "data.val=set", "model.classes=auto", "train.batch=1", "--dry-run"}));
  EXPECT_THAT(trained.out + trained.err, HasSubstr(said)) << trained.out;
  EXPECT_EQ(run(tiny({"data.label_base=2"})).code, 2);
}

TEST_F(DataCommands, ErrorsBeginWithTheirCode) {
  make_set("set");
  write("flat/1.jpg", data::encode_jpeg(data::pattern(16, 16)));
  write("flat/2.jpg", data::encode_jpeg(data::pattern(16, 16)));
  fs::create_directories(folder / "empty");
  write("some.dat", std::string(5000, 'q'));
  write("cut.tar",
        (data::tar_member("cat/1.jpg", std::string(3000, 'x')) + data::tar_end()).substr(0, 1500));
  write("packed.tar.gz", "\x1F\x8B" + std::string(600, 'z'));
  write("text.tar", data::tar_member("readme.txt", "x") + data::tar_end());
  for (const std::string command : {"check", "index", "pack", "bench"}) {
    const auto with = [&](const std::string& path) -> std::vector<std::string> {
      if (command == "bench") return {"bench", "data", path};
      if (command == "pack") return {"data", "pack", path, "packed"};
      return {"data", command, path};
    };
    expect_error(with("nowhere"), 3, "E-DATA-01",
                 {"nowhere: no such file or folder. Found beside it: ", "Check the path"});
    // index has nothing to do with folders of images
    if (command != "index") {
      expect_error(with("flat"), 3, "E-DATA-02",
                   {"flat: is flat: 2 images", "no ground truth", "LOC_val_solution.csv"});
      expect_error(with("empty"), 3, "E-DATA-01", {"empty: no images", "empty/CLASS/NAME.jpg"});
    }
    expect_error(with("some.dat"), 3, "E-DATA-04", {"some.dat: not a data set", "Wanted: "});
    expect_error(with("cut.tar"), 3, "E-DATA-05",
                 {"cut.tar: unreadable tar at byte 0", "cut off", "Copy or pack it again"});
    expect_error(with("packed.tar.gz"), 3, "E-DATA-04",
                 {"packed.tar.gz: this archive is compressed; unpack it"});
    expect_error(with("text.tar"), 3, "E-DATA-01", {"text.tar: no images"});
  }
  EXPECT_FALSE(fs::exists(folder / "packed"));
  expect_error(tiny({"data.train=nowhere"}), 3, "E-DATA-01", {"nowhere"});
  expect_error(tiny({"data.val=set"}), 3, "E-DATA-03",
               {"10 classes in train and 2 in val", "only in val: 'cat', 'dog'"});
  expect_error({"data", "check"}, 2, "", {"--help"});
  expect_error({"data", "check", "set", "--threads", "0"}, 2, "data check: --threads 0", {});
  expect_error({"data", "pack", "set", "packed", "--quality", "101"}, 2, "pack: quality 101", {});
  write("file", "x");
  expect_error({"data", "pack", "set", "file/out"}, 6, "", {"file/out"});
  for (const std::string inside : {"set", "set/", "./set/cat", "set/../set/new"})
    expect_error({"data", "pack", "set/", inside}, 2, "data pack: " + inside + " is in set/",
                 {"a folder beside it"});
  EXPECT_FALSE(fs::exists(folder / "set/new"));
}

TEST_F(DataCommands, PackGoesOnAfterAKill) {
  make_set("set", 2000, 200);
  const auto pack = [](const std::string& to) -> std::vector<std::string> {
    return {"data", "pack", "set", to, "--shard-images", "50", "--threads", "1", "--json"};
  };
  ASSERT_EQ(run(pack("whole/p")).code, 0);
  // Killed when the third shard is there: in the middle of a later one.
  start(pack("killed/p"));
  for (int i = 0; i < 60000 && !fs::exists(folder / "killed/p/p-00002-of-00040.pack"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(running, SIGKILL);
  EXPECT_EQ(wait().code, 1000 + SIGKILL);
  const auto done = static_cast<i64>(std::ranges::count_if(
      packs("killed/p"), [](const std::string& n) { return n.ends_with(".pack"); }));
  ASSERT_GE(done, 3);
  ASSERT_LT(done, 40) << "the machine packed everything before it could be killed";
  expect_error({"data", "check", "killed/p"}, 3, "E-DATA-05",
               {"of 40 packed shards", "it goes on where it was stopped"});
  const Result r = run(pack("killed/p"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out)["kept_shards"], done);
  EXPECT_EQ(Json::parse(r.out)["images"], 2000);
  ASSERT_EQ(packs("killed/p"), packs("whole/p"));  // and no temporary file
  for (const std::string& name : packs("whole/p"))
    EXPECT_TRUE(read_text(folder / "killed/p" / name) == read_text(folder / "whole/p" / name))
        << name;
  EXPECT_EQ(run({"data", "check", "killed/p"}).code, 0);
}

TEST_F(DataCommands, PackStopsOnASignalAndSaysHowToGoOn) {
  make_set("set", 2000, 200);
  start({"data", "pack", "set", "p", "--shard-images", "50", "--threads", "1"});
  for (int i = 0; i < 60000 && !fs::exists(folder / "p/p-00000-of-00040.pack"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(running, SIGTERM);
  const Result r = wait();
  EXPECT_EQ(r.code, 143);
  EXPECT_THAT(r.out, HasSubstr("the same command continues after the finished shards"));
  for (const std::string& name : packs("p")) EXPECT_TRUE(name.ends_with(".pack")) << name;
}

TEST_F(DataCommands, PackNoticesChangedPicturesAndOtherOptions) {
  make_set("set");
  ASSERT_EQ(run({"data", "pack", "set", "p"}).code, 0);
  const Result again = run({"data", "pack", "set", "p"});
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, HasSubstr("10 images in 1 shard (1 from an earlier run)"));
  expect_error({"data", "pack", "set", "p", "--quality", "80"}, 2, "",
               {"p-00000-of-00001.pack", "with other options"});
  write("set/cat/1000.jpg", data::encode_jpeg(data::pattern(61, 60)));
  expect_error({"data", "pack", "set", "p"}, 2, "",
               {"p-00000-of-00001.pack", "have changed since", "remove it"});
}

TEST_F(DataCommands, PackRefusesAFolderWithOtherThings) {
  make_set("set");
  make_set("my/train");
  make_set("my/val");
  write("other/cat/1.jpg", data::encode_jpeg(data::pattern(16, 16)));
  write("notes/train/notes.txt", "x");
  expect_error({"data", "pack", "set", "other"}, 2, "",
               {"other: holds other things than shards of this set (cat)", "new or empty folder"});
  expect_error({"data", "pack", "my", "other"}, 2, "data pack: other holds other things",
               {"(cat)", "new or empty folder"});
  expect_error({"data", "pack", "my", "notes"}, 2, "",
               {"notes/train: holds other things", "(notes.txt)"});
  EXPECT_EQ(packs("other"), std::vector<std::string>{"cat"});
}

TEST_F(DataCommands, PackLeavesDamagedPicturesOutAndListsThem) {
  make_set("set");
  fs::resize_file(folder / "set/dog/1001.jpg", 300);
  const Result r = run({"data", "pack", "set", "p"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("9 images in 1 shard"),
                           HasSubstr("left out, because damaged: 1\n  dog/1001.jpg")));
  expect_error({"data", "pack", "set", "q", "--strict"}, 3, "E-DATA-06", {"dog/1001.jpg"});
  EXPECT_THAT(packs("q"), ElementsAre());
}

}  // namespace
}  // namespace gossamer::apps
