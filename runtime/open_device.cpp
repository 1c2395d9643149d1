#include "runtime/open_device.h"

#include <fmt/format.h>

#include <charconv>

#include "runtime/cuda_device.h"

namespace ptxbuilder::runtime {

// The emulator is a separate library, which a program may omit. Linking ptxbuilder::emulator adds it.
[[gnu::weak]] std::unique_ptr<Emulator> open_emulator(const EmulatorOptions&);

std::unique_ptr<Device> open_device(const std::string& name, const std::string& target,
                                    const EmulatorOptions& emulator, Where where) {
  CallersLine line(where);
  if (name == "emulator") {
    if (!open_emulator)
      throw Error(
          "device 'emulator': this program is not linked with the emulator; link ptxbuilder::emulator");
    return open_emulator(emulator);
  }
  std::optional<int> ordinal;
  if (constexpr std::string_view prefix = "cuda:"; name.starts_with(prefix)) {
    const char *first = name.data() + prefix.size(), *last = name.data() + name.size();
    int number = -1;
    const auto [rest, problem] = std::from_chars(first, last, number);
    if (problem == std::errc{} && rest == last && number >= 0) ordinal = number;
  }
  if (name != "cuda" && name != "auto" && !ordinal)
    throw Error(
        fmt::format("the device is '{}', but must be cuda, cuda:0, cuda:1, ..., emulator or auto", name));
  try {
    const AuthorsCode no_line;  // the message below ends with the line
    return open_cuda_device(target, "libcuda.so.1", ordinal);
  } catch (const Error& e) {
    if (name != "auto" || !open_emulator)
      throw Error(fmt::format("device '{}': {}", name, e.what()), e.kind());
    return open_emulator(emulator);
  }
}

}  // namespace ptxbuilder::runtime
