// Queues the launches of a call, including the copies of its operands.
#pragma once

#include "kernels/call/operand.h"
#include "kernels/call/prepared_calls.h"

namespace ptxbuilder::kernels {

// An operand that the kernel cannot access in place. It is copied into the workspace before the kernel runs,
// or out of the workspace afterwards.
struct Moved {
  Operand* operand;
  size_t source;
  bool is_read;
};
// A list of up to eight operands that allocates no heap memory.
class MovedOperands {
 public:
  void add(Operand& operand, size_t source, bool is_read) { all_.at(count_++) = {&operand, source, is_read}; }
  const Moved* begin() const { return all_.data(); }
  const Moved* end() const { return all_.data() + count_; }

 private:
  std::array<Moved, 8> all_;
  size_t count_ = 0;
};

// Loads the kernels that copy the operands, because a capture could not wait for loading. Allocates no heap
// memory if they are already loaded.
void prepare_copies(MatrixCopier& copier, const MovedOperands& moved);

// A copy of an operand. Both the address of the original and the address of the copy consist of one of the
// call's sources and an offset.
struct Copied {
  Operand from;
  size_t from_source;
  Operand to;
  size_t to_source;
};
struct SourcedCopy {
  MatrixCopy copy;
  size_t from_source, to_source;
};
// Returns the copies of all operands, grouped by launch. If there are at most kCopiesTogether copies, they
// share a launch, so that the operands of a product need only one launch. If there are more, for instance
// because of many batches, each copy has its own launch, and all launches use the same kernel.
inline constexpr size_t kCopiesTogether = 3;
std::vector<std::vector<SourcedCopy>> copies_together(std::span<const Copied> all);
// Queues the launches of a call in order. If `keeps` is set, also stores them as a PreparedCall.
class Launches {
 public:
  // The copier and the sources must outlive this object. Errors name `where`.
  Launches(MatrixCopier& copier, std::span<const uint64_t> sources, runtime::Stream stream, bool keeps,
           Where where)
      : copier_(copier), sources_(sources), stream_(stream), keeps_(keeps), where_(where) {}

  std::span<const uint64_t> sources() const { return sources_; }
  // A call with more launches than this, such as a call that copies many batches, is not stored.
  static constexpr size_t kMostKept = 64;

  // Queues a launch on the call's stream; the stream in the options is ignored. Throws Error when
  // LoadedKernel::launch() does.
  void queue(runtime::LoadedKernel& kernel, runtime::LaunchOptions options, SourcedArguments& arguments);
  // Copies operands, in launches that copies_together() groups.
  void copy(std::span<const Copied> all);

  bool keeps() const { return keeps_; }
  PreparedCall take() { return std::move(call_); }

 private:
  MatrixCopier& copier_;
  std::span<const uint64_t> sources_;
  runtime::Stream stream_;
  bool keeps_;
  size_t count_ = 0;
  Where where_;
  PreparedCall call_;
};

}  // namespace ptxbuilder::kernels
