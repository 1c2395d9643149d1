// Access to the two halves of a head, for operations that rotate them. A thread holds corresponding parts of
// both halves.
#pragma once

#include <cmath>
#include <string>

#include "kernels/rows/element.h"
#include "kernels/rows/operation.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

// Loads, rotates and stores the halves of heads. In the tile, each row is one half of a head, and each thread
// has a single row.
template <class T>
class Halves {
 public:
  struct Pair {
    RegisterTile<f32> first, second;
  };

  Halves(const Parameters& p, const RowTile& tile) : p_(p), tile_(tile), layout_(tile.layout()) {}

  // Returns the number of this thread's row, which may be beyond the last row.
  u32 own_row() const { return ctaid_x() * tile_.rows() + u32(row_index(layout_.reduced_rows()).value(0)); }
  // These functions load and store both halves of a head, if `is_there`.
  Pair load_head(const std::string& tensor, u32 head, pred is_there) const {
    return {load_row(tensor, head * 2, is_there, 0), load_row(tensor, head * 2 + 1, is_there, 0)};
  }
  template <class To = T>
  void store_head(const std::string& tensor, u32 head, pred is_there, const Pair& x) const {
    store_head_at<To>(tensor, u64(head * 2) * u64(p_.get<u32>("columns")), is_there, x);
  }
  // Stores both halves, beginning at element `element` of the tensor, if `is_there`.
  template <class To>
  void store_head_at(const std::string& tensor, u64 element, pred is_there, const Pair& x) const {
    store(row_at<To>(tensor, element, is_there), narrowed<To>(x.first));
    store(row_at<To>(tensor, element + u64(p_.get<u32>("columns")), is_there), narrowed<To>(x.second));
  }
  // Returns both halves, rotated by the angles of a position. They are NaN if the position does not exist. If
  // `back`, rotates in the opposite direction.
  Pair turned(const Pair& x, u32 position, bool back) const {
    const pred is_there = position < p_.get<u32>("positions");
    const RegisterTile<f32> cos = load_row("cos", position, is_there, NAN),
                            turn = load_row("sin", position, is_there, NAN), sin = back ? -turn : turn;
    return {x.first * cos - x.second * sin, x.second * cos + x.first * sin};
  }

 private:
  template <class Element>
  TensorTile<Element> row_at(const std::string& tensor, u64 element, pred is_there) const {
    TensorTile<Element> tile{{p_.get<gptr<Element>>(tensor) + element, 0}};
    tile.cols = select(is_there, s32(p_.get<u32>("columns")), s32(0));
    tile.vector = tile_.vector;
    return tile;
  }
  RegisterTile<f32> load_row(const std::string& tensor, u32 number, pred is_there, float otherwise) const {
    return widened(load<T>(row_at<T>(tensor, u64(number) * u64(p_.get<u32>("columns")), is_there), layout_,
                           T(otherwise)));
  }

  const Parameters& p_;
  const RowTile& tile_;
  const RegisterLayout layout_;
};

}  // namespace ptxbuilder::kernels
