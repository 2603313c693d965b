// From decoded bytes to what the first convolution reads: crop, antialiased resize (Pillow's
// triangle filter), flip, normalisation, type and layout in one pass. A block makes 16 x 16
// outputs: it resizes the lines it needs across into shared memory, 64 at a time, then down.
#pragma once

#include <cmath>

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
  static constexpr int side = 16, lines = 64, threads = side * side, phases = 4;
  struct Shared {
    Taps across[side], down[side];  // of the tile's columns and rows
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
    int n, y, x;  // image, and the tile's first output
  };
  GOSSAMER_HD Tile tile(i64 block) const {
    const int index = static_cast<int>(block), image = down * across, n = index / image,
              rest = index - n * image;
    return {n, rest / across * side, rest % across * side};
  }
  // Input lines that the tile's outputs need: [begin, end), of them [from, to) in this round.
  struct Lines {
    int begin, end, from, to;
  };
  GOSSAMER_HD Lines lines_of(const Tile& t, const Shared& shared, int round) const {
    const Taps &top = shared.down[0], &bottom = shared.down[(t.y + side < h ? side : h - t.y) - 1];
    const int begin = top.first, end = bottom.first + bottom.count, from = begin + round * lines;
    return {begin, end, from, from + lines < end ? from + lines : end};
  }
  GOSSAMER_HD bool again(i64 block, const Shared& shared, const State& state) const {
    const Lines l = lines_of(tile(block), shared, state.round);
    return l.from < l.end;
  }

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared& shared, State& state) const {
    const Tile t = tile(block);
    if constexpr (phase == 0) {
      if (state.round == 0) find_taps(t, thread, shared);
    } else {
      const Lines l = lines_of(t, shared, state.round);
      if constexpr (phase == 1) resize_across(t, l, thread, shared);
      if constexpr (phase == 2) resize_down(t, l, thread, shared, state);
      if constexpr (phase == 3) {
        ++state.round;
        if (l.to >= l.end) write(t, thread, shared);
      }
    }
  }

  // Threads 0 … 15: a column's taps, 16 … 31: a row's. Once for the block, because the centres are
  // double, which a GPU computes slowly.
  GOSSAMER_HD void find_taps(const Tile& t, int thread, Shared& shared) const {
    const Picture& p = pictures[t.n];
    const int i = thread % side, x = t.x + i, y = t.y + i;
    if (thread < side && x < w)
      shared.across[i] = Taps::of(p.width, p.to_width, p.x + (p.flip ? w - 1 - x : x));
    if (thread >= side && thread < 2 * side && y < h)
      shared.down[i] = Taps::of(p.height, p.to_height, p.y + y);
  }

  // thread: a column of every 16th line
  GOSSAMER_HD void resize_across(const Tile& t, const Lines& l, int thread, Shared& shared) const {
    const int row = thread / side, column = thread % side;
    if (t.x + column >= w) return;
    const Picture& p = pictures[t.n];
    const Taps taps = shared.across[column];
    for (int line = l.from + row; line < l.to; line += side) {
      const std::uint8_t* pixel =
          bytes + p.offset + static_cast<i64>(line) * p.pitch + 3 * taps.first;
      float sum[3] = {0, 0, 0}, total = 0;
      for (int k = 0; k < taps.count; ++k) {
        const float weight = taps.weight(k);
        total += weight;
        for (int c = 0; c < 3; ++c) sum[c] += weight * static_cast<float>(pixel[3 * k + c]);
      }
      for (int c = 0; c < 3; ++c) shared.line[line - l.from][column][c] = sum[c] / total;
    }
  }

  // thread: an output
  GOSSAMER_HD void resize_down(const Tile& t, const Lines& l, int thread, Shared& shared,
                               State& state) const {
    const int row = thread / side, column = thread % side;
    const bool inside = t.y + row < h && t.x + column < w;
    if (inside) {
      const Taps taps = shared.down[row];
      const int last = taps.first + taps.count < l.to ? taps.first + taps.count : l.to;
      for (int line = taps.first > l.from ? taps.first : l.from; line < last; ++line) {
        const float weight = taps.weight(line - taps.first);
        state.total += weight;
        for (int c = 0; c < 3; ++c) state.sum[c] += weight * shared.line[line - l.from][column][c];
      }
    }
    if (l.to < l.end) return;
    for (int c = 0; c < 3; ++c)
      shared.out[row][column][c] =
          inside ? state.sum[c] / state.total * factor[c] + offset[c] : 0.0f;
  }

  GOSSAMER_HD void write(const Tile& t, int thread, const Shared& shared) const {
    for (int i = thread; i < side * side * 3; i += threads) {
      const int c = i % 3, x = i / 3 % side, y = i / (3 * side);
      if (t.y + y < h && t.x + x < w)
        store(out, ((i64{t.n} * h + t.y + y) * w + t.x + x) * 3 + c, shared.out[y][x][c]);
    }
  }
};

}  // namespace gossamer::kernels
