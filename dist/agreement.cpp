// What all workers must have alike, and how they find out.
#include "gossamer/dist/agreement.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/membership.h"

namespace gossamer::dist {
namespace {

struct Fact {
  std::string name;
  std::string value;     // must be equal
  std::string shown{};   // in its place, where it says nothing to a reader
  const char* unlike{};  // how two may differ that are shown alike
};

std::string text_of(double number) { return fmt::format("{}", number); }

bool resumed(const MethodOptions& o) { return o.start_samples > 0 || o.restore; }

// Each worker of a method without rounds has an estimate of its own.
std::string start_of(const std::string& method, const MethodOptions& o) {
  if (!resumed(o)) return "none";
  return method_traits(method).synchronous ? text_of(o.start_samples) : "some";
}

std::vector<Fact> facts_of(const std::string& method, const FlatParams& params, const Graph& graph,
                           const MethodOptions& o,
                           const std::vector<std::pair<std::string, std::string>>& settings) {
  std::vector<Fact> facts;
  for (const auto& [name, value] : o.agree) facts.push_back({name, value});
  facts.push_back({"the model", std::to_string(params.fingerprint()),
                   fmt::format("{} parameters", params.parameter_count()),
                   "of other names or shapes"});
  facts.push_back({"the method", method});
  for (const NamedSetting& each : settings_of(static_cast<const GossipOptions&>(o)))
    facts.push_back({each.setting.name, setting_text(each.value)});
  const std::vector<Fact> own = {
      {"the graph", text_of(graph) + o.rounds, o.rounds.empty() ? graph.name : o.rounds,
       "with other edges or rates"},
      {"workers_per_node", std::to_string(o.workers_per_node)},
      {"payload", o.payload},
      // from which all draw one schedule; elsewhere each may have its own
      {"seed", o.pairing == "schedule" ? std::to_string(o.seed) : ""},
      {"batch", std::to_string(o.batch)},
      {"global_batch", std::to_string(o.global_batch)},
      {"total_samples (in C: total_steps)", text_of(o.total_samples)},
      {"start_samples", start_of(method, o)}};
  facts.insert(facts.end(), own.begin(), own.end());
  for (const auto& [name, value] : settings) facts.push_back({name, value});
  return facts;
}

// 32 bits of a hash, which a double holds exactly, so that they can travel through a sum.
double digest(const std::string& text) {
  const std::uint64_t hash = hash_of(text);
  return static_cast<double>(static_cast<std::uint32_t>(hash ^ hash >> 32));
}

struct Disagreement {  // not a DistError: those who are left must not begin by themselves
  int one, other;
  std::size_t on;                          // the place of the fact
  std::array<std::string, 2> values = {};  // "" if they did not arrive
};

// The first fact in which the row of a member of the table differs from that of the first member.
std::optional<Disagreement> disagreement(std::size_t facts, const std::vector<double>& table,
                                         const std::vector<int>& members) {
  const auto value = [&](int of, std::size_t f) {
    return table[static_cast<std::size_t>(of) * facts + f];
  };
  for (const int rank : members)
    for (std::size_t f = 0; f < facts; ++f)
      if (value(rank, f) != value(members.front(), f))
        return Disagreement{members.front(), rank, f};
  return std::nullopt;
}

// Tells all what worker `root` has. A long text loses its beginning: it is a path, or a list that
// has begun alike.
std::string told_by(int root, std::string text, Collectives& all) {
  constexpr std::size_t kLongest = 120;
  constexpr std::string_view cut = "...";
  if (text.size() > kLongest)
    text = std::string(cut) + text.substr(text.size() - kLongest + cut.size());
  text.resize(kLongest);
  all.broadcast(Tensor::wrap(text.data(), {static_cast<i64>(kLongest)}, DType::u8), root);
  return text.substr(0, text.find('\0'));
}

// All have found the same disagreement; now the two say what they have.
void exchange_values(Disagreement& d, const Fact& own, Collectives& all) {
  const std::string& text = own.shown.empty() ? own.value : own.shown;
  try {
    d.values = {told_by(d.one, text, all), told_by(d.other, text, all)};
    all.barrier();              // who ends before all have them looks like a death to the others
  } catch (const DistError&) {  // one has ended: it knew of the disagreement, so all do
  }
}

// The mean of the members' numbers: where all have one, that number to the bit.
double common_start(double own, const Group& group, const std::vector<int>& members,
                    Collectives& all) {
  std::vector<double> each(static_cast<std::size_t>(group.size()), 0.0);
  each[static_cast<std::size_t>(group.rank())] = own;
  all.all_reduce_sum(each);
  double sum = 0;
  bool equal = true;
  for (const int m : members) {
    sum += each[static_cast<std::size_t>(m)];
    equal &= each[static_cast<std::size_t>(m)] == own;
  }
  return equal ? own : sum / static_cast<double>(members.size());
}

[[noreturn]] void refuse(const Disagreement& d, const Fact& fact) {
  const auto& [one, other] = d.values;
  std::string values;
  if (!one.empty() || !other.empty()) values = ": " + one + " and " + other;
  if (fact.unlike && !one.empty() && one == other) values += std::string(", ") + fact.unlike;
  fail<DistError>("workers ", d.one, " and ", d.other, " do not agree on ", fact.name, values,
                  "; start all workers with the same");
}

}  // namespace

std::string text_of(const Graph& graph) {
  std::string text = std::to_string(graph.n);
  for (const Edge& e : graph.edges) text += fmt::format(";{}-{}:{}", e.a, e.b, e.rate);
  return text;
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

double begin_together(const std::string& method, FlatParams& params, Group& group,
                      const Graph& graph, const MethodOptions& options,
                      const std::vector<std::pair<std::string, std::string>>& settings) {
  const std::vector<Fact> facts = facts_of(method, params, graph, options, settings);
  Membership membership(group, options.min_workers, Membership::Lost::is_out);
  Tensor mean;
  double start = options.start_samples;
  try {
    membership.run([&](Collectives& all) {
      // Each fills its own row of a table of zeros; the sum shows everyone what the others have.
      std::vector<double> table(static_cast<std::size_t>(group.size()) * facts.size(), 0.0);
      const std::size_t own = static_cast<std::size_t>(group.rank()) * facts.size();
      for (std::size_t f = 0; f < facts.size(); ++f) table[own + f] = digest(facts[f].value);
      all.all_reduce_sum(table);
      if (auto found = disagreement(facts.size(), table, membership.members())) {
        exchange_values(*found, facts[found->on], all);
        throw *found;
      }
      if (resumed(options)) {
        start = common_start(options.start_samples, group, membership.members(), all);
      } else {
        mean = params.values().clone();
        all.all_reduce_sum(mean);
        scale(mean, 1.0f / static_cast<float>(all.members()));
      }
      all.barrier();  // nobody goes on while another may have to do this again
    });
  } catch (const Disagreement& d) {
    refuse(d, facts[d.on]);
  }
  if (mean.defined()) Tensor(params.values()).copy_from(mean);
  return start;
}

}  // namespace gossamer::dist
