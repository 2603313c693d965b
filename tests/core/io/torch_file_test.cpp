// Files of torch.save: one of torch itself, all kinds of tensors, and what is refused.
#include "gossamer/core/io/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/io/safetensors.h"
#include "support/error_of.h"
#include "support/temp_folder.h"
#include "support/torch_bytes.h"

namespace gossamer {
namespace {

using pickled::dict;
using pickled::text;
using pickled::whole;
using pickled::Window;
using testing::HasSubstr;
using namespace std::string_literals;

TorchFile read(const std::string& bytes, const std::string& init_key = "") {
  const InputFile file(std::as_bytes(std::span(bytes)), "f.pth");
  EXPECT_TRUE(is_torch_file(file));
  return read_torch_file(file, init_key);
}
TorchFile golden(const std::string& name) {
  return read_torch_file(InputFile(GOSSAMER_SOURCE_DIR "/tests/golden/" + name));
}
std::string refusal(const std::string& bytes, const std::string& init_key = "") {
  return error_of<IoError>([&] { read(bytes, init_key); });
}
// A file with this pickle, and a storage "0" of the floats 0, 1, 2, … 11.
std::string with_twelve(const std::string& value, std::vector<ZipParts> more = {}) {
  std::string floats;
  for (int i = 0; i < 12; ++i) floats += raw(static_cast<float>(i));
  std::vector<ZipParts> entries{{"f/data.pkl", whole(value)}, {"f/data/0", floats}};
  entries.insert(entries.end(), more.begin(), more.end());
  return zip_bytes(entries);
}
std::string window(i64 offset, std::vector<i64> size, std::vector<i64> stride) {
  return dict(text("w") + pickled::tensor({.key = "0",
                                           .type = "Float",
                                           .elements = 12,
                                           .offset = offset,
                                           .size = std::move(size),
                                           .stride = std::move(stride)}));
}
std::string values(const Tensor& t) {
  const Tensor f = t.to(DType::f32);
  std::string out = t.shape().str() + ":";
  for (const float x : f.span<float>()) out += " " + std::to_string(static_cast<int>(x));
  return out;
}
std::string one(const std::string& bytes) {
  const TorchFile file = read(bytes);
  return file.tensors.size() == 1 ? values(file.tensors[0].tensor) : "not one tensor";
}

TEST(TorchFileTest, AllTypesComeBackAsTheyWere) {
  std::vector<NamedTensor> given;
  for (const DType type :
       {DType::f32, DType::bf16, DType::f16, DType::u8, DType::i32, DType::i64}) {
    Tensor t = Tensor::full({2, 3}, 3, DType::f32).to(type);
    given.push_back({name_of(type), t});
  }
  given.push_back({"scalar", Tensor::full({}, 5)});
  given.push_back({"empty", Tensor::empty({0, 4})});
  for (const char* wrapper : {"", "model", "state_dict", "state_dict_ema", "model_ema"}) {
    const TorchFile file = read(torch_bytes(given, wrapper));
    ASSERT_EQ(file.tensors.size(), given.size()) << wrapper;
    EXPECT_TRUE(file.notes.empty());
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Tensor &a = file.tensors[i].tensor, &b = given[i].tensor;
      EXPECT_EQ(file.tensors[i].name, given[i].name);
      ASSERT_EQ(a.dtype(), b.dtype());
      ASSERT_EQ(a.shape(), b.shape());
      EXPECT_EQ(0, std::memcmp(a.data(), b.data(), b.bytes()));
    }
  }
}

// tests/golden/torch_files.py wrote all with torch, and one with its package safetensors.
class TorchFiles : public testing::TestWithParam<const char*> {};

TEST_P(TorchFiles, HaveTheTensorsThatTorchSaved) {
  const SafeTensors wanted =
      read_safetensors(GOSSAMER_SOURCE_DIR "/tests/golden/torch.safetensors");
  const TorchFile file = golden(GetParam() + ".pth"s);
  ASSERT_EQ(file.tensors.size(), wanted.tensors.size());
  for (const NamedTensor& t : file.tensors) {
    const Tensor* same = wanted.find(t.name);
    ASSERT_NE(same, nullptr) << t.name;
    ASSERT_EQ(t.tensor.dtype(), same->dtype()) << t.name;
    ASSERT_EQ(t.tensor.shape(), same->shape()) << t.name;
    EXPECT_EQ(0, std::memcmp(t.tensor.data(), same->data(), same->bytes())) << t.name;
  }
  EXPECT_THAT(file.notes, testing::ElementsAre(HasSubstr("not model_ema"),
                                               HasSubstr("1 tensor of f64 rounded to f32")));
}

// As torchvision's training writes it.
TEST_P(TorchFiles, MayHoldOptionsOfTheTraining) {
  const TorchFile file = golden(GetParam() + "_training.pth"s);
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "weight");
  EXPECT_EQ(values(file.tensors[0].tensor), "[1, 2]: 3 4");
  EXPECT_EQ(file.tensors[1].name, "bias");
  EXPECT_EQ(values(file.tensors[1].tensor), "[1]: 5");
  EXPECT_THAT(file.notes, testing::ElementsAre(HasSubstr("not model_ema")));
}

// In a zip archive, and as before torch 1.6.
INSTANTIATE_TEST_SUITE_P(Forms, TorchFiles, testing::Values("torch", "torch_legacy"));

// All that torch.load(weights_only=True) reads: sets, sizes, types, seeds, tensors of other types.
TEST(TorchFileTest, WhatLiesBesideTheWeightsIsSkipped) {
  const TorchFile file = golden("torch_beside.pth");
  ASSERT_EQ(file.tensors.size(), 1u);
  EXPECT_EQ(file.tensors[0].name, "w");
  EXPECT_EQ(values(file.tensors[0].tensor), "[3]: 0 1 2");
  std::string unread;
  for (const UnreadTensor& u : file.unread) unread += u.name + ": " + u.kind + "; ";
  EXPECT_EQ(unread,
            "mask: torch.BoolStorage; small: torch.ShortStorage; sparse: _rebuild_sparse_tensor; "
            "deep: torch.FloatStorage of 7 dimensions; ");
}

TEST(TorchFileTest, OneOfSeveralStateDictsIsTakenByItsName) {
  const auto state = [](i64 offset) { return window(offset, {2}, {1}); };
  const auto of = [&](const std::string& items) { return with_twelve(dict(items)); };
  const std::string both = text("model_ema") + state(2) + text("net") + state(4);
  EXPECT_EQ(one(of(both)), "[2]: 4 5");
  EXPECT_THAT(
      read(of(both)).notes[0],
      HasSubstr("the weights \"net\" are used, not model_ema; init_key=NAME takes another"));
  EXPECT_EQ(values(read(of(both), "model_ema").tensors[0].tensor), "[2]: 2 3");
  EXPECT_EQ(values(read(of(text("ema") + dict(text("module") + state(6)) + both), "ema.module")
                       .tensors[0]
                       .tensor),
            "[2]: 6 7");
  EXPECT_THAT(refusal(of(both), "ema"),
              HasSubstr("has no state dict called ema; there are: model_ema, net (init_key)"));
  EXPECT_THAT(refusal(of(text("a") + state(0) + text("b") + state(2))),
              HasSubstr("holds several state dicts: a, b; say which: init_key=NAME"));
  EXPECT_EQ(one(of(text("generator") + state(8) + text("epoch") + "K\3")), "[2]: 8 9");
}

TEST(TorchFileTest, OnlyTheNamesOfOptionsAreIgnored) {
  const auto with = [](const std::string& name, const std::string& how) {
    return with_twelve(dict(text("w") + pickled::tensor({"0", "Float", 12, 0, {2}, {1}}) +
                            text("args") + "c" + name + "\n" + how));
  };
  // NEWOBJ and BUILD, as pickle writes an object; REDUCE
  const std::string object = ")\x81" + dict(text("lr") + "K\1") + "b";
  EXPECT_EQ(one(with("argparse\nNamespace", object)), "[2]: 0 1");
  EXPECT_EQ(one(with("pathlib\nPosixPath", pickled::tuple(text("/tmp")) + "R")), "[2]: 0 1");
  EXPECT_THAT(refusal(with("argparse\nArgumentParser", object)),
              HasSubstr("it names argparse.ArgumentParser, which is no part of a file of weights"));
  EXPECT_THAT(refusal(with("os\nsystem", pickled::tuple(text("true")) + "R")),
              HasSubstr("it names os.system"));
  // A tensor must be one: not an ignored name in its place.
  EXPECT_THAT(refusal(with_twelve(dict(text("w") + "cargparse\nNamespace\n" + object))),
              HasSubstr("holds no state dict"));
}

TEST(TorchFileTest, WindowsAndStridedTensorsAreTakenOutOfTheirStorage) {
  EXPECT_EQ(one(with_twelve(window(0, {3, 4}, {4, 1}))), "[3, 4]: 0 1 2 3 4 5 6 7 8 9 10 11");
  EXPECT_EQ(one(with_twelve(window(5, {2, 2}, {2, 1}))), "[2, 2]: 5 6 7 8");
  EXPECT_EQ(one(with_twelve(window(11, {}, {}))), "[]: 11");
  EXPECT_EQ(one(with_twelve(window(0, {4, 3}, {1, 4}))), "[4, 3]: 0 4 8 1 5 9 2 6 10 3 7 11");
  // channels last: [1, 2, 2, 3], of which the stride of the 1 says nothing
  EXPECT_EQ(one(with_twelve(window(0, {1, 2, 2, 3}, {99, 1, 6, 2}))),
            "[1, 2, 2, 3]: 0 2 4 6 8 10 1 3 5 7 9 11");
  EXPECT_EQ(one(with_twelve(window(2, {3}, {3}))), "[3]: 2 5 8");
  EXPECT_EQ(one(with_twelve(window(2, {3}, {0}))), "[3]: 2 2 2");
  EXPECT_EQ(one(with_twelve(window(2, {2, 0}, {1, 1}))), "[2, 0]:");
}

TEST(TorchFileTest, TensorsMayShareAStorage) {
  const std::string both =
      dict(text("a") + pickled::tensor({"0", "Float", 12, 0, {2}, {1}}) + text("b") +
           pickled::tensor({"0", "Float", 12, 1, {2}, {1}}) + text("note") + text("no tensor"));
  const TorchFile file = read(with_twelve(both));
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(values(file.tensors[1].tensor), "[2]: 1 2");
  EXPECT_EQ(file.tensors[0].tensor.as<float>() + 1, file.tensors[1].tensor.as<float>());
}

TEST(TorchFileTest, WindowsBeyondTheStorageAreRefused) {
  EXPECT_THAT(refusal(with_twelve(window(0, {13}, {1}))),
              HasSubstr("f.pth: tensor \"w\" reaches element 12 of its storage, which has 12"));
  EXPECT_THAT(refusal(with_twelve(window(12, {}, {}))), HasSubstr("reaches element 12"));
  EXPECT_THAT(refusal(with_twelve(window(0, {2, 2}, {11, 1}))), HasSubstr("reaches element 12"));
  EXPECT_THAT(refusal(with_twelve(window(-1, {2}, {1}))), HasSubstr("no whole number from 0"));
  EXPECT_THAT(refusal(with_twelve(window(11, {2}, {-1}))), HasSubstr("no whole number from 0"));
  EXPECT_THAT(refusal(with_twelve(window(0, {2}, {}))), HasSubstr("has 1 sizes and 0 strides"));
  EXPECT_THAT(refusal(with_twelve(window(0, {i64{1} << 40, i64{1} << 40}, {0, 0}))),
              HasSubstr("larger than 64 bits can count"));
  EXPECT_THAT(refusal(with_twelve(window(0, {3}, {i64{1} << 62}))),
              HasSubstr("larger than 64 bits can count"));
  EXPECT_THAT(refusal(with_twelve(window(0, {1 << 20}, {0}))),
              HasSubstr("repeats elements of its storage"));
}

TEST(TorchFileTest, StoragesMustBeThereAndFit) {
  const auto of = [](const Window& w) { return with_twelve(dict(text("w") + pickled::tensor(w))); };
  EXPECT_THAT(refusal(of({"1", "Float", 12, 0, {1}, {1}})),
              HasSubstr("wants the entry f/data/1, which is missing"));
  EXPECT_THAT(refusal(of({"0", "Float", 11, 0, {1}, {1}})), HasSubstr("wants 11 elements"));
  EXPECT_THAT(refusal(of({"0", "Float", -1, 0, {1}, {1}})), HasSubstr("has no storage"));
  EXPECT_THAT(refusal(of({"0", "Other", 48, 0, {1}, {1}})),
              HasSubstr("it names torch.OtherStorage"));
  const std::string two = dict(text("a") + pickled::tensor({"0", "Float", 12, 0, {2}, {1}}) +
                               text("b") + pickled::tensor({"0", "Int", 12, 0, {2}, {1}}));
  EXPECT_THAT(refusal(with_twelve(two)), HasSubstr("shares storage 0, which has another type"));
}

TEST(TorchFileTest, DoublesAreRoundedAndThatIsSaid) {
  const TorchFile file = read(zip_bytes(
      {{"f/data.pkl", whole(dict(text("w") + pickled::tensor({"0", "Double", 2, 0, {2}, {1}})))},
       {"f/data/0", raw(1.5) + raw(-2.0)}}));
  EXPECT_EQ(values(file.tensors[0].tensor), "[2]: 1 -2");
  ASSERT_EQ(file.notes.size(), 1u);
  EXPECT_EQ(file.notes[0], "f.pth: 1 tensor of f64 rounded to f32");
}

TEST(TorchFileTest, WhatIsNoStateDictIsRefused) {
  EXPECT_THAT(refusal(with_twelve(dict(text("net") + "}" + text("epoch") + "K\3"))),
              HasSubstr("holds no state dict, but a dict of: net, epoch. Wanted"));
  EXPECT_THAT(refusal(with_twelve("]")), HasSubstr("but another object"));
  EXPECT_THAT(
      refusal(with_twelve(dict(text("w") + pickled::tensor({"0", "Float", 12, 0, {}, {}}) +
                               text("w") + pickled::tensor({"0", "Float", 12, 0, {}, {}})))),
      HasSubstr("tensor \"w\" is there twice"));
  EXPECT_THAT(refusal(with_twelve(dict(text("w") + "ctorch._utils\n_rebuild_tensor_v2\nK\1\x85R"))),
              HasSubstr("has 1 arguments in the pickle"));
  EXPECT_THAT(
      refusal(with_twelve(dict(text("w") + "ctorch._utils\n_rebuild_tensor_v2\n(K\1K\1K\1K\1tR"))),
      HasSubstr("has no storage in the file"));
  EXPECT_THAT(refusal(with_twelve("}", {{"f/byteorder", "big"}})), HasSubstr("big-endian"));
  EXPECT_THAT(refusal(with_twelve("}", {{"g/data.pkl", ""}})), HasSubstr("two pickles"));
  EXPECT_THAT(refusal(zip_bytes({{"a/b.txt", "x"}})), HasSubstr("not of torch.save"));
}

// Its archive is compressed too, which is not what the user should mend.
TEST(TorchFileTest, TorchScriptIsKnownAtOnce) {
  EXPECT_THAT(error_of<IoError>([] { golden("torchscript.pt"); }),
              HasSubstr("torchscript.pt: a TorchScript program. Save its weights alone"));
}

TEST(TorchFileTest, FilesBeforeTorch16MustBeWhole) {
  const auto whole_file = [](const std::string& elements = raw(i64{12}),
                             const std::string& keys = text("0"), const std::string& version = "") {
    std::string floats;
    for (int i = 0; i < 12; ++i) floats += raw(static_cast<float>(i));
    return "\x80\2\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19."s +
           whole(version.empty() ? "M\xe9\3" : version) +
           whole(dict(text("little_endian") + "\x88")) + whole(window(0, {2}, {1})) +
           whole("](" + keys + "e") + elements + floats;
  };
  EXPECT_EQ(one(whole_file()), "[2]: 0 1");
  EXPECT_THAT(refusal(whole_file(raw(i64{11}))), HasSubstr("has 11 elements, wanted 12"));
  EXPECT_THAT(refusal(whole_file(raw(i64{12}), text("1"))),
              HasSubstr("nothing says of which type its storage 1 is"));
  EXPECT_THAT(refusal(whole_file("", "")), HasSubstr("bytes follow its last storage"));
  EXPECT_THAT(refusal(whole_file(raw(i64{12}), text("0"), "K\1")), HasSubstr("its version is 1"));
  const std::string bytes = whole_file();
  for (std::size_t n = 14; n < bytes.size(); ++n)
    EXPECT_NE(refusal(bytes.substr(0, n)), "no error") << n << " bytes";
}

TEST(TorchFileTest, OtherFilesAreNotTakenForOne) {
  // A safetensors file whose header has 0x04034b50 bytes begins as a zip archive does.
  for (const std::string& bytes : {""s, "PK\3\4"s, "PK\3\4\0\0\0\0{}"s, "\x80\2\0\0\0\0\0\0{}"s}) {
    const InputFile file(std::as_bytes(std::span(bytes)), "f");
    EXPECT_FALSE(is_torch_file(file));
    EXPECT_THAT(error_of<IoError>([&] { read_torch_file(file); }),
                HasSubstr("not a file of torch.save"));
  }
}

class TorchFileWritten : public InTempFolder {};

TEST_F(TorchFileWritten, IsReadAgain) {
  std::vector<NamedTensor> given{{"empty", Tensor::zeros({0, 3})},
                                 {"scalar", Tensor::full({}, 7, DType::i64)}};
  for (const DType type : {DType::f32, DType::bf16, DType::f16, DType::u8, DType::i32, DType::i64})
    given.push_back({"t" + std::to_string(given.size()), Tensor::full({2, 3, 4}, 3).to(type)});
  const auto path = file("w.pth");
  write_torch_file(path, given);
  const TorchFile read_again = read_torch_file(InputFile(path));
  ASSERT_EQ(read_again.tensors.size(), given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(read_again.tensors[i].name, given[i].name);
    EXPECT_EQ(read_again.tensors[i].tensor.dtype(), given[i].tensor.dtype());
    EXPECT_EQ(values(read_again.tensors[i].tensor), values(given[i].tensor));
  }
  EXPECT_EQ(read_again.notes.size(), 0u);
  EXPECT_THROW(write_torch_file(path, {given[0], given[0]}), IoError);
}

}  // namespace
}  // namespace gossamer
