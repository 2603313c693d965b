// Winograd convolution on NHWC. A block of tiles is transformed into 36 (with stride 2: 81) small
// matrices [tile, channel] that stay in cache; each is multiplied by its matrix of transformed
// weights; the products are transformed back. Threads share out the tiles or, where those are few,
// the weights.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gossamer/core/cpu/winograd.cpp"
// This file is compiled once for each kind of CPU.
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <bit>
#include <cstdint>

#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cpu/microkernel_inl.h"
#include "gossamer/core/cpu/scratch.h"
#include "gossamer/core/cpu/winograd.h"
#include "gossamer/core/cpu/winograd_tiles_inl.h"
#include "gossamer/core/ops/kernel.h"
#include "gossamer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::cpu::HWY_NAMESPACE {
namespace {

constexpr Floats kFloats;
constexpr i64 kTile = 4;      // a tile has 4 x 4 results
constexpr i64 kWeights = 36;  // matrices of transformed weights
// keeps the matrices from falling on the same cache sets
constexpr i64 kPad = 16;

struct Image {
  i64 h, w;
};
Image input_of(const ConvGeometry& g) { return {g.h, g.w}; }
Image output_of(const ConvGeometry& g) { return {g.ho, g.wo}; }

struct Tiles {  // of all images
  i64 down, across, count;
  explicit Tiles(const ConvGeometry& g)
      : down((g.ho + kTile - 1) / kTile),
        across((g.wo + kTile - 1) / kTile),
        count(g.n * down * across) {}
};

// Matrices of [tiles of a block, channels].
struct Points {
  float* data;
  i64 channels, stride;
  static i64 size(i64 points, i64 tiles, i64 channels) {
    return points * (tiles * channels + kPad);
  }
  Points(float* at, i64 tiles, i64 c) : data(at), channels(c), stride(tiles * c + kPad) {}
  float* at(i64 point, i64 tile) const { return data + point * stride + tile * channels; }
  Points from(i64 tile) const {
    Points rest = *this;
    rest.data += tile * channels;
    return rest;
  }
};

// Calls use(point) for the points that share a matrix of weights: in a square of 9 x 9 points,
// those from the sixth row or column on share one.
template <int side, class Use>
void for_points_of(i64 matrix, Use&& use) {
  const auto stop = [](i64 i) { return i == 5 ? side : i + 1; };
  const i64 i = matrix / 6, j = matrix % 6;
  for (i64 a = i; a < stop(i); ++a) {
    for (i64 b = j; b < stop(j); ++b) use(side * a + b);
  }
}

// Where a tile lies.
struct Place {
  i64 image, row, column;
  Place(const Tiles& t, i64 tile)
      : image(tile / (t.across * t.down)), row(tile / t.across % t.down), column(tile % t.across) {}
  void move_on(const Tiles& t) {
    if (++column < t.across) return;
    column = 0;
    if (++row < t.down) return;
    row = 0;
    ++image;
  }
};

// The pixels of tiles: `step` of them lie between two tiles, and a tile begins `border` before its
// place. A pixel has `channels` numbers.
template <int side, int step, int border, class T>
struct Pixels {
  Image size;
  i64 channels;
  T* data;

  i64 line() const { return size.w * channels; }
  // The tile's first pixel, which may lie outside of the image.
  T* first(const Place& p) const {
    return data + ((p.image * size.h + p.row * step - border) * size.w + p.column * step - border) *
                      channels;
  }
  // Rows and columns of the tile that lie inside.
  struct Inside {
    i64 top, bottom, left, right;
    bool all() const { return top == 0 && left == 0 && bottom == side && right == side; }
    bool row(int i) const { return i >= top && i < bottom; }
    bool column(int j) const { return j >= left && j < right; }
  };
  Inside inside(const Place& p) const {
    const i64 top = p.row * step - border, left = p.column * step - border;
    return {std::max<i64>(-top, 0), std::min<i64>(size.h - top, side), std::max<i64>(-left, 0),
            std::min<i64>(size.w - left, side)};
  }
  // Prefetches the pixels that no tile before this one has touched: its rows lie too far apart for
  // the CPU's own prefetcher.
  template <int write>
  HWY_INLINE void prefetch(const Place& p, i64 channel) const {
    constexpr int old = side - step;
    T* const at = first(p) + channel;
    if (p.row == 0) prefetch_square<write, border, old, border, side>(at);
    if (p.column == 0) prefetch_square<write, old, side, border, old>(at);
    prefetch_square<write, old, side, old, side>(at);
  }

 private:
  template <int write, int top, int bottom, int left, int right>
  HWY_INLINE void prefetch_square(T* at) const {
    for (int i = top; i < bottom; ++i) {
      T* row = at + i * line();
      keep_here(row);
#pragma GCC unroll 9
      for (int j = left; j < right; ++j) __builtin_prefetch(row + j * channels, write);
    }
  }
};

// Tiles [first, first + count) of x, transformed by Row. A pixel of x has `pixel` channels, of
// which the first out.channels are taken.
template <class Row, class T>
void transform_inputs(const Tiles& t, Image size, i64 first, i64 count, const T* x, i64 pixel,
                      const Points& out) {
  const i64 stride = out.stride, channels = out.channels;
  const Pixels<Row::in, Row::step, Row::border, const T> pixels{size, pixel, x};
  const i64 line = pixels.line();
  Place place(t, first);
  for (i64 tile = 0; tile < count; ++tile) {
    Place next = place;
    next.move_on(t);
    const T* const from = pixels.first(place);
    const auto each_vector = [&](auto&& get_row) HWY_ATTR {
      for (i64 c = 0; c < channels; c += kLanes) {
        if (c % 16 == 0) pixels.template prefetch<0>(next, c);
        float* const to = out.at(0, tile) + c;
        transform<Row>([&](int i, Vector* row) HWY_ATTR { get_row(i, from + c + i * line, row); },
                       [&](int j, const Vector* results) HWY_ATTR {
                         store_each<Row::out>(results, to + j * stride, Row::out * stride);
                       });
      }
    };
    if (const auto inside = pixels.inside(place); inside.all()) {
      each_vector([&](int, const T* at, Vector* row)
                      HWY_ATTR { load_each<Row::in>(at, pixel, row); });
    } else {
      i64 column[Row::in];  // for those outside, another one is read and masked
      hn::Mask<Floats> taken[Row::in];
      for (int j = 0; j < Row::in; ++j) {
        column[j] = (inside.column(j) ? j : inside.left) * pixel;
        taken[j] = hn::FirstN(kFloats, inside.column(j) ? kLanes : 0);
      }
      each_vector([&](int i, const T* at, Vector* row) HWY_ATTR {
        keep_here(at);
#pragma GCC unroll 9
        for (int j = 0; j < Row::in; ++j)
          row[j] = inside.row(i) ? hn::IfThenElseZero(taken[j], load(kFloats, at + column[j]))
                                 : hn::Zero(kFloats);
      });
    }
    place = next;
  }
}

// What is done to a result before it is stored at y + c.
struct AsItIs {
  template <class T>
  HWY_INLINE Vector operator()(Vector v, const T*, i64) const {
    return v;
  }
};
struct Added {  // to what y holds
  template <class T>
  HWY_INLINE Vector operator()(Vector v, const T* y, i64) const {
    return hn::Add(v, load(kFloats, y));
  }
};
template <bool add, bool rectify>
struct Finish {  // ConvTail
  const float* bias;
  template <class T>
  HWY_INLINE Vector operator()(Vector v, const T* y, i64 c) const {
    v = hn::Add(v, load(kFloats, bias + c));
    if constexpr (add) v = hn::Add(v, load(kFloats, y));
    if constexpr (rectify) v = relu(kFloats, v);
    return v;
  }
};

// Transforms the products `in` by Row and stores tail(result) in y, for pixels inside of the image.
template <class Row, class T, class Tail>
void transform_outputs(const Tiles& t, Image size, i64 first, i64 count, const Points& in,
                       const Tail& tail, T* y) {
  const i64 stride = in.stride, channels = in.channels;
  const Pixels<Row::out, Row::step, 0, T> pixels{size, channels, y};
  const i64 line = pixels.line();
  Place place(t, first);
  for (i64 tile = 0; tile < count; ++tile) {
    Place next = place;
    next.move_on(t);
    T* const to = pixels.first(place);
    const auto each_vector = [&](auto&& is_inside) HWY_ATTR {
      for (i64 c = 0; c < channels; c += kLanes) {
        // The CPU reads a line before it writes to it, and its prefetcher follows reads only.
        if (c % 16 == 0) pixels.template prefetch<1>(next, c);
        const float* const from = in.at(0, tile) + c;
        transform<Row>(
            [&](int i, Vector* row)
                HWY_ATTR { load_each<Row::in>(from + Row::in * i * stride, stride, row); },
            [&](int j, const Vector* results) HWY_ATTR {
              T* at = to + c + j * channels;
              keep_here(at);
#pragma GCC unroll 9
              for (int i = 0; i < Row::out; ++i, at += line)
                if (is_inside(i, j)) store(kFloats, tail(results[i], at, c), at);
            });
      }
    };
    if (const auto inside = pixels.inside(place); inside.all())
      each_vector([](int, int) { return true; });
    else
      each_vector([&](int i, int j) { return inside.row(i) && inside.column(j); });
    place = next;
  }
}

// Transformed weights: 36 matrices [in, out], each stored as contiguous panels of kPanel columns
// (the last may have half as many).
struct Weights {
  std::shared_ptr<Block> block;
  float* data;
  i64 in, out, stride;
  Weights(i64 inputs, i64 outputs)
      : Weights(inputs, outputs, scratch(kWeights * (inputs * outputs + kPad))) {}
  Weights(i64 inputs, i64 outputs, std::shared_ptr<Block> memory)
      : block(std::move(memory)),
        data(data_of(block)),
        in(inputs),
        out(outputs),
        stride(in * out + kPad) {}
  float* panel(i64 point, i64 column) const { return data + point * stride + column * in; }
  i64 width(i64 column) const { return std::min(kPanel, out - column); }
  // They are larger than the second-level cache.
  bool exceeds_cache() const { return in * out >= 1 << 16; }
};

// Inputs [begin, end) of the panel at `column`; at(r, s, c) points at the weights of its outputs.
template <class Row, class At>
void transform_panel(const Weights& u, i64 column, i64 begin, i64 end, At&& at) {
  const i64 width = u.width(column);
  for (i64 c = begin; c < end; ++c) {
    for (i64 k = 0; k < width; k += kLanes) {
      float* to = u.panel(0, column) + c * width + k;
      transform<Row>(
          [&](int r, Vector* row) HWY_ATTR {
            for (int s = 0; s < 3; ++s) row[s] = load(kFloats, at(r, s, c) + k);
          },
          [&](int j, const Vector* results)
              HWY_ATTR { store_each<6>(results, to + j * u.stride, 6 * u.stride); });
    }
  }
}

i64 panels_of(const Weights& u) { return (u.out + kPanel - 1) / kPanel; }  // of a matrix

// Transforms weights [out, r, s, in]; a few inputs of a panel are first transposed to
// [r, s, in, out].
template <class Row, class T>
void transform_weights(const Weights& u, const T* w) {
  constexpr i64 few = 16;
  const i64 parts = u.in / few;  // of a panel
  parallel_for(panels_of(u) * parts, 1, [&](i64 begin, i64 end) HWY_ATTR {
    T transposed[9][few][kPanel];
    for (i64 part = begin; part < end; ++part) {
      const i64 column = part / parts * kPanel, first = part % parts * few, width = u.width(column);
      for (i64 k = 0; k < width; ++k) {
        const T* from = w + (column + k) * 9 * u.in + first;
        for (i64 tap = 0; tap < 9; ++tap, from += u.in) {
          for (i64 c = 0; c < few; ++c) transposed[tap][c][k] = from[c];
        }
      }
      transform_panel<Row>(u, column, first, first + few,
                           [&](i64 r, i64 s, i64 c) { return transposed[3 * r + s][c - first]; });
    }
  });
}

// Transforms weights [in, r, s, out], rotated by 180 degrees.
template <class Row, class T>
void transform_rotated_weights(const Weights& u, const T* w) {
  parallel_for(u.in, 4, [&](i64 begin, i64 end) HWY_ATTR {
    for (i64 column = 0; column < u.out; column += kPanel)
      transform_panel<Row>(u, column, begin, end, [&](i64 r, i64 s, i64 c) {
        return w + ((c * 3 + 2 - r) * 3 + 2 - s) * u.out + column;
      });
  });
}

// out = in u at each point, for the tiles of a block and panels [begin, end) of all matrices
template <int side>
void multiply(const Points& in, const Weights& u, i64 tiles, const Points& out, i64 begin,
              i64 end) {
  const i64 blocks = (tiles + kBlockRows - 1) / kBlockRows, panels = panels_of(u);
  for (i64 matrix = begin / panels; matrix * panels < end; ++matrix) {
    const i64 first = std::max<i64>(begin - matrix * panels, 0) * kPanel,
              last = std::min((end - matrix * panels) * kPanel, u.out);
    for_points_of<side>(matrix, [&](i64 p) HWY_ATTR {
      for (i64 column = first; column < last; column += kPanel) {
        const float* b = u.panel(matrix, column);
        float* c = out.at(p, 0) + column;
        const i64 width = u.width(column);
        Prefetch next;  // the panel after this one
        if (u.exceeds_cache())
          next = {reinterpret_cast<const char*>(b + u.in * width),
                  width * i64{sizeof(float)} / blocks};
        if (width == kPanel)
          multiply_rows<2, false>(tiles, u.in, in.at(p, 0), u.in, 1, b, kPanel, c, u.out, next);
        else
          multiply_rows<1, false>(tiles, u.in, in.at(p, 0), u.in, 1, b, kLanes, c, u.out, next);
      }
    });
  }
}

// sum (+)= dy^T x at each point, over the tiles of a block: [out, in]
template <bool accumulate>
void multiply_transposed(const float* dy, const float* x, i64 out, i64 in, i64 tiles, float* sum) {
  i64 c = 0;
  for (; c + kPanel <= in; c += kPanel)
    multiply_rows<2, accumulate>(out, tiles, dy, 1, out, x + c, in, sum + c, in);
  if (c < in) multiply_rows<1, accumulate>(out, tiles, dy, 1, out, x + c, in, sum + c, in);
}

// Tiles that a thread works on at a time: what fits the second-level cache beside the weights, but
// enough of them to make reading the weights worthwhile.
i64 block_tiles(i64 tiles, i64 points, i64 in, i64 out) {
  const i64 fitting = (i64{320} << 10) / (points * static_cast<i64>(sizeof(float)) * (in + out));
  const i64 least = in * out > 128 * 64 ? 64 : 16;
  return std::min((std::max(fitting, least) + kBlockRows - 1) / kBlockRows * kBlockRows, tiles);
}

// to = tail(from * w) with w already transformed; also the gradient of x.
template <class InputRow, class OutputRow, class T, class Tail>
void convolve(const Tiles& t, Image from_size, const T* from, const Weights& u, const Tail& tail,
              Image to_size, T* to) {
  constexpr int side = InputRow::out, points = side * side;
  const auto inputs_of = [&](i64 first, i64 count, const Points& in) HWY_ATTR {
    transform_inputs<InputRow>(t, from_size, first, count, from, u.in, in);
  };
  const auto outputs_to = [&](i64 first, i64 count, const Points& out) HWY_ATTR {
    transform_outputs<OutputRow>(t, to_size, first, count, out, tail, to);
  };
  constexpr i64 least = 16;  // tiles of a thread
  const i64 pieces = compute_threads();
  if (pieces > 1 && t.count < pieces * least) {  // share out the weights instead
    const i64 in_size = Points::size(points, t.count, u.in);
    const auto work = scratch(in_size + Points::size(points, t.count, u.out));
    const Points in(data_of(work), t.count, u.in), out(data_of(work) + in_size, t.count, u.out);
    parallel_for(t.count, 1, [&](i64 begin, i64 end) HWY_ATTR {
      inputs_of(begin, end - begin, in.from(begin));
    });
    parallel_for(kWeights * panels_of(u), 1, [&](i64 begin, i64 end) HWY_ATTR {
      multiply<side>(in, u, t.count, out, begin, end);
    });
    parallel_for(t.count, 1, [&](i64 begin, i64 end) HWY_ATTR {
      outputs_to(begin, end - begin, out.from(begin));
    });
    return;
  }
  const i64 step = block_tiles((t.count + pieces - 1) / pieces, points, u.in, u.out);
  parallel_for(pieces, 1, [&](i64 begin, i64 end) HWY_ATTR {
    const i64 in_size = Points::size(points, step, u.in);
    const auto work = scratch(in_size + Points::size(points, step, u.out));
    const Points in(data_of(work), step, u.in), out(data_of(work) + in_size, step, u.out);
    const i64 stop = t.count * end / pieces;
    for (i64 first = t.count * begin / pieces; first < stop; first += step) {
      const i64 count = std::min(step, stop - first);
      inputs_of(first, count, in);
      multiply<side>(in, u, count, out, 0, kWeights * panels_of(u));
      outputs_to(first, count, out);
    }
  });
}

// The number of pieces into which the tiles are cut, each with a sum of `numbers` numbers. It
// depends on the shape alone, and so does the result. It is a power of two, to divide well among
// threads.
i64 sums_of(i64 steps, i64 numbers) {
  constexpr i64 least_steps = 10;  // pay for a sum
  const i64 most = std::max<i64>(4, (i64{1} << 18) / numbers);
  return static_cast<i64>(
      std::bit_floor(static_cast<std::uint64_t>(std::clamp(steps / least_steps, i64{1}, most))));
}

template <class Kind, class T>
void weight_gradient(const ConvGeometry& g, const T* x, const T* dy, float* dw) {
  constexpr int side = Kind::side, points = side * side;
  const Tiles t(g);
  const i64 step = block_tiles(t.count, points, g.c, g.k),
            one_sum = Points::size(kWeights, g.k, g.c), pieces = sums_of(t.count / step, one_sum),
            groups = std::clamp<i64>(compute_threads() / pieces, 1, g.k / 16);  // of the outputs
  const auto sums = scratch(one_sum * pieces);
  parallel_for(pieces * groups, 1, [&](i64 begin, i64 end) HWY_ATTR {
    const i64 in_size = Points::size(points, step, g.c);
    const auto work = scratch(in_size + Points::size(points, step, g.k));
    for (i64 part = begin; part < end; ++part) {
      const i64 piece = part / groups, group = part % groups, k0 = g.k / 16 * group / groups * 16,
                outputs = g.k / 16 * (group + 1) / groups * 16 - k0;
      const Points sum(data_of(sums) + piece * one_sum, g.k, g.c), in(data_of(work), step, g.c),
          out(data_of(work) + in_size, step, outputs);
      const i64 start = t.count * piece / pieces, stop = t.count * (piece + 1) / pieces;
      for (i64 first = start; first < stop; first += step) {
        const i64 count = std::min(step, stop - first);
        transform_inputs<typename Kind::Input>(t, input_of(g), first, count, x, g.c, in);
        transform_inputs<typename Kind::OutputGrad>(t, output_of(g), first, count, dy + k0, g.k,
                                                    out);
        for (i64 matrix = 0; matrix < kWeights; ++matrix) {
          bool begun = first != start;
          for_points_of<side>(matrix, [&](i64 p) HWY_ATTR {
            const auto multiply = begun ? multiply_transposed<true> : multiply_transposed<false>;
            multiply(out.at(p, 0), in.at(p, 0), outputs, g.c, count, sum.at(matrix, k0));
            begun = true;
          });
        }
      }
    }
  });
  parallel_for(g.k, 4, [&](i64 begin, i64 end) HWY_ATTR {
    for (i64 k = begin; k < end; ++k) {
      for (i64 c = 0; c < g.c; c += kLanes) {
        const auto sum_of = [&](i64 piece, int i, int j) HWY_ATTR {
          const Points sum(data_of(sums) + piece * one_sum, g.k, g.c);
          return load(kFloats, sum.at(6 * i + j, k) + c);
        };
        transform<typename Kind::WeightGrad>(
            [&](int i, Vector* row) HWY_ATTR {
              for (int j = 0; j < 6; ++j) {
                row[j] = sum_of(0, i, j);
                for (i64 piece = 1; piece < pieces; ++piece)
                  row[j] = hn::Add(row[j], sum_of(piece, i, j));
              }
            },
            [&](int s, const Vector* results) HWY_ATTR {
              for (int r = 0; r < 3; ++r)
                store(kFloats, results[r], dw + ((k * 3 + r) * 3 + s) * g.c + c);
            });
      }
    }
  });
}

template <class Kind, class T>
Weights transformed(const Tensor& w) {
  Weights u(w.shape(3), w.shape(0));
  transform_weights<typename Kind::Weight>(u, w.as<T>());
  return u;
}

// Calls use<Kind, T>().
template <class Use>
void with_kind(const ConvGeometry& g, DType type, const char* what, Use&& use) {
  with_floating(type, what, [&]<class T>() HWY_ATTR {
    if (g.stride == 1)
      use.template operator()<Unstrided, T>();
    else
      use.template operator()<Strided, T>();
  });
}

template <class Kind, class T, class Tail>
void forward(const ConvGeometry& g, const Tensor& x, const Weights& u, const Tail& tail,
             Tensor& y) {
  convolve<typename Kind::Input, typename Kind::Output>(Tiles(g), input_of(g), x.as<T>(), u, tail,
                                                        output_of(g), y.as<T>());
}

void conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) {
  note_run(Kernel::winograd, HWY_TARGET);
  with_kind(g, x.dtype(), "conv", [&]<class Kind, class T>() HWY_ATTR {
    forward<Kind, T>(g, x, transformed<Kind, T>(w), AsItIs(), y);
  });
}

PackedWeights pack(const ConvGeometry& g, const Tensor& w) {
  PackedWeights packed{nullptr, kPanel};
  with_kind(g, w.dtype(), "conv_inference",
            [&]<class Kind, class T>() HWY_ATTR { packed.block = transformed<Kind, T>(w).block; });
  return packed;
}

void conv_inference(const ConvGeometry& g, const Tensor& x, const PackedWeights& w,
                    const ConvTail& tail, Tensor& y) {
  note_run(Kernel::winograd, HWY_TARGET);
  w.check_for(kPanel);
  const Weights u(g.c, g.k, w.block);
  const float* bias = tail.bias.as<float>();
  with_kind(g, x.dtype(), "conv_inference", [&]<class Kind, class T>() HWY_ATTR {
    const auto run = [&](const auto& finish) HWY_ATTR { forward<Kind, T>(g, x, u, finish, y); };
    if (tail.add)
      tail.relu ? run(Finish<true, true>{bias}) : run(Finish<true, false>{bias});
    else
      tail.relu ? run(Finish<false, true>{bias}) : run(Finish<false, false>{bias});
  });
}

// A convolution of dy with the weights rotated by 180 degrees, and inputs and outputs exchanged.
void conv_dx(const ConvGeometry& g, const Tensor& dy, const Tensor& w, bool add, Tensor& dx) {
  note_run(Kernel::winograd, HWY_TARGET);
  with_kind(g, dy.dtype(), "conv_dx", [&]<class Kind, class T>() HWY_ATTR {
    const Weights u(g.k, g.c);
    transform_rotated_weights<typename Kind::Weight>(u, w.as<T>());
    const auto run = [&](const auto& tail) HWY_ATTR {
      convolve<typename Kind::BackInput, typename Kind::BackOutput>(
          Tiles(g), output_of(g), dy.as<T>(), u, tail, input_of(g), dx.as<T>());
    };
    add ? run(Added()) : run(AsItIs());
  });
}

void conv_dw(const ConvGeometry& g, const Tensor& x, const Tensor& dy, Tensor& dw) {
  note_run(Kernel::winograd, HWY_TARGET);
  with_kind(g, x.dtype(), "conv_dw", [&]<class Kind, class T>() HWY_ATTR {
    weight_gradient<Kind>(g, x.as<T>(), dy.as<T>(), dw.as<float>());
  });
}

}  // namespace
}  // namespace gossamer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::cpu {

bool winograd_fits(const ConvGeometry& g) {
  return g.r == 3 && g.s == 3 && (g.stride == 1 || g.stride == 2) && g.padding == 1 &&
         g.dilation == 1 && g.groups == 1 && g.c % 16 == 0 && g.k % 16 == 0;
}

HWY_EXPORT(conv);
void winograd_conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) {
  HWY_DYNAMIC_DISPATCH(conv)(g, x, w, y);
}

HWY_EXPORT(pack);
PackedWeights winograd_pack(const ConvGeometry& g, const Tensor& w) {
  return HWY_DYNAMIC_DISPATCH(pack)(g, w);
}

HWY_EXPORT(conv_inference);
void winograd_conv(const ConvGeometry& g, const Tensor& x, const PackedWeights& w,
                   const ConvTail& tail, Tensor& y) {
  HWY_DYNAMIC_DISPATCH(conv_inference)(g, x, w, tail, y);
}

HWY_EXPORT(conv_dx);
void winograd_conv_dx(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) {
  HWY_DYNAMIC_DISPATCH(conv_dx)(g, dy, w, false, dx);
}

void winograd_conv_dx_add(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) {
  HWY_DYNAMIC_DISPATCH(conv_dx)(g, dy, w, true, dx);
}

HWY_EXPORT(conv_dw);
void winograd_conv_dw(const ConvGeometry& g, const Tensor& x, const Tensor& dy, Tensor& dw) {
  HWY_DYNAMIC_DISPATCH(conv_dw)(g, x, dy, dw);
}

}  // namespace gossamer::cpu
#endif
