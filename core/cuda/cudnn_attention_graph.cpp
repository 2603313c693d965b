// Attention as cuDNN 9 recognises it: products, a mask made of row and column numbers, and each
// step of the softmax, with f32 between them. The order of the steps matters: cuDNN runs such a
// graph as one kernel only if it knows the pattern (its own frontend library builds the same one).
// A head's rows stay where the packed matrices have them; strides say so.
#ifdef GOSSAMER_HAS_CUDA
#include "gossamer/core/cuda/cudnn_graph.h"

namespace gossamer::cudnn {
namespace {

// [B, H, rows, columns] with any strides.
struct Extent {
  std::int64_t sizes[4], strides[4];
  Extent transposed() const {
    Extent t = *this;
    std::swap(t.sizes[2], t.sizes[3]);
    std::swap(t.strides[2], t.strides[3]);
    return t;
  }
};
Extent dense(std::int64_t b, std::int64_t h, std::int64_t rows, std::int64_t columns) {
  return {{b, h, rows, columns}, {h * rows * columns, rows * columns, columns, 1}};
}

Extent rows(const AttentionProblem& p, i64 count, i64 row) {
  return {{p.batch, p.heads, count, p.size}, {count * row, p.size, row, 1}};
}

// The graph as it grows. A tensor is named by its place among the descriptors.
class Graph {
 public:
  using Place = std::size_t;

  Place in_memory(std::int64_t id, cudnnDataType_t type, const Extent& e) {
    return tensor(id, type, e, false, false);
  }
  // sums in memory, in an order of elements of cuDNN's own
  Place sums(std::int64_t id, const Extent& e) {
    return tensor(id, CUDNN_DATA_FLOAT, e, false, false, CUDNN_TENSOR_REORDERING_F16x16);
  }
  // one number, given by the host with each run
  Place number(std::int64_t id) {
    return tensor(id, CUDNN_DATA_FLOAT, dense(1, 1, 1, 1), false, true);
  }
  Place between(const Extent& e, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(next_++, type, e, true, false);
  }

  void product(Place a, Place b, Place c) {
    const Place how = all_.size();
    all_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    all_[how].set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    all_[how].finalize("matrix product");
    Descriptor step(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    step.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, all_[a]);
    step.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, all_[b]);
    step.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, all_[c]);
    step.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, all_[how]);
    add(std::move(step), "product of attention");
  }
  void reduce(cudnnReduceTensorOp_t op, Place x, Place y) {
    const Place how = all_.size();
    all_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    all_[how].set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    all_[how].set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
    all_[how].finalize("reduction");
    Descriptor step(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    step.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, all_[x]);
    step.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, all_[y]);
    step.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, all_[how]);
    add(std::move(step), "reduction of attention");
  }
  void transpose(Place x, Place y) {
    Descriptor step(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    step.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, all_[x]);
    step.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, all_[y]);
    add(std::move(step), "transposition of attention");
  }
  static constexpr Place none = static_cast<Place>(-1);
  // y = mode(x, b), of those that `chosen` holds
  void each(cudnnPointwiseMode_t mode, Place x, Place b, Place y, Place chosen = none,
            cudnnDataType_t in = CUDNN_DATA_FLOAT, std::int64_t axis = -1) {
    const Place how = all_.size();
    all_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    all_[how].set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    all_[how].set(CUDNN_ATTR_POINTWISE_MATH_PREC, in);
    if (axis >= 0) all_[how].set(CUDNN_ATTR_POINTWISE_AXIS, axis);
    all_[how].finalize("pointwise step");
    Descriptor step(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    step.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, all_[how]);
    step.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, all_[x]);
    if (b != none) step.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, all_[b]);
    if (chosen != none) step.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, all_[chosen]);
    step.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, all_[y]);
    step.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1.0f);
    step.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1.0f);
    add(std::move(step), "pointwise step of attention");
  }

  std::vector<Descriptor> finish(const Planner::Target& target, const std::string& key) {
    std::vector<cudnnBackendDescriptor_t> operations;
    for (const Descriptor& step : steps_) operations.push_back(step.raw());
    Descriptor graph = graph_of(operations, target, key);
    for (Descriptor& step : steps_) all_.push_back(std::move(step));
    all_.push_back(std::move(graph));
    return std::move(all_);
  }

 private:
  Place tensor(std::int64_t id, cudnnDataType_t type, const Extent& e, bool is_virtual,
               bool by_value, cudnnBackendTensorReordering_t order = CUDNN_TENSOR_REORDERING_NONE) {
    Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, e.sizes);
    t.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, e.strides);
    t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
    t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    t.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    if (order != CUDNN_TENSOR_REORDERING_NONE)
      t.set(CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, 1, &order);
    t.finalize("tensor of attention");
    all_.push_back(std::move(t));
    return all_.size() - 1;
  }
  void add(Descriptor step, const char* what) {
    step.finalize(what);
    steps_.push_back(std::move(step));
  }
  std::vector<Descriptor> all_, steps_;
  std::int64_t next_ = 1000;
};

// The scores that a causal query sees, minus infinity for the others.
Graph::Place masked(Graph& g, Graph::Place scores, const Extent& of) {
  const auto row = g.between(of, CUDNN_DATA_INT32), column = g.between(of, CUDNN_DATA_INT32),
             seen = g.between(of, CUDNN_DATA_BOOLEAN), out = g.between(of);
  g.each(CUDNN_POINTWISE_GEN_INDEX, scores, Graph::none, row, Graph::none, CUDNN_DATA_FLOAT, 2);
  g.each(CUDNN_POINTWISE_GEN_INDEX, scores, Graph::none, column, Graph::none, CUDNN_DATA_FLOAT, 3);
  g.each(CUDNN_POINTWISE_CMP_GE, row, column, seen, Graph::none, CUDNN_DATA_BOOLEAN);
  g.each(CUDNN_POINTWISE_BINARY_SELECT, scores, g.number(kMinusInfinity), out, seen);
  return out;
}

struct Shapes {
  Extent q, kv, y, scores, column;
};
Shapes shapes_of(const AttentionProblem& p) {
  const i64 y_row = p.heads * p.size;
  return {rows(p, p.queries, p.q_row), rows(p, p.keys, p.kv_row), rows(p, p.queries, y_row),
          dense(p.batch, p.heads, p.queries, p.keys), dense(p.batch, p.heads, p.queries, 1)};
}

void forward(Graph& g, const AttentionProblem& p, const Shapes& shape, cudnnDataType_t type) {
  const auto products = g.between(shape.scores), scaled = g.between(shape.scores);
  g.product(g.in_memory(kQ, type, shape.q), g.in_memory(kK, type, shape.kv.transposed()), products);
  g.each(CUDNN_POINTWISE_MUL, products, g.number(kScale), scaled);
  const auto scores = p.causal ? masked(g, scaled, shape.scores) : scaled;
  const auto top = g.between(shape.column), less = g.between(shape.scores),
             power = g.between(shape.scores), sum = g.between(shape.column),
             log = g.between(shape.column), weights = g.between(shape.scores, type);
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, top);
  g.each(CUDNN_POINTWISE_SUB, scores, top, less);
  g.each(CUDNN_POINTWISE_EXP, less, Graph::none, power);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, power, sum);
  // A part of the pattern, wanted or not.
  g.each(CUDNN_POINTWISE_LOG, sum, Graph::none, log);
  g.each(
      CUDNN_POINTWISE_ADD, top, log,
      p.log_sums ? g.in_memory(kLogSums, CUDNN_DATA_FLOAT, shape.column) : g.between(shape.column));
  g.each(CUDNN_POINTWISE_DIV, power, sum, weights);
  g.product(weights, g.in_memory(kV, type, shape.kv), g.in_memory(kOut, type, shape.y));
}

void backward(Graph& g, const AttentionProblem& p, const Shapes& shape, cudnnDataType_t type) {
  const Extent head_rows = dense(p.batch, p.heads, p.queries, p.size);
  const auto dy = g.in_memory(kDOut, type, shape.y), y = g.in_memory(kOut, type, shape.y),
             q = g.in_memory(kQ, type, shape.q), k = g.in_memory(kK, type, shape.kv.transposed()),
             v = g.in_memory(kV, type, shape.kv.transposed()), scale = g.number(kScale);
  // the products of dy's and y's rows
  const auto both = g.between(head_rows), sum = g.between(shape.column),
             through = g.in_memory(kThrough, CUDNN_DATA_FLOAT, shape.column);
  g.each(CUDNN_POINTWISE_MUL, dy, y, both);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, both, sum);
  g.each(CUDNN_POINTWISE_MUL, sum, g.number(kOne), through);
  // the weights again, and dv
  const auto products = g.between(shape.scores), scaled = g.between(shape.scores),
             less = g.between(shape.scores), weights = g.between(shape.scores),
             weights_transposed = g.between(shape.scores.transposed(), type);
  g.product(q, k, products);
  g.each(CUDNN_POINTWISE_MUL, products, scale, scaled);
  g.each(CUDNN_POINTWISE_SUB, scaled, g.in_memory(kLogSums, CUDNN_DATA_FLOAT, shape.column), less);
  g.each(CUDNN_POINTWISE_EXP, p.causal ? masked(g, less, shape.scores) : less, Graph::none,
         weights);
  g.transpose(weights, weights_transposed);
  g.product(weights_transposed, dy, g.in_memory(kDV, type, shape.kv));
  // slopes of the scores, and dk
  const auto d_weights = g.between(shape.scores), centred = g.between(shape.scores),
             slopes = g.between(shape.scores), scaled_slopes = g.between(shape.scores, type),
             slopes_transposed = g.between(shape.scores.transposed(), type);
  g.product(dy, v, d_weights);
  g.each(CUDNN_POINTWISE_SUB, d_weights, through, centred);
  g.each(CUDNN_POINTWISE_MUL, centred, weights, slopes);
  g.each(CUDNN_POINTWISE_MUL, slopes, scale, scaled_slopes);
  g.transpose(scaled_slopes, slopes_transposed);
  g.product(slopes_transposed, q, g.in_memory(kDK, type, shape.kv));
  // dq
  const auto k_rows = g.between(shape.kv, type), dq = g.in_memory(kDQ, type, shape.q);
  g.transpose(k, k_rows);
  if (!p.any_order) return g.product(scaled_slopes, k_rows, dq);
  const auto sums = g.sums(kDQSums, head_rows);
  g.product(scaled_slopes, k_rows, sums);
  g.each(CUDNN_POINTWISE_IDENTITY, sums, Graph::none, dq);
}

}  // namespace

std::vector<Descriptor> attention_graph(const AttentionProblem& p, const Planner::Target& target) {
  Graph g;
  (p.backward ? backward : forward)(g, p, shapes_of(p), vendor_type(p.type));
  return g.finish(target, p.key());
}

}  // namespace gossamer::cudnn
#endif
