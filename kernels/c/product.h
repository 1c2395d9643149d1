// Converts products of the C interface to the arguments that Matmul accepts.
#pragma once

#include <array>

#include "kernels/c/ptxb.h"
#include "kernels/gemm/matmul.h"

namespace ptxbuilder::c {

// The form of a product's tensor, which includes everything except its address.
class TensorForm {
 public:
  void set(const ptxb_tensor* t);
  bool is_of(const ptxb_tensor* t) const;
  bool is_given() const { return is_given_; }

 private:
  static constexpr size_t kMostRank = 3;
  ptxb_tensor tensor_ = {};
  std::array<int64_t, kMostRank> shape_ = {}, strides_ = {};
  bool is_given_ = false;
};

// The product that a thread read last. The next product usually differs from it only in addresses; reading
// the next product completely would take a third of the host's time for a call.
class LastProduct {
 public:
  // Converts a product; the result is valid until the thread's next read(). `device` identifies one device
  // permanently, and is not 0; `gpu` is the GPU's number, or negative for the emulator. Throws an Error that
  // names the operand and the rule if an operand breaks a rule.
  const kernels::MatmulArguments& read(const ptxb_matmul& p, uint64_t device, int gpu,
                                       runtime::View workspace, runtime::Stream stream);

 private:
  bool is_of(const ptxb_matmul& p, uint64_t device) const;
  void read_anew(const ptxb_matmul& p, uint64_t device, int gpu);
  void move(const ptxb_matmul& p);

  uint64_t device_ = 0;
  ptxb_matmul scalars_ = {};
  TensorForm a_, b_, d_;
  kernels::ByOperand<TensorForm> operands_;
  kernels::MatmulArguments arguments_;
};

}  // namespace ptxbuilder::c
