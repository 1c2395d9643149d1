#include "kernels/c/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/c/tensor.h"

namespace ptxbuilder::c {
namespace {

// A matrix of a product: its dimensions behind those of batches, which are one or none. A dimension of one
// element has no stride.
struct Matrix : Placed {
  Matrix(const char* the_name, const ptxb_tensor* the_tensor, int gpu) : Placed(the_name, the_tensor, gpu) {
    const size_t all = rank();
    if (all != 2 && all != 3)
      throw Error(fmt::format("{}: {} dimensions; a matrix has 2, or 3 with batches in front", name, all));
    rows = extent(all - 2), columns = extent(all - 1);
    row_stride = rows > 1 ? stride(all - 2) : 0, column_stride = columns > 1 ? stride(all - 1) : 0;
    if (all == 3) batches = extent(0), batch_stride = batches > 1 ? stride(0) : 0;
  }

  int64_t batches = 1, rows, columns;
  int64_t batch_stride = 0, row_stride, column_stride;

  // As lines that lie along the columns or along the rows: whether they do.
  bool along_columns() const { return columns <= 1 || column_stride == 1; }
  bool along_rows() const { return rows <= 1 || row_stride == 1; }

  kernels::DeviceMatrix as_lines(bool of_rows) const {
    const int64_t apart = of_rows ? row_stride : column_stride, lines = of_rows ? rows : columns,
                  length = of_rows ? columns : rows;
    if (lines > 1 && apart < length)
      throw Error(fmt::format("{}: {} are {} elements apart, but have {}: make it contiguous", name,
                              of_rows ? "rows" : "columns", apart, length));
    if (batches > 1 && batch_stride < 1 && memory().bytes > 0)
      throw Error(fmt::format("{}: batches are {} elements apart, but have 1: make it contiguous", name,
                              batch_stride));
    return {.memory = memory(), .type = type, .stride = apart, .batch_stride = batch_stride};
  }

 private:
  runtime::View memory() const {
    if (rows == 0 || columns == 0 || batches == 0) return {address(), 0};
    return up_to(Wide{rows - 1} * row_stride + Wide{columns - 1} * column_stride +
                 Wide{batches - 1} * batch_stride);
  }
};

kernels::MatmulArguments read_arguments(const ptxb_matmul& p, int gpu) {
  if (p.size != sizeof(ptxb_matmul))
    throw Error(
        fmt::format("a ptxb_matmul of {} bytes, but this library's has {}: set its size by "
                    "PTXB_MATMUL_INIT, and build with the header of version {}",
                    p.size, sizeof(ptxb_matmul), ptxb_version()));
  const Matrix a("A", p.a, gpu), b("B", p.b, gpu), d("D", p.d, gpu);
  kernels::MatmulArguments q;
  q.m = d.rows, q.n = d.columns, q.k = a.columns, q.batches = d.batches;
  auto expect = [&](const Matrix& x, int64_t rows, int64_t columns, const char* names) {
    if (x.rows != rows || x.columns != columns || x.batches != q.batches)
      throw Error(fmt::format("{}: {} batches of {} x {}, but D and A make {} {} of {} x {}", x.name,
                              x.batches, x.rows, x.columns, names, q.batches, rows, columns));
  };
  expect(a, q.m, q.k, "[m,k]");
  expect(b, q.k, q.n, "[k,n]");
  q.a_k_major = a.along_columns();
  q.b_k_major = b.along_rows();
  for (const Matrix* x : {&a, &b})
    if (!x->along_columns() && !x->along_rows())
      throw Error(fmt::format("{}: its strides are {} and {}, and one of them has to be 1", x->name,
                              x->row_stride, x->column_stride));
  q.a = a.as_lines(q.a_k_major);
  q.b = b.as_lines(!q.b_k_major);
  auto output = [&](const Matrix& x) {
    if (!x.along_columns())
      throw Error(
          fmt::format("{}: its columns are {} elements apart, and have to be 1: compute the transposed "
                      "product, B^T A^T",
                      x.name, x.column_stride));
    return x.as_lines(true);
  };
  q.d = output(d);
  if (p.c) {
    const Matrix c("C", p.c, gpu);
    expect(c, q.m, q.n, "[m,n]");
    q.c = output(c);
  } else if (p.beta != 0) {
    throw Error(fmt::format("beta is {}, but C is NULL", p.beta));
  }
  if (p.bias) {
    const Placed bias("bias", p.bias, gpu);
    if (bias.rank() != 1 || bias.extent(0) != q.n || (q.n > 1 && bias.stride(0) != 1))
      throw Error(fmt::format("bias: it has one dimension of n = {} elements without gaps", q.n));
    if (bias.type != d.type)
      throw Error(
          fmt::format("bias: of {}, and D of {}; they must be of one type", name(bias.type), name(d.type)));
    q.bias = bias.memory();
  }
  for (kernels::DeviceMatrix* x : {&q.a, &q.b})
    if (x->type == DType::f32) {
      if (!p.tf32)
        throw Error("A and B of f32 are rounded to tf32 on the tensor cores: set `tf32` to allow it");
      x->type = DType::tf32;
    }
  if (p.activation < PTXB_NONE || p.activation > PTXB_SILU)
    throw Error(fmt::format("activation {} is none of ptxb_activation", p.activation));
  q.alpha = p.alpha, q.beta = p.beta;
  q.activation = static_cast<kernels::Activation>(p.activation);
  q.fast_accumulation = !p.precise;
  return q;
}

static_assert(static_cast<int>(kernels::Activation::none) == PTXB_NONE &&
              static_cast<int>(kernels::Activation::relu) == PTXB_RELU &&
              static_cast<int>(kernels::Activation::gelu) == PTXB_GELU &&
              static_cast<int>(kernels::Activation::silu) == PTXB_SILU);
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
  // The device, the number of dimensions and the type lie in a row.
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
  // What lies behind the pointers, without the padding at the end.
  constexpr size_t kScalars =
      offsetof(ptxb_matmul, precise) + sizeof(ptxb_matmul::precise) - offsetof(ptxb_matmul, alpha);
  return device_ == device && p.size == scalars_.size &&
         std::memcmp(&p.alpha, &scalars_.alpha, kScalars) == 0 && a_.is_of(p.a) && b_.is_of(p.b) &&
         c_.is_of(p.c) && d_.is_of(p.d) && bias_.is_of(p.bias);
}

const kernels::MatmulArguments& LastProduct::read(const ptxb_matmul& p, uint64_t device, int gpu,
                                                  runtime::View workspace, runtime::Stream stream) {
  if (!is_of(p, device)) {
    device_ = 0;  // until all is read
    arguments_ = read_arguments(p, gpu);
    scalars_ = p;
    a_.set(p.a), b_.set(p.b), c_.set(p.c), d_.set(p.d), bias_.set(p.bias);
    device_ = device;
  }
  const auto move = [](runtime::View& memory, const ptxb_tensor* to) {
    if (to) memory.address = address_of(to->data) + to->byte_offset;
  };
  move(arguments_.a.memory, p.a), move(arguments_.b.memory, p.b), move(arguments_.c.memory, p.c);
  move(arguments_.d.memory, p.d), move(arguments_.bias, p.bias);
  arguments_.workspace = workspace, arguments_.stream = stream;
  return arguments_;
}

}  // namespace ptxbuilder::c
