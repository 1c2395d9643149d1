#include "kernels/c/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/c/grown.h"
#include "kernels/c/packed.h"
#include "kernels/c/tensor.h"

namespace ptxbuilder::c {
namespace {

// A matrix of a product, described by its last two dimensions; a dimension of batches may precede them. The
// stride of a dimension with one element is ignored.
struct Matrix : Placed {
  Matrix(const char* the_name, const ptxb_tensor* the_tensor, int gpu) : Placed(the_name, the_tensor, gpu) {
    const size_t all = rank();
    if (all != 2 && all != 3)
      throw Error(
          fmt::format("{}: {} dimensions; a matrix must have 2, or 3 with batches in front", name, all));
    rows = extent(all - 2), columns = extent(all - 1);
    row_stride = rows > 1 ? stride(all - 2) : 0, column_stride = columns > 1 ? stride(all - 1) : 0;
    if (all == 3) batches = extent(0), batch_stride = batches > 1 ? stride(0) : 0;
  }

  int64_t batches = 1, rows, columns;
  int64_t batch_stride = 0, row_stride, column_stride;

  // These functions return whether the contiguous lines of the matrix run along the columns or along the
  // rows.
  bool along_columns() const { return columns <= 1 || rows == 0 || column_stride == 1; }
  bool along_rows() const { return rows <= 1 || columns == 0 || row_stride == 1; }

  kernels::DeviceMatrix as_lines(bool of_rows) const {
    const int64_t apart = of_rows ? row_stride : column_stride, lines = of_rows ? rows : columns,
                  length = of_rows ? columns : rows;
    if (lines > 1 && apart < length)
      throw Error(fmt::format("{}: {} begin {} elements apart, but have {} elements: make it contiguous",
                              name, of_rows ? "rows" : "columns", apart, length));
    if (batches > 1 && batch_stride < 1 && memory().bytes > 0)
      throw Error(
          fmt::format("{}: batches begin {} elements apart, so that all are in one place: give each batch "
                      "its own memory, or make the batches rows of one product",
                      name, batch_stride));
    return {.memory = memory(), .type = type, .stride = apart, .batch_stride = batch_stride};
  }

 private:
  runtime::View memory() const {
    if (rows == 0 || columns == 0 || batches == 0) return {address(), 0};
    return up_to(Wide{rows - 1} * row_stride + Wide{columns - 1} * column_stride +
                 Wide{batches - 1} * batch_stride);
  }
};

// Calls `work` for each row of the table of operands, with the caller's tensor, which may be NULL.
template <class Work>
inline void each_operand(const ptxb_matmul& p, Work&& work) {
  using kernels::ProductOperand, kernels::product_operands;
#define PTXBUILDER_MATRIX(name, ...) \
  work(product_operands[static_cast<size_t>(ProductOperand::name)], p.name);
#define PTXBUILDER_VECTOR PTXBUILDER_MATRIX
#include "kernels/gemm/product.def"
}

inline void move_to(runtime::View& memory, const ptxb_tensor* to) {
  if (to) memory.address = address_of(to->data) + to->byte_offset;
}

// Returns the use of the activation. Throws Error if the activation or the inputs do not match `use`.
kernels::ActivationUse use_of(const ptxb_matmul& p) {
  if (p.use < PTXB_VALUE || p.use > PTXB_GATE) throw Error(fmt::format("use {} is not a ptxb_use", p.use));
  if (p.use != PTXB_VALUE && p.activation == PTXB_NONE)
    throw Error(fmt::format("use is {}, but activation is PTXB_NONE: set the activation to which it belongs",
                            p.use == PTXB_GATE ? "PTXB_GATE" : "PTXB_SLOPE"));
  if (p.use == PTXB_SLOPE && !p.inputs) throw Error("use is PTXB_SLOPE, but inputs is NULL");
  if (p.use != PTXB_SLOPE && p.inputs)
    throw Error("inputs is given, but use is not PTXB_SLOPE, the only one that reads it");
  return static_cast<kernels::ActivationUse>(p.use);
}

// Reads the elements of an operand without gaps. If the row requires D's type, the elements have that type,
// or bf16 if D has 8 bits.
runtime::View elements_of(const kernels::ProductOperandRow& row, const ptxb_tensor* tensor,
                          const kernels::MatmulArguments& q, int gpu) {
  using enum kernels::OperandShape;
  kernels::GemmOperation operation;
  operation.d = q.d.type;
  const DType type = operation.type_of(row);
  const std::string of = row.type == kernels::OperandType::f32   ? "float32"
                         : row.type == kernels::OperandType::s32 ? "int32"
                         : row.type == kernels::OperandType::s64
                             ? "int64"
                             : fmt::format("{} if D is {},", name(type), name(q.d.type));
  const bool grouped_rows = (q.group_ends.address != 0 || q.group_counts.address != 0) && !q.groups_of_k;
  const int64_t batches = row.is_by_batch(grouped_rows) ? q.batches : 1;
  switch (row.shape) {
    case rows:
      return elements_of_lines(row.name, tensor, type, of, q.m, 1, batches, gpu);
    case columns:
    case columns_of_all:
      return elements_of_lines(row.name, tensor, type, of, 1, q.n, batches, gpu);
    case rows_by_k:
    case columns_by_k:
    case blocks:
    case row_blocks:
    case column_blocks: {
      const auto [lines, length] = row.of_batch(q.m, q.n, q.k);
      return elements_of_lines(row.name, tensor, type, of, lines, length, batches, gpu);
    }
    case groups:
      return elements_of_lines(row.name, tensor, type, of, 1, q.batches, 1, gpu);
    default:
      return one_float(row.name, tensor, gpu);
  }
}

kernels::MatmulArguments read_arguments(const ptxb_matmul& p, int gpu) {
  const Matrix a("A", p.a, gpu), b("B", p.b, gpu), d("D", p.d, gpu);
  if (p.activation < 0 || static_cast<size_t>(p.activation) >= kernels::activation_words.size())
    throw Error(fmt::format("activation {} is not a ptxb_activation", p.activation));
  kernels::MatmulArguments q;
  q.use = use_of(p);
  const bool gates = q.use == kernels::ActivationUse::gate;
  const bool has_groups = p.group_ends || p.group_counts,
             grouped_rows = has_groups && (b.rank() == 3 || p.b_addresses);
  q.groups_of_k = has_groups && !grouped_rows;
  if (p.b_addresses && !has_groups)
    throw Error("b_addresses: there must be group_ends or group_counts, since each group has an address");
  if (p.b_addresses && b.rank() != 2)
    throw Error(
        fmt::format("b_addresses: B has {} dimensions, but must be one of the matrices, [k,n]", b.rank()));
  if (has_groups && (a.rank() != 2 || d.rank() != (grouped_rows ? 2 : 3)))
    throw Error(
        fmt::format("{}: A, B and D have {}, {} and {} dimensions; they must have 2, 3 and 2 if rows are in "
                    "groups, and 2, 2 and 3 if k is",
                    p.group_ends ? "group_ends" : "group_counts", a.rank(), b.rank(), d.rank()));
  const bool scatters = p.d_rows || p.add_to_rows;
  q.m = !scatters ? d.rows : p.a_rows && p.a_rows->ndim > 0 ? p.a_rows->shape[0] : a.rows;
  if (scatters) q.rows_of_d = d.rows;
  q.n = gates ? b.columns : d.columns, q.k = p.a_metadata ? 2 * a.columns : a.columns;
  q.batches = grouped_rows ? b.batches : d.batches;
  if (grouped_rows && p.b_addresses) {
    const ptxb_tensor& sizes = *(p.group_ends ? p.group_ends : p.group_counts);
    q.batches = sizes.ndim > 0 ? sizes.shape[0] : 1;
  }
  if (gates && d.columns != q.n / 2)
    throw Error(fmt::format("D: it has {} columns, but a gate of B's {} columns must have {}", d.columns, q.n,
                            q.n / 2));
  auto expect = [&](const Matrix& x, int64_t rows, int64_t columns, const char* names, bool by_group) {
    const int64_t batches = has_groups && !by_group ? 1 : q.batches;
    if (x.rows != rows || x.columns != columns || x.batches != batches)
      throw Error(fmt::format("{}: {} batches of {} x {}, but D and A require {} {} of {} x {}", x.name,
                              x.batches, x.rows, x.columns, names, batches, rows, columns));
  };
  if (p.a_rows) q.rows_of_a = a.rows;
  p.a_metadata ? expect(a, p.a_rows ? a.rows : q.m, q.k / 2, "[m,k/2]", false)
               : expect(a, p.a_rows ? a.rows : q.m, q.k, "[m,k]", false);
  if (p.packed_form != 0) {
    q.packed = packed_form_of(p.packed_form);
    const int64_t lines = (q.n + kernels::kPackedColumns - 1) / kernels::kPackedColumns;
    expect(b, lines, lines > 0 ? packed_bytes(q.packed, q.n, q.k) / lines : b.columns, "[n/64,bytes]",
           grouped_rows);
    if (b.type != DType::u8 || !b.along_columns() || (b.rows > 1 && b.row_stride != b.columns) ||
        (b.batches > 1 && b.batch_stride != b.rows * b.columns))
      throw Error(fmt::format("B: {} with strides of {} and {}; packed weights must be uint8 without gaps",
                              name(b.type), b.row_stride, b.column_stride));
  } else {
    const bool of_groups = grouped_rows && !p.b_addresses;
    p.b_metadata ? expect(b, q.k / 2, q.n, "[k/2,n]", of_groups) : expect(b, q.k, q.n, "[k,n]", of_groups);
  }
  // A matrix with a single row or column is in both orders, but groups of k require a specific order.
  q.a_k_major = q.groups_of_k ? !a.along_rows() : a.along_columns();
  q.b_k_major = q.groups_of_k ? !b.along_columns() : b.along_rows();
  for (const Matrix* x : {&a, &b})
    if (!x->along_columns() && !x->along_rows())
      throw Error(fmt::format("{}: its strides are {} and {}, but one of them must be 1", x->name,
                              x->row_stride, x->column_stride));
  q.a = a.as_lines(q.a_k_major);
  q.b = b.as_lines(q.packed.is_packed() || !q.b_k_major);
  auto output = [&](const Matrix& x) {
    if (!x.along_columns())
      throw Error(
          fmt::format("{}: its columns are {} elements apart, but must be 1 apart: compute the transposed "
                      "product, B^T A^T",
                      x.name, x.column_stride));
    return x.as_lines(true);
  };
  q.d = output(d);
  if (!p.c && p.beta != 0) throw Error(fmt::format("beta is {}, but C is NULL", p.beta));
  auto matrix = [&](kernels::DeviceMatrix& to, const char* name, const ptxb_tensor* from) {
    if (!from) return;
    const Matrix x(name, from, gpu);
    expect(x, q.m, q.n, "[m,n]", q.groups_of_k);
    to = output(x);
  };
  // The sizes set above determine the shapes of the other operands.
  const auto sizes_of = [&](kernels::ProductOperand which, const ptxb_tensor* from) {
    return elements_of(kernels::product_operands[static_cast<size_t>(which)], from, q, gpu);
  };
  if (p.group_ends) q.group_ends = sizes_of(kernels::ProductOperand::group_ends, p.group_ends);
  if (p.group_counts) q.group_counts = sizes_of(kernels::ProductOperand::group_counts, p.group_counts);
#define PTXBUILDER_MATRIX(name, shown, ...) matrix(q.name, #shown, p.name);
#define PTXBUILDER_VECTOR(name, ...)                                                                  \
  q.name = elements_of(kernels::product_operands[static_cast<size_t>(kernels::ProductOperand::name)], \
                       p.name, q, gpu);
#include "kernels/gemm/product.def"
  for (kernels::DeviceMatrix* x : {&q.a, &q.b})
    if (x->type == DType::f32) {
      if (!p.tf32) throw Error("the tensor cores truncate f32 A and B to tf32: set `tf32` to allow it");
      x->type = DType::tf32;
    }
  q.alpha = p.alpha, q.beta = p.beta;
  q.activation = static_cast<kernels::Activation>(p.activation);
  q.fast_accumulation = !p.precise;
  return q;
}

#define PTXBUILDER_ACTIVATION(word, WORD, ...) \
  static_assert(static_cast<int>(kernels::Activation::word) == PTXB_##WORD);
#include "kernels/gemm/activation.def"
#undef PTXBUILDER_ACTIVATION
static_assert(static_cast<int>(kernels::ActivationUse::value) == PTXB_VALUE &&
              static_cast<int>(kernels::ActivationUse::slope) == PTXB_SLOPE &&
              static_cast<int>(kernels::ActivationUse::gate) == PTXB_GATE);

}  // namespace

void TensorForm::set(const ptxb_tensor* t) {
  *this = TensorForm();
  if (!t) return;
  tensor_ = *t;
  std::copy_n(t->shape, t->ndim, shape_.begin());
  if (t->strides) std::copy_n(t->strides, t->ndim, strides_.begin());
  is_given_ = true;
}

bool TensorForm::is_of(const ptxb_tensor* t) const {
  // The fields for the device, the number of dimensions and the type are adjacent.
  constexpr size_t kFixed = offsetof(ptxb_tensor, shape) - offsetof(ptxb_tensor, device);
  if (!t || !is_given_) return !t && !is_given_;
  if (std::memcmp(&t->device, &tensor_.device, kFixed) != 0) return false;
  if (!t->shape || !t->strides != !tensor_.strides) return false;
  bool same = true;
  for (size_t i = 0; i < static_cast<size_t>(tensor_.ndim); ++i) {
    same &= t->shape[i] == shape_[i];
    if (t->strides) same &= t->strides[i] == strides_[i];
  }
  return same;
}

bool LastProduct::is_of(const ptxb_matmul& p, uint64_t device) const {
  // The size of the scalar fields between the pointers, without the padding after them.
  constexpr size_t kScalars =
      offsetof(ptxb_matmul, precise) + sizeof(ptxb_matmul::precise) - offsetof(ptxb_matmul, alpha);
  bool same = device_ == device && p.use == scalars_.use && p.packed_form == scalars_.packed_form &&
              std::memcmp(&p.alpha, &scalars_.alpha, kScalars) == 0 && a_.is_of(p.a) && b_.is_of(p.b) &&
              d_.is_of(p.d);
  each_operand(p, [&](const kernels::ProductOperandRow& row, const ptxb_tensor* t) {
    const TensorForm& last = operands_[row.operand];
    if (t || last.is_given()) same = same && last.is_of(t);
  });
  return same;
}

void LastProduct::read_anew(const ptxb_matmul& p, uint64_t device, int gpu) {
  device_ = 0;  // stays 0 until everything is read
  arguments_ = read_arguments(p, gpu);
  scalars_ = p;
  a_.set(p.a), b_.set(p.b), d_.set(p.d);
  each_operand(
      p, [&](const kernels::ProductOperandRow& row, const ptxb_tensor* t) { operands_[row.operand].set(t); });
  device_ = device;
}

void LastProduct::move(const ptxb_matmul& p) {
  move_to(arguments_.a.memory, p.a), move_to(arguments_.b.memory, p.b), move_to(arguments_.d.memory, p.d);
  each_operand(p, [&](const kernels::ProductOperandRow& row, const ptxb_tensor* t) {
    if (!t) return;
    runtime::View& memory = arguments_.memory_of(row.operand);
    move_to(memory, t);
    // An operand without an address would otherwise count as omitted.
    if (memory.address == 0 && memory.bytes > 0) refuse_null(fmt::format("{}: data", row.shown).c_str());
  });
}

const kernels::MatmulArguments& LastProduct::read(const ptxb_matmul& given, uint64_t device, int gpu,
                                                  runtime::View workspace, runtime::Stream stream) {
  constexpr size_t kFirst = offsetof(ptxb_matmul, inputs);
  if (given.size != sizeof given)
    return read(grown(given, PTXB_MATMUL_INIT, kFirst, "ptxb_matmul", "PTXB_MATMUL_INIT"), device, gpu,
                workspace, stream);
  if (!is_of(given, device)) read_anew(given, device, gpu);
  move(given);
  arguments_.workspace = workspace, arguments_.stream = stream;
  return arguments_;
}

}  // namespace ptxbuilder::c
