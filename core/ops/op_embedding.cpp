// embedding: rows of a table, and the gradient of the table without atomics: the rows of one id are
// linked in their order, and the thread of the first one adds them all up.
#include <algorithm>
#include <limits>

#include "gossamer/core/ops/find_next.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

template <class T>
struct TakeRow {
  const std::int32_t* ids;
  const T* table;
  i64 rows, cols;
  T* y;
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    const i64 id = ids[r];
    T* to = y + r * cols;
    if (id < 0 || id >= rows) {  // on a GPU: check_ids() does not look there
      for (i64 c = begin; c < end; ++c) store(to, c, __builtin_nanf(""));
      return;
    }
    const T* from = table + id * cols;
    GOSSAMER_IVDEP
    for (i64 c = begin; c < end; ++c) to[c] = from[c];
  }
};

// before[next[i]] = i; positions that no other links to stay kFirst.
struct LinkBack {
  const std::int32_t* next;
  std::int32_t* before;
  GOSSAMER_HD void operator()(i64 i) const {
    if (next[i] != kLast) before[next[i]] = static_cast<std::int32_t>(i);
  }
};

template <class T>
struct AddRows {  // d_table[ids[r]] += the sum of g over r and all it links to
  const std::int32_t *ids, *next, *before;
  const T* g;
  i64 rows, cols;
  float* d_table;
  GOSSAMER_HD void operator()(i64 r, i64 begin, i64 end) const {
    const i64 id = ids[r];
    if (before[r] != kFirst || id < 0 || id >= rows) return;
    float* to = d_table + id * cols;
#ifdef __CUDA_ARCH__  // one column: its sum stays in a register
    float sum = to[begin];
    for (i64 i = r; i != kLast; i = next[i]) sum += load(g, i * cols + begin);
    to[begin] = sum;
#else
    for (i64 i = r; i != kLast; i = next[i]) {
      GOSSAMER_IVDEP
      for (i64 c = begin; c < end; ++c) to[c] += load(g, i * cols + c);
    }
#endif
  }
};

void add_rows(const Tensor& ids, const Tensor& g, Tensor& d_table) {
  const Device device = g.device();
  const i64 n = ids.numel(), rows = d_table.shape(0), cols = d_table.shape(1);
  const Tensor next = Tensor::empty({n}, DType::i32, device),
               before = Tensor::full({n}, kFirst, DType::i32, device);
  const auto* id = ids.as<std::int32_t>();
  auto *after = next.as<std::int32_t>(), *ahead = before.as<std::int32_t>();
  find_next(device, id, n, after);
  for_each(device, n, LinkBack{after, ahead});
  with_floating(g.dtype(), "embedding", [&]<class T>() {
    for_each_row(device, n, cols,
                 AddRows<T>{id, after, ahead, g.as<T>(), rows, cols, d_table.as<float>()});
  });
}

void check_ids(const Tensor& ids, const Tensor& table) {
  check<ShapeError>(ids.defined() && ids.dtype() == DType::i32,
                    "embedding: ids must be i32 [...], ", "given ",
                    ids.defined() ? name_of(ids.dtype()) : "nothing");
  detail::check_floating("embedding", "table", table);
  check<ShapeError>(table.rank() == 2 && table.numel() > 0, "embedding: table is ", table.shape(),
                    "; wanted [V, C]");
  check<ShapeError>(ids.numel() <= std::numeric_limits<std::int32_t>::max(), "embedding: ids ",
                    ids.shape(), " are too many for one call");
  detail::check_device("embedding", table, ids);
  if (!ids.device().is_cpu()) return;
  const std::int32_t* id = ids.as<std::int32_t>();
  for (i64 i = 0; i < ids.numel(); ++i)
    check<ShapeError>(id[i] >= 0 && id[i] < table.shape(0), "embedding: id ", id[i],
                      " at position ", i, " of ", ids.shape(), " is outside [0, ", table.shape(0),
                      ") of table ", table.shape(),
                      "; was the text encoded with the vocabulary of this model?");
}

}  // namespace

Tensor embedding(const Tensor& ids, const Tensor& table) {
  check_ids(ids, table);
  const i64 rows = table.shape(0), cols = table.shape(1);
  const Shape& s = ids.shape();
  check<ShapeError>(s.rank() < Shape::max_rank, "embedding: ids ", s, " have no room for [C]");
  i64 extents[Shape::max_rank];
  std::copy(s.begin(), s.end(), extents);
  extents[s.rank()] = cols;
  Tensor y = Tensor::empty(Shape::of(extents, s.rank() + 1), table.dtype(), table.device());
  with_floating(table.dtype(), "embedding", [&]<class T>() {
    for_each_row(table.device(), ids.numel(), cols,
                 TakeRow<T>{ids.as<std::int32_t>(), table.as<T>(), rows, cols, y.as<T>()});
  });
  const DType type = detail::grad_type(table);
  record("embedding", y, {table}, {ids},
         [=](const Tensor& g, const std::vector<Tensor>& saved, const Places& places) {
           const Place& place = places[0];
           const bool here = place.at.defined() && place.at.dtype() == DType::f32;
           Tensor d_table = here ? place.at : Tensor::empty({rows, cols}, DType::f32, g.device());
           if (!here || !place.holds_sum) d_table.zero();
           add_rows(saved[0], g, d_table);
           return Grads{detail::as_type(d_table, type)};
         });
  return y;
}

}  // namespace gossamer
