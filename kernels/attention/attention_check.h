// Checks attention's arguments, and returns the arguments for the kernel.
#pragma once

#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/call/engine.h"

namespace ptxbuilder::kernels {

// The outer dimensions of Q, K, V and O as operands.
enum : size_t { kRows, kHeads, kBatches };

Operand heads_operand(const char* name, const DeviceHeads& heads, DType type, int64_t columns, int64_t rows,
                      int64_t head_count, int64_t batches);

// A call as the kernel sees it. With a single query, the heads that share keys become its rows, and only the
// keys that the query sees remain. With few queries, some of these heads become rows too
// (AttentionOperation::heads_in_rows): then `size` counts rows as queries, but Q and O are as the caller gave
// them.
struct PlacedAttention {
  AttentionOperation operation;
  AttentionSize size;
  // Operands that are not given have no elements.
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) Operand name;
#include "kernels/attention/attention.def"
  bool is_empty = false;  // there is nothing to do

  // Returns whether the kernel can write O in place without writing beyond its rows.
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
  bool is_tunable() const { return !operation.has_latent_values(); }  // latent values have only one tile
};

// Returns whether a number of attention.def is in its range.
inline bool is_number(float x, double below) { return x >= 0 && x < below; }

// `heads_as_rows` says whether heads that share keys may become rows. Throws Error that names the operand,
// the rule and the value.
PlacedAttention checked(const AttentionArguments& arguments, bool heads_as_rows, Where where);

}  // namespace ptxbuilder::kernels
