#include "kernels/simulate/triton.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ptxbuilder/error.h"
#include "ptxbuilder/file_text.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/json_text.h"

namespace ptxbuilder::command {

TritonKernel triton_kernel(const std::filesystem::path& folder) {
  auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("{}: it is not a folder of Triton's cache: {}", folder.string(), what));
  };
  TritonKernel kernel;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".ptx") continue;
    if (!kernel.ptx.empty()) refuse("it has several .ptx files; name one of them");
    kernel.ptx = file.path();
  }
  if (kernel.ptx.empty()) refuse("it has no .ptx file; each kernel has a folder of its own there");
  const std::string name = std::filesystem::path(kernel.ptx).replace_extension(".json").string();
  const auto json = parse_json(file_text(name), name);
  auto number = [&](const char* member, uint64_t least, uint64_t most) {
    if (!json.is_object() || !json.contains(member) || !json[member].is_number_unsigned())
      refuse(fmt::format("{} has no number \"{}\"", name, member));
    const auto value = json[member].get<uint64_t>();
    if (value < least || value > most)
      refuse(fmt::format("{}: \"{}\" is {}, but must be {} to {}", name, member, value, least, most));
    return static_cast<uint32_t>(value);
  };
  kernel.signature.kernel = kernel.ptx.stem().string();
  kernel.signature.threads = 32 * number("num_warps", 1, 32);
  kernel.signature.cluster = {number("num_ctas", 1, hopper::largest_cluster), 1, 1};
  kernel.signature.dynamic_shared_bytes = number("shared", 0, hopper::shared_bytes);
  for (const char* member : {"global_scratch_size", "profile_scratch_size"})
    if (json.contains(member)) kernel.scratch.push_back(number(member, 0, uint32_t{1} << 30));
  return kernel;
}

}  // namespace ptxbuilder::command
