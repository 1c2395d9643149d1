// Copies of tensors whose modes come in another order, by a kernel of one's own: for operands that a product
// takes in no other way.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// Element (i, j, ..) is i from[0] + j from[1] + .. elements after the one address, and likewise after the
// other, where no two are in one place. Elements have 1, 2 or 4 bytes, to which addresses are aligned.
struct PermutedCopy {
  struct Mode {
    int64_t extent, from, to;
  };
  int element_bytes = 2;
  std::vector<Mode> modes;  // in any order
  runtime::View from = {}, to = {};
};

// A copy goes by blocks of 64 x 64 elements, and either axis goes along two modes: a block has `box`
// elements of the inner one, and 64 / box of the outer one. It is read along columns, and where the kernel
// `transposes` it is written along rows; accesses have `vector` elements.
struct PermutedCopyForm {
  static constexpr size_t kOuter = 5;

  struct Axis {
    PermutedCopy::Mode inner = {1, 0, 0}, outer = {1, 0, 0};
    int box = 64;
  };
  int element_bytes = 2, vector = 1;
  bool transposes = false;
  Axis rows, columns;
  std::vector<PermutedCopy::Mode> outer = {};  // kOuter of them
};
// Throws Error for a copy of more than 9 modes that do not fold.
PermutedCopyForm form_of(const PermutedCopy& copy);

// The kernel for all forms of these bytes, vectors, boxes and ways. Parameters: from, to (pointers); for the
// inner and the outer mode of rows and of columns, and for each outer mode, u32 extent, u64 from, to. Strides
// are in elements. Any grid (g, 1, 1) serves.
Kernel permuted_copy(const PermutedCopyForm& form);

// Loads a kernel when it is first needed, and keeps it. Any thread may call it at any time.
class PermutedCopier {
 public:
  PermutedCopier(runtime::Device& device, const LoadOptions& options);

  // Queued. Nothing between the elements of `to` is touched.
  void operator()(const PermutedCopy& copy, runtime::Stream stream);
  // Loads the kernel, which a capture could not wait for.
  void prepare(const PermutedCopy& copy) { kernel(form_of(copy)); }

 private:
  runtime::LoadedKernel& kernel(const PermutedCopyForm& form);

  runtime::Device& device_;
  Compiler compiler_;
  int multiprocessors_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, bool, int, int>, std::unique_ptr<runtime::LoadedKernel>> kernels_;
};

}  // namespace ptxbuilder::kernels
