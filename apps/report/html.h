// Pages that need no network: the frame, tables, escaped text, pictures.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace gossamer::apps {

std::string html_escape(const std::string&);

// "data:image/jpeg;base64,…": a file that a page holds itself.
std::string data_address(const std::string& type, std::span<const std::byte>);

// <style> of all pages; a file with nothing but a picture takes it too.
std::string html_style();

// Of curve k, as CSS has it: "var(--c0)" … After kCurveColours they come again.
inline constexpr int kCurveColours = 6;
std::string curve_colour(int k);
// A mark of that curve in its colour, for what is said of it beside a picture. The words have the
// colour of text: not every colour of a curve is dark enough for letters.
std::string colour_mark(int colour, const char* mark);

// What a page may do in a browser: show itself, run its own scripts, or also fetch from where it
// came from.
enum class PageMay { show, run, fetch };

// The whole page: `body` is HTML, `title` is text.
std::string html_page(const std::string& title, const std::string& body,
                      PageMay may = PageMay::show);

// Cells are HTML. The rows may be longer than the header, which is text of HTML without quotes.
class HtmlTable {
 public:
  explicit HtmlTable(const std::vector<std::string>& header = {});
  void row(const std::vector<std::string>& cells);
  bool empty() const { return rows_ == 0; }
  std::string html() const;

 private:
  std::string text_;
  std::vector<std::string> card_;
  int rows_ = 0;
};

}  // namespace gossamer::apps
