// The ops of core for handles. Shapes and types are checked there; here, what has no room in their
// integers.
#include "gossamer/core/ops.h"

#include <cmath>

#include "gossamer/apps/capi/cancel.h"
#include "gossamer/apps/capi/tensor.h"
#include "gossamer/core/ops/rearrange.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

template <class Op>
gsm_status unary(gsm_tensor* x, gsm_tensor** y, Op&& op) {
  return computed([&] {
    const Reading t(x);
    check_given("y", y);
    *y = hold(op(*t));
  });
}

template <class Op>
gsm_status binary(gsm_tensor* a, gsm_tensor* b, gsm_tensor** y, Op&& op) {
  return computed([&] {
    const Reading left(a), right(b);
    check_given("y", y);
    *y = hold(op(*left, *right));
  });
}

// Of a window that moves over a picture. Sums of some of them fit an int.
int window(const char* what, int32_t value, int32_t least) {
  constexpr int32_t most = 1 << 16;
  check<ArgumentError>(value >= least && value <= most, what, " is ", value, "; wanted ", least,
                       " to ", most);
  return value;
}

PoolOptions pool(int32_t kernel, int32_t stride, int32_t padding) {
  return {window("kernel", kernel, 1), window("stride", stride, 1), window("padding", padding, 0)};
}

void check_eps(float eps) {
  check<ArgumentError>(eps > 0 && std::isfinite(eps), "eps is ", eps,
                       "; wanted a finite number above 0, as 1e-5");
}

AttentionOptions attention_options(int32_t heads, int32_t causal) {
  AttentionOptions options;
  options.heads = heads;
  options.causal = causal != 0;
  return options;
}

}  // namespace

gsm_status gsm_add(gsm_tensor* a, gsm_tensor* b, gsm_tensor** y) {
  return binary(a, b, y, [](const Tensor& l, const Tensor& r) { return add(l, r); });
}
gsm_status gsm_sub(gsm_tensor* a, gsm_tensor* b, gsm_tensor** y) { return binary(a, b, y, sub); }
gsm_status gsm_mul(gsm_tensor* a, gsm_tensor* b, gsm_tensor** y) {
  return binary(a, b, y, [](const Tensor& l, const Tensor& r) { return mul(l, r); });
}
gsm_status gsm_div(gsm_tensor* a, gsm_tensor* b, gsm_tensor** y) {
  return binary(a, b, y, gossamer::div);
}
gsm_status gsm_affine(gsm_tensor* x, float factor, float offset, gsm_tensor** y) {
  return unary(x, y, [&](const Tensor& t) {
    const Tensor scaled = factor == 1 ? t : mul(t, factor);
    return offset == 0 && factor != 1 ? scaled : add(scaled, offset);
  });
}

gsm_status gsm_neg(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, neg); }
gsm_status gsm_relu(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, relu); }
gsm_status gsm_sigmoid(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, sigmoid); }
gsm_status gsm_tanh(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, gossamer::tanh); }
gsm_status gsm_gelu(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, gelu); }
gsm_status gsm_gelu_tanh(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, gelu_tanh); }
gsm_status gsm_exp(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, gossamer::exp); }
gsm_status gsm_log(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, gossamer::log); }
gsm_status gsm_sqrt(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, gossamer::sqrt); }
gsm_status gsm_square(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, square); }
gsm_status gsm_abs(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, gossamer::abs); }

gsm_status gsm_cast(gsm_tensor* x, gsm_dtype type, gsm_tensor** y) {
  return unary(x, y, [&](const Tensor& t) { return cast(t, type_of(type)); });
}

gsm_status gsm_sum(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, sum); }
gsm_status gsm_mean(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, mean); }
gsm_status gsm_sum_along(gsm_tensor* x, int32_t dimension, gsm_tensor** y) {
  return unary(x, y, [&](const Tensor& t) { return sum_along(t, dimension); });
}
gsm_status gsm_mean_along(gsm_tensor* x, int32_t dimension, gsm_tensor** y) {
  return unary(x, y, [&](const Tensor& t) {
    const Tensor total = sum_along(t, dimension);
    return mul(total, 1 / static_cast<float>(t.shape(dimension)));
  });
}
gsm_status gsm_transpose(gsm_tensor* x, int32_t a, int32_t b, gsm_tensor** y) {
  return unary(x, y, [&](const Tensor& t) { return transpose(t, a, b); });
}
gsm_status gsm_concat(gsm_tensor* const* parts, int32_t n, int32_t dimension, gsm_tensor** y) {
  return computed([&] {
    check_given("parts or y", parts, y);
    check<ArgumentError>(n >= 1 && n <= 1 << 20, n, " tensors; wanted 1 to 1048576");
    std::vector<Reading> held;
    std::vector<Tensor> all;
    for (int32_t i = 0; i < n; ++i) all.push_back(*held.emplace_back(parts[i]));
    *y = hold(concat(all, dimension));
  });
}
gsm_status gsm_slice(gsm_tensor* x, int32_t dimension, int64_t begin, int64_t end, gsm_tensor** y) {
  return unary(x, y, [&](const Tensor& t) { return slice_along(t, dimension, begin, end); });
}

gsm_status gsm_softmax(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, softmax); }
gsm_status gsm_log_softmax(gsm_tensor* x, gsm_tensor** y) { return unary(x, y, log_softmax); }

gsm_status gsm_cross_entropy(gsm_tensor* logits, gsm_tensor* labels, float label_smoothing,
                             gsm_tensor** loss) {
  return binary(logits, labels, loss, [&](const Tensor& x, const Tensor& classes) {
    return cross_entropy(x, classes, {.label_smoothing = label_smoothing});
  });
}

gsm_status gsm_mse(gsm_tensor* a, gsm_tensor* b, gsm_tensor** loss) {
  return binary(a, b, loss, [](const Tensor& l, const Tensor& r) {
    check<ArgumentError>(l.shape() == r.shape(), "gsm_mse: a is ", l.shape(), ", b is ", r.shape(),
                         "; wanted one shape");
    return mean(square(sub(l, r)));
  });
}

gsm_status gsm_matmul(gsm_tensor* a, gsm_tensor* b, gsm_tensor** y) {
  return binary(a, b, y, matmul);
}

gsm_status gsm_linear(gsm_tensor* x, gsm_tensor* w, gsm_tensor* bias, gsm_tensor** y) {
  return binary(x, w, y, [&](const Tensor& in, const Tensor& weight) {
    const ReadingOrNone b(bias);
    return linear(in, weight, *b);
  });
}

gsm_status gsm_conv2d(gsm_tensor* x, gsm_tensor* w, int32_t stride, int32_t padding,
                      int32_t dilation, int32_t groups, gsm_tensor** y) {
  return binary(x, w, y, [&](const Tensor& in, const Tensor& weight) {
    return conv2d(in, weight,
                  {window("stride", stride, 1), window("padding", padding, 0),
                   window("dilation", dilation, 1), window("groups", groups, 1)});
  });
}

gsm_status gsm_max_pool2d(gsm_tensor* x, int32_t kernel, int32_t stride, int32_t padding,
                          gsm_tensor** y) {
  return unary(x, y, [&](const Tensor& t) { return max_pool2d(t, pool(kernel, stride, padding)); });
}
gsm_status gsm_avg_pool2d(gsm_tensor* x, int32_t kernel, int32_t stride, int32_t padding,
                          gsm_tensor** y) {
  return unary(x, y, [&](const Tensor& t) { return avg_pool2d(t, pool(kernel, stride, padding)); });
}
gsm_status gsm_global_avg_pool(gsm_tensor* x, gsm_tensor** y) {
  return unary(x, y, global_avg_pool);
}

gsm_status gsm_batch_norm(gsm_tensor* x, gsm_tensor* scale, gsm_tensor* shift,
                          gsm_tensor* running_mean, gsm_tensor* running_variance, int32_t training,
                          float momentum, float eps, gsm_tensor** y) {
  return unary(x, y, [&](const Tensor& t) {
    check_eps(eps);
    check<ArgumentError>(momentum >= 0 && momentum <= 1, "momentum is ", momentum,
                         "; wanted 0 to 1");
    check<ArgumentError>(!running_mean == !running_variance,
                         "one of running_mean and running_variance is NULL; give both, or none");
    BatchNormOptions options;
    options.eps = eps;
    options.momentum = momentum;
    options.training = training != 0;
    const Reading a(scale), b(shift);
    const ReadingOrNone mean_of_all(running_mean), variance_of_all(running_variance);
    return batch_norm(t, *a, *b, *mean_of_all, *variance_of_all, options);
  });
}

gsm_status gsm_layer_norm(gsm_tensor* x, gsm_tensor* scale, gsm_tensor* shift, float eps,
                          gsm_tensor** y) {
  return binary(x, scale, y, [&](const Tensor& t, const Tensor& factors) {
    check_eps(eps);
    const ReadingOrNone b(shift);
    return layer_norm(t, factors, *b, eps);
  });
}

gsm_status gsm_embedding(gsm_tensor* ids, gsm_tensor* table, gsm_tensor** y) {
  return binary(ids, table, y, embedding);
}

gsm_status gsm_attention(gsm_tensor* qkv, int32_t heads, int32_t causal, gsm_tensor* lengths,
                         gsm_tensor** y) {
  return unary(qkv, y, [&](const Tensor& t) {
    const ReadingOrNone seen(lengths);
    return attention(t, attention_options(heads, causal), *seen);
  });
}

gsm_status gsm_cross_attention(gsm_tensor* q, gsm_tensor* kv, int32_t heads, gsm_tensor* lengths,
                               gsm_tensor** y) {
  return binary(q, kv, y, [&](const Tensor& queries, const Tensor& keys) {
    const ReadingOrNone seen(lengths);
    return attention(queries, keys, attention_options(heads, 0), *seen);
  });
}

gsm_status gsm_dropout(gsm_tensor* x, float p, uint64_t seed, uint64_t call, gsm_tensor** y) {
  return unary(x, y, [&](const Tensor& t) {
    const Tensor stream = Tensor::empty({}, DType::i64);
    *stream.as<i64>() = static_cast<i64>(call);
    return dropout(t, p, seed, stream);
  });
}
