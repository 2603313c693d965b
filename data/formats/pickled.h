// Pictures of 32x32 in batches that Python pickled: ImageNet-32 (Chrabaszcz et al. 2017,
// https://patrykchrabaszcz.github.io/Imagenet32) and the "python version" of CIFAR-10 and
// CIFAR-100.
#pragma once

#include "gossamer/core/io/input_file.h"
#include "gossamer/data/formats/index.h"

namespace gossamer::data {

// ImageNet-32's labels count from 1 in the order of map_clsloc.txt: with this file beside the batch
// (or in the folder above) the classes are WordNet ids, else "0001" to "1000". Nothing in the file
// is called (core/io/pickle.h). DataError says what is wrong with it.
Index index_pickled(const InputFile&);

}  // namespace gossamer::data
