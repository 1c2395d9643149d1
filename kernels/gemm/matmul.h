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
  int64_t stride = 0;        // elements from one row to the next; 0: no gap
  int64_t batch_stride = 0;  // elements from one batch to the next; 0: no gap
};

// D[m,n] = activation(x[m,n]) for each batch, rounded once, to nearest even, with x[m,n] = alpha rows[m]
// columns[n] sum_k A[m,k] B[n,k] + beta C[m,n] + bias[n]. An activation f may also be used in the backward
// pass, x f'(inputs), or as a gate: D[m,n] = f(x[m,2n]) x[m,2n+1], which has half as many columns, and to
// which C is not added.
//
// The operands of product.def add more terms: factors in memory, for the whole product or for rows and
// columns; the greatest |D|, unrounded, which replaces a smaller number in memory; and d_scale, which
// multiplies D before it is rounded.
//
// Types: A and B are bf16, f16 or tf32, both e4m3 or e5m2, or both s8 or u8, and D is bf16, f16, f32, e4m3 or
// e5m2; with integers also s32, and then nothing is applied to the sum. C, bias and inputs have D's type, or
// bf16 if D has 8 bits. D of 8 bits is clamped.
//
// Groups: with group_ends, an s32 for each of `batches` groups, which only the device reads, A and D have m
// rows in all and B has a matrix for each group: the rows of a group, which begin where those of the previous
// group end, are multiplied by the group's matrix. A group may have no rows. Rows after the last group have a
// sum of 0. column_scales and bias have n elements for each group. With groups_of_k, the groups divide k
// instead, and D has a product for each group; A and B after the last group are not read. With groups of
// rows, A is k_major; with groups of k, neither A nor B is, which only 16-bit types allow. Ends that are out
// of order, or beyond m or k, are replaced by the nearest valid ones. Alternatively, with group_counts, an
// s32 for each of `batches` groups, a group has m / batches rows of memory, and the first group_counts[g] are
// multiplied (numbers out of range are replaced by the nearest valid ones). Other rows of D are unchanged;
// rows of D begin at multiples of 16 bytes, and have a multiple of 16 bytes.
//
// Matrices anywhere: with b_addresses, an s64 for each group of rows, which only the device reads, the matrix
// of group g begins at b_addresses[g], and `b` is any matrix of B's shape, stride and type in the device's
// memory. Addresses and the stride are multiples of 16 bytes, and an address may come several times. That of
// a group without rows is not used. What else belongs to groups, as bias and block scales, is in one tensor.
// Weights that are packed cannot have addresses. An overlap of D with those matrices is not checked.
//
// Gathered rows: with a_rows, an s32 for each of m rows, which only the device reads, row i of the product
// uses row a_rows[i] of A, which has rows_of_a rows, k-major. A row may be used any number of times. An index
// that A does not have, such as -1, means a row of zeros. Each CTA loads the rows from where they are, so
// that no copy is made. Operands of rows, such as row_scales and a_scales_1x128, belong to the product's
// rows. Batches and groups of k are not allowed.
//
// Scattered rows: with d_rows, an s32 for each of m rows, row i of the product becomes row d_rows[i] of D,
// which has rows_of_d rows that begin at multiples of 16 bytes, and each of them has a multiple of 16 bytes.
// A row whose index D does not have, such as -1, is dropped, and a row of D that no index names is unchanged.
// If two rows of the product have the same index, it is unspecified which one remains, so each row is best
// named once: a caller that must add such rows up, bitwise reproducibly, does so after the product, in a
// fixed order. row_scales belong to the product's rows, like a router's weights. Batches, groups of k and
// beta are not allowed.
//
// Added rows: with add_to_rows instead of d_rows, row i of the product is rounded to D's type and added to
// row add_to_rows[i] of D, in memory, and the sum is rounded too. A row may be named any number of times.
// The sums begin with the contents of D: zeros, or another expert's output. The order in which the rows of
// one index are added is unspecified, so that results may differ in their last bits from run to run, most in
// bf16. D is f32, f16 or bf16. amax is not allowed either.
//
// Block scales, for e4m3 and e5m2: A[m,k] is multiplied by a_scales_1x128[k/128][m], and B[n,k] by
// b_scales_1x128[k/128][n] or b_scales_128x128[n/128][k/128], for each batch, or for B each group of rows. A
// and B both have scales. They multiply the sum of every 128 values of k, which is added to sums in f32
// whatever the value of fast_accumulation. Scales whose lines are not at multiples of 16 bytes are copied
// like A.
//
// Packed weights: with `packed`, B is `packed_bytes(packed, n, k)` bytes that pack_weights() made, at a
// multiple of 16, or with group_ends as many for each group, one after the other. A is bf16 or f16, into
// whose type weights are converted exactly. The sum of a group of k is multiplied by its scale, and added to
// sums of f32. b.type and b_k_major do not matter. Without such scales, those of columns are column_scales.
// They do not go with batches, groups of k, a gate or modes, nor with k = 0 or alpha = 0.
//
// Sparse matrices: with a_metadata, A has m rows of the k / 2 values that compress_2_4() stores, and with
// b_metadata B has n rows of them, k-major; k is a multiple of 4. Metadata comes from compress_2_4(), an s32
// for each word, for each batch or, for B, each group of rows. One of A and B may be sparse: f16, bf16, e4m3,
// e5m2, s8 or u8. A sparse A has no groups and no gathered rows, and a sparse B no gate; neither has block
// scales.
//
// Modes: if these are given, A, B and D are tensors with the layout that the modes describe; `contraction.h`
// finds modes for a contraction by name. m, n, k and batches are the products of the modes' extents, and only
// alpha can be combined with modes. A tensor with a stride that TMA does not support is copied, like a
// matrix.
//
// Sizes: any size is allowed. If m, n or batches is 0, nothing is done; with k = 0 the sum is 0. As in BLAS,
// A and B are not read if alpha = 0, and C is not read if beta = 0.
//
// Placement: strides and addresses may be any multiples of the element's size. TMA needs addresses, row
// strides and batch strides that are multiples of 16 bytes (a stride matters only if there is more than one
// row or batch): an A or B that is placed otherwise is first copied into the workspace, which reads and
// writes its bytes once in the GPU's memory, and adds a launch of some 3 us. TMA stores whole units, so
// threads of the kernel store the part of D that TMA cannot: all of it, or the last columns if rows do not
// end at a multiple. C, and such a D, are copied only if their batches are not m strides apart.
//
// Workspace: it has as many bytes as workspace_bytes() returns, at a multiple of 16, with any contents. The
// product owns it until the product is done: products that may run at once each need their own.
//
// Aliasing: D may be C itself (same address and strides). Any other overlap of D is an error, and so is any
// overlap of the workspace; A, B, C and bias may overlap one another.
struct MatmulArguments {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  int64_t rows_of_a = 0, rows_of_d = 0;     // with indices of rows; otherwise A and D have m rows
  DeviceMatrix a, b;                        // A as m rows of k, B as n rows of k,
  bool a_k_major = true, b_k_major = true;  // or, of 16-bit types: A as k rows of m, B as k rows of n
  DeviceMatrix d;                           // m rows of n
  float alpha = 1, beta = 0;
  Activation activation = Activation::none;
  ActivationUse use = ActivationUse::value;
  bool groups_of_k = false;
  PackedForm packed = {};               // how B is packed, if it is
  const ProductModes* modes = nullptr;  // read during the call
  // The operands of product.def. Matrices have m rows of n: C is read with a beta, and inputs, whose batches
  // have no gaps between them, with ActivationUse::slope. Vectors have no gaps between their elements, and
  // are absent if they have no memory.
#define PTXBUILDER_MATRIX(name, ...) DeviceMatrix name = {};
#define PTXBUILDER_VECTOR(name, ...) runtime::View name = {};
#include "kernels/gemm/product.def"
  // These are the arguments for the parameters of MatmulOptions::epilogue, in their order.
  std::vector<runtime::Argument> epilogue = {};
  // The tensor core adds up the whole sum of e4m3 and e5m2, and keeps about 14 bits of it.
  bool fast_accumulation = true;
  runtime::View workspace = {};
  runtime::Stream stream = {};  // the device's own by default

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
  // Chooses the tile for a product's first call. It is called by one thread at a time.
  std::function<GemmTile(const GemmOperation&, const GemmSize&, int multiprocessors)> choose =
      kernels::choose;
  // Supplies the kernels; if it is not set, they are compiled here. It may be called for several kernels at
  // once.
  std::function<std::unique_ptr<runtime::LoadedKernel>(const GemmOperation&, const GemmTile&)> load = nullptr;
};

// Keeps kernels and the choices for each product. The first call of a product, or of workspace_bytes() for
// it, takes milliseconds to choose, and some 0.2 s if its kernel is in no cache; later calls take
// microseconds, request no memory from the device, and wait for nothing, so that they may be captured. A
// kernel that spills registers because of an epilogue is accepted anyway. It must not outlive its device. Any
// thread may call it at any time, and several threads at once.
class Matmul {
 public:
  // Throws Error if the options name a ptxas that does not exist.
  explicit Matmul(runtime::Device& device, MatmulOptions options = {});
  ~Matmul();
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  // Queues one product on the device. Throws Error that names the operand, the rule and the value: types and
  // storage that cannot be combined, sizes and strides beyond what a tensor map holds (2^31 - 4096 elements,
  // 2^40 bytes), a matrix that exceeds its memory or is not aligned to its elements, a D that overlaps what
  // is read, a workspace that is too small.
  void operator()(const MatmulArguments& arguments, Where where = Where::here());

  // Returns the bytes of workspace that the product needs; 0 for most products whose operands TMA can load in
  // place, unless they have few tiles and a long k. Throws Error like the product.
  size_t workspace_bytes(const MatmulArguments& arguments, Where where = Where::here());

  // Returns the tile that the product now uses: the chosen one, or the one that tune() found. Throws Error
  // like the product, and if there is nothing to do (m, n or batches of 0), which needs no tile.
  GemmTile tile(const MatmulArguments& arguments, Where where = Where::here());

  // Finds the fastest of the model's first twelve tiles for the product, on this device, and uses it from now
  // on: the one in the user's file, or else the result of measuring for some 50 ms, or for seconds if kernels
  // are in no cache. A and B may hold anything, but their contents affect the power and so the time; D is not
  // touched, and C is read. The host waits for the stream, and copies of A, B and D take device memory
  // meanwhile, up to twice the L2 or once the product's operands. Results do not vary between calls; a tile
  // that divides k adds up in another order than other tiles. Throws Error like the product, on a device that
  // is not a GPU, for a stream that is being captured, and with an epilogue of the user's own.
  void tune(const MatmulArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
