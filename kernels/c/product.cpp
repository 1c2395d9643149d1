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
  bool along_columns() const { return columns <= 1 || rows == 0 || column_stride == 1; }
  bool along_rows() const { return rows <= 1 || columns == 0 || row_stride == 1; }

  kernels::DeviceMatrix as_lines(bool of_rows) const {
    const int64_t apart = of_rows ? row_stride : column_stride, lines = of_rows ? rows : columns,
                  length = of_rows ? columns : rows;
    if (lines > 1 && apart < length)
      throw Error(fmt::format("{}: {} are {} elements apart, but have {}: make it contiguous", name,
                              of_rows ? "rows" : "columns", apart, length));
    if (batches > 1 && batch_stride < 1 && memory().bytes > 0)
      throw Error(
          fmt::format("{}: batches are {} elements apart, all in one place: give each memory of its "
                      "own, or make the batches rows of one product",
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

// A product of a program that was built with the header before `inputs` and what follows them.
ptxb_matmul of_today(const ptxb_matmul& p) {
  constexpr size_t kBefore = offsetof(ptxb_matmul, inputs);
  static_assert(kBefore == 72);
  if (p.size != kBefore)
    throw Error(fmt::format(
        "a ptxb_matmul of {} bytes, but this library's has {}, or {} of a header before `inputs`: "
        "set its size by PTXB_MATMUL_INIT, and build with the header of version {}",
        p.size, sizeof(ptxb_matmul), kBefore, ptxb_version()));
  ptxb_matmul q = PTXB_MATMUL_INIT;
  std::memcpy(&q, &p, kBefore);
  q.size = sizeof q;
  return q;
}

// Tensors that most products have not, and where the library's own arguments have them.
constexpr size_t kMore = 6;
constexpr std::array<const ptxb_tensor * ptxb_matmul::*, kMore> kMoreOfC = {
    &ptxb_matmul::inputs,        &ptxb_matmul::alpha_in_memory, &ptxb_matmul::row_scales,
    &ptxb_matmul::column_scales, &ptxb_matmul::d_scale,         &ptxb_matmul::amax};
std::array<runtime::View*, kMore> more_of(kernels::MatmulArguments& q) {
  return {&q.inputs.memory, &q.alpha_in_memory, &q.row_scales, &q.column_scales, &q.d_scale, &q.amax};
}
inline bool has_more(const ptxb_matmul& p) {
  return p.inputs || p.alpha_in_memory || p.row_scales || p.column_scales || p.d_scale || p.amax ||
         p.use != 0;
}

inline void move(runtime::View& memory, const ptxb_tensor* to) {
  if (to) memory.address = address_of(to->data) + to->byte_offset;
}

// What `use` asks for goes together with an activation and inputs.
kernels::ActivationUse use_of(const ptxb_matmul& p) {
  if (p.use < PTXB_VALUE || p.use > PTXB_GATE) throw Error(fmt::format("use {} is none of ptxb_use", p.use));
  if (p.use != PTXB_VALUE && p.activation == PTXB_NONE)
    throw Error(fmt::format("use is {}, but activation is PTXB_NONE: name the one that it is of",
                            p.use == PTXB_GATE ? "PTXB_GATE" : "PTXB_SLOPE"));
  if (p.use == PTXB_SLOPE && !p.inputs) throw Error("use is PTXB_SLOPE, but inputs is NULL");
  if (p.use != PTXB_SLOPE && p.inputs)
    throw Error("inputs is given, but use is not PTXB_SLOPE, which alone reads it");
  return static_cast<kernels::ActivationUse>(p.use);
}

void read_factors(const ptxb_matmul& p, int gpu, kernels::MatmulArguments& q) {
  q.alpha_in_memory = one_float("alpha_in_memory", p.alpha_in_memory, gpu);
  q.row_scales = floats_of_lines("row_scales", p.row_scales, q.m, 1, q.batches, gpu);
  q.column_scales = floats_of_lines("column_scales", p.column_scales, 1, q.n, q.batches, gpu);
  q.d_scale = one_float("d_scale", p.d_scale, gpu);
  q.amax = one_float("amax", p.amax, gpu);
}

kernels::MatmulArguments read_arguments(const ptxb_matmul& p, int gpu) {
  const Matrix a("A", p.a, gpu), b("B", p.b, gpu), d("D", p.d, gpu);
  if (p.activation < 0 || static_cast<size_t>(p.activation) >= kernels::activation_words.size())
    throw Error(fmt::format("activation {} is none of ptxb_activation", p.activation));
  kernels::MatmulArguments q;
  q.use = use_of(p);
  const bool gates = q.use == kernels::ActivationUse::gate;
  q.m = d.rows, q.n = gates ? b.columns : d.columns, q.k = a.columns, q.batches = d.batches;
  if (gates && d.columns != q.n / 2)
    throw Error(fmt::format("D: {} columns, but a gate of B's {} has {}", d.columns, q.n, q.n / 2));
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
    const DType type = size_of(d.type) == 1 ? DType::bf16 : d.type;
    if (bias.type != type)
      throw Error(fmt::format("bias: of {}, and D of {}; {}", name(bias.type), name(d.type),
                              type == d.type ? "they must be of one type" : "beside 8 bits it is bf16"));
    q.bias = bias.memory();
  }
  if (p.inputs) {
    const Matrix inputs("inputs", p.inputs, gpu);
    expect(inputs, q.m, q.n, "[m,n]");
    q.inputs = output(inputs);
  }
  for (kernels::DeviceMatrix* x : {&q.a, &q.b})
    if (x->type == DType::f32) {
      if (!p.tf32) throw Error("A and B of f32 are cut to tf32 by the tensor cores: set `tf32` to allow it");
      x->type = DType::tf32;
    }
  q.alpha = p.alpha, q.beta = p.beta;
  q.activation = static_cast<kernels::Activation>(p.activation);
  q.fast_accumulation = !p.precise;
  if (has_more(p)) read_factors(p, gpu, q);
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
  // What lies between the pointers, without the padding behind.
  constexpr size_t kScalars =
      offsetof(ptxb_matmul, precise) + sizeof(ptxb_matmul::precise) - offsetof(ptxb_matmul, alpha);
  return device_ == device && p.size == size_ && std::memcmp(&p.alpha, &scalars_.alpha, kScalars) == 0 &&
         a_.is_of(p.a) && b_.is_of(p.b) && c_.is_of(p.c) && d_.is_of(p.d) && bias_.is_of(p.bias) &&
         (has_more_ ? has_same_more(p) : size_ < sizeof p || !has_more(p));
}

bool LastProduct::has_same_more(const ptxb_matmul& p) const {
  bool same = p.use == scalars_.use;
  for (size_t i = 0; i < kMore; ++i) same = same && more_[i].is_of(p.*kMoreOfC[i]);
  return same;
}

void LastProduct::read_anew(const ptxb_matmul& given, uint64_t device, int gpu) {
  device_ = 0;  // until all is read
  const ptxb_matmul p = given.size == sizeof p ? given : of_today(given);
  arguments_ = read_arguments(p, gpu);
  size_ = given.size;
  scalars_ = p;
  a_.set(p.a), b_.set(p.b), c_.set(p.c), d_.set(p.d), bias_.set(p.bias);
  has_more_ = has_more(p);
  for (size_t i = 0; i < kMore; ++i) more_[i].set(p.*kMoreOfC[i]);
  device_ = device;
}

const kernels::MatmulArguments& LastProduct::read(const ptxb_matmul& p, uint64_t device, int gpu,
                                                  runtime::View workspace, runtime::Stream stream) {
  if (!is_of(p, device)) read_anew(p, device, gpu);
  move(arguments_.a.memory, p.a), move(arguments_.b.memory, p.b), move(arguments_.c.memory, p.c);
  move(arguments_.d.memory, p.d), move(arguments_.bias, p.bias);
  if (p.bias && arguments_.bias.address == 0 && arguments_.bias.bytes > 0) refuse_null("bias: data");
  if (has_more_) move_more(p);
  arguments_.workspace = workspace, arguments_.stream = stream;
  return arguments_;
}

void LastProduct::move_more(const ptxb_matmul& p) {
  const std::array<runtime::View*, kMore> more = more_of(arguments_);
  // Without memory it would be one that is not there.
  constexpr std::array kData = {"inputs: data",        "alpha_in_memory: data", "row_scales: data",
                                "column_scales: data", "d_scale: data",         "amax: data"};
  for (size_t i = 0; i < kMore; ++i) {
    move(*more[i], p.*kMoreOfC[i]);
    if (p.*kMoreOfC[i] && more[i]->address == 0 && more[i]->bytes > 0) refuse_null(kData[i]);
  }
}

}  // namespace ptxbuilder::c
