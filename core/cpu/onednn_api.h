// What oneDNN 2 and oneDNN 3 are told in different words: the shapes of a primitive and what
// follows its sums. Nothing else in this tree depends on which of the two it is.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace gossamer::cpu::onednn {

using dnnl::memory;
using Dims = memory::dims;

struct Window {  // of a convolution
  Dims strides, dilates, left, right;
};

using Forward = dnnl::convolution_forward::primitive_desc;
using BackData = dnnl::convolution_backward_data::primitive_desc;
using BackWeights = dnnl::convolution_backward_weights::primitive_desc;
using Product = dnnl::matmul::primitive_desc;

inline constexpr auto kDirect = dnnl::algorithm::convolution_direct;

#if DNNL_VERSION_MAJOR >= 3

// bias: an empty description if there is none
inline Forward forward(const dnnl::engine& engine, dnnl::prop_kind kind, const memory::desc& x,
                       const memory::desc& w, const memory::desc& bias, const memory::desc& y,
                       const Window& win, const dnnl::primitive_attr& attr) {
  return {engine, kind,        kDirect,     x,        w,         bias,
          y,      win.strides, win.dilates, win.left, win.right, attr};
}
inline BackData back_data(const dnnl::engine& engine, const memory::desc& dx, const memory::desc& w,
                          const memory::desc& dy, const Window& win,
                          const dnnl::primitive_attr& attr, const Forward& hint) {
  return {engine, kDirect, dx, w, dy, win.strides, win.dilates, win.left, win.right, hint, attr};
}
inline BackWeights back_weights(const dnnl::engine& engine, const memory::desc& x,
                                const memory::desc& dw, const memory::desc& dy, const Window& win,
                                const dnnl::primitive_attr& attr, const Forward& hint) {
  return {engine, kDirect, x, dw, dy, win.strides, win.dilates, win.left, win.right, hint, attr};
}
inline Product product(const dnnl::engine& engine, const memory::desc& a, const memory::desc& b,
                       const memory::desc& c, const dnnl::primitive_attr& attr) {
  return {engine, a, b, c, attr};
}
inline void append_relu(dnnl::post_ops& post) {
  post.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
}

#else

inline Forward forward(const dnnl::engine& engine, dnnl::prop_kind kind, const memory::desc& x,
                       const memory::desc& w, const memory::desc& bias, const memory::desc& y,
                       const Window& win, const dnnl::primitive_attr& attr) {
  return {
      {kind, kDirect, x, w, bias, y, win.strides, win.dilates, win.left, win.right}, attr, engine};
}
inline BackData back_data(const dnnl::engine& engine, const memory::desc& dx, const memory::desc& w,
                          const memory::desc& dy, const Window& win,
                          const dnnl::primitive_attr& attr, const Forward& hint) {
  return {{kDirect, dx, w, dy, win.strides, win.dilates, win.left, win.right}, attr, engine, hint};
}
inline BackWeights back_weights(const dnnl::engine& engine, const memory::desc& x,
                                const memory::desc& dw, const memory::desc& dy, const Window& win,
                                const dnnl::primitive_attr& attr, const Forward& hint) {
  return {{kDirect, x, dw, dy, win.strides, win.dilates, win.left, win.right}, attr, engine, hint};
}
inline Product product(const dnnl::engine& engine, const memory::desc& a, const memory::desc& b,
                       const memory::desc& c, const dnnl::primitive_attr& attr) {
  return {{a, b, c}, attr, engine};
}
inline void append_relu(dnnl::post_ops& post) {
  post.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
}

#endif

}  // namespace gossamer::cpu::onednn
