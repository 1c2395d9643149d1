// Draws layouts as grids, as plain text, SVG or LaTeX.
#pragma once

#include "ptxbuilder/layout/expression.h"

namespace ptxbuilder {

// A grid of cells in row-major order. A cell holds lines of text, and a number that selects its colour. A
// cell without text is drawn empty.
struct LayoutGrid {
  struct Cell {
    std::vector<std::string> lines;
    int64_t colour = 0;
  };
  std::string title;
  int64_t rows = 0, columns = 0;
  std::vector<Cell> cells;

  const Cell& at(int64_t row, int64_t column) const {
    return cells[static_cast<size_t>(row * columns + column)];
  }
};

// Returns a grid with the offsets of a layout, with or without a swizzle, coloured by offset. Mode 0 runs
// downward, and all other modes run to the right; a layout of rank 1 is a single row. Throws Error for other
// kinds of values, and for more than 16384 cells.
LayoutGrid grid_of(const LayoutValue& layout);

// Returns a grid that shows which threads and values hold each element of a tile. Like CuTe's thread-value
// layouts, `layout` maps (thread, value) to an index into a tile of `rows` x `columns`, counted column by
// column. Each cell shows a label such as "T3 V1", and its colour depends on the thread. Throws Error if the
// layout's rank is not 2, or if the layout exceeds the tile.
LayoutGrid thread_value_grid(const Layout& layout, int64_t rows, int64_t columns);

std::string to_text(const LayoutGrid& grid);
std::string to_svg(const LayoutGrid& grid);
std::string to_latex(const LayoutGrid& grid);  // returns a standalone document with TikZ

}  // namespace ptxbuilder
