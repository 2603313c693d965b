// The tape's engine: record, and one walk backwards in order of sequence numbers.
#include "gossamer/core/autograd.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>

#include "gossamer/core/blocks.h"
#include "gossamer/core/sole.h"
#include "gossamer/core/tape.h"

namespace gossamer {
namespace {

thread_local bool recording = true;
std::atomic<i64> live_nodes{0};
std::atomic<std::uint64_t> next_sequence{1};

// Where an op may put the gradient of each input: it overwrites the window of a parameter that has
// no gradient yet, and adds to a gradient that is there.
Places places_of(const std::vector<std::shared_ptr<Slot>>& inputs) {
  Places places(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& slot = inputs[i];
    // an input that is given twice: its second gradient is returned and accumulated
    const auto first = std::ranges::find(inputs, slot);
    if (!slot || !slot->value.defined() || first - inputs.begin() != static_cast<std::ptrdiff_t>(i))
      continue;
    if (slot->leaf || (!slot->stale && slot->value.sole())) places[i] = {slot->value, !slot->stale};
  }
  return places;
}

// Adds a gradient to the slot, or overwrites it if nothing has come since it was marked stale.
void accumulate_into(Slot& slot, const Tensor& g, const char* op) {
  check<ShapeError>(g.shape() == slot.shape, op, ": gradient of an input is ", g.shape(),
                    ", the input is ", slot.shape);
  if (slot.stale) {
    slot.stale = false;
    // A leaf's window (flat parameters) is fixed, so the gradient is copied in. Other slots keep
    // the first gradient itself.
    if (slot.leaf && slot.value.defined())
      slot.value.copy_from(g);
    else if (slot.leaf)
      slot.value = g.dtype() == slot.dtype ? g.clone() : g.to(slot.dtype);
    else {
      check<ShapeError>(g.dtype() == slot.dtype, op, ": gradient of an input is ", g.dtype(),
                        ", the input is ", slot.dtype);
      slot.value = g;
    }
    return;
  }
  // The stored gradient may be shared with another consumer (add hands one tensor to both inputs):
  // then never write into it.
  if (!slot.leaf && !slot.value.sole()) slot.value = slot.value.clone();
  accumulate(slot.value, g);
}

// Counts in each leaf how many gradients may come from these nodes.
void expect_gradients(const std::vector<std::shared_ptr<Node>>& nodes) {
  std::unordered_set<Slot*> leaves;
  for (const auto& node : nodes) {
    check<Error>(
        static_cast<bool>(node->back), node->name,
        ": backward ran twice on the same tape; what it had saved is freed. Run forward again");
    for (const auto& slot : node->inputs)
      if (slot && slot->leaf)  // set at the first visit: a failed pass may have left a count
        slot->pending = leaves.insert(slot.get()).second ? 1 : slot->pending + 1;
  }
}

// Calls the op's closure, if a gradient has reached its result, and accumulates what it returns.
void walk(Node& node) {
  const auto out = node.out.lock();
  Grads grads;
  Places places;
  if (out && !out->stale) {
    places = places_of(node.inputs);
    grads = node.back(out->value, node.saved, places);
    check<Error>(grads.size() == node.inputs.size(), node.name, ": returned ", grads.size(),
                 " gradients for ", node.inputs.size(), " inputs");
    out->value = Tensor();
  }
  node.saved.clear();  // activations are freed while we walk
  node.back = nullptr;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const auto& slot = node.inputs[i];
    if (!slot) continue;
    if (i < grads.size() && grads[i].defined()) {
      const bool in_place = places[i].at.defined() && places[i].at.data() == grads[i].data();
      places[i].at = Tensor();
      if (in_place)
        slot->stale = false;
      else
        accumulate_into(*slot, grads[i], node.name);
      grads[i] = Tensor();
    }
    if (slot->leaf && --slot->pending == 0 && slot->on_ready) slot->on_ready();
  }
}

}  // namespace

Node::Node() { live_nodes.fetch_add(1, std::memory_order_relaxed); }

Node::~Node() {
  live_nodes.fetch_sub(1, std::memory_order_relaxed);
  // A chain of nodes is freed by this loop: each maker is taken over before its slot dies, so
  // destructors do not nest.
  std::vector<std::shared_ptr<Slot>> pending = std::move(inputs);
  while (!pending.empty()) {
    std::shared_ptr<Slot> slot = std::move(pending.back());
    pending.pop_back();
    if (!slot || !sole_owner(slot) || !slot->maker) continue;
    std::shared_ptr<Node> maker = std::move(slot->maker);
    if (!sole_owner(maker)) continue;
    std::ranges::move(maker->inputs, std::back_inserter(pending));
    maker->inputs.clear();
  }
}

i64 Node::live() { return live_nodes.load(std::memory_order_relaxed); }

NoGrad::NoGrad() : before_(recording) { recording = false; }
NoGrad::~NoGrad() { recording = before_; }

bool wants_grad(const std::vector<Tensor>& inputs) {
  return recording && std::ranges::any_of(
                          inputs, [](const Tensor& t) { return t.defined() && t.requires_grad(); });
}

void record(const char* name, Tensor& out, const std::vector<Tensor>& inputs,
            std::vector<Tensor> saved, Back back) {
  record(name, out, inputs, std::move(saved),
         BackInPlace([back = std::move(back)](const Tensor& g, const std::vector<Tensor>& kept,
                                              const Places&) { return back(g, kept); }));
}

void record(const char* name, Tensor& out, const std::vector<Tensor>& inputs,
            std::vector<Tensor> saved, BackInPlace back) {
  if (!wants_grad(inputs)) return;
  auto node = std::make_shared<Node>();
  node->name = name;
  node->sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  for (const Tensor& in : inputs) node->inputs.push_back(in.defined() ? in.slot() : nullptr);
  for (Tensor& t : saved)
    if (t.defined()) t = t.detach();
  node->saved = std::move(saved);
  node->back = std::move(back);
  auto slot = std::make_shared<Slot>();
  slot->shape = out.shape();
  slot->dtype = out.dtype();
  slot->leaf = false;
  slot->maker = node;
  node->out = slot;
  out.set_slot(std::move(slot));
}

Tensor whole_of(const std::vector<Tensor>& parts) {
  i64 row = 0;
  Tensor whole;
  for (const Tensor& part : parts) {
    if (!part.defined() || !part.slot() || !part.slot()->part.whole.defined()) return {};
    const PartOf& of = part.slot()->part;
    if (row == 0) whole = of.whole;
    if (of.row != row || of.whole.data() != whole.data()) return {};
    row += part.shape(0);
  }
  return whole.defined() && whole.shape(0) == row ? whole : Tensor();
}

// A node's number is above those of its inputs' makers. So in a walk backwards every gradient is
// complete before its maker is visited.
std::vector<std::shared_ptr<Node>> tape(const Tensor& root) {
  std::vector<std::shared_ptr<Node>> order, stack{root.slot()->maker};
  std::unordered_set<Node*> seen;
  while (!stack.empty()) {
    std::shared_ptr<Node> node = std::move(stack.back());
    stack.pop_back();
    if (!node || !seen.insert(node.get()).second) continue;
    for (const auto& slot : node->inputs)
      if (slot && !slot->leaf) stack.push_back(slot->maker);
    order.push_back(std::move(node));
  }
  std::ranges::sort(order, {}, [](const auto& node) { return node->sequence; });
  return order;
}

std::size_t tape_bytes(const std::vector<std::shared_ptr<Node>>& nodes,
                       const std::vector<NamedTensor>& others) {
  std::unordered_map<const void*, std::size_t> kept;  // by where they begin
  for (const auto& node : nodes)
    for (const Tensor& t : node->saved)
      if (t.defined()) kept[t.data()] = std::max(kept[t.data()], t.bytes());
  for (const NamedTensor& other : others) kept.erase(other.tensor.data());
  std::size_t bytes = 0;
  for (const auto& [at, size] : kept) bytes += size;
  return bytes;
}

void backward(const Tensor& root, float gradient) {
  check<ShapeError>(root.numel() == 1, "backward: starts from one element, got ", root.shape(),
                    "; reduce it first (mean, sum, cross_entropy)");
  check<Error>(root.requires_grad() && root.slot() && !root.slot()->leaf,
               "backward: nothing was recorded for this tensor: no input requires a gradient, "
               "NoGrad was alive, or backward already ran");
  const NoGrad off;
  std::vector<std::shared_ptr<Node>> order = tape(root);
  expect_gradients(order);
  accumulate_into(*root.slot(), Tensor::full(root.shape(), gradient, root.dtype(), root.device()),
                  "backward");
  while (!order.empty()) {
    const std::shared_ptr<Node> node = std::move(order.back());
    order.pop_back();
    walk(*node);
  }
}

Tensor& Tensor::requires_grad(bool on) {
  if (!on) {
    check<Error>(!slot() || !slot()->flat,
                 "requires_grad: this tensor belongs to a FlatParams; to freeze it, build the "
                 "FlatParams without it");
    set_slot(nullptr);
    return *this;
  }
  check<ShapeError>(is_floating(dtype()),
                    "requires_grad: only floating types have gradients, this tensor is ", dtype());
  if (slot()) return *this;
  auto fresh = std::make_shared<Slot>();
  fresh->shape = shape();
  fresh->dtype = dtype();
  set_slot(std::move(fresh));
  return *this;
}

bool Tensor::requires_grad() const { return slot() != nullptr; }
Tensor Tensor::grad() const { return slot() && !slot()->stale ? slot()->value : Tensor(); }
void Tensor::backward() const { gossamer::backward(*this); }

}  // namespace gossamer
