#include "kernels/call/launches.h"

namespace ptxbuilder::kernels {

void Launches::queue(runtime::LoadedKernel& kernel, runtime::LaunchOptions options,
                     SourcedArguments& arguments) {
  options.stream = stream_;
  kernel.launch(options, arguments.list(), where_);
  if (keeps_) call_.add(kernel, options, arguments, where_);
}

void Launches::copy(const Operand& from, size_t from_source, const Operand& to, size_t to_source) {
  for (const MatrixCopy& one : copies_of(from, to)) {
    const CopyLaunch copy = copier_.launch_of({&one, 1}, stream_);
    SourcedArguments arguments(sources_, kCopyParameters);
    for (size_t i = 0; i < copy.arguments.size(); ++i)  // from and to come first
      arguments.add(i == 0   ? from_source
                    : i == 1 ? to_source
                             : SourcedArguments::kNone,
                    [&] { return copy.arguments[i]; });
    queue(*copy.kernel, copy.options, arguments);
  }
}

}  // namespace ptxbuilder::kernels
