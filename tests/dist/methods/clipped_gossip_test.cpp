// ClippedGossip under attack: four workers on the chain of unlike_data.h, and a fifth that hangs on
// the second and lies to it. The values after 3 and 50 rounds, and the distance after 2,000, are
// known (computed in Python).
#include <gtest/gtest.h>

#include "dist/methods/unlike_data.h"
#include "gossamer/dist/faults/attack.h"

namespace gossamer::dist {
namespace {

class Attacked final : private RoundWorker {
 public:
  Attacked(Attack attack, double radius)
      : attack_(attack),
        formula_(method_row("clipped-gossip").formula(Settings().set("clip_radius", radius))),
        rounds_(make_rounds(parse_graph("0 1\n1 2\n2 3\n1 4\n", "the edges", kAll))) {}
  void run(int steps) {
    for (; steps > 0; --steps) formula_->step(*this, step_++);
  }
  Points honest() const { return {x_[0], x_[1], x_[2], x_[3]}; }

 private:
  static constexpr int kAll = kWorkers + 1;
  static constexpr std::size_t kLiar = kWorkers;
  void update() override {
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const Point g = gradient(std::min<std::size_t>(i, kWorkers - 1), x_[i]);
      for (std::size_t k = 0; k < 2; ++k) x_[i][k] -= kRate * g[k];
    }
  }
  void lie_to_victim() {
    const Round round = rounds_->round(1, 0);
    const Point own = x_[kLiar];
    lie<double>(attack_, own, x_[1], round.in.back().weight,
                {{round.in[0].weight, x_[0]}, {round.in[1].weight, x_[2]}}, x_[kLiar]);
  }
  void mix() override {
    lie_to_victim();
    const std::vector<Point> before = x_;
    for (int i = 0; i < kAll; ++i) {
      std::vector<double> weights, distances;
      const Round round = rounds_->round(i, 0);
      const Point& own = before[static_cast<std::size_t>(i)];
      for (const Neighbour& j : round.in) {
        const Point& other = before[static_cast<std::size_t>(j.worker)];
        weights.push_back(j.weight);
        distances.push_back(std::hypot(other[0] - own[0], other[1] - own[1]));
      }
      if (i < kWorkers) weights = clipped(*formula_->clipping(), weights, distances);
      for (std::size_t j = 0; j < weights.size(); ++j)
        for (std::size_t k = 0; k < 2; ++k)
          x_[static_cast<std::size_t>(i)][k] +=
              weights[j] * (before[static_cast<std::size_t>(round.in[j].worker)][k] - own[k]);
    }
  }
  double learning_rate() const override { return kRate; }
  void average_gradients() override { FAIL(); }
  void mix_ahead() override { FAIL(); }
  void mix_alone(Vector) override { FAIL(); }
  void relay() override { FAIL(); }
  void begin_replicas() override { FAIL(); }
  void exchange_replicas() override { FAIL(); }
  void receive_replicas() override { FAIL(); }
  void mix_replicas(double) override { FAIL(); }
  void average() override { FAIL(); }
  void average_compressed(Vector, MeanOver) override { FAIL(); }
  void outer_step(const OuterStep&) override { FAIL(); }
  void blend(Vector, double, double, Vector) override { FAIL(); }

  const Attack attack_;
  const std::unique_ptr<RoundFormula> formula_;
  const std::shared_ptr<const Rounds> rounds_;
  std::vector<Point> x_{kAll, Point{0, 0}};
  i64 step_ = 0;
};

struct Case {
  Attack attack;
  double radius;
  Points after3, after50;
  double distance;  // after 2,000, to the minimum; below 0: it grows without limit
};
const Case kCases[] = {
    Case{Attack::sign_flip,
         1e300,
         {{{.220767578125, .399695312500},
           {.145513671875, .262138671875},
           {.104087962963, .314745370370},
           {.087519675926, .292334490741}}},
         {{{.417609867441, .743713489482},
           {.233719375973, .570677352542},
           {.144659044636, .897862294112},
           {.109166095224, .996718997635}}},
         0.488},
    Case{Attack::sign_flip,
         0,
         {{{.219006543535, .399317430310},
           {.139449073221, .259066342960},
           {.107181628443, .316137143251},
           {.089185749556, .292948150072}}},
         {{{.409596354841, .840296797727},
           {.242867858155, .744821679832},
           {.205601465086, 1.10956986653},
           {.141681412318, 1.16491208774}}},
         0.372},
    Case{Attack::dissensus,
         1e300,
         {{{.092767578125, .398208984375},
           {-.566254882813, .232445312500},
           {-.007775318287, .313786385995},
           {.073175925926, .291631365741}}},
         {{{-38.24489652254, 51.51277639947},
           {-59.87101005278, 105.31200641086},
           {-29.66752096185, 51.33835249019},
           {-20.39313865542, 35.28481481846}}},
         -1},
    Case{Attack::dissensus,
         .5,
         {{{.157304475072, .412633354864},
           {-.089573886643, .341249302103},
           {.051041591034, .327075838304},
           {.078260359371, .293144589980}}},
         {{{.538175357274, 1.17437322806},
           {-.660635708651, 1.56598098538},
           {-.255358240290, 1.60509502737},
           {-.234353823865, 1.59343285971}}},
         0.684},
    Case{Attack::dissensus,
         0,
         {{{.171347375701, .415887980134},
           {-.055123674236, .349118107411},
           {.099437816531, .338095965034},
           {.088203864167, .295913342031}}},
         {{{-.097717429967, 1.23122547500},
           {-.417027601254, 1.37338631671},
           {-.027776689984, 1.50609185539},
           {-.057447826584, 1.50133665168}}},
         0.385},
    Case{Attack::alie,
         0,
         {{{.171346799316, .415857767461},
           {-.054807283015, .347880339801},
           {.099437537317, .338065621774},
           {.088198898484, .295932488633}}},
         {{{.040604348164, 1.04284944026},
           {-.249457449173, 1.04945688440},
           {.038482372370, 1.35711758958},
           {-.000866097744, 1.38024566639}}},
         0.223},
};

TEST(ClippedGossip, GivesTheKnownValuesUnderAttack) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message()
                 << "attack " << static_cast<int>(c.attack) << ", radius " << c.radius);
    Attacked all(c.attack, c.radius);
    const auto expect = [&](const Points& wanted) {
      const Points x = all.honest();
      for (std::size_t i = 0; i < kWorkers; ++i)
        for (std::size_t k = 0; k < 2; ++k) EXPECT_NEAR(x[i][k], wanted[i][k], 1e-10) << i;
    };
    all.run(3);
    expect(c.after3);
    all.run(47);
    expect(c.after50);
    all.run(1950);
    if (c.distance >= 0)
      EXPECT_NEAR(root_mean_square(all.honest()), c.distance, 6e-4);
    else
      EXPECT_GT(root_mean_square(all.honest()), 1e3);
  }
}

// The distance to the minimum of the honest after 2,000 rounds: adaptive clipping is better than
// none, and than a small radius, under each attack.
TEST(ClippedGossip, AnAdaptiveRadiusIsTheBestUnderEveryAttack) {
  const auto distance = [](Attack attack, double radius) {
    Attacked all(attack, radius);
    all.run(2000);
    return root_mean_square(all.honest());
  };
  const struct {
    Attack attack;
    double small, half, adaptive;
  } known[] = {{Attack::sign_flip, 1.82, .41, .372},
               {Attack::dissensus, 2.05, .684, .385},
               {Attack::alie, 1.97, .458, .223},
               {Attack::ipm, 1.82, .402, .364}};
  for (const auto& each : known) {
    EXPECT_NEAR(distance(each.attack, .1), each.small, 6e-3);
    EXPECT_NEAR(distance(each.attack, .5), each.half, 6e-4);
    EXPECT_NEAR(distance(each.attack, 0), each.adaptive, 6e-4);
    const double none = distance(each.attack, 1e300);
    EXPECT_TRUE(std::isnan(none) || none > each.adaptive);
  }
}

TEST(ClippedGossip, UsesNothingThatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(clipped({2}, {.5, .25, .25, .25}, {1, 4, nan, infinite}),
            (std::vector<double>{.5, .125, 0, 0}));
  EXPECT_EQ(clipped({}, {.5, .25, .25}, {1, nan, 2}), (std::vector<double>{.5, 0, .25}));
  EXPECT_EQ(clipped({}, {.5}, {3}), (std::vector<double>{.5}));
  EXPECT_EQ(clipped({}, {}, {}), std::vector<double>());
}

}  // namespace
}  // namespace gossamer::dist
