// What a tokenizer's model does: a piece of text becomes ids.
// Threads: any, also for one PieceModel; a PieceInHand belongs to one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace gossamer::data {

class PieceInHand;  // merges.h

class PieceModel {
 public:
  virtual ~PieceModel() = default;
  PieceModel(const PieceModel&) = delete;
  PieceModel& operator=(const PieceModel&) = delete;
  // Appends the ids of a piece, which is not empty.
  virtual void encode(std::string_view piece, PieceInHand&,
                      std::vector<std::int32_t>& ids) const = 0;
  // Whether pieces may be any bytes; else they are UTF-8.
  virtual bool takes_any_bytes() const = 0;

 protected:
  PieceModel() = default;
};

}  // namespace gossamer::data
