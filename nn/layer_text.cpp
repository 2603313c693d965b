// Reads the text of a network: words, separators and braces.
#include "gossamer/nn/layer_text.h"

#include <algorithm>
#include <set>

#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/printable.h"

namespace gossamer::nn {
namespace {

template <class Text>
void check_as(const LayerText& layer) {
  const std::vector<NamedSetting> known = settings_of(Text());
  const std::size_t given = layer.settings.values().size();
  for (const NamedSetting& each : known) {
    // a default that is not possible: it has to be said; what is unknown is told first
    const auto wanted = setting_wanted(each.setting, each.value);
    check<ConfigError>(!wanted || layer.settings.find(each.setting.name) ||
                           layer.settings.only(known).values().size() < given,
                       layer.where(), ": ", each.setting.name, " is missing; it must be ",
                       wanted.value_or(""));
  }
  layer.as<Text>();
}

struct LayerKind {
  const char* name;
  std::size_t groups;  // at most; with some, one at least
  void (*check)(const LayerText&);
};
constexpr LayerKind kKinds[] = {
    {"linear", 0, check_as<LinearText>},        {"conv", 0, check_as<ConvText>},
    {"batch_norm", 0, check_as<BatchNormText>}, {"layer_norm", 0, check_as<LayerNormText>},
    {"embedding", 0, check_as<EmbeddingText>},  {"positions", 0, check_as<PositionsText>},
    {"attention", 0, check_as<AttentionText>},  {"dropout", 0, check_as<DropoutText>},
    {"relu", 0, check_as<NothingText>},         {"gelu", 0, check_as<NothingText>},
    {"gelu_tanh", 0, check_as<NothingText>},    {"tanh", 0, check_as<NothingText>},
    {"sigmoid", 0, check_as<NothingText>},      {"max_pool", 0, check_as<PoolText>},
    {"avg_pool", 0, check_as<PoolText>},        {"global_avg_pool", 0, check_as<NothingText>},
    {"flatten", 0, check_as<NothingText>},      {"residual", 2, check_as<NothingText>},
};
constexpr int kDeepest = 64;  // groups in groups

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) { next(); }

  std::vector<LayerText> network(int depth) {
    check<ConfigError>(depth <= kDeepest, "line ", line_, ": more than ", kDeepest,
                       " groups in each other");
    std::vector<LayerText> layers;
    std::set<std::string> names;
    for (;;) {
      while (kind_ == Kind::separator) next();
      if (kind_ != Kind::word) break;
      layers.push_back(layer(layers.size(), depth));
      const LayerText& last = layers.back();
      check<ConfigError>(names.insert(last.name).second, last.where(), ": two layers are called ",
                         last.name, "; name them apart");
    }
    return layers;
  }
  void check_end() const {
    check<ConfigError>(kind_ == Kind::end, "line ", line_,
                       kind_ == Kind::open ? ": { without a layer before it" : ": } without its {");
  }

 private:
  enum class Kind { word, separator, open, close, end };

  LayerText layer(std::size_t place, int depth) {
    LayerText out;
    out.line = line_;
    out.name = std::to_string(place);
    if (word_.ends_with(':')) {
      word_.pop_back();
      check<ConfigError>(!word_.empty() && word_.find_first_of(".:=") == word_.npos, "line ", line_,
                         ": a layer can't be called \"", printable(word_),
                         "\"; wanted a name without . : and =");
      out.name = printable(word_);
      next();
      check<ConfigError>(kind_ == Kind::word, "line ", line_, ": no layer after its name ",
                         out.name);
    }
    const auto* const known = std::ranges::find(kKinds, word_, &LayerKind::name);
    check<ConfigError>(
        known != std::end(kKinds), "line ", line_, ": there is no layer ", printable(word_),
        "; there are: ", listed(kKinds, ", ", [](const LayerKind& k) { return k.name; }));
    out.kind = word_;
    for (next(); kind_ == Kind::word; next()) {
      const std::size_t equals = word_.find('=');
      check<ConfigError>(equals != word_.npos && equals > 0, out.where(), ": ", printable(word_),
                         "; wanted NAME=VALUE, and a semicolon or a new line before another layer");
      const std::string name = printable(word_.substr(0, equals));
      check<ConfigError>(!out.settings.find(name), out.where(), ": ", name, " is given twice");
      out.settings.set(name, printable(word_.substr(equals + 1)));
    }
    known->check(out);
    while (kind_ == Kind::open) {
      const int opened = line_;
      check<ConfigError>(
          out.groups.size() < known->groups, out.where(),
          known->groups ? ": too many groups in braces" : ": it takes no group in braces");
      next();
      out.groups.push_back(network(depth + 1));
      check<ConfigError>(kind_ == Kind::close, "line ", opened, ": { without its }");
      next();
    }
    check<ConfigError>(known->groups == 0 || (!out.groups.empty() && !out.groups[0].empty()),
                       out.where(), ": wanted layers in braces: ", known->name,
                       " { linear in=8 out=8 }");
    check<ConfigError>(kind_ != Kind::word, "line ", line_, ": ", printable(word_),
                       " after }; wanted a semicolon or a new line before it");
    return out;
  }

  void next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
    line_ = next_line_;
    word_.clear();
    if (at_ == text_.size()) {
      kind_ = Kind::end;
      return;
    }
    switch (text_[at_]) {
      case '\n':
        ++next_line_;
        [[fallthrough]];
      case ';':
        kind_ = Kind::separator;
        break;
      case '{':
        kind_ = Kind::open;
        break;
      case '}':
        kind_ = Kind::close;
        break;
      default: {
        const std::size_t end = std::min(text_.find_first_of(" \t\r\n;{}", at_), text_.size());
        word_ = text_.substr(at_, end - at_);
        kind_ = Kind::word;
        at_ = end;
        return;
      }
    }
    ++at_;
  }

  const std::string& text_;
  std::size_t at_ = 0;
  int line_ = 1, next_line_ = 1;  // of this word, and of the next one
  Kind kind_ = Kind::end;
  std::string word_;
};

}  // namespace

std::string LayerText::where() const { return "line " + std::to_string(line) + ", " + kind; }

std::vector<LayerText> parse_layers(const std::string& text) {
  Reader reader(text);
  std::vector<LayerText> layers = reader.network(0);
  reader.check_end();
  check<ConfigError>(!layers.empty(),
                     "the text names no layer; wanted \"linear in=2 out=8; relu\"");
  return layers;
}

}  // namespace gossamer::nn
