// Draws layouts as grids in text, SVG and LaTeX.
#pragma once

#include "ptxbuilder/layout/expression.h"

namespace ptxbuilder {

// A grid of cells in row-major order. A cell holds lines of text, and the number that selects its colour; a
// cell without text is empty.
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

// Draws the offsets of a layout, with or without a swizzle, coloured by offset: mode 0 runs down, and all
// other modes run right; a layout of rank 1 is a single row. Throws Error for other values, and for more than
// 16384 cells.
LayoutGrid grid_of(const LayoutValue& layout);

// Draws the threads and values that hold each element of a tile: a layout (threads, values) -> index into a
// tile of `rows` x `columns`, counted column by column, like CuTe's thread-value layouts. Each cell shows "T3
// V1", and is coloured by thread. Throws Error for a layout whose rank is not 2, or which exceeds the tile.
LayoutGrid thread_value_grid(const Layout& layout, int64_t rows, int64_t columns);

std::string to_text(const LayoutGrid& grid);
std::string to_svg(const LayoutGrid& grid);
std::string to_latex(const LayoutGrid& grid);  // a standalone document with TikZ

}  // namespace ptxbuilder
