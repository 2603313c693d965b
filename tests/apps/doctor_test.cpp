// What `gossamer doctor` says about a driver that cannot run this program.
#include "gossamer/apps/commands/doctor.h"

#include <gtest/gtest.h>

namespace gossamer::apps {
namespace {

TEST(Doctor, AnOldDriverIsNamedWithWhatIsNeeded) {
  const cuda::Versions v{12080, 13000};
  EXPECT_TRUE(v.driver_is_too_old());
  const Check found = old_driver("570.86.15", v);
  EXPECT_EQ(found.verdict, Verdict::problem);
  EXPECT_EQ(found.text,
            "the NVIDIA driver 570.86.15 is for CUDA 12.8; this program was built with CUDA 13.0 "
            "and needs >= 580");
  EXPECT_NE(found.fix.find("cuda-compat-13-0"), std::string::npos) << found.fix;
  EXPECT_NE(old_driver("", {11080, 12090}).text.find("the NVIDIA driver is for CUDA 11.8"),
            std::string::npos);
}

TEST(Doctor, ADriverRunsProgramsOfItsOwnMajorVersionAndOlderOnes) {
  EXPECT_FALSE((cuda::Versions{13000, 13010}).driver_is_too_old());
  EXPECT_FALSE((cuda::Versions{13000, 12080}).driver_is_too_old());
  EXPECT_FALSE((cuda::Versions{0, 13000}).driver_is_too_old()) << "there is no driver";
}

}  // namespace
}  // namespace gossamer::apps
