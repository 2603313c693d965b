// See html.h.
#include "gossamer/apps/report/html.h"

#include <fmt/format.h>

#include "gossamer/apps/lesson/page.h"

namespace gossamer::apps {
namespace {

const char* const kStyle =
    R"(body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:1.5em auto;padding:0 1em;
color:var(--text);background:var(--paper)}
h1{margin-bottom:0}h2{margin:1.6em 0 .4em}
.lead{font-size:1.15em;margin:.3em 0}.soft{color:var(--soft)}.bad{color:var(--c1)}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(340px,100%),1fr));
gap:1em 1.5em;margin:1em 0}
figure{margin:0}figcaption{font-size:13px;color:var(--soft)}
figcaption b{font-weight:600}figcaption span{white-space:nowrap}svg{width:100%;display:block}
.g{stroke:var(--line)}.a{font-size:11px;fill:var(--soft)}.r{text-anchor:end}.m{text-anchor:middle}
.over{stroke:var(--paper);stroke-width:3px;stroke-linejoin:round;paint-order:stroke}
.t{font-size:13px;font-weight:600;fill:var(--text)}.n{fill:var(--text)}
.gone{fill:var(--paper);stroke:var(--text)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}
td,th{border-bottom:1px solid var(--line);padding:2px 12px 2px 0;text-align:left;vertical-align:top}
th{color:var(--soft);font-weight:600}
pre{background:var(--box);padding:1em;white-space:pre-wrap;font-size:12px}
pre{overflow-wrap:anywhere}
code{overflow-wrap:anywhere}
td:first-child code{overflow-wrap:normal}details{margin:.6em 0}summary{cursor:pointer}
.bars table{width:100%;max-width:760px}.bars td:first-child{overflow-wrap:anywhere}
.bar{position:relative;background:var(--box);min-width:64px}.bar span{position:relative}
.bar i{position:absolute;inset:0 auto 0 0;opacity:.35}.bar span{padding:0 4px}.box{fill:var(--box)}
.shots{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:1em}
.shots img{width:96px;height:96px;object-fit:contain;background:var(--box)}
.shots figcaption{overflow-wrap:anywhere;color:var(--text)}
.beside{display:flex;flex-wrap:wrap;gap:1em 3em}.beside>*{max-width:100%}
@media(max-width:600px){.cards th{display:none}.cards table{width:100%}
.cards tr{display:grid;grid-template-columns:repeat(3,1fr);border-bottom:1px solid var(--line)}
.cards td{border:0}.cards td::before{content:attr(data-of);display:block;color:var(--soft);
font-size:11px}}
@media print{body{margin:0;font-size:13px}h2{break-after:avoid}figure,tr{break-inside:avoid}
table{font-size:10px}td,th{padding-right:8px}.wide{overflow:visible}
.bar,.box,.shots img{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)";

// With more columns, a row becomes a card on a telephone: each value below its column's name.
constexpr std::size_t kMostColumns = 5;

}  // namespace

std::string html_escape(const std::string& text) {
  std::string out;
  for (const char ch : text) {
    if (ch == '<')
      out += "&lt;";
    else if (ch == '>')
      out += "&gt;";
    else if (ch == '&')
      out += "&amp;";
    else if (ch == '"')
      out += "&quot;";
    else
      out += ch;
  }
  return out;
}

std::string data_address(const std::string& type, std::span<const std::byte> bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out = "data:" + type + ";base64,";
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned three = 0;
    for (std::size_t k = i; k < i + 3; ++k)
      three = three << 8 | (k < bytes.size() ? std::to_integer<unsigned>(bytes[k]) : 0);
    for (std::size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string html_style() { return "<style>\n" + std::string(page_palette()) + kStyle + "</style>"; }

std::string curve_colour(int k) { return fmt::format("var(--c{})", k % kCurveColours); }

std::string colour_mark(int colour, const char* mark) {
  return fmt::format("<b aria-hidden=\"true\" style=\"color:{}\">{}</b>", curve_colour(colour),
                     mark);
}

std::string html_page(const std::string& title, const std::string& body, PageMay may) {
  return std::string(
             "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
             "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
             "<meta http-equiv=\"Content-Security-Policy\""
             " content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'") +
         (may == PageMay::show ? "" : "; script-src 'unsafe-inline'") +
         (may == PageMay::fetch ? "; connect-src 'self'" : "") + "\"><title>" + html_escape(title) +
         " - Gossamer</title>" + html_style() + "<main><h1>" + html_escape(title) + "</h1>" + body +
         "</main></html>\n";
}

HtmlTable::HtmlTable(const std::vector<std::string>& header) {
  for (const std::string& cell : header)  // a corner without a name is no header
    text_ += cell.empty() ? "<td></td>" : "<th>" + cell + "</th>";
  if (!header.empty()) text_ = "<tr>" + text_ + "</tr>";
  if (header.size() > kMostColumns) card_ = header;
}

void HtmlTable::row(const std::vector<std::string>& cells) {
  text_ += "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i)
    text_ += (i < card_.size() ? "<td data-of=\"" + card_[i] + "\">" : "<td>") + cells[i] + "</td>";
  text_ += "</tr>";
  ++rows_;
}

std::string HtmlTable::html() const {
  return fmt::format("<div class=\"wide{}\"><table>{}</table></div>", card_.empty() ? "" : " cards",
                     text_);
}

}  // namespace gossamer::apps
