// The matrix product of any shape, as one call on the host: the call chooses a tile, compiles the kernel
// once, brings operands into a form that TMA can load, and launches.
//
//   Matmul matmul(*device);
//   MatmulArguments p;
//   p.m = 1000, p.n = 4096, p.k = 511;
//   p.a = {.memory = a, .type = DType::bf16};  // runtime::Buffers, or a View of anybody's memory
//   p.b = {.memory = b, .type = DType::bf16};
//   p.d = {.memory = d, .type = DType::bf16};
//   if (size_t bytes = matmul.workspace_bytes(p)) p.workspace = workspace = runtime::Buffer(*device, bytes);
//   p.stream = stream;      // a CUstream; without it, the device's own
//   matmul(p);              // queued
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/call/options.h"
#include "kernels/gemm/choice.h"
#include "kernels/gemm/epilogue.h"
#include "kernels/gemm/product_modes.h"

namespace ptxbuilder::kernels {

// A matrix, or one for each batch, in device memory: rows of contiguous elements.
struct DeviceMatrix {
  runtime::View memory = {};  // from the first element to the end of the accessible memory
  DType type = DType::bf16;
  int64_t stride = 0;        // elements from one row to the next; 0: no gaps
  int64_t batch_stride = 0;  // elements from one batch to the next; 0: no gaps
};

// D[m,n] = activation(x[m,n]) for each batch, rounded once, to nearest even, with x[m,n] = alpha rows[m]
// columns[n] sum_k A[m,k] B[n,k] + beta C[m,n] + bias[n]. An activation f may also be used in its backward
// pass, x f'(inputs), or as a gate: D[m,n] = f(x[m,2n]) x[m,2n+1], where D has half as many columns, and C is
// not added.
//
// The operands of product.def add more terms: factors in memory, for the whole product or for rows and
// columns; amax, the greatest |D| before rounding, which replaces a smaller number in memory; and d_scale,
// which multiplies D before it is rounded.
//
// Types: A and B are both bf16, both f16 or both tf32, or each is e4m3 or e5m2, or each is s8 or u8. D is
// bf16, f16, f32, e4m3 or e5m2. With integers D may also be s32, and then nothing is applied to the sum. C,
// bias and inputs have D's type, or bf16 if D has 8 bits. A D of 8 bits is clamped.
//
// Groups: with group_ends, an s32 for each of `batches` groups, which only the device reads, A and D have m
// rows in total, and B has a matrix for each group. The rows of a group, which begin where those of the
// previous group end, are multiplied by the group's matrix. A group may have no rows. Rows after the last
// group have a sum of 0. column_scales and bias have n elements for each group. With groups_of_k, the groups
// divide k instead, and D has a product for each group; A and B after the last group are not read. With
// groups of rows, A must be k-major; with groups of k, neither A nor B may be, which only 16-bit types allow.
// Ends that are out of order, or beyond m or k, are replaced with the nearest valid ones. Alternatively, with
// group_counts, an s32 for each of `batches` groups, a group has m / batches rows of memory, and its first
// group_counts[g] rows are multiplied; counts that are out of range are replaced with the nearest valid ones.
// Other rows of D are unchanged. Rows of D must begin at multiples of 16 bytes, and their length must be a
// multiple of 16 bytes.
//
// Matrices at any address: with b_addresses, an s64 for each group of rows, which only the device reads, the
// matrix of group g begins at b_addresses[g], and `b` is any matrix in device memory that has B's shape,
// stride and type. Addresses and the stride must be multiples of 16 bytes, and an address may occur several
// times. The address of a group without rows is not used. Other operands that belong to groups, such as bias
// and block scales, are one tensor each. Packed weights cannot have addresses. An overlap of D with these
// matrices is not detected.
//
// Gathered rows: with a_rows, an s32 for each of m rows, which only the device reads, row i of the product
// uses row a_rows[i] of A, which is k-major and has rows_of_a rows. A row may be used any number of times. An
// index that A does not have, such as -1, means a row of zeros. Each CTA loads the rows in place, so no copy
// is made. Operands of rows, such as row_scales and a_scales_1x128, belong to the product's rows. Batches and
// groups of k are not allowed.
//
// Scattered rows: with d_rows, an s32 for each of m rows, row i of the product becomes row d_rows[i] of D,
// which has rows_of_d rows. These must begin at multiples of 16 bytes, and their length must be a multiple of
// 16 bytes. A row whose index D does not have, such as -1, is dropped, and a row of D that no index names is
// unchanged. If two rows of the product have the same index, it is unspecified which one remains, so an index
// should occur only once. A caller that must add up such rows with bitwise reproducible results should do so
// after the product, in a fixed order. row_scales belong to the product's rows, like a router's weights.
// Batches, groups of k and beta are not allowed.
//
// Added rows: with add_to_rows instead of d_rows, row i of the product is rounded to D's type and added to
// row add_to_rows[i] of D in memory, and the sum is rounded too. An index may occur any number of times. The
// sums begin with the contents of D, such as zeros or another expert's output. The order in which rows with
// the same index are added is unspecified, so results may differ in their last bits from run to run, most of
// all in bf16. D is f32, f16 or bf16. amax is not allowed either.
//
// Block scales, for e4m3 and e5m2: A[m,k] is multiplied by a_scales_1x128[k/128][m], and B[n,k] by
// b_scales_1x128[k/128][n] or b_scales_128x128[n/128][k/128]. Each batch, or for B each group of rows, has
// its own scales. A and B must both have scales. The scales multiply the sum of every 128 values of k, which
// is then added to f32 sums whatever the value of fast_accumulation. Scales whose lines are not at multiples
// of 16 bytes are copied like A.
//
// Packed weights: with `packed`, B is the `packed_bytes(packed, n, k)` bytes that pack_weights() made, at a
// multiple of 16; with group_ends it is that many bytes for each group, one group after the other. A is bf16
// or f16, and weights are converted exactly to A's type. The sum of a group of k is multiplied by the group's
// scale, and added to f32 sums; without scales of groups, the scales are column_scales. b.type and b_k_major
// are ignored. Packed weights cannot be combined with batches, groups of k, a gate, modes, k = 0 or alpha =
// 0.
//
// Sparse matrices: with a_metadata, A has m rows of the k / 2 values that compress_2_4() stores; with
// b_metadata, B has n such rows. The sparse operand is k-major, and k is a multiple of 4. The metadata comes
// from compress_2_4(): s32 words for each batch or, for B, each group of rows. Only one of A and B may be
// sparse, and its type is f16, bf16, e4m3, e5m2, s8 or u8. A sparse A cannot be combined with groups or
// gathered rows, a sparse B cannot be combined with a gate, and neither can be combined with block scales.
//
// Modes: with `modes`, A, B and D are tensors with the layout that the modes describe; contraction.h finds
// the modes of a contraction by name. m, n, k and batches are the products of the modes' extents, and modes
// can be combined only with alpha. A tensor with a stride that TMA does not support is copied, like a matrix.
//
// Sizes: any size is allowed. If m, n or batches is 0, nothing is done; with k = 0 the sum is 0. As in BLAS,
// A and B are not read if alpha = 0, and C is not read if beta = 0.
//
// Placement: strides and addresses may be any multiples of the element's size. TMA needs addresses, row
// strides and batch strides that are multiples of 16 bytes (a stride matters only if there is more than one
// row or batch). An A or B that is placed otherwise is first copied into the workspace: this reads and writes
// its bytes once in the GPU's memory, and adds a launch of about 3 us. TMA stores whole units, so threads of
// the kernel store the part of D that TMA cannot store: all of D, or the last columns if rows do not end at a
// multiple of 16 bytes. C, and a D that threads store, are copied only if their batches are not m strides
// apart.
//
// Workspace: it has as many bytes as workspace_bytes() returns, begins at a multiple of 16, and may hold
// anything. It must not be used for anything else until the product is done, so products that may run at the
// same time each need their own.
//
// Aliasing: D may be C itself (with the same address and strides). Any other overlap of D is an error, and so
// is any overlap of the workspace; A, B, C and bias may overlap one another.
struct MatmulArguments {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  int64_t rows_of_a = 0, rows_of_d = 0;     // with a_rows or d_rows; otherwise A and D have m rows
  DeviceMatrix a, b;                        // A as m rows of k; B as n rows of k
  bool a_k_major = true, b_k_major = true;  // false, for 16-bit types: A as k rows of m; B as k rows of n
  DeviceMatrix d;                           // m rows of n
  float alpha = 1, beta = 0;
  Activation activation = Activation::none;
  ActivationUse use = ActivationUse::value;
  bool groups_of_k = false;
  PackedForm packed = {};               // how B is packed, if it is
  const ProductModes* modes = nullptr;  // read during the call
  // The operands of product.def. Matrices have m rows of n elements: C is read with beta; inputs are read
  // with ActivationUse::slope, and have no gaps between their batches. Vectors have no gaps between their
  // elements. An operand without memory is absent.
#define PTXBUILDER_MATRIX(name, ...) DeviceMatrix name = {};
#define PTXBUILDER_VECTOR(name, ...) runtime::View name = {};
#include "kernels/gemm/product.def"
  // The arguments for the parameters of MatmulOptions::epilogue, in their order.
  std::vector<runtime::Argument> epilogue = {};
  // If true, the tensor core adds up the entire sum of e4m3 and e5m2, with about 14 bits.
  bool fast_accumulation = true;
  runtime::View workspace = {};
  runtime::Stream stream = {};  // default: the device's own stream

  // Returns the memory of an operand.
  runtime::View& memory_of(ProductOperand which) {
    switch (which) {
#define PTXBUILDER_MATRIX(name, ...) \
  case ProductOperand::name:         \
    return name.memory;
#define PTXBUILDER_VECTOR(name, ...) \
  case ProductOperand::name:         \
    return name;
#include "kernels/gemm/product.def"
    }
    __builtin_unreachable();
  }
  const runtime::View& memory_of(ProductOperand which) const {
    return const_cast<MatmulArguments*>(this)->memory_of(which);
  }
};

// The options of a Matmul, which apply to all of its calls.
struct MatmulOptions : CallOptions {
  UserEpilogue epilogue = {};  // applied in all products
  // Chooses the tile for a product's first call. Only one thread at a time calls it.
  std::function<GemmTile(const GemmOperation&, const GemmSize&, int multiprocessors)> choose =
      kernels::choose;
  // Supplies the kernels; if not set, Matmul compiles them. It may be called for several kernels at once.
  std::function<std::unique_ptr<runtime::LoadedKernel>(const GemmOperation&, const GemmTile&)> load = nullptr;
};

// Multiplies matrices, and stores the kernels and the choices for each product. The first call for a product,
// or of workspace_bytes() for it, takes milliseconds to choose a tile, and about 0.2 s to compile the kernel
// if no cache holds it. Later calls take microseconds, allocate no device memory and wait for nothing, so
// they may be captured. A kernel that spills registers because of an epilogue is accepted anyway. The object
// must not outlive its device. Any thread may call it at any time, and several threads may do so at once.
class Matmul {
 public:
  // Throws Error if the options name a ptxas that does not exist.
  explicit Matmul(runtime::Device& device, MatmulOptions options = {});
  ~Matmul();
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  // Queues one product on the device. Throws Error that names the operand, the rule and the value for types
  // and layouts that cannot be combined, sizes and strides beyond what a tensor map holds (2^31 - 4096
  // elements, 2^40 bytes), a matrix that exceeds its memory or is not aligned to its elements, a D that
  // overlaps what is read, and a workspace that is too small.
  void operator()(const MatmulArguments& arguments, Where where = Where::here());

  // Returns the bytes of workspace that the product needs. This is 0 for most products whose operands TMA can
  // load in place, unless they have few tiles and a long k. Throws Error like the product.
  size_t workspace_bytes(const MatmulArguments& arguments, Where where = Where::here());

  // Returns the tile that the product currently uses: the chosen one, or the one that tune() found. Throws
  // Error like the product, and also if there is nothing to do (m, n or batches is 0), so that no tile is
  // needed.
  GemmTile tile(const MatmulArguments& arguments, Where where = Where::here());

  // Finds the fastest of the model's first twelve tiles for the product, on this device, and uses it from
  // then on. The tile is the one in the user's file, or else the result of measuring for about 50 ms, or for
  // seconds if kernels have to be compiled. A and B may hold anything, but their contents affect the power
  // and therefore the time; D is not written, and C is read. The host waits for the stream. Meanwhile, copies
  // of A, B and D take device memory, up to twice the size of the L2 or once the size of the product's
  // operands. Results do not vary between calls, but a tile that divides k adds up in a different order than
  // other tiles. Throws Error like the product, and also on a device that is not a GPU, for a stream that is
  // being captured, and with a user's epilogue.
  void tune(const MatmulArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
