// Training on pictures as a task of `gossamer train`: samples are images.
#pragma once

#include "gossamer/apps/train/task.h"

namespace gossamer::apps {

Task picture_task(const Config&, const dist::LaunchInfo&, Device);

}  // namespace gossamer::apps
