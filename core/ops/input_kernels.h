// From decoded bytes to what the first convolution reads: crop, antialiased resize (Pillow's
// triangle filter), flip, normalisation, type and layout in one pass. A block makes 16 x 16
// outputs: it resizes the lines it needs across into shared memory, 64 at a time, then down.
#pragma once

#include "gossamer/core/input_pass.h"
#include "gossamer/core/ops/eight.h"
#include "gossamer/core/ops/grid.h"

namespace gossamer::kernels {

// The inputs of output `at` when `in` pixels become `out`: first … first + count - 1, with weights
// 1 - |distance|/width, not yet divided by their sum. The same taps as data/codec/resize.h; the
// centre in double, since it may be thousands of pixels away.
struct Taps {
  int first, count;
  float start, inverse;  // weight of tap t: 1 - |start + t| inverse, at least 0
  GOSSAMER_HD static Taps of(int in, int out, int at) {
    const double scale = static_cast<double>(in) / out, wide = scale > 1 ? scale : 1,
                 centre = (at + 0.5) * scale;
    const int low = static_cast<int>(centre - wide + 0.5),
              high = static_cast<int>(centre + wide + 0.5);
    const int first = low < 0 ? 0 : low;
    return {first, (high < in ? high : in) - first, static_cast<float>(first - centre + 0.5),
            static_cast<float>(1 / wide)};
  }
  GOSSAMER_HD float weight(int t) const {
    const float w = 1 - fabsf(start + static_cast<float>(t)) * inverse;
    return w > 0 ? w : 0;
  }
};

template <class T>
struct InputTile {
  static constexpr int side = 16, lines = 64, threads = side * side, phases = 3;
  struct Shared {
    float line[lines][side][3];
    float out[side][side][3];
  };
  struct State {
    float sum[3], total;
    int round;
  };
  const std::uint8_t* bytes;
  const Picture* pictures;
  T* out;                      // [n, h, w, 3]
  int h, w, down, across;      // outputs; tiles of an image
  float factor[3], offset[3];  // normalised = value factor + offset, value in [0, 255]

  struct Tile {
    i64 n;
    int y, x;  // its first output
  };
  GOSSAMER_HD Tile tile(i64 block) const {
    const i64 n = block / (down * across);
    const int rest = static_cast<int>(block - n * (down * across));
    return {n, rest / across * side, rest % across * side};
  }
  GOSSAMER_HD static Taps across_taps(const Picture& p, int column, int width) {
    return Taps::of(p.width, p.to_width, p.x + (p.flip ? width - 1 - column : column));
  }
  GOSSAMER_HD Taps down_taps(const Picture& p, int row) const {
    return Taps::of(p.height, p.to_height, p.y + row);
  }
  // Input lines [begin, end) that the tile's outputs need.
  GOSSAMER_HD void lines_of(const Picture& p, const Tile& t, int& begin, int& end) const {
    const Taps top = down_taps(p, t.y),
               bottom = down_taps(p, (t.y + side < h ? t.y + side : h) - 1);
    begin = top.first;
    end = bottom.first + bottom.count;
  }
  GOSSAMER_HD int rounds(i64 block) const {
    const Tile t = tile(block);
    int begin, end;
    lines_of(pictures[t.n], t, begin, end);
    const int n = (end - begin + lines - 1) / lines;
    return n < 1 ? 1 : n;
  }

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared& shared, State& state) const {
    const Tile t = tile(block);
    const Picture p = pictures[t.n];
    int begin, end;
    lines_of(p, t, begin, end);
    const int from = begin + state.round * lines, to = from + lines < end ? from + lines : end;
    const int row = thread / side, column = thread % side;
    if constexpr (phase == 0) {  // thread: a column of every 16th line
      if (t.x + column >= w) return;
      const Taps taps = across_taps(p, t.x + column, w);
      for (int line = from + row; line < to; line += side) {
        const std::uint8_t* pixel =
            bytes + p.offset + static_cast<i64>(line) * p.pitch + 3 * taps.first;
        float sum[3] = {0, 0, 0}, total = 0;
        for (int k = 0; k < taps.count; ++k) {
          const float weight = taps.weight(k);
          total += weight;
          for (int c = 0; c < 3; ++c) sum[c] += weight * static_cast<float>(pixel[3 * k + c]);
        }
        for (int c = 0; c < 3; ++c) shared.line[line - from][column][c] = sum[c] / total;
      }
    } else if constexpr (phase == 1) {  // thread: an output
      const bool inside = t.y + row < h && t.x + column < w;
      if (inside) {
        const Taps taps = down_taps(p, t.y + row);
        const int last = taps.first + taps.count < to ? taps.first + taps.count : to;
        for (int line = taps.first > from ? taps.first : from; line < last; ++line) {
          const float weight = taps.weight(line - taps.first);
          state.total += weight;
          for (int c = 0; c < 3; ++c) state.sum[c] += weight * shared.line[line - from][column][c];
        }
      }
      if (to >= end)
        for (int c = 0; c < 3; ++c)
          shared.out[row][column][c] =
              inside ? state.sum[c] / state.total * factor[c] + offset[c] : 0.0f;
    } else {
      ++state.round;
      if (to >= end) write(t, thread, shared);
    }
  }

  GOSSAMER_HD void write(const Tile& t, int thread, const Shared& shared) const {
    for (int i = thread; i < side * side * 3; i += threads) {
      const int c = i % 3, x = i / 3 % side, y = i / (3 * side);
      if (t.y + y < h && t.x + x < w)
        store(out, ((t.n * h + t.y + y) * w + t.x + x) * 3 + c, shared.out[y][x][c]);
    }
  }
};

}  // namespace gossamer::kernels
