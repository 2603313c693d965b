// How exactly a thread sleeps.
#include "gossamer/dist/time.h"

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace gossamer::dist {

#ifdef __linux__
PreciseSleep::PreciseSleep() : before_(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)) {
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}
PreciseSleep::~PreciseSleep() {
  if (before_ > 0) prctl(PR_SET_TIMERSLACK, before_, 0, 0, 0);
}
#else
PreciseSleep::PreciseSleep() = default;
PreciseSleep::~PreciseSleep() = default;
#endif

}  // namespace gossamer::dist
