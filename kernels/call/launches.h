// The launches of one call.
#pragma once

#include "kernels/call/operand.h"
#include "kernels/call/prepared_calls.h"

namespace ptxbuilder::kernels {

// Queues the launches of a call in their order, and where it `keeps` them, makes a PreparedCall of them.
class Launches {
 public:
  // The copier and the sources have to outlive this object. Errors name `where`.
  Launches(MatrixCopier& copier, std::span<const uint64_t> sources, runtime::Stream stream, bool keeps,
           Where where)
      : copier_(copier), sources_(sources), stream_(stream), keeps_(keeps), where_(where) {}

  std::span<const uint64_t> sources() const { return sources_; }
  // On the call's stream, whatever the options say. Throws Error as LoadedKernel::launch() does.
  void queue(runtime::LoadedKernel& kernel, runtime::LaunchOptions options, SourcedArguments& arguments);
  // Copies an operand to another place; each lies behind the address that is its source.
  void copy(const Operand& from, size_t from_source, const Operand& to, size_t to_source);

  bool keeps() const { return keeps_; }
  PreparedCall take() { return std::move(call_); }

 private:
  MatrixCopier& copier_;
  std::span<const uint64_t> sources_;
  runtime::Stream stream_;
  bool keeps_;
  Where where_;
  PreparedCall call_;
};

}  // namespace ptxbuilder::kernels
