// Attention as cuDNN 9 recognises it: products, a mask made of row and column numbers, and each
// step of the softmax, with f32 between them. The order of the steps matters: cuDNN runs such a
// graph as one kernel only if it knows the pattern (its own frontend library builds the same one).
// A head's rows stay where the packed matrices have them; strides say so.
#ifdef GOSSAMER_HAS_CUDA
#include "gossamer/core/cuda/cudnn_builder.h"

namespace gossamer::cudnn {
namespace {

using Graph = GraphBuilder;

// Extents are [B, H, rows, columns].
Extent dense(std::int64_t b, std::int64_t h, std::int64_t rows, std::int64_t columns) {
  return {{b, h, rows, columns}, {h * rows * columns, rows * columns, columns, 1}};
}

Extent transposed(Extent t) {
  std::swap(t.sizes[2], t.sizes[3]);
  std::swap(t.strides[2], t.strides[3]);
  return t;
}

Extent rows(const AttentionProblem& p, i64 count, i64 row) {
  return {{p.batch, p.heads, count, p.size}, {count * row, p.size, row, 1}};
}

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
  g.product(g.in_memory(kQ, type, shape.q), g.in_memory(kK, type, transposed(shape.kv)), products);
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
             q = g.in_memory(kQ, type, shape.q), k = g.in_memory(kK, type, transposed(shape.kv)),
             v = g.in_memory(kV, type, transposed(shape.kv)), scale = g.number(kScale);
  // the products of dy's and y's rows
  const auto both = g.between(head_rows), sum = g.between(shape.column),
             through = g.in_memory(kThrough, CUDNN_DATA_FLOAT, shape.column);
  g.each(CUDNN_POINTWISE_MUL, dy, y, both);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, both, sum);
  g.each(CUDNN_POINTWISE_MUL, sum, g.number(kOne), through);
  // the weights again, and dv
  const auto products = g.between(shape.scores), scaled = g.between(shape.scores),
             less = g.between(shape.scores), weights = g.between(shape.scores),
             weights_transposed = g.between(transposed(shape.scores), type);
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
             slopes_transposed = g.between(transposed(shape.scores), type);
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
