// Convolution on NHWC as a matrix product (products_inl.h), one for each group of channels. A row
// of the left matrix is found by pointers: one to the channels under each tap, to zeros outside of
// the image. With few channels these runs would be too short, so the pixels under the window are
// copied side by side.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gossamer/core/cpu/direct_conv.cpp"
// This file is compiled once for each kind of CPU.
#include <hwy/foreach_target.h>
//
#include "gossamer/core/cpu/direct_conv.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cpu/products_inl.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {
namespace {

// A group's share of the channels, of the filters and of the weights.
struct Group {
  i64 c, k, weights;
  explicit Group(const ConvGeometry& g)
      : c(g.c / g.groups), k(g.k / g.groups), weights(k * g.r * g.s * c) {}
};

bool few_channels(const ConvGeometry& g) { return Group(g).c < 16 && g.r * g.s > 1; }

// Along one axis of an image: output i stands on input i step + offset, for i < count, and is
// written to place + i place_step.
struct Axis {
  i64 count, size, step, place, place_step;
};

// The channels of a group inside a pixel, and from one pixel to the next.
struct Pixel {
  i64 channels, step;
};

// What a product computes: pixels of `to`, each from pixels of `from`.
struct Map {
  i64 images;
  Axis down, across;
  i64 to_h, to_w;  // of an image of `to`
  Pixel from, to;
  struct Tap {
    i64 index, down, across;  // its matrix in the weights, its offsets
  };
  std::vector<Tap> taps;
  i64 pixels() const { return images * down.count * across.count; }
};

Map forward_map(const ConvGeometry& g) {
  const Group group(g);
  Map m{g.n,
        {g.ho, g.h, g.stride, 0, 1},
        {g.wo, g.w, g.stride, 0, 1},
        g.ho,
        g.wo,
        {group.c, g.c},
        {group.k, g.k},
        {}};
  for (i64 r = 0; r < g.r; ++r) {
    for (i64 s = 0; s < g.s; ++s)
      m.taps.push_back({r * g.s + s, r * g.dilation - g.padding, s * g.dilation - g.padding});
  }
  return m;
}

// Pixels (i stride + down, j stride + across) of dx, which the same taps reach.
Map back_map(const ConvGeometry& g, i64 down, i64 across) {
  const auto axis = [&](i64 first, i64 size, i64 from) {
    return Axis{(size - first + g.stride - 1) / g.stride, from, 1, first, g.stride};
  };
  const Group group(g);
  Map m{g.n, axis(down, g.h, g.ho), axis(across, g.w, g.wo), g.h,
        g.w, {group.k, g.k},        {group.c, g.c},          {}};
  for (i64 r = 0; r < g.r; ++r) {
    for (i64 s = 0; s < g.s; ++s) {
      const i64 y = down + g.padding - r * g.dilation, x = across + g.padding - s * g.dilation;
      if (y % g.stride == 0 && x % g.stride == 0)
        m.taps.push_back({r * g.s + s, y / g.stride, x / g.stride});
    }
  }
  return m;
}

// Pixels [first, first + count) of a map, cut into runs that lie in one row of an image:
// run(begin, end, image, i, j) for pixels begin to end of the chunk, the first of them (i, j).
template <class Run>
void runs(const Map& m, i64 first, i64 count, Run&& run) {
  for (i64 begin = 0; begin < count;) {
    const i64 pixel = first + begin, j = pixel % m.across.count, row = pixel / m.across.count,
              end = std::min(count, begin + m.across.count - j);
    run(begin, end, row / m.down.count, row % m.down.count, j);
    begin = end;
  }
}

i64 round_up(i64 n, i64 to) { return (n + to - 1) / to * to; }

// The pointers of a chunk's left rows.
class LeftRows {
 public:
  // chunk: how many pixels at most
  LeftRows(const Map& m, const float* from, i64 chunk, bool copies)
      : map_(m),
        from_(from),
        stride_(chunk),
        copies_(copies),
        depth_(copies_ ? static_cast<i64>(m.taps.size()) * m.from.channels : m.from.channels),
        zeros_(static_cast<std::size_t>(depth_)),
        rows_(static_cast<std::size_t>(chunk) * (copies_ ? 1 : m.taps.size())) {
    if (!copies_) return;
    window_.resize(static_cast<std::size_t>(chunk * depth_));
    for (const Map::Tap& t : m.taps) {
      const bool joins = !lines_.empty() && m.from.channels == m.from.step &&
                         lines_.back().down == t.down &&
                         lines_.back().across + lines_.back().taps == t.across;
      if (joins)
        ++lines_.back().taps;
      else
        lines_.push_back({t.down, t.across, 1});
    }
  }
  i64 depth() const { return depth_; }  // of a tap
  i64 taps() const { return copies_ ? 1 : static_cast<i64>(map_.taps.size()); }
  const float* const* rows() const { return rows_.data(); }

  // Pixels from `first` on; after `count` of them zeros, `filled` rows in all.
  void take(i64 first, i64 count, i64 filled) {
    runs(map_, first, count, [&](i64 begin, i64 end, i64 image, i64 i, i64 j) {
      if (copies_) return copy_run(begin, end, image, i, j);
      for (std::size_t t = 0; t < map_.taps.size(); ++t)
        point_run(t, begin, end, image, i * map_.down.step + map_.taps[t].down,
                  j * map_.across.step + map_.taps[t].across);
    });
    if (copies_) {
      for (i64 p = 0; p < count; ++p)
        rows_[static_cast<std::size_t>(p)] = window_.data() + p * depth_;
    }
    for (i64 t = 0; t < taps(); ++t)
      std::fill(rows_.begin() + t * stride_ + count, rows_.begin() + t * stride_ + filled,
                zeros_.data());
  }

 private:
  // Taps whose pixels lie side by side.
  struct Line {
    i64 down, across, taps;
  };

  void copy_run(i64 begin, i64 end, i64 image, i64 i, i64 j) {
    const i64 w = map_.across.size, c = map_.from.channels;
    i64 at = 0;  // in a window
    for (const Line& line : lines_) {
      const i64 y = i * map_.down.step + line.down, width = line.taps * c;
      const bool row_inside = y >= 0 && y < map_.down.size;
      const float* row = from_ + (image * map_.down.size + y) * w * map_.from.step;
      float* to = window_.data() + begin * depth_ + at;
      i64 x = j * map_.across.step + line.across;
      for (i64 p = begin; p < end; ++p, x += map_.across.step, to += depth_) {
        // taps low to high stand inside
        const i64 low = row_inside ? std::clamp<i64>(-x, 0, line.taps) : line.taps,
                  high = std::max(low, std::min(line.taps, w - x));
        std::fill_n(to, low * c, 0.0f);
        std::copy_n(row + (x + low) * map_.from.step, (high - low) * c, to + low * c);
        std::fill(to + high * c, to + width, 0.0f);
      }
      at += width;
    }
  }

  void point_run(std::size_t t, i64 begin, i64 end, i64 image, i64 y, i64 x) {
    const i64 step = map_.across.step, w = map_.across.size, c = map_.from.step;
    // pixels begin + low to begin + high stand inside
    const bool row_inside = y >= 0 && y < map_.down.size;
    const i64 n = end - begin,
              low = !row_inside ? n
                    : x >= 0    ? 0
                                : std::min(n, (-x + step - 1) / step),
              high =
                  !row_inside || x >= w ? low : std::max(low, std::min(n, (w - 1 - x) / step + 1));
    const float* at = from_ + ((image * map_.down.size + y) * w + x) * c;
    const float** to = rows_.data() + static_cast<i64>(t) * stride_ + begin;
    for (i64 p = 0; p < low; ++p) to[p] = zeros_.data();
    for (i64 p = low; p < high; ++p) to[p] = at + p * step * c;
    for (i64 p = high; p < n; ++p) to[p] = zeros_.data();
  }

  const Map& map_;
  const float* from_;
  i64 stride_;
  bool copies_;
  i64 depth_;
  std::vector<Line> lines_;
  std::vector<float> zeros_, window_;
  std::vector<const float*> rows_;
};

// to = tail(from * b) for all pixels of the map. Threads share the columns of b, too, where there
// are fewer chunks than threads.
void convolve(const Map& m, const float* from, bool copies, const Panels& b, float* to,
              const Tail& tail) {
  const i64 pixels = m.pixels(), chunks = (pixels + kChunk - 1) / kChunk,
            panels = (m.to.channels + kPanel - 1) / kPanel,
            parts = std::clamp<i64>(compute_threads() / chunks, 1, panels);
  std::vector<i64> taps;
  for (const Map::Tap& t : m.taps) taps.push_back(t.index);
  if (copies) taps = {0};
  parallel_for(chunks * parts, 1, [&](i64 begin, i64 end) HWY_ATTR {
    LeftRows left(m, from, kChunk, copies);
    std::vector<float> unread(static_cast<std::size_t>(m.to.channels));
    std::vector<float*> places(static_cast<std::size_t>(kChunk));
    for (i64 piece = begin; piece < end; ++piece) {
      const i64 first = piece / parts * kChunk, count = std::min(kChunk, pixels - first),
                filled = round_up(count, kBlockRows), part = piece % parts,
                column = panels * part / parts * kPanel,
                last_column = std::min(panels * (part + 1) / parts * kPanel, m.to.channels);
      left.take(first, count, filled);
      runs(m, first, count, [&](i64 a, i64 z, i64 image, i64 i, i64 j) {
        float* at = to + ((image * m.to_h + m.down.place + i * m.down.place_step) * m.to_w +
                          m.across.place + j * m.across.place_step) *
                             m.to.step;
        for (i64 p = a; p < z; ++p)
          places[static_cast<std::size_t>(p)] = at + (p - a) * m.across.place_step * m.to.step;
      });
      std::fill(places.begin() + count, places.begin() + filled, unread.data());
      multiply_chunk(left.rows(), filled, b, column, last_column, places.data(), taps, tail);
    }
  });
}

Panels forward_panels(const ConvGeometry& g, std::shared_ptr<Block> block) {
  const Group group(g);
  const i64 taps = g.r * g.s;
  return few_channels(g) ? Panels(1, taps * group.c, group.k, std::move(block))
                         : Panels(taps, group.c, group.k, std::move(block));
}

void conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) {
  note_run(Kernel::direct, HWY_TARGET);
  const Group group(g);
  const Map m = forward_map(g);
  const Panels b = forward_panels(g, nullptr);
  for (i64 i = 0; i < g.groups; ++i) {
    pack_transposed(b, w.as<float>() + i * group.weights);
    convolve(m, x.as<float>() + i * group.c, few_channels(g), b, y.as<float>() + i * group.k, {});
  }
}

PackedWeights pack(const ConvGeometry& g, const Tensor& w) {
  const Panels b = forward_panels(g, nullptr);
  pack_transposed(b, w.as<float>());
  return {b.block(), kPanel};
}

void conv_inference(const ConvGeometry& g, const Tensor& x, const PackedWeights& w,
                    const ConvTail& tail, Tensor& y) {
  note_run(Kernel::direct, HWY_TARGET);
  w.check_for(kPanel);
  convolve(forward_map(g), x.as<float>(), few_channels(g), forward_panels(g, w.block),
           y.as<float>(), {tail.add, tail.bias.as<float>(), tail.relu});
}

void conv_dx(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) {
  note_run(Kernel::direct, HWY_TARGET);
  const Group group(g);
  const Panels b(g.r * g.s, group.k, group.c);
  for (i64 i = 0; i < g.groups; ++i) {
    pack_rows(b, w.as<float>() + i * group.weights, group.c, g.r * g.s * group.c);
    for (i64 down = 0; down < g.stride; ++down) {
      for (i64 across = 0; across < g.stride; ++across) {
        const Map m = back_map(g, down, across);
        if (m.pixels() > 0)
          convolve(m, dy.as<float>() + i * group.k, false, b, dx.as<float>() + i * group.c, {});
      }
    }
  }
}

// dw[k][tap][c] = sum over pixels of dy[pixel][k] x[pixel under the tap][c]
constexpr i64 kSummed = 256;   // pixels at a time
constexpr i64 kOutputs = 240;  // rows of dw at a time: a multiple of kBlockRows

// dw of one group of channels.
void weight_gradient(const Map& m, bool copies, const float* x, const float* dy, float* dw) {
  const i64 filters = m.to.channels, pixels = m.pixels(),
            least = (filters + kOutputs - 1) / kOutputs,
            pieces = std::max(least, std::min<i64>(compute_threads(), filters / kBlockRows));
  parallel_for(pieces, 1, [&](i64 begin, i64 end) HWY_ATTR {
    LeftRows left(m, x, kSummed, copies);
    const i64 depth = left.depth(), taps = left.taps(), ld = round_up(depth, kLanes);
    std::vector<float> outputs(static_cast<std::size_t>(kSummed * round_up(kOutputs, kBlockRows))),
        panel(static_cast<std::size_t>(kSummed * kPanel)),
        edge(static_cast<std::size_t>(kOutputs * (depth % kLanes ? taps * ld : 0)));
    for (i64 piece = begin; piece < end; ++piece) {
      const i64 k0 = filters * piece / pieces, k1 = filters * (piece + 1) / pieces, rows = k1 - k0;
      float* sums = edge.empty() ? dw + k0 * taps * depth : edge.data();
      const i64 sums_row = taps * (edge.empty() ? depth : ld);
      for (i64 first = 0; first < pixels; first += kSummed) {
        const i64 count = std::min(kSummed, pixels - first);
        left.take(first, count, count);
        const float* from = dy + first * m.to.step + k0;
        for (i64 k = 0; k < rows; k += kBlockRows) {
          const i64 width = std::min<i64>(kBlockRows, rows - k);
          float* to = outputs.data() + k * count;
          for (i64 p = 0; p < count; ++p) {
            for (i64 i = 0; i < width; ++i) to[p * width + i] = from[p * m.to.step + k + i];
          }
        }
        for (i64 tap = 0; tap < taps; ++tap) {
          const float* const* in = left.rows() + tap * kSummed;
          for (i64 c = 0; c < depth; c += kPanel) {
            const i64 width = std::min(kPanel, ld - c), real = std::min(width, depth - c);
            for (i64 p = 0; p < count; ++p) {
              float* to = panel.data() + p * width;
              for (i64 i = 0; i < real; ++i) to[i] = in[p][c + i];
              for (i64 i = real; i < width; ++i) to[i] = 0;
            }
            float* sum = sums + tap * (edge.empty() ? depth : ld) + c;
            const auto add = [&]<int Vectors, bool accumulate>() HWY_ATTR {
              for (i64 k = 0; k < rows; k += kBlockRows) {
                const i64 block = std::min<i64>(kBlockRows, rows - k);
                multiply_rows<Vectors, accumulate>(block, count, outputs.data() + k * count, 1,
                                                   block, panel.data(), kLanes * Vectors,
                                                   sum + k * sums_row, sums_row);
              }
            };
            if (width == kPanel)
              first == 0 ? add.template operator()<2, false>() : add.template operator()<2, true>();
            else
              first == 0 ? add.template operator()<1, false>() : add.template operator()<1, true>();
          }
        }
      }
      if (!edge.empty()) {
        for (i64 k = 0; k < rows; ++k) {
          for (i64 tap = 0; tap < taps; ++tap)
            std::copy_n(sums + (k * taps + tap) * ld, depth, dw + ((k0 + k) * taps + tap) * depth);
        }
      }
    }
  });
}

void conv_dw(const ConvGeometry& g, const Tensor& x, const Tensor& dy, Tensor& dw) {
  note_run(Kernel::direct, HWY_TARGET);
  const Group group(g);
  const Map m = forward_map(g);
  for (i64 i = 0; i < g.groups; ++i)
    weight_gradient(m, few_channels(g), x.as<float>() + i * group.c, dy.as<float>() + i * group.k,
                    dw.as<float>() + i * group.weights);
}

}  // namespace
}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::cpu {

HWY_EXPORT(conv);
void direct_conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) {
  HWY_DYNAMIC_DISPATCH(conv)(g, x, w, y);
}

HWY_EXPORT(pack);
PackedWeights direct_pack(const ConvGeometry& g, const Tensor& w) {
  return HWY_DYNAMIC_DISPATCH(pack)(g, w);
}

HWY_EXPORT(conv_inference);
void direct_conv(const ConvGeometry& g, const Tensor& x, const PackedWeights& w,
                 const ConvTail& tail, Tensor& y) {
  HWY_DYNAMIC_DISPATCH(conv_inference)(g, x, w, tail, y);
}

HWY_EXPORT(conv_dx);
void direct_conv_dx(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) {
  HWY_DYNAMIC_DISPATCH(conv_dx)(g, dy, w, dx);
}

HWY_EXPORT(conv_dw);
void direct_conv_dw(const ConvGeometry& g, const Tensor& x, const Tensor& dy, Tensor& dw) {
  HWY_DYNAMIC_DISPATCH(conv_dw)(g, x, dy, dw);
}

}  // namespace gossamer::cpu
#endif
