#include "kernels/gemm/matmul_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace ptxbuilder::kernels {
namespace {

// Coordinates of TMA are s32 (PTX ISA, cp.async.bulk.tensor), and a cluster's last tiles may begin up to 8 x
// 256 elements behind the end.
constexpr int64_t kMostExtent = (int64_t{1} << 31) - 4096;
constexpr int64_t kStrideEnd = int64_t{1} << 40;  // bytes, exclusive: of tensor maps
constexpr int64_t kIndexEnd = int64_t{1} << 32;   // of C's rows and strides, which the kernel has as u32
constexpr int64_t kTma = 16;                      // bytes, of which addresses and strides are multiples

using Wide = __int128;  // of products of extents and strides

// Of numbers that are no enumerator, as foreign code may hand them over.
void check_enumerators(const MatmulArguments& p, Where where) {
  auto refuse = [&](const char* what, auto value) {
    throw Error(where, fmt::format("matmul: {} is {}, which is none of its enumeration", what,
                                   static_cast<int>(value)));
  };
  auto check = [&](const char* name, DType type) {
    if (static_cast<size_t>(type) >= kElementBytes.size()) refuse(name, type);
  };
  check("the type of A", p.a.type);
  check("the type of B", p.b.type);
  check("the type of D", p.d.type);
#define PTXBUILDER_MATRIX(name, shown, ...) check("the type of " #shown, p.name.type);
#define PTXBUILDER_VECTOR(...)
#include "kernels/gemm/product.def"
#undef PTXBUILDER_MATRIX
#undef PTXBUILDER_VECTOR
  if (static_cast<size_t>(p.activation) >= activation_words.size()) refuse("the activation", p.activation);
  if (p.use > ActivationUse::gate) refuse("the use of the activation", p.use);
}

void check_extent(const char* name, int64_t value, Where where) {
  if (value < 0 || value > kMostExtent)
    throw Error(where, fmt::format("matmul: {} = {}; sizes are 0 to 2^31 - 4096, as TMA has coordinates of "
                                   "31 bits: divide the product into smaller ones",
                                   name, value));
}

// Bytes from the first element to behind the last one.
Wide extent_bytes(const PlacedMatrix& o) {
  const Wide last =
      Wide{o.shape.rows - 1} * o.place.stride + Wide{o.shape.batches - 1} * o.place.batch_stride;
  return (last + o.shape.columns) * o.element_bytes();
}

[[noreturn]] void refuse(Where where, const PlacedMatrix& o, const std::string& what) {
  throw Error(where, fmt::format("matmul: {} of {}: {}", o.name, name(o.type), what));
}

void check_stride(const PlacedMatrix& o, const char* what, int64_t stride, int64_t count, Where where) {
  if (count <= 1) return;
  if (stride < o.shape.columns)
    refuse(where, o,
           fmt::format("a {} stride of {} elements for rows of {}; it must be at least as long", what, stride,
                       o.shape.columns));
  if (Wide{stride} * o.element_bytes() >= kStrideEnd)
    refuse(where, o,
           fmt::format("a {} stride of {} elements, {} B each; a tensor map holds less than 2^40 B: "
                       "copy the matrix closer together",
                       what, stride, o.element_bytes()));
}

void check_memory(const PlacedMatrix& o, Where where) {
  check_stride(o, "row", o.place.stride, o.shape.rows, where);
  check_stride(o, "batch", o.place.batch_stride, o.shape.batches, where);
  const runtime::View& memory = o.place.memory;
  if (memory.address % static_cast<uint64_t>(o.element_bytes()) != 0)
    refuse(where, o,
           fmt::format("the address {:#x} is no multiple of an element's {} B", memory.address,
                       o.element_bytes()));
  if (extent_bytes(o) > Wide{memory.bytes})
    refuse(where, o,
           fmt::format("{} x {} elements with a row stride of {}, {} batches with a stride of {}, take {} B, "
                       "and its memory has {} B",
                       o.shape.rows, o.shape.columns, o.place.stride, o.shape.batches, o.place.batch_stride,
                       static_cast<uint64_t>(extent_bytes(o)), memory.bytes));
}

// Rows and batches of what is written must lie beside each other.
void check_no_self_overlap(const PlacedMatrix& d, Where where) {
  std::pair<int64_t, int64_t> inner = {d.place.stride, d.shape.rows},
                              outer = {d.place.batch_stride, d.shape.batches};
  if (inner.second == 1 || outer.second == 1) return;
  if (inner > outer) std::swap(inner, outer);
  const Wide width = Wide{inner.first} * (inner.second - 1) + d.shape.columns;
  if (Wide{outer.first} < width)
    refuse(where, d,
           fmt::format("a row stride of {} and a batch stride of {} elements let {} rows of {} in {} batches "
                       "overlap, which are written: take a batch stride of {}",
                       d.place.stride, d.place.batch_stride, d.shape.rows, d.shape.columns, d.shape.batches,
                       d.place.stride * d.shape.rows));
}

// Whether two operands may share an element: for sure not, where one ends before the other starts, or where
// all strides are multiples of one period and the rows lie in different parts of it, as columns of one larger
// matrix do.
bool overlap(const PlacedMatrix& x, const PlacedMatrix& y) {
  const uint64_t from_x = x.place.memory.address, from_y = y.place.memory.address;
  if (from_x > from_y) return overlap(y, x);
  const uint64_t apart = from_y - from_x;
  if (Wide{apart} >= extent_bytes(x)) return false;
  int64_t period = 0;  // bytes
  for (const PlacedMatrix* o : {&x, &y}) {
    if (o->shape.rows > 1) period = std::gcd(period, o->place.stride * o->element_bytes());
    if (o->shape.batches > 1) period = std::gcd(period, o->place.batch_stride * o->element_bytes());
  }
  if (period == 0) return true;
  const auto at = static_cast<int64_t>(apart % static_cast<uint64_t>(period));
  return at < x.shape.columns * x.element_bytes() || at + y.shape.columns * y.element_bytes() > period;
}

bool same_place(const PlacedMatrix& x, const PlacedMatrix& y) {
  return x.place.memory.address == y.place.memory.address &&
         (x.shape.rows == 1 || x.place.stride == y.place.stride) &&
         (x.shape.batches == 1 || x.place.batch_stride == y.place.batch_stride);
}

PlacedMatrix placed_matrix(const char* name, const DeviceMatrix& m, int64_t rows, int64_t columns,
                           int64_t batches) {
  PlacedMatrix o;
  o.name = name;
  o.type = m.type;
  o.shape = {rows, columns, batches};
  o.place.memory = m.memory;
  o.place.stride = m.stride != 0 ? m.stride : columns;
  o.place.batch_stride = m.batch_stride;
  if (m.batch_stride == 0 && __builtin_mul_overflow(o.place.stride, rows, &o.place.batch_stride))
    o.place.batch_stride = kStrideEnd;  // of a stride that is refused anyway
  return o;
}

// An operand as it is given. Elements without gaps are a row, whose type follows from D's.
PlacedMatrix placed_operand(const ProductOperandRow& row, const MatmulArguments& p, const GemmOperation& o) {
  DeviceMatrix given = {.memory = p.memory_of(row.operand), .type = o.type_of(row)};
  switch (row.operand) {
#define PTXBUILDER_MATRIX(name, ...) \
  case ProductOperand::name:         \
    given = p.name;                  \
    break;
#define PTXBUILDER_VECTOR(...)
#include "kernels/gemm/product.def"
#undef PTXBUILDER_MATRIX
#undef PTXBUILDER_VECTOR
    default:
      return placed_matrix(row.shown, given, 1, row.count(p.m, p.n, p.batches), 1);
  }
  return placed_matrix(row.shown, given, p.m, p.n, p.batches);
}

// The kernel finds a batch of them m strides behind the one before. C that is not so placed is copied.
void check_matrix(const ProductOperandRow& row, const MatmulArguments& p, const GemmOperation& o,
                  const PlacedMatrix& matrix, Where where) {
  if (matrix.type != o.addend())
    refuse(where, matrix, fmt::format("it is {} where D is {}", name(o.addend()), name(p.d.type)));
  check_memory(matrix, where);
  if (row.role != OperandRole::residual && !matrix.batches_touch())
    refuse(where, matrix, "batches with gaps; they lie a row's stride apart, as rows do");
  if (matrix.place.stride >= kIndexEnd || p.m * p.batches >= kIndexEnd)
    refuse(where, matrix,
           fmt::format("{} rows in all batches and a stride of {} elements; both are less than 2^32: divide "
                       "the batches",
                       p.m * p.batches, matrix.place.stride));
}

void check_row(const MatmulArguments& p, const PlacedMatrix& row, Where where) {
  const runtime::View& memory = row.place.memory;
  if (memory.address % static_cast<uint64_t>(row.element_bytes()) != 0 ||
      extent_bytes(row) > Wide{memory.bytes})
    refuse(where, row,
           fmt::format("{} B at {:#x}; where D is {}, it has {} elements, at a multiple of {} B",
                       memory.bytes, memory.address, name(p.d.type), row.shape.columns, row.element_bytes()));
}

// Calls `work` with all that is read, by name.
template <class Work>
void each_read(const PlacedMatrices& o, Work&& work) {
  if (o.has_product) work(o.a), work(o.b);
  for (const ProductOperandRow& row : product_operands)
    if (!row.is_written() && o.operands[row.operand].place.memory.address != 0) work(o.operands[row.operand]);
}

void check_overlap(const PlacedMatrices& o, Where where) {
  auto refuse_over = [&](const PlacedMatrix& written, const char* what) {
    throw Error(
        where,
        fmt::format("matmul: {} overlaps {}, which is read while {} is written: give {} memory of its own",
                    written.name, what, written.name, written.name));
  };
  const PlacedMatrix& c = o.operands[ProductOperand::c];
  each_read(o, [&](const PlacedMatrix& x) {
    if (!overlap(o.d, x) || (&x == &c && same_place(o.d, c))) return;
    refuse_over(o.d, &x == &c ? "a part of C, and is not C itself (same address and strides)" : x.name);
  });
  for (const ProductOperandRow& row : product_operands) {
    const PlacedMatrix& written = o.operands[row.operand];
    if (!row.is_written() || written.place.memory.address == 0) continue;
    if (overlap(o.d, written))
      throw Error(where, fmt::format("matmul: D overlaps {}: give D memory of its own", written.name));
    each_read(o, [&](const PlacedMatrix& x) {
      if (overlap(written, x)) refuse_over(written, x.name);
    });
  }
}

}  // namespace

bool PlacedMatrix::aligned_for_tma() const {
  auto aligned = [&](int64_t stride, int64_t count) {
    return count == 1 || stride * element_bytes() % kTma == 0;
  };
  return place.memory.address % kTma == 0 && aligned(place.stride, shape.rows) &&
         aligned(place.batch_stride, shape.batches);
}

int64_t PlacedMatrix::columns_by_tma() const {
  const int64_t unit = kTma / element_bytes();
  return aligned_for_tma() ? shape.columns / unit * unit : 0;
}

bool PlacedMatrix::batches_touch() const {
  return shape.batches == 1 || place.batch_stride == place.stride * shape.rows;
}

bool PlacedMatrix::stored_by_threads() const {
  return columns_by_tma() < shape.columns && batches_touch() && place.stride < kIndexEnd;
}

GemmOperation operation_of(const MatmulArguments& p) {
  const bool product = p.k > 0 && p.alpha != 0;
  GemmOperation o;
  o.a = p.a.type;
  o.b = p.b.type;
  o.d = p.d.type;
  o.a_k_major = p.a_k_major;
  o.b_k_major = p.b_k_major;
  const bool fp8 = is_fp8(p.a.type);
  o.fast_accumulation = !fp8 || p.fast_accumulation;
  o.alpha = product && p.alpha != 1;
  o.beta = p.beta != 0;
  o.activation = p.activation;
  o.use = p.use;
#define PTXBUILDER_MATRIX(...)
#define PTXBUILDER_VECTOR(name, word, type, shape, role, ...) \
  o.name = p.name.address != 0 && (product || OperandRole::role != OperandRole::factor);
#include "kernels/gemm/product.def"
#undef PTXBUILDER_MATRIX
#undef PTXBUILDER_VECTOR
  o.batched = p.batches > 1;
  return o;
}

GemmOperation operation_of(const MatmulArguments& p, const PlacedMatrix& d) {
  GemmOperation o = operation_of(p);
  o.d_by_threads = d.stored_by_threads();
  return o;
}

PlacedMatrices checked(const MatmulArguments& p, Where where) {
  check_enumerators(p, where);
  check_extent("m", p.m, where);
  check_extent("n", p.n, where);
  check_extent("k", p.k, where);
  check_extent("batches", p.batches, where);
  PlacedMatrices o;
  o.has_product = p.k > 0 && p.alpha != 0;
  o.a = placed_matrix("A", p.a, p.a_k_major ? p.m : p.k, p.a_k_major ? p.k : p.m, p.batches);
  o.b = placed_matrix("B", p.b, p.b_k_major ? p.n : p.k, p.b_k_major ? p.k : p.n, p.batches);
  const GemmOperation operation = operation_of(p);
  if (operation.gates() && p.n % 2 != 0)
    throw Error(where, fmt::format("matmul: a gate of n = {} columns; they come in pairs", p.n));
  o.d = placed_matrix("D", p.d, p.m, operation.d_columns(p.n), p.batches);
  if (p.m == 0 || p.n == 0 || p.batches == 0) return o;
  if (o.has_product) {
    check_memory(o.a, where);
    check_memory(o.b, where);
  }
  check_memory(o.d, where);
  check_no_self_overlap(o.d, where);
  for (const ProductOperandRow& row : product_operands) {
    if (!operation.has(row.operand)) continue;
    PlacedMatrix& x = o.operands[row.operand] = placed_operand(row, p, operation);
    if (row.is_matrix())
      check_matrix(row, p, operation, x, where);
    else
      check_row(p, x, where);
  }
  check_overlap(o, where);
  return o;
}

void check_addresses(const PlacedMatrices& o, Where where) {
  for (const PlacedMatrix* x : {&o.a, &o.b, &o.d})
    if (x->place.memory.address == 0 && (o.has_product || x == &o.d))
      throw Error(where, fmt::format("matmul: {}: data is NULL", x->name));
}

void check_workspace(const MatmulArguments& p, const PlacedMatrices& o, size_t bytes, Where where) {
  if (bytes == 0) return;
  const runtime::View& w = p.workspace;
  if (w.address == 0 || w.bytes < bytes || w.address % kTma != 0)
    throw Error(
        where,
        fmt::format("matmul: this product takes a workspace of {} B at a multiple of {}, as "
                    "workspace_bytes() says (ptxb_matmul_workspace() in C), and is given {} B at {:#x}",
                    bytes, kTma, w.bytes, w.address));
  PlacedMatrix taken = placed_matrix("workspace", {.memory = {w.address, bytes}, .type = DType::u8}, 1,
                                     static_cast<int64_t>(bytes), 1);
  auto refuse_over = [&](const PlacedMatrix& x) {
    if (x.place.memory.address != 0 && overlap(taken, x))
      throw Error(where,
                  fmt::format("matmul: the workspace, {} B at {:#x}, overlaps {}: give it memory of its own",
                              bytes, w.address, x.name));
  };
  refuse_over(o.d);
  each_read(o, refuse_over);
  for (const ProductOperandRow& row : product_operands)
    if (row.is_written()) refuse_over(o.operands[row.operand]);
}

}  // namespace ptxbuilder::kernels
