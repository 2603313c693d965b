// Names of one class begin alike, so a difference takes a third of a name.
#include "gossamer/data/formats/names.h"

#include <algorithm>

#include "gossamer/core/error.h"

namespace gossamer::data {
namespace {

constexpr i64 kBlock = 16;
constexpr std::size_t kMaxShared = 255, kMaxRest = 1 << 17;  // tar names go up to 2^16

}  // namespace

void Names::add(std::string_view name) {
  std::size_t shared = 0;
  if (size_ % kBlock == 0)
    block_.push_back(text_.size());
  else
    shared = static_cast<std::size_t>(std::ranges::mismatch(name, last_).in1 - name.begin());
  shared = std::min(shared, kMaxShared);
  name = name.substr(0, shared + kMaxRest);
  text_.push_back(static_cast<std::uint8_t>(shared));
  const std::string_view rest = name.substr(shared);
  for (std::size_t length = rest.size();; length >>= 7) {
    text_.push_back(static_cast<std::uint8_t>((length & 127) | (length >> 7 ? 128 : 0)));
    if (!(length >> 7)) break;
  }
  text_.insert(text_.end(), rest.begin(), rest.end());
  last_ = name;
  ++size_;
}

void Names::step(std::size_t& at, std::string& name) const {
  name.resize(text_[at++]);
  std::size_t length = 0;
  for (int shift = 0;; shift += 7) {
    const std::uint8_t byte = text_[at++];
    length |= static_cast<std::size_t>(byte & 127) << shift;
    if (!(byte & 128)) break;
  }
  name.append(reinterpret_cast<const char*>(text_.data()) + at, length);
  at += length;
}

std::string Names::at(i64 i) const {
  std::string name;
  std::size_t at = block_[static_cast<std::size_t>(i / kBlock)];
  for (i64 k = i / kBlock * kBlock; k <= i; ++k) step(at, name);
  return name;
}

void Names::each(FunctionRef<void(i64, const std::string&)> visit) const {
  std::string name;
  std::size_t at = 0;
  for (i64 i = 0; i < size_; ++i) {
    step(at, name);
    visit(i, name);
  }
}

void Names::shrink_to_fit() {
  text_.shrink_to_fit();
  block_.shrink_to_fit();
}

Names Names::parse(std::span<const std::byte> text, i64 count, const std::string& file) {
  Names names;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  names.text_.assign(bytes, bytes + text.size());
  std::size_t at = 0, before = 0;  // before: length of the name before
  for (; names.size_ < count; ++names.size_) {
    if (names.size_ % kBlock == 0) {
      names.block_.push_back(at);
      before = 0;
    }
    std::size_t length = 0;
    bool whole = false;
    check<DataError>(at < text.size() && bytes[at] <= before, file,
                     ": damaged index: the name of sample ", names.size_);
    const std::size_t shared = bytes[at++];
    for (int shift = 0; shift < 21 && at < text.size() && !whole; shift += 7) {
      length |= static_cast<std::size_t>(bytes[at] & 127) << shift;
      whole = !(bytes[at++] & 128);
    }
    check<DataError>(whole && length <= kMaxRest && length <= text.size() - at, file,
                     ": damaged index: the name of sample ", names.size_);
    at += length;
    before = shared + length;
  }
  check<DataError>(at == text.size(), file, ": damaged index: ", text.size() - at,
                   " bytes too many in the list of names");
  names.shrink_to_fit();
  return names;
}

}  // namespace gossamer::data
