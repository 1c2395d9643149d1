#include "kernels/call/launches.h"

namespace ptxbuilder::kernels {

std::vector<std::vector<SourcedCopy>> copies_together(std::span<const Copied> all) {
  std::vector<SourcedCopy> copies;
  for (const Copied& one : all)
    for (const MatrixCopy& copy : copies_of(one.from, one.to))
      copies.push_back({copy, one.from_source, one.to_source});
  if (copies.empty()) return {};
  if (copies.size() <= kCopiesTogether) return {copies};
  std::vector<std::vector<SourcedCopy>> launches;
  for (const SourcedCopy& one : copies) launches.push_back({one});
  return launches;
}

void prepare_copies(MatrixCopier& copier, const MovedOperands& moved) {
  for (const bool reads : {true, false}) {
    std::array<MatrixCopy, kCopiesTogether> together;
    size_t count = 0;
    for (const Moved& one : moved)
      for (size_t i = 0; one.is_read == reads && i < count_of_copies(*one.operand); ++i, ++count)
        if (count < together.size()) together[count].element_bytes = one.operand->element_bytes();
    if (count == 0) continue;
    if (count <= together.size())
      copier.prepare(std::span(together).first(count));
    else
      for (const Moved& one : moved) {
        together[0].element_bytes = one.operand->element_bytes();
        if (one.is_read == reads) copier.prepare(std::span(together).first(1));
      }
  }
}

namespace {

std::vector<MatrixCopy> matrices(std::span<const SourcedCopy> copies) {
  std::vector<MatrixCopy> all;
  for (const SourcedCopy& one : copies) all.push_back(one.copy);
  return all;
}

}  // namespace

void Launches::queue(runtime::LoadedKernel& kernel, runtime::LaunchOptions options,
                     SourcedArguments& arguments) {
  options.stream = stream_;
  kernel.launch(options, arguments.list(), where_);
  keeps_ = keeps_ && ++count_ <= kMostKept;
  if (keeps_) call_.add(kernel, options, arguments, where_);
}

void Launches::copy(std::span<const Copied> all) {
  for (const std::vector<SourcedCopy>& together : copies_together(all)) {
    const CopyLaunch launch = copier_.launch_of(matrices(together), stream_);
    SourcedArguments arguments(sources_, launch.arguments.size());
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      const SourcedCopy& one = together[i / kCopyParameters];
      const size_t parameter = i % kCopyParameters;  // the first two parameters are `from` and `to`
      arguments.add(parameter == 0   ? one.from_source
                    : parameter == 1 ? one.to_source
                                     : SourcedArguments::kNone,
                    [&] { return launch.arguments[i]; });
    }
    queue(*launch.kernel, launch.options, arguments);
  }
}

}  // namespace ptxbuilder::kernels
