// Writes a model for the consumers to classify with:  consumer_model FILE
#include "gossamer/models/model_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"

using namespace gossamer;

int main(int, char** arguments) {
  const auto model = models::make("resnet8-cifar", {.classes = 4});
  nn::save(arguments[1], *model,
           models::metadata_of({"resnet8-cifar",
                                {"red", "green", "blue", "a dark grey"},
                                models::usual_preprocessing("resnet8-cifar")}));
}
