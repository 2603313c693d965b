// Tensor, Shape and the element types: windows, copies, conversions, and what they say when used
// wrongly.
#include "gossamer/core/tensor.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/ops.h"

namespace gossamer {
namespace {

template <class E, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no error of this type";
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
// on a mutable tensor the name is the setter
bool wants(const Tensor& t) { return t.requires_grad(); }
std::vector<float> list(const Tensor& t) {
  const Tensor wide = t.to(DType::f32);
  return {wide.span<float>().begin(), wide.span<float>().end()};
}

TEST(ShapeOf, CountsIndexesAndPrints) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s.numel(), 24);
  EXPECT_EQ(s[-1], 4);
  EXPECT_EQ(s.str(), "[2, 3, 4]");
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ(Shape{}.str(), "[]");
  EXPECT_EQ((Shape{2, 0}).numel(), 0);
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_THROW((Shape{1, 2, 3, 4, 5, 6, 7}), ShapeError);
  EXPECT_THROW((Shape{-3}), ShapeError);
  EXPECT_TRUE(has(error_of<ShapeError>([] {
                    static_cast<void>((Shape{i64{1} << 40, i64{1} << 40}).numel());
                  }),
                  "more elements than can be counted"));
  EXPECT_TRUE(has(error_of<ShapeError>([] {
                    static_cast<void>((Shape{2, -1}).numel());
                  }),
                  "[2, -1] has an open extent"));
}

TEST(Bfloat16, RoundsToNearestEvenAndKeepsSpecialValues) {
  EXPECT_EQ(static_cast<float>(bf16(1.0f)), 1.0f);
  EXPECT_EQ(static_cast<float>(bf16(1.0f + 0x1p-8f)), 1.0f) << "a tie goes to the even neighbour";
  EXPECT_EQ(static_cast<float>(bf16(1.0f + 0x3p-8f)), 1.0f + 0x4p-8f)
      << "a tie goes to the even neighbour";
  EXPECT_EQ(static_cast<float>(bf16(1.0f + 0x1.01p-8f)), 1.0f + 0x1p-7f);
  EXPECT_EQ(static_cast<float>(bf16(-0.0f)), 0.0f);
  EXPECT_TRUE(std::signbit(static_cast<float>(bf16(-0.0f))));
  EXPECT_TRUE(std::isinf(static_cast<float>(bf16(std::numeric_limits<float>::infinity()))));
  EXPECT_TRUE(std::isinf(static_cast<float>(bf16(std::numeric_limits<float>::max()))));
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(std::bit_cast<float>(0x7f800001u)))))
      << "a NaN must not be rounded to infinity";
}

TEST(TensorOf, StartsWithWhatItWasGiven) {
  EXPECT_EQ(list(Tensor::zeros({3})), (std::vector<float>{0, 0, 0}));
  for (const DType type :
       {DType::f32, DType::bf16, DType::f16, DType::u8, DType::i32, DType::i64}) {
    const Tensor t = Tensor::full({2}, 7, type);
    EXPECT_EQ(t.dtype(), type);
    EXPECT_EQ(t.bytes(), 2 * size_of(type));
    EXPECT_EQ(list(t), (std::vector<float>{7, 7})) << type;
  }
  EXPECT_EQ(list(Tensor::from(std::vector<float>{1, 2}, {2, 1})), (std::vector<float>{1, 2}));
  EXPECT_EQ(Tensor::from(std::vector<std::int32_t>{1, 2}, {2}).dtype(), DType::i32);
  EXPECT_TRUE(has(error_of<ShapeError>([] {
                    Tensor::from(std::vector<float>{1, 2}, {3});
                  }),
                  "2 values"));
  EXPECT_FALSE(Tensor().defined());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Tensor::empty({100}).data()) % 64, 0u);
}

TEST(TensorOf, RefusesShapesThatNoMemoryCanHold) {
  EXPECT_THROW(Tensor::empty({-1}), ShapeError);
  EXPECT_TRUE(has(error_of<ShapeError>([] {
                    Tensor::empty({i64{1} << 40, i64{1} << 40});
                  }),
                  "[1099511627776, 1099511627776]"));
}

TEST(TensorOf, RefusesForeignMemoryOfImpossibleShapes) {
  float one = 0;
  EXPECT_THROW(Tensor::wrap(&one, {-1}, DType::f32), ShapeError);
  EXPECT_THROW(Tensor::wrap(&one, {i64{1} << 62}, DType::f32), ShapeError);
  EXPECT_THROW(Tensor::full({1}, 0).reshape({i64{1} << 32, i64{1} << 32, -1}), ShapeError);
}

TEST(TensorWindows, ShareMemory) {
  const Tensor a = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  Tensor handle = a, row = a.slice(1, 2), flat = a.reshape({-1}), detached = a.detach();
  row.span<float>()[0] = 30;
  for (const Tensor& t : {handle.reshape({6}), flat, detached.reshape({2, 3})})
    EXPECT_EQ(list(t)[2], 30);
  EXPECT_EQ(row.shape(), (Shape{1, 2}));
  EXPECT_EQ(a.slice(1, 1).numel(), 0);
  EXPECT_EQ(a.slice(1, 3).slice(1, 2).span<float>()[1], 6) << "a window of a window";
  EXPECT_EQ(a.reshape({2, -1}).shape(), (Shape{2, 3}));
  Tensor own = a.clone();
  own.fill(0);
  EXPECT_EQ(list(a)[0], 1);
}

TEST(TensorWindows, SayWhatDoesNotFit) {
  const Tensor a = Tensor::zeros({3, 2});
  EXPECT_TRUE(has(error_of<ShapeError>([&] {
                    a.reshape({4, 2});
                  }),
                  "[3, 2] has 6 elements, [4, 2] has 8"));
  EXPECT_TRUE(has(error_of<ShapeError>([&] { a.reshape({4, -1}); }), "[3, 2]"));
  EXPECT_TRUE(has(error_of<ShapeError>([&] { a.reshape({-1, -1}); }), "only one"));
  EXPECT_TRUE(has(error_of<ShapeError>([&] { a.slice(2, 4); }), "[3, 2]"));
  EXPECT_TRUE(has(error_of<ShapeError>([&] { a.slice(-1, 2); }), "-1"));
  EXPECT_THROW(a.slice(2, 1), ShapeError);
  EXPECT_THROW(Tensor::zeros({}).slice(0, 1), ShapeError);
  EXPECT_TRUE(has(error_of<ShapeError>([&] { a.as<std::int32_t>(); }), "asked for i32"));
  EXPECT_TRUE(has(error_of<ShapeError>([&] { a.item(); }), "wanted one"));
  for (const auto use : {+[] { (void)Tensor().shape(); }, +[] { (void)Tensor().data(); },
                         +[] { (void)Tensor().reshape({1}); }, +[] { (void)Tensor().slice(0, 1); },
                         +[] { (void)Tensor().detach(); }, +[] { (void)Tensor().clone(); },
                         +[] { (void)Tensor().to(DType::f32); }, +[] { (void)Tensor().grad(); }})
    EXPECT_TRUE(has(error_of<ShapeError>(use), "before it was given a value"));
}

TEST(TensorCopies, ConvertBetweenAllTypes) {
  const std::vector<float> values{0, 1, 2, 100, 250};
  for (const DType from : {DType::f32, DType::bf16, DType::f16, DType::u8, DType::i32, DType::i64})
    for (const DType to :
         {DType::f32, DType::bf16, DType::f16, DType::u8, DType::i32, DType::i64}) {
      const Tensor a = Tensor::from(values, {5}).to(from), b = a.to(to);
      EXPECT_EQ(b.dtype(), to);
      EXPECT_EQ(list(b), values) << from << " to " << to;
      EXPECT_EQ(b.slice(4, 5).item(), 250);
    }
  Tensor c = Tensor::zeros({5});
  EXPECT_TRUE(has(error_of<ShapeError>([&] { c.copy_from(Tensor::zeros({4})); }), "[4] into [5]"));
  EXPECT_NEAR(Tensor::full({1}, 3.14159f).to(DType::bf16).item(), 3.14159f, 0x1p-7f);
}

TEST(TensorCopies, OfManyElementsAreWhole) {
  Tensor a = Tensor::empty({300001});
  for (std::size_t i = 0; i < 300001; ++i) a.span<float>()[i] = static_cast<float>(i % 1000);
  EXPECT_EQ(list(a.clone()), list(a));
  const auto back = list(a.to(DType::i32).to(DType::f32));
  EXPECT_EQ(back, list(a));
}

TEST(TensorWrap, LendsForeignMemoryAndGivesItBackWithTheLastWindow) {
  std::vector<float> mine{1, 2, 3, 4};
  bool released = false;
  {
    Tensor window;
    {
      Tensor t = Tensor::wrap(mine.data(), {2, 2}, DType::f32, [&] { released = true; });
      t.fill(5);
      window = t.slice(0, 1);
    }
    EXPECT_FALSE(released);
    EXPECT_EQ(list(window), (std::vector<float>{5, 5}));
  }
  EXPECT_TRUE(released);
  EXPECT_EQ(mine[3], 5);
}

TEST(TensorRebind, MovesEveryHandleToTheNewMemory) {
  Tensor a = Tensor::full({2, 2}, 1), handle = a;
  const Tensor block = Tensor::full({8}, 3, DType::bf16);
  a.rebind(block.slice(4, 8).reshape({2, 2}));
  EXPECT_EQ(handle.dtype(), DType::bf16);
  EXPECT_EQ(list(handle), (std::vector<float>(4, 3)));
  EXPECT_THROW(a.rebind(block), ShapeError);
}

TEST(TensorGrad, IsUndefinedUntilBackwardAndOnlyForFloatingTypes) {
  Tensor a = Tensor::full({3}, 2);
  EXPECT_FALSE(wants(a));
  EXPECT_FALSE(a.grad().defined());
  a.requires_grad();
  EXPECT_TRUE(wants(a));
  EXPECT_FALSE(a.grad().defined());
  sum(a * a).backward();
  EXPECT_EQ(list(a.grad()), (std::vector<float>(3, 4)));
  EXPECT_FALSE(wants(a.detach()));
  EXPECT_FALSE(wants(a.clone()));
  a.requires_grad(false);
  EXPECT_FALSE(wants((a * a)));
  Tensor labels = Tensor::zeros({2}, DType::i32);
  EXPECT_TRUE(has(error_of<ShapeError>([&] { labels.requires_grad(); }), "i32"));
}

}  // namespace
}  // namespace gossamer
