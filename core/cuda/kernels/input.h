// From decoded bytes to what the first convolution reads: crop, antialiased resize (Pillow's
// triangle filter), flip, normalisation, type and layout. A small pass finds the taps of each
// column and row of each image, since their centres are double, which costs more than all the rest.
// Then a block makes 16 x 16 outputs: it brings the lines it needs into shared memory, 32 at a
// time, and resizes them across, then down.
#pragma once

#include <cmath>
#include <cstring>

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

struct FindTaps {  // of the w columns, then the h rows of each image
  const Picture* pictures;
  int h, w;
  Taps* taps;  // [n, w + h]
  GOSSAMER_HD void operator()(i64 i) const {
    const i64 n = i / (w + h);
    const int at = static_cast<int>(i - n * (w + h));
    const Picture& p = pictures[n];
    taps[i] = at < w ? Taps::of(p.width, p.to_width, p.x + (p.flip ? w - 1 - at : at))
                     : Taps::of(p.height, p.to_height, p.y + at - w);
  }
};

template <class T>
struct InputTile {
  static constexpr int side = 16, lines = 2 * side, chunks = 16, threads = side * side, phases = 4,
                       resident = 5;
  struct Shared {
    alignas(16) std::uint8_t bytes[lines][16 * chunks];
    float line[lines][side][3];
    float out[side][side][3];
  };
  struct State {
    float sum[3], total;
    int left, wide;  // the pixels of a line that the tile needs
    int from, end;   // lines of this round and behind the last
  };
  const std::uint8_t* bytes;
  i64 size;
  bool aligned;  // bytes start on 16
  const Picture* pictures;
  const Taps* taps;
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
  GOSSAMER_HD static int lower(int a, int b) { return a < b ? a : b; }
  GOSSAMER_HD bool again(i64, const Shared&, const State& state) const {
    return state.from < state.end;
  }

  template <int phase>
  GOSSAMER_HD void run(i64 block, int thread, Shared& shared, State& state) const {
    const Tile t = tile(block);
    if constexpr (phase == 0) {
      if (state.end == 0) begin(t, state);
      if (fits(state)) stage(t, thread, state, shared);
    }
    const int to = lower(state.from + lines, state.end);
    if constexpr (phase == 1) {
      if (fits(state))
        resize_staged(t, to, thread, state, shared);
      else
        resize_across(t, to, thread, state, shared);
    }
    if constexpr (phase == 2) resize_down(t, to, thread, state, shared);
    if constexpr (phase == 3) {
      if (to == state.end) write(t, thread, shared);
      state.from = to;
    }
  }

  GOSSAMER_HD const Taps* columns(const Tile& t) const { return taps + i64{t.n} * (w + h) + t.x; }
  GOSSAMER_HD const Taps* rows(const Tile& t) const { return taps + i64{t.n} * (w + h) + w + t.y; }
  GOSSAMER_HD void begin(const Tile& t, State& state) const {
    const Taps first = columns(t)[0], last = columns(t)[lower(side, w - t.x) - 1], top = rows(t)[0],
               bottom = rows(t)[lower(side, h - t.y) - 1];
    state.left = lower(first.first, last.first);  // a picture may be mirrored
    const int past = first.first + first.count, past_last = last.first + last.count;
    state.wide = (past > past_last ? past : past_last) - state.left;
    state.from = top.first;
    state.end = bottom.first + bottom.count;
  }
  // Whether a line's pixels fit into shared memory wherever they start; else they are read where
  // they are.
  GOSSAMER_HD static bool fits(const State& state) { return 3 * state.wide + 15 <= 16 * chunks; }
  GOSSAMER_HD i64 start_of(const Picture& p, int line, const State& state) const {
    return p.offset + static_cast<i64>(line) * p.pitch + 3 * state.left;
  }

  // Each thread two pieces of 16 bytes, which are under way together.
  GOSSAMER_HD void stage(const Tile& t, int thread, const State& state, Shared& shared) const {
    const Picture& p = pictures[t.n];
    const int to = lower(state.from + lines, state.end);
    GOSSAMER_UNROLL
    for (int k = 0; k < lines * chunks / threads; ++k) {
      const int i = thread + k * threads, slot = i / chunks, chunk = i % chunks;
      if (state.from + slot >= to) continue;
      const i64 start = start_of(p, state.from + slot, state),
                piece = (start & ~i64{15}) + 16 * chunk;
      if (piece >= start + 3 * state.wide) continue;
      std::uint8_t* const here = shared.bytes[slot] + 16 * chunk;
      if (aligned && piece + 16 <= size) {
#ifdef __CUDA_ARCH__
        *reinterpret_cast<uint4*>(here) = detail::load16<Reuse::later>(bytes + piece);
#else
        std::memcpy(here, bytes + piece, 16);
#endif
      } else {
        for (int j = 0; j < 16; ++j)
          here[j] = piece + j < size ? bytes[piece + j] : std::uint8_t{0};
      }
    }
  }

  // thread: a column of two lines, from shared memory
  GOSSAMER_HD void resize_staged(const Tile& t, int to, int thread, const State& state,
                                 Shared& shared) const {
    const int row = thread / side, column = thread % side, line = state.from + row;
    if (line >= to || t.x + column >= w) return;
    const Picture& p = pictures[t.n];
    const Taps of = columns(t)[column];
    // how far behind 16 bytes a line starts; the lowest digits are enough for that
    const unsigned start = static_cast<unsigned>(p.offset) +
                           static_cast<unsigned>(line) * static_cast<unsigned>(p.pitch) +
                           3 * static_cast<unsigned>(state.left),
                   next = start + side * static_cast<unsigned>(p.pitch);
    const bool both = line + side < to;
    const int skip = 3 * (of.first - state.left);
    const std::uint8_t *one = shared.bytes[row] + (start & 15) + skip,
                       *two = both ? shared.bytes[row + side] + (next & 15) + skip : one;
    float sum[3] = {0, 0, 0}, sum_two[3] = {0, 0, 0}, total = 0;
    GOSSAMER_ROLL
    for (int k = 0; k < of.count; ++k) {
      const float weight = of.weight(k);
      total += weight;
      for (int c = 0; c < 3; ++c) {
        sum[c] += weight * static_cast<float>(one[3 * k + c]);
        sum_two[c] += weight * static_cast<float>(two[3 * k + c]);
      }
    }
    for (int c = 0; c < 3; ++c) shared.line[row][column][c] = sum[c] / total;
    if (!both) return;
    for (int c = 0; c < 3; ++c) shared.line[row + side][column][c] = sum_two[c] / total;
  }

  // thread: a column of every 16th line, from where the lines are
  GOSSAMER_HD void resize_across(const Tile& t, int to, int thread, const State& state,
                                 Shared& shared) const {
    const int row = thread / side, column = thread % side;
    if (t.x + column >= w) return;
    const Picture& p = pictures[t.n];
    const Taps of = columns(t)[column];
    GOSSAMER_ROLL
    for (int line = state.from + row; line < to; line += side) {
      const std::uint8_t* pixel =
          bytes + p.offset + static_cast<i64>(line) * p.pitch + 3 * of.first;
      float sum[3] = {0, 0, 0}, total = 0;
      GOSSAMER_ROLL
      for (int k = 0; k < of.count; ++k) {
        const float weight = of.weight(k);
        total += weight;
        for (int c = 0; c < 3; ++c) sum[c] += weight * static_cast<float>(pixel[3 * k + c]);
      }
      for (int c = 0; c < 3; ++c) shared.line[line - state.from][column][c] = sum[c] / total;
    }
  }

  // thread: an output
  GOSSAMER_HD void resize_down(const Tile& t, int to, int thread, State& state,
                               Shared& shared) const {
    const int row = thread / side, column = thread % side;
    const bool inside = t.y + row < h && t.x + column < w;
    if (inside) {
      const Taps of = rows(t)[row];
      const int last = lower(of.first + of.count, to);
      GOSSAMER_ROLL
      for (int line = of.first > state.from ? of.first : state.from; line < last; ++line) {
        const float weight = of.weight(line - of.first);
        state.total += weight;
        for (int c = 0; c < 3; ++c)
          state.sum[c] += weight * shared.line[line - state.from][column][c];
      }
    }
    if (to < state.end) return;
    for (int c = 0; c < 3; ++c)
      shared.out[row][column][c] =
          inside ? state.sum[c] / state.total * factor[c] + offset[c] : 0.0f;
  }

  GOSSAMER_HD void write(const Tile& t, int thread, const Shared& shared) const {
    GOSSAMER_ROLL
    for (int i = thread; i < side * side * 3; i += threads) {
      const int c = i % 3, x = i / 3 % side, y = i / (3 * side);
      if (t.y + y < h && t.x + x < w)
        store(out, ((i64{t.n} * h + t.y + y) * w + t.x + x) * 3 + c, shared.out[y][x][c]);
    }
  }
};

}  // namespace gossamer::kernels
