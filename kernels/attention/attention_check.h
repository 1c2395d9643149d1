// Checks the arguments of attention, and converts them into the arguments for the kernel.
#pragma once

#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/call/engine.h"

namespace ptxbuilder::kernels {

// Indices of the outer dimensions of Q, K, V and O as operands.
enum : size_t { kRows, kHeads, kBatches };

Operand heads_operand(const char* name, const DeviceHeads& heads, DType type, int64_t columns, int64_t rows,
                      int64_t head_count, int64_t batches);

// A call, as it is passed to the kernel. If there is a single query, the heads that share keys become its
// rows, and only the keys that the query sees remain. If there are few queries, some of these heads also
// become rows (AttentionOperation::heads_in_rows): `size` then counts rows as queries, but the operands Q and
// O remain as the caller passed them.
struct PlacedAttention {
  AttentionOperation operation;
  AttentionSize size;
  // The operands. Omitted operands have no elements.
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) Operand name;
#include "kernels/attention/attention.def"
  bool is_empty = false;  // true: there is nothing to do

  // Returns whether the kernel can write O in place without overwriting memory after its rows.
  bool stores_in_place() const;
  std::vector<const Operand*> operands() const {
    return {
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) &name,
#include "kernels/attention/attention.def"
    };
  }
  MovedOperands moved();
  std::vector<Operand*> read() { return {&q, &k, &v}; }
  std::vector<Operand*> written() { return {&o}; }
  bool pads_written() const { return true; }
  // Returns whether there are several tiles to choose from. Latent values have only one.
  bool is_tunable() const { return !operation.has_latent_values(); }
};

// Returns whether a number of attention.def is in the range from 0 to `below`, exclusive.
inline bool is_number(float x, double below) { return x >= 0 && x < below; }

// Checks the arguments and returns the call for the kernel. If `heads_as_rows`, heads that share keys may
// become rows. Throws an Error that names the operand, the violated rule and the value.
PlacedAttention checked(const AttentionArguments& arguments, bool heads_as_rows, Where where);

}  // namespace ptxbuilder::kernels
