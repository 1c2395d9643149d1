// Copies of tensors whose modes change their order, with a separate kernel: for operands that a product takes
// in no other way.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// Element (i, j, ..) is i from[0] + j from[1] + .. elements after the source address, and likewise after the
// destination, where no two share a place. Elements have 1, 2 or 4 bytes, to which addresses are aligned.
struct PermutedCopy {
  struct Mode {
    int64_t extent, from, to;
  };
  int element_bytes = 2;
  std::vector<Mode> modes;  // in any order
  runtime::View from = {}, to = {};
};

// A copy is divided into blocks of 64 x 64 elements, and either axis extends along two modes: a block has
// `box` elements of the inner mode, and 64 / box of the outer one. It is read along columns, and written
// along rows if the kernel `transposes`; accesses have `vector` elements.
struct PermutedCopyForm {
  static constexpr size_t kMost = 9;  // modes

  struct Axis {
    PermutedCopy::Mode inner = {1, 0, 0}, outer = {1, 0, 0};
    int box = 64;
  };
  int element_bytes = 2, vector = 1;
  bool transposes = false;
  Axis rows, columns;
  std::vector<PermutedCopy::Mode> outer = {};
};
// Throws Error for a copy of more than 9 modes that do not fold.
PermutedCopyForm form_of(const PermutedCopy& copy);

// A kernel depends on this alone: the bytes, the vectors, the direction, the boxes, and which modes there
// are.
using PermutedCopyKind = std::array<int, 8>;
PermutedCopyKind kind_of(const PermutedCopyForm& form);

// Returns the kernel for all forms of a kind. Parameters: from, to (pointers); for the inner and the outer
// mode of rows and of columns, and for each outer mode, u32 extent, u64 from, to. Strides are in elements.
// Any grid (g, 1, 1) may be used.
Kernel permuted_copy(const PermutedCopyForm& form);

// Loads a kernel when it is first needed, and keeps it. Any thread may call it at any time.
class PermutedCopier {
 public:
  PermutedCopier(runtime::Device& device, const LoadOptions& options);

  // Queues one copy. Memory between the elements of `to` is not touched.
  void operator()(const PermutedCopy& copy, runtime::Stream stream);
  // Loads the kernel, because a capture could not wait for loading.
  void prepare(const PermutedCopy& copy) { kernel(form_of(copy)); }

 private:
  runtime::LoadedKernel& kernel(const PermutedCopyForm& form);

  runtime::Device& device_;
  Compiler compiler_;
  int multiprocessors_;
  std::mutex mutex_;
  std::map<PermutedCopyKind, std::unique_ptr<runtime::LoadedKernel>> kernels_;
};

}  // namespace ptxbuilder::kernels
