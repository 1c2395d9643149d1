#include "kernels/call/prepared_calls.h"

#include <algorithm>
#include <array>

#include "kernels/call/operand.h"

namespace ptxbuilder::kernels {

bool is_sound_workspace(const runtime::View& workspace, size_t bytes,
                        std::initializer_list<runtime::View> operands) {
  if (bytes == 0) return true;
  const runtime::View used = {workspace.address, bytes};
  return workspace.bytes >= bytes && used.address != 0 && used.address % kTma == 0 &&
         std::ranges::all_of(operands, [&](const runtime::View& x) { return lie_apart(used, x); });
}

uint64_t next_number_of_calls() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

void PreparedCall::add(runtime::LoadedKernel& kernel, runtime::LaunchOptions options,
                       SourcedArguments& arguments, Where where) {
  if (options.grid.x == 0) options.grid = kernel.grid(arguments.list(), where);
  steps_.push_back({kernel.prepare(options, arguments.list(), where), arguments.from()});
}

void PreparedCall::operator()(std::span<const uint64_t> sources, runtime::Stream stream) const {
  constexpr size_t kOnStack = 32;
  for (const Step& step : steps_) {
    const size_t count = step.from.size();
    std::array<uint64_t, kOnStack> few;
    std::vector<uint64_t> many(count > kOnStack ? count : 0);
    uint64_t* values = many.empty() ? few.data() : many.data();
    for (size_t i = 0; i < count; ++i) values[i] = sources[step.from[i].source] + step.from[i].more;
    step.launch({values, count}, stream);
  }
}

}  // namespace ptxbuilder::kernels
