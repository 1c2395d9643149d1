// Checks accesses to tensor memory against earlier accesses, and queues operations on tensor memory that are
// asynchronous to the threads.
#pragma once

#include <functional>

#include "runtime/emulator/decode/decoder.h"
#include "runtime/emulator/machine/machine.h"
#include "runtime/emulator/machine/tensor_memory.h"

namespace ptxbuilder::runtime::emulator {

// An address in tensor memory: the lane in its upper half and the column in its lower half.
struct TensorPlace {
  uint32_t lane, column;
  explicit TensorPlace(uint32_t address) : lane(address >> 16), column(address & 0xffff) {}
};

// Returns the CTA's tensor memory. Reports columns that are not allocated; `what` is a phrase such as "this
// writes".
TensorMemory& allocated_at(Warp& w, const TensorPlace& at, uint32_t count, const char* what, int lane);

// A product or a copy that a lane issues, as an access to shared memory and to tensor memory.
struct IssuedDeed {
  Access of_shared;
  TensorMemory::Deed of_tensor;
};
IssuedDeed issue(Warp& w, TensorMemory::Operation operation, int lane);

// Reports an earlier access to a column that is not ordered before an operation that the warp starts now.
void require_ordered(Warp& w, const TensorMemory::Deed& earlier, bool wrote, TensorMemory::Operation now,
                     uint32_t column, const char* what, int lane);

// Calls `complete` after the CTA's earlier products, copies and commits are done.
void put_behind(Warp& w, std::function<void()> complete);

void decode_tensor_copy(Decode& d);  // defined in tensor_copy.cpp

}  // namespace ptxbuilder::runtime::emulator
