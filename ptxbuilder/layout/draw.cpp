// Draws layouts: computes the contents of the cells, and writes the three output formats.
#include "ptxbuilder/layout/draw.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/error.h"

namespace ptxbuilder {
namespace {

constexpr int64_t kMostCells = 16384;

LayoutGrid empty_grid(std::string title, int64_t rows, int64_t columns) {
  if (rows < 1 || columns < 1 || columns > kMostCells || rows > kMostCells / columns)
    throw Error(fmt::format("a drawing must have 1 to {} cells, not {} x {}", kMostCells, rows, columns));
  LayoutGrid grid;
  grid.title = std::move(title);
  grid.rows = rows;
  grid.columns = columns;
  grid.cells.resize(static_cast<size_t>(rows * columns));
  return grid;
}

struct Colour {
  int red, green, blue;
};

// Returns a light colour, on which black text is readable. Hues are multiples of the golden angle, so that
// consecutive numbers have different colours.
Colour colour_of(int64_t number) {
  double hue = 6 * (static_cast<double>(number % 64 * 6180339 % 10000000) / 10000000);
  auto channel = [&](double shift) {
    double h = hue + shift < 6 ? hue + shift : hue + shift - 6;
    double part = h < 1 ? h : h < 3 ? 1 : h < 4 ? 4 - h : 0;
    return static_cast<int>(150 + 100 * part);
  };
  return {channel(2), channel(0), channel(4)};
}

std::string joined(const LayoutGrid::Cell& cell) {
  std::string text;
  for (const std::string& line : cell.lines) text.append(text.empty() ? "" : " ").append(line);
  return text;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else
      result += c;
  }
  return result;
}

}  // namespace

LayoutGrid grid_of(const LayoutValue& value) {
  const Layout* plain = std::get_if<Layout>(&value);
  const ComposedLayout* composed = std::get_if<ComposedLayout>(&value);
  if (!plain && !composed)
    throw Error(fmt::format("{} is not a layout, so it cannot be drawn", to_string(value)));
  const Layout& layout = plain ? *plain : composed->layout();
  int64_t rows = rank(layout) == 1 ? 1 : size(layout[0]);
  LayoutGrid grid = empty_grid(to_string(value), rows, size(layout) / rows);
  for (int64_t column = 0; column < grid.columns; ++column)
    for (int64_t row = 0; row < rows; ++row) {
      // Positions are counted across all modes, and the first mode varies fastest.
      int64_t i = column * rows + row;
      IntTuple offset = plain ? image(IntTuple(i), layout) : IntTuple((*composed)(i));
      int64_t colour = 0;
      for (const IntTuple& part : leaves(offset)) colour += part.value();
      grid.cells[static_cast<size_t>(row * grid.columns + column)] = {{to_string(offset)},
                                                                      std::max<int64_t>(colour, 0)};
    }
  return grid;
}

LayoutGrid thread_value_grid(const Layout& layout, int64_t rows, int64_t columns) {
  if (rank(layout) != 2)
    throw Error(fmt::format("a thread-value layout must have two modes, threads and values, but {} has {}",
                            to_string(layout), rank(layout)));
  LayoutGrid grid = empty_grid(fmt::format("{} on {} x {}", to_string(layout), rows, columns), rows, columns);
  int64_t threads = size(layout[0]), values = size(layout[1]);
  if (threads > kMostCells || values > kMostCells || threads * values > kMostCells)
    throw Error(fmt::format("a drawing can show at most {} values, not {} of {} threads", kMostCells, values,
                            threads));
  for (int64_t thread = 0; thread < threads; ++thread)
    for (int64_t v = 0; v < values; ++v) {
      int64_t at = layout({thread, v});
      if (at < 0 || at >= rows * columns)
        throw Error(fmt::format("thread {} holds value {} at {}, outside of the tile {} x {}", thread, v, at,
                                rows, columns));
      LayoutGrid::Cell& cell = grid.cells[static_cast<size_t>(at % rows * columns + at / rows)];
      if (cell.lines.empty()) cell.colour = thread;
      cell.lines.push_back(fmt::format("T{} V{}", thread, v));
    }
  return grid;
}

std::string to_text(const LayoutGrid& grid) {
  size_t width = std::to_string(std::max(grid.rows, grid.columns) - 1).size();
  for (const LayoutGrid::Cell& cell : grid.cells) width = std::max(width, joined(cell).size());
  std::string text = fmt::format("{}\n{:>{}} ", grid.title, "", width);
  for (int64_t c = 0; c < grid.columns; ++c) text += fmt::format("  {:>{}}", c, width);
  text += '\n';
  for (int64_t r = 0; r < grid.rows; ++r) {
    text += fmt::format("{:>{}} |", r, width);
    for (int64_t c = 0; c < grid.columns; ++c)
      text += fmt::format("{}{:>{}}", c ? "  " : " ", joined(grid.at(r, c)), width);
    text += '\n';
  }
  return text;
}

std::string to_svg(const LayoutGrid& grid) {
  size_t longest = 2, lines = 1;
  for (const LayoutGrid::Cell& cell : grid.cells) {
    lines = std::max(lines, cell.lines.size());
    for (const std::string& line : cell.lines) longest = std::max(longest, line.size());
  }
  size_t width = 12 + 8 * longest, height = 16 + 14 * lines;
  auto text_at = [](size_t x, size_t y, const char* style, const std::string& text) {
    return fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", x, y, style, escaped(text));
  };
  size_t left = 48, top = 48, rows = static_cast<size_t>(grid.rows),
         columns = static_cast<size_t>(grid.columns);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"monospace\" "
      "font-size=\"12\" text-anchor=\"middle\">\n",
      std::max(left + columns * width + 8, 16 + 8 * grid.title.size()), top + rows * height + 8);
  svg += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  svg += text_at(8, 18, " text-anchor=\"start\"", grid.title);
  for (size_t c = 0; c < columns; ++c)
    svg += text_at(left + c * width + width / 2, top - 6, " fill=\"gray\"", std::to_string(c));
  for (size_t r = 0; r < rows; ++r) {
    svg += text_at(left / 2, top + r * height + height / 2 + 4, " fill=\"gray\"", std::to_string(r));
    for (size_t c = 0; c < columns; ++c) {
      const LayoutGrid::Cell& cell = grid.at(static_cast<int64_t>(r), static_cast<int64_t>(c));
      Colour colour = cell.lines.empty() ? Colour{255, 255, 255} : colour_of(cell.colour);
      size_t x = left + c * width, y = top + r * height;
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#{:02x}{:02x}{:02x}\" "
          "stroke=\"black\"/>\n",
          x, y, width, height, colour.red, colour.green, colour.blue);
      for (size_t i = 0; i < cell.lines.size(); ++i)
        svg += text_at(x + width / 2, y + 20 + 14 * i, "", cell.lines[i]);
    }
  }
  return svg + "</svg>\n";
}

std::string to_latex(const LayoutGrid& grid) {
  size_t longest = 2, lines = 1;
  for (const LayoutGrid::Cell& cell : grid.cells) {
    lines = std::max(lines, cell.lines.size());
    for (const std::string& line : cell.lines) longest = std::max(longest, line.size());
  }
  double width = 0.4 + 0.2 * static_cast<double>(longest),
         height = 0.5 + 0.4 * static_cast<double>(lines);  // height of a cell, in cm
  std::string tex =
      "\\documentclass[convert]{standalone}\n\\usepackage{tikz}\n\\begin{document}\n"
      "\\begin{tikzpicture}[every node/.style={outer sep=0pt, font=\\ttfamily}]\n";
  std::string title;
  for (char c : grid.title) {  // LaTeX treats _ as a command; other such characters do not occur
    if (c == '_') title += '\\';
    title += c;
  }
  tex += fmt::format("\\node[anchor=west] at (0,{:.2f}) {{{}}};\n", 2 * 0.6, title);
  for (int64_t c = 0; c < grid.columns; ++c)
    tex += fmt::format("\\node[gray] at ({:.2f},0.4) {{{}}};\n", (static_cast<double>(c) + 0.5) * width, c);
  for (int64_t r = 0; r < grid.rows; ++r) {
    double y = -static_cast<double>(r) * height;
    tex += fmt::format("\\node[gray] at (-0.5,{:.2f}) {{{}}};\n", y - height / 2, r);
    for (int64_t c = 0; c < grid.columns; ++c) {
      const LayoutGrid::Cell& cell = grid.at(r, c);
      Colour colour = cell.lines.empty() ? Colour{255, 255, 255} : colour_of(cell.colour);
      std::string text;
      for (const std::string& line : cell.lines) text.append(text.empty() ? "" : "\\\\").append(line);
      double x = static_cast<double>(c) * width;
      tex += fmt::format(
          "\\filldraw[draw=black, fill={{rgb,255:red,{};green,{};blue,{}}}] ({:.2f},{:.2f}) rectangle "
          "({:.2f},{:.2f}) "
          "node[midway, align=center] {{{}}};\n",
          colour.red, colour.green, colour.blue, x, y, x + width, y - height, text);
    }
  }
  return tex + "\\end{tikzpicture}\n\\end{document}\n";
}

}  // namespace ptxbuilder
