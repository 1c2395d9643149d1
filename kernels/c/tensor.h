// Reads the tensors that C programs pass.
#pragma once

#include "kernels/c/ptxb.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"
#include "runtime/argument.h"

namespace ptxbuilder::c {

[[noreturn]] void refuse_null(const char* what);  // throws Error, for example "the product is NULL"
template <class T>
T& given(T* pointer, const char* what) {
  if (!pointer) refuse_null(what);
  return *pointer;
}

// Returns the DType that corresponds to a ptxb_dtype. If it is not supported, throws an Error whose message
// begins with `name`.
DType dtype_of(ptxb_dtype type, const char* name);

inline runtime::Address address_of(const void* pointer) {
  return reinterpret_cast<runtime::Address>(pointer);
}

// A tensor whose device and extents have been checked.
struct Placed {
  const char* name;
  const ptxb_tensor& tensor;
  DType type;

  // `gpu` is the number of the GPU that the tensor must be on, or negative for the emulator.
  Placed(const char* the_name, const ptxb_tensor* the_tensor, int gpu,
         size_t most_rank = runtime::Argument::kMaxRank);

  size_t rank() const { return static_cast<size_t>(tensor.ndim); }
  int64_t extent(size_t i) const { return tensor.shape[i]; }
  // Returns the stride of dimension i in elements. C programs may omit the strides of a tensor without gaps.
  int64_t stride(size_t i) const {
    if (tensor.strides) return tensor.strides[i];
    int64_t compact = 1;
    for (size_t inner = rank(); --inner > i;) compact *= extent(inner);
    return compact;
  }

  // Returns the memory from the first element to the last element.
  runtime::View memory() const;

 protected:
  using Wide = __int128;  // for products of extents and strides
  runtime::Address address() const { return address_of(tensor.data) + tensor.byte_offset; }
  runtime::View up_to(Wide last_element) const;
};

// These functions read operands without gaps that are not matrices; for NULL, they return an empty view.
// one_float() reads a single float32. elements_of_lines() reads one element for each row or column of
// `batches` matrices. The shape of its operand is [count], or [rows,columns] after the batches, with `rows`
// or `columns` equal to 1. `of` describes the type in errors.
runtime::View one_float(const char* name, const ptxb_tensor* tensor, int gpu);
runtime::View elements_of_lines(const char* name, const ptxb_tensor* tensor, DType type,
                                const std::string& of, int64_t rows, int64_t columns, int64_t batches,
                                int gpu);

}  // namespace ptxbuilder::c
