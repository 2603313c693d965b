// `gossamer tape MODEL`: what a forward pass records, op by op, and the memory that it keeps.
#include "gossamer/core/tape.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <unordered_map>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/language_text.h"
#include "gossamer/core/error.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/models/registry.h"

namespace gossamer::apps {
namespace {

struct Row {
  std::string op, shape;
  std::string dtype;
  std::vector<std::string> parameters;  // those that it reads
  std::vector<int> from;                // rows whose results it reads
  std::size_t keeps = 0;                // bytes that no row before keeps
};
struct Drawn {
  std::string title;
  std::vector<Row> rows;
  std::size_t keeps = 0, parameters = 0;  // bytes
};

Drawn rows_of(const Tensor& loss, const std::vector<NamedTensor>& parameters) {
  Drawn out;
  std::unordered_map<const Slot*, std::string> names;
  for (const NamedTensor& p : parameters) {
    names[p.tensor.slot().get()] = p.name;
    out.parameters += p.tensor.bytes();
  }
  const auto nodes = tape(loss);
  std::unordered_map<const Slot*, int> makers;
  std::vector<std::shared_ptr<Node>> before;
  for (const auto& node : nodes) {
    Row row;
    row.op = node->name;
    const auto slot = node->out.lock();
    if (slot) {
      row.shape = fmt::format("{}", fmt::join(slot->shape.begin(), slot->shape.end(), " x "));
      row.dtype = name_of(slot->dtype);
      makers[slot.get()] = static_cast<int>(out.rows.size());
    }
    for (const auto& in : node->inputs) {
      if (!in) continue;
      if (const auto name = names.find(in.get()); name != names.end())
        row.parameters.push_back(name->second);
      else if (const auto maker = makers.find(in.get()); maker != makers.end())
        row.from.push_back(maker->second);
    }
    before.push_back(node);
    const std::size_t all = tape_bytes(before, parameters);
    row.keeps = all - out.keeps;
    out.keeps = all;
    out.rows.push_back(std::move(row));
  }
  return out;
}

Tensor random_ids(const Shape& shape, i64 below) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shape.numel()));
  for (std::size_t k = 0; k < ids.size(); ++k)
    ids[k] = static_cast<std::int32_t>(k * 7919 % static_cast<std::size_t>(below));
  return Tensor::from(ids, shape);
}

Drawn draw(const TapeCommand& c) {
  const DType type = c.dtype == "bf16" ? DType::bf16 : DType::f32;
  check<ConfigError>(c.dtype == "f32" || c.dtype == "bf16", "tape: --dtype ", c.dtype,
                     "; wanted is f32 or bf16");
  check<ConfigError>(c.batch >= 1 && c.size >= 0, "tape: --batch ", c.batch, " --size ", c.size,
                     "; they are numbers of pictures and pixels");
  // A copy of 16 bits is what layers read, as in training.
  const auto tape_in = [&](nn::Module& model, const auto& loss_of) {
    const std::vector<NamedTensor> parameters = model.parameters();
    const FlatParams flat(parameters, model.buffers(), {.compute = type});
    return rows_of(loss_of(), parameters);
  };
  if (is_language_text(c.model)) {
    const auto model = models::make_language(language_of_text("tape", c.model));
    const Shape shape{c.batch, model->positions()};
    const Tensor ids = random_ids(shape, model->vocabulary()),
                 labels = random_ids(shape, model->vocabulary());
    Drawn out = tape_in(*model, [&] { return model->loss(ids, labels); });
    out.title = fmt::format("{}, {} of {} ids, {}", c.model, counted(c.batch, "text"),
                            model->positions(), c.dtype);
    return out;
  }
  const models::ModelInfo& info = models::info(c.model, "pictures");
  const i64 side = c.size > 0 ? c.size : info.image_size;
  const auto model = models::make(c.model);
  const Tensor images = Tensor::full({c.batch, side, side, 3}, .5f).to(type),
               labels = random_ids({c.batch}, info.classes);
  Drawn out = tape_in(*model, [&] { return cross_entropy(model->forward(images), labels); });
  out.title = fmt::format("{}, {} of {} x {}, {}", c.model, counted(c.batch, "picture"), side, side,
                          c.dtype);
  return out;
}

std::string megabytes(std::size_t bytes) {
  return fmt::format("{:.3g} MB", static_cast<double>(bytes) / 1e6);
}

// "layer1.0.conv1" of "layer1.0.conv1.weight" and "layer1.0.conv1.bias".
std::string layer_of(const Row& row) {
  if (row.parameters.empty()) return "";
  const std::string& first = row.parameters[0];
  return first.substr(0, std::min(first.size(), first.rfind('.')));
}

std::string summary(const Drawn& d) {
  return fmt::format("{} keep {} until backward has passed them; parameters {}",
                     counted(d.rows.size(), "op"), megabytes(d.keeps), megabytes(d.parameters));
}

void print(const Drawn& d) {
  fmt::print("tape of {}\n  {:>4}  {:<16} {:<22} {:<26} {:>9}\n", d.title, "", "op", "result",
             "parameters of", "keeps");
  for (std::size_t k = 0; k < d.rows.size(); ++k) {
    const Row& r = d.rows[k];
    fmt::print("  {:>4}  {:<16} {:<22} {:<26} {:>9}\n", k + 1, r.op, r.shape, layer_of(r),
               r.keeps > 0 ? megabytes(r.keeps) : "");
  }
  fmt::print("  {}\n", summary(d));
}

void print_json(const Drawn& d) {
  std::vector<JsonObject> rows;
  for (const Row& r : d.rows)
    rows.emplace_back()
        .add("op", r.op)
        .add("shape", r.shape)
        .add("dtype", r.dtype)
        .add("parameters", r.parameters)
        .add("from", r.from)
        .add("keeps", r.keeps);
  fmt::print("{}\n", JsonObject()
                         .add("tape", d.title)
                         .add("keeps", d.keeps)
                         .add("parameters", d.parameters)
                         .add("ops", rows)
                         .str());
}

// A line for each op, from the top down. On the left the results that are read further down than
// by the next op; on the right a bar for what is kept.
std::string svg(const Drawn& d) {
  constexpr int kRow = 26, kTop = 88, kBox = 150, kLeft = 110, kBar = 240, kWidth = 960;
  const int height = kTop + kRow * static_cast<int>(d.rows.size()) + 20, bars = kLeft + kBox + 420;
  std::size_t most = 1;
  for (const Row& r : d.rows) most = std::max(most, r.keeps);
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}">
<title>tape of {2}</title>
<style>
svg {{ background: #fff; color: #222; font: 13px system-ui, sans-serif }}
text {{ fill: currentColor }} .soft {{ opacity: .65 }} .name {{ font-weight: 600 }}
rect.op {{ fill: #e8eef8; stroke: #3465a4 }} rect.kept {{ fill: #d97a2b }}
path {{ fill: none; stroke: #3465a4; stroke-width: 1.5 }}
@media (prefers-color-scheme: dark) {{
  svg {{ background: #161618; color: #e6e6e6 }} rect.op {{ fill: #1f2b3d; stroke: #7aa7e0 }}
  path {{ stroke: #7aa7e0 }}
}}
</style>
<text x="{3}" y="24" class="name">tape of {2}</text>
<text x="{3}" y="44" class="soft">{4}</text>
)",
      kWidth, height, d.title, kLeft, summary(d));
  for (const auto& [x, what] : {std::pair{kLeft + 8, "op"},
                                {kLeft + kBox + 12, "result"},
                                {kLeft + kBox + 200, "parameters of"},
                                {bars, "memory kept for backward"}})
    out += fmt::format("<text class=\"soft\" x=\"{}\" y=\"76\">{}</text>\n", x, what);
  for (std::size_t k = 0; k < d.rows.size(); ++k) {
    const Row& r = d.rows[k];
    const int y = kTop + kRow * static_cast<int>(k), middle = y + 10;
    for (const int from : r.from) {
      const int other = kTop + kRow * from + 10, rows = static_cast<int>(k) - from;
      if (rows == 1)
        out += fmt::format("<path d=\"M{} {}V{}\"/>\n", kLeft + kBox / 2, other + 10, y);
      else
        out += fmt::format("<path d=\"M{0} {1}C{2} {1} {2} {3} {0} {3}\"/>\n", kLeft, other,
                           kLeft - std::min(100, 24 + 10 * rows), middle);
    }
    out += fmt::format(
        "<rect class=\"op\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"20\" rx=\"4\"/>"
        "<text x=\"{}\" y=\"{}\">{}</text><text x=\"{}\" y=\"{}\">{}</text>"
        "<text class=\"soft\" x=\"{}\" y=\"{}\">{}</text>\n",
        kLeft, y, kBox, kLeft + 8, y + 15, r.op, kLeft + kBox + 12, y + 15, r.shape,
        kLeft + kBox + 200, y + 15, layer_of(r));
    if (r.keeps == 0) continue;
    const double width =
        std::max(1.0, kBar * .6 * static_cast<double>(r.keeps) / static_cast<double>(most));
    out += fmt::format(
        "<rect class=\"kept\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"12\"/>"
        "<text x=\"{:.1f}\" y=\"{}\">{}</text>\n",
        bars, y + 4, width, bars + width + 6, y + 15, megabytes(r.keeps));
  }
  return out + "</svg>\n";
}

}  // namespace

int tape_of_model(const TapeCommand& c) {
  const Drawn drawn = draw(c);
  if (!c.svg.empty()) {
    std::ofstream out(c.svg, std::ios::binary);
    out << svg(drawn);
    check<IoError>(out.flush().good(), "tape: cannot write ", c.svg);
  }
  if (c.json)
    print_json(drawn);
  else
    print(drawn);
  return 0;
}

}  // namespace gossamer::apps
