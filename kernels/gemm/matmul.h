// Multiplies matrices of any shape in one call on the host. The call chooses a tile, compiles the kernel if
// it is not cached, copies operands that TMA cannot load in place, and launches.
//
//   Matmul matmul(*device);
//   MatmulArguments p;
//   p.m = 1000, p.n = 4096, p.k = 511;
//   p.a = {.memory = a, .type = DType::bf16};  // runtime::Buffers, or a View of any memory
//   p.b = {.memory = b, .type = DType::bf16};
//   p.d = {.memory = d, .type = DType::bf16};
//   if (size_t bytes = matmul.workspace_bytes(p)) p.workspace = workspace = runtime::Buffer(*device, bytes);
//   p.stream = stream;      // a CUstream; without it, the device's own stream
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

// A matrix in device memory, or one matrix for each batch. The elements of a row are contiguous.
struct DeviceMatrix {
  runtime::View memory = {};  // begins at the first element and ends where the accessible memory ends
  DType type = DType::bf16;
  int64_t stride = 0;        // elements from one row to the next; 0: rows without gaps
  int64_t batch_stride = 0;  // elements from one batch to the next; 0: batches without gaps
};

// Defines, for each batch, D[m,n] = activation(x[m,n]), rounded once, to nearest even, where x[m,n] = alpha
// rows[m] columns[n] sum_k A[m,k] B[n,k] + beta C[m,n] + bias[n]. An activation f has two other uses. In its
// backward pass, D is x f'(inputs). As a gate, D[m,n] is f(x[m,2n]) x[m,2n+1], so D has half as many columns;
// C is not allowed.
//
// The operands of product.def add further terms. Factors in memory scale the entire product, or its rows and
// columns. amax receives the largest |D| before rounding if it exceeds the number already in memory. d_scale
// multiplies D before it is rounded.
//
// Types: A and B are both bf16, both f16 or both tf32; or each is e4m3 or e5m2; or each is s8 or u8. D is
// bf16, f16, f32, e4m3 or e5m2. If A and B are integers, D may also be s32, and then nothing is applied to
// the sum. C, bias and inputs have D's type, or bf16 if D has 8 bits. Results are clamped to the range of an
// 8-bit D.
//
// Groups: group_ends holds an s32 for each of `batches` groups, and is read only on the device. The groups
// divide the m rows of A and D, and B has a matrix for each group. A group's rows begin where those of the
// previous group end, and are multiplied by the group's matrix. A group may be empty. Rows after the last
// group have a sum of 0. column_scales and bias have n elements for each group. A must be k-major. With
// groups_of_k, the groups divide k instead, and D has a product for each group. The parts of A and B after
// the last group are not read. Neither A nor B may be k-major, so both must have 16-bit types. Ends that are
// out of order, or beyond m or k, are replaced with the nearest valid ends. Instead of ends, group_counts may
// hold an s32 for each of `batches` groups. Each group then occupies m / batches rows, and only its first
// group_counts[g] rows are multiplied; the other rows of D are unchanged. Counts that are out of range are
// replaced with the nearest valid counts. Rows of D must begin at multiples of 16 bytes, and their length
// must be a multiple of 16 bytes.
//
// Matrices at arbitrary addresses: b_addresses holds an s64 for each group of rows, and is read only on the
// device. The matrix of group g begins at b_addresses[g], and `b` may be any matrix in device memory that has
// B's shape, stride and type. Addresses and the stride must be multiples of 16 bytes, and an address may
// occur several times. The address of a group without rows is not used. Every other operand that has elements
// for each group, such as bias or block scales, is a single tensor. Packed weights cannot have addresses. An
// overlap of D with these matrices is not detected.
//
// Gathered rows: a_rows holds an s32 for each of m rows, and is read only on the device. Row i of the product
// uses row a_rows[i] of A, which must be k-major and has rows_of_a rows. A row may be used any number of
// times. An index outside A, such as -1, stands for a row of zeros. CTAs load the rows in place, so A is not
// copied. Operands with an element for each row, such as row_scales and a_scales_1x128, are indexed by rows
// of the product. Batches and groups of k are not allowed.
//
// Scattered rows: d_rows holds an s32 for each of m rows. Row i of the product is stored as row d_rows[i] of
// D, which has rows_of_d rows. The rows of D must begin at multiples of 16 bytes, and their length must be a
// multiple of 16 bytes. A row whose index is outside D, such as -1, is dropped, and rows of D without an
// index are unchanged. If an index occurs twice, it is unspecified which of the two rows D receives, so an
// index should occur only once. To add up rows with bitwise reproducible results, add them after the product,
// in a fixed order. row_scales, such as the weights of a router, are indexed by rows of the product. Batches,
// groups of k and beta are not allowed.
//
// Added rows: add_to_rows takes the place of d_rows. Row i of the product is rounded to D's type and added to
// row add_to_rows[i] of D in memory, and the sum is rounded too. An index may occur any number of times. The
// sums start from the contents of D, such as zeros or another expert's output. Rows with the same index are
// added in an unspecified order, so results may differ in their last bits from run to run, most noticeably in
// bf16. D must be f32, f16 or bf16. The restrictions of d_rows apply, and amax is not allowed either.
//
// Block scales, for e4m3 and e5m2: A[m,k] is multiplied by a_scales_1x128[k/128][m], and B[n,k] by
// b_scales_1x128[k/128][n] or b_scales_128x128[n/128][k/128]. Each batch has its own scales, and B has
// separate scales for each group of rows. A and B must both have scales. The scales multiply the sum of every
// 128 values of k, and the result is added to f32 sums, regardless of fast_accumulation. If the lines of the
// scales do not begin at multiples of 16 bytes, the scales are copied like A.
//
// Packed weights: if `packed` is set, B is the output of pack_weights(), `packed_bytes(packed, n, k)` bytes
// that begin at a multiple of 16. With group_ends, B consists of one such output for each group, without
// gaps. A must be bf16 or f16, and weights are converted exactly to A's type. The sum over each scale group
// of k is multiplied by the scale of the group and added to f32 sums; if the form has no scale groups,
// column_scales hold the scales. b.type and b_k_major are ignored. Packed weights cannot be combined with
// batches, groups of k, a gate, modes, k = 0 or alpha = 0.
//
// Sparse matrices: with a_metadata, A has m rows of the k / 2 values that compress_2_4() stores; with
// b_metadata, B has n such rows. The sparse operand must be k-major, and k a multiple of 4. The metadata are
// the s32 words that compress_2_4() returns, for each batch or, in the case of B, for each group of rows.
// Only one of A and B may be sparse, and its type must be f16, bf16, e4m3, e5m2, s8 or u8. A sparse A cannot
// be combined with groups or gathered rows, a sparse B cannot be combined with a gate, and neither can be
// combined with block scales.
//
// Modes: if `modes` is set, it describes the layout of the tensors A, B and D; Contraction (contraction.h)
// derives it from named modes. m, n, k and batches must be the products of the modes' extents, and modes can
// be combined only with alpha. A tensor with a stride that TMA does not support is copied, like a matrix.
//
// Sizes: any size is allowed. If m, n or batches is 0, the call does nothing; if k is 0, the sum is 0. As in
// BLAS, A and B are not read if alpha = 0, and C is not read if beta = 0.
//
// Placement: strides and addresses may be any multiples of the element size. TMA needs addresses, row strides
// and batch strides that are multiples of 16 bytes (a stride matters only if there is more than one row or
// batch). If A or B violates this, it is first copied into the workspace. The copy reads and writes each byte
// once in the GPU's memory, and adds a launch of about 3 us. TMA stores whole units of 16 bytes, so threads
// of the kernel store any part of D that TMA cannot store. That part is all of D if D violates the
// requirements of TMA, or its last columns if rows do not end at a multiple of 16 bytes. C, and a D that
// threads store, are copied only if their batches are not m strides apart.
//
// Workspace: `workspace` must have at least workspace_bytes() bytes and begin at a multiple of 16; its
// contents do not matter. It must not be used for anything else until the product has finished, so products
// that may run at the same time need separate workspaces.
//
// Aliasing: D may be C itself (with the same address and strides). Any other overlap of D with another
// operand is an error, and so is any overlap of the workspace with an operand. A, B, C and bias may overlap
// one another.
struct MatmulArguments {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  int64_t rows_of_a = 0,
          rows_of_d =
              0;  // rows of A with a_rows, rows of D with d_rows or add_to_rows; otherwise both have m rows
  DeviceMatrix a, b;                        // A is m rows of k, and B is n rows of k
  bool a_k_major = true, b_k_major = true;  // false, for 16-bit types: A is k rows of m, or B is k rows of n
  DeviceMatrix d;                           // m rows of n
  float alpha = 1, beta = 0;
  Activation activation = Activation::none;
  ActivationUse use = ActivationUse::value;
  bool groups_of_k = false;
  PackedForm packed = {};               // the packing of B, if B is packed
  const ProductModes* modes = nullptr;  // only read during the call
  // The operands of product.def. An operand without memory is absent. Matrices have m rows of n elements. C
  // is read if beta is not 0; `inputs`, which may have no gaps between batches, are read with
  // ActivationUse::slope. Vectors have no gaps between elements.
#define PTXBUILDER_MATRIX(name, ...) DeviceMatrix name = {};
#define PTXBUILDER_VECTOR(name, ...) runtime::View name = {};
#include "kernels/gemm/product.def"
  // The arguments for the parameters of MatmulOptions::epilogue, in the same order.
  std::vector<runtime::Argument> epilogue = {};
  // If true, the tensor core adds up entire sums of e4m3 and e5m2 products, with about 14 bits. If false, the
  // sum of every 128 values of k is added to separate f32 sums.
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
  // Chooses the tile for a product's first call. Only one thread at a time calls this function.
  std::function<GemmTile(const GemmOperation&, const GemmSize&, int multiprocessors)> choose =
      kernels::choose;
  // Supplies the kernels; if not set, Matmul compiles them. Several threads may call this function at once.
  std::function<std::unique_ptr<runtime::LoadedKernel>(const GemmOperation&, const GemmTile&)> load = nullptr;
};

// Multiplies matrices, and caches the kernels and the chosen tiles. The first call for a product (or the
// first workspace_bytes() for it) takes milliseconds to choose a tile, and about 0.2 s to compile the kernel
// if no cache holds it. Later calls take microseconds, allocate no device memory and do not block, so they
// may be captured. A kernel may spill registers if it has a user's epilogue. The object must not outlive its
// device. Any thread may call it at any time, and several threads may call it at once.
class Matmul {
 public:
  // Throws an Error if the options name a ptxas that does not exist.
  explicit Matmul(runtime::Device& device, MatmulOptions options = {});
  ~Matmul();
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  // Queues one product on the device. Throws an Error that names the operand, the rule and the value if types
  // or layouts cannot be combined, if a size or stride exceeds what a tensor map can hold (2^31 - 4096
  // elements, 2^40 bytes), if a matrix exceeds its memory or is not aligned to its elements, if D overlaps an
  // operand that is read, or if the workspace is too small.
  void operator()(const MatmulArguments& arguments, Where where = Where::here());

  // Returns the size of the workspace that the product needs, in bytes. If TMA can load the operands in
  // place, the size is usually 0, except for products with few tiles and a long k. Throws an Error if
  // operator() would.
  size_t workspace_bytes(const MatmulArguments& arguments, Where where = Where::here());

  // Returns the tile that the product currently uses, which was chosen at its first call or found by tune().
  // Throws an Error if operator() would, and also if the product needs no tile because m, n or batches is 0.
  GemmTile tile(const MatmulArguments& arguments, Where where = Where::here());

  // Finds the fastest of the model's first twelve tiles for the product on this device, and uses this tile in
  // all later calls. If the user's tile file lists the product, its tile is used. Otherwise the tiles are
  // measured, which takes about 50 ms, or seconds if kernels have to be compiled. A and B may hold anything,
  // but their contents affect the power and therefore the time. C is read, but D is not written. The host
  // waits for the stream. Meanwhile, copies of A, B and D occupy device memory: up to twice the size of the
  // L2 cache, or the size of the product's operands if they are larger. Calls with the same tile return
  // identical results, but a tile that divides k adds in a different order than other tiles. Throws an Error
  // if operator() would, if the device is not a GPU, if the stream is being captured, or if the options have
  // an epilogue.
  void tune(const MatmulArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
