#include "ptxbuilder/plan/copy_atom.h"

#include <fmt/format.h>

#include "ptxbuilder/article.h"

namespace ptxbuilder {
namespace {

constexpr int kRows = 8, kRowBytes = 16;  // number of rows of a matrix, and the size of a row

void check_matrices(std::string_view instruction, int matrices) {
  if (matrices != 1 && matrices != 2 && matrices != 4)
    throw Error(fmt::format("{}: {} matrices were requested, but it moves 1, 2 or 4", instruction, matrices));
}

}  // namespace

CopyAtom CopyAtom::cp_async(int bytes, Where where) {
  CallersLine line(where);
  if (bytes != 4 && bytes != 8 && bytes != 16)
    throw Error(fmt::format("cp.async: {} bytes were requested, but it copies 4, 8 or 16", bytes));
  return {Kind::cp_async, bytes, 0, false};
}

CopyAtom CopyAtom::vector(int bytes, Where where) {
  CallersLine line(where);
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16)
    throw Error(
        fmt::format("vector: {} bytes were requested, but a thread accesses 1, 2, 4, 8 or 16", bytes));
  return {Kind::vector, bytes, 0, false};
}

CopyAtom CopyAtom::ldmatrix(int matrices, bool transposed, Where where) {
  CallersLine line(where);
  check_matrices("ldmatrix", matrices);
  return {Kind::ldmatrix, kRowBytes, matrices, transposed};
}

CopyAtom CopyAtom::stmatrix(int matrices, bool transposed, Where where) {
  CallersLine line(where);
  check_matrices("stmatrix", matrices);
  return {Kind::stmatrix, kRowBytes, matrices, transposed};
}

Layout CopyAtom::addressed(DType type, Where where) const {
  CallersLine line(where);
  int elements = bytes_ / size_of(type);
  if (elements < 1)
    throw Error(fmt::format("{}: it moves less than one {} element, which has {} B", describe(), name(type),
                            size_of(type)));
  if (!is_matrix()) return make_layout({1, elements}, {0, 1});
  int rows = kRows * matrices_;
  return make_layout({{rows, 32 / rows}, elements}, {{elements, 0}, 1});
}

// A lane holds 4 bytes of row lane / 4 of each matrix, beginning at byte 4 * (lane % 4). In a transposed
// matrix, a lane holds 2 elements of column lane / 4, beginning at row 2 * (lane % 4).
Layout CopyAtom::held(DType type, Where where) const {
  CallersLine line(where);
  if (!is_matrix()) return addressed(type);
  if (!transposed_) {
    int packed = 4 / size_of(type);
    if (packed < 1)
      throw Error(
          fmt::format("{}: the elements are {}, but must have at most 32 bits", describe(), name(type)));
    return make_layout({32, {packed, matrices_}}, {packed, {1, 32 * packed}});
  }
  if (size_of(type) != 2)
    throw Error(fmt::format("{}: the elements are {}, but only 16-bit elements can be transposed", describe(),
                            name(type)));
  return make_layout({{4, 8}, {2, matrices_}}, {{16, 1}, {8, 64}});
}

std::string CopyAtom::describe() const {
  if (is_matrix())
    return fmt::format("{}.x{}{}", kind_ == Kind::ldmatrix ? "ldmatrix" : "stmatrix", matrices_,
                       transposed_ ? ".trans" : "");
  return kind_ == Kind::vector ? with_article(fmt::format("{} B vector", bytes_))
                               : fmt::format("cp.async of {} B", bytes_);
}

}  // namespace ptxbuilder
