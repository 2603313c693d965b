// open(): every layout is recognised, and every wrong path gets one clear sentence.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/helpers.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::string& path) {
  return error_of([&] { open({path}); });
}

std::string text(const Dataset& set, i64 i) {
  Bytes buffer;
  const auto bytes = set.bytes(i, buffer);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(ImageFolder, SortsClassesAndNames) {
  const TempFolder folder;
  folder.write("dog/b.jpg", to_bytes("dog b"));
  folder.write("dog/a.JPEG", to_bytes("dog a"));
  folder.write("ant/z.png", to_bytes("ant z"));
  folder.write("ant/notes.txt", to_bytes("no picture"));
  folder.write(".hidden/x.jpg", to_bytes("not seen"));
  folder.write("readme.md", to_bytes("not a class"));
  const auto set = open({folder.str() + "/"});
  ASSERT_EQ(set->size(), 3);
  EXPECT_THAT(set->classes(), ElementsAre("ant", "dog"));
  EXPECT_EQ(set->name(0), "ant/z.png");
  EXPECT_EQ(set->name(1), "dog/a.JPEG");
  EXPECT_EQ(set->label(0), 0);
  EXPECT_EQ(set->label(2), 1);
  EXPECT_EQ(text(*set, 2), "dog b");
  EXPECT_EQ(set->raw().height, 0);
}

TEST(ImageFolder, SaysWhatIsWrongWithAFolder) {
  const TempFolder folder;
  EXPECT_THAT(refusal(folder / "none/here"), AllOf(HasSubstr("none/here: no such file or folder"),
                                                   HasSubstr("nor is there a folder")));
  EXPECT_THAT(refusal(folder.str()),
              HasSubstr("no images: the folder holds no class folders and 0 other files"));
  for (int i = 0; i < 5; ++i) folder.write("flat/" + std::to_string(i) + ".jpg", {});
  EXPECT_THAT(
      refusal(folder / "flat"),
      AllOf(HasSubstr("is flat: 5 images"), HasSubstr("no class folders, and no ground truth"),
            HasSubstr("LOC_val_solution.csv"), HasSubstr("CLASS/NAME.jpg")));
  folder.write("deep/train/cat/a.jpg", {});
  folder.write("deep/val/cat/a.jpg", {});
  EXPECT_THAT(refusal(folder / "deep"), AllOf(HasSubstr("no images"), HasSubstr("deep/train")));
  folder.write("sets/one/a.tar", {});
  EXPECT_THAT(refusal(folder / "sets"), AllOf(HasSubstr("no images"), HasSubstr("archives"),
                                              HasSubstr("e.g. " + (folder / "sets/one"))));
  folder.write("some/cat/a.jpg", {});
  folder.write("some/dog/a.txt", {});
  EXPECT_THAT(refusal(folder / "some"), AllOf(HasSubstr("1 of 2 class folders hold no image: dog"),
                                              HasSubstr("Fill or remove")));
  EXPECT_THAT(error_of([] { open({}); }), HasSubstr("no path given"));
}

TEST(ImageFolder, EscapesBytesOfNamesThatAreNoText) {
  const TempFolder folder;
  folder.write("a\nb/x\x1b[31m.jpg", to_bytes("x"));
  folder.write("a/y.jpg", to_bytes("y"));
  const auto set = open({folder.str()});
  EXPECT_THAT(set->classes(), ElementsAre("a", "a\\x0ab"));
  EXPECT_EQ(set->name(1), "a\\x0ab/x\\x1b[31m.jpg");
  EXPECT_EQ(set->label(1), 1);
  EXPECT_EQ(text(*set, 1), "x");
  std::filesystem::remove(folder / "a\nb/x\x1b[31m.jpg");
  EXPECT_THAT(error_of([&] { text(*set, 1); }),
              HasSubstr("a\\x0ab/x\\x1b[31m.jpg: can't be opened"));
  folder.write("a\nb/z.jpg", to_bytes("x"));
  folder.write("caf\xE9/x.jpg", to_bytes("x"));
  const auto more = open({folder.str()});
  EXPECT_THAT(more->classes(), ElementsAre("a", "a\\x0ab", "caf\\xe9"));
  EXPECT_THAT(more->notes(), Contains(AllOf(HasSubstr("2 class names with bytes"),
                                            HasSubstr("a\\x0ab, caf\\xe9"))));
  folder.write("caf\\xe9/x.jpg", to_bytes("x"));  // as the other one is called
  EXPECT_THAT(refusal(folder.str()), HasSubstr("two classes are both called caf\\xe9"));
}

// The same names whatever the container, so that a model fits all of them.
TEST(Dataset, ClassesAreCalledAlikeInFoldersTarsAndWebDataset) {
  const TempFolder folder;
  folder.write("set/caf\xE9/1.jpg", to_bytes("x"));
  folder.write("set/tea/2.jpg", to_bytes("y"));
  const std::string tar = folder.write("a.tar", to_bytes(tar_member("caf\xE9/1.jpg", "x") +
                                                         tar_member("tea/2.jpg", "y") + tar_end())),
                    web = folder.write("web.tar", to_bytes(tar_member("1.jpg", "x") +
                                                           tar_member("1.cls", "caf\xE9") +
                                                           tar_member("2.jpg", "y") +
                                                           tar_member("2.cls", "tea") + tar_end()));
  for (const std::string& path : {folder / "set", tar, web})
    EXPECT_THAT(open({path})->classes(), ElementsAre("caf\\xe9", "tea")) << path;
  check_same_classes(*open({folder / "set"}), *open({tar}));
}

TEST(Dataset, WhatIsHiddenIsNoClassInFoldersAndTars) {
  const TempFolder folder;
  std::string tar;
  for (const std::string name : {".ipynb_checkpoints/1.jpg", "__MACOSX/cat/1.jpg", "@eaDir/1.jpg",
                                 "cat/.ipynb_checkpoints/1.jpg", "cat/1.jpg", "cat/._1.jpg",
                                 "lost+found/1.jpg", "dog/2.jpg"}) {
    folder.write("set/" + name, to_bytes("x"));
    tar += tar_member("./" + name, "x");
  }
  for (const std::string& path :
       {folder / "set", folder.write("a.tar", to_bytes(tar + tar_end()))}) {
    const auto set = open({path});
    EXPECT_THAT(set->classes(), ElementsAre("cat", "dog")) << path;
    EXPECT_EQ(set->size(), 2) << path;
  }
}

TEST(Dataset, EndingsMayBeUpperCase) {
  const TempFolder folder;
  const std::string web = tar_member("1.JPG", "x") + tar_member("1.CLS", "3") +
                          tar_member("2.JPG", "y") + tar_member("2.CLS", "0") + tar_end();
  EXPECT_EQ(open({folder.write("WEB.TAR", to_bytes(web))})->label(0), 3);
  folder.write("set/cat/1.JPG", to_bytes("x"));
  folder.write("set/cat/2.Png", to_bytes("x"));
  EXPECT_EQ(open({folder / "set"})->size(), 2);
}

TEST(TarShards, OneWithoutFilesIsPassedOverAndNamed) {
  const TempFolder folder;
  const std::string full =
                        folder.write("a-0.tar", to_bytes(tar_member("cat/1.jpg", "x") + tar_end())),
                    empty = folder.write("a-1.tar", to_bytes(tar_end()));
  const auto set = open({folder.str()});
  EXPECT_EQ(set->size(), 1);
  EXPECT_THAT(set->notes(), Contains(HasSubstr("a-1.tar: holds no files")));
  EXPECT_THAT(refusal(empty), HasSubstr("holds no images"));
}

TEST(TarShards, SayWhatTheyLeaveOut) {
  const TempFolder folder;
  const std::string path = folder.write(
      "a.tar", to_bytes(tar_member("cat/1.jpg", "x") + tar_member("cat/2.webp", "y") + tar_end()));
  EXPECT_THAT(open({path})->notes(),
              Contains(AllOf(HasSubstr("1 file left out"), HasSubstr("cat/2.webp"))));
}

TEST(ImageFolder, APipeIsDamageAndDoesNotHang) {
  const TempFolder folder;
  folder.write("cat/a.jpg", to_bytes("x"));
  ASSERT_EQ(mkfifo((folder / "cat/b.jpg").c_str(), 0600), 0);
  const auto set = open({folder.str()});
  EXPECT_THAT(error_of([&] { text(*set, 1); }), HasSubstr("cat/b.jpg: is not a regular file"));
  EXPECT_THAT(refusal(folder / "cat/b.jpg"), HasSubstr("not a regular file"));
}

TEST(Dataset, AnImageFileOfMoreThan64MiBIsDamage) {
  const TempFolder folder;
  // takes no space on the disk
  std::filesystem::resize_file(folder.write("f/cat/a.jpg", {}), std::uintmax_t{1} << 40);
  EXPECT_THAT(error_of([&] { text(*open({folder / "f"}), 0); }),
              AllOf(HasSubstr("cat/a.jpg: 1099511627776 bytes"), HasSubstr("64 MiB")));
  const std::string shard =
      folder.write("a.tar", to_bytes(tar_member("cat/a.jpg", "", '0', "", "77777777777")));
  std::filesystem::resize_file(shard, (std::uintmax_t{1} << 33) + 4096);
  // so many or more
  EXPECT_THAT(error_of([&] { text(*open({shard}), 0); }),
              AllOf(HasSubstr("cat/a.jpg: 4294967295 bytes"), HasSubstr("64 MiB")));
}

TEST(ImageFolder, SaysWhenAFileVanished) {
  const TempFolder folder;
  const std::string path = folder.write("cat/a.jpg", to_bytes("x"));
  const auto set = open({folder.str()});
  std::filesystem::remove(path);
  EXPECT_THAT(error_of([&] { text(*set, 0); }),
              AllOf(HasSubstr("cat/a.jpg"), HasSubstr("can't be opened")));
}

TEST(ImageFolder, TooManyOpenFilesAreNoDamage) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan opens a pipe whenever it meets another class, and takes a failure for a "
                  "bad pointer";
#endif
  const TempFolder folder;
  folder.write("cat/a.jpg", to_bytes("x"));
  const auto set = open({folder.str()});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{std::min<rlim_t>(256, before.rlim_max), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> open_files;
  for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY)) >= 0;) open_files.push_back(fd);
  const std::string error = error_of<IoError>([&] { text(*set, 0); });
  for (const int fd : open_files) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(error, AllOf(HasSubstr("cat/a.jpg: can't be opened"), HasSubstr("ulimit -n")));
  EXPECT_EQ(text(*set, 0), "x");
}

TEST(TarShards, JoinAndUniteTheirClasses) {
  const TempFolder folder;
  folder.write("0.tar",
               to_bytes(tar_member("dog/1.jpg", "dog one") + tar_member("cat/2.jpg", "cat two") +
                        tar_member("cat/2.cls", "7") + tar_end()));
  folder.write("1.tar", to_bytes(tar_member("train/ant/3.jpg", "ant three") +
                                 tar_member("train/dog/4.jpg", "dog four") + tar_end()));
  for (const auto& set : {open({folder / "0.tar", folder / "1.tar"}), open({folder.str()})}) {
    ASSERT_EQ(set->size(), 4);
    EXPECT_THAT(set->classes(), ElementsAre("ant", "cat", "dog"));
    EXPECT_THAT((std::vector{set->label(0), set->label(1), set->label(2), set->label(3)}),
                ElementsAre(2, 1, 0, 2));
    EXPECT_EQ(text(*set, 1), "cat two");
    EXPECT_EQ(text(*set, 3), "dog four");
    EXPECT_EQ(set->name(2), "train/ant/3.jpg");
  }
}

TEST(TarShards, SayWhatIsWrong) {
  const TempFolder folder;
  EXPECT_THAT(refusal(folder.write("no.tar", to_bytes("this is not a tar"))),
              AllOf(HasSubstr("no.tar"), HasSubstr("unreadable tar")));
  EXPECT_THAT(refusal(folder.write("flat.tar", to_bytes(tar_member("a.jpg", "x") +
                                                        tar_member("b.jpg", "x") + tar_end()))),
              AllOf(HasSubstr("2 images lie in no class folder"),
                    HasSubstr("ILSVRC2012_devkit_t12.tar.gz")));
  EXPECT_THAT(refusal(folder.write("none.tar", to_bytes(tar_member("c/a.txt", "x") + tar_end()))),
              HasSubstr("no images: the archive holds 1 files"));
  EXPECT_THAT(refusal(folder.write("a.tar.gz", to_bytes("\x1F\x8B" + std::string(600, 'z')))),
              HasSubstr("compressed"));
  EXPECT_THAT(refusal(folder.write("word.txt", to_bytes("hello"))), HasSubstr("not a data set"));
  EXPECT_THAT(refusal(folder.write("one.jpg", to_bytes("hello"))), HasSubstr("one picture"));
}

TEST(TarShards, SayWhenTheFileWasCutLater) {
  const TempFolder folder;
  const std::string path =
      folder.write("a.tar", to_bytes(tar_member("c/1.jpg", std::string(5000, 'x')) + tar_end()));
  const auto set = open({path});
  std::filesystem::resize_file(path, 2000);
  EXPECT_THAT(error_of([&] { text(*set, 0); }),
              AllOf(HasSubstr("c/1.jpg: "), HasSubstr("a.tar: ends at byte 2000")));
}

Bytes cifar(int records, int header) {
  Bytes file;
  for (int r = 0; r < records; ++r) {
    for (int h = 0; h < header; ++h)
      file.push_back(static_cast<std::byte>(h + 1 == header ? r % 10 : 19));
    for (int c = 0; c < 3; ++c)
      for (int p = 0; p < 1024; ++p)
        file.push_back(static_cast<std::byte>(r * 7 + c * 50 + p % 61));
  }
  return file;
}

TEST(Cifar, InterleavesThePlanes) {
  const TempFolder folder;
  for (const bool hundred : {false, true}) {
    const auto set = open(
        {folder.write(hundred ? "train.bin" : "data_batch_1.bin", cifar(12, hundred ? 2 : 1))});
    ASSERT_EQ(set->size(), 12);
    EXPECT_EQ(set->classes().size(), hundred ? 100u : 10u);
    EXPECT_EQ(set->label(11), 1);
    EXPECT_EQ(set->raw().height, 32);
    const std::string pixels = text(*set, 3);
    ASSERT_EQ(pixels.size(), 3072u);
    for (int p = 0; p < 1024; ++p)
      for (int c = 0; c < 3; ++c)
        ASSERT_EQ(static_cast<std::uint8_t>(pixels[static_cast<std::size_t>(p * 3 + c)]),
                  (21 + c * 50 + p % 61) % 256);
  }
}

TEST(Cifar, TakesTheFiveTrainFilesOfAFolder) {
  const TempFolder folder;
  for (int i = 1; i <= 5; ++i)
    folder.write("data_batch_" + std::to_string(i) + ".bin", cifar(4, 1));
  folder.write("test_batch.bin", cifar(3, 1));
  folder.write(
      "batches.meta.txt",
      to_bytes("airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n"));
  EXPECT_EQ(open({folder.str()})->size(), 20);
  EXPECT_EQ(open({folder / "test_batch.bin"})->size(), 3);
  EXPECT_EQ(open({folder.str()})->classes()[3], "cat");
  // Ten names in order, but with a control character, or one twice: two classes must not become
  // one.
  folder.write("batches.meta.txt", to_bytes("a\x1b[31m\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"));
  EXPECT_EQ(open({folder.str()})->classes()[0], "a\\x1b[31m");
  folder.write("batches.meta.txt", to_bytes("a\na\nc\nd\ne\nf\ng\nh\ni\nj\n"));
  EXPECT_EQ(open({folder.str()})->classes().size(), 10u);
  EXPECT_EQ(open({folder.str()}, Part::train)->size(), 20);
  EXPECT_EQ(open({folder.str()}, Part::val)->size(), 3);  // never the training files
  std::filesystem::remove(folder / "test_batch.bin");
  EXPECT_THAT(error_of([&] { open({folder.str()}, Part::val); }),
              HasSubstr("neither test_batch.bin"));
}

TEST(Cifar, SaysWhatIsWrong) {
  const TempFolder folder;
  Bytes cut = cifar(3, 1);
  cut.resize(cut.size() - 10);
  EXPECT_THAT(
      refusal(folder.write("data_batch_2.bin", cut)),
      AllOf(HasSubstr("9209 bytes are not a whole number of CIFAR-10 records"), HasSubstr("3073")));
  Bytes wrong = cifar(3, 1);
  wrong[3073] = std::byte{10};
  EXPECT_THAT(refusal(folder.write("data_batch_3.bin", wrong)), HasSubstr("record 1 has label 10"));
  const std::string bin = folder.write("a.bin", cifar(2, 1)),
                    tar = folder.write("a.tar", to_bytes(tar_member("cat/a.jpg", "x") + tar_end()));
  EXPECT_THAT(error_of([&] { open({bin, tar}); }), HasSubstr("can't be joined"));
}

TEST(CheckSameClasses, NamesTheFirstDifferences) {
  const TempFolder folder;
  for (const std::string name : {"train/a/1.jpg", "train/b/1.jpg", "train/c/1.jpg", "val/a/1.jpg",
                                 "val/b/1.jpg", "val/d/1.jpg", "val/e/1.jpg"})
    folder.write(name, to_bytes("x"));
  const auto train = open({folder / "train"}), val = open({folder / "val"});
  check_same_classes(*train, *train);
  EXPECT_THAT(error_of([&] { check_same_classes(*train, *val); }),
              AllOf(HasSubstr("3 classes in train and 4 in val"), HasSubstr("only in train: 'c'"),
                    HasSubstr("only in val: 'd', 'e'")));
}

}  // namespace
}  // namespace gossamer::data
