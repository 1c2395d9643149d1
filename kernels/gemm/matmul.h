// The matrix product of any shape, as one call on the host: it chooses a tile, compiles the kernel once,
// brings operands into a form that TMA takes, and launches.
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

// A matrix, or one for each batch, in device memory: rows of elements side by side.
struct DeviceMatrix {
  runtime::View memory = {};  // from the first element to the end of what may be touched
  DType type = DType::bf16;
  int64_t stride = 0;        // elements from a row to the next; 0: no gap
  int64_t batch_stride = 0;  // elements from a batch to the next; 0: no gap
};

// D[m,n] = activation(x[m,n]) for each batch, rounded once, to nearest even, of
// x[m,n] = alpha rows[m] columns[n] sum_k A[m,k] B[n,k] + beta C[m,n] + bias[n]. Of an activation f it may
// also be the way back, x f'(inputs), or a gate: D[m,n] = f(x[m,2n]) x[m,2n+1], of half as many columns, to
// which no C is added.
//
// Operands of product.def do more: factors in memory, of all or of rows and columns; the greatest |D|,
// unrounded, which replaces a smaller number that is there; and d_scale, by which D is multiplied before it
// is rounded.
//
// Types: A and B of bf16, f16 or tf32, both of e4m3 or e5m2, or both of s8 or u8, into D of bf16, f16, f32,
// e4m3 or e5m2; integers also into s32, with nothing after the sum. C, bias and inputs are of D's type, or
// where that has 8 bits, of bf16. D of 8 bits is clamped.
//
// Groups: with group_ends, an s32 for each of `batches` groups, which the device alone reads, A and D have m
// rows in all and B a matrix for each group: a group's rows, which begin where those of the one before it
// end, are multiplied by its matrix. A group may have no rows. Those after the last group have a sum of 0.
// column_scales and bias are n for each group. With groups_of_k, the groups divide k instead, and D has a
// product for each; what is after the last of them is not read. A of rows in groups is k_major, and A and B
// of k in groups are not, which 16-bit types alone may be. Ends that are not in order, or beyond m or k,
// count as the nearest that are.
//
// Gathered rows: with a_rows, an s32 for each of m rows, which the device alone reads, row i of the product
// is of row a_rows[i] of A, which has rows_of_a of them, k-major. A row may be taken any number of times. One
// that A does not have, as -1, is a row of zeros. Each CTA loads the rows where they lie, so that no copy is
// made. Not with batches, groups of k and block scales.
//
// Scattered rows: with d_rows, an s32 for each of m rows, row i of the product becomes row d_rows[i] of D,
// which has rows_of_d of them at multiples of 16 bytes, and a multiple of 16 bytes in each. A row that D does
// not have, as -1, is dropped, and a row of D that nobody names stays as it is. Which of two products of one
// row stays is not certain, so that rows are best named once: who sums them up, does so after the product,
// and in an order. row_scales are of the product's rows, as a router's weights are. Not with batches, groups
// of k and beta.
//
// Block scales, of e4m3 and e5m2: A[m,k] counts times a_scales_1x128[k/128][m], and B[n,k] times
// b_scales_1x128[k/128][n] or b_scales_128x128[n/128][k/128], for each batch, or of B each group of rows. A
// and B have them both. The sum of each 128 of k is multiplied by them, and goes to sums of f32 whatever
// fast_accumulation says. Scales that do not lie at multiples of 16 bytes, line by line, are copied as A is.
//
// Modes: where these are given, A, B and D are tensors whose modes lie as they say, which `contraction.h`
// finds for a contraction by name. m, n, k and batches are the products of their extents, and nothing but
// alpha goes with them. A stride that TMA does not take is copied, as a matrix is.
//
// Sizes: any. Where m, n or batches is 0 nothing is done; with k = 0 the sum is 0. As in BLAS, with alpha = 0
// A and B are not read, and with beta = 0 C is not.
//
// Placement: any stride and address that is a multiple of the element's size. TMA wants addresses, strides of
// rows and strides of batches that are multiples of 16 bytes (a stride counts where there is more than one
// row or batch): A or B that is not so placed is copied into the workspace first, which costs its bytes twice
// (read and written) in the GPU's memory, and a launch of some 3 us. What TMA cannot store of D, all or the
// last columns where rows do not end at a multiple, since it stores whole units, threads of the kernel store.
// C, and such a D, are copied only where their batches do not lie m strides apart.
//
// Workspace: as many bytes as workspace_bytes() says, at a multiple of 16, which may hold anything. It is the
// product's until that is done: products that may run at once need one each.
//
// Aliasing: D may be C itself (same address and strides). Every other overlap of D is an error, and every
// overlap of the workspace; A, B, C and bias may overlap as they like.
struct MatmulArguments {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  int64_t rows_of_a = 0, rows_of_d = 0;     // with a_rows and d_rows; else they have m
  DeviceMatrix a, b;                        // A as m rows of k, B as n rows of k,
  bool a_k_major = true, b_k_major = true;  // or, of 16-bit types: A as k rows of m, B as k rows of n
  DeviceMatrix d;                           // m rows of n
  float alpha = 1, beta = 0;
  Activation activation = Activation::none;
  ActivationUse use = ActivationUse::value;
  bool groups_of_k = false;
  const ProductModes* modes = nullptr;  // read during the call
  // The operands of product.def: m rows of n, where C is read with a beta, and inputs, whose batches have
  // no gaps between them, with ActivationUse::slope; and elements without gaps, and none of these
  // where there is no memory.
#define PTXBUILDER_MATRIX(name, ...) DeviceMatrix name = {};
#define PTXBUILDER_VECTOR(name, ...) runtime::View name = {};
#include "kernels/gemm/product.def"
  // These are for the parameters of MatmulOptions::epilogue, in their order.
  std::vector<runtime::Argument> epilogue = {};
  // The whole sum of e4m3 and e5m2 is left to the tensor core, which keeps about 14 bits of it.
  bool fast_accumulation = true;
  runtime::View workspace = {};
  runtime::Stream stream = {};  // the device's own unless said

  // The memory of an operand.
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

// The options of a Matmul, which hold for all of its calls.
struct MatmulOptions : CallOptions {
  UserEpilogue epilogue = {};  // of all its products
  // The tile of a product that comes for the first time. One call at a time.
  std::function<GemmTile(const GemmOperation&, const GemmSize&, int multiprocessors)> choose =
      kernels::choose;
  // Kernels come from it, else are compiled here. Several calls may come at once, for several kernels.
  std::function<std::unique_ptr<runtime::LoadedKernel>(const GemmOperation&, const GemmTile&)> load = nullptr;
};

// Keeps kernels and what was chosen for each product. The first call of a product, or of workspace_bytes()
// for it, takes milliseconds to choose, and some 0.2 s where its kernel is in no cache; those that follow
// take microseconds, ask the device for no memory, and wait for nothing, so that they may stand in a capture.
// A kernel that spills registers with an epilogue is taken all the same. Not to outlive its device. Any
// thread may call it at any time, also several at once.
class Matmul {
 public:
  // Throws Error when a ptxas is named that is not there.
  explicit Matmul(runtime::Device& device, MatmulOptions options = {});
  ~Matmul();
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  // Queues one product on the device. Throws Error that names the operand, the rule and the value: types and
  // storage that do not go together, sizes and strides beyond what a tensor map holds (2^31 - 4096 elements,
  // 2^40 bytes), a matrix that leaves its memory or is not aligned to its elements, D over what is read, too
  // small a workspace.
  void operator()(const MatmulArguments& arguments, Where where = Where::here());

  // The bytes of workspace that the product takes; 0 for most whose operands TMA takes where they lie, unless
  // they have few tiles and a long k. Throws Error as the product does.
  size_t workspace_bytes(const MatmulArguments& arguments, Where where = Where::here());

  // The tile that the product has now: the chosen one, or the one that tune() found. Throws Error as the
  // product does, and where nothing is to do (m, n or batches of 0), which takes no tile.
  GemmTile tile(const MatmulArguments& arguments, Where where = Where::here());

  // Finds the fastest of the model's first twelve tiles for the product, on this device, and takes it from
  // now on: as the user's file says, else by measuring for some 50 ms, and for seconds where kernels are in
  // no cache. A and B may hold anything, but power and so time follow what they hold; D is not touched, and C
  // is read. The host waits for the stream, and copies of A, B and D take device memory meanwhile, up to
  // twice the L2 or once what the product has. Results stay as they are from call to call; a tile that
  // divides k adds up in another order than others. Throws Error as the product does, on a device that is no
  // GPU, for a stream that is being captured, and with an epilogue of the user's own.
  void tune(const MatmulArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels
