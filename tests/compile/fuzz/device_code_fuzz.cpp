// A libFuzzer target for the reader of fatbins: every input is read or refused with an Error.
#include "ptxbuilder/compile/device_code.h"
#include "ptxbuilder/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    for (const auto& code : ptxbuilder::device_code({reinterpret_cast<const char*>(data), size}))
      (void)code.kernels();
  } catch (const ptxbuilder::Error&) {
  }
  return 0;
}
